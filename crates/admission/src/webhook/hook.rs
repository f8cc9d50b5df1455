//! One webhook of a stored configuration, compiled: what it is about and how it is called.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bailiwick_cel::admission::Params;
use bailiwick_machinery::ApiError;
use bailiwick_machinery::object::name as object_name;
use bailiwick_machinery::status::ApiResult;
use bailiwick_webhook::{Endpoint, Trust, Webhook};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
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
    client_config: Value,
    /// Set up when first called; the reason when it cannot be.
    client: OnceLock<Result<Webhook, String>>,
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
    pub fn all_of(configuration: &Value, kind: WebhookKind) -> Arc<[Arc<Self>]> {
        let webhooks = configuration.get("webhooks").and_then(Value::as_array).into_iter().flatten();
        let name = object_name(configuration);
        webhooks.enumerate().map(|(at, webhook)| Arc::new(Self::new(name, at, webhook, kind))).collect()
    }

    fn new(configuration: &str, at: usize, webhook: &Value, kind: WebhookKind) -> Self {
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
            client_config: webhook.get("clientConfig").cloned().unwrap_or_default(),
            client: OnceLock::new(),
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

    /// The connection to the webhook.
    pub fn client(&self) -> Result<&Webhook, String> {
        let set_up = || {
            let service = self.client_config.get("service").filter(|service| !service.is_null());
            let url = match (text(&self.client_config, "url"), service) {
                ("", Some(service)) => {
                    return Err(format!(
                        "service {:?} in namespace {:?} cannot be called: there are no Services here, use url",
                        text(service, "name"),
                        text(service, "namespace")
                    ));
                }
                ("", None) => return Err("webhook configuration must have either service or URL".to_owned()),
                (url, _) => url,
            };
            let bundle = STANDARD.decode(text(&self.client_config, "caBundle")).map_err(|error| error.to_string())?;
            let mut endpoint = Endpoint::vouched(url, &bundle);
            if bundle.is_empty() {
                endpoint.trust = Trust::System;
            }
            Webhook::at(endpoint, self.timeout).map_err(|error| error.to_string())
        };
        self.client.get_or_init(set_up).as_ref().map_err(Clone::clone)
    }
}

/// A webhook's match with a request.
pub(super) struct Invocation<'a> {
    pub matched: Matched<'a>,
    pub versioned: Versioned<'a>,
}
