//! What a program shows of itself that serves no API, such as controllers far from their server: `/metrics`, `/healthz`, `/livez`
//! and `/readyz`. By plain HTTP and without credentials, so that nobody but programs of the same machine is let in.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::metrics::{Exposition, append_process_metrics};
use crate::server::MetricsSource;

/// Connections at once: a scraper and a few probes.
const CONNECTIONS_MAX: usize = 16;
/// How long a client may take to ask and to read the answer; none is asked twice over the same connection.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest head of a request.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Whether a program is ready, and in a word how it stands: the answer of `/readyz`.
pub type Readiness = Result<&'static str, &'static str>;

/// What is shown.
#[derive(Clone)]
pub struct Diagnostics {
    pub metrics: MetricsSource,
    pub readiness: Arc<dyn Fn() -> Readiness + Send + Sync>,
}

/// Why a place cannot be served at.
#[derive(Debug, thiserror::Error)]
pub enum DiagnosticsError {
    #[error(
        "{0} can be reached from other machines, and whoever asks there is not asked who they are: only loopback addresses can be served at"
    )]
    NotLoopback(SocketAddr),
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, std::io::Error),
}

/// A bound socket, not serving yet.
pub struct DiagnosticsListener(TcpListener);

impl DiagnosticsListener {
    /// Listens at an address of this machine that others cannot reach.
    pub async fn bind(address: SocketAddr) -> Result<Self, DiagnosticsError> {
        if !address.ip().to_canonical().is_loopback() {
            return Err(DiagnosticsError::NotLoopback(address));
        }
        let bound = TcpListener::bind(address).await.map_err(|error| DiagnosticsError::Listen(address, error))?;
        Ok(Self(bound))
    }

    pub fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Serves for as long as it is polled.
    pub async fn serve(self, shown: Diagnostics) {
        let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        // Connections end with us.
        let mut connections = JoinSet::new();
        while let Ok(place) = room.clone().acquire_owned().await {
            match self.0.accept().await {
                Ok((stream, _)) => {
                    let shown = shown.clone();
                    connections.spawn(async move {
                        let _place = place;
                        answer_one(stream, &shown).await;
                    });
                }
                Err(error) => {
                    // Out of file descriptors, most likely: wait for some to come back instead of spinning.
                    tracing::warn!(%error, "accept failed");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
            while connections.try_join_next().is_some() {}
        }
    }
}

async fn answer_one(stream: TcpStream, shown: &Diagnostics) {
    let service = service_fn(|request| std::future::ready(Ok::<_, Infallible>(shown.answer(&request))));
    let mut builder = http1::Builder::new();
    builder.keep_alive(false).max_buf_size(HEAD_BYTES_MAX);
    let serving = builder.serve_connection(TokioIo::new(stream), service);
    match tokio::time::timeout(CONNECTION_TIMEOUT, serving).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a connection ended"),
        Err(_) => tracing::debug!("a client took too long"),
    }
}

impl Diagnostics {
    fn answer<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "405 method not allowed\n");
        }
        match request.uri().path() {
            "/metrics" => {
                let accept = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
                let form = Exposition::negotiate(accept);
                let mut parts = String::new();
                append_process_metrics(&mut parts);
                (self.metrics)(&mut parts);
                typed(StatusCode::OK, form.content_type(), form.document(&parts))
            }
            "/healthz" | "/livez" => text(StatusCode::OK, "ok"),
            "/readyz" => match (self.readiness)() {
                Ok(word) => text(StatusCode::OK, word),
                // As the server's own checks that fail.
                Err(word) => text(StatusCode::INTERNAL_SERVER_ERROR, word),
            },
            _ => text(StatusCode::NOT_FOUND, "404 page not found\n"),
        }
    }
}

fn text(status: StatusCode, body: &'static str) -> Response<Full<Bytes>> {
    typed(status, "text/plain; charset=utf-8", body)
}

fn typed(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    async fn ask(readiness: Readiness, method: Method, path: &str) -> (u16, String) {
        let shown = Diagnostics {
            metrics: Arc::new(|text| text.push_str("# HELP a_total b\n# TYPE a_total counter\na_total 1\n")),
            readiness: Arc::new(move || readiness),
        };
        let request = Request::builder().method(method).uri(path).body(()).expect("a request");
        let (parts, body) = shown.answer(&request).into_parts();
        let body = body.collect().await.expect("a body").to_bytes();
        (parts.status.as_u16(), String::from_utf8(body.to_vec()).expect("text"))
    }

    #[tokio::test]
    async fn who_is_not_ready_is_alive_all_the_same() {
        for (readiness, expected) in [(Ok("waiting"), (200, "waiting")), (Err("starting"), (500, "starting"))] {
            let (status, word) = ask(readiness, Method::GET, "/readyz").await;
            assert_eq!((status, word.as_str()), expected);
            for path in ["/healthz", "/livez"] {
                assert_eq!(ask(readiness, Method::GET, path).await, (200, "ok".to_owned()));
            }
        }
    }

    #[tokio::test]
    async fn nothing_else_is_there_and_nothing_can_be_changed() {
        assert_eq!(ask(Ok(""), Method::GET, "/").await.0, 404);
        assert_eq!(ask(Ok(""), Method::GET, "/metrics/").await.0, 404);
        assert_eq!(ask(Ok(""), Method::POST, "/metrics").await.0, 405);
    }

    #[tokio::test]
    async fn metrics_are_the_programs_own_and_those_of_its_process() {
        let (status, document) = ask(Ok(""), Method::GET, "/metrics").await;
        assert_eq!(status, 200);
        assert!(document.contains("# TYPE a_total counter\na_total 1\n"), "{document}");
        assert!(document.contains("\nprocess_cpu_seconds_total "), "{document}");
    }

    #[tokio::test]
    async fn only_loopback_addresses_are_served_at() {
        for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "[::ffff:192.0.2.1]:0"] {
            let refused = DiagnosticsListener::bind(address.parse().expect("an address")).await;
            assert!(matches!(refused, Err(DiagnosticsError::NotLoopback(_))), "{address}");
        }
        assert!(DiagnosticsListener::bind("127.0.0.1:0".parse().expect("an address")).await.is_ok());
    }
}
