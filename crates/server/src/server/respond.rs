//! From a handler's outcome to an HTTP response: headers every answer has, warnings, compression, Status on failure.

use std::sync::Arc;
use std::time::Duration;

use bailiwick_audit::Auditor;
use bailiwick_flowcontrol::{Classified, Seat};
use bailiwick_machinery::audit::AuditContext;
use bailiwick_machinery::media::{self, MediaType};
use bailiwick_machinery::status::{ApiError, ApiResult};
use bailiwick_traces::Span;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
    RETRY_AFTER, USER_AGENT, VARY, WARNING,
};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use http_body_util::BodyExt;
use jiff::Timestamp;
use prometheus_client::metrics::counter::Counter;

use super::audit::{Answered, Recorder, Sender};
use super::{ApiServer, Connection};
use crate::request_info::RequestInfo;

use crate::encode::gzip::{GZIP_BYTES_MIN, GzipBody};
use crate::encode::{Layout, encode_value};
use crate::handlers::request::Reply;
use crate::http::{FollowedBody, ResponseBody};
use crate::tenant::Tenant;
use bailiwick_machinery::query::Query;

const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
const FLOW_SCHEMA_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const PRIORITY_LEVEL_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");
const NOSNIFF: HeaderName = HeaderName::from_static("x-content-type-options");
/// Longer audit ids of clients are cut off, as upstream does.
const AUDIT_ID_LEN_MAX: usize = 64;

/// An answer with headers of its own.
pub struct Answer {
    pub status: u16,
    pub content_type: HeaderValue,
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The headers of another server's answer, before which our own give way.
    passed_on: Option<Box<HeaderMap>>,
    pub body: ResponseBody,
}

impl Answer {
    pub fn new(status: u16, content_type: &'static str, body: ResponseBody) -> Self {
        let content_type = HeaderValue::from_static(content_type);
        Self { status, content_type, headers: Vec::new(), passed_on: None, body }
    }

    /// The answer of another server.
    pub fn passed_on(status: u16, mut headers: HeaderMap, body: ResponseBody) -> Self {
        // It has the same from us.
        headers.remove(AUDIT_ID);
        Self { passed_on: Some(Box::new(headers)), ..Self::new(status, "", body) }
    }

    pub fn text(status: u16, text: impl Into<String>) -> Self {
        let text: String = text.into();
        let mut answer = Self::new(status, "text/plain; charset=utf-8", ResponseBody::full(text));
        answer.headers.push((NOSNIFF, HeaderValue::from_static("nosniff")));
        answer
    }

    /// What a path outside the API that leads nowhere answers.
    pub fn page_not_found() -> Self {
        Self::text(404, "404 page not found\n")
    }

    pub fn header(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.push((name, value));
        }
        self
    }
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        Self::new(reply.status, reply.content_type, reply.body)
    }
}

/// What accompanies a request from its head to its answer.
pub struct Exchange {
    audit_id: HeaderValue,
    pub warnings: Vec<String>,
    /// What the request leaves for the audit log.
    pub audit: AuditContext,
    /// When the request arrived, where it may be recorded.
    received: Option<Timestamp>,
    recorder: Option<Recorder>,
    /// The project's control plane, if the request is for one.
    pub tenant: Option<Arc<Tenant>>,
    /// The flow the request belongs to.
    pub classified: Option<Classified>,
    /// The request's right to run, until its answer is complete.
    pub seat: Option<Seat>,
    /// The request's span, where it is traced.
    pub span: Option<Span>,
    /// How long the request waited for its turn and for admission webhooks.
    pub waited: Duration,
}

impl Exchange {
    pub fn new(parts: &Parts, auditor: Option<&Arc<Auditor>>) -> Self {
        let given = parts.headers.get(&AUDIT_ID).and_then(|value| value.to_str().ok()).filter(|id| !id.is_empty());
        let id = match given {
            Some(id) => id.get(..AUDIT_ID_LEN_MAX.min(id.len())).unwrap_or_default().to_owned(),
            None => uuid::Uuid::new_v4().to_string(),
        };
        let audit_id = HeaderValue::from_str(&id).unwrap_or_else(|_| HeaderValue::from_static("invalid"));
        let (audit, received) = match auditor {
            Some(_) => (AuditContext::undecided(), Some(Timestamp::now())),
            None => (AuditContext::off(), None),
        };
        Self {
            audit_id,
            warnings: Vec::new(),
            audit,
            received,
            recorder: None,
            tenant: None,
            classified: None,
            seat: None,
            span: None,
            waited: Duration::ZERO,
        }
    }

    /// The name the request has in audit logs.
    pub fn audit_id(&self) -> &HeaderValue {
        &self.audit_id
    }

    /// It is known who sent the request, so the policy can tell whether it is recorded.
    pub async fn identified(
        &mut self,
        server: &ApiServer,
        parts: &Parts,
        info: &RequestInfo,
        connection: &Connection,
        sender: Sender<'_>,
    ) -> ApiResult<()> {
        let (Some(auditor), Some(received)) = (&server.config.auditor, self.received) else { return Ok(()) };
        let received = (received, self.audit_id.to_str().unwrap_or_default());
        let recorder = Recorder::new(auditor, &self.audit, parts, info, connection, sender, received);
        let Some(recorder) = recorder else { return Ok(()) };
        let waiting = recorder.received();
        self.recorder = Some(recorder);
        match waiting {
            // Boxed, here and below: requests that do not wait for it do not carry the room for it.
            Some(waiting) => Box::pin(waiting.recorded()).await.map_err(|error| ApiError::internal(error.to_string())),
            None => Ok(()),
        }
    }

    /// Serving the request panicked, which is the last that is recorded of it.
    pub async fn panicked(&mut self) {
        let waiting = self.recorder.take().and_then(|recorder| recorder.panicked(&self.audit));
        if let Some(waiting) = waiting {
            let _ = Box::pin(waiting.recorded()).await;
        }
    }

    /// The response, complete. What is made as it is sent may still panic, which is counted then.
    pub async fn finish(
        mut self,
        outcome: ApiResult<Answer>,
        parts: &Parts,
        query: &Query,
        panics: &Counter,
    ) -> Response<ResponseBody> {
        let (mut answer, error) = match outcome {
            Ok(answer) => (answer, None),
            Err(error) => (failure(&error, parts, query), Some(error)),
        };
        let answered = self.recorder.take().map(|recorder| recorder.answered(&self.audit, &answer, error.as_ref()));
        let Answered { waiting, recording } = answered.unwrap_or_default();
        for waiting in waiting {
            let _ = Box::pin(waiting.recorded()).await;
        }
        if answer.body.is_streamed() {
            let mut followed = FollowedBody::around(std::mem::replace(&mut answer.body, ResponseBody::empty()), panics);
            followed.recording = recording;
            answer.body = ResponseBody::Followed(followed);
        }
        let gzipped = compress(&mut answer, parts, query).await;
        if parts.method == Method::HEAD {
            answer.body = ResponseBody::empty();
        }
        let mut response = Response::new(answer.body);
        *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(AUDIT_ID, self.audit_id);
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        if let Some(classified) = self.classified {
            for (name, uid) in
                [(FLOW_SCHEMA_UID, classified.flow_schema_uid), (PRIORITY_LEVEL_UID, classified.priority_level_uid)]
            {
                if let Ok(uid) = HeaderValue::from_maybe_shared(uid) {
                    headers.insert(name, uid);
                }
            }
        }
        if answer.status != 304 && !answer.content_type.is_empty() {
            headers.insert(CONTENT_TYPE, answer.content_type);
        }
        if gzipped {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
        }
        for (name, value) in answer.headers {
            headers.insert(name, value);
        }
        if let Some(passed_on) = answer.passed_on {
            // Those of the same name give way, and several values of one name all stay.
            passed_on.keys().for_each(|name| drop(headers.remove(name)));
            headers.extend(*passed_on);
        }
        add_warnings(headers, &self.warnings);
        response
    }
}

fn failure(error: &ApiError, parts: &Parts, query: &Query) -> Answer {
    let accept = parts.headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let agent = parts.headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    // An error is never refused for its form: whoever accepts nothing we have gets indented JSON.
    let (media, pretty) = match media::negotiate_status(accept) {
        Some(negotiated) => (negotiated.media, negotiated.pretty || media::wants_pretty(query.get("pretty"), agent)),
        None => (MediaType::Json, true),
    };
    let layout = if pretty { Layout::Pretty } else { Layout::Compact };
    let status = error.to_status();
    let body = encode_value(media, layout, &status)
        .or_else(|_| encode_value(MediaType::Json, layout, &status))
        .unwrap_or_default();
    let mut answer = Answer::new(error.code, media.as_str(), ResponseBody::full(body));
    // A refusal repeats parts of the request; nothing may take it for something else than it says it is.
    answer.headers.push((NOSNIFF, HeaderValue::from_static("nosniff")));
    if let Some(seconds) = error.details.as_ref().map(|details| details.retry_after_seconds).filter(|s| *s > 0) {
        answer = answer.header(RETRY_AFTER, &seconds.to_string());
    }
    answer
}

/// Compresses large answers for clients that can read them. Watches are never compressed: each event must leave at once.
async fn compress(answer: &mut Answer, parts: &Parts, query: &Query) -> bool {
    let accepts = parts.headers.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    if !accepts.is_some_and(|encodings| encodings.split(',').any(|e| e.trim().split(';').next() == Some("gzip"))) {
        return false;
    }
    let large = match &answer.body {
        ResponseBody::Full(Some(bytes)) => bytes.len() >= GZIP_BYTES_MIN,
        body => body.is_list(),
    };
    if !large {
        return false;
    }
    // A list does not know its size; its first chunks tell whether it is worth it.
    let mut body = std::mem::replace(&mut answer.body, ResponseBody::empty());
    let mut first = Vec::new();
    while first.len() < GZIP_BYTES_MIN {
        match body.frame().await {
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    first.extend_from_slice(&data);
                }
            }
            // Nothing is sent yet, so the client can be told.
            Some(Err(_)) => {
                *answer = failure(&ApiError::internal("the server could not serve the request"), parts, query);
                return false;
            }
            None => {
                answer.body = ResponseBody::full(first);
                return false;
            }
        }
    }
    answer.body = ResponseBody::Gzip(Box::new(GzipBody::new(first.into(), body)));
    true
}

/// Warnings as kubectl shows them: `299 - "text"`, quotes and backslashes escaped, control characters dropped.
fn add_warnings(headers: &mut HeaderMap, warnings: &[String]) {
    /// All warnings of an answer together, as upstream, so that headers stay within limits.
    const WARNINGS_CHARS_MAX: usize = 4 * 1024;
    /// What is left of each once they are too long together.
    const WARNING_CHARS_MAX: usize = 256;
    let mut distinct: Vec<&str> = Vec::new();
    for warning in warnings.iter().map(String::as_str).filter(|warning| !warning.is_empty()) {
        if !distinct.contains(&warning) {
            distinct.push(warning);
        }
    }
    let total: usize = distinct.iter().map(|warning| warning.chars().count()).sum();
    let longest = if total > WARNINGS_CHARS_MAX { WARNING_CHARS_MAX } else { WARNINGS_CHARS_MAX };
    let mut written = 0;
    for warning in distinct {
        if written >= WARNINGS_CHARS_MAX {
            return;
        }
        written += warning.chars().count().min(longest);
        let escaped: String = warning
            .chars()
            .take(longest)
            .filter(|c| !c.is_control())
            .flat_map(|c| (matches!(c, '"' | '\\')).then_some('\\').into_iter().chain([c]))
            .collect();
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{escaped}\"").as_bytes()) {
            headers.append(WARNING, value);
        }
    }
}
