//! Aggregated discovery: everything in one document with an ETag, which current clients ask for first.

use bailiwick_machinery::media::parse_accept;
use bailiwick_machinery::resource::{Resource, Subresource};
use serde_json::{Map, Value, json};

use super::Sources;
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
pub fn document(sources: Sources<'_>, core: bool, version: AggregatedVersion) -> Value {
    let groups = match core {
        true => vec![("", sources.registry.groups().get("").into_iter().flatten().map(String::as_str).collect())],
        false => sources.served(),
    };
    let items: Vec<Value> = groups.into_iter().map(|(group, versions)| group_item(sources, group, &versions)).collect();
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": format!("apidiscovery.k8s.io/{}", version.as_str()),
        "metadata": {}, "items": items,
    })
}

fn group_item(sources: Sources<'_>, group: &str, versions: &[&str]) -> Value {
    let version_item = |version: &&str| match sources.remote(group, version) {
        Some(route) => {
            let discovered = route.documents().discovered();
            let mut item = json!({"version": version, "freshness": discovered.freshness.as_str()});
            if !discovered.version.resources.is_empty() {
                item["resources"] = serde_json::to_value(&discovered.version.resources).unwrap_or_default();
            }
            item
        }
        None => local_version(sources.registry, group, version),
    };
    let versions: Vec<Value> = versions.iter().map(version_item).collect();
    let metadata = if group.is_empty() { json!({}) } else { json!({"name": group}) };
    json!({"metadata": metadata, "versions": versions})
}

fn local_version(registry: &Registry, group: &str, version: &str) -> Value {
    let served = registry.resources_of(group, version).into_iter();
    let resources: Vec<Value> = served.map(|served| resource_item(&served.resource)).collect();
    json!({"version": version, "resources": resources, "freshness": "Current"})
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
