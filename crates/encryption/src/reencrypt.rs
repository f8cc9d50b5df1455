//! Rewriting what is not sealed as it would be now: after a new key came first, or encryption was switched on or off.
//!
//! Each value is replaced only if nobody wrote it meanwhile; whoever did has sealed it with the new key already. So
//! nothing is lost however busy the server is, and it can be stopped and started again at any point.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bailiwick_store::{Expect, KeyRange, KeyValue, Op, RangeRequest, Result, prefix_end};
use bytes::Bytes;

use crate::encrypted_store::EncryptedStore;
use crate::keyring::Keyring;

/// How many values are looked at in one read of the store.
const PAGE_LEN: usize = 500;

/// How far a rewriting is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub running: bool,
    /// Values looked at.
    pub examined: u64,
    /// Values rewritten.
    pub rewritten: u64,
    /// Values that could not be opened.
    pub failed: u64,
}

#[derive(Default)]
pub(crate) struct Reencryption {
    running: AtomicBool,
    examined: AtomicU64,
    rewritten: AtomicU64,
    failed: AtomicU64,
}

impl EncryptedStore {
    /// How far the last or present rewriting is.
    pub fn reencryption(&self) -> Progress {
        let state = &self.reencryption;
        Progress {
            running: state.running.load(Ordering::Acquire),
            examined: state.examined.load(Ordering::Relaxed),
            rewritten: state.rewritten.load(Ordering::Relaxed),
            failed: state.failed.load(Ordering::Relaxed),
        }
    }

    /// Starts to rewrite in the background, unless that is under way.
    pub fn start_reencryption(self: &Arc<Self>) {
        if !self.begin() {
            return;
        }
        let store = self.clone();
        tokio::spawn(async move {
            if let Err(error) = store.rewrite_all().await {
                tracing::error!(%error, "re-encryption stopped");
            }
            store.reencryption.running.store(false, Ordering::Release);
        });
    }

    /// Rewrites everything that is sealed differently from how it would be now.
    pub async fn reencrypt(&self) -> Result<Progress> {
        if self.begin() {
            let result = self.rewrite_all().await;
            self.reencryption.running.store(false, Ordering::Release);
            result?;
        }
        Ok(self.reencryption())
    }

    fn begin(&self) -> bool {
        let state = &self.reencryption;
        if state.running.swap(true, Ordering::AcqRel) {
            return false;
        }
        for counter in [&state.examined, &state.rewritten, &state.failed] {
            counter.store(0, Ordering::Relaxed);
        }
        true
    }

    async fn rewrite_all(&self) -> Result<()> {
        let mut range = KeyRange::prefix(Bytes::new());
        loop {
            let request = RangeRequest { range: range.clone(), at: None, limit: Some(PAGE_LEN) };
            let page = self.inner.range(request).await?;
            let more = page.more();
            let last = page.entries.last().map(|entry| entry.key.clone());
            for entry in page.entries {
                self.rewrite(entry).await?;
            }
            match last.filter(|_| more) {
                Some(last) => range.start = after(&last),
                None => return Ok(()),
            }
        }
    }

    async fn rewrite(&self, mut entry: KeyValue) -> Result<()> {
        if expires(&entry.key) {
            return Ok(());
        }
        let state = &self.reencryption;
        state.examined.fetch_add(1, Ordering::Relaxed);
        loop {
            let ring = self.ring.load_full();
            let value = match resealed(&ring, &entry).await {
                Ok(Some(value)) => value,
                Ok(None) => return Ok(()),
                Err(error) => {
                    state.failed.fetch_add(1, Ordering::Relaxed);
                    tracing::error!(%error, "a value was not re-encrypted");
                    return Ok(());
                }
            };
            let expect = Expect::Modified(entry.mod_revision);
            let put = Op::Put { key: entry.key.clone(), value, expect, ttl: None };
            match self.inner.txn(vec![put]).await? {
                bailiwick_store::TxnOutcome::Committed { .. } => {
                    state.rewritten.fetch_add(1, Ordering::Relaxed);
                    return Ok(());
                }
                bailiwick_store::TxnOutcome::Conflict { current: None, .. } => return Ok(()),
                bailiwick_store::TxnOutcome::Conflict { current: Some(current), .. } => entry = current,
            }
        }
    }
}

/// Events delete themselves within hours; written anew they would stay.
fn expires(key: &[u8]) -> bool {
    key.splitn(4, |byte| *byte == b'/').nth(2) == Some(b"events")
}

/// The value sealed anew; `None` if it is as it would be.
async fn resealed(ring: &Keyring, entry: &KeyValue) -> Result<Option<Bytes>> {
    let failed = |error: crate::OpenError| {
        let key = String::from_utf8_lossy(&entry.key).into_owned();
        bailiwick_store::Error::Transform(format!("unable to transform key {key:?}: {error}"))
    };
    if ring.passes(&entry.key, &entry.value) {
        return Ok(None);
    }
    let opened = ring.open(&entry.key, entry.value.clone()).await.map_err(failed)?;
    if !opened.stale {
        return Ok(None);
    }
    ring.seal(&entry.key, opened.value).map(Some).map_err(failed)
}

/// The first key after `key`.
fn after(key: &Bytes) -> Bytes {
    let mut next = key.to_vec();
    next.push(0);
    debug_assert!(prefix_end(key).is_none_or(|end| next < end.to_vec()));
    next.into()
}
