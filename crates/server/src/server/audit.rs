//! The audit events of one request: when it arrives, when its answer begins where that goes on for long, and when it ends.
//!
//! Nothing is copied for them that can be shared: bodies are the bytes received and sent, and are encoded elsewhere.

use std::net::IpAddr;
use std::sync::Arc;

use bailiwick_audit::{
    Auditor, Body, Event, Level, ObjectRef, Request, ResponseStatus, Sensitivity, Stage, StageSet, Subject,
};
use bailiwick_machinery::audit::{AuditContext, AuditNotes};
use bailiwick_machinery::status::{ApiError, ApiResult};
use bailiwick_machinery::user::UserInfo;
use bytes::Bytes;
use http::HeaderMap;
use http::header::USER_AGENT;
use http::request::Parts;
use jiff::Timestamp;

use super::Connection;
use super::respond::Answer;
use crate::http::ResponseBody;
use crate::request_info::RequestInfo;

/// Longer names of programs are cut off, as upstream.
const USER_AGENT_LEN_MAX: usize = 1024;
/// Answers longer than this are not recorded, which an annotation tells: a list of everything would fill the memory.
const RESPONSE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The annotation of an event whose body was left out.
const TRUNCATED: &str = "audit.k8s.io/truncated";

/// Who a request was found to come from.
pub(crate) enum Sender<'a> {
    Known(&'a Arc<UserInfo>),
    /// Authentication failed.
    Unknown,
}

/// Records one request.
pub(crate) struct Recorder {
    auditor: Arc<Auditor>,
    request: Arc<Request>,
    omit: StageSet,
    course: Course,
}

/// Which stages an answer has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Course {
    Usual,
    /// Watches: the answer's beginning is an event of its own.
    Long,
    /// The refusal of a request without a sender begins and is not followed any further.
    Unauthenticated,
}

impl Recorder {
    /// What the policy wants of the request; `None` if nothing. From here on the context knows the level.
    pub fn new(
        auditor: &Arc<Auditor>,
        context: &AuditContext,
        parts: &Parts,
        info: &RequestInfo,
        connection: &Connection,
        sender: Sender<'_>,
        received: (Timestamp, &str),
    ) -> Option<Self> {
        let (user, course) = match sender {
            Sender::Known(user) => (Some(user), if info.verb == "watch" { Course::Long } else { Course::Usual }),
            Sender::Unknown => (None, Course::Unauthenticated),
        };
        let rules = auditor.evaluate(&Subject {
            user: user.map(|user| &**user),
            verb: info.verb,
            is_resource: info.is_resource,
            group: &info.group,
            resource: &info.resource,
            subresource: &info.subresource,
            namespace: &info.namespace,
            name: info.meant_name(),
            path: &info.path,
        });
        context.decide(rules.level);
        if rules.level == Level::None {
            return None;
        }
        let object = info.is_resource.then(|| ObjectRef {
            resource: info.resource.clone(),
            namespace: info.namespace.clone(),
            name: info.meant_name().to_owned(),
            group: info.group.clone(),
            version: info.version.clone(),
            subresource: info.subresource.clone(),
        });
        let request = Request {
            level: rules.level,
            audit_id: received.1.to_owned(),
            uri: parts.uri.path_and_query().map_or_else(|| parts.uri.path().to_owned(), |uri| uri.as_str().to_owned()),
            verb: info.verb,
            user: user.cloned(),
            source_ips: source_ips(&parts.headers, connection.peer.map(|peer| peer.ip())),
            user_agent: user_agent(&parts.headers),
            object,
            received: received.0,
            omit_managed_fields: rules.omit_managed_fields,
            sensitivity: Sensitivity::of(&info.group, &info.resource, &info.subresource),
        };
        Some(Self { auditor: auditor.clone(), request: Arc::new(request), omit: rules.omit_stages, course })
    }

    /// The request is about to be served.
    pub async fn received(&self) -> ApiResult<()> {
        if self.course == Course::Unauthenticated || self.omit.contains(Stage::RequestReceived) {
            return Ok(());
        }
        let recorded = self.auditor.record(Event::received(self.request.clone())).await;
        recorded.map_err(|error| ApiError::internal(error.to_string()))
    }

    /// Serving the request panicked.
    pub async fn panicked(self, context: &AuditContext) {
        let message = "APIServer panic'd: the server could not serve the request";
        let status = ApiError::new(500, "InternalError", message).to_status();
        let event =
            self.event(Stage::Panic, ResponseStatus::Status(status), std::mem::take(&mut *context.notes()), None);
        self.record(event).await;
    }

    /// The answer is ready to be sent; `error` is what it says if it is a failure. Where it is made as it is sent, what is
    /// returned goes along with it. (A body cannot be shared between threads, so it is lent exclusively.)
    pub async fn answered(
        self,
        context: &AuditContext,
        answer: &mut Answer,
        error: Option<&ApiError>,
    ) -> Option<Recording> {
        let notes = std::mem::take(&mut *context.notes());
        let status = match error {
            Some(error) => ResponseStatus::Status(error.to_status()),
            None => ResponseStatus::Code(answer.status),
        };
        let response = match &status {
            ResponseStatus::Status(status) if self.request.level >= Level::RequestResponse => {
                serde_json::to_vec(status).ok().map(|json| Body::Whole(json.into()))
            }
            _ => self.sent(answer),
        };
        if self.course != Course::Usual {
            let started = self.event(Stage::ResponseStarted, status.clone(), notes.clone(), response.clone());
            self.record(started).await;
        }
        if self.course == Course::Unauthenticated {
            return None;
        }
        if !answer.body.is_streamed() {
            let event = self.event(Stage::ResponseComplete, status, notes, response);
            self.record(event).await;
            return None;
        }
        // What is no object, such as the stream of all projects' changes, is not recorded.
        let recorded = self.request.level >= Level::RequestResponse
            && self.request.object.is_some()
            && self.course == Course::Usual
            && notes.response.is_none()
            && is_json(answer)
            && !matches!(answer.body, ResponseBody::Proxied(_));
        let capture = if recorded { Capture::Pieces(Vec::new(), 0) } else { Capture::Nothing };
        Some(Recording { recorder: self, status, notes, capture })
    }

    /// The bytes of an answer that is at hand, where they are recorded or tell its status.
    fn sent(&self, answer: &Answer) -> Option<Body> {
        let recorded = self.request.level >= Level::RequestResponse && self.request.object.is_some();
        match &answer.body {
            ResponseBody::Full(Some(bytes))
                if (recorded || self.request.verb.starts_with("delete"))
                    && is_json(answer)
                    && bytes.len() <= RESPONSE_BYTES_MAX =>
            {
                Some(Body::Whole(bytes.clone()))
            }
            _ => None,
        }
    }

    fn event(&self, stage: Stage, status: ResponseStatus, notes: AuditNotes, response: Option<Body>) -> Event {
        Event { request: self.request.clone(), stage, at: Timestamp::now(), status: Some(status), notes, response }
    }

    async fn record(&self, event: Event) {
        if !self.omit.contains(event.stage) {
            // Only the arrival of a request can be refused for want of a record.
            let _ = self.auditor.record(event).await;
        }
    }
}

fn is_json(answer: &Answer) -> bool {
    answer.content_type.as_bytes().starts_with(b"application/json")
}

/// The addresses a request came by: those proxies tell, then the one of the connection.
fn source_ips(headers: &HeaderMap, peer: Option<IpAddr>) -> Vec<String> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut ips: Vec<IpAddr> = header("x-forwarded-for").split(',').filter_map(|ip| ip.trim().parse().ok()).collect();
    if let Ok(real) = header("x-real-ip").parse()
        && !ips.contains(&real)
    {
        ips.push(real);
    }
    if let Some(peer) = peer.map(|peer| peer.to_canonical())
        && ips.last() != Some(&peer)
    {
        ips.push(peer);
    }
    ips.iter().map(ToString::to_string).collect()
}

fn user_agent(headers: &HeaderMap) -> String {
    let agent = headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match agent.get(..USER_AGENT_LEN_MAX) {
        Some(start) if agent.len() > USER_AGENT_LEN_MAX => format!("{start}...TRUNCATED"),
        _ => agent.to_owned(),
    }
}

/// How many events were taken and lost, under upstream's names.
pub(super) fn append_metrics(text: &mut String, auditor: &Auditor) {
    let counters = auditor.counters();
    let figures = [
        ("apiserver_audit_event_total", "Audit events generated and sent to the audit backends.", &counters.events),
        ("apiserver_audit_error_total", "Audit events that some backend did not get.", &counters.errors),
    ];
    for (name, help, counter) in figures {
        let value = counter.load(std::sync::atomic::Ordering::Relaxed);
        text.push_str(&format!("# HELP {name} {help}\n# TYPE {name} counter\n{name} {value}\n"));
    }
}

/// What is recorded of an answer that is being sent; its end is an event.
pub struct Recording {
    recorder: Recorder,
    status: ResponseStatus,
    notes: AuditNotes,
    capture: Capture,
}

enum Capture {
    Nothing,
    Pieces(Vec<Bytes>, usize),
    TooLarge,
}

impl Recording {
    pub fn sent(&mut self, data: &Bytes) {
        if let Capture::Pieces(pieces, bytes) = &mut self.capture {
            *bytes += data.len();
            pieces.push(data.clone());
            if *bytes > RESPONSE_BYTES_MAX {
                self.capture = Capture::TooLarge;
            }
        }
    }

    /// All has been sent, or nobody reads on.
    pub fn end(self) {
        let Self { recorder, status, mut notes, capture } = self;
        let response = match capture {
            Capture::Nothing => None,
            Capture::Pieces(pieces, _) => Some(Body::Pieces(pieces)),
            Capture::TooLarge => {
                notes.annotations.push((TRUNCATED.into(), "true".to_owned()));
                None
            }
        };
        if !recorder.omit.contains(Stage::ResponseComplete) {
            recorder.auditor.record_behind(recorder.event(Stage::ResponseComplete, status, notes, response));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ips(forwarded: &str, real: &str, peer: &str) -> Vec<String> {
        let mut headers = HeaderMap::new();
        for (name, value) in [("x-forwarded-for", forwarded), ("x-real-ip", real)] {
            if !value.is_empty() {
                headers.insert(name, value.parse().expect("a value"));
            }
        }
        source_ips(&headers, peer.parse().ok())
    }

    #[test]
    fn source_addresses_are_proxies_then_the_peer() {
        assert_eq!(ips("", "", "127.0.0.1"), ["127.0.0.1"]);
        assert_eq!(
            ips("10.0.0.1, 10.0.0.2", "10.0.0.3", "127.0.0.1"),
            ["10.0.0.1", "10.0.0.2", "10.0.0.3", "127.0.0.1"]
        );
        assert_eq!(ips("10.0.0.1, junk", "10.0.0.1", "10.0.0.1"), ["10.0.0.1"]);
        assert_eq!(ips("", "", "::ffff:10.0.0.1"), ["10.0.0.1"]);
    }

    #[test]
    fn long_user_agents_are_cut() {
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, "a".repeat(2000).parse().expect("a value"));
        assert_eq!(user_agent(&headers).len(), USER_AGENT_LEN_MAX + "...TRUNCATED".len());
    }
}
