//! Accepts TLS connections and serves HTTP/1.1 and HTTP/2 on them, within limits, until told to stop.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

use crate::server::{ApiServer, Connection};

/// Bounds on what connections may cost.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections served at once; more wait in the kernel's queue.
    pub connections_max: usize,
    /// A client must finish its TLS handshake within this.
    pub handshake_timeout: Duration,
    /// A client must finish its request head within this.
    pub header_read_timeout: Duration,
    /// HTTP/2 streams per connection: informers keep one open per type.
    pub streams_per_connection_max: u32,
    /// How long connections may take to finish when the server stops.
    pub drain_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 10_000,
            handshake_timeout: Duration::from_secs(10),
            header_read_timeout: Duration::from_secs(32),
            streams_per_connection_max: 1000,
            drain_timeout: Duration::from_secs(10),
        }
    }
}

/// Fat bearer tokens and impersonation headers need more than hyper's 16 KiB; upstream allows 1 MiB, which nobody needs.
const HEADER_LIST_BYTES_MAX: u32 = 128 * 1024;
/// Per-stream receive window, as upstream: bodies are small, and a thousand streams must not reserve a gigabyte.
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
/// What a stream may buffer for a slow reader before its body is no longer polled.
const SEND_BUFFER_BYTES: usize = 64 * 1024;
/// Finds dead peers behind NAT; upstream pings as often.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(30);

/// A bound socket, not serving yet.
pub struct Listener {
    tcp: TcpListener,
    tls: Arc<rustls::ServerConfig>,
    limits: Limits,
}

/// A serving listener; `stop` ends it.
pub struct Running {
    pub address: SocketAddr,
    stop: watch::Sender<bool>,
    task: tokio::task::JoinHandle<()>,
}

impl Running {
    /// Stops accepting, lets requests in flight finish within the drain timeout, then returns.
    pub async fn stop(self) {
        let _ = self.stop.send(true);
        let _ = self.task.await;
    }
}

impl Listener {
    pub async fn bind(address: SocketAddr, tls: Arc<rustls::ServerConfig>, limits: Limits) -> std::io::Result<Self> {
        Ok(Self { tcp: TcpListener::bind(address).await?, tls, limits })
    }

    pub fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// Serves `server` until [`Running::stop`].
    pub fn serve(self, server: Arc<ApiServer>) -> std::io::Result<Running> {
        let address = self.tcp.local_addr()?;
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(self.accept_loop(server, stopped));
        Ok(Running { address, stop, task })
    }

    async fn accept_loop(self, server: Arc<ApiServer>, mut stopped: watch::Receiver<bool>) {
        let acceptor = TlsAcceptor::from(self.tls.clone());
        let builder = Arc::new(connection_builder(&self.limits));
        let slots = Arc::new(Semaphore::new(self.limits.connections_max));
        let graceful = GracefulShutdown::new();
        loop {
            let accepted = tokio::select! {
                accepted = self.tcp.accept() => accepted,
                _ = stopped.changed() => break,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of file descriptors, most likely: wait for some to come back instead of spinning.
                    tracing::warn!(%error, "accept failed");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let Ok(slot) = slots.clone().acquire_owned().await else { break };
            let (acceptor, builder, server) = (acceptor.clone(), builder.clone(), server.clone());
            let (graceful, handshake_timeout) = (graceful.watcher(), self.limits.handshake_timeout);
            tokio::spawn(async move {
                let _slot = slot;
                serve_connection(stream, peer, acceptor, builder, server, graceful, handshake_timeout).await;
            });
        }
        drop(self.tcp);
        server.begin_shutdown();
        if tokio::time::timeout(self.limits.drain_timeout, graceful.shutdown()).await.is_err() {
            tracing::warn!("some connections did not finish in time");
        }
    }
}

fn connection_builder(limits: &Limits) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(limits.header_read_timeout).keep_alive(true);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams_per_connection_max)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(STREAM_WINDOW_BYTES * 4)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .max_header_list_size(HEADER_LIST_BYTES_MAX)
        .keep_alive_interval(KEEP_ALIVE_INTERVAL)
        .keep_alive_timeout(KEEP_ALIVE_INTERVAL);
    builder
}

async fn serve_connection(
    stream: TcpStream,
    peer: SocketAddr,
    acceptor: TlsAcceptor,
    builder: Arc<auto::Builder<TokioExecutor>>,
    server: Arc<ApiServer>,
    graceful: Watcher,
    handshake_timeout: Duration,
) {
    let _ = stream.set_nodelay(true);
    let stream = match tokio::time::timeout(handshake_timeout, acceptor.accept(stream)).await {
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
    let certificates = stream.get_ref().1.peer_certificates().map(<[_]>::to_vec).unwrap_or_default();
    let connection = Arc::new(Connection::new(Some(peer), certificates));
    let service = service_fn(move |request| {
        let (server, connection) = (server.clone(), connection.clone());
        async move { Ok::<_, std::convert::Infallible>(server.handle(request, connection).await) }
    });
    let serving = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    let serving = graceful.watch(serving.into_owned());
    if let Err(error) = serving.await {
        tracing::debug!(%peer, %error, "connection ended");
    }
}
