//! `bailiwick dns agent`: a vantage point for the domains service of another machine.

use std::net::IpAddr;
use std::path::PathBuf;

use bailiwick_domains::seams::VantagePoint;
use bailiwick_domains_controller::{AgentOptions, run_agent};

use super::Common;
use crate::cli::kubeconfig;
use crate::cli::outside::told_to_end;

#[derive(clap::Args)]
pub struct Args {
    /// How to reach the API, with the rights of the role bailiwick:dns-agent in the namespace bailiwick-domains.
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    kubeconfig: PathBuf,
    /// The name of this place, such as pop-fra1.
    #[arg(long)]
    name: String,
    /// Where it is, such as eu-central: proofs are corroborated from as many regions as there are.
    #[arg(long)]
    region: Option<String>,
    /// The address that questions are asked from; one for IPv4 and one for IPv6. The system chooses if nothing is said.
    #[arg(long, value_name = "ADDRESS")]
    source: Vec<IpAddr>,
}

pub async fn run(common: &Common, args: Args) -> anyhow::Result<()> {
    let client = kubeconfig::client(&args.kubeconfig).await?;
    let mut from = VantagePoint { name: args.name.clone(), ..VantagePoint::default() };
    for address in args.source {
        match address {
            IpAddr::V4(v4) => from.v4 = Some(v4),
            IpAddr::V6(v6) => from.v6 = Some(v6),
        }
    }
    let roots = std::sync::Arc::unwrap_or_clone(common.roots()?);
    let options = AgentOptions { name: args.name, region: args.region, from, roots };
    Ok(run_agent(client, options, told_to_end()).await?)
}
