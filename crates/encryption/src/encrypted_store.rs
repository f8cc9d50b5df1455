//! A store whose values are encrypted: plaintext above it, ciphertext below.
//!
//! Keys, revisions and conditions pass through untouched, so everything the store promises still holds.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use bailiwick_store::{
    Change, Error, Event, KeyRange, KeyValue, Op, RangeRequest, RangeResponse, Result, Revision, Store, TxnOutcome,
    WatchItem, WatchStream,
};
use bytes::Bytes;
use futures::StreamExt;
use tokio::task::JoinHandle;

use crate::keyring::{Keyring, OpenError};
use crate::kms::Kms;
use crate::reencrypt::Reencryption;
use crate::under_way::WritesUnderWay;

/// An encrypted store. Its keyring can be replaced at any time.
pub struct EncryptedStore {
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) ring: Arc<ArcSwap<Keyring>>,
    pub(crate) writes: WritesUnderWay,
    pub(crate) reencryption: Reencryption,
    followers: std::sync::Mutex<Vec<JoinHandle<()>>>,
}

impl EncryptedStore {
    /// Encrypts `inner` with `ring`. Key services are asked for their keys before this returns, but need not answer.
    pub async fn new(inner: Arc<dyn Store>, ring: Keyring) -> Arc<Self> {
        let store = Self {
            inner,
            ring: Arc::new(ArcSwap::from_pointee(Keyring::plain())),
            writes: WritesUnderWay::default(),
            reencryption: Reencryption::default(),
            followers: std::sync::Mutex::default(),
        };
        store.replace_keyring(ring).await;
        Arc::new(store)
    }

    /// Values are sealed with the new keys from now on.
    pub async fn replace_keyring(&self, ring: Keyring) {
        ask(&ring).await;
        let followers = ring.plugins().iter().map(|plugin| tokio::spawn(Kms::follow(Arc::downgrade(plugin)))).collect();
        self.ring.store(Arc::new(ring));
        let before = std::mem::replace(
            &mut *self.followers.lock().unwrap_or_else(std::sync::PoisonError::into_inner),
            followers,
        );
        before.iter().for_each(JoinHandle::abort);
    }

    /// Asks key services which keys they use now. Whoever is about to rewrite everything under a new key needs this: a change
    /// is otherwise seen within a minute.
    pub async fn ask_key_services(&self) {
        ask(&self.ring.load_full()).await;
    }

    /// Whether the key services answer; where there are none, yes.
    pub async fn health(&self) -> Result<(), String> {
        for (index, plugin) in self.ring.load_full().plugins().iter().enumerate() {
            plugin.check().await.map_err(|error| format!("kms-provider-{index}: {error}"))?;
        }
        Ok(())
    }

    /// Whether there are key services whose health matters.
    pub fn has_key_services(&self) -> bool {
        !self.ring.load().plugins().is_empty()
    }

    async fn opened(&self, entry: KeyValue) -> Result<KeyValue> {
        open(&self.ring.load_full(), entry).await
    }
}

impl Drop for EncryptedStore {
    fn drop(&mut self) {
        let followers = self.followers.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        followers.iter().for_each(JoinHandle::abort);
    }
}

/// Asks the key services of a keyring; one that fails is not waited for.
async fn ask(ring: &Keyring) {
    for plugin in ring.plugins() {
        if let Err(error) = plugin.check_now().await {
            tracing::error!(error, "kms plugin failed health check probe");
        }
    }
}

/// The error of a value that cannot be opened, as clients see it.
fn transform_error(key: &Bytes, error: &OpenError) -> Error {
    Error::Transform(format!("unable to transform key {:?}: {error}", String::from_utf8_lossy(key)))
}

async fn open(ring: &Keyring, mut entry: KeyValue) -> Result<KeyValue> {
    let stored = std::mem::take(&mut entry.value);
    match ring.open(&entry.key, stored).await {
        Ok(opened) => Ok(KeyValue { value: opened.value, ..entry }),
        Err(error) => Err(transform_error(&entry.key, &error)),
    }
}

/// Opens a change for a watcher. One that cannot be opened must not end the watch of everything else: it is passed on as
/// it is, and whoever reads it finds that it is no object.
async fn open_event(ring: &Keyring, mut event: Event) -> Event {
    if let Change::Put(entry) = &mut event.change {
        *entry = open_or_keep(ring, entry).await;
    }
    if let Some(previous) = &mut event.previous {
        *previous = open_or_keep(ring, previous).await;
    }
    event
}

async fn open_or_keep(ring: &Keyring, entry: &KeyValue) -> KeyValue {
    match open(ring, entry.clone()).await {
        Ok(opened) => opened,
        Err(error) => {
            tracing::error!(%error, "a stored value cannot be decrypted");
            entry.clone()
        }
    }
}

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

#[async_trait]
impl Store for EncryptedStore {
    // On the path of every read: passed on without a box of its own.
    fn revision<'s, 'a>(&'s self) -> Answer<'a, Revision>
    where
        's: 'a,
        Self: 'a,
    {
        self.inner.revision()
    }

    async fn get(&self, key: &[u8]) -> Result<(Revision, Option<KeyValue>)> {
        let (revision, entry) = self.inner.get(key).await?;
        match entry {
            Some(entry) => Ok((revision, Some(self.opened(entry).await?))),
            None => Ok((revision, None)),
        }
    }

    async fn range(&self, request: RangeRequest) -> Result<RangeResponse> {
        let mut response = self.inner.range(request).await?;
        let ring = self.ring.load_full();
        for entry in &mut response.entries {
            if ring.passes(&entry.key, &entry.value) {
                continue;
            }
            *entry = open(&ring, entry.clone()).await?;
        }
        Ok(response)
    }

    async fn txn(&self, mut ops: Vec<Op>) -> Result<TxnOutcome> {
        let under_way = self.writes.join();
        {
            let ring = self.ring.load();
            for op in &mut ops {
                if let Op::Put { key, value, .. } = op {
                    let plain = std::mem::take(value);
                    *value = ring.seal(key, plain).map_err(|error| transform_error(key, &error))?;
                }
            }
        }
        let outcome = self.inner.txn(ops).await;
        drop(under_way);
        match outcome? {
            TxnOutcome::Conflict { key, current: Some(current) } => {
                Ok(TxnOutcome::Conflict { key, current: Some(self.opened(current).await?) })
            }
            outcome => Ok(outcome),
        }
    }

    async fn watch(&self, range: KeyRange, after: Revision) -> Result<WatchStream> {
        let ring = self.ring.clone();
        let stream = self.inner.watch(range, after).await?;
        let opened = stream.then(move |item| {
            let ring = ring.clone();
            async move {
                let Ok(WatchItem::Events(mut events)) = item else { return item };
                let ring = ring.load_full();
                for event in &mut events {
                    let passes = match &event.change {
                        Change::Put(entry) => ring.passes(&entry.key, &entry.value),
                        Change::Delete { key, .. } => ring.passes(key, b""),
                    };
                    let before = event.previous.as_ref().is_none_or(|entry| ring.passes(&entry.key, &entry.value));
                    if !passes || !before {
                        *event = open_event(&ring, event.clone()).await;
                    }
                }
                Ok(WatchItem::Events(events))
            }
        });
        Ok(opened.boxed())
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
