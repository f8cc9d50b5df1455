//! Leases for keys with a time to live, shared among many keys.
//!
//! A lease per key would cost etcd a timer and a raft proposal for each Kubernetes Event. Keys with the same time to live
//! that are written within a short window share one instead, and so live up to that window (a twentieth) longer, never shorter.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio::time::Instant;
use tonic::Status;

use super::client::{Client, Repeat};
use super::proto::{LeaseGrantRequest, LeaseGrantResponse, path};

/// Longest time during which new keys join a lease.
const MAX_WINDOW_SECONDS: u64 = 60;
/// The window is at most this part of the time to live, so that short-lived keys do not live much too long.
const WINDOW_DIVISOR: u64 = 20;
/// When a lease ends, all its keys are deleted in one transaction; this bounds it.
const MAX_KEYS_PER_LEASE: u32 = 1000;
/// Different times to live remembered before old leases are swept out.
const SWEEP_ABOVE: usize = 64;

type LeaseId = i64;

#[derive(Default)]
pub struct Leases {
    by_ttl_seconds: Mutex<HashMap<u64, Shared>>,
}

struct Shared {
    /// Empty until the first key's grant comes back; the others wait for it.
    id: Arc<OnceCell<LeaseId>>,
    joinable_until: Instant,
    keys: u32,
}

impl Leases {
    /// A lease that lasts at least `ttl` from now.
    pub async fn lease(&self, client: &Client, ttl: Duration) -> Result<LeaseId, Status> {
        let ttl_seconds = whole_seconds(ttl);
        let window = (ttl_seconds / WINDOW_DIVISOR).min(MAX_WINDOW_SECONDS);
        if window == 0 {
            return grant(client, ttl_seconds).await;
        }
        let id = self.join(ttl_seconds, Duration::from_secs(window), Instant::now());
        id.get_or_try_init(|| grant(client, ttl_seconds.saturating_add(window))).await.copied()
    }

    /// Forgets a lease that etcd no longer knows.
    pub fn forget(&self, lost: LeaseId) {
        self.lock().retain(|_, shared| shared.id.get() != Some(&lost));
    }

    fn join(&self, ttl_seconds: u64, window: Duration, now: Instant) -> Arc<OnceCell<LeaseId>> {
        let mut leases = self.lock();
        if let Some(shared) = leases.get_mut(&ttl_seconds)
            && shared.joinable_until > now
            && shared.keys < MAX_KEYS_PER_LEASE
        {
            shared.keys += 1;
            return shared.id.clone();
        }
        if leases.len() > SWEEP_ABOVE {
            leases.retain(|_, shared| shared.joinable_until > now);
        }
        let id = Arc::new(OnceCell::new());
        leases.insert(ttl_seconds, Shared { id: id.clone(), joinable_until: now + window, keys: 1 });
        id
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Shared>> {
        self.by_ttl_seconds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// etcd counts in seconds; a key must not vanish early.
fn whole_seconds(ttl: Duration) -> u64 {
    ttl.as_secs().saturating_add(u64::from(ttl.subsec_nanos() > 0)).max(1)
}

async fn grant(client: &Client, ttl_seconds: u64) -> Result<LeaseId, Status> {
    let ttl = i64::try_from(ttl_seconds).unwrap_or(i64::MAX);
    // A grant that was lost on the way back only leaves a lease without keys behind.
    let response: LeaseGrantResponse = client.unary(path::LEASE_GRANT, LeaseGrantRequest { ttl }, Repeat::Safe).await?;
    if !response.error.is_empty() {
        return Err(Status::unavailable(response.error));
    }
    Ok(response.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3600;
    const WINDOW: Duration = Duration::from_secs(60);

    #[test]
    fn keys_written_within_the_window_share_a_lease() {
        let leases = Leases::default();
        let start = Instant::now();
        let first = leases.join(HOUR, WINDOW, start);
        assert!(Arc::ptr_eq(&first, &leases.join(HOUR, WINDOW, start + WINDOW / 2)));
        assert!(!Arc::ptr_eq(&first, &leases.join(2 * HOUR, WINDOW, start)));
        assert!(!Arc::ptr_eq(&first, &leases.join(HOUR, WINDOW, start + WINDOW)));
    }

    #[test]
    fn a_lease_takes_no_more_than_its_share_of_keys() {
        let leases = Leases::default();
        let now = Instant::now();
        let first = leases.join(HOUR, WINDOW, now);
        let others = (1..MAX_KEYS_PER_LEASE).map(|_| leases.join(HOUR, WINDOW, now));
        assert!(others.into_iter().all(|id| Arc::ptr_eq(&first, &id)));
        assert!(!Arc::ptr_eq(&first, &leases.join(HOUR, WINDOW, now)));
    }

    #[test]
    fn a_lost_lease_is_not_handed_out_again() {
        let leases = Leases::default();
        let now = Instant::now();
        let first = leases.join(HOUR, WINDOW, now);
        first.set(7).unwrap();
        leases.forget(7);
        assert!(leases.join(HOUR, WINDOW, now).get().is_none());
    }

    #[test]
    fn old_leases_do_not_pile_up() {
        let leases = Leases::default();
        let start = Instant::now();
        for ttl in 0..10_000 {
            leases.join(HOUR + ttl, WINDOW, start + WINDOW * u32::try_from(ttl).unwrap());
        }
        assert!(leases.lock().len() <= SWEEP_ABOVE + 1);
    }

    #[test]
    fn times_to_live_round_up() {
        assert_eq!(whole_seconds(Duration::ZERO), 1);
        assert_eq!(whole_seconds(Duration::from_millis(1001)), 2);
        assert_eq!(whole_seconds(Duration::from_secs(3)), 3);
    }
}
