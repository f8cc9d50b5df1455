//! How webhooks fare, by upstream's names.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::call::Failure;
use super::hook::Hook;
use crate::attributes::Operation;
use crate::cel_request::FailurePolicy;

/// Upstream's buckets, in seconds.
const BUCKETS: [f64; 8] = [0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0];
/// Higher codes count as this one, so that webhooks cannot make up labels without end.
const CODE_MAX: u16 = 600;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    name: String,
    r#type: &'static str,
    operation: &'static str,
    rejected: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    name: String,
    r#type: &'static str,
    operation: &'static str,
    code: u16,
    rejected: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RejectionLabels {
    name: String,
    r#type: &'static str,
    operation: &'static str,
    error_type: &'static str,
    rejection_code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailOpenLabels {
    name: String,
    r#type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ConditionLabels {
    name: String,
    kind: &'static str,
    r#type: &'static str,
    operation: &'static str,
}

fn histogram() -> Histogram {
    Histogram::new(BUCKETS)
}

/// What became of calls of webhooks.
pub struct WebhookMetrics {
    registry: Registry,
    durations: Family<CallLabels, Histogram, fn() -> Histogram>,
    requests: Family<RequestLabels, Counter>,
    rejections: Family<RejectionLabels, Counter>,
    fail_open: Family<FailOpenLabels, Counter>,
    condition_errors: Family<ConditionLabels, Counter>,
    exclusions: Family<ConditionLabels, Counter>,
}

impl Default for WebhookMetrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let metrics = Self {
            durations: Family::new_with_constructor(histogram as fn() -> Histogram),
            requests: Family::default(),
            rejections: Family::default(),
            fail_open: Family::default(),
            condition_errors: Family::default(),
            exclusions: Family::default(),
            registry: Registry::default(),
        };
        let name = |name: &str| format!("apiserver_admission_{name}");
        registry.register(
            name("webhook_admission_duration_seconds"),
            "Latency of admission webhooks by name, operation and type",
            metrics.durations.clone(),
        );
        // The library appends `_total` to counters on its own.
        registry.register(name("webhook_request"), "Calls of admission webhooks", metrics.requests.clone());
        registry.register(
            name("webhook_rejection_count"),
            "Refusals of admission webhooks",
            metrics.rejections.clone(),
        );
        registry.register(
            name("webhook_fail_open_count"),
            "Admission webhooks that failed and were passed over",
            metrics.fail_open.clone(),
        );
        registry.register(
            name("match_condition_evaluation_errors"),
            "Match conditions that failed",
            metrics.condition_errors.clone(),
        );
        registry.register(
            name("match_condition_exclusions"),
            "Calls that match conditions made needless",
            metrics.exclusions.clone(),
        );
        Self { registry, ..metrics }
    }
}

impl WebhookMetrics {
    /// Appends the text that Prometheus scrapes.
    pub fn encode(&self, text: &mut String) {
        if prometheus_client::encoding::text::encode(text, &self.registry).is_err() {
            tracing::error!("metrics of admission webhooks could not be encoded");
        }
        text.truncate(text.rfind("# EOF").unwrap_or(text.len()));
    }

    /// A call ended.
    pub(super) fn called(&self, hook: &Hook, operation: Operation, took: Duration, failure: Option<&Failure>) {
        let (code, rejected, error_type) = match failure {
            None => (200, false, ""),
            Some(Failure::Calling { code, .. }) => {
                (*code, hook.failure_policy == FailurePolicy::Fail, "calling_webhook_error")
            }
            Some(Failure::Rejected(error)) => (error.code, true, "no_error"),
            Some(Failure::Internal(_)) => (0, true, "apiserver_internal_error"),
        };
        let (name, kind, operation) = (hook.name.to_string(), hook.kind.metrics_type(), operation.as_str());
        let code = code.min(CODE_MAX);
        let shown = if rejected { "true" } else { "false" };
        let labels = CallLabels { name: name.clone(), r#type: kind, operation, rejected: shown };
        self.durations.get_or_create(&labels).observe(took.as_secs_f64());
        let labels = RequestLabels { name: name.clone(), r#type: kind, operation, code, rejected: shown };
        self.requests.get_or_create(&labels).inc();
        if rejected {
            let labels = RejectionLabels { name, r#type: kind, operation, error_type, rejection_code: code };
            self.rejections.get_or_create(&labels).inc();
        } else if failure.is_some() {
            self.fail_open.get_or_create(&FailOpenLabels { name, r#type: kind }).inc();
        }
    }

    pub(super) fn excluded(&self, hook: &Hook, operation: Operation) {
        self.exclusions.get_or_create(&condition_labels(hook, operation)).inc();
    }

    pub(super) fn condition_failed(&self, hook: &Hook, operation: Operation) {
        self.condition_errors.get_or_create(&condition_labels(hook, operation)).inc();
    }
}

fn condition_labels(hook: &Hook, operation: Operation) -> ConditionLabels {
    ConditionLabels {
        name: hook.name.to_string(),
        kind: "webhook",
        r#type: hook.kind.metrics_type(),
        operation: operation.as_str(),
    }
}
