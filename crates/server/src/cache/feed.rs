//! The one follower of the store's log, and the caches it keeps current.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bailiwick_store::{
    self as store, KeyRange, Op, RangeRequest, RangeResponse, Revision, Store, TxnOutcome, WatchItem,
};
use bytes::Bytes;
use futures::StreamExt;
use tokio::sync::{Notify, OnceCell};

use super::resource::Installed;
use super::{CacheSpec, ResourceCache};
use crate::registry::TenantId;

/// Between attempts to follow a store that does not answer.
const RECONNECT_DELAY: Duration = Duration::from_millis(200);

/// Keys are `<tenant>/<group>/<resource>/…`: this many slashes end the prefix of one resource.
const PREFIX_SEGMENTS: usize = 3;

/// Resources with more objects are parsed on a thread of their own.
const OFF_THREAD_ENTRIES: usize = 1000;

type Entry = Arc<OnceCell<Arc<ResourceCache>>>;

/// Every resource's cache, each loaded when first used.
pub struct Caches {
    store: Arc<dyn Store>,
    entries: RwLock<HashMap<Bytes, Entry>>,
    /// What the feed consults: caches from the moment they start to load.
    fed: RwLock<HashMap<Bytes, Arc<ResourceCache>>>,
    /// Everything up to this revision has been applied.
    applied: AtomicU64,
    moved: Notify,
    /// The last of our own commits to a resource that decisions are made from, see [`Caches::commit`].
    decisive: AtomicU64,
}

/// The task that follows the store; ends when dropped.
pub struct Feed(tokio::task::JoinHandle<()>);

impl Drop for Feed {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Caches {
    /// Starts to follow `store` from its present revision.
    pub async fn start(store: Arc<dyn Store>) -> store::Result<(Arc<Self>, Feed)> {
        let revision = store.revision().await?;
        let caches = Arc::new(Self {
            store,
            entries: RwLock::default(),
            fed: RwLock::default(),
            applied: AtomicU64::new(revision.0),
            moved: Notify::new(),
            decisive: AtomicU64::new(0),
        });
        let feed = Feed(tokio::spawn(caches.clone().follow()));
        Ok((caches, feed))
    }

    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The feed's position: every change up to it is visible in every loaded cache.
    pub fn applied(&self) -> Revision {
        Revision(self.applied.load(Ordering::Acquire))
    }

    /// Waits until the caches show everything up to `revision`.
    pub async fn wait_for(&self, revision: Revision) -> store::Result<()> {
        if self.applied() >= revision {
            return Ok(());
        }
        let mut asked = false;
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            if self.applied() >= revision {
                return Ok(());
            }
            if !asked {
                asked = true;
                self.store.request_progress().await?;
            }
            moved.await;
        }
    }

    /// Waits until the caches show every write that was acknowledged before this call.
    pub async fn wait_current(&self) -> store::Result<Revision> {
        let revision = self.store.revision().await?;
        self.wait_for(revision).await?;
        Ok(revision)
    }

    /// Commits a transaction. If it changes what decisions are made from (roles, namespaces, accounts), the next request
    /// is decided by the new state, see [`Caches::wait_decisive`]: whoever sees the answer sees the effect.
    pub async fn commit(&self, ops: Vec<Op>) -> store::Result<TxnOutcome> {
        let decisive = {
            let fed = self.fed.read().unwrap_or_else(PoisonError::into_inner);
            ops.iter().any(|op| fed.get(resource_prefix(op.key())).is_some_and(|cache| cache.is_decisive()))
        };
        let outcome = self.store.txn(ops).await?;
        if let (true, TxnOutcome::Committed { revision }) = (decisive, &outcome) {
            self.decisive.fetch_max(revision.0, Ordering::AcqRel);
        }
        Ok(outcome)
    }

    /// Waits until the caches show our own last commit that decisions depend on; in the usual case that is a comparison.
    pub async fn wait_decisive(&self) -> store::Result<()> {
        self.wait_for(Revision(self.decisive.load(Ordering::Acquire))).await
    }

    /// The cache of a resource, loaded if this is its first use.
    pub async fn resource(&self, spec: &CacheSpec) -> store::Result<Arc<ResourceCache>> {
        if let Some(cache) = self.loaded(&spec.prefix) {
            return Ok(cache);
        }
        let entry = {
            let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
            entries.entry(spec.prefix.clone()).or_default().clone()
        };
        entry.get_or_try_init(|| self.load(spec)).await.cloned()
    }

    /// The cache of a resource if it has been used.
    pub(crate) fn loaded(&self, prefix: &Bytes) -> Option<Arc<ResourceCache>> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner).get(prefix)?.get().cloned()
    }

    async fn load(&self, spec: &CacheSpec) -> store::Result<Arc<ResourceCache>> {
        let cache = Arc::new(ResourceCache::loading(spec.clone()));
        // From here on the feed sets changes aside for this cache, so none is lost between the read and the switch.
        self.fed.write().unwrap_or_else(PoisonError::into_inner).insert(spec.prefix.clone(), cache.clone());
        let mut unfinished = Unfinished { caches: self, cache: Some(cache.clone()) };
        loop {
            let loaded = self.read(&spec.prefix).await?;
            let installing = cache.clone();
            if off_thread(loaded.entries.len(), move || installing.install(&loaded)).await? == Installed::Done {
                break;
            }
        }
        unfinished.cache = None;
        Ok(cache)
    }

    /// All of a resource as it is now.
    async fn read(&self, prefix: &Bytes) -> store::Result<RangeResponse> {
        let range = KeyRange::prefix(prefix.clone());
        self.store.range(RangeRequest { range, at: None, limit: None }).await
    }

    /// Lets go of a resource that is no longer served, or served otherwise: its watches end, and the next use loads it
    /// anew.
    pub fn forget(&self, prefix: &Bytes) {
        self.fed.write().unwrap_or_else(PoisonError::into_inner).remove(prefix);
        let entry = self.entries.write().unwrap_or_else(PoisonError::into_inner).remove(prefix);
        if let Some(cache) = entry.as_ref().and_then(|entry| entry.get()) {
            cache.close_watchers();
        }
    }

    /// Lets go of everything of these control planes; their watches end.
    pub fn forget_tenants(&self, tenants: &HashSet<TenantId>) {
        let keep = |key: &Bytes| !tenants.contains(tenant_of(key));
        self.fed.write().unwrap_or_else(PoisonError::into_inner).retain(|key, _| keep(key));
        let mut forgotten = Vec::new();
        self.entries.write().unwrap_or_else(PoisonError::into_inner).retain(|key, entry| {
            let keep = keep(key);
            if !keep {
                forgotten.extend(entry.get().cloned());
            }
            keep
        });
        forgotten.iter().for_each(|cache| cache.close_watchers());
    }

    /// The control planes in which somebody watches something.
    pub fn watched_tenants(&self) -> HashSet<String> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let watched = entries.iter().filter(|(_, entry)| entry.get().is_some_and(|cache| cache.counts().1 > 0));
        watched.map(|(key, _)| tenant_of(key).to_owned()).collect()
    }

    /// All loaded caches.
    pub fn all(&self) -> Vec<Arc<ResourceCache>> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        entries.values().filter_map(|entry| entry.get().cloned()).collect()
    }

    /// Ends every watch, so that connections can drain.
    pub fn close_watchers(&self) {
        self.all().iter().for_each(|cache| cache.close_watchers());
    }

    async fn follow(self: Arc<Self>) {
        loop {
            match self.follow_once().await {
                Err(error @ store::Error::Compacted { .. }) => {
                    tracing::warn!(%error, "the store forgot changes before they were seen; reading everything again");
                    match self.skip_to_present().await {
                        Ok(()) => continue,
                        Err(error) => tracing::warn!(%error, "the store cannot be read; trying again"),
                    }
                }
                Err(store::Error::Closed) => return,
                Err(error) => tracing::warn!(%error, "following the store was interrupted; resuming"),
                Ok(()) => {}
            }
            tokio::time::sleep(RECONNECT_DELAY).await;
        }
    }

    async fn follow_once(&self) -> store::Result<()> {
        let everything = KeyRange::prefix(Bytes::new());
        let mut stream = self.store.watch(everything, self.applied()).await?;
        while let Some(item) = stream.next().await {
            match item? {
                WatchItem::Events(events) => self.apply(&events),
                WatchItem::Progress(revision) => self.advance(revision),
            }
        }
        Ok(())
    }

    fn apply(&self, events: &[store::Event]) {
        let Some(last) = events.last() else { return };
        for run in events.chunk_by(|a, b| resource_prefix(a.key()) == resource_prefix(b.key())) {
            let prefix = run.first().map(|event| resource_prefix(event.key())).unwrap_or_default();
            // The lock is not held while changes are applied: a subscriber may ask for another cache to be forgotten.
            let cache = self.fed.read().unwrap_or_else(PoisonError::into_inner).get(prefix).cloned();
            if let Some(cache) = cache {
                cache.apply(run.iter());
            }
        }
        self.advance(last.revision());
    }

    fn advance(&self, revision: Revision) {
        self.applied.fetch_max(revision.0, Ordering::AcqRel);
        self.moved.notify_waiters();
    }

    /// Goes on from the present: every loaded cache is read again and tells its subscribers what is different. Called by
    /// the feed alone, so no change is applied meanwhile. If it fails it can be called again.
    async fn skip_to_present(&self) -> store::Result<()> {
        let present = self.store.revision().await?;
        let fed: Vec<_> = self.fed.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        for cache in fed {
            if cache.skipped(present) {
                let loaded = self.read(&cache.spec.prefix).await?;
                off_thread(loaded.entries.len(), move || cache.catch_up(&loaded)).await?;
            }
        }
        self.advance(present);
        Ok(())
    }
}

/// A cache that is being loaded. If loading ends without success, or is given up, nothing must be set aside for it any
/// longer.
struct Unfinished<'a> {
    caches: &'a Caches,
    cache: Option<Arc<ResourceCache>>,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        let Some(cache) = self.cache.take() else { return };
        let mut fed = self.caches.fed.write().unwrap_or_else(PoisonError::into_inner);
        if fed.get(&cache.spec.prefix).is_some_and(|fed| Arc::ptr_eq(fed, &cache)) {
            fed.remove(&cache.spec.prefix);
        }
    }
}

/// Parsing a few objects is quicker than a thread switch; parsing a million must not stall the others.
async fn off_thread<T: Send + 'static>(entries: usize, work: impl FnOnce() -> T + Send + 'static) -> store::Result<T> {
    if entries < OFF_THREAD_ENTRIES {
        return Ok(work());
    }
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| store::Error::Unavailable(format!("loading a cache failed: {error}")))
}

/// The part of a key that names its control plane.
fn tenant_of(key: &[u8]) -> &str {
    let end = memchr::memchr(b'/', key).unwrap_or(key.len());
    key.get(..end).and_then(|tenant| std::str::from_utf8(tenant).ok()).unwrap_or_default()
}

/// The part of a key that names its resource.
fn resource_prefix(key: &[u8]) -> &[u8] {
    memchr::memchr_iter(b'/', key).nth(PREFIX_SEGMENTS - 1).map_or(key, |end| &key[..=end])
}

#[cfg(test)]
mod tests {
    use super::resource_prefix;

    #[test]
    fn a_prefix_is_tenant_group_and_resource() {
        assert_eq!(resource_prefix(b"root/core/configmaps/ns/name"), b"root/core/configmaps/");
        assert_eq!(resource_prefix(b"root/core"), b"root/core");
    }
}
