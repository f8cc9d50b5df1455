//! One priority level at work: its queue set behind a short lock, and what is counted about it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::flow_control::Clock;
use crate::histogram::Histogram;
use crate::queue_set::{Arrival, Discipline, Place, QueueSet, Reason, Ticket};
use crate::retry_after::RetryAfter;

/// A priority level. Lives as long as a configuration or a request refers to it.
#[derive(Debug)]
pub struct Level {
    pub name: Box<str>,
    clock: Clock,
    set: Mutex<QueueSet<oneshot::Sender<Ticket>>>,
    retry_after: Mutex<RetryAfter>,
}

/// What is counted of one schema's requests at one level.
#[derive(Debug)]
pub struct FlowCounts {
    pub waiting: AtomicU64,
    pub seats_waiting: AtomicU64,
    pub executing: AtomicU64,
    pub seats_executing: AtomicU64,
    pub dispatched: AtomicU64,
    pub rejected: [AtomicU64; Reason::ALL.len()],
    /// Waits of requests that ran, and of those that did not.
    pub waited: Histogram<12>,
    pub gave_up: Histogram<12>,
    pub executed: Histogram<12>,
}

/// Upstream's bounds for waits and executions that matter here, in seconds.
const SECONDS: [f64; 12] = [0.001, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0];

impl Default for FlowCounts {
    fn default() -> Self {
        Self {
            waiting: AtomicU64::new(0),
            seats_waiting: AtomicU64::new(0),
            executing: AtomicU64::new(0),
            seats_executing: AtomicU64::new(0),
            dispatched: AtomicU64::new(0),
            rejected: Default::default(),
            waited: Histogram::new(SECONDS),
            gave_up: Histogram::new(SECONDS),
            executed: Histogram::new(SECONDS),
        }
    }
}

impl FlowCounts {
    fn rejected(&self, reason: Reason) {
        if let Some(count) = self.rejected.get(reason as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Level {
    pub fn new(name: &str, discipline: Discipline, limit: u32, clock: Clock) -> Arc<Self> {
        let set = Mutex::new(QueueSet::new(discipline, limit, clock.now_ns()));
        Arc::new(Self { name: name.into(), clock, set, retry_after: Mutex::default() })
    }

    pub fn lock(&self) -> MutexGuard<'_, QueueSet<oneshot::Sender<Ticket>>> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The seconds a client that is turned away now should stay away.
    pub fn retry_after(&self) -> u64 {
        self.retry_after.lock().unwrap_or_else(PoisonError::into_inner).refused(self.clock.now_ns() / 1_000_000_000)
    }

    pub fn reconfigure(&self, discipline: Discipline, limit: u32) {
        let mut set = self.lock();
        if set.discipline() != discipline || set.limit() != limit {
            set.reconfigure(self.clock.now_ns(), discipline, limit, wake);
        }
    }

    /// Waits for `seats`, at most as long as `patience`.
    pub async fn take(
        self: &Arc<Self>,
        counts: &Arc<FlowCounts>,
        hash: u64,
        seats: u32,
        patience: Duration,
    ) -> Result<HeldSeats, Reason> {
        let now_ns = self.clock.now_ns();
        let mut receiver = None;
        let arrival = self.lock().arrive(now_ns, hash, seats, || {
            let (sender, waiting) = oneshot::channel();
            receiver = Some(waiting);
            sender
        });
        match (arrival, receiver) {
            (Arrival::Runs(ticket), _) => Ok(self.hold(counts, ticket)),
            (Arrival::Waits(place), Some(receiver)) => {
                let line = Line::new(self, counts, place, receiver, seats, now_ns);
                line.wait(patience).await
            }
            (Arrival::Rejected(reason), _) => {
                counts.rejected(reason);
                Err(reason)
            }
            (Arrival::Waits(_), None) => Err(Reason::TimeOut),
        }
    }

    fn hold(self: &Arc<Self>, counts: &Arc<FlowCounts>, ticket: Ticket) -> HeldSeats {
        counts.dispatched.fetch_add(1, Ordering::Relaxed);
        counts.executing.fetch_add(1, Ordering::Relaxed);
        counts.seats_executing.fetch_add(u64::from(ticket.seats()), Ordering::Relaxed);
        HeldSeats { level: self.clone(), counts: counts.clone(), ticket }
    }

    fn finish(&self, ticket: &Ticket) {
        self.lock().finish(self.clock.now_ns(), ticket, wake);
    }
}

/// Tells a waiting request that it runs. It cannot have gone away: it leaves the queue under the same lock first.
fn wake(sender: oneshot::Sender<Ticket>, ticket: Ticket) {
    // The receiver takes the ticket in its destructor if it is no longer awaited.
    let _ = sender.send(ticket);
}

/// Seats in use; given back when dropped.
#[derive(Debug)]
pub struct HeldSeats {
    level: Arc<Level>,
    counts: Arc<FlowCounts>,
    ticket: Ticket,
}

impl Drop for HeldSeats {
    fn drop(&mut self) {
        self.counts.executing.fetch_sub(1, Ordering::Relaxed);
        self.counts.seats_executing.fetch_sub(u64::from(self.ticket.seats()), Ordering::Relaxed);
        self.counts.executed.observe_ns(self.level.clock.now_ns().saturating_sub(self.ticket.started_ns()));
        self.level.finish(&self.ticket);
    }
}

/// A request in its queue. When it is dropped, because the client has gone, the queue forgets it.
struct Line<'a> {
    level: &'a Arc<Level>,
    counts: &'a Arc<FlowCounts>,
    place: Place,
    receiver: Option<oneshot::Receiver<Ticket>>,
    seats: u64,
    since_ns: u64,
}

impl<'a> Line<'a> {
    fn new(
        level: &'a Arc<Level>,
        counts: &'a Arc<FlowCounts>,
        place: Place,
        receiver: oneshot::Receiver<Ticket>,
        seats: u32,
        since_ns: u64,
    ) -> Self {
        let seats = u64::from(seats);
        counts.waiting.fetch_add(1, Ordering::Relaxed);
        counts.seats_waiting.fetch_add(seats, Ordering::Relaxed);
        Self { level, counts, place, receiver: Some(receiver), seats, since_ns }
    }

    async fn wait(mut self, patience: Duration) -> Result<HeldSeats, Reason> {
        let woken = match &mut self.receiver {
            Some(receiver) => tokio::time::timeout(patience, receiver).await,
            None => return Err(Reason::TimeOut),
        };
        let ticket = match woken {
            Ok(Ok(ticket)) => {
                self.receiver = None;
                Some(ticket)
            }
            Ok(Err(_)) | Err(_) => self.leave(),
        };
        let waited_ns = self.level.clock.now_ns().saturating_sub(self.since_ns);
        match ticket {
            Some(ticket) => {
                self.counts.waited.observe_ns(waited_ns);
                Ok(self.level.hold(self.counts, ticket))
            }
            None => {
                self.counts.gave_up.observe_ns(waited_ns);
                self.counts.rejected(Reason::TimeOut);
                Err(Reason::TimeOut)
            }
        }
    }

    /// Leaves the queue; the ticket if its turn came in the meantime.
    fn leave(&mut self) -> Option<Ticket> {
        let mut receiver = self.receiver.take()?;
        let left = self.level.lock().cancel(self.level.clock.now_ns(), self.place);
        if left { None } else { receiver.try_recv().ok() }
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        self.counts.waiting.fetch_sub(1, Ordering::Relaxed);
        self.counts.seats_waiting.fetch_sub(self.seats, Ordering::Relaxed);
        if let Some(ticket) = self.leave() {
            self.level.finish(&ticket);
        }
    }
}
