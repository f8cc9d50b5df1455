//! Rewriting what is not sealed as it would be now: after a new key came first, or encryption was switched on or off.
//!
//! Each value is replaced only if nobody wrote it meanwhile; whoever did has sealed it with the new key already, because
//! writes that chose their key before are waited for. So nothing is lost or left out however busy the server is, and it can
//! be stopped and started again at any point. Whoever asks while it is under way may have changed the keys since it began:
//! then it goes round once more.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bailiwick_store::{Expect, KeyRange, KeyValue, Op, RangeRequest, Result, key_after};
use bytes::Bytes;

use crate::encrypted_store::EncryptedStore;
use crate::keyring::Keyring;

/// How many values are looked at in one read of the store.
pub(crate) const PAGE_LEN: usize = 500;

/// How far a rewriting is; counted anew in each round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub running: bool,
    /// Values looked at.
    pub examined: u64,
    /// Values rewritten.
    pub rewritten: u64,
    /// Values that could not be opened, and one more if the rewriting itself had to stop.
    pub failed: u64,
}

#[derive(Default)]
pub(crate) struct Reencryption {
    phase: Mutex<Phase>,
    examined: AtomicU64,
    rewritten: AtomicU64,
    failed: AtomicU64,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Idle,
    Running,
    /// Running, and somebody asked since the round began.
    AskedAgain,
}

/// Whether somebody who asked, or has just been round, is to go round.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Round,
    Nothing,
}

impl Reencryption {
    fn phase(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody asks for a round. If one is under way whoever does it goes round again.
    fn asked(&self) -> Next {
        let mut phase = self.phase();
        if *phase != Phase::Idle {
            *phase = Phase::AskedAgain;
            return Next::Nothing;
        }
        *phase = Phase::Running;
        self.count_anew();
        Next::Round
    }

    /// A round is over.
    fn been_round(&self) -> Next {
        let mut phase = self.phase();
        if *phase == Phase::AskedAgain {
            *phase = Phase::Running;
            self.count_anew();
            return Next::Round;
        }
        *phase = Phase::Idle;
        Next::Nothing
    }

    fn count_anew(&self) {
        for counter in [&self.examined, &self.rewritten, &self.failed] {
            counter.store(0, Ordering::Relaxed);
        }
    }
}

impl EncryptedStore {
    /// How far the last or present rewriting is.
    pub fn reencryption(&self) -> Progress {
        let state = &self.reencryption;
        Progress {
            running: *state.phase() != Phase::Idle,
            examined: state.examined.load(Ordering::Relaxed),
            rewritten: state.rewritten.load(Ordering::Relaxed),
            failed: state.failed.load(Ordering::Relaxed),
        }
    }

    /// Starts to rewrite in the background. If that is under way it is done once more with the keys of now.
    pub fn start_reencryption(self: &Arc<Self>) {
        if self.reencryption.asked() == Next::Round {
            let store = self.clone();
            // Errors are logged and counted.
            tokio::spawn(async move { drop(store.rounds().await) });
        }
    }

    /// Rewrites everything that is sealed differently from how it would be now; if that is under way it is only asked for.
    pub async fn reencrypt(&self) -> Result<Progress> {
        if self.reencryption.asked() == Next::Round {
            self.rounds().await?;
        }
        Ok(self.reencryption())
    }

    /// Goes round until nobody has asked meanwhile; how the last round ended.
    async fn rounds(&self) -> Result<()> {
        loop {
            let result = self.rewrite_all().await;
            if let Err(error) = &result {
                // Whoever follows the progress must not take the end for success.
                self.reencryption.failed.fetch_add(1, Ordering::Relaxed);
                tracing::error!(%error, "re-encryption stopped");
            }
            if self.reencryption.been_round() == Next::Nothing {
                return result;
            }
        }
    }

    async fn rewrite_all(&self) -> Result<()> {
        self.writes.settled().await;
        // The embedded store also carries out writes that nobody waits for any more; they are before this one.
        self.inner.txn(Vec::new()).await?;
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
                Some(last) => range.start = key_after(&last),
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
