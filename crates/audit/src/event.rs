//! One audit event and its `audit.k8s.io/v1` JSON, fields in upstream's order. Bodies are spliced in as bytes.

use std::io::Write;
use std::sync::Arc;

use bailiwick_machinery::audit::{AuditNotes, Level};
use bailiwick_machinery::user::UserInfo;
use bytes::Bytes;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::Sensitivity;
use crate::body;

/// When in the life of a request an event is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    RequestReceived,
    /// The head of an answer that goes on for long, or the refusal of a request whose sender could not be told.
    ResponseStarted,
    ResponseComplete,
    Panic,
}

impl Stage {
    pub const ALL: [Self; 4] = [Self::RequestReceived, Self::ResponseStarted, Self::ResponseComplete, Self::Panic];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::RequestReceived => "RequestReceived",
            Self::ResponseStarted => "ResponseStarted",
            Self::ResponseComplete => "ResponseComplete",
            Self::Panic => "Panic",
        }
    }

    pub(crate) fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// What is known of a request when it arrives; all its events share it.
#[derive(Clone, Debug)]
pub struct Request {
    pub level: Level,
    pub audit_id: String,
    pub uri: String,
    pub verb: &'static str,
    /// Nobody when authentication failed.
    pub user: Option<Arc<UserInfo>>,
    pub source_ips: Vec<String>,
    pub user_agent: String,
    /// `None` for paths that are no resources.
    pub object: Option<ObjectRef>,
    pub received: Timestamp,
    pub omit_managed_fields: bool,
    pub sensitivity: Sensitivity,
}

/// What a request is about. What does not apply is empty.
#[derive(Clone, Debug, Default)]
pub struct ObjectRef {
    pub resource: String,
    pub namespace: String,
    pub name: String,
    pub group: String,
    pub version: String,
    pub subresource: String,
}

/// How a request was answered.
#[derive(Clone, Debug)]
pub enum ResponseStatus {
    Code(u16),
    /// A Status object, of which all but its type is shown.
    Status(Value),
}

/// A body to be recorded.
#[derive(Clone, Debug)]
pub enum Body {
    Whole(Bytes),
    /// In pieces, as it was sent.
    Pieces(Vec<Bytes>),
}

impl Body {
    pub fn len(&self) -> usize {
        match self {
            Self::Whole(bytes) => bytes.len(),
            Self::Pieces(pieces) => pieces.iter().map(Bytes::len).sum(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn bytes(&self) -> std::borrow::Cow<'_, [u8]> {
        match self {
            Self::Whole(bytes) => bytes.as_ref().into(),
            Self::Pieces(pieces) => pieces.concat().into(),
        }
    }
}

/// Something that happened to a request.
#[derive(Clone, Debug)]
pub struct Event {
    pub request: Arc<Request>,
    pub stage: Stage,
    pub at: Timestamp,
    pub status: Option<ResponseStatus>,
    /// The request's body is among the notes.
    pub notes: AuditNotes,
    pub response: Option<Body>,
}

impl Event {
    /// The event that a request has arrived.
    pub fn received(request: Arc<Request>) -> Self {
        let at = request.received;
        Self { request, stage: Stage::RequestReceived, at, status: None, notes: AuditNotes::default(), response: None }
    }

    /// About how much memory the bodies hold on to.
    pub(crate) fn body_bytes(&self) -> usize {
        self.notes.request.as_ref().map_or(0, Bytes::len) + self.response.as_ref().map_or(0, Body::len)
    }

    /// The event as one line of JSON, without the newline.
    pub fn encode(&self, out: &mut Vec<u8>, bodies: Bodies) {
        let request = &*self.request;
        out.extend_from_slice(br#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":""#);
        out.extend_from_slice(request.level.as_str().as_bytes());
        out.extend_from_slice(br#"","auditID":"#);
        json(out, &request.audit_id);
        out.extend_from_slice(br#","stage":""#);
        out.extend_from_slice(self.stage.as_str().as_bytes());
        out.extend_from_slice(br#"","requestURI":"#);
        json(out, &request.uri);
        out.extend_from_slice(br#","verb":"#);
        json(out, request.verb);
        out.extend_from_slice(br#","user":"#);
        match &request.user {
            Some(user) => write_user(out, user),
            None => out.extend_from_slice(b"{}"),
        }
        if let Some((user, constraint)) = &self.notes.impersonated {
            out.extend_from_slice(br#","impersonatedUser":"#);
            write_user(out, user);
            if !constraint.is_empty() {
                out.extend_from_slice(br#","authenticationMetadata":{"impersonationConstraint":"#);
                json(out, constraint);
                out.push(b'}');
            }
        }
        if !request.source_ips.is_empty() {
            out.extend_from_slice(br#","sourceIPs":"#);
            json(out, &request.source_ips);
        }
        if !request.user_agent.is_empty() {
            out.extend_from_slice(br#","userAgent":"#);
            json(out, &request.user_agent);
        }
        self.write_object_ref(out);
        self.write_response_status(out);
        if bodies == Bodies::Kept {
            self.write_bodies(out);
        }
        out.extend_from_slice(br#","requestReceivedTimestamp":"#);
        write_time(out, request.received);
        out.extend_from_slice(br#","stageTimestamp":"#);
        write_time(out, self.at);
        self.write_annotations(out, bodies);
        out.push(b'}');
    }

    fn write_object_ref(&self, out: &mut Vec<u8>) {
        let Some(object) = &self.request.object else { return };
        let told = self.notes.object.as_ref();
        fn or_told<'a>(known: &'a str, told: Option<&'a String>) -> &'a str {
            if known.is_empty() { told.map_or("", String::as_str) } else { known }
        }
        let fields: [(&str, &str); 8] = [
            ("resource", &object.resource),
            ("namespace", or_told(&object.namespace, told.map(|told| &told.namespace))),
            ("name", or_told(&object.name, told.map(|told| &told.name))),
            ("uid", told.map_or("", |told| &told.uid)),
            ("apiGroup", &object.group),
            ("apiVersion", &object.version),
            ("resourceVersion", told.map_or("", |told| &told.resource_version)),
            ("subresource", &object.subresource),
        ];
        out.extend_from_slice(br#","objectRef":{"#);
        let mut first = true;
        for (field, value) in fields.into_iter().filter(|(_, value)| !value.is_empty()) {
            if !std::mem::take(&mut first) {
                out.push(b',');
            }
            json(out, field);
            out.push(b':');
            json(out, value);
        }
        out.push(b'}');
    }

    fn write_response_status(&self, out: &mut Vec<u8>) {
        match &self.status {
            None => {}
            Some(ResponseStatus::Code(code)) => match self.answered_status() {
                Some(mut status) => {
                    status.insert("code".into(), (*code).into());
                    write_status(out, &status);
                }
                None => {
                    let _ = write!(out, r#","responseStatus":{{"metadata":{{}},"code":{code}}}"#);
                }
            },
            Some(ResponseStatus::Status(status)) => {
                if let Some(status) = status.as_object() {
                    write_status(out, status);
                }
            }
        }
    }

    /// The Status a successful request was answered with, such as a deletion's.
    fn answered_status(&self) -> Option<serde_json::Map<String, Value>> {
        /// No Status is longer than this.
        const STATUS_BYTES_MAX: usize = 16 * 1024;
        let Some(Body::Whole(bytes)) = &self.response else { return None };
        if !self.request.verb.starts_with("delete")
            || bytes.len() > STATUS_BYTES_MAX
            || memchr::memmem::find(bytes, b"\"Status\"").is_none()
        {
            return None;
        }
        let value: Value = serde_json::from_slice(bytes).ok()?;
        match value {
            Value::Object(status) if status.get("kind").is_some_and(|kind| kind == "Status") => Some(status),
            _ => None,
        }
    }

    fn write_bodies(&self, out: &mut Vec<u8>) {
        let (level, cleaning) =
            (self.request.level, body::Cleaning::of(self.request.sensitivity, self.request.omit_managed_fields));
        let mut splice = |field: &[u8], bytes: &[u8]| {
            let start = out.len();
            out.extend_from_slice(field);
            if body::splice(bytes, cleaning, out).is_none() {
                out.truncate(start);
            }
        };
        if let Some(bytes) = self.notes.request.as_ref().filter(|_| level >= Level::Request) {
            splice(br#","requestObject":"#, bytes);
        }
        if level >= Level::RequestResponse {
            if let Some(bytes) = &self.notes.response {
                splice(br#","responseObject":"#, bytes);
            } else if let Some(body) = &self.response {
                splice(br#","responseObject":"#, &body.bytes());
            }
        }
    }

    fn write_annotations(&self, out: &mut Vec<u8>, bodies: Bodies) {
        let truncated = (bodies == Bodies::Dropped).then_some((TRUNCATED, "true"));
        let noted = self.notes.annotations.iter().map(|(key, value)| (key.as_ref(), value.as_str()));
        let mut annotations: Vec<(&str, &str)> = noted.chain(truncated).collect();
        if annotations.is_empty() {
            return;
        }
        annotations.sort_unstable();
        annotations.dedup_by_key(|(key, _)| *key);
        out.extend_from_slice(br#","annotations":{"#);
        for (index, (key, value)) in annotations.into_iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            json(out, key);
            out.push(b':');
            json(out, value);
        }
        out.push(b'}');
    }
}

/// The annotation of an event whose bodies were left out because they were too large.
pub(crate) const TRUNCATED: &str = "audit.k8s.io/truncated";

/// Whether bodies are part of an encoded event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bodies {
    Kept,
    /// Left out for their size, which an annotation tells.
    Dropped,
}

fn write_status(out: &mut Vec<u8>, status: &serde_json::Map<String, Value>) {
    out.extend_from_slice(br#","responseStatus":{"metadata":{}"#);
    for field in ["status", "message", "reason", "details", "code"] {
        if let Some(value) = status.get(field) {
            out.push(b',');
            json(out, field);
            out.push(b':');
            json(out, value);
        }
    }
    out.push(b'}');
}

fn write_user(out: &mut Vec<u8>, user: &UserInfo) {
    #[derive(Serialize)]
    struct Shown<'a> {
        #[serde(skip_serializing_if = "str::is_empty")]
        username: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        uid: &'a str,
        #[serde(skip_serializing_if = "<[String]>::is_empty")]
        groups: &'a [String],
        #[serde(skip_serializing_if = "std::collections::BTreeMap::is_empty")]
        extra: &'a std::collections::BTreeMap<String, Vec<String>>,
    }
    json(out, &Shown { username: &user.name, uid: &user.uid, groups: &user.groups, extra: &user.extra });
}

/// RFC 3339 with microseconds. By hand, because every request has four of them.
fn write_time(out: &mut Vec<u8>, time: Timestamp) {
    let time = jiff::tz::Offset::UTC.to_datetime(time);
    let mut text = *b"\"0000-00-00T00:00:00.000000Z\"";
    let mut put = |end: usize, digits: usize, number: i32| {
        let mut rest = number.unsigned_abs();
        for place in text.iter_mut().take(end).rev().take(digits) {
            *place = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
    };
    put(5, 4, time.year().into());
    put(8, 2, time.month().into());
    put(11, 2, time.day().into());
    put(14, 2, time.hour().into());
    put(17, 2, time.minute().into());
    put(20, 2, time.second().into());
    put(27, 6, time.subsec_nanosecond() / 1000);
    out.extend_from_slice(&text);
}

fn json<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(out, value).expect("invariant: strings, maps of strings and JSON values serialize");
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn times_are_written_as_they_are_printed(second in 0_i64..253_402_300_799, nanosecond in 0_i32..1_000_000_000) {
            let time = Timestamp::new(second, nanosecond).expect("in range");
            let mut out = Vec::new();
            write_time(&mut out, time);
            // Printing rounds; what has not happened yet is not told.
            let whole = Timestamp::new(second, nanosecond / 1000 * 1000).expect("in range");
            proptest::prop_assert_eq!(String::from_utf8_lossy(&out), format!("\"{whole:.6}\""));
        }
    }
}
