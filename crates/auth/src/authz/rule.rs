//! One rule of a role, and what it matches.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Attributes, ResourceTarget, Target};

/// Verbs on resources, or on paths. `*` stands for everything of its kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyRule {
    pub verbs: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty")]
    pub non_resource_urls: Vec<String>,
}

impl PolicyRule {
    /// A rule on resources.
    pub fn on_resources(verbs: &[&str], api_groups: &[&str], resources: &[&str]) -> Self {
        Self { verbs: owned(verbs), api_groups: owned(api_groups), resources: owned(resources), ..Self::default() }
    }

    /// A rule on paths.
    pub fn on_paths(verbs: &[&str], paths: &[&str]) -> Self {
        Self { verbs: owned(verbs), non_resource_urls: owned(paths), ..Self::default() }
    }

    /// A rule of a stored role; `None` if it cannot be read.
    pub fn of(rule: &Value) -> Option<Self> {
        Self::deserialize(rule).ok()
    }

    /// Whether this rule allows the request.
    pub fn allows(&self, attributes: &Attributes<'_>) -> bool {
        self.allows_verb(attributes.verb)
            && match &attributes.target {
                Target::Resource(target) => self.covers(target),
                Target::Path(path) => self.covers_path(path),
            }
    }

    pub(super) fn allows_verb(&self, verb: &str) -> bool {
        matches_any(&self.verbs, verb)
    }

    /// Whether the rule is on this resource, for whatever verbs.
    pub(super) fn covers(&self, target: &ResourceTarget<'_>) -> bool {
        self.covers_group(target.group)
            && self.covers_resource(target)
            && (self.resource_names.is_empty() || self.resource_names.iter().any(|name| name == target.name))
    }

    pub(super) fn covers_group(&self, group: &str) -> bool {
        matches_any(&self.api_groups, group)
    }

    /// Whether the rule is on a resource or subresource of this name, in whatever group.
    pub(super) fn covers_resource(&self, target: &ResourceTarget<'_>) -> bool {
        self.resources.iter().any(|rule| resource_matches(rule, target.resource, target.subresource))
    }

    /// Whether the rule is on the resource or any of its subresources.
    pub(super) fn is_about(&self, resource: &str) -> bool {
        self.resources.iter().any(|rule| rule.split('/').next() == Some(resource))
    }

    pub(super) fn covers_path(&self, path: &str) -> bool {
        self.non_resource_urls.iter().any(|url| path_matches(url, path))
    }
}

fn owned(items: &[&str]) -> Vec<String> {
    items.iter().map(|item| (*item).to_owned()).collect()
}

fn matches_any(patterns: &[String], value: &str) -> bool {
    patterns.iter().any(|pattern| pattern == "*" || pattern == value)
}

/// `pods`, `pods/status`, `*/status` and `*`.
fn resource_matches(rule: &str, resource: &str, subresource: &str) -> bool {
    if rule == "*" {
        return true;
    }
    if subresource.is_empty() {
        return rule == resource;
    }
    rule.strip_suffix(subresource)
        .and_then(|prefix| prefix.strip_suffix('/'))
        .is_some_and(|prefix| prefix == "*" || prefix == resource)
}

/// A path, or a prefix that ends in `*`.
pub(super) fn path_matches(rule: &str, path: &str) -> bool {
    rule == path || (rule.ends_with('*') && path.starts_with(rule.trim_end_matches('*')))
}

impl AsRef<PolicyRule> for PolicyRule {
    fn as_ref(&self) -> &PolicyRule {
        self
    }
}
