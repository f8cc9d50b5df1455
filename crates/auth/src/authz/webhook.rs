//! An authorizer elsewhere, asked by SubjectAccessReview over HTTPS.
//!
//! Match conditions decide whether it is asked at all; answers are remembered for a while; calls that fail for a moment are
//! tried again, and calls that fail for good are decided by the failure policy.

mod cache;
mod conditions;
mod review;

use std::time::Duration;

use async_trait::async_trait;
use bailiwick_webhook::{Error, Webhook};
use serde_json::Value;
use tokio::time::Instant;

use self::cache::Answers;
pub use self::conditions::{Condition, ConditionError, Conditions};
pub use self::review::Version;
use super::explain::Step;
use super::{Attributes, Decision, OnError, Reason, RemoteAuthorizer};

/// How often a call that fails for a moment is made, and the pause before the second; each further one is half as long
/// again. Upstream's figures.
const ATTEMPTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Requests whose attributes are longer are not remembered: their author chooses them, and could fill the memory.
const REMEMBERED_BYTES_MAX: usize = 10_000;

/// What a webhook authorizer is made of.
pub struct Options {
    pub name: String,
    pub version: Version,
    /// How long answers are remembered; zero for not at all.
    pub authorized_ttl: Duration,
    pub unauthorized_ttl: Duration,
    /// What becomes of a request when the webhook cannot be asked.
    pub on_error: OnError,
    pub conditions: Conditions,
}

/// See the module.
pub struct WebhookAuthorizer {
    webhook: Webhook,
    options: Options,
    answers: Answers,
    pause: Duration,
}

/// What a webhook said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Answer {
    allowed: bool,
    denied: bool,
    reason: String,
}

impl WebhookAuthorizer {
    pub fn new(webhook: Webhook, options: Options) -> Self {
        Self { webhook, options, answers: Answers::default(), pause: FIRST_PAUSE }
    }

    /// The same with another pause between attempts.
    #[must_use]
    pub fn with_pause(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }

    async fn ask(&self, spec: &Value) -> Result<Answer, Error> {
        let review = self.options.version.review(spec);
        let mut pause = self.pause;
        let mut attempt = 1;
        let answered = loop {
            match self.webhook.call(&review).await {
                Err(error) if error.is_transient() && attempt < ATTEMPTS => {
                    tokio::time::sleep(pause).await;
                    pause = pause.mul_f32(1.5);
                    attempt += 1;
                }
                outcome => break outcome?,
            }
        };
        let status = answered.get("status").unwrap_or(&Value::Null);
        let flag = |field: &str| status.get(field).and_then(Value::as_bool).unwrap_or_default();
        let reason = status.get("reason").and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(Answer { allowed: flag("allowed"), denied: flag("denied"), reason })
    }

    fn failed(&self, error: String) -> Decision {
        Decision::Failed { on_error: self.options.on_error, reason: Reason::None, error }
    }

    /// How long an answer is remembered.
    fn lifetime(&self, attributes: &Attributes<'_>, answer: &Answer) -> Option<Duration> {
        let ttl = if answer.allowed { self.options.authorized_ttl } else { self.options.unauthorized_ttl };
        (!ttl.is_zero() && review::attributes_len(attributes) < REMEMBERED_BYTES_MAX).then_some(ttl)
    }
}

#[async_trait]
impl RemoteAuthorizer for WebhookAuthorizer {
    async fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        let spec = review::spec(attributes);
        match self.options.conditions.matches(&spec) {
            Err(error) => return self.failed(error),
            Ok(false) => return Decision::NoOpinion(Reason::None),
            Ok(true) => {}
        }
        let key = spec.to_string();
        let answer = match self.answers.get(&key, Instant::now()) {
            Some(answer) => answer,
            None => {
                let answer = match self.ask(&spec).await {
                    Ok(answer) => answer,
                    Err(error) => {
                        tracing::error!(%error, authorizer = self.options.name, "authorization webhook failed");
                        return self.failed(error.to_string());
                    }
                };
                if let Some(ttl) = self.lifetime(attributes, &answer) {
                    self.answers.put(key, answer.clone(), Instant::now(), ttl);
                }
                answer
            }
        };
        let reason = Reason::Owned(answer.reason);
        match (answer.denied, answer.allowed) {
            (true, true) => Decision::Failed {
                on_error: OnError::Deny,
                reason,
                error: "webhook subject access review returned both allow and deny response".to_owned(),
            },
            (true, false) => Decision::Deny(reason),
            (false, true) => Decision::Allow(reason),
            (false, false) => Decision::NoOpinion(reason),
        }
    }

    async fn explain(&self, attributes: &Attributes<'_>) -> Step {
        let spec = review::spec(attributes);
        let name = format!("webhook {:?}", self.options.name);
        if let Ok(false) = self.options.conditions.matches(&spec) {
            let reason = Reason::Static("not asked: a match condition does not hold");
            return Step::of(&name, &Decision::NoOpinion(reason));
        }
        Step::of(&name, &self.authorize(attributes).await)
    }

    fn rules_error(&self) -> String {
        "webhook authorizer does not support user rule resolution".to_owned()
    }
}
