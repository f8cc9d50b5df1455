//! `bailiwick dns compare` and `bailiwick dns doctor`: resolvers beside the authoritative servers.

use std::net::IpAddr;

use anyhow::Context;
use bailiwick_domains::check::Check;
use bailiwick_domains::recursive::{self, Via};
use bailiwick_domains::report::compare::CompareReport;
use bailiwick_domains::seams::PublicResolver;
use bailiwick_domains::wire::{Name, Question, RecordType, show_name, type_text};

use super::Common;

#[derive(clap::Args)]
pub struct Compare {
    #[command(flatten)]
    what: What,
    /// Another resolver to ask, besides the well-known ones. May be repeated.
    #[arg(long = "resolver", value_name = "ADDRESS")]
    resolvers: Vec<IpAddr>,
    /// How the resolvers are asked.
    #[arg(long, value_enum, default_value = "udp")]
    via: Channel,
}

#[derive(clap::Args)]
pub struct Doctor {
    #[command(flatten)]
    what: What,
}

#[derive(clap::Args)]
struct What {
    /// The name to ask for.
    #[arg(value_parser = super::name)]
    name: Name,
    /// The record type to ask for.
    #[arg(value_parser = super::rtype, default_value = "A")]
    rtype: RecordType,
}

impl What {
    fn question(&self) -> Question {
        Question::new(self.name.clone(), self.rtype)
    }
}

const NO_PLACE: &str = "there is no place to ask from";

#[derive(Clone, Copy, clap::ValueEnum)]
enum Channel {
    Udp,
    Tls,
    Https,
}

pub async fn compare(common: &Common, args: Compare) -> anyhow::Result<()> {
    let via = match args.via {
        Channel::Udp => Via::Udp,
        Channel::Tls => Via::Tls,
        Channel::Https => Via::Https,
    };
    let What { name, rtype } = args.what;
    let name = show_name(&name);
    common.check(&Check::Compare { name, rtype: type_text(rtype), resolvers: args.resolvers, via }).await
}

pub async fn doctor(common: &Common, args: Doctor) -> anyhow::Result<()> {
    let engine = common.engine()?;
    let addresses = recursive::of_this_machine(&engine).context("cannot find out which resolver this machine uses")?;
    anyhow::ensure!(!addresses.is_empty(), "this machine has no resolver");
    let resolvers: Vec<PublicResolver> = addresses
        .into_iter()
        .map(|address| PublicResolver { name: format!("yours ({address})"), ..recursive::by_address(address) })
        .collect();
    let places = common.places()?;
    let report = CompareReport::look_at_caches(&places, &resolvers, &args.what.question()).await.context(NO_PLACE)?;
    common.print(&report, |style| report.text(style))
}
