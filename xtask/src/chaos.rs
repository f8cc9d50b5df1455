//! `cargo xtask chaos`: three servers on three etcd members, killed, stopped, paused and restarted at random under
//! writers, informers and controllers. Afterwards everything that was promised is checked: no acknowledged write lost, no
//! stale read, no watch event missed, repeated or out of order, controllers done, a rolling restart nobody notices.

mod check;
mod client;
mod cluster;
mod families;
mod informer;
mod machine;
mod monkey;
mod report;
mod rolling;
mod workload;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::conformance::servers;
use crate::setup;
use crate::tools::{TEST_TOOLS, tools_dir};
use cluster::Cluster;
use report::Findings;
use workload::Workload;

/// How often progress is printed.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

/// How to run it.
#[derive(clap::Args)]
pub struct Args {
    /// How long processes are killed, stopped and paused.
    #[arg(long, default_value_t = 10.0)]
    pub minutes: f64,
    /// Chooses what happens to whom and when; printed, so that a run can be tried again.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Use this bailiwick program instead of building it.
    #[arg(long)]
    pub bailiwick: Option<PathBuf>,
    /// How long etcd keeps history, at least. The shorter, the more often watches and caches find it gone.
    #[arg(long, default_value = "15s")]
    pub history: String,
    /// Keep data and logs of all processes here.
    #[arg(long)]
    pub keep: Option<PathBuf>,
}

/// Runs the storm and prints what came of it; an error when something promised did not hold.
pub fn run(args: &Args) -> Result<()> {
    setup::install(TEST_TOOLS, &tools_dir()?)?;
    let binary = match &args.bailiwick {
        Some(path) => path.clone(),
        None => servers::build_bailiwick()?,
    };
    let seed = args.seed.unwrap_or_else(|| {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        u64::from(since.subsec_nanos())
    });
    let temporary = tempfile::tempdir()?;
    let directory = args.keep.clone().unwrap_or_else(|| temporary.path().to_owned());
    std::fs::create_dir_all(&directory)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let length = Duration::from_secs_f64(args.minutes * 60.0);
    let violations = runtime.block_on(storm(&binary, directory, seed, length, &args.history))?;
    if violations > 0 {
        bail!("{violations} promises were broken (seed {seed})");
    }
    Ok(())
}

async fn storm(
    binary: &std::path::Path,
    directory: PathBuf,
    seed: u64,
    length: Duration,
    history: &str,
) -> Result<usize> {
    // reqwest takes the process-wide provider; a second call finds it already set.
    let _ = rustls::crypto::ring::default_provider().install_default();
    println!("seed {seed}, {:.1} minutes; data and logs in {}", length.as_secs_f64() / 60.0, directory.display());
    let findings = Arc::new(Findings::default());
    let cluster = Arc::new(Cluster::start(binary, directory, history, findings.clone()).await?);
    println!("three etcd members and three servers are up");
    let workload = Workload::start(&cluster, &findings, seed).await?;

    let started = Instant::now();
    let faults = monkey::release(&cluster, &findings, seed, started + length);
    let progress = async {
        loop {
            tokio::time::sleep(PROGRESS_INTERVAL).await;
            findings.print_progress(started);
        }
    };
    tokio::select! {
        () = faults => {}
        () = progress => {}
    }
    println!("the storm is over; everything is up again");
    findings.end_of_storm();
    let seen = workload.finish(&cluster, &findings).await?;
    check::all(&cluster, &findings, seen).await?;
    rolling::restart(&cluster, &findings).await?;
    check::nothing_in_the_clear(&cluster, &findings).await?;
    check::tokens_are_shared(&cluster, &findings).await?;
    cluster.stop().await;
    findings.print_summary(seed, length);
    Ok(findings.violations())
}
