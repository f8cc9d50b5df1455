//! `bailiwick dns plan`.

use std::path::PathBuf;

use anyhow::Context;
use bailiwick_domains::plan::export::{self, Format};
use bailiwick_domains::plan::{Host, service};
use bailiwick_domains::report::plan;
use bailiwick_domains::toolbox::Target;

use super::Common;

#[derive(clap::Args)]
pub struct Args {
    /// The name that is to lead somewhere, such as www.example.com or *.apps.example.com.
    #[arg(required_unless_present = "filename", requires = "targets")]
    name: Option<String>,
    /// Where to: addresses, or a host name.
    #[arg(long = "to", value_name = "ADDRESS|HOST")]
    targets: Vec<Target>,
    /// Names and addresses of the Gateways and HTTPRoutes in this file, YAML or JSON.
    #[arg(long, short)]
    filename: Option<PathBuf>,
    /// Look at what is live now, asked of every server, and at what public resolvers still remember.
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
    let mut wishes = match &args.filename {
        Some(path) => {
            let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
            service::wishes(&objects(&text)?)?
        }
        None => Vec::new(),
    };
    if let Some(name) = &args.name {
        wishes.push(toolbox.wish(Host::parse(name)?, &args.targets).await);
    }
    let plans = toolbox.plan(wishes).await.map_err(anyhow::Error::msg)?;
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
        let analyses = futures::future::join_all(plans.iter().map(|plan| toolbox.analyze_with_caches(plan))).await;
        return common.print(&analyses, |style| analyses.iter().map(|found| plan::analysis(found, style)).collect());
    }
    common.print(&plans, |style| plans.iter().map(|planned| plan::plan(planned, now, style)).collect())
}

/// The documents of a file; lists are taken apart.
fn objects(text: &str) -> anyhow::Result<Vec<serde_json::Value>> {
    let mut objects = Vec::new();
    for document in text.split("\n---") {
        let document = document.trim_start_matches('-');
        if document.trim().is_empty() {
            continue;
        }
        let mut value = bailiwick_machinery::yaml::decode(document)?.value;
        match value.get_mut("items").and_then(serde_json::Value::as_array_mut) {
            Some(items) => objects.append(items),
            None => objects.push(value),
        }
    }
    Ok(objects)
}
