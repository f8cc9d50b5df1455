//! Bindings: where a policy applies, with which parameters and, for validation, with which consequence.

use bailiwick_machinery::field::{Error, ErrorList, Path};
use bailiwick_machinery::strategy::{Context, Generation, NameKind, NameValidator, Strategy};
use bailiwick_machinery::validation::names::name_is_dns_subdomain;
use serde_json::Value;

use super::rules::{
    default_match_resources, validate_match_resources, validate_mutating_operations, validate_param_ref,
};
use super::static_suffix_warnings;
use crate::field_errors::invalid_each;
use crate::fields::{list, present, present_mut, text, texts};

const ACTIONS: &[&str] = &["Audit", "Deny", "Warn"];

/// The two kinds of binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binding {
    Mutating,
    Validating,
}

impl Strategy for Binding {
    fn default(&self, object: &mut Value) {
        if let Some(resources) = present_mut(object, "spec").and_then(|spec| present_mut(spec, "matchResources")) {
            default_match_resources(resources);
        }
    }

    fn validate(&self, _cx: &Context<'_>, object: &Value) -> ErrorList {
        let nothing = Value::Null;
        let spec = present(object, "spec").unwrap_or(&nothing);
        let path = Path::new("spec");
        let mut errors = ErrorList::new();
        let policy = text(spec, "policyName");
        let policy_path = path.child("policyName");
        if policy.is_empty() {
            errors.push(Error::required(&policy_path, ""));
        } else {
            errors.extend(invalid_each(&policy_path, policy, name_is_dns_subdomain(policy, NameKind::Full)));
        }
        if let Some(reference) = present(spec, "paramRef") {
            errors.extend(validate_param_ref(reference, &path.child("paramRef")));
        }
        if let Some(resources) = present(spec, "matchResources") {
            let path = path.child("matchResources");
            errors.extend(validate_match_resources(resources, &path));
            if *self == Self::Mutating {
                errors.extend(validate_mutating_operations(resources, &path));
            }
        }
        if *self == Self::Validating {
            errors.extend(validate_actions(spec, &path.child("validationActions")));
        }
        errors
    }

    fn warnings_on_create(&self, object: &Value) -> Vec<String> {
        static_suffix_warnings(object)
    }

    fn warnings_on_update(&self, object: &Value, _old: &Value) -> Vec<String> {
        static_suffix_warnings(object)
    }

    fn name_validator(&self) -> NameValidator {
        name_is_dns_subdomain
    }

    fn generation(&self) -> Generation {
        Generation::Spec
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}

fn validate_actions(spec: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let actions = texts(spec, "validationActions");
    for (index, action) in actions.iter().enumerate() {
        if !ACTIONS.contains(action) {
            errors.push(Error::not_supported(&path.index(index), *action, ACTIONS));
        }
        if actions[..index].contains(action) {
            errors.push(Error::duplicate(&path.index(index), *action));
        }
    }
    if actions.contains(&"Deny") && actions.contains(&"Warn") {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        errors.push(Error::invalid(path, Value::from(list(spec, "validationActions")), detail));
    }
    if actions.is_empty() {
        errors.push(Error::required(path, "at least one validation action is required"));
    }
    errors
}
