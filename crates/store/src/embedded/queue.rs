//! The way from callers to the committer: a list behind a mutex, and one wake-up however many callers there are.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::{Error, Op, Result, Revision, TxnOutcome};

/// Something for the committer to do. Whoever drops the receiver gives up on the answer, not on the deed.
#[derive(Debug)]
pub(super) enum Request {
    Txn {
        ops: Vec<Op>,
        /// Nobody waits for the store's own transactions.
        reply: Option<oneshot::Sender<Result<TxnOutcome>>>,
    },
    Compact {
        revision: Revision,
        reply: oneshot::Sender<Result<()>>,
    },
}

/// Requests that may wait. More would mean seconds of delay; callers get [`Error::Unavailable`] instead.
const QUEUE_LEN_MAX: usize = 100_000;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Queue {
    inner: Mutex<Inner>,
    ready: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    requests: Vec<Request>,
    /// Whether the committer sleeps and needs waking.
    is_waiting: bool,
    is_kicked: bool,
    is_closed: bool,
}

/// Whether there will be more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    Open,
    /// What was taken is the last.
    Closed,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn push(&self, request: Request) -> Result<()> {
        let mut inner = self.lock();
        if inner.is_closed {
            return Err(Error::Closed);
        }
        if inner.requests.len() >= QUEUE_LEN_MAX {
            return Err(Error::Unavailable("too many transactions are waiting".into()));
        }
        inner.requests.push(request);
        self.wake(inner);
        Ok(())
    }

    /// Makes the committer look at the clock again, for tests that move it.
    #[cfg(test)]
    pub fn kick(&self) {
        let mut inner = self.lock();
        inner.is_kicked = true;
        self.wake(inner);
    }

    /// Takes no more requests; those already here are still served.
    pub fn close(&self) {
        let mut inner = self.lock();
        inner.is_closed = true;
        self.wake(inner);
    }

    /// Gives up on everything that still waits: whoever asked learns it at once.
    pub fn clear(&self) {
        let waiting = std::mem::take(&mut self.lock().requests);
        drop(waiting);
    }

    fn wake(&self, mut inner: MutexGuard<'_, Inner>) {
        let was_waiting = std::mem::take(&mut inner.is_waiting);
        drop(inner);
        if was_waiting {
            self.ready.notify_one();
        }
    }

    /// Moves everything that waits into `batch`, waiting up to `timeout` for something to come.
    pub fn take(&self, batch: &mut Vec<Request>, timeout: Duration) -> Flow {
        let mut inner = self.lock();
        if inner.requests.is_empty() && !inner.is_kicked && !inner.is_closed && !timeout.is_zero() {
            inner.is_waiting = true;
            let nothing = |inner: &mut Inner| inner.requests.is_empty() && !inner.is_kicked && !inner.is_closed;
            (inner, _) = self.ready.wait_timeout_while(inner, timeout, nothing).unwrap_or_else(PoisonError::into_inner);
            inner.is_waiting = false;
        }
        inner.is_kicked = false;
        if batch.is_empty() {
            std::mem::swap(batch, &mut inner.requests);
        } else {
            batch.append(&mut inner.requests);
        }
        if inner.is_closed { Flow::Closed } else { Flow::Open }
    }
}
