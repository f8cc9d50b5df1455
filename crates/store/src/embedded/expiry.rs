//! Which keys delete themselves, and when.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use bytes::Bytes;

/// Keys with a time to live, by key and by time. Keys without one cost nothing here.
#[derive(Debug, Default)]
pub(super) struct Expiries {
    by_key: HashMap<Bytes, u64>,
    by_time: BTreeSet<(u64, Bytes)>,
}

/// When a key expires that is written now, to live so long. The clock tells whole milliseconds, of which one may have begun
/// long before: without another one a key could go a little earlier than asked.
pub(super) fn expiry_ms(now_ms: u64, ttl: Duration) -> u64 {
    now_ms.saturating_add(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)).saturating_add(1)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_written_late_in_a_millisecond_still_lives_as_long_as_asked() {
        let (key, mut expiries) = (Bytes::from_static(b"a"), Expiries::default());
        // Written at 1000.9 ms, which the clock tells as 1000: at 2000.0 ms it has lived for 999.1.
        expiries.set(&key, Some(expiry_ms(1_000, Duration::from_secs(1))));
        assert_eq!(expiries.due(2_000).count(), 0);
        assert_eq!(expiries.due(2_001).count(), 1);
        assert_eq!(expiry_ms(u64::MAX, Duration::MAX), u64::MAX);
    }
}
