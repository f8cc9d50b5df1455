//! Which requests are traced, and what is kept of each until it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::config::TracingConfiguration;
use crate::context::TraceContext;
use crate::export::{self, Ended};
use crate::proto;

/// Spans that may wait for the collector; more are dropped.
const QUEUE_SPANS_MAX: usize = 2048;
/// How long ended spans may take to leave when the server stops.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// Something to know of a span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attribute {
    Text(&'static str, String),
    Number(&'static str, i64),
}

/// How what a span stands for ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Fine,
    /// It failed, and not for its sender's fault.
    Failed,
}

/// Traces requests.
pub struct Tracer {
    rate_per_million: u32,
    queue: mpsc::Sender<Ended>,
    dropped: Arc<AtomicU64>,
}

/// The task that sends spans.
pub struct Exporting {
    task: JoinHandle<()>,
    stop: oneshot::Sender<()>,
}

impl Exporting {
    /// Takes no more spans and waits until what is queued was sent, for a moment.
    pub async fn finish(mut self) {
        // One that is gone has nothing left to send.
        let _ = self.stop.send(());
        if tokio::time::timeout(FLUSH_TIMEOUT, &mut self.task).await.is_err() {
            self.task.abort();
        }
    }
}

impl Tracer {
    /// A tracer and the task that sends its spans. `service` is the name of this program to the collector.
    pub fn start(configuration: &TracingConfiguration, service: &str) -> Result<(Arc<Self>, Exporting), String> {
        let (queue, ended) = mpsc::channel(QUEUE_SPANS_MAX);
        let dropped = Arc::new(AtomicU64::new(0));
        let sender = export::Exporter::new(&configuration.endpoint, service, dropped.clone())?;
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(sender.run(ended, stopped));
        let tracer = Self { rate_per_million: configuration.sampling_rate_per_million, queue, dropped };
        Ok((Arc::new(tracer), Exporting { task, stop }))
    }

    /// The span of a request, if it is traced. A `parent` that is recorded makes it so; without one chance decides.
    pub fn begin(self: &Arc<Self>, name: &'static str, parent: Option<TraceContext>) -> Option<Span> {
        let sampled = match parent {
            Some(parent) => parent.sampled,
            None => rand::random_range(0..1_000_000) < self.rate_per_million,
        };
        sampled.then(|| self.span(name, parent, None))
    }

    /// As [`Tracer::begin`] for a request whose sender may not decide over our traces: it begins one of its own, which
    /// remembers the sender's.
    pub fn begin_linked(self: &Arc<Self>, name: &'static str, link: Option<TraceContext>) -> Option<Span> {
        let sampled = rand::random_range(0..1_000_000) < self.rate_per_million;
        sampled.then(|| self.span(name, None, link))
    }

    fn span(self: &Arc<Self>, name: &'static str, parent: Option<TraceContext>, link: Option<TraceContext>) -> Span {
        let trace_id = parent.map_or_else(rand::random, |parent| parent.trace_id);
        Span {
            tracer: self.clone(),
            name,
            context: TraceContext { trace_id, span_id: rand::random(), sampled: true },
            parent: parent.map(|parent| parent.span_id),
            link,
            started: now(),
        }
    }

    fn ended(&self, span: Ended) {
        if self.queue.try_send(span).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A request that is traced, until it ends.
pub struct Span {
    tracer: Arc<Tracer>,
    name: &'static str,
    context: TraceContext,
    parent: Option<[u8; 8]>,
    link: Option<TraceContext>,
    started: u64,
}

impl Span {
    pub fn context(&self) -> TraceContext {
        self.context
    }

    /// The span is over.
    pub fn end(self, outcome: Outcome, attributes: Vec<Attribute>) {
        let span = proto::Span {
            trace_id: self.context.trace_id.to_vec(),
            span_id: self.context.span_id.to_vec(),
            parent_span_id: self.parent.map(|parent| parent.to_vec()).unwrap_or_default(),
            name: self.name.to_owned(),
            kind: proto::KIND_SERVER,
            start_time_unix_nano: self.started,
            end_time_unix_nano: now(),
            attributes: attributes.into_iter().map(proto::attribute).collect(),
            links: self.link.into_iter().map(proto::link).collect(),
            status: (outcome == Outcome::Failed)
                .then(|| proto::Status { message: String::new(), code: proto::STATUS_ERROR }),
            flags: 1,
        };
        self.tracer.ended(span);
    }
}

/// Nanoseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
