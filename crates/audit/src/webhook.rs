//! Events sent to a webhook as an EventList.
//!
//! In batch mode a task of its own sends what has gathered, in order, and tries again until the webhook takes it; only
//! when the buffer is full are new events lost. Otherwise the auditor's thread sends and waits.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bailiwick_webhook::{Endpoint, Webhook};
use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::batch::Batch;
use crate::sink::{AuditSink, Mode, SinkError};

/// How a webhook is used; the defaults are upstream's.
#[derive(Clone, Copy, Debug)]
pub struct WebhookOptions {
    pub mode: Mode,
    /// Events that may wait.
    pub buffer_len: usize,
    /// Events sent at once.
    pub batch_len_max: usize,
    /// How long events wait for a batch to fill.
    pub batch_wait_max: Duration,
    /// Batches per second, and how many at once after a pause; `None` is as many as there are.
    pub throttle: Option<(f32, u32)>,
    pub initial_backoff: Duration,
}

impl Default for WebhookOptions {
    fn default() -> Self {
        Self {
            mode: Mode::Batch,
            buffer_len: 10_000,
            batch_len_max: 400,
            batch_wait_max: Duration::from_secs(30),
            throttle: Some((10.0, 15)),
            initial_backoff: Duration::from_secs(10),
        }
    }
}

/// A call may take this long, as upstream.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// How much longer each wait is than the one before, as upstream.
const BACKOFF_FACTOR: f64 = 1.5;
/// Up to this much of a wait is added at random.
const BACKOFF_JITTER: f64 = 0.2;
/// How often a blocking sink tries, as upstream.
const BLOCKING_ATTEMPTS: u32 = 5;
/// A webhook that is back is found within this time.
const BACKOFF_MAX: Duration = Duration::from_secs(60);
/// How long a stopping server waits for the webhook to take what is left.
const CLOSE_PATIENCE: Duration = Duration::from_secs(10);

/// Sends events to a webhook.
pub struct WebhookSink {
    runtime: Handle,
    sender: Sender,
    options: WebhookOptions,
    buffer: Option<Arc<Buffer>>,
}

#[derive(Clone)]
struct Sender {
    webhook: Arc<Webhook>,
    initial_backoff: Duration,
}

#[derive(Default)]
struct Buffer {
    state: Mutex<BufferState>,
    changed: Notify,
    sent: std::sync::Condvar,
}

#[derive(Default)]
struct BufferState {
    events: VecDeque<Bytes>,
    closing: bool,
    done: bool,
}

impl WebhookSink {
    /// A sink that sends on `runtime`.
    pub fn new(endpoint: Endpoint, options: WebhookOptions, runtime: Handle) -> Result<Self, bailiwick_webhook::Error> {
        let webhook = Arc::new(Webhook::at(endpoint, CALL_TIMEOUT)?);
        let sender = Sender { webhook, initial_backoff: options.initial_backoff };
        let buffer = (options.mode == Mode::Batch).then(|| {
            let buffer = Arc::new(Buffer::default());
            runtime.spawn(buffer.clone().send_all(sender.clone(), options));
            buffer
        });
        Ok(Self { runtime, sender, options, buffer })
    }
}

impl AuditSink for WebhookSink {
    fn name(&self) -> &'static str {
        "webhook"
    }

    fn accept(&mut self, events: &Batch) -> Result<(), SinkError> {
        match &self.buffer {
            Some(buffer) => buffer.add(events, self.options.buffer_len),
            None => {
                let list = event_list(events.iter());
                Ok(self.runtime.block_on(self.sender.send(list, BLOCKING_ATTEMPTS))?)
            }
        }
    }

    fn close(&mut self) {
        let Some(buffer) = &self.buffer else { return };
        buffer.state().closing = true;
        buffer.changed.notify_one();
        let waited = buffer.sent.wait_timeout_while(buffer.state(), CLOSE_PATIENCE, |state| !state.done);
        let left = waited.unwrap_or_else(PoisonError::into_inner).0.events.len();
        if left > 0 {
            tracing::error!(events = left, "the audit webhook did not take the last events: they are lost");
        }
    }
}

impl Buffer {
    fn state(&self) -> MutexGuard<'_, BufferState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, events: &Batch, len_max: usize) -> Result<(), SinkError> {
        let mut state = self.state();
        let room = len_max.saturating_sub(state.events.len());
        state.events.extend(events.iter().take(room).map(Bytes::copy_from_slice));
        drop(state);
        self.changed.notify_one();
        match events.len().saturating_sub(room) {
            0 => Ok(()),
            lost => Err(SinkError::Full(lost)),
        }
    }

    /// Sends until the sink is closed and everything is sent. Events leave the buffer when the webhook has them.
    async fn send_all(self: Arc<Self>, sender: Sender, options: WebhookOptions) {
        let mut throttle = Throttle::new(options.throttle);
        while let Some(batch) = self.gather(&options).await {
            throttle.wait().await;
            let count = batch.len();
            let list = event_list(batch.iter().map(|event| &**event));
            while let Err(error) = sender.send(list.clone(), u32::MAX).await {
                tracing::error!(%error, "the audit webhook was given up");
            }
            self.state().events.drain(..count);
        }
        self.state().done = true;
        self.sent.notify_all();
    }

    async fn gather(&self, options: &WebhookOptions) -> Option<Vec<Bytes>> {
        let mut deadline = None;
        loop {
            let changed = self.changed.notified();
            {
                let state = self.state();
                let due = deadline.is_some_and(|deadline| Instant::now() >= deadline);
                if state.events.len() >= options.batch_len_max || ((due || state.closing) && !state.events.is_empty()) {
                    return Some(state.events.iter().take(options.batch_len_max).cloned().collect());
                }
                if state.closing {
                    return None;
                }
                if !state.events.is_empty() && deadline.is_none() {
                    deadline = Some(Instant::now() + options.batch_wait_max);
                }
            }
            match deadline {
                Some(deadline) => {
                    let _ = tokio::time::timeout_at(deadline, changed).await;
                }
                None => changed.await,
            }
        }
    }
}

impl Sender {
    async fn send(&self, list: Bytes, attempts: u32) -> Result<(), bailiwick_webhook::Error> {
        let mut wait = self.initial_backoff;
        let mut attempt = 1;
        loop {
            match self.webhook.send(list.clone()).await {
                Ok(()) => return Ok(()),
                Err(error) if attempt >= attempts => return Err(error),
                Err(error) => tracing::warn!(%error, attempt, "the audit webhook did not take events, trying again"),
            }
            attempt += 1;
            tokio::time::sleep(wait.mul_f64(1.0 + rand::random::<f64>() * BACKOFF_JITTER)).await;
            wait = wait.mul_f64(BACKOFF_FACTOR).min(BACKOFF_MAX.max(self.initial_backoff));
        }
    }
}

fn event_list<'a>(events: impl Iterator<Item = &'a [u8]>) -> Bytes {
    let mut list = br#"{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":["#.to_vec();
    for (index, event) in events.enumerate() {
        if index > 0 {
            list.push(b',');
        }
        list.extend_from_slice(event);
    }
    list.extend_from_slice(b"]}\n");
    list.into()
}

/// A bucket of permissions that fills at a steady rate.
struct Throttle {
    rate: Option<(f32, u32)>,
    tokens: f64,
    filled: Instant,
}

impl Throttle {
    fn new(rate: Option<(f32, u32)>) -> Self {
        Self { rate, tokens: rate.map_or(0.0, |(_, burst)| burst.into()), filled: Instant::now() }
    }

    async fn wait(&mut self) {
        let Some((per_second, burst)) = self.rate else { return };
        let now = Instant::now();
        let per_second = f64::from(per_second);
        self.tokens = (self.tokens + (now - self.filled).as_secs_f64() * per_second).min(burst.into());
        self.filled = now;
        self.tokens -= 1.0;
        if self.tokens < 0.0 {
            tokio::time::sleep(Duration::from_secs_f64(-self.tokens / per_second)).await;
        }
    }
}

#[cfg(test)]
mod tests;
