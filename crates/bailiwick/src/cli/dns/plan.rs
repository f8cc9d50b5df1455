//! `bailiwick dns plan`.

use std::path::PathBuf;

use anyhow::Context;
use bailiwick_domains::check::Check;
use bailiwick_domains::plan::export::Format;
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
    /// Names and addresses of the Gateways and HTTPRoutes in this file, YAML or JSON, and the proofs of the Domains in it.
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
    let objects = match &args.filename {
        Some(path) => objects(&std::fs::read_to_string(path).with_context(|| path.display().to_string())?)?,
        None => Vec::new(),
    };
    let export = args.export.map(|form| match form {
        Export::ZoneFile => Format::ZoneFile,
        Export::Dnscontrol => Format::DnsControl,
        Export::Octodns => Format::OctoDns,
        Export::DomainConnect => Format::DomainConnect,
    });
    let targets = args.targets.iter().map(ToString::to_string).collect();
    common.check(&Check::Plan { name: args.name, targets, objects, analyze: args.analyze, export }).await
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
