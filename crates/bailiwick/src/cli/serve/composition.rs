//! The flags of `bailiwick serve` that say what the control plane is made of.

use std::collections::BTreeMap;
use std::time::Duration;

use bailiwick::machinery::Resource;
use bailiwick::{Builder, Feature};

use crate::cli::duration;

/// A part that is not there unless it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Addition {
    /// Domain objects, watched over. Asks the internet about them.
    Domains,
    /// OLM's CatalogSources, Subscriptions, ClusterExtensions and so on, and what installs operators for them.
    Olm,
}

#[derive(clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Composition")]
pub struct Flags {
    /// Parts to leave out (comma-separated): crds, rbac, aggregation, projects, events, leases, certificates, quotas,
    /// service-accounts, webhooks, policies, flow-control, configmaps, secrets. They are then neither served nor run.
    #[arg(long, value_delimiter = ',')]
    without: Vec<Feature>,
    /// Parts to add (comma-separated).
    #[arg(long, value_delimiter = ',')]
    with: Vec<Addition>,
    /// Versions and resources to serve or not, such as events.k8s.io/v1=false or api/all=false. May be repeated.
    #[arg(long, value_delimiter = ',', value_parser = setting)]
    runtime_config: Vec<(String, bool)>,
    /// How long events are kept.
    #[arg(long, default_value = "1h0m0s", value_parser = duration::parse)]
    event_ttl: Duration,
}

impl Flags {
    /// Whether a part is asked for.
    pub fn adds(&self, addition: Addition) -> bool {
        self.with.contains(&addition)
    }

    pub fn apply(&self, builder: Builder) -> Builder {
        let settings: BTreeMap<&str, bool> =
            self.runtime_config.iter().map(|(key, enabled)| (key.as_str(), *enabled)).collect();
        builder
            .without(self.without.iter().copied())
            .keep_resources(|resource| is_enabled(&settings, resource))
            .event_ttl(self.event_ttl)
    }
}

fn setting(text: &str) -> Result<(String, bool), String> {
    match text.split_once('=').unwrap_or((text, "")) {
        (key, "" | "true") => Ok((key.to_owned(), true)),
        (key, "false") => Ok((key.to_owned(), false)),
        (key, value) => Err(format!("invalid value of {key}={value}")),
    }
}

/// The narrowest setting that speaks of a resource decides.
fn is_enabled(settings: &BTreeMap<&str, bool>, resource: &Resource) -> bool {
    let version = resource.api_version();
    let stability = match resource.version.as_str() {
        alpha if alpha.contains("alpha") => "api/alpha",
        beta if beta.contains("beta") => "api/beta",
        _ => "api/ga",
    };
    let plural = format!("{version}/{}", resource.plural);
    let decided = [plural.as_str(), &version, stability, "api/all"].into_iter().find_map(|key| settings.get(key));
    decided.copied().unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrowest_setting_decides() {
        let settings = BTreeMap::from([("api/all", false), ("v1", true), ("v1/secrets", false)]);
        let served = bailiwick_api::native_resources().into_iter().filter(|resource| is_enabled(&settings, resource));
        let names: Vec<String> =
            served.map(|resource| format!("{}/{}", resource.api_version(), resource.plural)).collect();
        assert_eq!(names, ["v1/configmaps", "v1/events", "v1/namespaces", "v1/resourcequotas", "v1/serviceaccounts"]);
    }

    #[test]
    fn settings_are_true_or_false() {
        assert_eq!(setting("api/all"), Ok(("api/all".to_owned(), true)));
        assert_eq!(setting("v1=false"), Ok(("v1".to_owned(), false)));
        assert_eq!(setting("v1=no"), Err("invalid value of v1=no".to_owned()));
    }
}
