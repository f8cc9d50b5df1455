//! A queue of keys to reconcile: each key is in it at most once, is worked on by at most one worker at a time, can be
//! put off, and is retried with growing delays when its work fails.
//!
//! A key added while it is being worked on is worked on again afterwards, so no change is lost. The queue holds keys
//! only, never more than there are objects; workers read the current state when they come to a key.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::metrics::{self, QueueCounts};

/// The delay after the first failure of a key; each further failure doubles it.
const BACKOFF_MIN: Duration = Duration::from_millis(5);
/// The longest delay between two tries: short enough that a repaired cause is noticed while somebody watches.
const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// Fewer places than this are not worth giving back after a burst.
const PLACES_MIN: usize = 4096;

/// What became of a key that was worked on without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing more to do until the key is added again.
    Done,
    /// To be looked at again after this time, at the latest.
    After(Duration),
    /// To be tried again with growing delays: not an error, but what it waits for cannot be watched.
    Backoff,
}

/// What went wrong while a key was worked on.
pub trait Failure: std::fmt::Display {
    /// Whether this is the ordinary course of things where several write to one object.
    fn is_routine(&self) -> bool;
}

/// See the module.
pub struct WorkQueue<K> {
    state: Mutex<State<K>>,
    /// Tells a waiting worker that something may have become ready, or sooner than it thought.
    changed: Notify,
    counts: Arc<QueueCounts>,
}

struct State<K> {
    ready: VecDeque<K>,
    /// Every key in `ready`, and those to be put there when their worker is done.
    wanted: HashSet<K>,
    working: HashSet<K>,
    /// What was put off, soonest first; only entries that agree with `due` count.
    later: BinaryHeap<Reverse<(Instant, K)>>,
    due: HashMap<K, Instant>,
    failures: HashMap<K, u32>,
}

impl<K: Clone + Ord + Hash + Debug> Default for WorkQueue<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Clone + Ord + Hash + Debug> WorkQueue<K> {
    /// An empty queue.
    pub fn new() -> Self {
        let state = State {
            ready: VecDeque::new(),
            wanted: HashSet::new(),
            working: HashSet::new(),
            later: BinaryHeap::new(),
            due: HashMap::new(),
            failures: HashMap::new(),
        };
        WorkQueue { state: Mutex::new(state), changed: Notify::new(), counts: Arc::default() }
    }

    /// Asks for `key` to be worked on.
    pub fn add(&self, key: K) {
        let mut state = self.lock();
        if state.want(key) {
            self.count(&state);
            self.changed.notify_one();
        }
    }

    /// Asks for `key` to be worked on after `delay`, or when it is due anyway if that is sooner.
    pub fn add_after(&self, key: K, delay: Duration) {
        if self.lock().want_at(key, Instant::now() + delay) {
            self.changed.notify_one();
        }
    }

    /// Works on keys, up to `concurrency` at a time, forever. Errors are logged and their keys tried again later.
    pub async fn work<F, Fut, E>(&self, controller: &'static str, concurrency: usize, reconcile: F)
    where
        F: Fn(K) -> Fut,
        Fut: Future<Output = Result<Outcome, E>>,
        E: Failure,
    {
        metrics::show(controller, &self.counts);
        let keys = futures::stream::unfold((), |()| async { Some((self.next().await, ())) });
        keys.for_each_concurrent(concurrency, |key| {
            let reconciling = reconcile(key.clone());
            async move {
                let result = reconciling.await;
                match &result {
                    Err(error) if error.is_routine() => tracing::debug!(controller, ?key, %error, "to be tried again"),
                    Err(error) => tracing::warn!(controller, ?key, %error, "reconciling failed and is tried again"),
                    Ok(_) => {}
                }
                self.finish(key, result.unwrap_or(Outcome::Backoff));
            }
        })
        .await;
    }

    async fn next(&self) -> K {
        loop {
            let changed = self.changed.notified();
            let (key, deadline) = self.take();
            match (key, deadline) {
                (Some(key), _) => return key,
                (None, None) => changed.await,
                (None, Some(deadline)) => {
                    tokio::select! {
                        () = changed => {}
                        () = tokio::time::sleep_until(deadline) => {}
                    }
                }
            }
        }
    }

    fn take(&self) -> (Option<K>, Option<Instant>) {
        let mut state = self.lock();
        let taken = state.take(Instant::now());
        self.count(&state);
        taken
    }

    /// The number of keys that wait has changed.
    fn count(&self, state: &State<K>) {
        self.counts.depth.store(state.ready.len(), Ordering::Relaxed);
    }

    fn finish(&self, key: K, outcome: Outcome) {
        let mut state = self.lock();
        state.working.remove(&key);
        let wanted_again = state.wanted.contains(&key);
        if wanted_again {
            state.ready.push_back(key.clone());
        }
        if outcome != Outcome::Backoff {
            state.failures.remove(&key);
        }
        let delay = match outcome {
            Outcome::Done => None,
            Outcome::After(delay) => Some(delay),
            Outcome::Backoff => {
                self.counts.retries.fetch_add(1, Ordering::Relaxed);
                let failures = state.failures.entry(key.clone()).or_insert(0);
                let delay = BACKOFF_MIN.saturating_mul(1 << (*failures).min(20)).min(BACKOFF_MAX);
                *failures += 1;
                Some(delay)
            }
        };
        if let Some(delay) = delay {
            state.want_at(key, Instant::now() + delay);
        }
        self.count(&state);
        drop(state);
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        // A panic elsewhere cannot leave the sets in a state worse than a key too many.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Ord + Hash> State<K> {
    /// Whether a worker has something new to do.
    fn want(&mut self, key: K) -> bool {
        if !self.wanted.insert(key.clone()) || self.working.contains(&key) {
            return false;
        }
        self.ready.push_back(key);
        true
    }

    /// Whether a worker may have to wake sooner than it thought.
    fn want_at(&mut self, key: K, at: Instant) -> bool {
        if self.wanted.contains(&key) || self.due.get(&key).is_some_and(|due| *due <= at) {
            return false;
        }
        self.due.insert(key.clone(), at);
        self.later.push(Reverse((at, key)));
        true
    }

    /// The next key to work on, or when to look again.
    fn take(&mut self, now: Instant) -> (Option<K>, Option<Instant>) {
        while self.later.peek().is_some_and(|Reverse((due, _))| *due <= now) {
            if let Some(Reverse((due, key))) = self.later.pop()
                && self.due.get(&key) == Some(&due)
            {
                self.due.remove(&key);
                self.want(key);
            }
        }
        let key = self.ready.pop_front();
        if let Some(key) = &key {
            self.wanted.remove(key);
            self.working.insert(key.clone());
        }
        // What a burst needed is given back after it.
        if self.wanted.capacity() > PLACES_MIN && self.wanted.len() < self.wanted.capacity() / 8 {
            self.wanted.shrink_to(2 * self.wanted.len());
            self.ready.shrink_to(2 * self.ready.len());
        }
        (key, self.later.peek().map(|Reverse((due, _))| *due))
    }
}

#[cfg(test)]
mod tests;
