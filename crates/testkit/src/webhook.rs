//! An HTTPS server for tests that are a webhook: each request is a JSON document, each answer too. It runs on a thread of
//! its own, so that tests with and without an async runtime can use it, and answers as the test tells it to.

use std::convert::Infallible;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use base64::Engine;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// A server that serves until the process ends.
pub struct Webhook {
    base: String,
    ca_pem: String,
}

/// One request.
pub struct Asked {
    pub path: String,
    pub headers: HeaderMap,
    /// Null where the body was no JSON.
    pub body: Value,
}

impl Asked {
    /// The Authorization header; empty without.
    pub fn authorization(&self) -> &str {
        self.headers.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

/// What to answer: a document, or another status with some text.
pub enum Said {
    Json(Value),
    Failure(u16, &'static str),
}

impl From<Value> for Said {
    fn from(value: Value) -> Self {
        Self::Json(value)
    }
}

impl Webhook {
    /// Serves on a free port of `localhost` with a certificate of its own.
    pub fn start<F, A>(answer: F) -> Result<Self>
    where
        F: Fn(Asked) -> A + Send + Sync + 'static,
        A: Future<Output = Said> + Send,
    {
        let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der()));
        let tls = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certified.cert.der().clone()], key)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let base = format!("https://localhost:{}", listener.local_addr()?.port());
        let (acceptor, answer) = (TlsAcceptor::from(Arc::new(tls)), Arc::new(answer));
        std::thread::spawn(move || {
            runtime.block_on(async move {
                let listener = TcpListener::from_std(listener).expect("invariant: within a runtime");
                serve(listener, acceptor, answer).await;
            });
        });
        Ok(Self { base, ca_pem: certified.cert.pem() })
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// The certificate to trust, as `caBundle` and kubeconfigs want it.
    pub fn ca_bundle(&self) -> String {
        base64::engine::general_purpose::STANDARD.encode(&self.ca_pem)
    }

    /// Writes a kubeconfig that leads to `path` with these credentials.
    pub fn write_kubeconfig(&self, directory: &Path, path: &str, user: Value) -> Result<PathBuf> {
        let cluster = json!({"server": self.url(path), "certificate-authority-data": self.ca_bundle()});
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "hook",
            "clusters": [{"name": "hook", "cluster": cluster}],
            "users": [{"name": "us", "user": user}],
            "contexts": [{"name": "hook", "context": {"cluster": "hook", "user": "us"}}],
        });
        let file = directory.join("webhook.kubeconfig");
        std::fs::write(&file, config.to_string())?;
        Ok(file)
    }
}

async fn serve<F, A>(listener: TcpListener, acceptor: TlsAcceptor, answer: Arc<F>)
where
    F: Fn(Asked) -> A + Send + Sync + 'static,
    A: Future<Output = Said> + Send,
{
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, answer) = (acceptor.clone(), answer.clone());
        tokio::spawn(async move {
            // A client that does not trust us is part of some tests.
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let service = service_fn(async |request| Ok::<_, Infallible>(respond(request, &*answer).await));
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn respond<F, A>(request: Request<Incoming>, answer: &F) -> Response<Full<Bytes>>
where
    F: Fn(Asked) -> A,
    A: Future<Output = Said>,
{
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let body = serde_json::from_slice(&body).unwrap_or_default();
    let asked = Asked { path: parts.uri.path().to_owned(), headers: parts.headers, body };
    let (status, text) = match answer(asked).await {
        Said::Json(document) => (200, document.to_string()),
        Said::Failure(status, text) => (status, text.to_owned()),
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = hyper::StatusCode::from_u16(status).unwrap_or_default();
    response
}
