//! Calls to HTTPS webhooks: one JSON review out, one back. Knows nothing of what is reviewed.
//!
//! A [`Webhook`] keeps its connections open between calls. Answers are limited in size and time, redirects are not
//! followed, and the server must be vouched for by the configured CA bundle.

mod answer;
mod backend;
mod ca_bundle;
mod configured;
pub mod dial;
mod endpoint;
mod fetch;
mod go_reason;
mod kubeconfig;
mod locations;
mod self_signed;
pub mod services;

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::{self, Client};
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

pub use answer::{RawAnswer, Unreadable};
pub use backend::{Backend, BackendBody, CallError, RequestBody};
pub use ca_bundle::ca_bundle_fault;
pub use configured::{ConfiguredWebhook, ConnectError, WebhookAddress};
use dial::Dialer;
pub use endpoint::{Credentials, Endpoint, HttpVersions, Identity, Transport, Trust};
pub use fetch::{Fetched, Fetcher};
pub use kubeconfig::KubeconfigError;

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
    #[error("Get {url:?}: {reason}")]
    Get { url: String, reason: String },
    /// The server answered, but with a refusal.
    #[error("{message}")]
    Status { code: u16, message: String },
    #[error("{0}")]
    Credentials(String),
    #[error("the answer is not JSON: {0}")]
    Answer(#[from] serde_json::Error),
}

impl Error {
    /// Whether the same call may well succeed a moment later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Status { code, .. } => matches!(code, 429 | 500 | 503 | 504),
            Self::Call { reason, .. } => reason.contains("reset") || reason.contains("closed"),
            _ => false,
        }
    }
}

/// A webhook that can be called.
pub struct Webhook {
    endpoint: Endpoint,
    timeout: Duration,
    client: Client<HttpsConnector<Dialer>, Full<Bytes>>,
}

impl Webhook {
    /// A webhook at `url`, vouched for by the PEM certificates in `ca_bundle`, which must be given.
    pub fn new(url: &str, ca_bundle: &[u8], timeout: Duration) -> Result<Self, Error> {
        Self::at(Endpoint::vouched(url, ca_bundle), timeout)
    }

    /// A webhook at an endpoint, as a kubeconfig describes one.
    pub fn at(endpoint: Endpoint, timeout: Duration) -> Result<Self, Error> {
        let parsed: Result<Uri, _> = endpoint.url.parse();
        parsed.map_err(|error| Error::Url(endpoint.url.clone(), error.to_string()))?;
        let client = Client::builder(TokioExecutor::new()).build(endpoint.connector(HttpVersions::Http1)?);
        Ok(Self { endpoint, timeout, client })
    }

    /// Sends a body and gives whatever comes back within `timeout`, of which the server is told.
    pub async fn post(&self, body: Vec<u8>, timeout: Duration) -> Result<RawAnswer, Error> {
        let url = format!("{}?timeout={}s", self.endpoint.url, timeout.as_millis().div_ceil(1000));
        let exchange = self.exchange(&url, body.into(), |error| go_reason::of(error, &url));
        let Ok(answered) = tokio::time::timeout(timeout, exchange).await else { return Err(Error::Timeout(url)) };
        let (head, body) = answered?.into_parts();
        let content_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let content_type = content_type.unwrap_or_default().to_owned();
        Ok(RawAnswer { status: head.status.as_u16(), content_type, body })
    }

    /// Sends a review and gives the review that comes back.
    pub async fn call(&self, review: &Value) -> Result<Value, Error> {
        let review = serde_json::to_vec(review)?;
        Ok(serde_json::from_slice(&self.in_time(review.into()).await?)?)
    }

    /// Sends a JSON document and cares only that it is taken.
    pub async fn send(&self, document: Bytes) -> Result<(), Error> {
        self.in_time(document).await.map(drop)
    }

    /// What comes back from a server that was content, within the webhook's own time.
    async fn in_time(&self, body: Bytes) -> Result<Bytes, Error> {
        let url = format!("{}?timeout={}s", self.endpoint.url, self.timeout.as_secs());
        let exchange = self.exchange(&url, body, |error| reason(error));
        let Ok(answered) = tokio::time::timeout(self.timeout, exchange).await else { return Err(Error::Timeout(url)) };
        let (head, body) = answered?.into_parts();
        if head.status.is_success() { Ok(body) } else { Err(refusal(head.status, &body)) }
    }

    /// One request and its answer, whatever it is; `reason` words why there was none.
    async fn exchange(
        &self,
        url: &str,
        body: Bytes,
        reason: impl Fn(&legacy::Error) -> String,
    ) -> Result<Response<Bytes>, Error> {
        let failed = |reason: String| Error::Call { url: url.to_owned(), reason };
        let mut request =
            Request::post(url).header(CONTENT_TYPE, "application/json").header(ACCEPT, "application/json, */*");
        if let Some(value) = self.endpoint.authorization().await? {
            request = request.header(AUTHORIZATION, value);
        }
        if let Some(value) = bailiwick_traces::current_traceparent() {
            request = request.header("traceparent", value);
        }
        let request = request.body(Full::from(body)).map_err(|error| failed(error.to_string()))?;
        let response = self.client.request(request).await.map_err(|error| failed(reason(&error)))?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| failed(error.to_string()))?.to_bytes();
        Ok(Response::from_parts(head, body))
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
fn refusal(status: StatusCode, body: &[u8]) -> Error {
    let answer = serde_json::from_slice::<Value>(body).ok();
    let message = match answer.as_ref().and_then(|value| value["message"].as_str()) {
        Some(message) => message.to_owned(),
        None => format!("the server answered {status}"),
    };
    Error::Status { code: status.as_u16(), message }
}
