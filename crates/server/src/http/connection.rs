//! One accepted connection: its handshake, its requests, and the one task in which its long streams run and its bytes
//! leave.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::Watcher;
use tokio::io::AsyncWrite;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::corked::{Cork, GATHERED_BYTES_MAX, cork};
use super::listener::Limits;
use super::streams::{StreamExecutor, Streams};
use crate::server::{ApiServer, Connection};

/// Per-stream receive window, as upstream: bodies are small, and a thousand streams must not reserve a gigabyte.
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
/// What a stream may buffer for a slow reader before its body is no longer polled: as much as leaves at once.
const SEND_BUFFER_BYTES: usize = GATHERED_BYTES_MAX;

/// hyper refuses to read HTTP/1.1 with less.
const HTTP1_BUFFER_BYTES_MIN: usize = 8 * 1024;

/// What all connections of a listener share.
pub struct Shared {
    pub server: Arc<ApiServer>,
    pub acceptor: TlsAcceptor,
    pub limits: Limits,
}

/// Serves a connection to its end.
pub async fn serve(stream: TcpStream, peer: SocketAddr, shared: &Shared, graceful: Watcher) {
    let _ = stream.set_nodelay(true);
    let mut stream = match tokio::time::timeout(shared.limits.handshake_timeout, shared.acceptor.accept(stream)).await {
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
    let service = service_fn(move |request| {
        let (server, connection, streaming) = (server.clone(), connection.clone(), marks.mark());
        async move {
            let response = server.handle(request, connection).await;
            if response.body().is_streamed() {
                streaming.begin();
            }
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    let (corked, cork) = cork(stream);
    let builder = builder(&shared.limits, executor.clone());
    let serving = builder.serve_connection_with_upgrades(TokioIo::new(corked), service);
    let serving = Box::pin(graceful.watch(serving.into_owned()));
    if let Err(error) = (Turns { serving, streams: Streams::new(executor), cork, waited: false }).await {
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
        .keep_alive_interval(limits.keep_alive_interval)
        .keep_alive_timeout(limits.keep_alive_interval);
    builder
}

/// The turns of a connection's task: first its streams say what they have, then HTTP frames it, then it leaves.
struct Turns<C, S> {
    serving: Pin<Box<C>>,
    streams: Streams,
    cork: Cork<S>,
    /// Whether others had a chance to run since the task was woken.
    waited: bool,
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
        // back of the queue once lets all of that leave together.
        if !std::mem::replace(&mut this.waited, true) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        this.waited = false;
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
