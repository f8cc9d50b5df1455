//! The spans of requests, where traces are kept.
//!
//! Who runs the cluster or watches over it may say that a request belongs to their trace. Others cannot make us record:
//! their requests begin traces of their own, as many as are sampled, that remember where they came from.

use std::future::Future;
use std::sync::Arc;

use bailiwick_machinery::user::UserInfo;
use bailiwick_traces::{Attribute, Outcome, Span, TraceContext, Tracer, in_span};
use http::Response;
use http::header::USER_AGENT;
use http::request::Parts;

use crate::http::ResponseBody;

/// The name upstream gives the span of a request.
const SPAN: &str = "KubernetesAPI";
/// Those who may decide over our traces, as upstream has it.
const TRUSTED: [&str; 2] = [UserInfo::MASTERS, "system:monitoring"];
/// How much of a text from outside is kept.
const TEXT_CHARS_MAX: usize = 256;

/// The span of a request by `user`, if it is traced.
pub fn begin(tracer: Option<&Arc<Tracer>>, parts: &Parts, user: Option<&UserInfo>) -> Option<Span> {
    let tracer = tracer?;
    let sent = parts.headers.get("traceparent").and_then(|value| value.to_str().ok()).and_then(TraceContext::parse);
    if user.is_some_and(|user| TRUSTED.iter().any(|group| user.in_group(group))) {
        tracer.begin(SPAN, sent)
    } else {
        tracer.begin_linked(SPAN, sent)
    }
}

/// Runs `work` as part of a span, if there is one.
pub async fn within<F: Future>(context: Option<TraceContext>, work: F) -> F::Output {
    match context {
        Some(context) => in_span(context, work).await,
        None => work.await,
    }
}

/// The request is answered.
pub fn end(span: Option<Span>, parts: &Parts, response: &Response<ResponseBody>) {
    let Some(span) = span else { return };
    let short = |text: &str| text.chars().take(TEXT_CHARS_MAX).collect::<String>();
    let status = response.status();
    let mut attributes = vec![
        Attribute::Text("http.request.method", parts.method.as_str().to_owned()),
        Attribute::Text("url.path", short(parts.uri.path())),
        Attribute::Number("http.response.status_code", i64::from(status.as_u16())),
    ];
    for (name, value) in
        [("user_agent.original", parts.headers.get(USER_AGENT)), ("audit-id", response.headers().get("audit-id"))]
    {
        if let Some(text) = value.and_then(|value| value.to_str().ok()) {
            attributes.push(Attribute::Text(name, short(text)));
        }
    }
    let outcome = if status.is_server_error() { Outcome::Failed } else { Outcome::Fine };
    span.end(outcome, attributes);
}
