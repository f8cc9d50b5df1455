//! The way from requests to the auditor's thread: bounded, cheap to enter, and taken in batches.
//!
//! The thread sleeps while there is nothing to do and is woken once. It then waits a moment for company, so that a busy
//! server pays for one wake-up and one write for many events, unless somebody waits for theirs.
//!
//! Events are copied one behind the other into room that is used again and again: memory of its own for each would be
//! cold when it is written, and come back from another thread.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use crate::batch::Batch;

/// How long the thread waits for further events before it goes to work.
const LINGER: Duration = Duration::from_millis(5);
/// Events that wait may hold this much memory; a burst of large objects must not take the server down.
const BYTES_MAX: usize = 64 * 1024 * 1024;
/// So many events are reason enough not to wait for more.
const BATCH_LEN: usize = 1024;
/// Events longer than this are handed over and not copied, as others wait meanwhile.
const COPIED_BYTES_MAX: usize = 32 * 1024;
/// The room for events that is kept: what a busy server fills within a linger.
const KEPT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Whether the sinks that must have an event do.
pub(crate) type Receipt = oneshot::Receiver<bool>;

/// An encoded event on its way into the queue.
#[derive(Default)]
pub(crate) struct Line {
    /// JSON with its newline. The queue may take it away; it is then empty.
    pub text: Vec<u8>,
    /// The same without its bodies and without a newline, where some sink may want no larger ones.
    pub without_bodies: Option<Vec<u8>>,
}

/// Events that wait, or were taken from the queue, with whoever waits for them.
#[derive(Default)]
pub(crate) struct Gathered {
    /// Before those of `open`.
    closed: Vec<Batch>,
    /// What events are copied into.
    open: Batch,
    len: usize,
    bytes: usize,
    pub waiting: Vec<oneshot::Sender<bool>>,
}

impl Gathered {
    fn push(&mut self, line: &mut Line) {
        self.len += 1;
        self.bytes += line.text.len();
        let batch = if line.text.len() > COPIED_BYTES_MAX {
            if !self.open.is_empty() {
                self.closed.push(std::mem::take(&mut self.open));
            }
            self.closed.push(Batch::of_line(std::mem::take(&mut line.text)));
            self.closed.last_mut()
        } else {
            self.open.push_line(&line.text);
            Some(&mut self.open)
        };
        if let (Some(batch), Some(shorter)) = (batch, line.without_bodies.take()) {
            batch.last_without_bodies(shorter);
        }
    }

    /// How many events there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The events, in their order.
    pub fn batches(&self) -> impl Iterator<Item = &Batch> {
        self.closed.iter().chain(Some(&self.open).filter(|open| !open.is_empty()))
    }

    /// Forgets all events and keeps their room for others.
    pub fn clear(&mut self) {
        self.closed.clear();
        self.open.clear(KEPT_BYTES_MAX);
        self.waiting.clear();
        (self.len, self.bytes) = (0, 0);
    }
}

#[derive(Default)]
struct State {
    gathered: Gathered,
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
#[derive(Debug)]
pub(crate) struct Full;

impl Queue {
    pub fn new(len_max: usize) -> Self {
        Self { state: Mutex::default(), wake: Condvar::new(), room: Notify::new(), len_max }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_room(&self, state: &State) -> bool {
        state.gathered.len < self.len_max && state.gathered.bytes <= BYTES_MAX
    }

    /// Adds an event if there is room.
    pub fn offer(&self, line: &mut Line) -> Result<(), Full> {
        let mut state = self.state();
        if !self.has_room(&state) || state.closed {
            return Err(Full);
        }
        self.enter(&mut state, line);
        Ok(())
    }

    /// Adds an event if there is room; somebody waits until the sinks have it.
    pub fn offer_awaited(&self, line: &mut Line) -> Result<Receipt, Full> {
        let mut state = self.state();
        if !self.has_room(&state) || state.closed {
            return Err(Full);
        }
        let (sender, receipt) = oneshot::channel();
        state.gathered.waiting.push(sender);
        let first = !std::mem::replace(&mut state.urgent, true);
        self.enter(&mut state, line);
        if first {
            self.wake.notify_one();
        }
        Ok(receipt)
    }

    /// Adds an event even where there is no room, for those who cannot wait and must not lose it.
    pub fn push(&self, line: &mut Line) {
        let mut state = self.state();
        if !state.closed {
            self.enter(&mut state, line);
        }
    }

    fn enter(&self, state: &mut State, line: &mut Line) {
        state.gathered.push(line);
        if std::mem::take(&mut state.idle) || state.gathered.len == BATCH_LEN {
            self.wake.notify_one();
        }
    }

    /// Waits until there may be room.
    pub async fn room(&self) {
        let notified = self.room.notified();
        {
            let state = self.state();
            if state.closed || self.has_room(&state) {
                return;
            }
        }
        notified.await;
    }

    pub fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// Puts all events that wait into `gathered`, which is empty; false once the queue is closed and empty.
    ///
    /// The two change places, so that requests wait for a few instructions and not for events to be moved.
    pub fn take(&self, gathered: &mut Gathered) -> bool {
        let mut state = self.state();
        while state.gathered.len == 0 {
            if state.closed {
                return false;
            }
            state.idle = true;
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.idle = false;
        let alone = |state: &mut State| !state.urgent && !state.closed && state.gathered.len < BATCH_LEN;
        if alone(&mut state) {
            state = self.wake.wait_timeout_while(state, LINGER, alone).unwrap_or_else(PoisonError::into_inner).0;
        }
        std::mem::swap(&mut state.gathered, gathered);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn line(event: &str) -> Line {
        Line { text: format!("{event}\n").into_bytes(), without_bodies: None }
    }

    fn taken(queue: &Queue) -> Vec<Vec<String>> {
        let mut gathered = Gathered::default();
        assert!(queue.take(&mut gathered));
        let text = |event: &[u8]| String::from_utf8(event.to_vec()).expect("text");
        gathered.batches().map(|batch| batch.iter().map(text).collect()).collect()
    }

    #[test]
    fn a_large_event_keeps_its_place_among_small_ones() {
        let queue = Queue::new(10);
        let large = "x".repeat(COPIED_BYTES_MAX);
        let mut handed_over = line(&large);
        for event in [&mut line("a"), &mut line("b"), &mut handed_over, &mut line("c")] {
            queue.offer(event).expect("room");
        }
        assert!(handed_over.text.is_empty(), "it was not copied");
        queue.close();
        assert_eq!(taken(&queue), [vec!["a".to_owned(), "b".to_owned()], vec![large], vec!["c".to_owned()]]);
        assert!(!queue.take(&mut Gathered::default()));
    }

    #[test]
    fn what_is_too_much_is_refused_unless_it_must_not_be_lost() {
        let queue = Queue::new(2);
        queue.offer(&mut line("a")).expect("room");
        queue.offer(&mut line("b")).expect("room");
        assert!(queue.offer(&mut line("c")).is_err() && queue.offer_awaited(&mut line("d")).is_err());
        queue.push(&mut line("e"));
        queue.close();
        queue.push(&mut line("f"));
        assert_eq!(taken(&queue).concat(), ["a", "b", "e"]);
    }

    #[test]
    fn room_is_used_again() {
        let queue = Queue::new(10);
        let mut gathered = Gathered::default();
        for round in 0..3 {
            queue.offer_awaited(&mut line(&format!("{round}"))).expect("room");
            assert!(queue.take(&mut gathered));
            let events: Vec<&[u8]> = gathered.batches().flat_map(Batch::iter).collect();
            assert_eq!((events, gathered.len()), (vec![round.to_string().as_bytes()], 1));
            gathered.clear();
        }
    }
}
