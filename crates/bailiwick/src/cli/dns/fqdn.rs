//! `bailiwick dns fqdn`.

use bailiwick_domains::report::fqdn::{Endpoints, FqdnReport};
use bailiwick_domains::wire::{Name, Question, RecordType};

use super::Common;

#[derive(clap::Args)]
pub struct Args {
    /// The name to look at.
    #[arg(value_parser = super::name)]
    name: Name,
    /// The record types to ask for.
    #[arg(value_parser = super::rtype, default_values = ["A", "AAAA"])]
    rtypes: Vec<RecordType>,
    /// Ask only the DNS; do not call the services behind the addresses.
    #[arg(long)]
    no_endpoints: bool,
}

pub async fn run(common: &Common, args: Args) -> anyhow::Result<()> {
    let places = common.places()?;
    let asked = args.rtypes.iter().map(|rtype| {
        let question = Question::new(args.name.clone(), *rtype);
        let places = &places;
        let endpoints = if args.no_endpoints { Endpoints::Skip } else { Endpoints::Look };
        async move { FqdnReport::make(places, &question, endpoints).await }
    });
    let reports: Vec<FqdnReport> = futures::future::join_all(asked).await.into_iter().flatten().collect();
    common.print(&reports, |style| reports.iter().map(|report| report.text(style)).collect::<Vec<_>>().join("\n"))
}
