//! Reading JSON documents from a server: the discovery document and the keys of an OpenID provider.

use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION};
use http::{HeaderMap, Request, Uri};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

use crate::dial::Dialer;
use crate::endpoint::{Endpoint, HttpVersions};
use crate::{Error, reason, refusal};

/// Reads documents over connections that are kept open in between.
pub struct Fetcher {
    endpoint: Endpoint,
    timeout: Duration,
    bytes_max: usize,
    client: Client<HttpsConnector<Dialer>, Empty<bytes::Bytes>>,
}

/// A document and the headers that say how long it may be kept.
pub struct Fetched {
    pub document: Value,
    pub headers: HeaderMap,
}

impl Fetcher {
    /// Documents larger than `bytes_max` are not read. The endpoint's URL is only where [`Fetcher::get`] usually goes.
    pub fn new(endpoint: Endpoint, timeout: Duration, bytes_max: usize) -> Result<Self, Error> {
        let client = Client::builder(TokioExecutor::new()).build(endpoint.connector(HttpVersions::Http1)?);
        Ok(Self { endpoint, timeout, bytes_max, client })
    }

    /// Reads the document at `url`. Redirects are not followed.
    pub async fn get(&self, url: &str) -> Result<Fetched, Error> {
        match tokio::time::timeout(self.timeout, self.exchange(url)).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::Get { url: url.to_owned(), reason: "context deadline exceeded".into() }),
        }
    }

    async fn exchange(&self, url: &str) -> Result<Fetched, Error> {
        let failed = |reason: String| Error::Get { url: url.to_owned(), reason };
        let uri: Uri = url.parse().map_err(|error: http::uri::InvalidUri| failed(error.to_string()))?;
        let mut request = Request::get(uri).header(ACCEPT, "application/json");
        if let Some(value) = self.endpoint.authorization().await? {
            request = request.header(AUTHORIZATION, value);
        }
        let request = request.body(Empty::new()).map_err(|error| failed(error.to_string()))?;
        let response = self.client.request(request).await.map_err(|error| failed(reason(&error)))?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, self.bytes_max).collect().await;
        let body = body.map_err(|error| failed(error.to_string()))?.to_bytes();
        if !parts.status.is_success() {
            return Err(refusal(parts.status, &body));
        }
        Ok(Fetched { document: serde_json::from_slice(&body)?, headers: parts.headers })
    }
}
