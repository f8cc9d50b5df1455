//! `bailiwick dns plan`.

use bailiwick_domains::plan::Host;
use bailiwick_domains::plan::export::{self, Format};
use bailiwick_domains::report::plan;
use bailiwick_domains::toolbox::Target;

use super::Common;

#[derive(clap::Args)]
pub struct Args {
    /// The name that is to lead somewhere, such as www.example.com or *.apps.example.com.
    name: String,
    /// Where to: addresses, or a host name.
    #[arg(long = "to", required = true, value_name = "ADDRESS|HOST")]
    targets: Vec<Target>,
    /// Look at what is live now, asked of every server.
    #[arg(long, conflicts_with = "export")]
    analyze: bool,
    /// Print the records for another program.
    #[arg(long, value_enum)]
    export: Option<Export>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Export {
    ZoneFile,
    Dnscontrol,
    Octodns,
    DomainConnect,
}

pub async fn run(common: &Common, args: Args) -> anyhow::Result<()> {
    let toolbox = common.toolbox()?;
    let wish = toolbox.wish(Host::parse(&args.name)?, &args.targets).await;
    let plans = toolbox.plan(vec![wish]).await.map_err(anyhow::Error::msg)?;
    let now = toolbox.clock().now();
    if let Some(form) = args.export {
        let format = match form {
            Export::ZoneFile => Format::ZoneFile,
            Export::Dnscontrol => Format::DnsControl,
            Export::Octodns => Format::OctoDns,
            Export::DomainConnect => Format::DomainConnect,
        };
        return common.print(&plans, |_| plans.iter().map(|plan| export::export(plan, format)).collect());
    }
    if args.analyze {
        let analyses = futures::future::join_all(plans.iter().map(|plan| toolbox.analyze(plan, Vec::new()))).await;
        return common.print(&analyses, |style| analyses.iter().map(|found| plan::analysis(found, style)).collect());
    }
    common.print(&plans, |style| plans.iter().map(|planned| plan::plan(planned, now, style)).collect())
}
