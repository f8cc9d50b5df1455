//! The connections to the members of one etcd cluster, and which member to ask.
//!
//! All requests go to one member until it fails, then to the next: a reply from it also tells that a watch on it is worth
//! having. Reads are repeated on other members; writes only when they certainly were not sent.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::uri::PathAndQuery;
use tokio::time::Instant;
use tonic::client::Grpc;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use super::options::{Options, Tls};
use super::proto::{WatchRequest, WatchResponse, path};
use super::status;
use crate::{Error, Result};

/// etcd sends at most `math.MaxInt32` bytes in one message; pages and fragments keep real ones far below.
const MAX_MESSAGE_BYTES: usize = i32::MAX as usize;
/// A member on the local network that takes longer to accept a connection is as good as dead.
const DIAL_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a connection may be silent before we ping. etcd closes connections that ping more often than every 5 s.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// How long the answer to a ping may take before everything on the connection is taken for lost.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(5);
/// What one member may take for a read, or to open a watch, before the next is asked.
const READ_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);
/// Unread data one watch may hold back; beyond it etcd stops sending to this watch and lets it catch up later.
const WATCH_WINDOW_BYTES: u32 = 1 << 20;
/// Unread data all watches on one connection may hold back together: a thousand stalled readers before others suffer.
const WATCH_CONNECTION_WINDOW_BYTES: u32 = 1 << 30;
/// Wide enough that one page of a large range arrives without waiting for window updates.
const REQUEST_WINDOW_BYTES: u32 = 8 << 20;
const REQUEST_CONNECTION_WINDOW_BYTES: u32 = 64 << 20;

/// Waiting times between attempts: short at first, because most failures are one dead connection.
pub struct Backoff(Duration);

impl Backoff {
    const FIRST: Duration = Duration::from_millis(20);
    const MAX: Duration = Duration::from_secs(1);

    pub fn new() -> Self {
        Self(Self::FIRST)
    }

    /// The next waiting time, spread so that servers that lost the same member do not come back in step.
    pub fn next(&mut self) -> Duration {
        let base = self.0;
        self.0 = (base * 2).min(Self::MAX);
        base.mul_f64(rand::random_range(0.5..1.0))
    }
}

/// Whether a request may be sent a second time after it may have been carried out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// It changes nothing, or the same thing.
    Safe,
    /// Only if it certainly never arrived.
    IfNeverSent,
}

struct Member {
    uri: String,
    /// Apart from `watches`, so that stalled watchers cannot use up the flow-control window of requests.
    requests: Channel,
    watches: Channel,
}

pub struct Client {
    members: Vec<Member>,
    /// Index into `members`, modulo their number.
    current: AtomicUsize,
    request_timeout: Duration,
}

impl Client {
    /// Prepares connections; they are made when first used.
    pub fn new(options: &Options) -> Result<Self> {
        if options.endpoints.is_empty() {
            return Err(Error::InvalidRequest("no etcd endpoints given".into()));
        }
        let members =
            options.endpoints.iter().map(|uri| Member::new(uri, options.tls.as_ref())).collect::<Result<Vec<_>>>()?;
        // Many servers with the same list of endpoints must not all lean on its first member.
        let current = AtomicUsize::new(rand::random_range(0..members.len()));
        Ok(Self { members, current, request_timeout: options.request_timeout })
    }

    /// One request, one answer.
    pub async fn unary<Q, R>(&self, path: &'static str, request: Q, repeat: Repeat) -> Result<R, Status>
    where
        Q: prost::Message + Clone + 'static,
        R: prost::Message + Default + 'static,
    {
        let deadline = Instant::now() + self.request_timeout;
        let mut backoff = Backoff::new();
        for attempt in 1.. {
            let at = self.current.load(Ordering::Relaxed);
            let member = self.member(at);
            let until = match repeat {
                Repeat::Safe => deadline.min(Instant::now() + READ_ATTEMPT_TIMEOUT),
                Repeat::IfNeverSent => deadline,
            };
            let call = call(&member.requests, path, request.clone());
            let status = match tokio::time::timeout_at(until, call).await {
                Ok(Ok(response)) => return Ok(response),
                Ok(Err(status)) => status,
                Err(_) => Status::deadline_exceeded(format!("no answer from {}", member.uri)),
            };
            let elsewhere = status::transient(&status);
            if elsewhere {
                self.leave(at);
            }
            let again = status::never_sent(&status) || (elsewhere && repeat == Repeat::Safe);
            // Every member gets a chance before the first pause.
            let pause = if attempt % self.members.len() == 0 { backoff.next() } else { Duration::ZERO };
            if !again || Instant::now() + pause >= deadline {
                return Err(status);
            }
            tracing::debug!(member = member.uri, %status, "etcd request failed, trying another member");
            tokio::time::sleep(pause).await;
        }
        unreachable!("invariant: the loop above ends by returning")
    }

    /// Opens a watch stream to the current member. `requests` must already hold the first request, for etcd answers only to that.
    pub async fn watch(
        &self,
        requests: tokio_stream::wrappers::ReceiverStream<WatchRequest>,
    ) -> Result<WatchConnection, Status> {
        let at = self.current.load(Ordering::Relaxed);
        let member = self.member(at);
        let mut request = Request::new(requests);
        // Without this a member cut off from its cluster would keep a watch that never sees another event.
        request.metadata_mut().insert("hasleader", tonic::metadata::MetadataValue::from_static("true"));
        let open = async {
            let mut grpc = Grpc::new(member.watches.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES);
            grpc.ready().await.map_err(not_ready)?;
            grpc.streaming(request, PathAndQuery::from_static(path::WATCH), ProstCodec::default()).await
        };
        match tokio::time::timeout(READ_ATTEMPT_TIMEOUT.min(self.request_timeout), open).await {
            Ok(Ok(response)) => Ok(WatchConnection { member: at, responses: response.into_inner() }),
            Ok(Err(status)) => {
                self.leave(at);
                Err(status)
            }
            Err(_) => {
                self.leave(at);
                Err(Status::deadline_exceeded(format!("no watch from {}", member.uri)))
            }
        }
    }

    /// Moves everybody who still follows the member at `at` to the next one.
    pub fn leave(&self, at: usize) {
        let next = at.wrapping_add(1);
        // Losing the race means another request has moved on already.
        let _ = self.current.compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn member(&self, at: usize) -> &Member {
        &self.members[at % self.members.len()]
    }
}

/// The answering half of a watch stream, and the member it comes from.
pub struct WatchConnection {
    pub member: usize,
    pub responses: tonic::Streaming<WatchResponse>,
}

async fn call<Q, R>(channel: &Channel, path: &'static str, request: Q) -> Result<R, Status>
where
    Q: prost::Message + 'static,
    R: prost::Message + Default + 'static,
{
    let mut grpc = Grpc::new(channel.clone())
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);
    grpc.ready().await.map_err(not_ready)?;
    let codec: ProstCodec<Q, R> = ProstCodec::default();
    Ok(grpc.unary(Request::new(request), PathAndQuery::from_static(path), codec).await?.into_inner())
}

fn not_ready(error: tonic::transport::Error) -> Status {
    Status::from_error(Box::new(error))
}

impl Member {
    fn new(uri: &str, tls: Option<&Tls>) -> Result<Self> {
        let uri = match (uri.contains("://"), tls) {
            (true, _) => uri.to_owned(),
            (false, Some(_)) => format!("https://{uri}"),
            (false, None) => format!("http://{uri}"),
        };
        let invalid = |e: &dyn std::fmt::Display| Error::InvalidRequest(format!("etcd endpoint {uri}: {e}"));
        let mut endpoint = Endpoint::from_shared(uri.clone())
            .map_err(|e| invalid(&e))?
            .connect_timeout(DIAL_TIMEOUT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
            .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
            .keep_alive_while_idle(true);
        if uri.starts_with("https://") {
            let mut config = ClientTlsConfig::new();
            if let Some(ca) = tls.and_then(|tls| tls.ca.as_ref()) {
                config = config.ca_certificate(Certificate::from_pem(ca));
            }
            if let Some(identity) = tls.and_then(|tls| tls.identity.as_ref()) {
                config = config.identity(tonic::transport::Identity::from_pem(&identity.certificate, &identity.key));
            }
            endpoint = endpoint.tls_config(config).map_err(|e| invalid(&e))?;
        }
        let requests = endpoint
            .clone()
            .initial_stream_window_size(REQUEST_WINDOW_BYTES)
            .initial_connection_window_size(REQUEST_CONNECTION_WINDOW_BYTES)
            .connect_lazy();
        let watches = endpoint
            .initial_stream_window_size(WATCH_WINDOW_BYTES)
            .initial_connection_window_size(WATCH_CONNECTION_WINDOW_BYTES)
            .connect_lazy();
        Ok(Self { uri, requests, watches })
    }
}
