//! Where a server of these tests runs: a shell with a directory and, where the system allows it, mounts of its own. The shell
//! starts servers and outlives them, so that what is mounted stays while they come and go.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use reqwest::blocking::Client;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_bailiwick");
const TOKENS: &str = "admin-token,admin,admin-uid,system:masters\n";
/// Far more than anything here takes; only a bug runs into it.
const DEADLINE: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// See the module.
pub struct Place {
    shell: Child,
    directory: TempDir,
    /// Numbers the files that commands leave.
    commands: usize,
}

/// What came of starting a server.
pub enum Outcome {
    Serving(Server),
    /// It ended before it was ready.
    Ended {
        code: i32,
        said: String,
    },
}

impl Outcome {
    pub fn serving(self) -> Result<Server> {
        match self {
            Outcome::Serving(server) => Ok(server),
            Outcome::Ended { code, said } => bail!("it ended with {code}: {said}"),
        }
    }

    /// What it said when it refused to start.
    pub fn refusal(self) -> Result<String> {
        match self {
            Outcome::Serving(_) => bail!("it serves"),
            Outcome::Ended { code, said } => {
                ensure!(code == 1, "it ended with {code}: {said}");
                Ok(said)
            }
        }
    }
}

impl Place {
    pub fn ordinary() -> Result<Self> {
        Self::with_shell(Command::new("sh"))
    }

    /// A place that can mount; `None`, and a line that says so, where the system does not allow it.
    pub fn with_mounts() -> Result<Option<Self>> {
        let allowed = Command::new("unshare").args(["-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]).output();
        if !allowed.as_ref().is_ok_and(|output| output.status.success()) {
            bailiwick_testkit::skip(format_args!("unshare -rm cannot mount here: {allowed:?}"));
            return Ok(None);
        }
        let mut shell = Command::new("unshare");
        shell.args(["-rm", "sh"]);
        Self::with_shell(shell).map(Some)
    }

    fn with_shell(mut shell: Command) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        std::fs::write(directory.path().join("tokens.csv"), TOKENS)?;
        std::fs::create_dir(directory.path().join("disk"))?;
        // What commands print goes to files; the shell itself only tells of servers that were killed.
        shell.current_dir(directory.path()).stdin(Stdio::piped()).stderr(Stdio::null());
        let shell = shell.spawn().context("starting a shell")?;
        Ok(Self { shell, directory, commands: 0 })
    }

    /// A file outside of what is mounted.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The data directory as its owner sees it; not to be looked into from outside where something is mounted on `disk`.
    pub fn data_dir(&self) -> PathBuf {
        self.path("disk/data")
    }

    /// Runs a line of shell and gives what it printed.
    pub fn run(&mut self, line: &str) -> Result<String> {
        self.commands += 1;
        let (out, code) = (format!("out-{}", self.commands), format!("code-{}", self.commands));
        self.tell(&format!("({line}) >{out} 2>&1 </dev/null; echo $? >{code}.new; mv {code}.new {code}"))?;
        let code = self.await_file(&code)?;
        let output = std::fs::read_to_string(self.path(&out))?;
        ensure!(code.trim() == "0", "{line}: {code} {output}");
        Ok(output)
    }

    /// Starts a server with `environment` (`NAME=value …`) and waits until it serves or has ended.
    pub fn serve(&mut self, environment: &str) -> Result<Outcome> {
        self.commands += 1;
        let [out, log, pid, code] = ["out", "log", "pid", "code"].map(|name| format!("{name}-{}", self.commands));
        let data = self.data_dir();
        self.tell(&format!(
            "(env {environment} {BINARY} serve --listen 127.0.0.1:0 --data-dir {} --token-auth-file tokens.csv \
             >{out} 2>{log} </dev/null & echo $! >{pid}; wait $!; echo $? >{code}.new; mv {code}.new {code}) &",
            data.display()
        ))?;
        let begun = Instant::now();
        loop {
            let said = std::fs::read_to_string(self.path(&out)).unwrap_or_default();
            if let Some(url) = said.split([' ', ';']).find(|word| word.starts_with("https://") && said.contains('\n')) {
                let pid = self.await_file(&pid)?.trim().to_owned();
                let (url, log, code) = (url.to_owned(), self.path(&log), self.path(&code));
                return Ok(Outcome::Serving(Server { client: client()?, url, pid, log, code }));
            }
            if let Ok(code) = std::fs::read_to_string(self.path(&code)) {
                let said = std::fs::read_to_string(self.path(&log))?;
                return Ok(Outcome::Ended { code: code.trim().parse()?, said });
            }
            ensure!(begun.elapsed() < DEADLINE, "neither ready nor ended: {said}");
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    fn tell(&mut self, line: &str) -> Result<()> {
        let input = self.shell.stdin.as_mut().context("invariant: the shell's input is piped")?;
        writeln!(input, "{line}")?;
        Ok(input.flush()?)
    }

    fn await_file(&self, name: &str) -> Result<String> {
        await_file(&self.path(name))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Servers are ended by their own values; the shell ends with its input.
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

/// A server that was ready once; killed when dropped.
pub struct Server {
    client: Client,
    url: String,
    pid: String,
    log: PathBuf,
    code: PathBuf,
}

impl Server {
    pub fn request(&self, method: Method, path: &str, body: Option<Value>) -> Result<(StatusCode, Value)> {
        let mut request = self.client.request(method, format!("{}{path}", self.url)).bearer_auth("admin-token");
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        let answer = request.send()?;
        Ok((answer.status(), answer.json().unwrap_or_default()))
    }

    pub fn get(&self, path: &str) -> Result<(StatusCode, Value)> {
        self.request(Method::GET, path, None)
    }

    /// Creates a ConfigMap in `default` with a value of so many bytes.
    pub fn create(&self, name: &str, bytes: usize) -> Result<(StatusCode, Value)> {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": "x".repeat(bytes)},
        });
        self.request(Method::POST, "/api/v1/namespaces/default/configmaps", Some(map))
    }

    /// Fails unless every one of these ConfigMaps is there.
    pub fn expect_all(&self, names: &[String]) -> Result<()> {
        for name in names {
            let (status, _) = self.get(&format!("/api/v1/namespaces/default/configmaps/{name}"))?;
            ensure!(status == 200, "{name} was acknowledged and is gone: {status}");
        }
        Ok(())
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Ends it as `kill -9` does.
    pub fn kill(self) -> Result<()> {
        self.signal("KILL")?;
        await_file(&self.code).map(drop)
    }

    /// Ends it by SIGTERM, which must go well.
    pub fn terminate(self) -> Result<()> {
        self.signal("TERM")?;
        let code = await_file(&self.code)?;
        ensure!(code.trim() == "0", "it ended with {code}: {}", self.log());
        Ok(())
    }

    fn signal(&self, name: &str) -> Result<()> {
        let status = Command::new("kill").args([&format!("-{name}"), &self.pid]).status()?;
        ensure!(status.success(), "kill -{name} {}: {status}", self.pid);
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !self.code.exists() {
            // Nothing to be done about a process that is already gone.
            let _ = self.signal("KILL");
            let _ = await_file(&self.code);
        }
    }
}

/// Certificates are not checked: the clock of some servers here is not ours.
fn client() -> Result<Client> {
    Ok(Client::builder().danger_accept_invalid_certs(true).timeout(DEADLINE).build()?)
}

fn await_file(path: &Path) -> Result<String> {
    let mut found = None;
    eventually(&format!("{} appears", path.display()), || {
        found = std::fs::read_to_string(path).ok().filter(|text| text.ends_with('\n'));
        Ok(found.is_some())
    })?;
    found.context("invariant: it was found")
}

/// Asks until the answer is yes.
pub fn eventually(what: &str, mut ask: impl FnMut() -> Result<bool>) -> Result<()> {
    let begun = Instant::now();
    while !ask()? {
        ensure!(begun.elapsed() < DEADLINE, "it takes too long until {what}");
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}
