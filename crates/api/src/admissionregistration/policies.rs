//! Admission policies: rules in CEL that validate or mutate requests inside the server. What a policy says besides its
//! expressions is checked here, the expressions in [`super::expressions`].

use bailiwick_cel::admission::{Composition, Params};
use bailiwick_machinery::field::{Error, ErrorList, Path};
use bailiwick_machinery::object;
use bailiwick_machinery::strategy::{Context, Generation, NameValidator, Strategy};
use bailiwick_machinery::validation::names::name_is_dns_subdomain;
use serde_json::{Map, Value};

use super::expressions::Expressions;
use super::rules::{
    FAILURE_POLICIES, default_match_resources, validate_match_conditions, validate_match_resources,
    validate_mutating_operations, validate_param_kind, validate_required_word,
};
use super::static_suffix_warnings;
use crate::conditions::{keep_metadata_for_status, validate_conditions};
use crate::fields::{carry_over, list, optional_text, present, present_mut, put, same, set_default, text};

/// The two kinds of policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    Mutating,
    Validating,
}

impl Strategy for Policy {
    fn reset_fields(&self) -> &'static [&'static [&'static str]] {
        &[&["status"]]
    }

    fn default(&self, object: &mut Value) {
        let Some(spec) = present_mut(object, "spec") else { return };
        set_default(spec, "failurePolicy", || "Fail".into());
        if let Some(constraints) = present_mut(spec, "matchConstraints") {
            default_match_resources(constraints);
        }
    }

    fn prepare_for_create(&self, _cx: &Context<'_>, object: &mut Value) {
        if *self == Self::Validating {
            put(object, "status", Value::Object(Map::new()));
        }
    }

    fn validate(&self, _cx: &Context<'_>, object: &Value) -> ErrorList {
        self.validate_policy(object, None)
    }

    fn warnings_on_create(&self, object: &Value) -> Vec<String> {
        static_suffix_warnings(object)
    }

    fn prepare_for_update(&self, _cx: &Context<'_>, object: &mut Value, old: &Value) {
        if *self == Self::Validating {
            carry_over(object, old, "status");
        }
    }

    fn validate_update(&self, _cx: &Context<'_>, object: &Value, old: &Value) -> ErrorList {
        self.validate_policy(object, Some(old))
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

impl Policy {
    fn validate_policy(self, object: &Value, old: Option<&Value>) -> ErrorList {
        let nothing = Value::Null;
        let spec = present(object, "spec").unwrap_or(&nothing);
        let path = Path::new("spec");
        let params = if present(spec, "paramKind").is_some() { Params::Declared } else { Params::Absent };
        let mut errors = ErrorList::new();
        errors.extend(validate_required_word(spec, "failurePolicy", FAILURE_POLICIES, &path));
        if let Some(kind) = present(spec, "paramKind") {
            errors.extend(validate_param_kind(kind, &path.child("paramKind")));
        }
        let constraints_path = path.child("matchConstraints");
        match present(spec, "matchConstraints") {
            None => errors.push(Error::required(&constraints_path, "")),
            Some(constraints) => {
                errors.extend(validate_match_resources(constraints, &constraints_path));
                if list(constraints, "resourceRules").is_empty() {
                    errors.push(Error::required(&constraints_path.child("resourceRules"), ""));
                }
                if self == Self::Mutating {
                    errors.extend(validate_mutating_operations(constraints, &constraints_path));
                }
            }
        }
        // Conditions that were valid once stay so until they or the type of the parameters change.
        let unchanged = old.and_then(|old| present(old, "spec")).is_some_and(|old| {
            same(spec.get("paramKind"), old.get("paramKind"))
                && same(spec.get("matchConditions"), old.get("matchConditions"))
        });
        if !unchanged {
            let conditions = list(spec, "matchConditions");
            errors.extend(validate_match_conditions(conditions, params, &path.child("matchConditions")));
        }
        let mut expressions = Expressions { composition: Composition::new(), params, composed: self == Self::Mutating };
        for (index, variable) in list(spec, "variables").iter().enumerate() {
            expressions.composed = true;
            errors.extend(expressions.variable(variable, &path.child("variables").index(index)));
        }
        match self {
            Self::Validating => errors.extend(expressions.validations(object::name(object), spec, &path)),
            Self::Mutating => errors.extend(expressions.mutations(spec, &path)),
        }
        errors
    }
}

/// The rules of `validatingadmissionpolicies/status`.
#[derive(Debug)]
pub(super) struct PolicyStatus;

impl Strategy for PolicyStatus {
    fn reset_fields(&self) -> &'static [&'static [&'static str]] {
        &[&["spec"], &["metadata"]]
    }

    fn default(&self, object: &mut Value) {
        Policy::Validating.default(object);
    }

    fn prepare_for_update(&self, _cx: &Context<'_>, object: &mut Value, old: &Value) {
        carry_over(object, old, "spec");
        keep_metadata_for_status(object, old);
    }

    fn validate_update(&self, _cx: &Context<'_>, object: &Value, _old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let Some(status) = present(object, "status") else { return errors };
        let path = Path::new("status");
        if let Some(checking) = present(status, "typeChecking") {
            let path = path.child("typeChecking").child("expressionWarnings");
            for (index, warning) in list(checking, "expressionWarnings").iter().enumerate() {
                let path = path.index(index);
                if text(warning, "warning").is_empty() {
                    errors.push(Error::required(&path.child("warning"), ""));
                }
                if optional_text(warning, "fieldRef").unwrap_or_default().trim().is_empty() {
                    errors.push(Error::required(&path.child("fieldRef"), ""));
                }
            }
        }
        errors.extend(validate_conditions(list(status, "conditions"), &path.child("conditions")));
        errors
    }

    fn name_validator(&self) -> NameValidator {
        name_is_dns_subdomain
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}
