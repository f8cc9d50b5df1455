//! One call of a webhook: the question out, the answer checked, its warnings and annotations noted.

use std::time::Instant;

use bailiwick_machinery::ApiError;
use bailiwick_webhook::ConnectError;

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
    let value = posted.object().map_err(|unreadable| failed(unreadable.reason, unreadable.code))?;
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
