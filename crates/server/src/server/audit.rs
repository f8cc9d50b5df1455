//! The audit events of one request: when it arrives, when its answer begins where that goes on for long, and when it ends.
//!
//! What they all say is encoded once, when the request arrives. Bodies are the bytes received and sent.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use bailiwick_audit::{
    Auditor, Body, Event, Heading, Level, ObjectRef, Request, ResponseStatus, Sensitivity, Stage, StageSet, Subject,
    Waiting,
};
use bailiwick_machinery::audit::{AuditContext, AuditNotes};
use bailiwick_machinery::status::ApiError;
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
    request: Heading,
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
            resource: &info.resource,
            namespace: &info.namespace,
            name: info.meant_name(),
            group: &info.group,
            version: &info.version,
            subresource: &info.subresource,
        });
        let request = Heading::new(&Request {
            level: rules.level,
            audit_id: received.1,
            uri: parts.uri.path_and_query().map_or_else(|| parts.uri.path(), |uri| uri.as_str()),
            verb: info.verb,
            user: user.map(|user| &**user),
            source_ips: &source_ips(&parts.headers, connection.peer.map(|peer| peer.ip())),
            user_agent: &user_agent(&parts.headers),
            object,
            received: received.0,
            omit_managed_fields: rules.omit_managed_fields,
            sensitivity: Sensitivity::of(&info.group, &info.resource, &info.subresource),
        });
        Some(Self { auditor: auditor.clone(), request, omit: rules.omit_stages, course })
    }

    /// The request is about to be served, and waits for what is returned.
    pub fn received(&self) -> Option<Waiting> {
        if self.course == Course::Unauthenticated || self.omit.contains(Stage::RequestReceived) {
            return None;
        }
        self.auditor.record(&Event::received(&self.request))
    }

    /// Serving the request panicked, and its answer waits for what is returned.
    pub fn panicked(&self, context: &AuditContext) -> Option<Waiting> {
        let message = "APIServer panic'd: the server could not serve the request";
        let status = ResponseStatus::Status(ApiError::new(500, "InternalError", message).to_status());
        self.record(Stage::Panic, &status, &context.notes(), None)
    }

    /// The answer is ready to be sent; `error` is what it says if it is a failure.
    pub fn answered(self, context: &AuditContext, answer: &Answer, error: Option<&ApiError>) -> Answered {
        let notes = std::mem::take(&mut *context.notes());
        let status = match error {
            Some(error) => ResponseStatus::Status(error.to_status()),
            None => ResponseStatus::Code(answer.status),
        };
        let response = match &status {
            ResponseStatus::Status(status) if self.request.level() >= Level::RequestResponse => {
                serde_json::to_vec(status).ok().map(|json| Body::Whole(json.into()))
            }
            _ => self.sent(answer),
        };
        let mut answered = Answered::default();
        if self.course != Course::Usual {
            answered.waiting.extend(self.record(Stage::ResponseStarted, &status, &notes, response.as_ref()));
        }
        if self.course == Course::Unauthenticated {
            return answered;
        }
        if !answer.body.is_streamed() {
            answered.waiting.extend(self.record(Stage::ResponseComplete, &status, &notes, response.as_ref()));
            return answered;
        }
        // What is no object, such as the stream of all projects' changes, is not recorded.
        let recorded = self.request.level() >= Level::RequestResponse
            && self.request.is_resource()
            && self.course == Course::Usual
            && notes.response.is_none()
            && is_json(answer)
            && !matches!(answer.body, ResponseBody::Proxied(_));
        let capture = if recorded { Capture::Pieces(Vec::new(), 0) } else { Capture::Nothing };
        answered.recording = Some(Recording { recorder: self, status, notes, capture });
        answered
    }

    /// The bytes of an answer that is at hand, where they are recorded or tell its status.
    fn sent(&self, answer: &Answer) -> Option<Body> {
        let recorded = self.request.level() >= Level::RequestResponse && self.request.is_resource();
        match &answer.body {
            ResponseBody::Full(Some(bytes))
                if (recorded || self.request.verb().starts_with("delete"))
                    && is_json(answer)
                    && bytes.len() <= RESPONSE_BYTES_MAX =>
            {
                Some(Body::Whole(bytes.clone()))
            }
            _ => None,
        }
    }

    /// Only the arrival of a request can be refused for want of a record.
    fn record(
        &self,
        stage: Stage,
        status: &ResponseStatus,
        notes: &AuditNotes,
        response: Option<&Body>,
    ) -> Option<Waiting> {
        if self.omit.contains(stage) {
            return None;
        }
        self.auditor.record(&self.event(stage, status, notes, response))
    }

    fn event<'a>(
        &'a self,
        stage: Stage,
        status: &'a ResponseStatus,
        notes: &'a AuditNotes,
        response: Option<&'a Body>,
    ) -> Event<'a> {
        Event { request: &self.request, stage, at: Timestamp::now(), status: Some(status), notes, response }
    }
}

/// What is left to do for an answer that has been recorded as far as it is known.
#[derive(Default)]
pub(crate) struct Answered {
    /// What the answer waits for.
    pub waiting: Vec<Waiting>,
    /// Where the answer is made as it is sent, this goes along with it.
    pub recording: Option<Recording>,
}

fn is_json(answer: &Answer) -> bool {
    answer.content_type.as_bytes().starts_with(b"application/json")
}

/// The addresses a request came by: those proxies tell, then the one of the connection.
fn source_ips(headers: &HeaderMap, peer: Option<IpAddr>) -> Vec<IpAddr> {
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
    ips
}

fn user_agent(headers: &HeaderMap) -> Cow<'_, str> {
    let agent = headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match agent.get(..USER_AGENT_LEN_MAX) {
        Some(start) if agent.len() > USER_AGENT_LEN_MAX => format!("{start}...TRUNCATED").into(),
        _ => agent.into(),
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
                notes.annotate(TRUNCATED, "true");
                None
            }
        };
        if !recorder.omit.contains(Stage::ResponseComplete) {
            let event = recorder.event(Stage::ResponseComplete, &status, &notes, response.as_ref());
            recorder.auditor.record_behind(&event);
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
        source_ips(&headers, peer.parse().ok()).iter().map(ToString::to_string).collect()
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
