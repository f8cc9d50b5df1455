//! Calls to HTTPS webhooks: one JSON review out, one back. Knows nothing of what is reviewed.
//!
//! A [`Webhook`] keeps its connections open between calls. Answers are limited in size and time, redirects are not
//! followed, and the server must be vouched for by the configured CA bundle.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;

/// The largest answer that is read; reviews carry whole lists of objects.
const ANSWER_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Why a webhook could not be called, or did not answer as it should.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the URL {0:?} cannot be called: {1}")]
    Url(String, String),
    #[error("the CA bundle holds no certificates: {0}")]
    CaBundle(String),
    #[error("Post {url:?}: {reason}")]
    Call { url: String, reason: String },
    #[error("Post {0:?}: context deadline exceeded")]
    Timeout(String),
    #[error("{0}")]
    Status(String),
    #[error("the answer is not JSON: {0}")]
    Answer(#[from] serde_json::Error),
}

/// A webhook that can be called.
pub struct Webhook {
    url: Uri,
    timeout: Duration,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl Webhook {
    /// A webhook at `url`, vouched for by the PEM certificates in `ca_bundle`, which must be given.
    pub fn new(url: &str, ca_bundle: &[u8], timeout: Duration) -> Result<Self, Error> {
        let uri: Uri = url.parse().map_err(|error: http::uri::InvalidUri| Error::Url(url.into(), error.to_string()))?;
        let mut roots = RootCertStore::empty();
        for certificate in rustls_pemfile::certs(&mut &*ca_bundle) {
            let certificate = certificate.map_err(|error| Error::CaBundle(error.to_string()))?;
            roots.add(certificate).map_err(|error| Error::CaBundle(error.to_string()))?;
        }
        if roots.is_empty() {
            return Err(Error::CaBundle("nothing can vouch for the webhook".into()));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::Url(url.into(), error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector =
            hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(tls).https_only().enable_http1().build();
        Ok(Self { url: uri, timeout, client: Client::builder(TokioExecutor::new()).build(connector) })
    }

    /// Sends a review and gives the review that comes back.
    pub async fn call(&self, review: &Value) -> Result<Value, Error> {
        match tokio::time::timeout(self.timeout, self.exchange(review)).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::Timeout(self.shown_url())),
        }
    }

    /// As clients see it in messages: with the timeout it is called with.
    fn shown_url(&self) -> String {
        format!("{}?timeout={}s", self.url, self.timeout.as_secs())
    }

    async fn exchange(&self, review: &Value) -> Result<Value, Error> {
        let failed = |reason: String| Error::Call { url: self.shown_url(), reason };
        let request = Request::post(self.shown_url())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, */*")
            .body(Full::from(serde_json::to_vec(review)?))
            .map_err(|error| failed(error.to_string()))?;
        let response = self.client.request(request).await.map_err(|error| failed(reason(&error)))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| failed(error.to_string()))?.to_bytes();
        if !status.is_success() {
            return Err(Error::Status(refusal(status, &body)));
        }
        Ok(serde_json::from_slice(&body)?)
    }
}

/// The innermost cause, which says what happened.
fn reason(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

/// What a server said that did not want to answer: its Status if it sent one.
fn refusal(status: StatusCode, body: &[u8]) -> String {
    let message = serde_json::from_slice::<Value>(body).ok();
    match message.as_ref().and_then(|value| value["message"].as_str()) {
        Some(message) => message.to_owned(),
        None => format!("the server answered {status}"),
    }
}
