//! `bailiwick dns trace`.

use bailiwick_domains::dnssec;
use bailiwick_domains::report::trace::TraceReport;
use bailiwick_domains::resolve::{Run, Thoroughness};
use bailiwick_domains::wire::{Name, Question, RecordType};

use super::Common;

#[derive(clap::Args)]
pub struct Args {
    /// The name to follow.
    #[arg(value_parser = super::name)]
    name: Name,
    /// The record type to ask for.
    #[arg(value_parser = super::rtype, default_value = "A")]
    rtype: RecordType,
    /// Do not validate signatures.
    #[arg(long)]
    no_dnssec: bool,
}

pub async fn run(common: &Common, args: Args) -> anyhow::Result<()> {
    let engine = common.engine()?;
    let run = Run::new(&engine);
    let resolution = run.resolve(&Question::new(args.name, args.rtype), Thoroughness::EveryServer).await;
    let validation = if args.no_dnssec { None } else { Some(dnssec::validate(&Run::new(&engine), &resolution).await) };
    let report = TraceReport::new(&resolution, validation);
    common.print(&report, |style| report.text(style))
}
