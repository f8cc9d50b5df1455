//! The right to run, held by a request while it works, and by a streamed answer while it moves.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::flow_control::Clock;
use crate::level::HeldSeats;
use crate::plain::PlainSeat;

/// A reader that takes nothing for this long loses its answer's seats: it costs no work while it dawdles, and must not
/// keep others from theirs.
const STALLED_NS: u64 = 1_000_000_000;

/// The right to run. Dropping it lets the next request run.
#[derive(Debug)]
pub enum Seat {
    Fair { seats: HeldSeats, streams: Arc<Streams>, turn: Option<Turn> },
    Plain(PlainSeat),
}

/// A turn to compute, see [`Seat::take_turn`].
#[derive(Debug)]
pub struct Turn(#[allow(dead_code, reason = "held for its destructor")] pub(crate) HeldSeats);

impl Seat {
    /// The right to compute now, to be dropped as soon as the request waits for something. There are only so many as
    /// processors can use: seats say how many requests are under way, turns whose work comes next.
    pub fn take_turn(&mut self) -> Option<Turn> {
        match self {
            Self::Fair { turn, .. } => turn.take(),
            Self::Plain(_) => None,
        }
    }

    /// For an answer that is made while the client reads it.
    pub fn streaming(self) -> StreamingSeat {
        match self {
            Self::Fair { seats, streams, .. } => StreamingSeat(Held::Fair(Streams::hold(streams, seats))),
            Self::Plain(seat) => StreamingSeat(Held::Plain(seat)),
        }
    }
}

/// A seat that is lost when its stream stops moving.
#[derive(Debug)]
pub struct StreamingSeat(Held);

#[derive(Debug)]
enum Held {
    Fair(StreamGuard),
    /// Keeps its place until it is dropped, as upstream's plain limits do.
    #[allow(dead_code, reason = "held for its destructor")]
    Plain(PlainSeat),
}

impl StreamingSeat {
    /// The client took something.
    pub fn moved(&self) {
        if let Held::Fair(guard) = &self.0 {
            guard.stream.moved_ns.store(guard.streams.clock.now_ns(), Ordering::Relaxed);
        }
    }
}

#[derive(Debug)]
struct Stream {
    moved_ns: AtomicU64,
    seats: Mutex<Option<HeldSeats>>,
}

#[derive(Debug)]
struct StreamGuard {
    stream: Arc<Stream>,
    streams: Arc<Streams>,
    number: u64,
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        self.streams.lock().1.remove(&self.number);
    }
}

/// The streamed answers that hold seats.
#[derive(Debug)]
pub struct Streams {
    clock: Clock,
    open: Mutex<(u64, HashMap<u64, Arc<Stream>>)>,
}

impl Streams {
    pub fn new(clock: Clock) -> Arc<Self> {
        Arc::new(Self { clock, open: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, (u64, HashMap<u64, Arc<Stream>>)> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hold(streams: Arc<Self>, seats: HeldSeats) -> StreamGuard {
        let moved_ns = AtomicU64::new(streams.clock.now_ns());
        let stream = Arc::new(Stream { moved_ns, seats: Mutex::new(Some(seats)) });
        let number = {
            let mut open = streams.lock();
            open.0 += 1;
            let number = open.0;
            open.1.insert(number, stream.clone());
            number
        };
        StreamGuard { stream, streams, number }
    }

    /// Takes the seats of streams that stand still.
    pub fn reclaim(&self) {
        let now_ns = self.clock.now_ns();
        let stalled: Vec<Arc<Stream>> = {
            let open = self.lock();
            let stalled =
                |stream: &&Arc<Stream>| now_ns.saturating_sub(stream.moved_ns.load(Ordering::Relaxed)) > STALLED_NS;
            open.1.values().filter(stalled).cloned().collect()
        };
        for stream in stalled {
            drop(stream.seats.lock().unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}
