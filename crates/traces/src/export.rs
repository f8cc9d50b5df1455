//! Sends ended spans to a collector, many at once. A collector that does not answer costs spans, nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::uri::PathAndQuery;
use tokio::sync::{mpsc, oneshot};
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use crate::proto::{self, ExportRequest, ExportResponse, Resource, ResourceSpans, Scope, ScopeSpans, Span};
use crate::span::Attribute;

/// What waits to be sent.
pub type Ended = Span;

/// Spans in one message.
const BATCH_SPANS_MAX: usize = 512;
/// How long a span waits for others to go with.
const BATCH_WAIT: Duration = Duration::from_secs(1);
/// How long the collector may take to connect and to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a collector that fails is complained about.
const COMPLAINT_INTERVAL: Duration = Duration::from_secs(60);

pub struct Exporter {
    channel: Channel,
    resource: Resource,
    dropped: Arc<AtomicU64>,
    complained: Option<tokio::time::Instant>,
}

impl Exporter {
    /// An exporter to `endpoint`, which need not be there yet.
    pub fn new(endpoint: &str, service: &str, dropped: Arc<AtomicU64>) -> Result<Self, String> {
        let endpoint = Endpoint::from_shared(endpoint.to_owned()).map_err(|error| error.to_string())?;
        let channel = endpoint.connect_timeout(ANSWER_TIMEOUT).timeout(ANSWER_TIMEOUT).connect_lazy();
        let name = Attribute::Text("service.name", service.to_owned());
        let version = Attribute::Text("service.version", env!("CARGO_PKG_VERSION").to_owned());
        let resource = Resource { attributes: [name, version].map(proto::attribute).into() };
        Ok(Self { channel, resource, dropped, complained: None })
    }

    /// Sends what comes until it is told to stop; what has come by then is still sent.
    pub async fn run(mut self, mut ended: mpsc::Receiver<Ended>, mut stop: oneshot::Receiver<()>) {
        loop {
            let mut batch = Vec::new();
            tokio::select! {
                received = ended.recv_many(&mut batch, BATCH_SPANS_MAX) => if received == 0 { return },
                _ = &mut stop, if !ended.is_closed() => {
                    ended.close();
                    continue;
                }
            }
            let full = tokio::time::sleep(BATCH_WAIT);
            tokio::pin!(full);
            while batch.len() < BATCH_SPANS_MAX {
                let room = BATCH_SPANS_MAX - batch.len();
                tokio::select! {
                    received = ended.recv_many(&mut batch, room) => if received == 0 { break },
                    _ = &mut stop, if !ended.is_closed() => ended.close(),
                    () = &mut full => break,
                }
            }
            self.send(batch).await;
        }
    }

    async fn send(&mut self, spans: Vec<Span>) {
        let count = spans.len() as u64;
        let scope = Scope { name: "bailiwick".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
        let request = ExportRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(self.resource.clone()),
                scope_spans: vec![ScopeSpans { scope: Some(scope), spans }],
            }],
        };
        let Err(error) = self.call(request).await else { return };
        let dropped = self.dropped.fetch_add(count, Ordering::Relaxed) + count;
        if self.complained.is_none_or(|at| at.elapsed() > COMPLAINT_INTERVAL) {
            tracing::warn!(error, dropped, "the collector of traces takes no spans");
            self.complained = Some(tokio::time::Instant::now());
        }
    }

    async fn call(&self, request: ExportRequest) -> Result<(), String> {
        let mut grpc = Grpc::new(self.channel.clone());
        grpc.ready().await.map_err(|error| error.to_string())?;
        let codec: ProstCodec<ExportRequest, ExportResponse> = ProstCodec::default();
        let path = PathAndQuery::from_static(proto::EXPORT);
        let answer = grpc.unary(tonic::Request::new(request), path, codec).await;
        answer.map(drop).map_err(|status| status.message().to_owned())
    }
}
