//! Accepts TLS connections and serves HTTP/1.1 and HTTP/2 on them, within limits, until told to stop.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use super::connection::{self, Shared};
use super::lanes::Lanes;
use crate::server::ApiServer;

/// Bounds on what connections may cost.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections served at once; more wait in the kernel's queue.
    pub connections_max: usize,
    /// A client must finish its TLS handshake within this.
    pub handshake_timeout: Duration,
    /// A client must finish its request head within this; over HTTP/1.1 an idle connection ends after as long.
    pub header_read_timeout: Duration,
    /// HTTP/2 streams per connection: informers keep one open per type.
    pub streams_per_connection_max: u32,
    /// The names and values of one request's headers together. Fat bearer tokens and impersonation need more than
    /// hyper's 16 KiB; upstream allows 1 MiB, which nobody needs.
    pub header_list_bytes_max: u32,
    /// How often a silent HTTP/2 peer is asked whether it is still there, and how long it may take to answer: finds
    /// peers that are dead behind NAT. Upstream asks as often.
    pub keep_alive_interval: Duration,
    /// An HTTP/2 connection without requests ends after this long or up to twice it, as upstream's after a minute and a
    /// half: keeping ten thousand of them open must not be free.
    pub idle_timeout: Duration,
    /// How many undelivered events a watcher may pile up before it is cut off. They are shared with all other watchers,
    /// so a full queue costs pointers plus whatever history it alone keeps alive.
    pub watch_queue_len_max: usize,
    /// How many bytes the objects of those events may have: the history that one stalled client can keep alive.
    pub watch_queue_bytes_max: usize,
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
            header_list_bytes_max: 128 * 1024,
            keep_alive_interval: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(90),
            watch_queue_len_max: 16_384,
            watch_queue_bytes_max: 32 * 1024 * 1024,
            drain_timeout: Duration::from_secs(10),
        }
    }
}

/// A bound socket, not serving yet.
pub struct Listener {
    tcp: TcpListener,
    tls: Arc<ArcSwap<rustls::ServerConfig>>,
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
    /// Listens at `address`. Each connection is protected by what `tls` holds when it is accepted.
    pub async fn bind(
        address: SocketAddr,
        tls: Arc<ArcSwap<rustls::ServerConfig>>,
        limits: Limits,
    ) -> std::io::Result<Self> {
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
        let (tls, limits) = (self.tls.clone(), self.limits.clone());
        let shared =
            Arc::new(Shared { server: server.clone(), tls, limits, stopped: stopped.clone(), lanes: Lanes::default() });
        let slots = Arc::new(Semaphore::new(self.limits.connections_max));
        loop {
            // A place first: whoever is beyond the cap waits in the kernel's queue, and nobody waits once it stops.
            let place = async { (slots.clone().acquire_owned().await, self.tcp.accept().await) };
            let (slot, accepted) = tokio::select! {
                placed = place => placed,
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
            let shared = shared.clone();
            tokio::spawn(async move {
                let _slot = slot;
                connection::serve(stream, peer, &shared).await;
            });
        }
        drop(self.tcp);
        server.begin_shutdown();
        // All slots are free when all connections have ended.
        let all = u32::try_from(self.limits.connections_max).unwrap_or(u32::MAX);
        if tokio::time::timeout(self.limits.drain_timeout, slots.acquire_many(all)).await.is_err() {
            tracing::warn!("some connections did not finish in time");
        }
    }
}
