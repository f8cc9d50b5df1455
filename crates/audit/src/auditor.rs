//! The auditor: decides by its policy, takes events, encodes each once and hands it to every sink.
//!
//! Events are encoded where they happen, while what they are about is in the processor's caches: on the thread of the
//! sinks each of its parts would have to be fetched from another core first, which costs several times as much.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use crate::batch::Batch;
use crate::event::{Bodies, Event, Stage};
use crate::policy::Policy;
use crate::queue::{Full, Gathered, Line, Queue, Receipt};
use crate::rules::{RequestRules, Subject};
use crate::sink::{AuditSink, Mode};

/// A sink and how it is used.
pub struct Backend {
    pub sink: Box<dyn AuditSink>,
    pub mode: Mode,
    /// Events larger than this lose their bodies first, and are left out if that is not enough.
    pub truncation: Option<Truncation>,
}

/// Limits on the size of what a sink gets.
#[derive(Clone, Copy, Debug)]
pub struct Truncation {
    pub event_bytes_max: usize,
    pub batch_bytes_max: usize,
}

/// A request was refused because its arrival could not be recorded.
#[derive(Debug, thiserror::Error)]
#[error("failed to store audit event")]
pub struct NotRecorded;

/// Events taken and lost since the start.
#[derive(Default)]
pub struct Counters {
    pub events: AtomicU64,
    /// Events that some sink did not get.
    pub errors: AtomicU64,
}

/// Records what happens to requests.
pub struct Auditor {
    policy: Policy,
    queue: Arc<Queue>,
    counters: Arc<Counters>,
    /// The strictest mode of any sink.
    mode: Mode,
    /// The largest event that every sink takes as it is.
    event_bytes_max: usize,
    thread: std::sync::Mutex<Option<JoinHandle<()>>>,
}

impl Auditor {
    /// How many events may wait for the thread, as upstream's buffers.
    pub const QUEUE_LEN: usize = 10_000;

    /// An auditor with a thread of its own.
    pub fn start(policy: Policy, backends: Vec<Backend>) -> std::io::Result<Self> {
        let queue = Arc::new(Queue::new(Self::QUEUE_LEN));
        let counters = Arc::new(Counters::default());
        let mode = backends.iter().map(|backend| backend.mode).max().unwrap_or(Mode::Batch);
        let limits = backends.iter().filter_map(|backend| backend.truncation);
        let event_bytes_max = limits.map(|limits| limits.event_bytes_max).min().unwrap_or(usize::MAX);
        let worker = Worker { queue: queue.clone(), counters: counters.clone(), backends };
        let thread = std::thread::Builder::new().name("audit".into()).spawn(move || worker.run())?;
        Ok(Self { policy, queue, counters, mode, event_bytes_max, thread: Some(thread).into() })
    }

    pub fn evaluate(&self, subject: &Subject<'_>) -> RequestRules {
        self.policy.evaluate(subject)
    }

    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Takes an event. Where sinks block, what is returned is to be waited for.
    pub fn record(self: &Arc<Self>, event: &Event<'_>) -> Option<Waiting> {
        if self.mode == Mode::Batch {
            self.record_behind(event);
            return None;
        }
        let entered = self.with_line(event, |line| match self.queue.offer_awaited(line) {
            Ok(receipt) => Entered::Yes(receipt),
            Err(Full) => Entered::NotYet(std::mem::take(line)),
        });
        let strict = self.mode == Mode::BlockingStrict && event.stage == Stage::RequestReceived;
        Some(Waiting { auditor: self.clone(), entered, strict })
    }

    /// Takes an event from whoever cannot wait.
    pub fn record_behind(&self, event: &Event<'_>) {
        self.with_line(event, |line| match self.mode {
            Mode::Batch if self.queue.offer(line).is_err() => self.lost(),
            Mode::Batch => {}
            Mode::Blocking | Mode::BlockingStrict => self.queue.push(line),
        });
    }

    /// Encodes an event in this thread's room for it.
    fn with_line<T>(&self, event: &Event<'_>, use_it: impl FnOnce(&mut Line) -> T) -> T {
        LINE.with_borrow_mut(|line| {
            self.encode(event, line);
            let used = use_it(line);
            if line.text.capacity() > LINE_BYTES_MAX {
                line.text = Vec::new();
            }
            used
        })
    }

    /// Makes `line` that of the event.
    fn encode(&self, event: &Event<'_>, line: &mut Line) {
        line.text.clear();
        line.text.reserve(HEAD_BYTES + event.body_bytes());
        event.encode(&mut line.text, Bodies::Kept);
        let large = line.text.len() > self.event_bytes_max && event.body_bytes() > 0;
        line.without_bodies = large.then(|| {
            let mut shorter = Vec::with_capacity(HEAD_BYTES);
            event.encode(&mut shorter, Bodies::Dropped);
            shorter
        });
        line.text.push(b'\n');
    }

    fn lost(&self) {
        if self.counters.errors.fetch_add(1, Ordering::Relaxed).is_multiple_of(LOSSES_PER_COMPLAINT) {
            tracing::error!("audit buffer queue blocked: events are lost");
        }
    }

    /// Hands everything taken so far to the sinks and ends. Must be called from a thread that may block.
    pub fn stop(&self) {
        self.queue.close();
        let thread = self.thread.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

thread_local! {
    /// Where each thread encodes its events: room that stays in the processor's caches.
    static LINE: RefCell<Line> = RefCell::default();
}

/// About what an event has besides bodies; more is made room for when it is needed.
const HEAD_BYTES: usize = 1024;
/// The room for events that threads keep.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// So that the log does not drown in complaints about lost events.
const LOSSES_PER_COMPLAINT: u64 = 1000;

/// An event that some sink must have before its request goes on.
#[must_use = "the request must wait"]
pub struct Waiting {
    auditor: Arc<Auditor>,
    entered: Entered,
    strict: bool,
}

enum Entered {
    Yes(Receipt),
    /// There was no room.
    NotYet(Line),
}

impl Waiting {
    /// Waits until the sinks have the event. Fails only where the request must not go on without.
    pub async fn recorded(self) -> Result<(), NotRecorded> {
        let receipt = match self.entered {
            Entered::Yes(receipt) => Some(receipt),
            Entered::NotYet(line) => self.auditor.enter(line).await,
        };
        let recorded = match receipt {
            Some(receipt) => receipt.await.unwrap_or(false),
            None => false,
        };
        if recorded || !self.strict { Ok(()) } else { Err(NotRecorded) }
    }
}

impl Auditor {
    /// Enters an event as soon as there is room; `None` if there will be none any more.
    async fn enter(&self, mut line: Line) -> Option<Receipt> {
        loop {
            self.queue.room().await;
            match self.queue.offer_awaited(&mut line) {
                Ok(receipt) => return Some(receipt),
                Err(Full) if self.queue.is_closed() => return None,
                Err(Full) => {}
            }
        }
    }
}

impl Drop for Auditor {
    fn drop(&mut self) {
        self.queue.close();
    }
}

struct Worker {
    queue: Arc<Queue>,
    counters: Arc<Counters>,
    backends: Vec<Backend>,
}

impl Worker {
    fn run(mut self) {
        let mut gathered = Gathered::default();
        while self.queue.take(&mut gathered) {
            self.counters.events.fetch_add(gathered.len() as u64, Ordering::Relaxed);
            let mut recorded = true;
            for backend in &mut self.backends {
                for batch in gathered.batches() {
                    if let Err(error) = backend.give(batch) {
                        self.counters.errors.fetch_add(batch.len() as u64, Ordering::Relaxed);
                        tracing::error!(sink = backend.sink.name(), %error, "audit events were not recorded");
                        recorded &= backend.mode != Mode::BlockingStrict;
                    }
                }
            }
            for waiting in gathered.waiting.drain(..) {
                let _ = waiting.send(recorded);
            }
            gathered.clear();
        }
        self.backends.iter_mut().for_each(|backend| backend.sink.close());
    }
}

impl Backend {
    fn give(&mut self, batch: &Batch) -> Result<(), crate::sink::SinkError> {
        let Some(Truncation { event_bytes_max, batch_bytes_max }) = self.truncation else {
            return self.sink.accept(batch);
        };
        let mut fitting = Batch::default();
        let mut bytes = 0;
        for (event, without_bodies) in batch.with_shorter() {
            let event = without_bodies.filter(|_| event.len() > event_bytes_max).unwrap_or(event);
            if event.len() > event_bytes_max {
                tracing::error!(sink = self.sink.name(), "event is too large even after truncating");
                continue;
            }
            if bytes > 0 && bytes + event.len() > batch_bytes_max {
                self.sink.accept(&fitting)?;
                fitting = Batch::default();
                bytes = 0;
            }
            bytes += event.len();
            fitting.push(event);
        }
        if fitting.is_empty() { Ok(()) } else { self.sink.accept(&fitting) }
    }
}

#[cfg(test)]
mod tests;
