//! One call of a webhook: the question out, the answer checked, its warnings and annotations noted.

use std::time::Instant;

use bailiwick_machinery::{ApiError, yaml};
use bailiwick_merge::go_format::json_type;
use bailiwick_schema::decode;
use bailiwick_webhook::{ConnectError, RawAnswer};
use serde_json::Value;

use super::hook::{Hook, Invocation, SideEffects};
use super::review::{self, Answer, Unusable};
use crate::attributes::{Attributes, DryRun};
use crate::notes::AnnotationLevel;

/// Why a call came to nothing.
#[derive(Debug)]
pub(super) enum Failure {
    /// The webhook could not be asked or did not answer: its failure policy decides. The code is for metrics.
    Calling { reason: String, code: u16 },
    /// The webhook refused.
    Rejected(ApiError),
    /// The request cannot go on whatever the policy.
    Internal(ApiError),
}

impl Failure {
    pub fn calling(reason: impl Into<String>, code: u16) -> Self {
        Self::Calling { reason: reason.into(), code }
    }

    /// The 500 of a call that had to succeed.
    pub fn refusal(hook: &Hook, reason: &str) -> ApiError {
        ApiError::internal(format!("failed calling webhook {:?}: {reason}", &*hook.name))
    }
}

/// The longest part of a text that is no review which messages show.
const SHOWN_BYTES_MAX: usize = 2048;

/// Asks a webhook.
pub(super) async fn call(
    hook: &Hook,
    attributes: &Attributes<'_>,
    invocation: &Invocation<'_>,
) -> Result<Answer, Failure> {
    if attributes.dry_run == DryRun::Yes {
        match hook.side_effects {
            SideEffects::None => {}
            SideEffects::Unsaid => return Err(Failure::calling("Webhook SideEffects is nil", 400)),
            SideEffects::Some => {
                let text = format!("admission webhook {:?} does not support dry run", &*hook.name);
                return Err(Failure::Internal(ApiError::bad_request(text)));
            }
        }
    }
    let version = hook.review_version.ok_or_else(|| {
        let reason =
            "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)";
        Failure::calling(reason, 400)
    })?;
    let uid = uuid::Uuid::new_v4().to_string();
    let question = review::question(version, &uid, attributes, invocation)
        .map_err(|error| Failure::calling(format!("could not create admission objects: {error}"), 400))?;
    let failed = |reason: String, code: u16| Failure::calling(format!("failed to call webhook: {reason}"), code);
    let client = hook.client().await.map_err(|error| match error {
        ConnectError::Configuration(reason) => Failure::calling(format!("could not get REST client: {reason}"), 500),
        ConnectError::Service(reason) => failed(reason, 503),
    })?;
    let left = attributes.deadline.saturating_duration_since(Instant::now());
    let posted = client.post(question, hook.timeout.min(left)).await;
    let posted = posted.map_err(|error| failed(error.to_string(), 503))?;
    let value = read(&posted).map_err(|(reason, code)| failed(reason, code))?;
    let answer = review::answer(version, &uid, hook.kind, &value).map_err(|unusable| match unusable {
        Unusable::Undecodable(reason) => failed(reason, 503),
        Unusable::Invalid(reason) => Failure::calling(format!("received invalid webhook response: {reason}"), 503),
    })?;
    for (key, value) in &answer.audit_annotations {
        attributes.notes.annotate(format!("{}/{key}", hook.name), value.as_str(), AnnotationLevel::Metadata);
    }
    answer.warnings.iter().filter(|warning| !warning.is_empty()).for_each(|warning| attributes.notes.warn(warning));
    if !answer.allowed {
        return Err(Failure::Rejected(review::refusal(&hook.name, answer.result)));
    }
    Ok(answer)
}

/// The JSON a webhook answered, or what its answer says instead.
fn read(answer: &RawAnswer) -> Result<Value, (String, u16)> {
    let media = answer.content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if !(200..=206).contains(&answer.status) {
        return Err((refused(answer, &media), answer.status));
    }
    if answer.body.is_empty() {
        let shown = if media.is_empty() { "application/json" } else { &answer.content_type };
        let text = format!("0-length response with status code: {} and content type: {shown}", answer.status);
        return Err((text, 503));
    }
    let unreadable = |error: String| (format!("couldn't get version/kind; json parse error: {error}"), 503);
    let value = match decode::check_syntax(&answer.body) {
        Ok(()) => serde_json::from_slice(&answer.body).map_err(|error| unreadable(error.to_string()))?,
        // What is no JSON is read as YAML, as upstream's decoders do.
        Err(_) => {
            let text = String::from_utf8_lossy(&answer.body);
            yaml::decode(&text).map_err(|error| unreadable(error.to_string()))?.value
        }
    };
    match json_type(&value) {
        "object" => Ok(value),
        other => Err(unreadable(format!(
            "json: cannot unmarshal {other} into Go value of type struct {{ APIVersion string \
             \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
        ))),
    }
}

/// What a client of Go's says of a status that is no success: the message of a Status, else its own for the code.
fn refused(answer: &RawAnswer, media: &str) -> String {
    let status: Option<Value> = serde_json::from_slice(&answer.body).ok();
    let message = status.as_ref().filter(|value| value["kind"] == "Status").and_then(|value| value["message"].as_str());
    if let Some(message) = message.filter(|message| !message.is_empty()) {
        return message.to_owned();
    }
    let shown = answer.body.get(..SHOWN_BYTES_MAX.min(answer.body.len())).unwrap_or_default();
    let said = match media.is_empty() || media.starts_with("text/") {
        true => String::from_utf8_lossy(shown).trim().to_owned(),
        false => "unknown".to_owned(),
    };
    match answer.status {
        400 => "the server rejected our request for an unknown reason".to_owned(),
        401 => "the server has asked for the client to provide credentials".to_owned(),
        403 | 415 => said,
        404 => "the server could not find the requested resource".to_owned(),
        405 => "the server does not allow this method on the requested resource".to_owned(),
        406 if said.is_empty() || said == "unknown" => {
            "the server was unable to respond with a content type that the client supports".to_owned()
        }
        406 => said,
        409 => "the server reported a conflict".to_owned(),
        422 => "the server rejected our request due to an error in our request".to_owned(),
        429 => "the server has received too many requests and has asked us to try again later".to_owned(),
        503 => "the server is currently unable to handle the request".to_owned(),
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
                .to_owned()
        }
        code if code >= 500 => format!("an error on the server ({said:?}) has prevented the request from succeeding"),
        code => format!("the server responded with the status code {code} but did not return more information"),
    }
}
