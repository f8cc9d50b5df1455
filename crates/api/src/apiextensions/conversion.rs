//! How objects get from one version of a custom resource to another: not at all, or by webhook.

use bailiwick_machinery::field::{Error, ErrorList, Path};
use bailiwick_webhook::ca_bundle_fault;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use crate::fields::{list, present, text, texts};
use crate::webhook_client::{
    UnknownReviewVersions, has_accepted_review_version, validate_client_config, validate_review_versions,
};

const STRATEGIES: &[&str] = &["None", "Webhook"];

/// Whether unknown review versions may stay because the stored definition has them.
pub(super) fn tolerance(old_spec: Option<&Value>) -> UnknownReviewVersions {
    let old = old_spec.and_then(|spec| present(spec, "conversion")).and_then(|c| present(c, "webhook"));
    let versions = old.map(|webhook| texts(webhook, "conversionReviewVersions")).unwrap_or_default();
    if versions.is_empty() || has_accepted_review_version(&versions) {
        UnknownReviewVersions::Rejected
    } else {
        UnknownReviewVersions::Tolerated
    }
}

/// Whether certificates that are none may stay. Until a definition is established, its webhook's CA may yet be filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InvalidCa {
    Rejected,
    Tolerated,
}

impl InvalidCa {
    /// What the stored definition, if there is one, makes us tolerate.
    pub fn of(old: Option<&Value>) -> Self {
        let Some(old) = old else { return Self::Tolerated };
        let established = list(&old["status"], "conditions")
            .iter()
            .any(|condition| text(condition, "type") == "Established" && text(condition, "status") == "True");
        let bundle = text(&old["spec"]["conversion"]["webhook"]["clientConfig"], "caBundle");
        if established && (bundle.is_empty() || ca_fault(bundle).is_none()) { Self::Rejected } else { Self::Tolerated }
    }
}

/// Why a bundle, in base64, holds no certificate.
fn ca_fault(bundle: &str) -> Option<&'static str> {
    ca_bundle_fault(&BASE64_STANDARD.decode(bundle).unwrap_or_default())
}

/// Checks a conversion. Paths are those of upstream's internal type, where the webhook's fields stand one level higher.
pub(super) fn validate(
    conversion: &Value,
    unknown: UnknownReviewVersions,
    invalid_ca: InvalidCa,
    path: &Path,
) -> ErrorList {
    let mut errors = ErrorList::new();
    let strategy = text(conversion, "strategy");
    if strategy.is_empty() {
        errors.push(Error::required(&path.child("strategy"), ""));
    } else if !STRATEGIES.contains(&strategy) {
        errors.push(Error::not_supported(&path.child("strategy"), strategy, STRATEGIES));
    }
    let nothing = Value::Null;
    let webhook = present(conversion, "webhook").unwrap_or(&nothing);
    let config = present(webhook, "clientConfig");
    let (config_path, versions_path) = (path.child("webhookClientConfig"), path.child("conversionReviewVersions"));
    if strategy == "Webhook" {
        match config {
            None => errors.push(Error::required(&config_path, "required when strategy is set to Webhook")),
            Some(config) => {
                errors.extend(validate_client_config(config, &config_path));
                let bundle = text(config, "caBundle");
                let fault = if bundle.is_empty() { None } else { ca_fault(bundle) };
                if let (InvalidCa::Rejected, Some(fault)) = (invalid_ca, fault) {
                    errors.push(Error::invalid(&config_path.child("caBundle"), bundle, fault));
                }
            }
        }
        errors.extend(validate_review_versions(webhook, "conversionReviewVersions", "", unknown, &versions_path));
        return errors;
    }
    let detail = "should not be set when strategy is not set to Webhook";
    if config.is_some() {
        errors.push(Error::forbidden(&config_path, detail));
    }
    if !list(webhook, "conversionReviewVersions").is_empty() {
        errors.push(Error::forbidden(&versions_path, detail));
    }
    errors
}
