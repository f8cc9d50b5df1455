//! Stored objects for those who must decide at once: admission plugins and the authentication of service accounts.
//!
//! Answers come from caches that are loaded before the server takes requests.

use std::sync::Arc;

use bailiwick_admission::{Lookup, NamespaceState};
use bailiwick_auth::service_account::{ServiceAccountGetter, StoredIdentity};
use bailiwick_machinery::object;
use bailiwick_store as store;
use serde_json::Value;

use crate::cache::{Caches, Object, ResourceCache};
use crate::registry::{Registry, Served};

/// Caches that decisions need, by what they hold.
pub struct StoredObjects {
    namespaces: Option<Source>,
    quotas: Option<Source>,
    accounts: Option<Source>,
    secrets: Option<Source>,
}

struct Source {
    served: Arc<Served>,
    cache: Arc<ResourceCache>,
}

impl StoredObjects {
    /// Loads what is needed of the core group; what the registry does not serve simply has no objects.
    pub async fn load(registry: &Registry, caches: &Caches) -> store::Result<Self> {
        Ok(Self {
            namespaces: source(registry, caches, "namespaces").await?,
            quotas: source(registry, caches, "resourcequotas").await?,
            accounts: source(registry, caches, "serviceaccounts").await?,
            secrets: source(registry, caches, "secrets").await?,
        })
    }
}

async fn source(registry: &Registry, caches: &Caches, plural: &str) -> store::Result<Option<Source>> {
    let Some(served) = registry.any_version("", plural) else { return Ok(None) };
    let Some(spec) = &served.cache else { return Ok(None) };
    Ok(Some(Source { served: served.clone(), cache: caches.resource(spec).await? }))
}

impl Source {
    fn get(&self, namespace: &str, name: &str) -> Option<Arc<Object>> {
        self.cache.get(&self.served.key(namespace, name))
    }

    fn identity(&self, namespace: &str, name: &str) -> Option<StoredIdentity> {
        let value = self.get(namespace, name)?.to_value().ok()?;
        let deletion = object::meta_str(&value, "deletionTimestamp").parse().ok();
        Some(StoredIdentity { uid: object::uid(&value).to_owned(), deletion })
    }
}

impl Lookup for StoredObjects {
    fn namespace_state(&self, name: &str) -> NamespaceState {
        match self.namespaces.as_ref().map(|source| source.get("", name)) {
            // A control plane without namespace objects has no namespaces to be missing.
            None => NamespaceState::Active,
            Some(None) => NamespaceState::Missing,
            Some(Some(namespace)) if namespace.deleting => NamespaceState::Terminating,
            Some(Some(_)) => NamespaceState::Active,
        }
    }

    fn resource_quotas(&self, namespace: &str) -> Vec<Arc<Value>> {
        let Some(source) = &self.quotas else { return Vec::new() };
        let range = store::KeyRange::prefix(source.served.prefix(namespace));
        let snapshot = source.cache.snapshot(store::Revision::default());
        snapshot.range(&range).filter_map(|quota| quota.to_value().ok().map(Arc::new)).collect()
    }
}

impl ServiceAccountGetter for StoredObjects {
    fn service_account(&self, namespace: &str, name: &str) -> Option<StoredIdentity> {
        self.accounts.as_ref()?.identity(namespace, name)
    }

    fn secret(&self, namespace: &str, name: &str) -> Option<StoredIdentity> {
        self.secrets.as_ref()?.identity(namespace, name)
    }
}
