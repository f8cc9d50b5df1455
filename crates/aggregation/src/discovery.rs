//! What a remote server says it serves: fetched as aggregated discovery, or document by document from older servers.
//!
//! Documents are read into types and written anew, so that nothing but discovery comes of them whatever the server sent.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bailiwick_webhook::Backend;
use http::header::{ACCEPT, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH};
use serde::{Deserialize, Serialize};

use crate::api_service::ApiService;
use crate::call::{self, AGGREGATOR, Caller, Fetched};

/// How long a server may take to tell.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The largest document that is read; a thousand types take half a megabyte.
const DOCUMENT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// What we ask for, best first.
const WANTED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

/// A version of a group with its resources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiVersionDiscovery {
    pub version: String,
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<ApiResourceDiscovery>,
}

/// A resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ApiResourceDiscovery {
    pub resource: String,
    /// Clients of 1.26 do not survive its absence.
    #[serde(deserialize_with = "null_as_default")]
    pub response_kind: ResponseKind,
    pub scope: String,
    pub singular_resource: String,
    #[serde(deserialize_with = "null_as_default")]
    pub verbs: Vec<String>,
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub short_names: Vec<String>,
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<String>,
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub subresources: Vec<ApiSubresourceDiscovery>,
}

/// A part of a resource with a path of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ApiSubresourceDiscovery {
    pub subresource: String,
    #[serde(deserialize_with = "null_as_default")]
    pub response_kind: ResponseKind,
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub accepted_types: Vec<ResponseKind>,
    #[serde(deserialize_with = "null_as_default")]
    pub verbs: Vec<String>,
}

/// What is answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResponseKind {
    pub group: String,
    pub version: String,
    pub kind: String,
}

fn null_as_default<'de, D: serde::Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

#[derive(Deserialize)]
struct GroupList {
    #[serde(default, deserialize_with = "null_as_default")]
    items: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    #[serde(default)]
    metadata: GroupMetadata,
    #[serde(default, deserialize_with = "null_as_default")]
    versions: Vec<ApiVersionDiscovery>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GroupMetadata {
    name: String,
}

#[derive(Deserialize)]
struct ResourceList {
    #[serde(default, deserialize_with = "null_as_default")]
    resources: Vec<ApiResource>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ApiResource {
    name: String,
    singular_name: String,
    namespaced: bool,
    group: String,
    version: String,
    kind: String,
    #[serde(deserialize_with = "null_as_default")]
    verbs: Vec<String>,
    #[serde(deserialize_with = "null_as_default")]
    short_names: Vec<String>,
    #[serde(deserialize_with = "null_as_default")]
    categories: Vec<String>,
}

/// What a server last said, and the tag it said it under.
#[derive(Default)]
pub(crate) struct Memory {
    versions: HashMap<(String, String), Arc<ApiVersionDiscovery>>,
    etag: Option<HeaderValue>,
}

/// Asks a server what it serves of a group version. What it does not know has no resources.
pub(crate) async fn fetch(
    backend: &Backend,
    service: &ApiService,
    memory: &mut Memory,
) -> Result<Arc<ApiVersionDiscovery>, String> {
    let mut headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(WANTED))]);
    if let Some(etag) = &memory.etag {
        headers.insert(IF_NONE_MATCH, etag.clone());
    }
    let fetched = get(backend, "/apis", &AGGREGATOR, headers).await?;
    let known = |memory: &Memory| {
        let found = memory.versions.get(&(service.group.clone(), service.version.clone())).cloned();
        found.unwrap_or_else(|| Arc::new(nothing_of(service)))
    };
    match fetched.status.as_u16() {
        304 if memory.etag.is_some() => Ok(known(memory)),
        503 => Err(format!("service {} returned non-success response code: 503", service.name)),
        200 if is_aggregated(&fetched.headers) => {
            let list: GroupList = serde_json::from_slice(&fetched.body).map_err(|error| error.to_string())?;
            let versions = list.items.into_iter().flat_map(|group| {
                let name = group.metadata.name;
                group.versions.into_iter().map(move |v| ((name.clone(), v.version.clone()), Arc::new(v)))
            });
            *memory = Memory { versions: versions.collect(), etag: fetched.headers.get(ETAG).cloned() };
            Ok(known(memory))
        }
        _ => {
            *memory = Memory::default();
            one_by_one(backend, service).await.map(Arc::new)
        }
    }
}

fn nothing_of(service: &ApiService) -> ApiVersionDiscovery {
    ApiVersionDiscovery { version: service.version.clone(), resources: Vec::new() }
}

fn is_aggregated(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    content_type.starts_with("application/json")
        && content_type.contains("g=apidiscovery.k8s.io")
        && content_type.contains("as=APIGroupDiscoveryList")
}

/// As servers told it before there was aggregated discovery.
async fn one_by_one(backend: &Backend, service: &ApiService) -> Result<ApiVersionDiscovery, String> {
    let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]);
    let path = service.path();
    let fetched = get(backend, &path, &AGGREGATOR, headers).await?;
    if fetched.status != 200 {
        return Err(format!("failed to download legacy discovery for {path}: {}", fetched.status));
    }
    let list: ResourceList = serde_json::from_slice(&fetched.body).map_err(|error| error.to_string())?;
    Ok(ApiVersionDiscovery { version: service.version.clone(), resources: converted(list.resources) })
}

async fn get(backend: &Backend, path: &str, caller: &Caller, headers: HeaderMap) -> Result<Fetched, String> {
    let fetched = call::fetch(backend, path, caller, headers, TIMEOUT, DOCUMENT_BYTES_MAX).await;
    fetched.map_err(|error| error.to_string())
}

/// A list of resources in which subresources are named `resource/subresource`, as resources with their subresources.
fn converted(resources: Vec<ApiResource>) -> Vec<ApiResourceDiscovery> {
    let mut out: Vec<ApiResourceDiscovery> = Vec::new();
    for entry in resources {
        let response_kind = ResponseKind { group: entry.group, version: entry.version, kind: entry.kind };
        let scope = if entry.namespaced { "Namespaced" } else { "Cluster" };
        let Some((parent, subresource)) = entry.name.split_once('/') else {
            // A subresource may have come before what it is a part of.
            let known = out.iter_mut().find(|known| known.resource == entry.name);
            let resource = match known {
                Some(known) => known,
                None => {
                    out.push(ApiResourceDiscovery { resource: entry.name.clone(), ..ApiResourceDiscovery::default() });
                    let Some(last) = out.last_mut() else { continue };
                    last
                }
            };
            resource.response_kind = response_kind;
            resource.scope = scope.to_owned();
            resource.singular_resource = entry.singular_name;
            resource.verbs = entry.verbs;
            resource.short_names = entry.short_names;
            resource.categories = entry.categories;
            continue;
        };
        let part = ApiSubresourceDiscovery {
            subresource: subresource.to_owned(),
            response_kind,
            accepted_types: Vec::new(),
            verbs: entry.verbs,
        };
        match out.iter_mut().find(|known| known.resource == parent) {
            Some(known) => known.subresources.push(part),
            None => out.push(ApiResourceDiscovery {
                resource: parent.to_owned(),
                scope: scope.to_owned(),
                subresources: vec![part],
                ..ApiResourceDiscovery::default()
            }),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn subresources_find_their_resource() {
        let list = json!({"kind": "APIResourceList", "resources": [
            {"name": "flunders/status", "singularName": "", "namespaced": true, "kind": "Flunder", "verbs": ["get"]},
            {"name": "flunders", "singularName": "flunder", "namespaced": true, "kind": "Flunder", "verbs": ["list"]},
        ]});
        let list: ResourceList = serde_json::from_value(list).expect("a list");
        let resources = converted(list.resources);
        assert_eq!(resources.len(), 1);
        assert_eq!((resources[0].resource.as_str(), resources[0].scope.as_str()), ("flunders", "Namespaced"));
        assert_eq!(resources[0].verbs, ["list"]);
        assert_eq!(resources[0].subresources[0].subresource, "status");
    }

    #[test]
    fn a_resource_without_a_kind_gets_an_empty_one() {
        let version = json!({"version": "v1", "resources": [{"resource": "a", "verbs": null, "scope": "Cluster"}]});
        let version: ApiVersionDiscovery = serde_json::from_value(version).expect("a version");
        let written = serde_json::to_value(&version).expect("JSON");
        assert_eq!(written["resources"][0]["responseKind"], json!({"group": "", "version": "", "kind": ""}));
        assert_eq!(written["resources"][0]["verbs"], json!([]));
    }

    proptest! {
        #[test]
        fn any_text_is_discovery_or_not(text in "\\PC{0,200}") {
            let _ = serde_json::from_str::<GroupList>(&text);
            let _ = serde_json::from_str::<ResourceList>(&text);
        }
    }
}
