//! `bailiwick dns fqdn`.

use bailiwick_domains::check::Check;
use bailiwick_domains::report::fqdn::Endpoints;
use bailiwick_domains::wire::{RecordType, type_text};

use super::Common;

#[derive(clap::Args)]
pub struct Args {
    /// The name to look at.
    name: String,
    /// The record types to ask for.
    #[arg(value_parser = super::rtype, default_values = ["A", "AAAA"])]
    rtypes: Vec<RecordType>,
    /// Ask only the DNS; do not call the services behind the addresses.
    #[arg(long)]
    no_endpoints: bool,
}

pub async fn run(common: &Common, args: Args) -> anyhow::Result<()> {
    let types = args.rtypes.into_iter().map(type_text).collect();
    let endpoints = if args.no_endpoints { Endpoints::Skip } else { Endpoints::Look };
    common.check(&Check::Fqdn { name: args.name, types, endpoints }).await
}
