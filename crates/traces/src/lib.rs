//! Traces of requests, sent by OTLP over gRPC to a collector.
//!
//! [`Tracer`] decides which requests are traced, gives each a [`Span`] and hands ended spans to a task that sends them in
//! batches; what the collector does not take in time is dropped, never waited for. [`in_span`] carries the identity of a
//! span to where other servers are called, who learn it from a `traceparent` header ([`current_traceparent`]). Without a
//! tracer none of this costs anything. Knows no API, and nothing of what spans are about.

mod config;
mod context;
mod export;
mod proto;
mod span;

pub use config::{ConfigError, TracingConfiguration};
pub use context::{TraceContext, current_traceparent, in_span};
pub use span::{Attribute, Exporting, Outcome, Span, Tracer};
