//! Everything committed, in memory: the index, its history, the clock of revisions and the compaction floor.
//!
//! Only durable changes get here; a reader can therefore never see what a crash could take back. Nothing in this file
//! touches the disk, and no method does an unbounded amount of work, because callers hold the state's lock.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::expiry::Expiries;
use super::frame::Record;
use super::history::{History, Retention};
use super::index::{Entry, Index, Scan, Version};
use crate::{Change, Error, Event, KeyRange, KeyValue, Result, Revision};

/// An empty store's revision, like etcd's.
pub(super) const FIRST_REVISION: Revision = Revision(1);

/// See the module.
#[derive(Debug)]
pub(super) struct State {
    index: Index,
    history: History,
    expiries: Expiries,
    revision: Revision,
    floor: Revision,
    pins: Arc<Pins>,
    live_bytes: u64,
}

impl Default for State {
    fn default() -> Self {
        Self {
            index: Index::default(),
            history: History::default(),
            expiries: Expiries::default(),
            revision: FIRST_REVISION,
            floor: Revision(0),
            pins: Arc::default(),
            live_bytes: 0,
        }
    }
}

/// A key as a snapshot has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoredKey {
    pub kv: KeyValue,
    pub expires_at_ms: Option<u64>,
}

impl State {
    /// The state a snapshot describes; `keys` are in order.
    pub fn from_snapshot(revision: Revision, keys: impl Iterator<Item = StoredKey>) -> Self {
        let mut expiries = Expiries::default();
        let mut live_bytes = 0;
        let index = Index::from_sorted(keys.map(|StoredKey { kv, expires_at_ms }| {
            expiries.set(&kv.key, expires_at_ms);
            live_bytes += entry_bytes(&kv);
            let version =
                Version { value: Some(kv.value), create_revision: kv.create_revision, mod_revision: kv.mod_revision };
            Entry::new(kv.key, version)
        }));
        Self { index, expiries, revision, floor: revision, live_bytes, ..Self::default() }
    }

    pub fn revision(&self) -> Revision {
        self.revision
    }

    pub fn floor(&self) -> Revision {
        self.floor
    }

    /// Bytes of live keys and values.
    pub fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    pub fn history(&self) -> &History {
        &self.history
    }

    pub fn expiries(&self) -> &Expiries {
        &self.expiries
    }

    pub fn get(&self, key: &[u8]) -> Option<KeyValue> {
        self.index.get(key)
    }

    /// Whether reads and watches may start at `revision`.
    pub fn check_readable(&self, revision: Revision) -> Result<()> {
        if revision > self.revision {
            return Err(Error::FutureRevision { requested: revision, current: self.revision });
        }
        self.check_not_compacted(revision)
    }

    pub fn check_not_compacted(&self, revision: Revision) -> Result<()> {
        if revision < self.floor {
            return Err(Error::Compacted { requested: revision, compacted: self.floor });
        }
        Ok(())
    }

    /// Part of a range as of `at`, which the caller has checked or pinned.
    pub fn scan(&self, range: &KeyRange, at: Revision, limit: usize, steps_max: usize) -> Scan {
        self.index.scan(range, at, limit, steps_max)
    }

    /// Keys from `start` on as a snapshot at `at` has them, and where to go on. `at` is readable or pinned.
    pub fn page(&self, start: Bytes, at: Revision, keys_max: usize) -> (Vec<StoredKey>, Option<Bytes>) {
        let scan = self.index.scan(&KeyRange { start, end: None }, at, keys_max, keys_max);
        let stored = scan.entries.into_iter().map(|kv| {
            // A version that has been superseded since is superseded again by the log after the snapshot, so its
            // expiry does not matter.
            let expiry = self.expiries.get(&kv.key);
            let expires_at_ms = expiry.filter(|_| self.index.get(&kv.key).as_ref() == Some(&kv));
            StoredKey { kv, expires_at_ms }
        });
        (stored.collect(), scan.resume)
    }

    /// How many keys `range` held at `at`: what it holds now, less what it has gained since.
    pub fn count(&self, range: &KeyRange, at: Revision) -> u64 {
        let now = self.index.count(range);
        if at >= self.revision { now } else { now.saturating_add_signed(-self.history.growth_since(at, range)) }
    }

    /// Takes in one durable change. Changes must come in revision order; `expires_at_ms` is for puts.
    pub fn apply(&mut self, event: Event, expires_at_ms: Option<u64>) {
        let revision = event.revision();
        let (key, version) = match &event.change {
            Change::Put(kv) => {
                self.live_bytes += entry_bytes(kv);
                let value = Some(kv.value.clone());
                (&kv.key, Version { value, create_revision: kv.create_revision, mod_revision: revision })
            }
            Change::Delete { key, .. } => {
                (key, Version { value: None, create_revision: revision, mod_revision: revision })
            }
        };
        if let Some(previous) = &event.previous {
            self.live_bytes -= entry_bytes(previous);
        }
        self.expiries.set(key, expires_at_ms);
        self.index.set(key, version);
        self.revision = revision;
        self.history.push(event);
    }

    /// Takes in a change read back from the log.
    pub fn replay(&mut self, record: Record, revision: Revision) {
        match record {
            Record::Put { key, value, expires_at_ms } => {
                let previous = self.index.get(&key);
                let event = put_event(key, value, revision, previous);
                self.apply(event, expires_at_ms);
            }
            Record::Delete { key } => {
                if let Some(previous) = self.index.get(&key) {
                    let change = Change::Delete { key: previous.key.clone(), revision };
                    self.apply(Event { change, previous: Some(previous) }, None);
                }
            }
        }
    }

    /// Notes that the log has reached `revision`, even if nothing changed there.
    pub fn settle(&mut self, revision: Revision) {
        self.revision = self.revision.max(revision);
    }

    /// Notes the time of everything applied so far.
    pub fn mark_time(&mut self, time_ms: u64) {
        self.history.mark_time(self.revision, time_ms);
    }

    /// Gives up history through `floor`. The memory goes free with the calls of [`State::prune`] that follow.
    pub fn raise_floor(&mut self, floor: Revision) {
        self.floor = self.floor.max(floor.min(self.revision));
    }

    /// Raises the floor to what `retention` allows.
    pub fn retain(&mut self, retention: &Retention, now_ms: u64) {
        if !self.history.reaches(self.floor)
            && let Some(excess) = self.history.excess(retention, now_ms)
        {
            self.raise_floor(excess);
        }
    }

    /// Whether [`State::prune`] has something to do.
    pub fn is_prunable(&self) -> bool {
        self.history.reaches(self.prune_floor())
    }

    /// Removes up to `changes_max` changes below the floor. They are returned so that the caller can free their memory
    /// after letting go of the lock.
    pub fn prune(&mut self, changes_max: usize) -> Vec<Event> {
        let floor = self.prune_floor();
        let mut pruned = Vec::new();
        while pruned.len() < changes_max
            && let Some(event) = self.history.pop_through(floor)
        {
            // The creation of a key superseded nothing.
            if event.previous.is_some() {
                self.index.prune(event.key(), floor);
            }
            pruned.push(event);
        }
        pruned
    }

    /// Keeps what is visible at `revision` readable for as long as the pin lives, whatever the floor. The caller's lock
    /// on the state, shared or not, keeps [`State::prune`] from running in between.
    pub fn pin(&self, revision: Revision) -> Pin {
        *self.pins.lock().entry(revision).or_default() += 1;
        Pin { pins: Arc::clone(&self.pins), revision }
    }

    fn prune_floor(&self) -> Revision {
        self.pins.lock().first_key_value().map_or(self.floor, |(pinned, _)| self.floor.min(*pinned))
    }
}

/// Revisions that long reads still need, with how many need each.
#[derive(Debug, Default)]
struct Pins(Mutex<BTreeMap<Revision, usize>>);

impl Pins {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Revision, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A revision that stays readable until this is dropped.
#[derive(Debug)]
pub(super) struct Pin {
    pins: Arc<Pins>,
    revision: Revision,
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut pins = self.pins.lock();
        if let Some(count) = pins.get_mut(&self.revision) {
            *count -= 1;
            if *count == 0 {
                pins.remove(&self.revision);
            }
        }
    }
}

/// The event of a put; reuses the key's present handle so that a key is in memory once.
pub(super) fn put_event(key: Bytes, value: Bytes, revision: Revision, previous: Option<KeyValue>) -> Event {
    let (key, create_revision) = match &previous {
        Some(previous) => (previous.key.clone(), previous.create_revision),
        None => (key, revision),
    };
    let kv = KeyValue { key, value, create_revision, mod_revision: revision };
    Event { change: Change::Put(kv), previous }
}

fn entry_bytes(kv: &KeyValue) -> u64 {
    (kv.key.len() + kv.value.len()) as u64
}
