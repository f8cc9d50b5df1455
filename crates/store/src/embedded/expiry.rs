//! Which keys delete themselves, and when.

use std::collections::{BTreeSet, HashMap};

use bytes::Bytes;

/// Keys with a time to live, by key and by time. Keys without one cost nothing here.
#[derive(Debug, Default)]
pub(super) struct Expiries {
    by_key: HashMap<Bytes, u64>,
    by_time: BTreeSet<(u64, Bytes)>,
}

impl Expiries {
    /// Sets or clears the moment `key` expires.
    pub fn set(&mut self, key: &Bytes, expires_at_ms: Option<u64>) {
        if self.by_key.is_empty() && expires_at_ms.is_none() {
            return;
        }
        if let Some(old) = self.by_key.remove(key) {
            self.by_time.remove(&(old, key.clone()));
        }
        if let Some(at) = expires_at_ms {
            self.by_key.insert(key.clone(), at);
            self.by_time.insert((at, key.clone()));
        }
    }

    pub fn get(&self, key: &Bytes) -> Option<u64> {
        self.by_key.get(key).copied()
    }

    /// The next moment something expires.
    pub fn next_ms(&self) -> Option<u64> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Keys that have expired by `now_ms`.
    pub fn due(&self, now_ms: u64) -> impl Iterator<Item = &Bytes> {
        self.by_time.iter().take_while(move |(at, _)| *at <= now_ms).map(|(_, key)| key)
    }
}
