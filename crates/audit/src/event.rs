//! One audit event and its `audit.k8s.io/v1` JSON, fields in upstream's order. Bodies are spliced in as bytes.

use std::io::Write;

use bailiwick_machinery::audit::{AuditNotes, Level};
use bytes::Bytes;
use jiff::Timestamp;
use serde_json::Value;

use crate::body;
use crate::heading::{Heading, json, text, write_user};

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
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    pub request: &'a Heading,
    pub stage: Stage,
    pub at: Timestamp,
    pub status: Option<&'a ResponseStatus>,
    /// The request's body is among the notes.
    pub notes: &'a AuditNotes,
    pub response: Option<&'a Body>,
}

/// Of a request that has just arrived.
static NO_NOTES: AuditNotes =
    AuditNotes { annotations: Vec::new(), impersonated: None, object: None, request: None, response: None };

impl<'a> Event<'a> {
    /// The event that a request has arrived.
    pub fn received(request: &'a Heading) -> Self {
        let (stage, at) = (Stage::RequestReceived, request.received);
        Self { request, stage, at, status: None, notes: &NO_NOTES, response: None }
    }

    /// About how much memory the bodies hold on to.
    pub(crate) fn body_bytes(&self) -> usize {
        self.notes.request.as_ref().map_or(0, Bytes::len) + self.response.map_or(0, Body::len)
    }

    /// The event as one line of JSON, without the newline.
    pub fn encode(&self, out: &mut Vec<u8>, bodies: Bodies) {
        self.request.write_start(self.stage, out);
        if let Some((user, constraint)) = &self.notes.impersonated {
            out.extend_from_slice(br#","impersonatedUser":"#);
            write_user(out, user);
            if !constraint.is_empty() {
                out.extend_from_slice(br#","authenticationMetadata":{"impersonationConstraint":"#);
                text(out, constraint);
                out.push(b'}');
            }
        }
        self.request.write_client(out);
        self.request.write_object_ref(self.notes.object.as_ref(), out);
        self.write_response_status(out);
        if bodies == Bodies::Kept {
            self.write_bodies(out);
        }
        self.request.write_times(self.at, out);
        self.write_annotations(out, bodies);
        out.push(b'}');
    }

    fn write_response_status(&self, out: &mut Vec<u8>) {
        match self.status {
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
        let Some(Body::Whole(bytes)) = self.response else { return None };
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
            } else if let Some(body) = self.response {
                splice(br#","responseObject":"#, &body.bytes());
            }
        }
    }

    fn write_annotations(&self, out: &mut Vec<u8>, bodies: Bodies) {
        let noted = self.notes.annotations.iter().map(|(key, value)| (key.as_ref(), value.as_ref()));
        match bodies {
            Bodies::Kept => write_annotations(out, noted),
            Bodies::Dropped => {
                let mut annotations: Vec<(&str, &str)> = noted.chain([(TRUNCATED, "true")]).collect();
                annotations.sort_unstable();
                annotations.dedup_by_key(|(key, _)| *key);
                write_annotations(out, annotations.into_iter());
            }
        }
    }
}

fn write_annotations<'a>(out: &mut Vec<u8>, annotations: impl Iterator<Item = (&'a str, &'a str)>) {
    let mut any = false;
    for (key, value) in annotations {
        out.extend_from_slice(if std::mem::replace(&mut any, true) { b"," } else { br#","annotations":{"# });
        text(out, key);
        out.push(b':');
        text(out, value);
    }
    if any {
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
