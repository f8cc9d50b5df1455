//! Discovery as it always was: one document per group version, which older clients walk one by one.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::Sources;
use crate::registry::{Registry, Served};
use bailiwick_machinery::resource::{Storage, Subresource};

/// `/api`.
pub fn api_versions(registry: &Registry, address: &str) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": registry.groups().get("").cloned().unwrap_or_default(),
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    })
}

/// `/apis`.
pub fn api_group_list(sources: Sources<'_>) -> Value {
    let groups = sources.recorded().into_iter();
    let groups: Vec<Value> = groups.map(|(name, versions)| group(name, &versions)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/<group>`.
pub fn api_group(sources: Sources<'_>, name: &str) -> Option<Value> {
    let mut value = group(name, &sources.versions_of(name)?);
    value["kind"] = "APIGroup".into();
    value["apiVersion"] = "v1".into();
    Some(value)
}

fn group(name: &str, versions: &[&str]) -> Value {
    let version = |version: &&str| json!({"groupVersion": format!("{name}/{version}"), "version": version});
    let versions: Vec<Value> = versions.iter().map(version).collect();
    json!({"name": name, "preferredVersion": versions.first(), "versions": versions})
}

/// `/api/v1` and `/apis/<group>/<version>`.
pub fn api_resource_list(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    if !registry.has_group_version(group, version) {
        return None;
    }
    let mut resources = Vec::new();
    for served in registry.resources_of(group, version) {
        resources.push(resource(registry, served));
        let mut subresources: Vec<&Subresource> = served.resource.subresources.iter().collect();
        // A custom resource tells status before scale.
        if served.resource.custom.is_none() {
            subresources.sort_by(|a, b| a.name.cmp(&b.name));
        }
        resources.extend(subresources.into_iter().map(|subresource| subresource_entry(served, subresource)));
    }
    let mut list = json!({"kind": "APIResourceList", "resources": resources});
    if group.is_empty() {
        list["groupVersion"] = version.into();
    } else {
        list["apiVersion"] = "v1".into();
        list["groupVersion"] = format!("{group}/{version}").into();
    }
    Some(list)
}

fn resource(registry: &Registry, served: &Served) -> Value {
    let resource = &served.resource;
    let mut entry = Map::new();
    entry.insert("name".into(), resource.plural.as_str().into());
    entry.insert("singularName".into(), resource.singular.as_str().into());
    entry.insert("namespaced".into(), resource.namespaced().into());
    entry.insert("kind".into(), resource.kind.as_str().into());
    entry.insert("verbs".into(), resource.verbs.clone().into());
    if !resource.short_names.is_empty() {
        entry.insert("shortNames".into(), resource.short_names.clone().into());
    }
    if !resource.categories.is_empty() {
        entry.insert("categories".into(), resource.categories.clone().into());
    }
    if let Some(hash) = storage_version_hash(registry, served) {
        entry.insert("storageVersionHash".into(), hash.into());
    }
    Value::Object(entry)
}

fn subresource_entry(served: &Served, subresource: &Subresource) -> Value {
    let mut entry = json!({
        "name": format!("{}/{}", served.resource.plural, subresource.name), "singularName": "",
        "namespaced": served.resource.namespaced(), "kind": served.resource.kind, "verbs": subresource.verbs,
    });
    if let Some(kind) = &subresource.kind {
        entry["group"] = kind.group.as_str().into();
        entry["version"] = kind.version.as_str().into();
        entry["kind"] = kind.kind.as_str().into();
    }
    entry
}

/// Changes when objects are stored in another version; clients use it to notice migrations.
fn storage_version_hash(registry: &Registry, served: &Served) -> Option<String> {
    let Storage::Stored(stored) = &served.resource.storage else { return None };
    let version = match &served.resource.custom {
        None => &served.resource.version,
        // A version that is not served is nobody's business.
        Some(custom) => {
            registry.get(&stored.group, &custom.storage.version, &stored.resource)?;
            &custom.storage.version
        }
    };
    let input = format!("{}/{version}/{}", stored.group, served.resource.kind);
    Some(STANDARD.encode(&Sha256::digest(input.as_bytes())[..8]))
}
