//! The way from requests to the auditor's thread: bounded, cheap to enter, and taken in batches.
//!
//! The thread sleeps while there is nothing to do and is woken once. It then waits a moment for company, so that a busy
//! server pays for one wake-up and one write for many events, unless somebody waits for theirs.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use crate::sink::Encoded;

/// How long the thread waits for further events before it goes to work.
const LINGER: Duration = Duration::from_millis(5);
/// Events that wait may hold this much memory; a burst of large objects must not take the server down.
const BYTES_MAX: usize = 64 * 1024 * 1024;
/// So many events are reason enough not to wait for more.
const BATCH_LEN: usize = 1024;

/// Whether the sinks that must have an event do.
pub(crate) type Receipt = oneshot::Receiver<bool>;

/// An event on its way, with whoever waits for it.
pub(crate) struct Entry {
    pub event: Encoded,
    /// The same without its bodies, where some sink may want no larger ones.
    pub without_bodies: Option<Encoded>,
    pub waiting: Option<oneshot::Sender<bool>>,
}

#[derive(Default)]
struct State {
    entries: Vec<Entry>,
    bytes: usize,
    /// The thread sleeps until it is woken.
    idle: bool,
    /// Somebody waits, so do not linger.
    urgent: bool,
    closed: bool,
}

pub(crate) struct Queue {
    state: Mutex<State>,
    wake: Condvar,
    room: Notify,
    len_max: usize,
}

/// The queue took nothing more.
pub(crate) struct Full(pub Entry);

impl Queue {
    pub fn new(len_max: usize) -> Self {
        Self { state: Mutex::default(), wake: Condvar::new(), room: Notify::new(), len_max }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event if there is room.
    pub fn offer(&self, entry: Entry) -> Result<(), Full> {
        let mut state = self.state();
        if state.entries.len() >= self.len_max || state.bytes > BYTES_MAX || state.closed {
            return Err(Full(entry));
        }
        self.enter(&mut state, entry);
        Ok(())
    }

    /// Adds an event even where there is no room, for those who cannot wait and must not lose it.
    pub fn push(&self, entry: Entry) {
        let mut state = self.state();
        if !state.closed {
            self.enter(&mut state, entry);
        }
    }

    fn enter(&self, state: &mut State, entry: Entry) {
        let urgent = entry.waiting.is_some() && !state.urgent;
        state.urgent |= urgent;
        state.bytes += entry.event.json.len();
        state.entries.push(entry);
        if std::mem::take(&mut state.idle) || urgent || state.entries.len() == BATCH_LEN {
            self.wake.notify_one();
        }
    }

    /// Waits until there may be room.
    pub async fn room(&self) {
        let notified = self.room.notified();
        {
            let state = self.state();
            if state.closed || (state.entries.len() < self.len_max && state.bytes <= BYTES_MAX) {
                return;
            }
        }
        notified.await;
    }

    pub fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// Puts all events that wait into `batch`, which is empty; false once the queue is closed and empty.
    ///
    /// The two change places, so that requests wait for a few instructions and not for events to be moved.
    pub fn take(&self, batch: &mut Vec<Entry>) -> bool {
        let mut state = self.state();
        while state.entries.is_empty() {
            if state.closed {
                return false;
            }
            state.idle = true;
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.idle = false;
        if !state.urgent && !state.closed && state.entries.len() < BATCH_LEN {
            let busy = |state: &mut State| !state.urgent && !state.closed && state.entries.len() < BATCH_LEN;
            state = self.wake.wait_timeout_while(state, LINGER, busy).unwrap_or_else(PoisonError::into_inner).0;
        }
        std::mem::swap(&mut state.entries, batch);
        state.bytes = 0;
        state.urgent = false;
        drop(state);
        self.room.notify_waiters();
        true
    }

    pub fn close(&self) {
        self.state().closed = true;
        self.wake.notify_all();
        self.room.notify_waiters();
    }
}
