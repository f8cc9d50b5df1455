//! MutatingAdmissionWebhook: webhooks that may patch the object, one after the other.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use bailiwick_machinery::ApiError;
use bailiwick_machinery::sensitivity::Sensitivity;
use bailiwick_machinery::status::ApiResult;
use bailiwick_merge::JsonPatch;
use serde_json::{Value, json};

use super::call::{Failure, call};
use super::hook::{Hook, Invocation, ReinvocationPolicy};
use super::waiting::calling;
use super::{WebhookIndex, WebhookMetrics};
use crate::attributes::{Attributes, Operation};
use crate::cel_request::FailurePolicy;
use crate::chain::{Lookup, Phase, Plugin};
use crate::matching::is_admission_configuration;
use crate::notes::AnnotationLevel;
use crate::reinvocation::Run;

const NAME: &str = "MutatingAdmissionWebhook";

/// The plugin.
pub struct MutatingWebhooks {
    index: WebhookIndex,
    metrics: Arc<WebhookMetrics>,
}

impl MutatingWebhooks {
    pub fn new(index: WebhookIndex, metrics: Arc<WebhookMetrics>) -> Self {
        Self { index, metrics }
    }
}

/// What is remembered between the two runs of the first round.
#[derive(Debug, Default)]
struct Memory {
    /// Webhooks that ask to see later changes, and have been called since the last one.
    called: HashSet<Box<str>>,
    /// Those that must be called again.
    again: HashSet<Box<str>>,
    /// The object as the webhooks left it, kept only for those who ask.
    last: Option<Value>,
}

impl Memory {
    fn changed(&mut self) {
        self.again.extend(self.called.drain());
    }
}

#[async_trait]
impl Plugin for MutatingWebhooks {
    fn name(&self) -> &'static str {
        NAME
    }

    fn handles(&self, operation: Operation, phase: Phase) -> bool {
        phase == Phase::Mutate && self.index.concerns(operation)
    }

    async fn mutate(&self, attributes: &mut Attributes<'_>, lookup: &dyn Lookup) -> ApiResult<()> {
        if is_admission_configuration(attributes) {
            return Ok(());
        }
        let again = attributes.reinvocation.run() == Run::Again;
        if again {
            let memory: &mut Memory = attributes.reinvocation.remembered(NAME);
            // The plugins of the server may have changed the object since.
            if memory.last.is_some() && memory.last.as_ref() != attributes.object.as_deref() {
                memory.changed();
            }
        }
        let hooks = self.index.hooks().clone();
        for (at, hook) in hooks.iter().enumerate() {
            let called = self.one(hook, at, attributes, lookup).await?;
            if called && hook.reinvocation == ReinvocationPolicy::IfNeeded {
                attributes.reinvocation.remembered::<Memory>(NAME).called.insert(hook.uid.clone());
            }
        }
        if !again {
            let object = attributes.object.as_deref().cloned();
            let memory: &mut Memory = attributes.reinvocation.remembered(NAME);
            if !memory.called.is_empty() || !memory.again.is_empty() {
                memory.last = object;
            }
        }
        Ok(())
    }
}

impl MutatingWebhooks {
    /// Calls one webhook if it is its turn; whether it was.
    async fn one(
        &self,
        hook: &Hook,
        at: usize,
        attributes: &mut Attributes<'_>,
        lookup: &dyn Lookup,
    ) -> ApiResult<bool> {
        let round = match attributes.reinvocation.run() {
            Run::First => 0,
            Run::Again => 1,
        };
        if round == 1 && !attributes.reinvocation.remembered::<Memory>(NAME).again.contains(&hook.uid) {
            return Ok(false);
        }
        let Some(invocation) = hook.invocation(attributes, lookup, &self.metrics).await? else { return Ok(false) };
        let place = format!("round_{round}_index_{at}");
        let started = Instant::now();
        let outcome = calling(self.patched(hook, attributes, &invocation, &place)).await;
        self.metrics.called(hook, attributes.operation, started.elapsed(), outcome.as_ref().err());
        let mutated = matches!(&outcome, Ok(Some(_)));
        let value = json!({"configuration": hook.configuration, "webhook": hook.name, "mutated": mutated});
        let key = format!("mutation.webhook.admission.k8s.io/{place}");
        attributes.notes.annotate(key, value.to_string(), AnnotationLevel::Metadata);
        let new = match outcome {
            Ok(new) => new,
            Err(Failure::Rejected(error) | Failure::Internal(error)) => return Err(error),
            Err(Failure::Calling { reason, .. }) if hook.failure_policy == FailurePolicy::Fail => {
                return Err(Failure::refusal(hook, &reason));
            }
            Err(Failure::Calling { reason, .. }) => {
                tracing::warn!(webhook = &*hook.name, reason, "failed calling webhook, failing open");
                let key = format!("failed-open.mutation.webhook.admission.k8s.io/{place}");
                attributes.notes.annotate(key, &*hook.name, AnnotationLevel::Metadata);
                if Instant::now() >= attributes.deadline {
                    return Err(ApiError::timeout("request did not complete within requested timeout", 0));
                }
                None
            }
        };
        if let (Some(new), Some(object)) = (new, attributes.object.as_deref_mut()) {
            *object = new;
            attributes.reinvocation.remembered::<Memory>(NAME).changed();
            attributes.reinvocation.request();
        }
        Ok(true)
    }

    /// What the webhook makes of the object, in the version the client speaks; `None` when it leaves it as it is.
    async fn patched(
        &self,
        hook: &Hook,
        attributes: &Attributes<'_>,
        invocation: &Invocation<'_>,
        place: &str,
    ) -> Result<Option<Value>, Failure> {
        let answer = call(hook, attributes, invocation).await?;
        if answer.patch.is_empty() {
            return Ok(None);
        }
        let undecodable =
            |text: String| Failure::calling(format!("received undecodable patch in webhook response: {text}"), 503);
        let value: Value = match bailiwick_schema::decode::check_syntax(&answer.patch) {
            Ok(()) => serde_json::from_slice(&answer.patch).map_err(|error| undecodable(error.to_string()))?,
            Err(error) => return Err(undecodable(error.to_string())),
        };
        let patch =
            JsonPatch::from_value(value.clone()).map_err(|error| undecodable(go_patch_error(&error.to_string())))?;
        if value.as_array().is_none_or(Vec::is_empty) {
            return Ok(None);
        }
        let internal = |error: String| Failure::Internal(ApiError::internal(error));
        let Some(before) = invocation.versioned.object.as_deref() else {
            return Err(internal(format!(
                "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
                &*hook.name
            )));
        };
        if answer.patch_type != "JSONPatch" {
            return Err(Failure::calling(format!("unsupported patch type {:?}", answer.patch_type), 400));
        }
        let mut patched = before.clone();
        patch.apply(&mut patched).map_err(|error| internal(error.to_string()))?;
        let (host, kind) = (attributes.host, invocation.matched.kind);
        let settled = host.settle(patched, before, kind).map_err(internal)?;
        let resource = attributes.resource;
        let sensitivity = Sensitivity::of(&resource.group, &resource.plural, attributes.subresource);
        let noted = json!({
            "configuration": hook.configuration,
            "webhook": hook.name,
            "patch": noted_patch(value, sensitivity),
            "patchType": "JSONPatch",
        });
        let key = format!("patch.webhook.admission.k8s.io/{place}");
        attributes.notes.annotate(key, noted.to_string(), AnnotationLevel::Request);
        if settled == *before {
            return Ok(None);
        }
        if kind == attributes.kind {
            return Ok(Some(settled));
        }
        let own = host.convert(&settled, attributes.kind).await.map_err(internal)?;
        let before = attributes.object.as_deref().unwrap_or(&Value::Null);
        host.settle(own, before, attributes.kind).map(Some).map_err(internal)
    }
}

/// A patch as audit events show it: without values where they must not be seen.
fn noted_patch(mut patch: Value, sensitivity: Sensitivity) -> Value {
    let operations = patch.as_array_mut().filter(|_| sensitivity.conceals());
    for value in operations.into_iter().flatten().filter_map(|operation| operation.get_mut("value")) {
        *value = "REDACTED".into();
    }
    patch
}

/// The text of Go's JSON patch library, whose types are called otherwise than those of the PATCH handler.
fn go_patch_error(text: &str) -> String {
    let text = text.strip_prefix("error decoding patch: ").unwrap_or(text);
    text.replace("[]handlers.jsonPatchOp", "jsonpatch.Patch").replace("handlers.jsonPatchOp", "jsonpatch.Operation")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_of_a_secret_is_noted_without_its_values() {
        let patch =
            json!([{"op": "add", "path": "/data/a", "value": "aHVudGVyMg=="}, {"op": "remove", "path": "/data/b"}]);
        assert_eq!(noted_patch(patch.clone(), Sensitivity::Nothing), patch);
        let noted = json!([{"op": "add", "path": "/data/a", "value": "REDACTED"}, {"op": "remove", "path": "/data/b"}]);
        assert_eq!(noted_patch(patch, Sensitivity::Secret), noted);
    }
}
