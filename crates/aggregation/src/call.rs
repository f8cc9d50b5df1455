//! Our own requests to the servers behind APIServices: checks, discovery and OpenAPI documents, in the name of the
//! aggregator, with a limit on time and size.

use std::time::Duration;

use bailiwick_machinery::user::UserInfo;
use bailiwick_webhook::{Backend, BackendBody, CallError, RequestBody};
use bytes::Bytes;
use http::header::{HOST, HeaderMap};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};

use crate::headers;

/// Who asks for discovery documents and whether a server is there. Being of the masters makes sure that it may.
pub(crate) const AGGREGATOR: Caller = Caller { name: "system:kube-aggregator", groups: &["system:masters"] };
/// Who asks for OpenAPI documents.
pub(crate) const SPEC_AGGREGATOR: Caller = Caller { name: "system:aggregator", groups: &[] };

/// One of our own users.
pub(crate) struct Caller {
    name: &'static str,
    groups: &'static [&'static str],
}

/// A document that was fetched.
pub(crate) struct Fetched {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// Why a document could not be fetched.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("request timed out")]
    Timeout,
    #[error("the answer is not complete, or larger than {0} bytes")]
    Body(usize),
}

/// The status a path answers with; the body is not read.
pub(crate) async fn head(
    backend: &Backend,
    path: &str,
    caller: &Caller,
    extra: HeaderMap,
) -> Result<StatusCode, CallError> {
    Ok(send(backend, path, caller, extra).await?.status())
}

/// The document at a path.
pub(crate) async fn fetch(
    backend: &Backend,
    path: &str,
    caller: &Caller,
    extra: HeaderMap,
    timeout: Duration,
    bytes_max: usize,
) -> Result<Fetched, FetchError> {
    let exchange = async {
        let (parts, body) = send(backend, path, caller, extra).await?.into_parts();
        let body = Limited::new(body, bytes_max).collect().await.map_err(|_| FetchError::Body(bytes_max))?;
        Ok(Fetched { status: parts.status, headers: parts.headers, body: body.to_bytes() })
    };
    tokio::time::timeout(timeout, exchange).await.unwrap_or(Err(FetchError::Timeout))
}

async fn send(
    backend: &Backend,
    path: &str,
    caller: &Caller,
    extra: HeaderMap,
) -> Result<Response<BackendBody>, CallError> {
    let unsendable = |error: http::Error| CallError { reason: error.to_string() };
    let body: RequestBody = Empty::new().map_err(|never| match never {}).boxed_unsync();
    let request = Request::get(format!("{}{path}", backend.base())).body(body);
    let mut request = request.map_err(unsendable)?;
    *request.headers_mut() = extra;
    let user = UserInfo {
        name: caller.name.to_owned(),
        groups: caller.groups.iter().map(|group| (*group).to_owned()).collect(),
        ..UserInfo::default()
    };
    headers::identify(request.headers_mut(), &user);
    if let Ok(host) = HeaderValue::from_str(backend.authority()) {
        request.headers_mut().insert(HOST, host);
    }
    backend.request(request).await
}
