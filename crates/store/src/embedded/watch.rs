//! Watches: each is a position in the shared history.
//!
//! A watcher that keeps up costs a commit one range check and a wake-up; one that does not costs nothing, and is told
//! [`Error::SlowWatcher`] when history moves on past its position. So the bound on what a slow watcher may hold is the
//! bound on history itself, shared by all.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use futures::Stream;

use super::shared::Shared;
use super::state::State;
use crate::{Error, Event, KeyRange, Result, Revision, WatchItem};

/// Events per item. More are split, between revisions, so that a long replay neither holds the state's lock for long
/// nor comes as one huge list.
const BATCH_EVENTS_MAX: usize = 1000;
/// Changes looked at per poll under the state's lock, wanted or not.
const POLL_CHANGES_MAX: usize = 8192;

/// Watchers that wait for something to happen.
#[derive(Debug, Default)]
pub(super) struct Parked {
    watchers: HashMap<u64, ParkedWatcher>,
}

#[derive(Debug)]
struct ParkedWatcher {
    range: KeyRange,
    position: Revision,
    /// `None` once it was woken; the entry stays for its position.
    waker: Option<Waker>,
}

impl Parked {
    pub fn is_empty(&self) -> bool {
        self.watchers.is_empty()
    }

    /// Takes out all wakers.
    pub fn take_all(&mut self) -> Vec<Waker> {
        self.watchers.values_mut().filter_map(|parked| parked.waker.take()).collect()
    }

    /// Takes out the wakers of those who want to see one of the changes after `before`; moves the others on to `head`.
    pub fn take_concerned(&mut self, state: &State, before: Revision, head: Revision) -> Vec<Waker> {
        let mut wakers = Vec::new();
        for parked in self.watchers.values_mut().filter(|parked| parked.waker.is_some()) {
            let is_everything = parked.range.start.is_empty() && parked.range.end.is_none();
            if is_everything || state.history().after(before).any(|event| parked.range.contains(event.key())) {
                wakers.extend(parked.waker.take());
            } else {
                parked.position = parked.position.max(head);
            }
        }
        wakers
    }
}

/// A stream of changes.
#[derive(Debug)]
pub(super) struct Watch {
    shared: Arc<Shared>,
    id: u64,
    range: KeyRange,
    /// Everything up to here has been delivered.
    position: Revision,
    progress_seen: u64,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    /// Nothing was read yet; a position below the floor is the caller's mistake and not slowness.
    New,
    Running,
    Ended,
}

impl Watch {
    pub fn new(shared: Arc<Shared>, range: KeyRange, after: Revision) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let progress_seen = shared.progress_requests();
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        Self { shared, id, range, position: after, progress_seen, phase: Phase::New }
    }

    /// The next item, if there is one by now.
    fn next_ready(&mut self) -> Option<Result<WatchItem>> {
        if let Err(error) = self.shared.fault.check() {
            return Some(Err(error));
        }
        // Read before the state, so that the mark covers what was committed before it was asked for.
        let progress_requests = self.shared.progress_requests();
        let mut events = Vec::new();
        let head = loop {
            let state = self.shared.state();
            if let Err(compacted) = state.check_not_compacted(self.position) {
                return Some(Err(if matches!(self.phase, Phase::New) { compacted } else { Error::SlowWatcher }));
            }
            self.phase = Phase::Running;
            let head = state.revision();
            if collect(&state, &self.range, &mut self.position, &mut events) {
                self.position = self.position.max(head);
            }
            if !events.is_empty() {
                return Some(Ok(WatchItem::Events(events)));
            }
            if self.position >= head {
                break head;
            }
        };
        if self.progress_seen != progress_requests {
            self.progress_seen = progress_requests;
            return Some(Ok(WatchItem::Progress(head)));
        }
        None
    }

    /// Waits to be woken, unless something happened meanwhile.
    fn park(&mut self, waker: &Waker) -> bool {
        let mut parked = self.shared.parked();
        let has_news = self.shared.head() > self.position
            || self.shared.progress_requests() != self.progress_seen
            || self.shared.fault.check().is_err();
        if !has_news {
            let watcher =
                ParkedWatcher { range: self.range.clone(), position: self.position, waker: Some(waker.clone()) };
            parked.watchers.insert(self.id, watcher);
        }
        !has_news
    }

    fn unpark(&mut self) {
        if let Some(parked) = self.shared.parked().watchers.remove(&self.id) {
            self.position = self.position.max(parked.position);
        }
    }
}

/// Copies changes of `range` after `position`, and moves it past what was looked at. True when nothing is left.
fn collect(state: &State, range: &KeyRange, position: &mut Revision, events: &mut Vec<Event>) -> bool {
    for (looked_at, event) in state.history().after(*position).enumerate() {
        let is_new_revision = event.revision() != *position;
        if is_new_revision && (events.len() >= BATCH_EVENTS_MAX || looked_at >= POLL_CHANGES_MAX) {
            return false;
        }
        *position = event.revision();
        if range.contains(event.key()) {
            events.push(event.clone());
        }
    }
    true
}

impl Stream for Watch {
    type Item = Result<WatchItem>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if matches!(self.phase, Phase::Ended) {
            return Poll::Ready(None);
        }
        self.unpark();
        loop {
            if let Some(item) = self.next_ready() {
                if item.is_err() {
                    self.phase = Phase::Ended;
                }
                return Poll::Ready(Some(item));
            }
            if self.park(context.waker()) {
                return Poll::Pending;
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.unpark();
    }
}
