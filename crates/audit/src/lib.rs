//! The audit log: who asked for what, and what came of it, as `audit.k8s.io/v1` events.
//!
//! A [`Policy`] decides how much of a request is recorded. An [`Auditor`] takes the [`Event`]s of requests, encodes each
//! once and hands them to its sinks on a thread of its own: a rotated [`LogFile`], a [`WebhookSink`], and a
//! [`stream`] on disk that subscribers read at their own pace. Where no policy is configured there is no auditor.
//!
//! This crate knows nothing of HTTP servers, handlers or the store.

mod auditor;
mod batch;
mod body;
mod buffered;
mod event;
mod heading;
mod log_file;
mod policy;
mod queue;
mod rules;
mod sink;
pub mod stream;
mod webhook;

pub use auditor::{Auditor, Backend, Counters, NotRecorded, Truncation, Waiting};
pub use bailiwick_machinery::audit::Level;
pub use bailiwick_machinery::sensitivity::Sensitivity;
pub use batch::Batch;
pub use buffered::{Buffered, Buffering};
pub use event::{Body, Event, ResponseStatus, Stage};
pub use heading::{Heading, ObjectRef, Request};
pub use log_file::{Compress, LogFile, LogFormat, LogOptions};
pub use policy::{Policy, PolicyError};
pub use rules::{RequestRules, StageSet, Subject};
pub use sink::{AuditSink, Mode, SinkError};
pub use webhook::{WebhookOptions, WebhookSink};
