//! What is wrong with a configuration, in upstream's words.

use std::collections::BTreeSet;
use std::path::Path as FilePath;

use bailiwick_machinery::field::{Error, ErrorList, Path};
use bailiwick_machinery::validation::names::dns1123_subdomain;
use serde_json::Value;

use super::super::webhook::Condition;
use super::{Entry, File, GoDuration, Webhook};

/// The types upstream knows; two of them have nothing to do here.
const KNOWN: [&str; 6] = ["ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook"];
/// Upstream's limit.
const CONDITIONS_MAX: usize = 64;
const TIMEOUT_SECONDS_MAX: i64 = 30;
const NANOS_PER_SECOND: i64 = 1_000_000_000;

pub(super) fn validate(file: &File) -> ErrorList {
    let mut errors = ErrorList::new();
    if file.authorizers.is_empty() {
        errors.push(Error::required(&Path::new("authorizers"), "at least one authorization mode must be defined"));
    }
    let (mut types, mut names) = (BTreeSet::new(), BTreeSet::new());
    for (index, entry) in file.authorizers.iter().enumerate() {
        let path = Path::new("authorizers").index(index);
        let (kind, name) = (entry.r#type.as_str(), entry.name.as_str());
        if let Some(error) = wrong_type(entry, &path, &types) {
            errors.push(error);
            continue;
        }
        types.insert(kind);
        let name_path = path.child("name");
        if name.is_empty() {
            errors.push(Error::required(&name_path, ""));
        } else if !names.insert(name) {
            errors.push(Error::duplicate(&name_path, name));
        } else {
            let wrong = dns1123_subdomain(name);
            if !wrong.is_empty() {
                let detail = format!("authorizer name is invalid: {}", wrong.join(", "));
                errors.push(Error::invalid(&name_path, name, detail));
            }
        }
        match (&entry.webhook, kind) {
            (None, "Webhook") => errors.push(Error::required(&path.child("webhook"), "required when type=Webhook")),
            (Some(webhook), "Webhook") => errors.extend(validate_webhook(webhook, &path)),
            (Some(_), _) => {
                let detail = "may only be specified when type=Webhook";
                errors.push(Error::invalid(&path.child("webhook"), "non-null", detail));
            }
            (None, _) => {}
        }
    }
    errors
}

fn wrong_type(entry: &Entry, path: &Path, seen: &BTreeSet<&str>) -> Option<Error> {
    let path = path.child("type");
    match entry.r#type.as_str() {
        "" => Some(Error::required(&path, "")),
        kind if !KNOWN.contains(&kind) => Some(Error::not_supported(&path, kind, &KNOWN)),
        kind if kind != "Webhook" && seen.contains(kind) => Some(Error::duplicate(&path, kind)),
        "Node" => Some(Error::invalid(&path, "Node", "this control plane has no nodes; leave the authorizer out")),
        "ABAC" => Some(Error::invalid(&path, "ABAC", "policy files are not supported; use RBAC or a webhook")),
        _ => None,
    }
}

fn validate_webhook(webhook: &Webhook, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let timeout = &webhook.timeout;
    if timeout.nanos == 0 {
        errors.push(Error::required(&path.child("timeout"), ""));
    } else if timeout.nanos < 0 || timeout.nanos > TIMEOUT_SECONDS_MAX * NANOS_PER_SECOND {
        errors.push(Error::invalid(&path.child("timeout"), timeout.text.as_str(), "must be > 0s and <= 30s"));
    }
    let positive = |duration: &GoDuration, field: &str| {
        (duration.nanos < 0).then(|| Error::invalid(&path.child(field), duration.text.as_str(), "must be > 0s"))
    };
    errors.extend(positive(&webhook.authorized_ttl, "authorizedTTL"));
    errors.extend(positive(&webhook.unauthorized_ttl, "unauthorizedTTL"));
    let one_of = |field: &str, value: &str, supported: &[&str]| match value {
        "" => Some(Error::required(&path.child(field), "")),
        value if !supported.contains(&value) => Some(Error::not_supported(&path.child(field), value, supported)),
        _ => None,
    };
    errors.extend(one_of("subjectAccessReviewVersion", &webhook.subject_access_review_version, &["v1", "v1beta1"]));
    let version = webhook.match_condition_subject_access_review_version.as_str();
    let version_path = path.child("matchConditionSubjectAccessReviewVersion");
    if version.is_empty() && !webhook.match_conditions.is_empty() {
        errors.push(Error::required(&version_path, "required if match conditions are specified"));
    } else if !matches!(version, "" | "v1") {
        errors.push(Error::not_supported(&version_path, version, &["v1"]));
    }
    errors.extend(one_of("failurePolicy", &webhook.failure_policy, &["NoOpinion", "Deny"]));
    errors.extend(validate_connection(webhook, &path.child("connectionInfo")));
    errors.extend(validate_conditions(webhook, &path.child("matchConditions")));
    errors
}

fn validate_connection(webhook: &Webhook, path: &Path) -> Option<Error> {
    let info = &webhook.connection_info;
    let file_path = path.child("kubeConfigFile");
    match info.r#type.as_str() {
        "" => return Some(Error::required(&path.child("type"), "")),
        "KubeConfigFile" => {}
        "InClusterConfig" => {
            let detail = "this server runs in no cluster; use KubeConfigFile";
            return Some(Error::invalid(&path.child("type"), "InClusterConfig", detail));
        }
        other => {
            return Some(Error::not_supported(&path.child("type"), other, &["InClusterConfig", "KubeConfigFile"]));
        }
    }
    let file = match info.kube_config_file.as_deref() {
        None | Some("") => return Some(Error::required(&file_path, "")),
        Some(file) => file,
    };
    let invalid = |detail: String| Some(Error::invalid(&file_path, Value::from(file), detail));
    if !FilePath::new(file).is_absolute() {
        return invalid("must be an absolute path".to_owned());
    }
    match std::fs::metadata(file) {
        Err(error) => invalid(format!("error loading file: {error}")),
        Ok(metadata) if !metadata.is_file() => invalid("must be a regular file".to_owned()),
        Ok(_) => None,
    }
}

fn validate_conditions(webhook: &Webhook, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let conditions = &webhook.match_conditions;
    if conditions.len() > CONDITIONS_MAX {
        errors.push(Error::too_many(path, conditions.len(), CONDITIONS_MAX));
        return errors;
    }
    let mut seen = BTreeSet::new();
    for (index, condition) in conditions.iter().enumerate() {
        let path = path.index(index).child("expression");
        let expression = condition.expression.as_str();
        if expression.trim().is_empty() {
            errors.push(Error::required(&path, ""));
        } else if !seen.insert(expression) {
            errors.push(Error::duplicate(&path, expression));
        } else if let Err(error) = Condition::compile(expression) {
            errors.push(Error::invalid(&path, expression, error.to_string()));
        }
    }
    errors
}
