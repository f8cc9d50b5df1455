//! The auditor: decides by its policy, takes events, encodes each once and hands it to every sink.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use bytes::Bytes;
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
        let worker = Worker { queue: queue.clone(), counters: counters.clone(), backends };
        let thread = std::thread::Builder::new().name("audit".into()).spawn(move || worker.run())?;
        Ok(Self { policy, queue, counters, mode, thread: Some(thread).into() })
    }

    pub fn evaluate(&self, subject: &Subject<'_>) -> RequestRules {
        self.policy.evaluate(subject)
    }

    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Takes an event, and waits for the sinks that block.
    pub async fn record(&self, event: Event) -> Result<(), NotRecorded> {
        if self.mode == Mode::Batch {
            if self.queue.offer(event, None).is_err() {
                self.lost();
            }
            return Ok(());
        }
        let strict = self.mode == Mode::BlockingStrict && event.stage == Stage::RequestReceived;
        let recorded = match self.enter(event).await {
            Some(receipt) => receipt.await.unwrap_or(false),
            None => false,
        };
        if recorded || !strict { Ok(()) } else { Err(NotRecorded) }
    }

    /// Takes an event from whoever cannot wait.
    pub fn record_behind(&self, event: Event) {
        match self.mode {
            Mode::Batch => {
                if self.queue.offer(event, None).is_err() {
                    self.lost();
                }
            }
            Mode::Blocking | Mode::BlockingStrict => self.queue.push(event),
        }
    }

    async fn enter(&self, mut event: Event) -> Option<Receipt> {
        loop {
            let (sender, receipt) = oneshot::channel();
            match self.queue.offer(event, Some(sender)) {
                Ok(()) => return Some(receipt),
                Err(Full(_)) if self.queue.is_closed() => return None,
                Err(Full(back)) => event = *back,
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

/// What is kept allocated between batches: one of ordinary events.
const BUFFER_BYTES_KEPT: usize = 4 * 1024 * 1024;
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
        let (mut buffer, mut batch) = (Vec::new(), Vec::new());
        while self.queue.take(&mut batch) {
            self.counters.events.fetch_add(batch.len() as u64, Ordering::Relaxed);
            let (whole, encoded) = encode_all(&batch, buffer);
            let mut recorded = true;
            for backend in &mut self.backends {
                let taken = backend.give(&batch, &encoded);
                if let Err(error) = taken {
                    self.counters.errors.fetch_add(batch.len() as u64, Ordering::Relaxed);
                    tracing::error!(sink = backend.sink.name(), %error, "audit events were not recorded");
                    recorded &= backend.mode != Mode::BlockingStrict;
                }
            }
            for waiting in batch.drain(..).filter_map(|entry| entry.waiting) {
                let _ = waiting.send(recorded);
            }
            drop(encoded);
            buffer = reclaim(whole);
        }
        self.backends.iter_mut().for_each(|backend| backend.sink.close());
    }
}

impl Backend {
    fn give(&mut self, batch: &[Entry], encoded: &[Encoded]) -> Result<(), crate::sink::SinkError> {
        let Some(limits) = self.truncation else { return self.sink.accept(encoded) };
        let mut fitting: Vec<Encoded> = Vec::with_capacity(encoded.len());
        let mut bytes = 0;
        for (entry, whole) in batch.iter().zip(encoded) {
            let mut event = whole.clone();
            if event.json.len() > limits.event_bytes_max && entry.event.body_bytes() > 0 {
                let mut json = Vec::new();
                entry.event.encode(&mut json, Bodies::Dropped);
                event = Encoded { json: json.into() };
            }
            if event.json.len() > limits.event_bytes_max {
                tracing::error!(sink = self.sink.name(), "event is too large even after truncating");
                continue;
            }
            if bytes > 0 && bytes + event.json.len() > limits.batch_bytes_max {
                self.sink.accept(&fitting)?;
                fitting.clear();
                bytes = 0;
            }
            bytes += event.json.len();
            fitting.push(event);
        }
        if fitting.is_empty() { Ok(()) } else { self.sink.accept(&fitting) }
    }
}

/// Encodes all events one after the other into `buffer`, whose parts they then are.
fn encode_all(batch: &[Entry], mut buffer: Vec<u8>) -> (Bytes, Vec<Encoded>) {
    let end_of = |entry: &Entry| {
        entry.event.encode(&mut buffer, Bodies::Kept);
        buffer.len()
    };
    let ends: Vec<usize> = batch.iter().map(end_of).collect();
    let whole = Bytes::from(buffer);
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let encoded = starts.zip(&ends).map(|(start, &end)| Encoded { json: whole.slice(start..end) }).collect();
    (whole, encoded)
}

/// The buffer of a batch for the next one, unless a sink still holds on to it or it is too large to keep.
fn reclaim(whole: Bytes) -> Vec<u8> {
    let mut buffer = match whole.try_into_mut() {
        Ok(buffer) if buffer.capacity() <= BUFFER_BYTES_KEPT => Vec::from(buffer),
        _ => Vec::new(),
    };
    buffer.clear();
    buffer
}

#[cfg(test)]
mod tests;
