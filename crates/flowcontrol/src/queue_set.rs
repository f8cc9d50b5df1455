//! The seats of one priority level and the requests that wait for them, by fair queuing.
//!
//! Each flow is dealt a hand of queues and its requests join the emptiest of them. Seats go to the queue that would finish
//! its next request first in a world where all queues with work share the seats equally (virtual time), so a flow that asks
//! for more than its share waits and the others do not. Synchronous: told the time, it says who runs. Only queues with
//! work exist, so the configured number costs nothing.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use crate::demand::{Demand, DemandStats};
use crate::shuffle;
use crate::spec::Queuing;

/// How long a request is taken to need before it is known. Only a guess until it ends: queues are then corrected by what
/// it really took.
const SERVICE_ESTIMATE_NS: i128 = 1_000_000;

/// What happens to requests for which there is no seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// Everybody runs; seats are only counted.
    Exempt,
    Reject,
    Queue(Queuing),
}

/// A request that holds seats, to be given back to [`QueueSet::finish`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "seats must be given back"]
pub struct Ticket {
    queue: Option<u32>,
    seats: u32,
    started_ns: u64,
}

impl Ticket {
    pub fn seats(&self) -> u32 {
        self.seats
    }

    pub fn started_ns(&self) -> u64 {
        self.started_ns
    }
}

/// A request that waits, for [`QueueSet::cancel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    queue: u32,
    number: u64,
}

/// What became of an arriving request.
#[derive(Debug, PartialEq, Eq)]
pub enum Arrival {
    Runs(Ticket),
    Waits(Place),
    Rejected(Reason),
}

/// Why a request was turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    ConcurrencyLimit,
    QueueFull,
    TimeOut,
}

impl Reason {
    pub const ALL: [Self; 3] = [Self::ConcurrencyLimit, Self::QueueFull, Self::TimeOut];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::ConcurrencyLimit => "concurrency-limit",
            Self::QueueFull => "queue-full",
            Self::TimeOut => "time-out",
        }
    }
}

/// Seats times nanoseconds.
type SeatTime = i128;

#[derive(Debug)]
struct Waiting<W> {
    number: u64,
    seats: u32,
    /// The virtual time of its arrival: its turn cannot have been before.
    arrived: SeatTime,
    waiter: W,
}

#[derive(Debug)]
struct Queue<W> {
    waiting: VecDeque<Waiting<W>>,
    seats_waiting: u32,
    executing: u32,
    seats_in_use: u32,
    /// The virtual time at which its next request starts.
    next_start: SeatTime,
}

impl<W> Queue<W> {
    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.executing == 0
    }

    /// A queue that could not use its share does not save it up.
    fn bound_next_start(&mut self) {
        if let Some(oldest) = self.waiting.front() {
            self.next_start = self.next_start.max(oldest.arrived);
        }
    }
}

/// Totals of one queue set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub waiting: u32,
    pub executing: u32,
    pub seats_in_use: u32,
    pub dispatched: u64,
    pub rejected: u64,
    pub timed_out: u64,
}

/// One queue as debugging shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueState {
    pub index: u32,
    pub waiting: usize,
    pub executing: u32,
    pub seats_in_use: u32,
    pub seats_waiting: u32,
    pub next_start_seconds: f64,
}

/// The seats and queues of one level. `W` is how a waiting request is told that its turn has come.
#[derive(Debug)]
pub struct QueueSet<W> {
    discipline: Discipline,
    limit: u32,
    queues: BTreeMap<u32, Queue<W>>,
    /// Waiting and in use, over all queues.
    seats_waiting: u32,
    totals: Totals,
    virtual_now: SeatTime,
    changed_ns: u64,
    last_dispatched: u32,
    arrivals: u64,
    demand: Demand,
}

impl<W> QueueSet<W> {
    pub fn new(discipline: Discipline, limit: u32, now_ns: u64) -> Self {
        Self {
            discipline,
            limit,
            queues: BTreeMap::new(),
            seats_waiting: 0,
            totals: Totals::default(),
            virtual_now: 0,
            changed_ns: now_ns,
            last_dispatched: 0,
            arrivals: 0,
            demand: Demand::new(now_ns),
        }
    }

    /// A request arrives that needs `seats` and belongs to the flow of this hash. `waiter` makes what it is woken by.
    pub fn arrive(&mut self, now_ns: u64, hash: u64, seats: u32, waiter: impl FnOnce() -> W) -> Arrival {
        self.advance(now_ns);
        let seats = seats.max(1);
        let Discipline::Queue(queuing) = self.discipline else {
            if self.discipline == Discipline::Reject && !self.fits(seats) {
                self.totals.rejected += 1;
                return Arrival::Rejected(Reason::ConcurrencyLimit);
            }
            return Arrival::Runs(self.seat(now_ns, None, seats));
        };
        let index = self.choose_queue(hash, queuing);
        let queued = self.queues.get(&index).map_or(0, |queue| queue.waiting.len());
        let free = self.totals.waiting == 0 && self.fits(seats);
        if !free && self.totals.seats_in_use >= self.limit && queued >= queuing.queue_length_limit as usize {
            self.totals.rejected += 1;
            return Arrival::Rejected(Reason::QueueFull);
        }
        let virtual_now = self.virtual_now;
        let queue = self.queues.entry(index).or_insert_with(|| Queue {
            waiting: VecDeque::new(),
            seats_waiting: 0,
            executing: 0,
            seats_in_use: 0,
            next_start: virtual_now,
        });
        if free {
            // Nobody waits and there is room: what queuing would come to, at once.
            queue.next_start = queue.next_start.max(virtual_now);
            return Arrival::Runs(self.seat(now_ns, Some(index), seats));
        }
        let number = self.arrivals;
        queue.waiting.push_back(Waiting { number, seats, arrived: virtual_now, waiter: waiter() });
        queue.seats_waiting += seats;
        queue.bound_next_start();
        self.seats_waiting += seats;
        self.totals.waiting += 1;
        self.note_demand(now_ns);
        Arrival::Waits(Place { queue: index, number })
    }

    /// A request is done with its seats. Those whose turn it is now are handed to `wake`.
    pub fn finish(&mut self, now_ns: u64, ticket: &Ticket, wake: impl FnMut(W, Ticket)) {
        self.advance(now_ns);
        self.totals.executing -= 1;
        self.totals.seats_in_use -= ticket.seats;
        if let Some(index) = ticket.queue
            && let Some(queue) = self.queues.get_mut(&index)
        {
            queue.executing -= 1;
            queue.seats_in_use -= ticket.seats;
            let took = SeatTime::from(now_ns.saturating_sub(ticket.started_ns));
            queue.next_start -= SeatTime::from(ticket.seats) * (SERVICE_ESTIMATE_NS - took);
            queue.bound_next_start();
            if queue.is_idle() {
                self.queues.remove(&index);
            }
        }
        self.note_demand(now_ns);
        self.dispatch(now_ns, wake);
    }

    /// A request no longer wants to wait. False if its turn has come already.
    pub fn cancel(&mut self, now_ns: u64, place: Place) -> bool {
        self.advance(now_ns);
        let Some(queue) = self.queues.get_mut(&place.queue) else { return false };
        let Some(at) = queue.waiting.iter().position(|waiting| waiting.number == place.number) else { return false };
        let Some(waiting) = queue.waiting.remove(at) else { return false };
        queue.seats_waiting -= waiting.seats;
        queue.bound_next_start();
        if queue.is_idle() {
            self.queues.remove(&place.queue);
        }
        self.seats_waiting -= waiting.seats;
        self.totals.waiting -= 1;
        self.totals.rejected += 1;
        self.totals.timed_out += 1;
        self.note_demand(now_ns);
        true
    }

    /// Changes the rules for who arrives from now on, and how many seats there are.
    pub fn reconfigure(&mut self, now_ns: u64, discipline: Discipline, limit: u32, wake: impl FnMut(W, Ticket)) {
        self.advance(now_ns);
        self.discipline = discipline;
        self.limit = limit;
        self.dispatch(now_ns, wake);
    }

    pub fn discipline(&self) -> Discipline {
        self.discipline
    }

    pub fn limit(&self) -> u32 {
        self.limit
    }

    pub fn totals(&self) -> Totals {
        self.totals
    }

    pub fn demand(&self) -> DemandStats {
        self.demand.stats()
    }

    pub fn end_demand_period(&mut self, now_ns: u64) -> DemandStats {
        self.demand.end_period(now_ns)
    }

    pub fn virtual_seconds(&self) -> f64 {
        self.virtual_now as f64 / 1e9
    }

    pub fn queues(&self) -> impl Iterator<Item = QueueState> {
        self.queues.iter().map(|(index, queue)| QueueState {
            index: *index,
            waiting: queue.waiting.len(),
            executing: queue.executing,
            seats_in_use: queue.seats_in_use,
            seats_waiting: queue.seats_waiting,
            next_start_seconds: queue.next_start as f64 / 1e9,
        })
    }

    /// Moves virtual time on: by the share of each queue with work in the seats that are or could be used.
    fn advance(&mut self, now_ns: u64) {
        let passed = now_ns.saturating_sub(self.changed_ns);
        self.changed_ns = self.changed_ns.max(now_ns);
        let active = self.queues.len() as SeatTime;
        if active > 0 {
            let wanted = (self.totals.seats_in_use + self.seats_waiting).min(self.limit);
            self.virtual_now += SeatTime::from(passed) * SeatTime::from(wanted) / active;
        }
    }

    fn fits(&self, seats: u32) -> bool {
        // Who needs more than there are gets all of them, once they are free; a level without any is a jail.
        self.totals.seats_in_use + seats <= self.limit
            || (self.limit > 0 && seats > self.limit && self.totals.executing == 0)
    }

    /// The queue of the flow's hand with the least waiting; which of several such, changes from request to request.
    fn choose_queue(&mut self, hash: u64, queuing: Queuing) -> u32 {
        self.arrivals += 1;
        let hand: Vec<u32>;
        let cards: &[u32] = if queuing.queues <= 1 {
            &[0]
        } else {
            hand = shuffle::deal(hash, queuing.queues, queuing.hand_size).collect();
            &hand
        };
        let offset = (self.arrivals % cards.len() as u64) as usize;
        let waiting = |card: &u32| self.queues.get(card).map_or(0, |queue| queue.seats_waiting);
        let in_turn = cards.iter().skip(offset).chain(cards.iter().take(offset));
        in_turn.min_by_key(|card| waiting(card)).copied().unwrap_or_default()
    }

    fn seat(&mut self, now_ns: u64, index: Option<u32>, seats: u32) -> Ticket {
        self.totals.executing += 1;
        self.totals.seats_in_use += seats;
        self.totals.dispatched += 1;
        if let Some(queue) = index.and_then(|index| self.queues.get_mut(&index)) {
            queue.executing += 1;
            queue.seats_in_use += seats;
            queue.next_start += SeatTime::from(seats) * SERVICE_ESTIMATE_NS;
        }
        self.note_demand(now_ns);
        Ticket { queue: index, seats, started_ns: now_ns }
    }

    /// Gives free seats to whose turn it is. Whoever's turn it is and needs more seats than are free is waited for.
    fn dispatch(&mut self, now_ns: u64, mut wake: impl FnMut(W, Ticket)) {
        while self.totals.waiting > 0 && self.totals.seats_in_use < self.limit {
            let Some(index) = self.next_queue() else { return };
            let head = self.queues.get(&index).and_then(|queue| queue.waiting.front());
            if !head.is_some_and(|head| self.fits(head.seats)) {
                return;
            }
            let Some(queue) = self.queues.get_mut(&index) else { return };
            let Some(waiting) = queue.waiting.pop_front() else { return };
            queue.seats_waiting -= waiting.seats;
            self.seats_waiting -= waiting.seats;
            self.totals.waiting -= 1;
            self.last_dispatched = index;
            let ticket = self.seat(now_ns, Some(index), waiting.seats);
            if let Some(queue) = self.queues.get_mut(&index) {
                queue.bound_next_start();
            }
            wake(waiting.waiter, ticket);
        }
    }

    /// The queue whose next request would end first in virtual time; among equals the next in the round.
    fn next_queue(&self) -> Option<u32> {
        let after = (Bound::Excluded(self.last_dispatched), Bound::Unbounded);
        let round = self.queues.range(after).chain(self.queues.range(..=self.last_dispatched));
        let ends = round.filter_map(|(index, queue)| {
            let oldest = queue.waiting.front()?;
            Some((queue.next_start + SeatTime::from(oldest.seats) * SERVICE_ESTIMATE_NS, *index))
        });
        ends.min_by_key(|(end, _)| *end).map(|(_, index)| index)
    }

    fn note_demand(&mut self, now_ns: u64) {
        self.demand.set(now_ns, self.totals.seats_in_use + self.seats_waiting);
    }
}

#[cfg(test)]
mod tests;
