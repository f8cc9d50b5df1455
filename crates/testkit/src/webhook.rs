//! An HTTPS server for tests that is a webhook: each request is a JSON document, each answer too. It answers as the test
//! tells it to.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use base64::Engine;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::{HeaderMap, Request, Response};
use serde_json::{Value, json};

use crate::https::{HttpsBody, HttpsOptions, HttpsServer, whole};

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
        A: Future<Output = Said> + Send + 'static,
    {
        let answer = Arc::new(answer);
        let server = HttpsServer::start(&HttpsOptions::default(), move |request| {
            let answer = answer.clone();
            async move { Ok(respond(request, &*answer).await) }
        })?;
        Ok(Self { base: format!("https://localhost:{}", server.address.port()), ca_pem: server.ca_pem })
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

async fn respond<F, A>(request: Request<Incoming>, answer: &F) -> Response<HttpsBody>
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
    let mut response = Response::new(whole(text));
    *response.status_mut() = hyper::StatusCode::from_u16(status).unwrap_or_default();
    response
}
