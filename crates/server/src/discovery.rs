//! What this server serves, told to clients: legacy discovery, aggregated discovery and the version.

mod aggregated;
mod legacy;

pub use aggregated::{AggregatedVersion, document as aggregated_document};
pub use legacy::{api_group, api_group_list, api_resource_list, api_versions};

use serde_json::{Value, json};

/// The Kubernetes version whose API this server speaks.
pub const KUBERNETES_VERSION: &str = "v1.36.4";

/// Group priorities as upstream orders its groups in discovery; others follow by name.
const GROUP_ORDER: &[&str] = &[
    "apiregistration.k8s.io",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "certificates.k8s.io",
    "rbac.authorization.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "coordination.k8s.io",
    "flowcontrol.apiserver.k8s.io",
];

/// Named groups in the order clients see them.
fn ordered_groups(registry: &crate::Registry) -> Vec<&str> {
    let rank = |group: &str| GROUP_ORDER.iter().position(|known| *known == group).unwrap_or(GROUP_ORDER.len());
    let mut groups: Vec<&str> =
        registry.groups().keys().map(String::as_str).filter(|group| !group.is_empty()).collect();
    groups.sort_by_key(|group| (rank(group), *group));
    groups
}

/// The answer to `/version`. The git fields name our own build.
pub fn version() -> Value {
    let mut numbers = KUBERNETES_VERSION.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    let own = env!("CARGO_PKG_VERSION");
    json!({
        "major": major, "minor": minor,
        "emulationMajor": major, "emulationMinor": minor,
        "minCompatibilityMajor": major, "minCompatibilityMinor": "35",
        "gitVersion": format!("{KUBERNETES_VERSION}+bailiwick-{own}"),
        "gitCommit": option_env!("BAILIWICK_GIT_COMMIT").unwrap_or("unknown"), "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "none", "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, go_arch()),
    })
}

/// The architecture by the name Go gives it, which clients compare with.
fn go_arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
