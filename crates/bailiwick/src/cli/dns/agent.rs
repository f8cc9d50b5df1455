//! `bailiwick dns agent`: a vantage point for the domains service of another machine.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use bailiwick_domains::seams::VantagePoint;
use bailiwick_domains_controller::{AgentMetrics, AgentOptions, run_agent};
use bailiwick_server::Diagnostics;

use super::Common;
use crate::cli::kubeconfig;
use crate::cli::outside::{self, told_to_end};

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
    #[command(flatten)]
    diagnostics: outside::Flags,
}

pub async fn run(common: &Common, args: Args) -> anyhow::Result<()> {
    let metrics = Arc::new(AgentMetrics::default());
    let (counted, standing) = (metrics.clone(), metrics.clone());
    let shown = Diagnostics {
        metrics: Arc::new(move |text| counted.append(text)),
        readiness: Arc::new(move || standing.readiness()),
    };
    let _diagnostics = args.diagnostics.show(shown).await?;
    let client = kubeconfig::client(&args.kubeconfig).await?;
    let mut from = VantagePoint { name: args.name.clone(), ..VantagePoint::default() };
    for address in args.source {
        match address {
            IpAddr::V4(v4) => from.v4 = Some(v4),
            IpAddr::V6(v6) => from.v6 = Some(v6),
        }
    }
    let roots = Arc::unwrap_or_clone(common.roots()?);
    let options = AgentOptions { name: args.name, region: args.region, from, roots, metrics };
    Ok(run_agent(client, options, told_to_end()).await?)
}
