//! Listens and hands requests to the gRPC or the HTTP side.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;

use http::{Request, header};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpListener;

use super::index::Index;
use super::{grpc, http_api};

/// A catalog that is ready to be served.
#[derive(Clone)]
pub struct CatalogServer {
    index: Arc<Index>,
    etag: String,
}

impl CatalogServer {
    /// Serves an index, which others may use too.
    pub fn new(index: impl Into<Arc<Index>>) -> Self {
        let index = index.into();
        let etag = format!("\"{}\"", index.fingerprint().short());
        CatalogServer { index, etag }
    }
}

/// Serves a catalog until `shutdown` completes, then lets running calls end.
pub async fn serve(
    server: CatalogServer,
    listener: TcpListener,
    shutdown: impl Future<Output = ()>,
) -> std::io::Result<()> {
    let graceful = GracefulShutdown::new();
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http2().max_concurrent_streams(256);
    tokio::pin!(shutdown);
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                // Out of descriptors, for instance: others may go away.
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                    continue;
                }
            },
            () = &mut shutdown => break,
        };
        let server = server.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        });
        let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended");
            }
        });
    }
    let _ = tokio::time::timeout(std::time::Duration::from_secs(10), graceful.shutdown()).await;
    Ok(())
}

impl CatalogServer {
    async fn answer(&self, request: Request<Incoming>) -> http::Response<grpc::Body> {
        let content = request.headers().get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
        if content.is_some_and(|it| it.starts_with("application/grpc")) {
            return grpc::call(self.index.clone(), request).await;
        }
        http_api::answer(&self.index, &self.etag, &request)
    }
}
