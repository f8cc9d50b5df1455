//! The plugins in their order, and what they need and give.

use std::sync::Arc;

use async_trait::async_trait;
use bailiwick_machinery::GroupResource;
use bailiwick_machinery::selector::LabelSelector;
use bailiwick_machinery::status::ApiResult;
use serde_json::Value;

use crate::attributes::{Attributes, Operation};
use crate::plugins::certificates::{CertificateApproval, CertificateSigning, CertificateSubjectRestriction};
use crate::webhook::WebhookMetrics;
use crate::{NamespaceLifecycle, ResourceQuota};

/// The two rounds of admission: first all changes, then all checks of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Mutate,
    Validate,
}

/// One rule of admission. Plugins are asked only for what they handle.
#[async_trait]
pub trait Plugin: Send + Sync {
    /// As `--enable-admission-plugins` names it.
    fn name(&self) -> &'static str;

    /// Whether the plugin has anything to do in this phase of this operation.
    fn handles(&self, operation: Operation, phase: Phase) -> bool;

    /// Whether the plugin has anything to say to this very request. Asked before every call, so it must be cheap.
    fn concerns(&self, _attributes: &Attributes<'_>) -> bool {
        true
    }

    /// Whether [`Plugin::validate`] adds to [`Effects`], and must run again when these have become stale.
    fn has_effects(&self) -> bool {
        false
    }

    /// Changes or refuses the request.
    async fn mutate(&self, _attributes: &mut Attributes<'_>, _lookup: &dyn Lookup) -> ApiResult<()> {
        Ok(())
    }

    /// Refuses the request, or adds what must be written with it.
    async fn validate(
        &self,
        _attributes: &Attributes<'_>,
        _lookup: &dyn Lookup,
        _effects: &mut Effects,
    ) -> ApiResult<()> {
        Ok(())
    }
}

/// A plugin that several chains share.
#[async_trait]
impl Plugin for Arc<dyn Plugin> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn handles(&self, operation: Operation, phase: Phase) -> bool {
        (**self).handles(operation, phase)
    }

    fn concerns(&self, attributes: &Attributes<'_>) -> bool {
        (**self).concerns(attributes)
    }

    fn has_effects(&self) -> bool {
        (**self).has_effects()
    }

    async fn mutate(&self, attributes: &mut Attributes<'_>, lookup: &dyn Lookup) -> ApiResult<()> {
        (**self).mutate(attributes, lookup).await
    }

    async fn validate(&self, attributes: &Attributes<'_>, lookup: &dyn Lookup, effects: &mut Effects) -> ApiResult<()> {
        (**self).validate(attributes, lookup, effects).await
    }
}

/// How a namespace stands to new content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceState {
    Missing,
    Active,
    /// Its phase is Terminating.
    Terminating,
}

/// Stored objects, current as of the last committed write. Answered from memory.
pub trait Lookup: Send + Sync {
    fn namespace_state(&self, name: &str) -> NamespaceState;

    /// Whether the labels of a namespace match; `None` when there is no such namespace.
    fn namespace_matches(&self, name: &str, selector: &LabelSelector) -> Option<bool>;

    /// A namespace as it is stored; `None` when there is no such namespace.
    fn namespace(&self, name: &str) -> Option<Arc<Value>>;

    /// The ResourceQuotas of a namespace in the order of their names, with `metadata.resourceVersion` set.
    fn resource_quotas(&self, namespace: &str) -> Vec<Arc<Value>>;
}

/// A status to store if the object is still at this version.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusWrite {
    pub resource: GroupResource,
    pub namespace: String,
    pub name: String,
    /// The version the new status was computed from.
    pub resource_version: String,
    /// The whole object with its new status.
    pub object: Value,
}

/// What must be committed together with the admitted object: all of it or nothing. When one of the writes finds its
/// object changed, [`Chain::effects_again`] tells what to write on the current state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Effects {
    pub writes: Vec<StatusWrite>,
}

/// Upstream's order of the plugins that exist here or may come; quota is last so that nothing refused is counted.
const ORDER: &[&str] = &[
    "NamespaceLifecycle",
    "ServiceAccount",
    "EventRateLimit",
    "OwnerReferencesPermissionEnforcement",
    "CertificateApproval",
    "CertificateSigning",
    "CertificateSubjectRestriction",
    PLUGINS_OF_THE_LIBRARY,
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
    "ResourceQuota",
];

/// Where plugins that upstream does not know stand.
const PLUGINS_OF_THE_LIBRARY: &str = "";

fn rank(name: &str) -> Option<usize> {
    let position = |wanted: &str| ORDER.iter().position(|known| *known == wanted);
    position(name).or_else(|| position(PLUGINS_OF_THE_LIBRARY))
}

/// All plugins, in order.
pub struct Chain {
    plugins: Vec<Box<dyn Plugin>>,
    webhook_metrics: Option<Arc<WebhookMetrics>>,
}

impl Default for Chain {
    /// The plugins that are on by default and need nothing but themselves.
    fn default() -> Self {
        Self::new(vec![
            Box::new(NamespaceLifecycle),
            Box::new(CertificateApproval),
            Box::new(CertificateSigning),
            Box::new(CertificateSubjectRestriction),
            Box::new(ResourceQuota),
        ])
    }
}

impl Chain {
    /// Puts the plugins in upstream's order.
    pub fn new(mut plugins: Vec<Box<dyn Plugin>>) -> Self {
        plugins.sort_by_key(|plugin| rank(plugin.name()));
        Self { plugins, webhook_metrics: None }
    }

    /// With the metrics that its webhooks keep.
    #[must_use]
    pub fn with_webhook_metrics(mut self, metrics: Arc<WebhookMetrics>) -> Self {
        self.webhook_metrics = Some(metrics);
        self
    }

    /// Appends its metrics as Prometheus scrapes them.
    pub fn encode_metrics(&self, text: &mut String) {
        if let Some(metrics) = &self.webhook_metrics {
            metrics.encode(text);
        }
    }

    /// The first round; if a webhook or policy changed the object, all plugins run once more.
    pub async fn mutate(&self, attributes: &mut Attributes<'_>, lookup: &dyn Lookup) -> ApiResult<()> {
        loop {
            for plugin in &self.plugins {
                if plugin.handles(attributes.operation, Phase::Mutate) && plugin.concerns(attributes) {
                    plugin.mutate(attributes, lookup).await?;
                }
            }
            if !attributes.reinvocation.begin_again() {
                return Ok(());
            }
        }
    }

    /// The second round, on the object as it will be stored.
    pub async fn validate(&self, attributes: &Attributes<'_>, lookup: &dyn Lookup) -> ApiResult<Effects> {
        let mut effects = Effects::default();
        for plugin in &self.plugins {
            if plugin.handles(attributes.operation, Phase::Validate) && plugin.concerns(attributes) {
                plugin.validate(attributes, lookup, &mut effects).await?;
            }
        }
        Ok(effects)
    }

    /// What must be written with an object that has passed [`Chain::validate`], on the current state. The other plugins
    /// are not asked again: webhooks may have effects of their own.
    pub async fn effects_again(&self, attributes: &Attributes<'_>, lookup: &dyn Lookup) -> ApiResult<Effects> {
        let mut effects = Effects::default();
        for plugin in self.plugins.iter().filter(|plugin| plugin.has_effects()) {
            if plugin.handles(attributes.operation, Phase::Validate) && plugin.concerns(attributes) {
                plugin.validate(attributes, lookup, &mut effects).await?;
            }
        }
        Ok(effects)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Named(&'static str);

    impl Plugin for Named {
        fn name(&self) -> &'static str {
            self.0
        }

        fn handles(&self, _: Operation, _: Phase) -> bool {
            false
        }
    }

    #[test]
    fn plugins_run_in_upstreams_order_whatever_order_they_are_given_in() {
        let given = ["ResourceQuota", "ValidatingAdmissionWebhook", "Ours", "NamespaceLifecycle"];
        let chain = Chain::new(given.into_iter().map(|name| Box::new(Named(name)) as Box<dyn Plugin>).collect());
        let names: Vec<&str> = chain.plugins.iter().map(|plugin| plugin.name()).collect();
        assert_eq!(names, ["NamespaceLifecycle", "Ours", "ValidatingAdmissionWebhook", "ResourceQuota"]);
    }
}
