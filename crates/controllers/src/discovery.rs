//! Which resource types the server has: one [`Catalog`] for all controllers, kept fresh by conditional requests.
//!
//! Two aggregated-discovery documents say everything; their ETags make asking again cheap, so whoever needs certainty
//! (deleting a namespace must not overlook a type that appeared a moment ago) may ask every time.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use http::header::{ACCEPT, ETAG, IF_NONE_MATCH};
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use kube::core::ApiResource;
use kube::core::discovery::v2::{
    ACCEPT_AGGREGATED_DISCOVERY_V2, APIGroupDiscovery, APIGroupDiscoveryList, APIResourceDiscovery,
};

use crate::error::Error;
use crate::plane::PlaneClient;

/// The two documents: the core group and all others.
const DOCUMENTS: [&str; 2] = ["/api", "/apis"];

/// Whether objects of a type live in namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Namespaced,
    Cluster,
}

/// A resource type in one version.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ResourceType {
    pub api: ApiResource,
    pub scope: Scope,
    verbs: Vec<String>,
}

impl ResourceType {
    pub fn new(api: ApiResource, scope: Scope) -> Self {
        Self { api, scope, verbs: Vec::new() }
    }

    pub fn supports(&self, verbs: &[&str]) -> bool {
        verbs.iter().all(|verb| self.verbs.iter().any(|supported| supported == verb))
    }

    /// Whether this is resource `plural` of `group`, in whatever version.
    pub fn is(&self, group: &str, plural: &str) -> bool {
        self.api.group == group && self.api.plural == plural
    }

    /// As quotas name it: `configmaps`, `roles.rbac.authorization.k8s.io`.
    pub fn group_resource(&self) -> String {
        if self.api.group.is_empty() {
            self.api.plural.clone()
        } else {
            format!("{}.{}", self.api.plural, self.api.group)
        }
    }

    #[cfg(test)]
    pub fn for_tests(group: &str, kind: &str, plural: &str, scope: Scope) -> Arc<Self> {
        let gvk = kube::core::GroupVersionKind::gvk(group, "v1", kind);
        let verbs = ["get", "list", "watch", "create", "delete", "deletecollection"].map(str::to_owned).to_vec();
        Arc::new(ResourceType { api: ApiResource::from_gvk_with_plural(&gvk, plural), scope, verbs })
    }
}

/// What the server serves.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    /// Every resource once, in the server's preferred version.
    pub types: Vec<Arc<ResourceType>>,
    by_kind: HashMap<String, Arc<ResourceType>>,
    /// Group-versions whose resources the server could not tell.
    pub stale: Vec<String>,
}

impl Catalog {
    /// The type that an owner reference means.
    pub fn of_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<ResourceType>> {
        self.by_kind.get(&kind_key(api_version, kind))
    }

    fn add_group(&mut self, group: &APIGroupDiscovery) {
        let name = group.metadata.as_ref().and_then(|meta| meta.name.as_deref()).unwrap_or_default();
        let mut preferred = BTreeMap::new();
        for version in &group.versions {
            let number = version.version.as_deref().unwrap_or_default();
            let api_version = if name.is_empty() { number.to_owned() } else { format!("{name}/{number}") };
            if version.freshness.as_deref() == Some("Stale") {
                self.stale.push(api_version.clone());
            }
            for resource in &version.resources {
                let Some(found) = resource_type(name, number, &api_version, resource) else { continue };
                let found = Arc::new(found);
                self.by_kind.entry(kind_key(&api_version, &found.api.kind)).or_insert_with(|| found.clone());
                preferred.entry(found.api.plural.clone()).or_insert(found);
            }
        }
        self.types.extend(preferred.into_values());
    }
}

fn kind_key(api_version: &str, kind: &str) -> String {
    format!("{api_version}/{kind}")
}

fn resource_type(group: &str, version: &str, api_version: &str, found: &APIResourceDiscovery) -> Option<ResourceType> {
    let kind = found.response_kind.as_ref()?.kind.clone()?;
    let api = ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: api_version.to_owned(),
        kind,
        plural: found.resource.clone()?,
    };
    let scope = if found.scope.as_deref() == Some("Namespaced") { Scope::Namespaced } else { Scope::Cluster };
    Some(ResourceType { api, scope, verbs: found.verbs.clone() })
}

/// Asks for the catalog and remembers the last answer.
pub(crate) struct Discovery {
    client: PlaneClient,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    catalog: Arc<Catalog>,
    etags: [Option<String>; 2],
}

enum Document {
    Unchanged,
    Changed { etag: Option<String>, list: APIGroupDiscoveryList },
}

impl Discovery {
    pub fn new(client: impl Into<PlaneClient>) -> Self {
        Discovery { client: client.into(), known: Mutex::default() }
    }

    /// The last catalog seen; empty before the first [`Discovery::refresh`].
    pub fn catalog(&self) -> Arc<Catalog> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).catalog.clone()
    }

    /// The catalog as the server has it now. The same `Arc` as before if nothing changed.
    pub async fn refresh(&self) -> Result<Arc<Catalog>, Error> {
        let (known, etags) = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            (known.catalog.clone(), known.etags.clone())
        };
        let mut answers = Vec::with_capacity(DOCUMENTS.len());
        for (path, etag) in DOCUMENTS.into_iter().zip(&etags) {
            answers.push(self.fetch(path, etag.as_deref()).await?);
        }
        if answers.iter().all(|answer| matches!(answer, Document::Unchanged)) {
            return Ok(known);
        }
        let mut catalog = Catalog::default();
        let mut new_etags = <[Option<String>; 2]>::default();
        for ((path, slot), answer) in DOCUMENTS.into_iter().zip(&mut new_etags).zip(answers) {
            // One changed, so the other is needed in full to build the whole.
            let answer = match answer {
                Document::Unchanged => self.fetch(path, None).await?,
                changed => changed,
            };
            if let Document::Changed { etag, list } = answer {
                *slot = etag;
                list.items.iter().for_each(|group| catalog.add_group(group));
            }
        }
        let catalog = Arc::new(catalog);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        *known = Known { catalog: catalog.clone(), etags: new_etags };
        Ok(catalog)
    }

    async fn fetch(&self, path: &'static str, etag: Option<&str>) -> Result<Document, Error> {
        let failed = |detail: String| Error::Discovery { path, detail };
        let mut request = Request::get(path).header(ACCEPT, ACCEPT_AGGREGATED_DISCOVERY_V2);
        if let Some(etag) = etag {
            request = request.header(IF_NONE_MATCH, etag);
        }
        let request = request.body(Body::empty()).map_err(|error| failed(error.to_string()))?;
        let response = self.client.get().send(request).await?;
        let (status, etag) = (response.status(), response.headers().get(ETAG).cloned());
        if status == StatusCode::NOT_MODIFIED {
            return Ok(Document::Unchanged);
        }
        let body = response.into_body().collect().await?.to_bytes();
        if status != StatusCode::OK {
            return Err(failed(format!("{status}: {}", String::from_utf8_lossy(&body))));
        }
        let list = serde_json::from_slice(&body).map_err(|error| failed(error.to_string()))?;
        let etag = etag.and_then(|etag| etag.to_str().ok().map(str::to_owned));
        Ok(Document::Changed { etag, list })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalog(document: serde_json::Value) -> Catalog {
        let list: APIGroupDiscoveryList = serde_json::from_value(document).unwrap();
        let mut catalog = Catalog::default();
        list.items.iter().for_each(|group| catalog.add_group(group));
        catalog
    }

    fn resource(plural: &str, kind: &str) -> serde_json::Value {
        serde_json::json!({"resource": plural, "responseKind": {"kind": kind}, "scope": "Namespaced", "verbs": ["get", "list"]})
    }

    #[test]
    fn a_resource_in_two_versions_is_listed_once_and_found_by_both() {
        let catalog = catalog(serde_json::json!({"items": [{"metadata": {"name": "example.com"}, "versions": [
            {"version": "v2", "resources": [resource("widgets", "Widget")]},
            {"version": "v1", "resources": [resource("widgets", "Widget"), resource("gears", "Gear")]},
        ]}]}));
        let listed: Vec<_> =
            catalog.types.iter().map(|found| format!("{}.{}", found.api.plural, found.api.version)).collect();
        assert_eq!(listed, ["gears.v1", "widgets.v2"]);
        assert_eq!(catalog.of_kind("example.com/v1", "Widget").unwrap().api.version, "v1");
        assert_eq!(catalog.of_kind("example.com/v2", "Widget").unwrap().api.version, "v2");
        assert!(catalog.of_kind("example.com/v2", "Gear").is_none());
    }

    #[test]
    fn a_group_version_the_server_cannot_reach_is_reported() {
        let catalog = catalog(serde_json::json!({"items": [{"metadata": {"name": "down.example.com"}, "versions": [
            {"version": "v1", "resources": [], "freshness": "Stale"}]}]}));
        assert_eq!(catalog.stale, ["down.example.com/v1"]);
    }
}
