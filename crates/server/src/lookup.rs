//! Stored objects for those who must decide at once: admission plugins and the authentication of service accounts.
//!
//! Answers come from caches that are loaded before the server takes requests; only secrets, which may be many and are
//! needed for bootstrap tokens and tokens bound to one, are loaded when the first such token comes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bailiwick_admission::{Lookup, NamespaceState};
use bailiwick_auth::authn::bootstrap::SecretGetter;
use bailiwick_auth::service_account::{ServiceAccountGetter, StoredIdentity};
use bailiwick_machinery::object;
use bailiwick_machinery::selector::LabelSelector;
use bailiwick_store as store;
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::cache::{Caches, Object, ResourceCache};
use crate::registry::{Registry, Served};

/// Caches that decisions need, by what they hold.
pub struct StoredObjects {
    caches: Arc<Caches>,
    namespaces: Option<Source>,
    quotas: Option<Source>,
    accounts: Option<Source>,
    secrets: Secrets,
}

/// Secrets, once somebody has asked for one.
struct Secrets {
    served: Option<Arc<Served>>,
    source: OnceCell<Option<Source>>,
    /// Whether somebody asked and could not be answered.
    missed: AtomicBool,
}

struct Source {
    served: Arc<Served>,
    cache: Arc<ResourceCache>,
}

impl StoredObjects {
    /// Loads what is needed of the core group; what the registry does not serve simply has no objects.
    pub async fn load(registry: &Registry, caches: &Arc<Caches>) -> store::Result<Self> {
        let core = |plural| registry.any_version("", plural).cloned();
        let namespaces = source(core("namespaces"), caches).await?;
        let accounts = source(core("serviceaccounts"), caches).await?;
        // Quotas are not among them: their use is settled by the store, and nearly every write changes one.
        [&namespaces, &accounts].into_iter().flatten().for_each(|source| source.cache.mark_decisive());
        Ok(Self {
            caches: caches.clone(),
            namespaces,
            quotas: source(core("resourcequotas"), caches).await?,
            accounts,
            secrets: Secrets { served: core("secrets"), source: OnceCell::new(), missed: AtomicBool::new(false) },
        })
    }

    /// Whether every lookup from now on can be answered: then nothing is gained by [`StoredObjects::load_missed`].
    pub fn is_complete(&self) -> bool {
        self.secrets.source.get().is_some()
    }

    /// Loads what some lookup could not answer from. After [`Loaded::More`] the question is worth asking again.
    pub async fn load_missed(&self) -> store::Result<Loaded> {
        if !self.secrets.missed.load(Ordering::Acquire) {
            return Ok(Loaded::Nothing);
        }
        let load = || source(self.secrets.served.clone(), &self.caches);
        if let Some(secrets) = self.secrets.source.get_or_try_init(load).await? {
            secrets.cache.mark_decisive();
        }
        // The mark stays: another request may have missed before we loaded, and must ask again too.
        Ok(Loaded::More)
    }
}

/// Whether there is now more to answer from than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loaded {
    Nothing,
    More,
}

async fn source(served: Option<Arc<Served>>, caches: &Caches) -> store::Result<Option<Source>> {
    let Some(served) = served else { return Ok(None) };
    let Some(spec) = &served.cache else { return Ok(None) };
    let cache = caches.resource(spec).await?;
    Ok(Some(Source { served, cache }))
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

    fn namespace_matches(&self, name: &str, selector: &LabelSelector) -> Option<bool> {
        let namespace = self.namespaces.as_ref()?.get("", name)?;
        Some(selector.matches(|key| namespace.label(key)))
    }

    fn namespace(&self, name: &str) -> Option<Arc<Value>> {
        self.namespaces.as_ref()?.get("", name)?.to_value().ok().map(Arc::new)
    }

    fn resource_quotas(&self, namespace: &str) -> Vec<Arc<Value>> {
        let Some(source) = &self.quotas else { return Vec::new() };
        let range = store::KeyRange::prefix(source.served.prefix(namespace));
        let snapshot = source.cache.snapshot(store::Revision::default());
        snapshot.range(&range).filter_map(|quota| quota.to_value().ok().map(Arc::new)).collect()
    }
}

impl StoredObjects {
    /// Secrets, if they are loaded; otherwise it is remembered that somebody asked.
    fn secrets(&self) -> Option<&Source> {
        match self.secrets.source.get() {
            Some(source) => source.as_ref(),
            None => {
                self.secrets.missed.store(true, Ordering::Release);
                None
            }
        }
    }
}

impl SecretGetter for StoredObjects {
    fn secret_json(&self, namespace: &str, name: &str) -> Option<Vec<u8>> {
        Some(self.secrets()?.get(namespace, name)?.stored_json().to_vec())
    }
}

impl ServiceAccountGetter for StoredObjects {
    fn service_account(&self, namespace: &str, name: &str) -> Option<StoredIdentity> {
        self.accounts.as_ref()?.identity(namespace, name)
    }

    fn secret(&self, namespace: &str, name: &str) -> Option<StoredIdentity> {
        self.secrets()?.identity(namespace, name)
    }
}
