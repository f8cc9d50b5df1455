//! Caches under a store that forgets, and under transactions that change several objects at once.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bailiwick_store::embedded::{EmbeddedStore, Options};
use bailiwick_store::{
    Error, Expect, KeyRange, KeyValue, Op, RangeRequest, RangeResponse, Result, Revision, Store, TxnOutcome,
    WatchStream,
};
use bytes::Bytes;
use futures::StreamExt;
use tokio::sync::watch;

use super::{CacheSpec, Caches, Filter, Next, QueueLimits};

const PREFIX: &str = "root/core/configmaps/";
/// More than anything here needs.
const LIMITS: QueueLimits = QueueLimits { len_max: 100, bytes_max: 1 << 20 };

/// A store whose watches can be cut, and which then has forgotten what happened before they are opened again.
struct Forgetful {
    store: Arc<EmbeddedStore>,
    /// While true watches end and none begin.
    cut: watch::Sender<bool>,
    floor: AtomicU64,
}

#[async_trait]
impl Store for Forgetful {
    async fn revision(&self) -> Result<Revision> {
        self.store.revision().await
    }
    async fn get(&self, key: &[u8]) -> Result<(Revision, Option<KeyValue>)> {
        self.store.get(key).await
    }
    async fn range(&self, request: RangeRequest) -> Result<RangeResponse> {
        self.store.range(request).await
    }
    async fn txn(&self, ops: Vec<Op>) -> Result<TxnOutcome> {
        self.store.txn(ops).await
    }
    async fn watch(&self, range: KeyRange, after: Revision) -> Result<WatchStream> {
        let mut cut = self.cut.subscribe();
        let _ = cut.wait_for(|cut| !cut).await;
        let compacted = Revision(self.floor.load(Ordering::Acquire));
        if after < compacted {
            return Err(Error::Compacted { requested: after, compacted });
        }
        let until = async move { drop(cut.wait_for(|cut| *cut).await) };
        Ok(self.store.watch(range, after).await?.take_until(Box::pin(until)).boxed())
    }
    async fn request_progress(&self) -> Result<()> {
        self.store.request_progress().await
    }
    async fn compact(&self, revision: Revision) -> Result<()> {
        self.store.compact(revision).await
    }
    async fn compacted(&self) -> Result<Revision> {
        self.store.compacted().await
    }
}

impl Forgetful {
    fn open(directory: &std::path::Path) -> Arc<Self> {
        let store = EmbeddedStore::open(directory, Options::default()).unwrap();
        Arc::new(Self { store, cut: watch::Sender::new(false), floor: AtomicU64::new(0) })
    }

    async fn commit(&self, ops: Vec<Op>) -> Revision {
        match self.store.txn(ops).await.unwrap() {
            TxnOutcome::Committed { revision } => revision,
            conflict => panic!("{conflict:?}"),
        }
    }

    async fn put(&self, name: &str, value: &str) -> Revision {
        self.commit(vec![put(name, value)]).await
    }
}

fn key(name: &str) -> Bytes {
    format!("{PREFIX}default/{name}").into()
}

fn put(name: &str, value: &str) -> Op {
    let object = format!(r#"{{"metadata":{{"name":"{name}","namespace":"default"}},"data":{{"v":"{value}"}}}}"#);
    Op::Put { key: key(name), value: object.into(), expect: Expect::Any, ttl: None }
}

fn spec() -> CacheSpec {
    CacheSpec { prefix: PREFIX.into(), namespaced: true, selectable_fields: Arc::new([]), base: None }
}

#[tokio::test]
async fn caches_and_their_subscribers_survive_a_store_that_forgot_what_they_had_not_seen() {
    let directory = tempfile::tempdir().unwrap();
    let store = Forgetful::open(directory.path());
    let (caches, _feed) = Caches::start(store.clone()).await.unwrap();
    store.put("changed", "1").await;
    store.put("deleted", "1").await;
    let last = store.put("same", "1").await;
    caches.wait_for(last).await.unwrap();
    let cache = caches.resource(&spec()).await.unwrap();
    let told: Arc<Mutex<Vec<(String, bool)>>> = Arc::default();
    let telling = told.clone();
    cache.subscribe(Box::new(move |event| {
        telling.lock().unwrap().push((event.object.name().to_owned(), event.deleted));
    }));
    let (_, watcher) = cache.watch(Filter::default(), caches.applied(), None, LIMITS);
    told.lock().unwrap().clear();

    store.cut.send_replace(true);
    store.put("changed", "2").await;
    store.commit(vec![Op::Delete { key: key("deleted"), expect: Expect::Any }]).await;
    let forgotten = store.put("new", "1").await;
    store.floor.store(forgotten.0, Ordering::Release);
    store.cut.send_replace(false);

    caches.wait_for(forgotten).await.unwrap();
    let expected = [("deleted", true), ("changed", false), ("new", false)].map(|(name, gone)| (name.to_owned(), gone));
    assert_eq!(*told.lock().unwrap(), expected, "subscribers learn what is different, and only that");
    assert!(cache.get(&key("deleted")).is_none());
    assert!(cache.get(&key("new")).is_some());
    let next = std::future::poll_fn(|cx| watcher.poll_next(cx, LIMITS)).await;
    assert!(matches!(next, Next::Closed), "a watcher that missed something must not go on");

    let after = store.put("later", "1").await;
    caches.wait_for(after).await.unwrap();
    assert_eq!(told.lock().unwrap().last(), Some(&("later".to_owned(), false)), "the feed goes on");
}

#[tokio::test]
async fn all_objects_of_one_transaction_are_seen() {
    let directory = tempfile::tempdir().unwrap();
    let store = Forgetful::open(directory.path());
    let (caches, _feed) = Caches::start(store.clone()).await.unwrap();
    let cache = caches.resource(&spec()).await.unwrap();
    let (_, watcher) = cache.watch(Filter::default(), caches.applied(), None, LIMITS);
    let revision = store.commit(vec![put("a", "1"), put("b", "1")]).await;
    caches.wait_for(revision).await.unwrap();
    assert!(cache.get(&key("a")).is_some() && cache.get(&key("b")).is_some());
    let Next::Events(events) = std::future::poll_fn(|cx| watcher.poll_next(cx, LIMITS)).await else { panic!("closed") };
    assert_eq!(events.len(), 2, "watchers too");
}
