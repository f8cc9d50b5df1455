//! Which resources quotas know by a bare name, and which scopes narrow which of them.

use std::collections::BTreeSet;

use bailiwick_machinery::field::{Error, ErrorList, Path};
use bailiwick_machinery::validation::names;
use serde_json::Value;

use crate::field_errors::invalid_shown;
use crate::fields::{list, text};
use crate::go_shape::{self, Shape};

/// Resources counted in whole objects.
const COUNTED: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

/// Resources measured in amounts.
const MEASURED: [&str; 10] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
];

/// Resources that scopes about pods narrow, besides the number of pods.
const POD_COMPUTE: [&str; 6] = ["cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];

const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "VolumeAttributesClass",
    "CrossNamespacePodAffinity",
];

/// Scopes that exclude each other.
const CONFLICTING: [(&str, &str); 2] = [("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")];

pub(super) fn is_standard_quota_resource(name: &str) -> bool {
    COUNTED.contains(&name)
        || MEASURED.contains(&name)
        || name.starts_with("hugepages-")
        || name.starts_with("requests.hugepages-")
}

pub(super) fn is_standard_resource(name: &str) -> bool {
    name == "storage" || is_standard_quota_resource(name)
}

/// Whether a resource comes in whole numbers: counted ones and those of other domains.
pub(super) fn is_integer_resource(name: &str) -> bool {
    COUNTED.contains(&name) || is_extended_resource(name)
}

fn is_extended_resource(name: &str) -> bool {
    name.contains('/')
        && !name.contains("kubernetes.io/")
        && !name.starts_with("requests.")
        && names::qualified_name(&format!("requests.{name}")).is_empty()
}

fn scope_narrows(scope: &str, resource: &str) -> bool {
    match scope {
        "Terminating" | "NotTerminating" | "NotBestEffort" | "PriorityClass" | "CrossNamespacePodAffinity" => {
            resource == "pods" || POD_COMPUTE.contains(&resource)
        }
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => matches!(resource, "persistentvolumeclaims" | "requests.storage"),
        _ => true,
    }
}

/// How many of the hard limits a scope says nothing about; each is an error.
fn unrelated<'a>(scope: &'a str, hard: &'a [&str]) -> impl Iterator<Item = ()> + 'a {
    hard.iter().filter(|name| is_standard_quota_resource(name) && !scope_narrows(scope, name)).map(|_| ())
}

fn conflicts(scopes: &BTreeSet<&str>) -> impl Iterator<Item = ()> {
    CONFLICTING.into_iter().filter(|(a, b)| scopes.contains(a) && scopes.contains(b)).map(|_| ())
}

/// What is wrong with `spec.scopes`. `hard` names the resources the quota limits.
pub(super) fn validate_scopes(scopes: &Value, hard: &[&str], path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let invalid = |complaint: &str| Error::invalid(path, scopes.clone(), complaint);
    let mut seen = BTreeSet::new();
    for scope in scopes.as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !SCOPES.contains(&scope) {
            errors.push(invalid("unsupported scope"));
        }
        errors.extend(unrelated(scope, hard).map(|()| invalid("unsupported scope applied to resource")));
        seen.insert(scope);
    }
    errors.extend(conflicts(&seen).map(|()| invalid("conflicting scopes")));
    errors
}

/// What is wrong with `spec.scopeSelector`. `path` is that of its `matchExpressions`: upstream gives no indices, and
/// complains about conflicts by showing `spec.scopes`.
pub(super) fn validate_scope_selector(selector: &Value, scopes: &Value, hard: &[&str], path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let mut seen = BTreeSet::new();
    for expression in list(selector, "matchExpressions") {
        let scope = text(expression, "scopeName");
        if !SCOPES.contains(&scope) {
            errors.push(Error::invalid(&path.child("scopeName"), scope, "unsupported scope"));
        }
        errors.extend(
            unrelated(scope, hard)
                .map(|()| invalid_shown(path, &shown_selector(selector), "unsupported scope applied to resource")),
        );
        errors.extend(validate_operator(expression, scope, path));
        seen.insert(scope);
    }
    errors.extend(conflicts(&seen).map(|()| Error::invalid(path, scopes.clone(), "conflicting scopes")));
    errors
}

fn validate_operator(expression: &Value, scope: &str, path: &Path) -> ErrorList {
    const EXISTS_ONLY: [&str; 5] =
        ["BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity"];
    let mut errors = ErrorList::new();
    let operator = text(expression, "operator");
    let values = list(expression, "values");
    if EXISTS_ONLY.contains(&scope) && operator != "Exists" {
        errors.push(Error::invalid(
            &path.child("operator"),
            operator,
            "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, \
             ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or \
             ResourceQuotaScopeCrossNamespacePodAffinity",
        ));
    }
    match operator {
        "In" | "NotIn" if values.is_empty() => errors.push(Error::required(
            &path.child("values"),
            "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
        )),
        "Exists" | "DoesNotExist" if !values.is_empty() => errors.push(Error::invalid(
            &path.child("values"),
            values.to_vec(),
            "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
        )),
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => errors.push(Error::invalid(&path.child("operator"), other, "not a valid selector operator")),
    }
    errors
}

/// A scope selector as messages show it, with the field names of upstream's in-memory type.
fn shown_selector(selector: &Value) -> String {
    const EXPRESSION: &[go_shape::Field] = &[
        ("ScopeName", "scopeName", Shape::Text),
        ("Operator", "operator", Shape::Text),
        ("Values", "values", Shape::Texts),
    ];
    go_shape::shown(selector, &[("MatchExpressions", "matchExpressions", Shape::List(EXPRESSION))])
}
