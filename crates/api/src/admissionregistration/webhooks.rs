//! Webhook configurations: lists of webhooks that are asked about requests, validating or mutating.

use bailiwick_cel::admission::Params;
use bailiwick_machinery::field::{Error, ErrorList, Path};
use bailiwick_machinery::selector::validate_label_selector;
use bailiwick_machinery::strategy::{Context, Generation, NameValidator, Strategy};
use bailiwick_machinery::validation::names::{dns1123_subdomain, name_is_dns_subdomain};
use serde_json::{Map, Value};

use super::rules::{
    FAILURE_POLICIES, MATCH_POLICIES, REINVOCATION_POLICIES, default_rules, validate_match_conditions, validate_rule,
    validate_word,
};
use super::static_suffix_warnings;
use crate::fields::{
    each_mut, list, optional_integer, optional_text, present, present_mut, same, set_default, text, texts,
};
use crate::webhook_client::{
    UnknownReviewVersions, default_service_port, has_accepted_review_version, validate_client_config,
    validate_review_versions,
};

/// How long the server waits for a webhook that does not say.
const DEFAULT_TIMEOUT_SECONDS: i64 = 10;
/// Requests end after a minute; a webhook may not take half of that.
const MAX_TIMEOUT_SECONDS: i64 = 30;

const SIDE_EFFECTS: &[&str] = &["None", "NoneOnDryRun", "Some", "Unknown"];
const NO_SIDE_EFFECTS: &[&str] = &["None", "NoneOnDryRun"];

/// The two kinds of webhook configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WebhookConfiguration {
    Mutating,
    Validating,
}

impl Strategy for WebhookConfiguration {
    fn default(&self, object: &mut Value) {
        let empty = || Value::Object(Map::new());
        for webhook in each_mut(object, "webhooks") {
            set_default(webhook, "failurePolicy", || "Fail".into());
            set_default(webhook, "matchPolicy", || "Equivalent".into());
            set_default(webhook, "namespaceSelector", empty);
            set_default(webhook, "objectSelector", empty);
            set_default(webhook, "timeoutSeconds", || DEFAULT_TIMEOUT_SECONDS.into());
            if *self == Self::Mutating {
                set_default(webhook, "reinvocationPolicy", || "Never".into());
            }
            if let Some(config) = present_mut(webhook, "clientConfig") {
                default_service_port(config);
            }
            default_rules(webhook, "rules");
        }
    }

    fn validate(&self, _cx: &Context<'_>, object: &Value) -> ErrorList {
        validate(object, &Tolerance::default())
    }

    fn warnings_on_create(&self, object: &Value) -> Vec<String> {
        static_suffix_warnings(object)
    }

    fn validate_update(&self, _cx: &Context<'_>, object: &Value, old: &Value) -> ErrorList {
        validate(object, &Tolerance::of_update(object, old))
    }

    fn warnings_on_update(&self, object: &Value, _old: &Value) -> Vec<String> {
        static_suffix_warnings(object)
    }

    fn name_validator(&self) -> NameValidator {
        name_is_dns_subdomain
    }

    fn generation(&self) -> Generation {
        Generation::AllButMetadataAndStatus
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}

/// What an update may keep although a new object could not have it.
#[derive(Debug, Default)]
struct Tolerance {
    match_conditions: bool,
    side_effects: bool,
    review_versions: bool,
    duplicate_names: bool,
    label_values: bool,
}

impl Tolerance {
    fn of_update(object: &Value, old: &Value) -> Self {
        let (new, old) = (list(object, "webhooks"), list(old, "webhooks"));
        let no_side_effects =
            |hook: &Value| optional_text(hook, "sideEffects").is_some_and(|class| NO_SIDE_EFFECTS.contains(&class));
        let known_version = |hook: &Value| {
            let versions = texts(hook, "admissionReviewVersions");
            versions.is_empty() || has_accepted_review_version(&versions)
        };
        let unchanged = |(new, old): (&Value, &Value)| same(new.get("matchConditions"), old.get("matchConditions"));
        let repeated = |(index, hook): (usize, &Value)| {
            old[..index].iter().any(|earlier| text(earlier, "name") == text(hook, "name"))
        };
        let bad_selector = |hook: &Value| {
            ["namespaceSelector", "objectSelector"]
                .iter()
                .filter_map(|name| present(hook, name))
                .any(|selector| !validate_label_selector(Some(selector), &Path::root()).is_empty())
        };
        Self {
            match_conditions: new.len() == old.len() && new.iter().zip(old).all(unchanged),
            side_effects: !old.iter().all(no_side_effects),
            review_versions: !old.iter().all(known_version),
            duplicate_names: old.iter().enumerate().any(repeated),
            label_values: old.iter().any(bad_selector),
        }
    }
}

fn validate(object: &Value, tolerance: &Tolerance) -> ErrorList {
    let mut errors = ErrorList::new();
    let webhooks = list(object, "webhooks");
    for (index, webhook) in webhooks.iter().enumerate() {
        let path = Path::new("webhooks").index(index);
        errors.extend(validate_webhook(webhook, tolerance, &path));
        let unknown =
            if tolerance.review_versions { UnknownReviewVersions::Tolerated } else { UnknownReviewVersions::Rejected };
        errors.extend(validate_review_versions(
            webhook,
            "admissionReviewVersions",
            "must specify one of v1, v1beta1",
            unknown,
            &path.child("admissionReviewVersions"),
        ));
        let name = text(webhook, "name");
        let repeated = || webhooks[..index].iter().any(|earlier| text(earlier, "name") == name);
        if !tolerance.duplicate_names && !name.is_empty() && repeated() {
            errors.push(Error::duplicate(&path.child("name"), name));
        }
    }
    errors
}

fn validate_webhook(webhook: &Value, tolerance: &Tolerance, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    errors.extend(validate_fully_qualified_name(text(webhook, "name"), &path.child("name")));
    for (index, rule) in list(webhook, "rules").iter().enumerate() {
        errors.extend(validate_rule(rule, &path.child("rules").index(index)));
    }
    errors.extend(validate_word(webhook, "failurePolicy", FAILURE_POLICIES, path));
    errors.extend(validate_word(webhook, "matchPolicy", MATCH_POLICIES, path));
    let side_effects = if tolerance.side_effects { SIDE_EFFECTS } else { NO_SIDE_EFFECTS };
    if present(webhook, "sideEffects").is_none() {
        let detail = format!("must specify one of {}", side_effects.join(", "));
        errors.push(Error::required(&path.child("sideEffects"), detail));
    }
    errors.extend(validate_word(webhook, "sideEffects", side_effects, path));
    if let Some(timeout) = optional_integer(webhook, "timeoutSeconds")
        && !(1..=MAX_TIMEOUT_SECONDS).contains(&timeout)
    {
        let detail = "the timeout value must be between 1 and 30 seconds";
        errors.push(Error::invalid(&path.child("timeoutSeconds"), timeout, detail));
    }
    for name in ["namespaceSelector", "objectSelector"] {
        if let Some(selector) = present(webhook, name) {
            // Values of expressions that were invalid in the stored object may stay so.
            let mut faults = validate_label_selector(Some(selector), &path.child(name));
            faults.retain(|fault| !(tolerance.label_values && fault.field.contains(".values[")));
            errors.extend(faults);
        }
    }
    errors.extend(validate_word(webhook, "reinvocationPolicy", REINVOCATION_POLICIES, path));
    errors.extend(validate_client_config(
        present(webhook, "clientConfig").unwrap_or(&Value::Null),
        &path.child("clientConfig"),
    ));
    if !tolerance.match_conditions {
        let conditions = list(webhook, "matchConditions");
        errors.extend(validate_match_conditions(conditions, Params::Absent, &path.child("matchConditions")));
    }
    errors
}

fn validate_fully_qualified_name(name: &str, path: &Path) -> Option<Error> {
    if name.is_empty() {
        return Some(Error::required(path, ""));
    }
    let faults = dns1123_subdomain(name);
    if !faults.is_empty() {
        return Some(Error::invalid(path, name, faults.join(",")));
    }
    (name.split('.').count() < 3)
        .then(|| Error::invalid(path, name, "should be a domain with at least three segments separated by dots"))
}
