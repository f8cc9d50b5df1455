//! `bailiwick dns trace`.

use bailiwick_domains::check::{Check, Signatures};
use bailiwick_domains::wire::{RecordType, type_text};

use super::Common;

#[derive(clap::Args)]
pub struct Args {
    /// The name to follow.
    name: String,
    /// The record type to ask for.
    #[arg(value_parser = super::rtype, default_value = "A")]
    rtype: RecordType,
    /// Do not validate signatures.
    #[arg(long)]
    no_dnssec: bool,
}

pub async fn run(common: &Common, args: Args) -> anyhow::Result<()> {
    let dnssec = if args.no_dnssec { Signatures::Ignore } else { Signatures::Check };
    common.check(&Check::Trace { name: args.name, rtype: type_text(args.rtype), dnssec }).await
}
