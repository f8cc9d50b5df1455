//! One accepted connection: its handshake, its requests, and the one task in which its long streams run and its bytes
//! leave.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use arc_swap::ArcSwap;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::AsyncWrite;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep};
use tokio_rustls::TlsAcceptor;

use super::corked::{Cork, GATHERED_BYTES_MAX, cork};
use super::lanes::{Lanes, Length};
use super::listener::Limits;
use super::streams::{StreamExecutor, Streams};
use crate::server::{ApiServer, Connection};

/// Per-stream receive window, as upstream: bodies are small, and a thousand streams must not reserve a gigabyte.
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
/// What a stream may buffer for a slow reader before its body is no longer polled: as much as leaves at once.
const SEND_BUFFER_BYTES: usize = GATHERED_BYTES_MAX;

/// Streams that a client opened and took back before we saw them; with more, the connection ends ("rapid reset").
const RESET_STREAMS_MAX: usize = 20;
/// Streams that we had to reset for what a client did wrong; with more, the connection ends.
const ERRONEOUS_STREAMS_MAX: usize = 256;

/// hyper refuses to read HTTP/1.1 with less.
const HTTP1_BUFFER_BYTES_MIN: usize = 8 * 1024;

/// What all connections of a listener share.
pub struct Shared {
    pub server: Arc<ApiServer>,
    pub tls: Arc<ArcSwap<rustls::ServerConfig>>,
    pub limits: Limits,
    /// Says that the listener ends.
    pub stopped: watch::Receiver<bool>,
    pub lanes: Lanes,
}

/// Serves a connection to its end.
pub async fn serve(stream: TcpStream, peer: SocketAddr, shared: &Shared) {
    let _ = stream.set_nodelay(true);
    let acceptor = TlsAcceptor::from(shared.tls.load_full());
    let mut stream = match tokio::time::timeout(shared.limits.handshake_timeout, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!(%peer, %error, "TLS handshake failed");
            return;
        }
        Err(_) => {
            tracing::debug!(%peer, "TLS handshake timed out");
            return;
        }
    };
    stream.get_mut().1.set_buffer_limit(Some(GATHERED_BYTES_MAX));
    let certificates = stream.get_ref().1.peer_certificates().map(<[_]>::to_vec).unwrap_or_default();
    let connection = Arc::new(Connection::new(Some(peer), certificates));
    let executor = StreamExecutor::default();
    let (marks, server) = (executor.clone(), shared.server.clone());
    let length = Arc::<Length>::default();
    let measured = length.clone();
    let service = service_fn(move |request| {
        let (server, connection, streaming) = (server.clone(), connection.clone(), marks.mark());
        let length = measured.clone();
        // In a box of its own: it is not moved about while hyper sets up the stream, and a watch does not keep the room
        // that answering its request once took.
        Box::pin(async move {
            let mut response = server.handle(request, connection).await;
            response.body_mut().measure(&length);
            if response.body().is_streamed() {
                streaming.begin();
            }
            Ok::<_, std::convert::Infallible>(response)
        })
    });
    let (corked, cork) = cork(stream);
    let builder = builder(&shared.limits, executor.clone());
    let serving = builder.serve_connection_with_upgrades(TokioIo::new(corked), service);
    let serving = Box::pin(serving.into_owned());
    let end = End::new(&serving, |serving| serving.graceful_shutdown(), shared);
    let turns = Turns { serving, streams: Streams::new(executor.clone()), cork, waited: false, executor, end, length };
    if let Err(error) = shared.lanes.run(turns, |turns| &*turns.length).await {
        tracing::debug!(%peer, %error, "connection ended");
    }
}

fn builder(limits: &Limits, executor: StreamExecutor) -> auto::Builder<StreamExecutor> {
    let mut builder = auto::Builder::new(executor);
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_read_timeout)
        .max_buf_size((limits.header_list_bytes_max as usize).max(HTTP1_BUFFER_BYTES_MIN))
        .keep_alive(true);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams_per_connection_max)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(STREAM_WINDOW_BYTES * 4)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .max_header_list_size(limits.header_list_bytes_max)
        .max_pending_accept_reset_streams(Some(RESET_STREAMS_MAX))
        .max_local_error_reset_streams(Some(ERRONEOUS_STREAMS_MAX))
        .keep_alive_interval(limits.keep_alive_interval)
        .keep_alive_timeout(limits.keep_alive_interval);
    builder
}

/// What makes a connection end: the listener's stop, or having nothing to do for too long.
struct End<C> {
    stopped: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    idle: Pin<Box<Sleep>>,
    idle_timeout: Duration,
    /// Requests there had been when the idle timer was last set.
    requests_seen: u64,
    /// Lets requests in flight finish and takes no more.
    politely: fn(Pin<&mut C>),
}

impl<C> End<C> {
    /// `politely` lets the requests of a connection such as `_serving` finish.
    fn new(_serving: &Pin<Box<C>>, politely: fn(Pin<&mut C>), shared: &Shared) -> Self {
        let mut stopped = shared.stopped.clone();
        Self {
            // An error says that the listener is gone, which is the signal.
            stopped: Some(Box::pin(async move { drop(stopped.wait_for(|stopped| *stopped).await) })),
            idle: Box::pin(tokio::time::sleep(shared.limits.idle_timeout)),
            idle_timeout: shared.limits.idle_timeout,
            requests_seen: 0,
            politely,
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>, serving: Pin<&mut C>, executor: &StreamExecutor) {
        if let Some(stopped) = &mut self.stopped
            && stopped.as_mut().poll(cx).is_ready()
        {
            self.stopped = None;
            (self.politely)(serving);
            return;
        }
        if self.idle.as_mut().poll(cx).is_pending() {
            return;
        }
        let requests = executor.requests();
        if executor.is_idle() && requests == self.requests_seen {
            (self.politely)(serving);
        }
        self.requests_seen = requests;
        self.idle.as_mut().reset(Instant::now() + self.idle_timeout);
        // Arm the new timer.
        let _ = self.idle.as_mut().poll(cx);
    }
}

/// The turns of a connection's task: first its streams say what they have, then HTTP frames it, then it leaves.
struct Turns<C, S> {
    serving: Pin<Box<C>>,
    streams: Streams,
    cork: Cork<S>,
    /// Whether others had a chance to run since the task was woken.
    waited: bool,
    executor: StreamExecutor,
    end: End<C>,
    length: Arc<Length>,
}

impl<C, S, E> Future for Turns<C, S>
where
    C: Future<Output = Result<(), E>>,
    S: AsyncWrite + Unpin,
    E: From<std::io::Error>,
{
    type Output = Result<(), E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        // Whoever woke this task has probably woken others that will have something to send on it too: going to the
        // back of the queue once lets all of that leave together. Who is alone would only wait.
        if this.executor.is_shared() && !std::mem::replace(&mut this.waited, true) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        this.waited = false;
        this.end.poll(cx, this.serving.as_mut(), &this.executor);
        this.streams.poll(cx);
        let served = this.serving.as_mut().poll(cx);
        let written = this.cork.poll_pull(cx);
        match served {
            Poll::Ready(outcome) => Poll::Ready(outcome),
            Poll::Pending => {
                ready!(written)?;
                Poll::Pending
            }
        }
    }
}
