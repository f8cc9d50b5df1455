//! The auditor: decides by its policy, takes events, encodes each once and hands it to every sink.
//!
//! Events are encoded where they happen, while what they are about is in the processor's caches: on the thread of the
//! sinks each of its parts would have to be fetched from another core first, which costs several times as much.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use tokio::sync::oneshot;

use crate::event::{Bodies, Event, Stage};
use crate::policy::Policy;
use crate::queue::{Entry, Full, Queue, Receipt};
use crate::rules::{RequestRules, Subject};
use crate::sink::{AuditSink, Encoded, Mode};

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

    /// Takes an event, and waits for the sinks that block.
    pub async fn record(&self, event: Event) -> Result<(), NotRecorded> {
        let stage = event.stage;
        let entry = self.encode(event);
        if self.mode == Mode::Batch {
            self.offer(entry);
            return Ok(());
        }
        let strict = self.mode == Mode::BlockingStrict && stage == Stage::RequestReceived;
        let recorded = match self.enter(entry).await {
            Some(receipt) => receipt.await.unwrap_or(false),
            None => false,
        };
        if recorded || !strict { Ok(()) } else { Err(NotRecorded) }
    }

    /// Takes an event from whoever cannot wait.
    pub fn record_behind(&self, event: Event) {
        let entry = self.encode(event);
        match self.mode {
            Mode::Batch => self.offer(entry),
            Mode::Blocking | Mode::BlockingStrict => self.queue.push(entry),
        }
    }

    fn encode(&self, event: Event) -> Entry {
        let whole = encoded(&event, Bodies::Kept);
        let large = whole.json.len() > self.event_bytes_max && event.body_bytes() > 0;
        let without_bodies = large.then(|| encoded(&event, Bodies::Dropped));
        Entry { event: whole, without_bodies, waiting: None }
    }

    fn offer(&self, entry: Entry) {
        if self.queue.offer(entry).is_err() {
            self.lost();
        }
    }

    async fn enter(&self, mut entry: Entry) -> Option<Receipt> {
        loop {
            let (sender, receipt) = oneshot::channel();
            entry.waiting = Some(sender);
            match self.queue.offer(entry) {
                Ok(()) => return Some(receipt),
                Err(Full(_)) if self.queue.is_closed() => return None,
                Err(Full(back)) => entry = back,
            }
            self.queue.room().await;
        }
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

/// About what an event has besides bodies; more is made room for when it is needed.
const HEAD_BYTES: usize = 1024;
/// So that the log does not drown in complaints about lost events.
const LOSSES_PER_COMPLAINT: u64 = 1000;

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
        let mut batch = Vec::new();
        while self.queue.take(&mut batch) {
            self.counters.events.fetch_add(batch.len() as u64, Ordering::Relaxed);
            let mut recorded = true;
            for backend in &mut self.backends {
                let taken = backend.give(&batch);
                if let Err(error) = taken {
                    self.counters.errors.fetch_add(batch.len() as u64, Ordering::Relaxed);
                    tracing::error!(sink = backend.sink.name(), %error, "audit events were not recorded");
                    recorded &= backend.mode != Mode::BlockingStrict;
                }
            }
            for waiting in batch.drain(..).filter_map(|entry| entry.waiting) {
                let _ = waiting.send(recorded);
            }
        }
        self.backends.iter_mut().for_each(|backend| backend.sink.close());
    }
}

impl Backend {
    fn give(&mut self, batch: &[Entry]) -> Result<(), crate::sink::SinkError> {
        let (event_bytes_max, batch_bytes_max) = match self.truncation {
            Some(Truncation { event_bytes_max, batch_bytes_max }) => (event_bytes_max, batch_bytes_max),
            None => (usize::MAX, usize::MAX),
        };
        let mut fitting: Vec<Encoded> = Vec::with_capacity(batch.len());
        let mut bytes = 0;
        for entry in batch {
            let shorter = entry.without_bodies.as_ref().filter(|_| entry.event.json.len() > event_bytes_max);
            let event = shorter.unwrap_or(&entry.event);
            if event.json.len() > event_bytes_max {
                tracing::error!(sink = self.sink.name(), "event is too large even after truncating");
                continue;
            }
            if bytes > 0 && bytes + event.json.len() > batch_bytes_max {
                self.sink.accept(&fitting)?;
                fitting.clear();
                bytes = 0;
            }
            bytes += event.json.len();
            fitting.push(event.clone());
        }
        if fitting.is_empty() { Ok(()) } else { self.sink.accept(&fitting) }
    }
}

fn encoded(event: &Event, bodies: Bodies) -> Encoded {
    let body_bytes = if bodies == Bodies::Kept { event.body_bytes() } else { 0 };
    let mut json = Vec::with_capacity(HEAD_BYTES + body_bytes);
    event.encode(&mut json, bodies);
    Encoded { json: json.into() }
}

#[cfg(test)]
mod tests;
