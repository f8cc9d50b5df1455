//! Admission policies: rules in CEL that validate or mutate requests inside the server. Expressions are checked for
//! presence and shape here; they are compiled where CEL is (issue 3).

use bailiwick_machinery::field::{Error, ErrorList, Path};
use bailiwick_machinery::object;
use bailiwick_machinery::strategy::{Context, Generation, NameValidator, Strategy};
use bailiwick_machinery::validation::names::{name_is_dns_subdomain, qualified_name};
use serde_json::{Map, Value};

use super::rules::{
    FAILURE_POLICIES, REINVOCATION_POLICIES, default_match_resources, validate_match_conditions,
    validate_match_resources, validate_mutating_operations, validate_param_kind, validate_required_word, validate_word,
};
use super::static_suffix_warnings;
use crate::conditions::{keep_metadata_for_status, validate_conditions};
use crate::field_errors::invalid_each;
use crate::fields::{carry_over, list, optional_text, present, present_mut, put, same, set_default, text};

/// Audit events carry the annotations of all policies; this keeps one policy from filling them.
const MAX_AUDIT_ANNOTATIONS: usize = 20;
/// Half of what an annotation's value may be, because expressions often concatenate.
const MAX_AUDIT_EXPRESSION_BYTES: usize = 5 * 1024;

const REASONS: &[&str] = &["Forbidden", "Invalid", "RequestEntityTooLarge"];
const PATCH_TYPES: &[&str] = &["ApplyConfiguration", "JSONPatch"];
/// Words that CEL keeps for itself.
const CEL_RESERVED: &[&str] = &[
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

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
            errors.extend(validate_match_conditions(list(spec, "matchConditions"), &path.child("matchConditions")));
        }
        for (index, variable) in list(spec, "variables").iter().enumerate() {
            errors.extend(validate_variable(variable, &path.child("variables").index(index)));
        }
        match self {
            Self::Validating => errors.extend(validate_validations(object::name(object), spec, &path)),
            Self::Mutating => errors.extend(validate_mutations(spec, &path)),
        }
        errors
    }
}

fn validate_variable(variable: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let name = text(variable, "name");
    if name.trim().is_empty() {
        errors.push(Error::required(&path.child("name"), "name is not specified"));
    } else if !is_cel_identifier(name) {
        errors.push(Error::invalid(&path.child("name"), name, "must be a valid CEL identifier"));
    }
    if text(variable, "expression").trim().is_empty() {
        errors.push(Error::required(&path.child("expression"), "expression is not specified"));
    }
    errors
}

fn is_cel_identifier(name: &str) -> bool {
    name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric())
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && !CEL_RESERVED.contains(&name)
}

fn validate_validations(name: &str, spec: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let validations = list(spec, "validations");
    let annotations = list(spec, "auditAnnotations");
    let annotations_path = path.child("auditAnnotations");
    if validations.is_empty() && annotations.is_empty() {
        let detail = "validations or auditAnnotations must contain at least one item";
        errors.push(Error::required(&path.child("validations"), detail));
        errors.push(Error::required(&annotations_path, detail));
        return errors;
    }
    for (index, validation) in validations.iter().enumerate() {
        errors.extend(validate_validation(validation, &path.child("validations").index(index)));
    }
    if annotations.len() > MAX_AUDIT_ANNOTATIONS {
        let detail = format!("must not have more than {MAX_AUDIT_ANNOTATIONS} auditAnnotations");
        let shown: Vec<Value> = annotations.iter().map(annotation_as_upstream_shows_it).collect();
        errors.push(Error::invalid(&annotations_path, shown, detail));
    }
    for (index, annotation) in annotations.iter().enumerate() {
        let path = annotations_path.index(index);
        errors.extend(validate_annotation(name, annotation, &path));
        let key = text(annotation, "key");
        if annotations[..index].iter().any(|earlier| text(earlier, "key") == key) {
            errors.push(Error::duplicate(&path.child("key"), key));
        }
    }
    errors
}

/// Messages show Go's internal type, whose fields have no JSON names.
fn annotation_as_upstream_shows_it(annotation: &Value) -> Value {
    serde_json::json!({
        "Key": text(annotation, "key"), "ValueExpression": text(annotation, "valueExpression"),
    })
}

fn validate_validation(validation: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    if text(validation, "expression").trim().is_empty() {
        errors.push(Error::required(&path.child("expression"), "expression is not specified"));
    }
    let message_expression = text(validation, "messageExpression");
    if !message_expression.is_empty() && message_expression.trim().is_empty() {
        let path = path.child("messageExpression");
        errors.push(Error::invalid(&path, message_expression, "must be non-empty if specified"));
    }
    let message = text(validation, "message");
    if !message.is_empty() && message.trim().is_empty() {
        errors.push(Error::invalid(&path.child("message"), message, "must be non-empty if specified"));
    } else if message.trim().contains(['\n', '\r']) {
        errors.push(Error::invalid(&path.child("message"), message, "must not contain line breaks"));
    }
    errors.extend(validate_word(validation, "reason", REASONS, path));
    errors
}

fn validate_annotation(policy: &str, annotation: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let key = text(annotation, "key");
    let key_path = path.child("key");
    if policy.is_empty() {
        errors.push(Error::invalid(&key_path, key, "requires metadata.name be non-empty"));
    } else {
        let full = format!("{policy}/{key}");
        errors.extend(invalid_each(&key_path, &full, qualified_name(&full)));
    }
    let expression_path = path.child("valueExpression");
    let expression = text(annotation, "valueExpression").trim();
    if expression.is_empty() {
        errors.push(Error::required(&expression_path, "valueExpression is not specified"));
    } else if expression.len() > MAX_AUDIT_EXPRESSION_BYTES {
        let detail = format!("must not exceed {MAX_AUDIT_EXPRESSION_BYTES} bytes in length");
        errors.push(Error::required(&expression_path, detail));
    }
    errors
}

fn validate_mutations(spec: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let mutations = list(spec, "mutations");
    if mutations.is_empty() {
        errors.push(Error::required(&path.child("mutations"), "mutations must contain at least one item"));
    }
    for (index, mutation) in mutations.iter().enumerate() {
        errors.extend(validate_mutation(mutation, &path.child("mutations").index(index)));
    }
    match text(spec, "reinvocationPolicy") {
        "" => errors.push(Error::required(&path.child("reinvocationPolicy"), "")),
        _ => errors.extend(validate_word(spec, "reinvocationPolicy", REINVOCATION_POLICIES, path)),
    }
    errors
}

fn validate_mutation(mutation: &Value, path: &Path) -> ErrorList {
    let (wanted, other, kind) = match text(mutation, "patchType") {
        "" => return vec![Error::required(&path.child("patchType"), "")],
        kind @ "JSONPatch" => ("jsonPatch", "applyConfiguration", kind),
        kind @ "ApplyConfiguration" => ("applyConfiguration", "jsonPatch", kind),
        unknown => return vec![Error::not_supported(&path.child("patchType"), unknown, PATCH_TYPES)],
    };
    let mut errors = ErrorList::new();
    match present(mutation, wanted) {
        None => {
            let detail = format!("must be specified when patchType is {kind}");
            errors.push(Error::required(&path.child(wanted), detail));
        }
        Some(patch) if text(patch, "expression").trim().is_empty() => {
            errors.push(Error::required(&path.child(wanted).child("expression"), ""));
        }
        Some(_) => {}
    }
    if present(mutation, other).is_some() {
        let detail = format!("must not be specified when patchType is {kind}");
        errors.push(Error::invalid(&path.child(other), format!("{{{other}}}"), detail));
    }
    errors
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
