//! Keeps the usage in each ResourceQuota's status true.
//!
//! The server raises usage in the same transaction as the create that causes it, so the work here is what only happens
//! afterwards: a new or changed quota is counted for the first time, and deletes lower the count again. A quota is read
//! before its objects are counted, and written on condition that nobody changed it since: a create in between changes
//! it, and then the count starts over. So usage never says less than there is.

mod usage;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ResourceQuota, ResourceQuotaStatus};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::PostParams;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt};

use self::usage::Counted;
use crate::discovery::{Discovery, ResourceType};
use crate::error::Error;
use crate::monitor::{Change, Observer};
use crate::requests::{count, ignore_not_found};
use crate::work_queue::{Outcome, WorkQueue};

/// Quotas counted at the same time.
const WORKERS: usize = 4;
/// Between a delete and the count, so that many deletes at once cost one count.
const COALESCE: Duration = Duration::from_millis(50);

/// Namespace and name of a quota.
pub(crate) type Key = (Arc<str>, Arc<str>);
/// What each quota of a namespace limits, by the quota's name.
type Limited = BTreeMap<Arc<str>, Vec<String>>;

/// See the module.
pub(crate) struct ResourceQuotas {
    client: Client,
    discovery: Arc<Discovery>,
    /// By namespace.
    quotas: Mutex<HashMap<Arc<str>, Limited>>,
    queue: WorkQueue<Key>,
}

impl ResourceQuotas {
    pub fn new(client: Client, discovery: Arc<Discovery>) -> Self {
        ResourceQuotas { client, discovery, quotas: Mutex::default(), queue: WorkQueue::new() }
    }

    /// Works forever.
    pub async fn run(&self) {
        let counting = self
            .queue
            .work("resource-quota", WORKERS, |key| async move { self.count(&key).await.map(|()| Outcome::Done) });
        tokio::join!(self.watch(), counting);
    }

    /// Quotas are watched whole: they are few, and what they limit is not in their metadata.
    async fn watch(&self) {
        let api: Api<ResourceQuota> = Api::all(self.client.clone());
        let mut events = watcher::watcher(api, watcher::Config::default()).default_backoff().boxed();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => self.lock().clear(),
                // Deletes may have gone unseen.
                Ok(Event::InitApply(quota)) => self.queue.add(self.track(&quota)),
                Ok(Event::Apply(quota)) => {
                    let key = self.track(&quota);
                    if !is_counted(&quota) {
                        self.queue.add(key);
                    }
                }
                Ok(Event::Delete(quota)) => self.forget(&quota),
                Ok(Event::InitDone) => {}
                Err(error) => tracing::debug!(%error, "watch of resource quotas interrupted"),
            }
        }
    }

    fn track(&self, quota: &ResourceQuota) -> Key {
        let key: Key = (quota.namespace().unwrap_or_default().into(), quota.name_any().into());
        let limited = hard(quota).keys().cloned().collect();
        self.lock().entry(key.0.clone()).or_default().insert(key.1.clone(), limited);
        key
    }

    fn forget(&self, quota: &ResourceQuota) {
        let mut quotas = self.lock();
        let namespace = quota.namespace().unwrap_or_default();
        let Some(of_namespace) = quotas.get_mut(namespace.as_str()) else { return };
        of_namespace.remove(quota.name_any().as_str());
        if of_namespace.is_empty() {
            quotas.remove(namespace.as_str());
        }
    }

    /// Counts what a quota limits.
    pub async fn count(&self, (namespace, name): &Key) -> Result<(), Error> {
        let api: Api<ResourceQuota> = Api::namespaced(self.client.clone(), namespace);
        let Some(mut quota) = api.get_opt(name).await? else { return Ok(()) };
        let hard = hard(&quota);
        let before = quota.status.as_ref().and_then(|status| status.used.clone()).unwrap_or_default();
        let mut used = BTreeMap::new();
        for limited in hard.keys() {
            if let Some(amount) = self.usage(limited, &quota, namespace).await? {
                used.insert(limited.clone(), amount);
            } else if let Some(amount) = before.get(limited) {
                used.insert(limited.clone(), amount.clone());
            }
        }
        let status = ResourceQuotaStatus { hard: Some(hard), used: Some(used) };
        if quota.status.as_ref() == Some(&status) {
            return Ok(());
        }
        quota.status = Some(status);
        ignore_not_found(api.replace_status(name, &PostParams::default(), &quota).await)
    }

    /// How much there is of what a quota limits under a name; `None` if nobody can count that.
    async fn usage(&self, limited: &str, quota: &ResourceQuota, namespace: &str) -> Result<Option<Quantity>, Error> {
        let number = match usage::counted(limited, &self.discovery.catalog()) {
            Counted::Unknown => return Ok(None),
            Counted::NoSuchObjects => 0,
            // Scopes are properties of pods, so no object that we count has any.
            Counted::Objects(_) if usage::has_scopes(quota) => 0,
            Counted::Objects(resource) => count(&self.client, &resource, namespace).await?,
        };
        Ok(Some(Quantity(number.to_string())))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Limited>> {
        // One entry is changed at a time; none is ever half changed.
        self.quotas.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the quota limits, as asked for.
fn hard(quota: &ResourceQuota) -> BTreeMap<String, Quantity> {
    quota.spec.as_ref().and_then(|spec| spec.hard.clone()).unwrap_or_default()
}

/// Whether the status answers the spec; if so, a change came from a create and its count is right.
fn is_counted(quota: &ResourceQuota) -> bool {
    let Some(status) = &quota.status else { return false };
    let (Some(status_hard), Some(used)) = (&status.hard, &status.used) else { return false };
    *status_hard == hard(quota) && status_hard.keys().all(|limited| used.contains_key(limited))
}

impl Observer for ResourceQuotas {
    fn observe(&self, resource: &Arc<ResourceType>, change: Change<'_>) {
        let names = || usage::names(resource);
        let quotas = self.lock();
        match change {
            Change::Deleted(meta) => {
                let namespace = meta.namespace.as_deref().unwrap_or_default();
                let Some((namespace, of_namespace)) = quotas.get_key_value(namespace) else { return };
                self.enqueue(namespace, of_namespace, &names());
            }
            Change::Listed | Change::TypeRemoved => {
                let names = names();
                quotas.iter().for_each(|(namespace, of_namespace)| self.enqueue(namespace, of_namespace, &names));
            }
            Change::ListStarted | Change::Present(_) => {}
        }
    }
}

impl ResourceQuotas {
    /// Queues the quotas that limit something under one of `names`.
    fn enqueue(&self, namespace: &Arc<str>, quotas: &Limited, names: &[String]) {
        for (name, limited) in quotas {
            if limited.iter().any(|limited| names.contains(limited)) {
                self.queue.add_after((namespace.clone(), name.clone()), COALESCE);
            }
        }
    }
}
