//! One process of the cluster: an etcd member or a server. It can be killed, told to end, frozen and started again; its
//! output goes to a log.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::process::{Child, Command};
use tokio::sync::Mutex;

/// How long a process may take to become healthy, on a busy machine and with a cluster that has just lost a member.
const START_TIMEOUT: Duration = Duration::from_secs(90);
/// How often health is asked for.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long a process may take to end when told to: the drain of ten seconds and what comes around it.
const STOP_TIMEOUT: Duration = Duration::from_secs(40);
/// Lines of a log that are shown when its process ended by itself.
const LOG_LINES: usize = 12;

/// What a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Etcd,
    Server,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Etcd => "etcd member",
            Kind::Server => "server",
        }
    }
}

/// See the module.
pub struct Machine {
    pub name: String,
    pub kind: Kind,
    /// Where clients reach it.
    pub url: String,
    health: String,
    program: PathBuf,
    arguments: Vec<String>,
    log: PathBuf,
    http: reqwest::Client,
    process: Mutex<Option<Child>>,
}

/// How a process came up.
pub struct Started {
    pub took: Duration,
    /// How often it ended before it was healthy; whoever supervises it starts it again.
    pub attempts_failed: usize,
}

impl Machine {
    pub fn new(
        kind: Kind,
        index: usize,
        url: String,
        program: &Path,
        arguments: Vec<String>,
        directory: &Path,
    ) -> Self {
        let (name, path) = match kind {
            Kind::Etcd => (format!("etcd-{index}"), "/health"),
            Kind::Server => (format!("server-{index}"), "/readyz"),
        };
        // Only asks whether the process answers; the workload checks certificates.
        let http = reqwest::Client::builder().danger_accept_invalid_certs(true).timeout(Duration::from_secs(5));
        Self {
            kind,
            health: format!("{url}{path}"),
            url,
            program: program.to_owned(),
            arguments,
            log: directory.join(format!("{name}.log")),
            name,
            http: http.build().unwrap_or_default(),
            process: Mutex::new(None),
        }
    }

    /// Starts the process and waits until it is healthy. One that ends before is started again, as a supervisor does it.
    pub async fn start(&self) -> Result<Started> {
        let begun = Instant::now();
        self.spawn().await?;
        let mut attempts_failed = 0;
        loop {
            if self.is_healthy().await {
                return Ok(Started { took: begun.elapsed(), attempts_failed });
            }
            if begun.elapsed() > START_TIMEOUT {
                bail!("{} is not healthy after {START_TIMEOUT:?}:\n{}", self.name, self.last_words());
            }
            if self.has_ended().await.is_some() {
                attempts_failed += 1;
                self.spawn().await?;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Starts the process without waiting for it.
    pub async fn spawn(&self) -> Result<()> {
        let log = File::options().create(true).append(true).open(&self.log)?;
        let child = Command::new(&self.program)
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("starting {}", self.program.display()))?;
        *self.process.lock().await = Some(child);
        Ok(())
    }

    pub async fn is_healthy(&self) -> bool {
        let Ok(answer) = self.http.get(&self.health).send().await else { return false };
        let ok = answer.status().is_success();
        let text = answer.text().await.unwrap_or_default();
        ok && (self.kind == Kind::Server || text.contains("\"health\":\"true\""))
    }

    /// How the process ended, if it has by itself.
    pub async fn has_ended(&self) -> Option<ExitStatus> {
        self.process.lock().await.as_mut()?.try_wait().ok().flatten()
    }

    /// As a power failure does it.
    pub async fn kill(&self) {
        if let Some(mut process) = self.process.lock().await.take() {
            // Nothing to be done about a process that is already gone.
            let _ = process.kill().await;
        }
    }

    /// As an operator does it: SIGTERM. How it ended, and after how long.
    pub async fn terminate(&self) -> Result<(ExitStatus, Duration)> {
        let begun = Instant::now();
        self.signal("TERM").await?;
        let mut process = self.process.lock().await.take().context("invariant: a signalled process is there")?;
        match tokio::time::timeout(STOP_TIMEOUT, process.wait()).await {
            Ok(status) => Ok((status?, begun.elapsed())),
            Err(_) => {
                let _ = process.kill().await;
                bail!("{} did not end within {STOP_TIMEOUT:?} of SIGTERM", self.name)
            }
        }
    }

    /// Sends a signal by name: STOP freezes a process with its connections open, CONT thaws it.
    pub async fn signal(&self, name: &str) -> Result<()> {
        let process = self.process.lock().await;
        let id = process.as_ref().and_then(Child::id).with_context(|| format!("{} does not run", self.name))?;
        let status = Command::new("kill").args([&format!("-{name}"), &id.to_string()]).status().await?;
        anyhow::ensure!(status.success(), "kill -{name} {id}: {status}");
        Ok(())
    }

    /// The end of its log.
    pub fn last_words(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines.get(lines.len().saturating_sub(LOG_LINES)..).unwrap_or_default().join("\n")
    }
}
