//! `bailiwick dns zone-check`.

use bailiwick_domains::report::zone_check;
use bailiwick_domains::resolve::Run;
use bailiwick_domains::verdict::Severity;
use bailiwick_domains::wire::Name;
use bailiwick_domains::zonecheck::{self, MAX_CHECK_QUESTIONS};

use super::Common;

#[derive(clap::Args)]
pub struct Args {
    /// The zone to check.
    #[arg(value_parser = super::name)]
    zone: Name,
    /// The least severity that is printed.
    #[arg(long, value_enum, default_value = "notice")]
    level: Level,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Level {
    Info,
    Notice,
    Warning,
    Error,
    Critical,
}

pub async fn run(common: &Common, args: Args) -> anyhow::Result<()> {
    let engine = common.engine()?;
    let run = Run::with_budget(&engine, MAX_CHECK_QUESTIONS);
    let mut check = zonecheck::check(&run, &args.zone).await;
    let least = match args.level {
        Level::Info => Severity::Info,
        Level::Notice => Severity::Notice,
        Level::Warning => Severity::Warning,
        Level::Error => Severity::Error,
        Level::Critical => Severity::Critical,
    };
    check.findings.retain(|finding| finding.severity >= least);
    common.print(&check, |style| zone_check::text(&check, style))
}
