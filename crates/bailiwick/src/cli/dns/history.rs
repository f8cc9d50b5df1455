//! `bailiwick dns history`: what the domains service has written down of a domain.

use std::path::PathBuf;

use anyhow::{Context, bail};
use bailiwick_domains::check::Check;
use bailiwick_domains::history::past::Asked;
use bailiwick_domains::name::host_of;
use bailiwick_domains_controller::{GROUP, VERSION};
use kube::Api;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use serde_json::json;

use super::Common;
use crate::cli::kubeconfig;

#[derive(clap::Args)]
pub struct Args {
    /// The domain, as it is pasted, or the name of its Domain object.
    domain: String,
    /// What was known then: a day such as 2026-11-01 (its end, in UTC) or a moment such as 2026-11-01T12:00:00Z. Without it, all
    /// changes that are kept.
    #[arg(long, value_name = "TIME", value_parser = time)]
    at: Option<String>,
    /// The namespace of the Domain; the kubeconfig's if nothing is said.
    #[arg(short, long)]
    namespace: Option<String>,
    /// The server to ask, and as whom.
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    kubeconfig: PathBuf,
}

/// A time, as it was written.
fn time(text: &str) -> Result<String, String> {
    text.parse::<Asked>().map(|_| text.to_owned())
}

pub async fn run(common: &Common, args: Args) -> anyhow::Result<()> {
    let config = kubeconfig::config(&args.kubeconfig).await?;
    let namespace = args.namespace.unwrap_or_else(|| config.default_namespace.clone());
    let client = kube::Client::try_from(config)?;
    let kind = GroupVersionKind::gvk(GROUP, VERSION, "Domain");
    let api = Api::namespaced_with(client, &namespace, &ApiResource::from_gvk_with_plural(&kind, "domains"));
    let object = find(&api, &args.domain).await.with_context(|| format!("cannot read Domains of {namespace}"))?;
    let Some(object) = object else {
        bail!(
            "there is no Domain {} in the namespace {namespace}: `kubectl get domains -A` lists them, -n chooses the namespace",
            args.domain
        );
    };
    let name = object.data.pointer("/spec/name").and_then(|name| name.as_str()).unwrap_or(&args.domain).to_owned();
    common.check(&Check::History { name, at: args.at, objects: vec![json!(object)] }).await
}

/// By the object's name, or by the domain's.
async fn find(api: &Api<DynamicObject>, wanted: &str) -> kube::Result<Option<DynamicObject>> {
    if let Ok(domain) = host_of(wanted) {
        let named = ListParams::default().fields(&format!("spec.name={domain}"));
        if let Some(found) = api.list(&named).await?.items.into_iter().next() {
            return Ok(Some(found));
        }
    }
    // What can be no name of an object is not asked for.
    match wanted.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte)) {
        true if !wanted.is_empty() => api.get_opt(wanted).await,
        _ => Ok(None),
    }
}
