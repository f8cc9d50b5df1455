//! A server that requests are passed on to as they come: pooled connections, streamed bodies, HTTP/2 where it is spoken.
//!
//! Nothing is gathered on the way. HTTP/2 servers limit the streams of a connection, so that watches could keep all other
//! requests waiting; another connection is opened before that.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::dial::Dialer;
use crate::endpoint::{Endpoint, HttpVersions};
use crate::{Error, go_reason};

/// The body of a request that is passed on.
pub type RequestBody = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

/// Open streams of a connection before another is opened: RFC 9113 asks servers to allow 100, Go's allow 250.
const STREAMS_PER_CONNECTION_MAX: usize = 100;
/// How long a quiet connection is trusted before it is asked for a sign of life, and how long that may take; the
/// figures of Go's clients.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// What a stream may receive before we take it: a slow client of ours must not make us hold more of a long answer.
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 4 * STREAM_WINDOW_BYTES;
/// Unused connections that are kept, where HTTP/1.1 needs one per request.
const IDLE_CONNECTIONS_MAX: usize = 32;

/// Why a request got no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct CallError {
    /// As Go's network library says it.
    pub reason: String,
}

type Connections = Client<HttpsConnector<Dialer>, RequestBody>;

/// A server and the connections to it.
pub struct Backend {
    /// `https://host:port`.
    base: String,
    authority: String,
    endpoint: Endpoint,
    pools: Mutex<Vec<Arc<Pool>>>,
    upgradable: Connections,
}

struct Pool {
    connections: Connections,
    open: AtomicUsize,
}

impl Backend {
    /// The server of an endpoint, whose URL has no path. Nothing is connected before the first request.
    pub fn new(endpoint: Endpoint) -> Result<Self, Error> {
        let unusable = |reason: &str| Error::Url(endpoint.url.clone(), reason.to_owned());
        let uri: http::Uri = endpoint.url.parse().map_err(|_| unusable("it is no URL"))?;
        let authority = uri.authority().ok_or_else(|| unusable("it names no host"))?.as_str().to_owned();
        let upgradable = connections(&endpoint, HttpVersions::Http1)?;
        let first = Pool { connections: connections(&endpoint, HttpVersions::All)?, open: AtomicUsize::new(0) };
        let base = endpoint.url.trim_end_matches('/').to_owned();
        Ok(Self { base, authority, endpoint, pools: Mutex::new(vec![Arc::new(first)]), upgradable })
    }

    /// `https://host:port`, without a slash at its end.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// `host:port`, as the `Host` header has it.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Sends a request and gives the answer as soon as its head is there.
    pub async fn request(&self, request: Request<RequestBody>) -> Result<Response<BackendBody>, CallError> {
        let pool = self.pool()?;
        let open = Open(pool.clone());
        let response = pool.connections.request(request).await.map_err(|error| self.failure(&error))?;
        Ok(response.map(|inner| BackendBody { inner, _open: Some(open) }))
    }

    /// Sends a request for another protocol over a connection of its own.
    pub async fn upgrade(&self, request: Request<RequestBody>) -> Result<Response<BackendBody>, CallError> {
        let response = self.upgradable.request(request).await.map_err(|error| self.failure(&error))?;
        Ok(response.map(|inner| BackendBody { inner, _open: None }))
    }

    /// A pool with room for a stream, which counts as open from now on.
    fn pool(&self) -> Result<Arc<Pool>, CallError> {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        let roomy = pools.iter().find(|pool| pool.open.load(Ordering::Acquire) < STREAMS_PER_CONNECTION_MAX);
        let pool = match roomy {
            Some(pool) => pool.clone(),
            None => {
                let connections = connections(&self.endpoint, HttpVersions::All);
                let connections = connections.map_err(|error| CallError { reason: error.to_string() })?;
                let pool = Arc::new(Pool { connections, open: AtomicUsize::new(0) });
                pools.push(pool.clone());
                pool
            }
        };
        pool.open.fetch_add(1, Ordering::AcqRel);
        // What was opened for a crowd goes when the crowd has gone.
        let mut spare = 0;
        pools.retain(|pool| {
            let idle = pool.open.load(Ordering::Acquire) == 0;
            spare += usize::from(idle);
            !idle || spare <= 1
        });
        Ok(pool)
    }

    fn failure(&self, error: &hyper_util::client::legacy::Error) -> CallError {
        CallError { reason: go_reason::of(error, &self.base) }
    }
}

fn connections(endpoint: &Endpoint, versions: HttpVersions) -> Result<Connections, Error> {
    Ok(Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
        .http2_keep_alive_interval(PING_INTERVAL)
        .http2_keep_alive_timeout(PING_TIMEOUT)
        .http2_initial_stream_window_size(STREAM_WINDOW_BYTES)
        .http2_initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .build(endpoint.connector(versions)?))
}

/// Counts a stream as open until it is dropped.
struct Open(Arc<Pool>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The body of an answer, as it arrives.
pub struct BackendBody {
    inner: Incoming,
    _open: Option<Open>,
}

impl Body for BackendBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.get_mut().inner).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
