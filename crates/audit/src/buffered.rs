//! A sink behind a buffer of its own: a thread gives it what has gathered, so many events at a time and so many times a
//! second. What does not fit into the buffer is lost, as upstream.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::batch::Batch;
use crate::sink::{AuditSink, SinkError};

/// How events gather.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Buffering {
    /// Events that may wait.
    pub buffer_len: usize,
    /// Events handed over at once.
    pub batch_len_max: usize,
    /// How long events wait for a batch to fill.
    pub batch_wait_max: Duration,
    /// Batches per second, and how many at once after a pause; `None` is as many as there are.
    pub throttle: Option<(f32, u32)>,
}

impl Default for Buffering {
    /// Upstream's for the log: every event is written as it comes.
    fn default() -> Self {
        Self { buffer_len: 10_000, batch_len_max: 1, batch_wait_max: Duration::ZERO, throttle: None }
    }
}

/// See the module.
pub struct Buffered {
    name: &'static str,
    shared: Arc<Shared>,
    buffer_len: usize,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    events: VecDeque<Bytes>,
    closing: bool,
}

impl Buffered {
    /// Puts a buffer before `sink`.
    pub fn new(sink: Box<dyn AuditSink>, buffering: Buffering) -> std::io::Result<Self> {
        let (name, shared) = (sink.name(), Arc::new(Shared::default()));
        let worker = shared.clone();
        let thread = std::thread::Builder::new().name("audit-buffer".into());
        let thread = thread.spawn(move || worker.hand_over(sink, buffering))?;
        Ok(Self { name, shared, buffer_len: buffering.buffer_len, thread: Some(thread) })
    }
}

impl AuditSink for Buffered {
    fn name(&self) -> &'static str {
        self.name
    }

    fn accept(&mut self, events: &Batch) -> Result<(), SinkError> {
        let mut state = self.shared.state();
        let room = self.buffer_len.saturating_sub(state.events.len());
        state.events.extend(events.iter().take(room).map(Bytes::copy_from_slice));
        drop(state);
        self.shared.changed.notify_one();
        match events.len().saturating_sub(room) {
            0 => Ok(()),
            lost => Err(SinkError::Full(lost)),
        }
    }

    fn close(&mut self) {
        self.shared.state().closing = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Buffered {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hand_over(&self, mut sink: Box<dyn AuditSink>, buffering: Buffering) {
        let mut throttle = Throttle { rate: buffering.throttle, missing: Duration::ZERO, as_of: Instant::now() };
        while let Some(batch) = self.gather(&buffering) {
            throttle.wait(self);
            if let Err(error) = sink.accept(&batch) {
                tracing::error!(sink = sink.name(), %error, events = batch.len(), "audit events were not recorded");
            }
        }
        sink.close();
    }

    /// The next batch: full, or as full as it became in time. `None` once everything is handed over.
    fn gather(&self, buffering: &Buffering) -> Option<Batch> {
        let idle = |state: &mut State| state.events.is_empty() && !state.closing;
        let state = self.changed.wait_while(self.state(), idle).unwrap_or_else(PoisonError::into_inner);
        let filling = |state: &mut State| state.events.len() < buffering.batch_len_max && !state.closing;
        let waited = self.changed.wait_timeout_while(state, buffering.batch_wait_max, filling);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        let count = state.events.len().min(buffering.batch_len_max.max(1));
        (count > 0).then(|| state.events.drain(..count).collect())
    }
}

/// When the next batch may go: a bucket of permissions that fills at a steady rate, kept as the time it takes to be full
/// again. It is full at first.
struct Throttle {
    rate: Option<(f32, u32)>,
    missing: Duration,
    as_of: Instant,
}

impl Throttle {
    /// Waits for a permission; a sink that is closed does not.
    fn wait(&mut self, shared: &Shared) {
        let Some((per_second, burst)) = self.rate else { return };
        let interval = Duration::from_secs_f64(1.0 / f64::from(per_second.max(f32::MIN_POSITIVE)).max(1e-6));
        let now = Instant::now();
        self.missing = self.missing.saturating_sub(now.duration_since(self.as_of)).saturating_add(interval);
        self.as_of = now;
        let wait = self.missing.saturating_sub(interval.saturating_mul(burst));
        if !wait.is_zero() {
            let open = |state: &mut State| !state.closing;
            drop(shared.changed.wait_timeout_while(shared.state(), wait, open));
        }
    }
}

#[cfg(test)]
mod tests;
