//! `bailiwick doctor`: looks for what keeps a server from running well, before or while it runs. Nothing is changed but
//! for a small file that is written and removed to measure the disk.

mod disk;
mod files;
mod reach;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use serde::Serialize;

use crate::cli::serve;

/// Look for what keeps a server from running well: data directory, permissions, certificates, clock, disk, port, store and
/// kubeconfig. Exits with 1 if something would keep it from running.
#[derive(clap::Args)]
pub struct Args {
    /// The data directory of the server.
    #[arg(long, default_value = "./bailiwick-data")]
    data_dir: PathBuf,
    /// The address the server is to serve on.
    #[arg(long, default_value = "127.0.0.1:6443")]
    listen: SocketAddr,
    /// A kubeconfig to try, instead of the administrator's in the data directory.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// How findings are written.
    #[arg(short, long, value_enum, default_value = "table")]
    output: Output,
    #[command(flatten)]
    store: serve::store::Flags,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Output {
    Table,
    Json,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Ok,
    /// There was nothing to look at.
    Skipped,
    /// It works, but not for long or not well.
    Warning,
    /// It does not work.
    Failed,
}

/// What one check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Finding {
    check: String,
    verdict: Verdict,
    detail: String,
}

impl Finding {
    fn new(check: impl Into<String>, verdict: Verdict, detail: impl Into<String>) -> Self {
        Self { check: check.into(), verdict, detail: detail.into() }
    }
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    let findings = runtime.block_on(examine(&args))?;
    let worst = findings.iter().map(|finding| finding.verdict).max().unwrap_or(Verdict::Ok);
    match args.output {
        Output::Table => print!("{}", table(&findings)),
        Output::Json => println!("{}", serde_json::to_string_pretty(&findings)?),
    }
    Ok(if worst == Verdict::Failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

async fn examine(args: &Args) -> anyhow::Result<Vec<Finding>> {
    let mut findings = vec![files::data_directory(&args.data_dir)];
    findings.extend(files::permissions(&args.data_dir));
    findings.extend(files::certificates(&args.data_dir, jiff::Timestamp::now()));
    findings.push(files::clock(&args.data_dir, jiff::Timestamp::now()));
    findings.push(disk::space(&args.data_dir));
    findings.push(disk::sync_latency(&args.data_dir));
    let running = reach::kubeconfig(args.kubeconfig.as_deref(), &args.data_dir).await;
    findings.push(reach::port(args.listen, &running));
    findings.push(running);
    findings.push(reach::store(&args.store.options()?, &args.data_dir).await);
    Ok(findings)
}

fn table(findings: &[Finding]) -> String {
    let width = findings.iter().map(|finding| finding.check.len()).max().unwrap_or_default();
    let mut text = String::new();
    for Finding { check, verdict, detail } in findings {
        let verdict = match verdict {
            Verdict::Ok => "ok",
            Verdict::Skipped => "skipped",
            Verdict::Warning => "WARNING",
            Verdict::Failed => "FAILED",
        };
        text.push_str(&format!("{check:<width$}  {verdict:<7}  {detail}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_line_for_each_finding() {
        let findings = [
            Finding::new("clock", Verdict::Ok, "2026-01-01"),
            Finding::new("disk space", Verdict::Failed, "1 MiB left"),
        ];
        assert_eq!(table(&findings), "clock       ok       2026-01-01\ndisk space  FAILED   1 MiB left\n");
    }

    #[test]
    fn failures_are_worse_than_warnings() {
        assert!(Verdict::Failed > Verdict::Warning && Verdict::Warning > Verdict::Skipped);
    }
}
