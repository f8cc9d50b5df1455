//! `cargo xtask bench --fresh-definitions N`: servers that are given N definitions of 30 properties and nothing else. How long
//! until all are served, what each costs in memory, `kubectl explain` from a cold cache, and the restart after a `kill -9`.
//! A server that takes more memory than this machine can spare is ended, and how far it came is told.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::{cpu_seconds, drive, rss_mib, sum_of};
use crate::conformance::servers::Running;
use crate::tools;

/// So many definitions are created before anything is said: ten thousand take the peer most of an hour.
const CHUNK: u32 = 500;
/// How often memory is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How often `kubectl explain` is measured; the best counts.
const EXPLAINED: u32 = 3;

/// What a server did.
#[derive(Default)]
pub struct Figures {
    /// Definitions that were served before it was ended.
    pub served: u32,
    pub seconds: f64,
    pub cpu_seconds: f64,
    /// Resident for each definition.
    pub kib_each: f64,
    pub rss_mib: f64,
    pub explain_seconds: f64,
    pub restart_seconds: f64,
}

/// How a server is started again on what it has stored.
pub type Restart<'a> = &'a dyn Fn(Running) -> Result<Running>;

/// Measures one server.
pub fn measure(
    name: &str,
    running: Running,
    restart: Restart<'_>,
    loadgen: &Path,
    wanted: u32,
    memory_mib: f64,
) -> Result<Figures> {
    let pids = running.pids();
    let used = |of: fn(u32) -> f64| pids.iter().map(|pid| of(*pid)).sum::<f64>();
    let (empty, cpu) = (used(rss_mib), used(cpu_seconds));
    let guard = Guard::start(pids.clone(), memory_mib);
    let mut figures = Figures::default();
    while figures.served < wanted {
        let to = (figures.served + CHUNK).min(wanted);
        let settle = if to == wanted { "60" } else { "0" };
        let arguments = format!("crds --from {} --to {to} --c 8 --settle {settle} --timeout 3000", figures.served);
        let arguments: Vec<String> = arguments.split_whitespace().map(str::to_owned).collect();
        match drive(loadgen, &running, &arguments) {
            Ok(answer) => figures.seconds += sum_of(&answer, "last_served_secs"),
            Err(_) if guard.struck() => {
                println!("{name}: ended at {memory_mib:.0} MiB, after {} definitions", figures.served);
                return Ok(figures);
            }
            Err(error) => return Err(error),
        }
        figures.served = to;
        figures.rss_mib = used(rss_mib);
        figures.cpu_seconds = used(cpu_seconds) - cpu;
        figures.kib_each = (figures.rss_mib - empty) * 1024.0 / f64::from(to);
        println!(
            "{name}: {to} definitions after {:.1} s and {:.1} CPU s, {:.0} MiB, {:.1} KiB each",
            figures.seconds, figures.cpu_seconds, figures.rss_mib, figures.kib_each
        );
    }
    figures.explain_seconds = explain(&running)?;
    let begin = Instant::now();
    let _running = restart(running)?;
    figures.restart_seconds = begin.elapsed().as_secs_f64();
    Ok(figures)
}

/// The best of a few, each with a cache of its own.
fn explain(running: &Running) -> Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..EXPLAINED {
        let home = tempfile::tempdir()?;
        let begin = Instant::now();
        let status = Command::new(tools::require("kubectl-1.36")?)
            .args(["explain", "things7.spec", "--token", "admin-token", "--insecure-skip-tls-verify", "--server"])
            .arg(running.server.base())
            .args(["--kubeconfig", "/dev/null"])
            .env("HOME", home.path())
            .stdout(Stdio::null())
            .status()
            .context("running kubectl")?;
        ensure!(status.success(), "kubectl explain failed");
        best = best.min(begin.elapsed().as_secs_f64());
    }
    Ok(best)
}

/// Ends a server before it takes the machine down.
struct Guard {
    struck: Arc<AtomicBool>,
    over: Arc<AtomicBool>,
}

impl Guard {
    fn start(pids: Vec<u32>, memory_mib: f64) -> Self {
        let guard = Self { struck: Arc::default(), over: Arc::default() };
        let (struck, over) = (guard.struck.clone(), guard.over.clone());
        std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                if pids.iter().map(|pid| rss_mib(*pid)).sum::<f64>() > memory_mib {
                    struck.store(true, Ordering::Relaxed);
                    let server = pids.first().map(u32::to_string).unwrap_or_default();
                    let _ = Command::new("kill").args(["-9", &server]).status();
                    return;
                }
                std::thread::sleep(LOOK);
            }
        });
        guard
    }

    fn struck(&self) -> bool {
        self.struck.load(Ordering::Relaxed)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}
