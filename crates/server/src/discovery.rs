//! What this server serves, told to clients: legacy discovery, aggregated discovery and the version.

mod aggregated;
mod legacy;
mod merged;

pub use aggregated::{AggregatedVersion, document as aggregated_document};
pub use legacy::{api_group, api_group_list, api_resource_list, api_versions};
pub use merged::Sources;

use serde_json::{Value, json};

/// The Kubernetes version whose API this server speaks.
pub const KUBERNETES_VERSION: &str = "v1.36.4";

/// Where a group and its versions stand among all others: higher comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    pub group: i64,
    pub version: i64,
}

/// Upstream's groups in the order in which it shows them.
const PRIORITIES: &[(&str, i64, i64)] = &[
    // More than any record can ask for.
    ("apiregistration.k8s.io", 20001, 0),
    ("", 18000, 1),
    ("events.k8s.io", 17750, 15),
    ("authentication.k8s.io", 17700, 15),
    ("authorization.k8s.io", 17600, 15),
    ("certificates.k8s.io", 17300, 15),
    ("rbac.authorization.k8s.io", 17000, 15),
    ("admissionregistration.k8s.io", 16700, 15),
    ("apiextensions.k8s.io", 16700, 15),
    ("coordination.k8s.io", 16500, 15),
    ("flowcontrol.apiserver.k8s.io", 16100, 21),
];
/// For groups that upstream does not have.
const OTHER_PRIORITY: Priority = Priority { group: 1000, version: 15 };

impl Priority {
    /// The rank of a group that is built in.
    pub fn of_group(group: &str) -> Self {
        let known = PRIORITIES.iter().find(|(name, ..)| *name == group);
        known.map_or(OTHER_PRIORITY, |(_, group, version)| Self { group: *group, version: *version })
    }
}

/// Named groups in the order clients see them.
fn ordered_groups(registry: &crate::Registry) -> Vec<&str> {
    let mut groups: Vec<&str> =
        registry.groups().keys().map(String::as_str).filter(|group| !group.is_empty()).collect();
    groups.sort_by_key(|group| (std::cmp::Reverse(Priority::of_group(group).group), *group));
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
