//! Keys that change while something is under way: a write, or the rewriting itself.

use std::sync::Arc;

use async_trait::async_trait;
use bailiwick_store::embedded::EmbeddedStore;
use bailiwick_store::{
    Expect, KeyRange, KeyValue, Op, RangeRequest, RangeResponse, Result, Revision, Store, TxnOutcome, WatchStream,
};
use futures::FutureExt;
use tokio::sync::{Notify, Semaphore};

use crate::rotation::keys_in_use;
use crate::{ONE, TWO, aesgcm, embedded, encrypted, ring};

/// A store that has a write and does not carry it out until it may.
struct Holding {
    inner: Arc<EmbeddedStore>,
    arrived: Notify,
    may_go: Semaphore,
}

impl Holding {
    fn on(directory: &std::path::Path) -> Arc<Self> {
        Arc::new(Self { inner: embedded(directory), arrived: Notify::new(), may_go: Semaphore::new(0) })
    }

    fn let_go(&self) {
        self.may_go.close();
    }
}

#[async_trait]
impl Store for Holding {
    async fn revision(&self) -> Result<Revision> {
        self.inner.revision().await
    }

    async fn get(&self, key: &[u8]) -> Result<(Revision, Option<KeyValue>)> {
        self.inner.get(key).await
    }

    async fn range(&self, request: RangeRequest) -> Result<RangeResponse> {
        self.inner.range(request).await
    }

    async fn txn(&self, ops: Vec<Op>) -> Result<TxnOutcome> {
        if ops.is_empty() {
            return Ok(TxnOutcome::Committed { revision: self.inner.revision().await? });
        }
        self.arrived.notify_one();
        // There are no permits: it waits until the semaphore is closed.
        assert!(self.may_go.acquire().await.is_err());
        self.inner.txn(ops).await
    }

    async fn watch(&self, range: KeyRange, after: Revision) -> Result<WatchStream> {
        self.inner.watch(range, after).await
    }

    async fn request_progress(&self) -> Result<()> {
        self.inner.request_progress().await
    }

    async fn compact(&self, revision: Revision) -> Result<()> {
        self.inner.compact(revision).await
    }

    async fn compacted(&self) -> Result<Revision> {
        self.inner.compacted().await
    }
}

fn put() -> Vec<Op> {
    vec![Op::Put { key: "root/core/secrets/ns/a".into(), value: "{}".into(), expect: Expect::Any, ttl: None }]
}

fn both() -> String {
    aesgcm(&[("two", TWO), ("one", ONE)])
}

#[tokio::test]
async fn a_write_sealed_with_the_old_key_is_waited_for_and_rewritten() {
    let directory = tempfile::tempdir().expect("directory");
    let holding = Holding::on(directory.path());
    let store = encrypted(holding.clone(), &aesgcm(&[("one", ONE)])).await;
    let writer = store.clone();
    let writing = tokio::spawn(async move { writer.txn(put()).await });
    holding.arrived.notified().await;

    store.replace_keyring(ring(&both())).await;
    // The write is sealed and not stored: whoever looked now would find nothing to rewrite, and be done at once.
    let mut rewriting = std::pin::pin!(store.reencrypt());
    assert!(rewriting.as_mut().now_or_never().is_none(), "it waits for the write");
    holding.let_go();
    writing.await.expect("no panic").expect("written");
    assert_eq!(rewriting.await.expect("done").rewritten, 1);
    assert_eq!(keys_in_use(&*holding.inner).await.keys().collect::<Vec<_>>(), ["two"]);
}

#[tokio::test]
async fn whoever_asks_during_a_run_gets_the_keys_of_now() {
    let directory = tempfile::tempdir().expect("directory");
    let holding = Holding::on(directory.path());
    // A secret of a time before encryption.
    holding.inner.txn(put()).await.expect("written");
    let store = encrypted(holding.clone(), &format!("{}, {{identity: {{}}}}", aesgcm(&[("one", ONE)]))).await;
    store.start_reencryption();
    holding.arrived.notified().await;

    // The run has just sealed the value with the first key.
    store.replace_keyring(ring(&both())).await;
    store.start_reencryption();
    holding.let_go();
    while store.reencryption().running {
        tokio::task::yield_now().await;
    }
    assert_eq!(store.reencryption().rewritten, 1, "in the last round");
    assert_eq!(keys_in_use(&*holding.inner).await.keys().collect::<Vec<_>>(), ["two"]);
}
