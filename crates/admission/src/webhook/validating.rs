//! ValidatingAdmissionWebhook: webhooks that may refuse the request, all asked at once.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use bailiwick_machinery::ApiError;
use bailiwick_machinery::status::ApiResult;
use futures::future::join_all;

use super::call::{Failure, call};
use super::hook::{Hook, Invocation};
use super::waiting::calling;
use super::{WebhookIndex, WebhookMetrics};
use crate::attributes::{Attributes, Operation};
use crate::cel_request::FailurePolicy;
use crate::chain::{Effects, Lookup, Phase, Plugin};
use crate::matching::is_admission_configuration;
use crate::notes::AnnotationLevel;

/// The plugin.
pub struct ValidatingWebhooks {
    index: WebhookIndex,
    metrics: Arc<WebhookMetrics>,
}

impl ValidatingWebhooks {
    pub fn new(index: WebhookIndex, metrics: Arc<WebhookMetrics>) -> Self {
        Self { index, metrics }
    }
}

#[async_trait]
impl Plugin for ValidatingWebhooks {
    fn name(&self) -> &'static str {
        "ValidatingAdmissionWebhook"
    }

    fn handles(&self, operation: Operation, phase: Phase) -> bool {
        phase == Phase::Validate && self.index.concerns(operation)
    }

    async fn validate(&self, attributes: &Attributes<'_>, lookup: &dyn Lookup, _: &mut Effects) -> ApiResult<()> {
        if is_admission_configuration(attributes) {
            return Ok(());
        }
        let hooks = self.index.hooks().clone();
        let mut relevant: Vec<(&Hook, Invocation<'_>)> = Vec::new();
        for hook in hooks.iter() {
            if let Some(invocation) = hook.invocation(attributes, lookup, &self.metrics).await? {
                relevant.push((hook, invocation));
            }
        }
        if relevant.is_empty() {
            return Ok(());
        }
        if Instant::now() >= attributes.deadline {
            return Err(ApiError::timeout("request did not complete within requested timeout", 0));
        }
        let calls =
            relevant.iter().enumerate().map(|(at, (hook, invocation))| self.one(hook, at, attributes, invocation));
        // Of several refusals the first webhook's is told; upstream tells that of the fastest.
        calling(join_all(calls)).await.into_iter().collect()
    }
}

impl ValidatingWebhooks {
    async fn one(
        &self,
        hook: &Hook,
        at: usize,
        attributes: &Attributes<'_>,
        invocation: &Invocation<'_>,
    ) -> ApiResult<()> {
        let started = Instant::now();
        let outcome = call(hook, attributes, invocation).await.map(drop);
        self.metrics.called(hook, attributes.operation, started.elapsed(), outcome.as_ref().err());
        match outcome {
            Ok(()) => Ok(()),
            Err(Failure::Rejected(error) | Failure::Internal(error)) => Err(error),
            Err(Failure::Calling { reason, .. }) if hook.failure_policy == FailurePolicy::Fail => {
                Err(Failure::refusal(hook, &reason))
            }
            Err(Failure::Calling { reason, .. }) => {
                tracing::warn!(webhook = &*hook.name, reason, "failed calling webhook, failing open");
                let key = format!("failed-open.validating.webhook.admission.k8s.io/round_0_index_{at}");
                attributes.notes.annotate(key, &*hook.name, AnnotationLevel::Metadata);
                Ok(())
            }
        }
    }
}
