//! What stands between an authorized write and the store: the options, and the chain of plugins they make.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bailiwick_admission::plugins::certificates::{
    CertificateApproval, CertificateSigning, CertificateSubjectRestriction,
};
use bailiwick_admission::plugins::event_rate_limit::EventRateLimit;
use bailiwick_admission::plugins::owner_references::OwnerReferencesPermissionEnforcement;
use bailiwick_admission::plugins::{Known, UnknownPlugins, check_names, known};
use bailiwick_admission::webhook::{MutatingWebhooks, ValidatingWebhooks, WebhookIndex, WebhookKind, WebhookMetrics};
use bailiwick_admission::{Chain, NamespaceLifecycle, Plugin, ResourceQuota};
use bailiwick_machinery::yaml;
use bailiwick_server::Registry;
use bailiwick_server::cache::Caches;
use bailiwick_store as store;
use bailiwick_webhook::services::ServiceResolver;
use serde_json::Value;

use crate::{policy_feed, webhook_feed};

/// Which plugins run, and with what configuration.
#[derive(Default)]
pub struct AdmissionOptions {
    /// Plugins to run besides those that run by default.
    pub enable: Vec<String>,
    /// Plugins not to run although they would.
    pub disable: Vec<String>,
    /// An AdmissionConfiguration of apiserver.config.k8s.io.
    pub config_file: Option<PathBuf>,
    /// Plugins compiled in. They run after those of the server and before webhooks, unless they are disabled.
    pub plugins: Vec<Box<dyn Plugin>>,
}

/// Why the plugins cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum AdmissionError {
    #[error(transparent)]
    Names(#[from] UnknownPlugins),
    #[error("failed to read plugin config: unable to read admission control configuration from {path:?} [{source}]")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("failed to read plugin config: {path}: {reason}")]
    Configuration { path: PathBuf, reason: String },
    #[error("failed to initialize admission plugin {name:?}: {reason}")]
    Plugin { name: &'static str, reason: String },
}

/// What the options come to: the plugins that all control planes share, and which others each of them gets.
pub(crate) struct AdmissionPlan {
    enabled: Vec<String>,
    disabled: Vec<String>,
    shared: Vec<Arc<dyn Plugin>>,
    event_rate_limit: Option<EventRateLimit>,
    metrics: Arc<WebhookMetrics>,
}

impl AdmissionOptions {
    /// Checks the options and makes what is shared.
    pub(super) fn plan(self) -> Result<AdmissionPlan, AdmissionError> {
        let own: Vec<&str> = self.plugins.iter().map(|plugin| plugin.name()).collect();
        check_names(&self.enable, &self.disable, &own)?;
        for name in self.enable.iter().filter(|name| known(name) == Some(Known::NothingToDo)) {
            tracing::warn!(name, "the admission plugin has nothing to do here");
        }
        let configuration = Configuration::read(self.config_file.as_deref())?;
        let mut shared: Vec<Arc<dyn Plugin>> = vec![
            Arc::new(NamespaceLifecycle),
            Arc::new(CertificateApproval),
            Arc::new(CertificateSigning),
            Arc::new(CertificateSubjectRestriction),
            Arc::new(OwnerReferencesPermissionEnforcement),
            Arc::new(ResourceQuota),
        ];
        let runs = |name: &str| runs(name, &self.enable, &self.disable);
        let mut event_rate_limit = None;
        if runs("EventRateLimit") {
            let name = "EventRateLimit";
            let limits = EventRateLimit::from_configuration(configuration.of(name)?.as_ref());
            event_rate_limit = Some(limits.map_err(|reason| AdmissionError::Plugin { name, reason })?);
        }
        shared.retain(|plugin| runs(plugin.name()));
        let own = self.plugins.into_iter().map(Arc::<dyn Plugin>::from);
        shared.extend(own.filter(|plugin| !self.disable.iter().any(|name| name == plugin.name())));
        let (enabled, disabled) = (self.enable, self.disable);
        Ok(AdmissionPlan { enabled, disabled, shared, event_rate_limit, metrics: Arc::default() })
    }
}

impl AdmissionPlan {
    /// The chain of one control plane; its webhooks and policies are fed with what is stored, and its webhooks are found by
    /// `services`.
    pub(crate) async fn chain(
        &self,
        registry: &Registry,
        caches: &Arc<Caches>,
        services: &Arc<dyn ServiceResolver>,
        further: Vec<Box<dyn Plugin>>,
    ) -> store::Result<Chain> {
        let index = |kind| WebhookIndex::new(kind, services.clone());
        let (mutating, validating) = (index(WebhookKind::Mutating), index(WebhookKind::Validating));
        webhook_feed::connect([&mutating, &validating], registry, caches).await?;
        let mut plugins: Vec<Box<dyn Plugin>> = vec![
            Box::new(MutatingWebhooks::new(mutating, self.metrics.clone())),
            Box::new(ValidatingWebhooks::new(validating, self.metrics.clone())),
        ];
        plugins.extend(policy_feed::connect(registry, caches).await?);
        plugins.retain(|plugin| runs(plugin.name(), &self.enabled, &self.disabled));
        plugins.extend(self.shared.iter().map(|plugin| Box::new(plugin.clone()) as Box<dyn Plugin>));
        plugins.extend(self.event_rate_limit.iter().map(|limits| Box::new(limits.fork()) as Box<dyn Plugin>));
        plugins.extend(further);
        Ok(Chain::new(plugins).with_webhook_metrics(self.metrics.clone()))
    }
}

fn runs(name: &str, enable: &[String], disable: &[String]) -> bool {
    let listed = |names: &[String]| names.iter().any(|listed| listed == name);
    match known(name) {
        Some(Known::OnByDefault) | None => !listed(disable),
        Some(_) => listed(enable),
    }
}

/// The file that configures plugins.
struct Configuration {
    path: PathBuf,
    plugins: Vec<Value>,
}

impl Configuration {
    fn read(path: Option<&Path>) -> Result<Self, AdmissionError> {
        let Some(path) = path else { return Ok(Self { path: PathBuf::new(), plugins: Vec::new() }) };
        let configuration = document(path)?;
        let text = |field: &str| configuration.get(field).and_then(Value::as_str).unwrap_or_default();
        let (version, kind) = (text("apiVersion"), text("kind"));
        if !matches!(version, "apiserver.config.k8s.io/v1" | "apiserver.k8s.io/v1alpha1")
            || kind != "AdmissionConfiguration"
        {
            let reason =
                format!("no kind {kind:?} is registered for version {version:?} in scheme \"apiserver.config.k8s.io\"");
            return Err(AdmissionError::Configuration { path: path.to_owned(), reason });
        }
        let plugins = configuration.get("plugins").and_then(Value::as_array).cloned().unwrap_or_default();
        Ok(Self { path: path.to_owned(), plugins })
    }

    /// The configuration of a plugin: nested, or in a file of its own beside this one.
    fn of(&self, plugin: &str) -> Result<Option<Value>, AdmissionError> {
        let Some(entry) = self.plugins.iter().find(|entry| entry["name"] == plugin) else { return Ok(None) };
        if let Some(nested) = entry.get("configuration").filter(|nested| !nested.is_null()) {
            return Ok(Some(nested.clone()));
        }
        match entry.get("path").and_then(Value::as_str).filter(|path| !path.is_empty()) {
            None => Ok(None),
            Some(path) => document(&self.path.parent().unwrap_or(Path::new("")).join(path)).map(Some),
        }
    }
}

fn document(path: &Path) -> Result<Value, AdmissionError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| AdmissionError::Read { path: path.to_owned(), source })?;
    let decoded = yaml::decode(&text);
    let invalid = |reason: String| AdmissionError::Configuration { path: path.to_owned(), reason };
    decoded.map(|decoded| decoded.value).map_err(|error| invalid(error.to_string()))
}
