//! What the store's handle, its committer, its watchers and its checkpointer share.
//!
//! Locks, in the order they may nest: `state`, then `parked`. None is held across a system call that waits for a disk.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::fault::Fault;
use super::options::Options;
use super::queue::Queue;
use super::state::State;
use super::watch::Parked;
use crate::{Error, KeyRange, RangeRequest, RangeResponse, Result, Revision};

/// See the module.
#[derive(Debug)]
pub(super) struct Shared {
    state: RwLock<State>,
    /// The newest revision in `state`, readable without its lock.
    head: AtomicU64,
    /// Counts requests for progress marks.
    progress_requests: AtomicU64,
    parked: Mutex<Parked>,
    pub queue: Queue,
    pub fault: Fault,
    pub options: Options,
}

/// Keys looked at under one hold of the state's lock: under a millisecond, so that a huge list does not hold up commits.
const SCAN_STEPS_MAX: usize = 4096;

impl Shared {
    pub fn new(state: State, options: Options) -> Arc<Self> {
        Arc::new(Self {
            head: AtomicU64::new(state.revision().0),
            state: RwLock::new(state),
            progress_requests: AtomicU64::new(0),
            parked: Mutex::default(),
            queue: Queue::default(),
            fault: Fault::default(),
            options,
        })
    }

    pub fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn state_mut(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn parked(&self) -> MutexGuard<'_, Parked> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest published revision.
    pub fn head(&self) -> Revision {
        Revision(self.head.load(Ordering::SeqCst))
    }

    /// Makes `revision` the newest. The changes up to it are in the state by now.
    pub fn set_head(&self, revision: Revision) {
        self.head.store(revision.0, Ordering::SeqCst);
    }

    pub fn progress_requests(&self) -> u64 {
        self.progress_requests.load(Ordering::SeqCst)
    }

    pub fn request_progress(&self) {
        self.progress_requests.fetch_add(1, Ordering::SeqCst);
        self.wake_all();
    }

    /// Wakes every waiting watcher, whatever it watches.
    pub fn wake_all(&self) {
        let wakers = self.parked().take_all();
        wakers.into_iter().for_each(std::task::Waker::wake);
    }

    /// Ends the store with `error`; the first one stays.
    pub fn fail(&self, error: Error) {
        self.fault.set(error);
        self.queue.close();
        self.wake_all();
    }

    /// Reads a range, in several steps when it is long so that commits go on in between.
    pub async fn range(&self, request: RangeRequest) -> Result<RangeResponse> {
        let RangeRequest { range, at, limit } = request;
        let limit = limit.unwrap_or(usize::MAX);
        let (at, mut entries, mut resume, pin) = {
            let state = self.state();
            let at = at.unwrap_or(state.revision());
            state.check_readable(at)?;
            let scan = state.scan(&range, at, limit, SCAN_STEPS_MAX);
            if scan.resume.is_none() || scan.entries.len() >= limit {
                let count = if scan.resume.is_none() { scan.entries.len() as u64 } else { state.count(&range, at) };
                return Ok(RangeResponse { revision: at, entries: scan.entries, count });
            }
            (at, scan.entries, scan.resume, state.pin(at))
        };
        let mut count = None;
        while let Some(start) = resume {
            if entries.len() >= limit {
                count = Some(self.state().count(&range, at));
                break;
            }
            tokio::task::yield_now().await;
            let rest = KeyRange { start, end: range.end.clone() };
            let mut scan = self.state().scan(&rest, at, limit - entries.len(), SCAN_STEPS_MAX);
            entries.append(&mut scan.entries);
            resume = scan.resume;
        }
        drop(pin);
        let count = count.unwrap_or(entries.len() as u64);
        Ok(RangeResponse { revision: at, entries, count })
    }
}
