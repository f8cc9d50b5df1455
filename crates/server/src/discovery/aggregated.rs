//! Aggregated discovery: everything in one document with an ETag, which current clients ask for first.

use bailiwick_machinery::media::parse_accept;
use bailiwick_machinery::resource::{Resource, Subresource};
use serde_json::{Map, Value, json};

use super::ordered_groups;
use crate::registry::Registry;

/// The versions of the document that clients negotiate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AggregatedVersion {
    V2,
    V2Beta1,
}

impl AggregatedVersion {
    /// The version the client asks for; `None` when it wants the legacy form.
    pub fn negotiate(accept: &str) -> Option<Self> {
        parse_accept(accept).iter().find_map(|clause| {
            let json = clause.kind == "application" && clause.subtype == "json";
            let ours =
                clause.param("g") == Some("apidiscovery.k8s.io") && clause.param("as") == Some("APIGroupDiscoveryList");
            match (json, ours, clause.param("v")) {
                (true, true, Some("v2")) => Some(Some(Self::V2)),
                (true, true, Some("v2beta1")) => Some(Some(Self::V2Beta1)),
                // Whatever is wanted more than a version we know ends the search.
                (_, false, _) => Some(None),
                _ => None,
            }
        })?
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::V2 => "v2",
            Self::V2Beta1 => "v2beta1",
        }
    }

    pub fn content_type(self) -> &'static str {
        match self {
            Self::V2 => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            Self::V2Beta1 => "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
        }
    }
}

/// The document of `/api` (the core group) or of `/apis` (all others).
pub fn document(registry: &Registry, core: bool, version: AggregatedVersion) -> Value {
    let groups = if core { vec![""] } else { ordered_groups(registry) };
    let items: Vec<Value> = groups.into_iter().map(|group| group_item(registry, group)).collect();
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": format!("apidiscovery.k8s.io/{}", version.as_str()),
        "metadata": {}, "items": items,
    })
}

fn group_item(registry: &Registry, group: &str) -> Value {
    let versions: Vec<Value> = registry
        .groups()
        .get(group)
        .into_iter()
        .flatten()
        .map(|version| {
            let resources: Vec<Value> = registry
                .resources_of(group, version)
                .into_iter()
                .map(|served| resource_item(&served.resource))
                .collect();
            json!({"version": version, "resources": resources, "freshness": "Current"})
        })
        .collect();
    let metadata = if group.is_empty() { json!({}) } else { json!({"name": group}) };
    json!({"metadata": metadata, "versions": versions})
}

fn resource_item(resource: &Resource) -> Value {
    let mut item = Map::new();
    item.insert("resource".into(), resource.plural.as_str().into());
    item.insert("responseKind".into(), own_kind(resource));
    item.insert("scope".into(), if resource.namespaced() { "Namespaced" } else { "Cluster" }.into());
    item.insert("singularResource".into(), resource.singular.as_str().into());
    item.insert("verbs".into(), resource.verbs.clone().into());
    if !resource.short_names.is_empty() {
        item.insert("shortNames".into(), resource.short_names.clone().into());
    }
    if !resource.categories.is_empty() {
        item.insert("categories".into(), resource.categories.clone().into());
    }
    if !resource.subresources.is_empty() {
        let mut subresources: Vec<&Subresource> = resource.subresources.iter().collect();
        if resource.custom.is_none() {
            subresources.sort_by(|a, b| a.name.cmp(&b.name));
        }
        item.insert("subresources".into(), subresources.into_iter().map(|s| subresource_item(resource, s)).collect());
    }
    Value::Object(item)
}

fn subresource_item(resource: &Resource, subresource: &Subresource) -> Value {
    let kind = match &subresource.kind {
        Some(kind) => json!({"group": kind.group, "version": kind.version, "kind": kind.kind}),
        None => own_kind(resource),
    };
    json!({"subresource": subresource.name, "responseKind": kind, "verbs": subresource.verbs})
}

/// The kind of a resource. Native ones leave the group and version to the place they stand in.
fn own_kind(resource: &Resource) -> Value {
    match resource.custom {
        None => json!({"group": "", "version": "", "kind": resource.kind}),
        Some(_) => json!({"group": resource.group, "version": resource.version, "kind": resource.kind}),
    }
}
