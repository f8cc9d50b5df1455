//! What the names in a quota's `hard` count.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ResourceQuota;

use crate::discovery::{Catalog, ResourceType, Scope};

const COUNT_PREFIX: &str = "count/";
/// Core types that have a name of their own from before there was `count/`.
const OWN_NAMES: [&str; 3] = ["configmaps", "resourcequotas", "secrets"];
/// What can be limited of containers and what belongs to them, which this API does not have.
const NO_OBJECTS: [&str; 13] = [
    "pods",
    "services",
    "services.nodeports",
    "services.loadbalancers",
    "replicationcontrollers",
    "persistentvolumeclaims",
    "cpu",
    "memory",
    "ephemeral-storage",
    "count/pods",
    "count/services",
    "count/persistentvolumeclaims",
    "count/replicationcontrollers",
];
const NO_OBJECTS_PREFIXES: [&str; 3] = ["requests.", "limits.", "hugepages-"];

/// What a name counts.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Counted {
    Objects(Arc<ResourceType>),
    /// Something that cannot exist here.
    NoSuchObjects,
    /// Nothing we know; somebody else may keep that usage.
    Unknown,
}

/// What `limited` counts.
pub(super) fn counted(limited: &str, catalog: &Catalog) -> Counted {
    let counts =
        |found: &&Arc<ResourceType>| found.scope == Scope::Namespaced && names(found).iter().any(|n| n == limited);
    if let Some(found) = catalog.types.iter().find(counts) {
        return Counted::Objects(found.clone());
    }
    if NO_OBJECTS.contains(&limited) || NO_OBJECTS_PREFIXES.iter().any(|prefix| limited.starts_with(prefix)) {
        return Counted::NoSuchObjects;
    }
    Counted::Unknown
}

/// The names under which objects of a type are counted: the same as the admission plugin charges.
pub(super) fn names(resource: &ResourceType) -> Vec<String> {
    let is_event = resource.api.plural == "events" && matches!(resource.api.group.as_str(), "" | "events.k8s.io");
    if is_event || !resource.supports(&["list", "create"]) {
        return Vec::new();
    }
    let mut names = vec![format!("{COUNT_PREFIX}{}", resource.group_resource())];
    if resource.api.group.is_empty() && OWN_NAMES.contains(&resource.api.plural.as_str()) {
        names.push(resource.api.plural.clone());
    }
    names
}

/// Whether the quota is for objects in certain scopes only.
pub(super) fn has_scopes(quota: &ResourceQuota) -> bool {
    quota.spec.as_ref().is_some_and(|spec| {
        let selected = spec.scope_selector.as_ref().and_then(|selector| selector.match_expressions.as_ref());
        spec.scopes.as_ref().is_some_and(|scopes| !scopes.is_empty()) || selected.is_some_and(|list| !list.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_mean_types_or_nothing_or_are_unknown() {
        let maps = ResourceType::for_tests("", "ConfigMap", "configmaps", Scope::Namespaced);
        let roles = ResourceType::for_tests("rbac.authorization.k8s.io", "Role", "roles", Scope::Namespaced);
        let events = ResourceType::for_tests("", "Event", "events", Scope::Namespaced);
        let namespaces = ResourceType::for_tests("", "Namespace", "namespaces", Scope::Cluster);
        let mut catalog = Catalog::default();
        catalog.types = vec![maps.clone(), roles.clone(), events, namespaces];
        for (name, expected) in [
            ("configmaps", Counted::Objects(maps.clone())),
            ("count/configmaps", Counted::Objects(maps)),
            ("count/roles.rbac.authorization.k8s.io", Counted::Objects(roles)),
            ("roles", Counted::Unknown),
            ("services", Counted::NoSuchObjects),
            ("requests.cpu", Counted::NoSuchObjects),
            ("count/events", Counted::Unknown),
            ("count/namespaces", Counted::Unknown),
            ("count/widgets.example.com", Counted::Unknown),
        ] {
            assert_eq!(counted(name, &catalog), expected, "{name}");
        }
    }
}
