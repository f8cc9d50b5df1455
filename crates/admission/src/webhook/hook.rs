//! One webhook of a stored configuration, compiled: what it is about and how it is called.

use std::sync::Arc;
use std::time::Duration;

use bailiwick_cel::admission::Params;
use bailiwick_machinery::ApiError;
use bailiwick_machinery::object::name as object_name;
use bailiwick_machinery::status::ApiResult;
use bailiwick_webhook::services::{ServiceReference, ServiceResolver};
use bailiwick_webhook::{ConfiguredWebhook, ConnectError, Webhook, WebhookAddress};
use serde_json::Value;

use super::{WebhookKind, WebhookMetrics};
use crate::attributes::Attributes;
use crate::cel_request::{FailurePolicy, MatchConditions, Verdict};
use crate::chain::Lookup;
use crate::host::Versioned;
use crate::matching::{Criteria, Matched};

/// Upstream's, for configurations stored without one.
const DEFAULT_TIMEOUT_SECONDS: u64 = 10;

/// A webhook.
pub(super) struct Hook {
    pub name: Box<str>,
    pub configuration: Box<str>,
    /// Tells it from all others: webhooks of old configurations may share a name.
    pub uid: Box<str>,
    pub kind: WebhookKind,
    pub criteria: Criteria,
    pub failure_policy: FailurePolicy,
    pub timeout: Duration,
    pub side_effects: SideEffects,
    pub reinvocation: ReinvocationPolicy,
    /// The first of the webhook's that we speak.
    pub review_version: Option<ReviewVersion>,
    conditions: MatchConditions,
    client: ConfiguredWebhook,
}

/// What a webhook does besides answering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SideEffects {
    None,
    Some,
    /// The configuration does not say.
    Unsaid,
}

/// Whether a mutating webhook is asked again when others changed the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReinvocationPolicy {
    Never,
    IfNeeded,
}

/// The forms of AdmissionReview.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReviewVersion {
    V1,
    V1beta1,
}

fn text<'a>(holder: &'a Value, field: &str) -> &'a str {
    holder.get(field).and_then(Value::as_str).unwrap_or_default()
}

impl Hook {
    /// All webhooks of a configuration.
    pub fn all_of(configuration: &Value, kind: WebhookKind, services: &Arc<dyn ServiceResolver>) -> Arc<[Arc<Self>]> {
        let webhooks = configuration.get("webhooks").and_then(Value::as_array).into_iter().flatten();
        let name = object_name(configuration);
        webhooks.enumerate().map(|(at, webhook)| Arc::new(Self::new(name, at, webhook, kind, services))).collect()
    }

    fn new(
        configuration: &str,
        at: usize,
        webhook: &Value,
        kind: WebhookKind,
        services: &Arc<dyn ServiceResolver>,
    ) -> Self {
        let name = text(webhook, "name");
        let versions = webhook.get("admissionReviewVersions").and_then(Value::as_array).into_iter().flatten();
        let seconds = webhook.get("timeoutSeconds").and_then(Value::as_u64).unwrap_or(DEFAULT_TIMEOUT_SECONDS);
        Self {
            name: name.into(),
            configuration: configuration.into(),
            uid: format!("{configuration}/{name}/{at}").into(),
            kind,
            criteria: Criteria::of_webhook(webhook),
            failure_policy: FailurePolicy::of(webhook),
            timeout: Duration::from_secs(seconds),
            side_effects: match webhook.get("sideEffects").and_then(Value::as_str) {
                Some("None" | "NoneOnDryRun") => SideEffects::None,
                Some(_) => SideEffects::Some,
                None => SideEffects::Unsaid,
            },
            reinvocation: match text(webhook, "reinvocationPolicy") {
                "IfNeeded" => ReinvocationPolicy::IfNeeded,
                _ => ReinvocationPolicy::Never,
            },
            review_version: versions.filter_map(Value::as_str).find_map(|version| match version {
                "v1" => Some(ReviewVersion::V1),
                "v1beta1" => Some(ReviewVersion::V1beta1),
                _ => None,
            }),
            conditions: MatchConditions::compile(webhook, Params::Absent),
            client: client(webhook.get("clientConfig").unwrap_or(&Value::Null), Duration::from_secs(seconds), services),
        }
    }

    /// Whether the webhook is to be called for a request, and with which version of its objects.
    pub async fn invocation<'a>(
        &self,
        attributes: &'a Attributes<'_>,
        lookup: &dyn Lookup,
        metrics: &WebhookMetrics,
    ) -> ApiResult<Option<Invocation<'a>>> {
        let Some(matched) = self.criteria.matches(attributes, lookup)? else { return Ok(None) };
        let versioned = Versioned::of(attributes, matched).await?;
        if !self.conditions.is_empty() {
            match self.conditions.evaluate_request(attributes, matched, &versioned, self.failure_policy) {
                Verdict::Matches => {}
                Verdict::Excluded(_) => {
                    metrics.excluded(self, attributes.operation);
                    return Ok(None);
                }
                Verdict::Failed(error) => {
                    metrics.condition_failed(self, attributes.operation);
                    let resource = attributes.resource.group_resource();
                    return Err(ApiError::forbidden(&resource, attributes.name, &error));
                }
            }
        }
        Ok(Some(Invocation { matched, versioned }))
    }

    /// The connection to the webhook; the reason if there can be none.
    pub async fn client(&self) -> Result<Arc<Webhook>, ConnectError> {
        self.client.connection().await
    }
}

/// How a webhook is reached, by its configuration. Without a bundle the machine's own authorities vouch for it.
fn client(config: &Value, timeout: Duration, services: &Arc<dyn ServiceResolver>) -> ConfiguredWebhook {
    let service = config.get("service").filter(|service| !service.is_null());
    let address = match (text(config, "url"), service) {
        ("", Some(service)) => WebhookAddress::Service(ServiceReference {
            namespace: text(service, "namespace").to_owned(),
            name: text(service, "name").to_owned(),
            path: service.get("path").and_then(Value::as_str).map(str::to_owned),
            port: service.get("port").and_then(Value::as_u64).and_then(|port| u16::try_from(port).ok()),
        }),
        ("", None) => WebhookAddress::Missing("webhook configuration must have either service or URL"),
        (url, _) => WebhookAddress::Url(url.to_owned()),
    };
    ConfiguredWebhook::new(address, text(config, "caBundle"), timeout, services.clone())
}

/// A webhook's match with a request.
pub(super) struct Invocation<'a> {
    pub matched: Matched<'a>,
    pub versioned: Versioned<'a>,
}
