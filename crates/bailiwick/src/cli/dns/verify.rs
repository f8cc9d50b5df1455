//! `bailiwick dns verify`.

use std::process::ExitCode;
use std::time::Duration;

use bailiwick_domains::check::{self, Check, Report};
use bailiwick_domains::probe::NoRemotePlaces;
use bailiwick_domains::verification::challenge::DEFAULT_BRAND;
use bailiwick_domains::verification::decision::Outcome;
use bailiwick_domains::verification::{Challenge, Scope, Verdict};

use super::Common;

/// How often a record is looked for while waiting: it is seen within this time of going live.
const POLL: Duration = Duration::from_secs(4);

/// What scripts are told when the proof is not there; 1 is for what went wrong, 2 for wrong arguments.
const NOT_VERIFIED: u8 = 3;

#[derive(clap::Args)]
#[command(
    after_help = "Exit status: 0 when the domain is verified, or without --token; 3 when the proof is not seen; \
                        1 when something went wrong."
)]
pub struct Args {
    /// The domain whose control is to be proven.
    domain: String,
    /// The token that was given before; without it a new one is made and what to do with it is told.
    #[arg(long)]
    token: Option<String>,
    /// The name in the record's name: `_<brand>-challenge`.
    #[arg(long, default_value = DEFAULT_BRAND)]
    brand: String,
    /// The verifier's zone that a CNAME at the challenge name may lead into instead of a TXT record.
    #[arg(long, value_name = "ZONE")]
    delegation_zone: Option<String>,
    /// The verifier's zone that has a nameserver for each token, to which the domain may be delegated instead.
    #[arg(long, value_name = "ZONE")]
    nameserver_zone: Option<String>,
    /// What the proof is for: the name alone, one level below it, or it and everything below.
    #[arg(long, value_enum, default_value = "domain")]
    scope: Reach,
    /// Put in front of the record's name, so that several accounts can prove one domain side by side.
    #[arg(long, value_name = "LABEL")]
    account_label: Option<String>,
    /// Look again every few seconds until it is there, for at most this long.
    #[arg(long, default_value_t = 0)]
    wait_seconds: u64,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Reach {
    Host,
    Wildcard,
    Domain,
}

impl From<Reach> for Scope {
    fn from(reach: Reach) -> Self {
        match reach {
            Reach::Host => Self::Host,
            Reach::Wildcard => Self::Wildcard,
            Reach::Domain => Self::Domain,
        }
    }
}

pub async fn run(common: &Common, args: Args) -> anyhow::Result<ExitCode> {
    let toolbox = common.toolbox()?;
    let Args { domain, token, brand, delegation_zone, nameserver_zone, scope, account_label, wait_seconds } = args;
    let scope = scope.into();
    let check = Check::Verify { name: domain, token, brand, delegation_zone, nameserver_zone, scope, account_label };
    let deadline = tokio::time::Instant::now() + Duration::from_secs(wait_seconds);
    let progress = common.progress();
    let mut told = String::new();
    let report = loop {
        let run = check::run(&check, &toolbox, &NoRemotePlaces);
        let report = progress.during(run, || super::doing(&check, &toolbox)).await?;
        let Report::Verdict { challenge, verdict } = &report else { break report };
        let left = deadline.saturating_duration_since(tokio::time::Instant::now());
        if verdict.outcome != Outcome::Pending || left < POLL {
            break report;
        }
        let waits = waiting(challenge, verdict);
        if waits != told {
            progress.say(&waits);
            told = waits;
        }
        let left = || deadline.saturating_duration_since(tokio::time::Instant::now()).as_secs();
        progress.during(tokio::time::sleep(POLL), || format!("waiting for at most {} s more", left())).await;
    };
    common.print(&report, |style| report.text(style))?;
    Ok(match &report {
        Report::Verdict { verdict, .. } if !matches!(verdict.outcome, Outcome::Verified(_)) => {
            ExitCode::from(NOT_VERIFIED)
        }
        _ => ExitCode::SUCCESS,
    })
}

/// What is waited for, and why it is not there.
fn waiting(challenge: &Challenge, verdict: &Verdict) -> String {
    let why = verdict.findings.first().map(|finding| format!(": {}", finding.sentence())).unwrap_or_default();
    format!("waiting for TXT {} with {}{why}", challenge.record_name(), challenge.record_value())
}
