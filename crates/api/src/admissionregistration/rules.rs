//! What a webhook or policy applies to: rules, resource matching, match conditions and parameters, as all the types of
//! the group share them.

use bailiwick_cel::Type;
use bailiwick_cel::admission::{CompileError, Compiled, Declared, Params};
use bailiwick_machinery::field::{Error, ErrorList, Path};
use bailiwick_machinery::selector::validate_label_selector;
use bailiwick_machinery::strategy::{NameKind, any_path_segment_name};
use bailiwick_machinery::validation::names::{dns1035_label, dns1123_subdomain, qualified_name};
use serde_json::Value;

use crate::field_errors::invalid_each;
use crate::fields::{each_mut, list, optional_text, present, set_default, text, texts};

/// More match conditions than this make every request slow.
const MAX_MATCH_CONDITIONS: usize = 64;

pub(super) const FAILURE_POLICIES: &[&str] = &["Fail", "Ignore"];
pub(super) const MATCH_POLICIES: &[&str] = &["Equivalent", "Exact"];
pub(super) const REINVOCATION_POLICIES: &[&str] = &["IfNeeded", "Never"];
const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const MUTATING_OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "UPDATE"];
const SCOPES: &[&str] = &["*", "Cluster", "Namespaced"];

/// Rules apply to both scopes unless they say otherwise.
pub(super) fn default_rules(holder: &mut Value, name: &str) {
    for rule in each_mut(holder, name) {
        set_default(rule, "scope", || "*".into());
    }
}

/// Fills in a `MatchResources`.
pub(super) fn default_match_resources(resources: &mut Value) {
    set_default(resources, "matchPolicy", || "Equivalent".into());
    set_default(resources, "namespaceSelector", || Value::Object(Default::default()));
    set_default(resources, "objectSelector", || Value::Object(Default::default()));
    default_rules(resources, "resourceRules");
    default_rules(resources, "excludeResourceRules");
}

/// Checks that an optional word is one of `supported`.
pub(super) fn validate_word(holder: &Value, name: &str, supported: &[&str], path: &Path) -> Option<Error> {
    let word = optional_text(holder, name)?;
    (!supported.contains(&word)).then(|| Error::not_supported(&path.child(name), word, supported))
}

/// Checks that a word is there and one of `supported`.
pub(super) fn validate_required_word(holder: &Value, name: &str, supported: &[&str], path: &Path) -> Option<Error> {
    match optional_text(holder, name) {
        None => Some(Error::required(&path.child(name), "")),
        Some(_) => validate_word(holder, name, supported, path),
    }
}

/// Checks one rule of a webhook or policy.
pub(super) fn validate_rule(rule: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let operations = texts(rule, "operations");
    let operations_path = path.child("operations");
    require_some(rule, "operations", path, &mut errors);
    lone_wildcard(rule, "operations", "operations", path, &mut errors);
    for (index, operation) in operations.iter().enumerate() {
        if !OPERATIONS.contains(operation) {
            errors.push(Error::not_supported(&operations_path.index(index), *operation, OPERATIONS));
        }
    }
    require_some(rule, "apiGroups", path, &mut errors);
    lone_wildcard(rule, "apiGroups", "API groups", path, &mut errors);
    require_some(rule, "apiVersions", path, &mut errors);
    lone_wildcard(rule, "apiVersions", "API versions", path, &mut errors);
    for (index, version) in texts(rule, "apiVersions").iter().enumerate() {
        if version.is_empty() {
            errors.push(Error::required(&path.child("apiVersions").index(index), ""));
        }
    }
    errors.extend(validate_resources(rule, &path.child("resources")));
    errors.extend(validate_word(rule, "scope", SCOPES, path));
    errors
}

fn require_some(rule: &Value, name: &str, path: &Path, errors: &mut ErrorList) {
    if list(rule, name).is_empty() {
        errors.push(Error::required(&path.child(name), ""));
    }
}

fn lone_wildcard(rule: &Value, name: &str, what: &str, path: &Path, errors: &mut ErrorList) {
    let items = texts(rule, name);
    if items.len() > 1 && items.contains(&"*") {
        let detail = format!("if '*' is present, must not specify other {what}");
        errors.push(Error::invalid(&path.child(name), Value::from(list(rule, name)), detail));
    }
}

fn validate_resources(rule: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let resources = texts(rule, "resources");
    if resources.is_empty() {
        errors.push(Error::required(path, ""));
    }
    // `pods/*` forbids `pods/x` after it, `*/status` forbids `x/status` after it.
    let mut all_subresources_of = Vec::new();
    let mut everywhere = Vec::new();
    let mut plain_resource = false;
    for (index, resource) in resources.iter().enumerate() {
        let path = path.index(index);
        if resource.is_empty() {
            errors.push(Error::required(&path, ""));
            continue;
        }
        let Some((parent, sub)) = resource.split_once('/') else {
            // As upstream: only the last resource without a subresource counts.
            plain_resource = *resource != "*";
            continue;
        };
        if all_subresources_of.contains(&parent) {
            let detail = format!("if '{parent}/*' is present, must not specify {resource}");
            errors.push(Error::invalid(&path, *resource, detail));
        }
        if everywhere.contains(&sub) {
            let detail = format!("if '*/{sub}' is present, must not specify {resource}");
            errors.push(Error::invalid(&path, *resource, detail));
        }
        if sub == "*" {
            all_subresources_of.push(parent);
        }
        if parent == "*" {
            everywhere.push(sub);
        }
    }
    let mut clash = |detail: &str| errors.push(Error::invalid(path, Value::from(list(rule, "resources")), detail));
    if resources.len() > 1 && resources.contains(&"*/*") {
        clash("if '*/*' is present, must not specify other resources");
    }
    if resources.contains(&"*") && plain_resource {
        clash("if '*' is present, must not specify other resources without subresources");
    }
    errors
}

/// Checks a `MatchResources`.
pub(super) fn validate_match_resources(resources: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    errors.extend(validate_required_word(resources, "matchPolicy", MATCH_POLICIES, path));
    for name in ["namespaceSelector", "objectSelector"] {
        match present(resources, name) {
            None => errors.push(Error::required(&path.child(name), "")),
            Some(selector) => errors.extend(validate_label_selector(Some(selector), &path.child(name))),
        }
    }
    for name in ["resourceRules", "excludeResourceRules"] {
        for (index, rule) in list(resources, name).iter().enumerate() {
            errors.extend(validate_named_rule(rule, &path.child(name).index(index)));
        }
    }
    errors
}

fn validate_named_rule(rule: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let names = texts(rule, "resourceNames");
    for (index, name) in names.iter().enumerate() {
        let path = path.child("resourceNames").index(index);
        errors.extend(invalid_each(&path, name, any_path_segment_name(name, NameKind::Full)));
        if names[..index].contains(name) {
            errors.push(Error::duplicate(&path, *name));
        }
    }
    errors.extend(validate_rule(rule, path));
    errors
}

/// Mutation cannot happen on deletion: checks the operations of all resource rules of a `MatchResources`.
pub(super) fn validate_mutating_operations(resources: &Value, path: &Path) -> ErrorList {
    let path = path.child("resourceRules").child("operations");
    list(resources, "resourceRules")
        .iter()
        .flat_map(|rule| texts(rule, "operations"))
        .filter(|operation| !MUTATING_OPERATIONS.contains(operation))
        .map(|operation| Error::not_supported(&path, operation, MUTATING_OPERATIONS))
        .collect()
}

/// Checks match conditions, which see `params` only in policies that have some.
pub(super) fn validate_match_conditions(conditions: &[Value], params: Params, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    if conditions.len() > MAX_MATCH_CONDITIONS {
        errors.push(Error::too_many(path, conditions.len(), MAX_MATCH_CONDITIONS));
    }
    for (index, condition) in conditions.iter().enumerate() {
        let path = path.index(index);
        let expression = text(condition, "expression").trim();
        let expression_path = path.child("expression");
        if expression.is_empty() {
            errors.push(Error::required(&expression_path, ""));
        } else {
            let env = Declared::WithAccess(params).environment();
            errors.extend(compile_error(&expression_path, expression, Compiled::new(env, expression, &[Type::Bool])));
        }
        let name = text(condition, "name");
        let name_path = path.child("name");
        if name.is_empty() {
            errors.push(Error::required(&name_path, ""));
            continue;
        }
        errors.extend(invalid_each(&name_path, name, qualified_name(name)));
        if conditions[..index].iter().any(|earlier| text(earlier, "name") == name) {
            errors.push(Error::duplicate(&name_path, name));
        }
    }
    errors
}

/// What is wrong with an expression, if anything is.
pub(super) fn compile_error<T>(path: &Path, shown: &str, compiled: Result<T, CompileError>) -> Option<Error> {
    match compiled {
        Ok(_) => None,
        Err(CompileError::Invalid(detail)) => Some(Error::invalid(path, shown, detail)),
        Err(CompileError::Internal(detail)) => Some(Error::internal(path, detail)),
    }
}

/// Checks the kind of a policy's parameters.
pub(super) fn validate_param_kind(kind: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let api_version = text(kind, "apiVersion");
    let version_path = path.child("apiVersion");
    let (group, version) = match api_version.split_once('/') {
        None => ("", api_version),
        Some(parts) => parts,
    };
    if api_version.is_empty() {
        errors.push(Error::required(&version_path, ""));
    } else if version.contains('/') {
        let detail = format!("unexpected GroupVersion string: {api_version}");
        errors.push(Error::invalid(&version_path, api_version, detail));
    } else {
        let faults = if group.is_empty() { Vec::new() } else { dns1123_subdomain(group) };
        if !faults.is_empty() {
            errors.push(Error::invalid(&version_path, group, faults.join(",")));
        }
        if version.is_empty() {
            errors.push(Error::invalid(&version_path, api_version, "version must be specified"));
        } else {
            let faults = dns1035_label(version);
            if !faults.is_empty() {
                errors.push(Error::invalid(&version_path, version, faults.join(",")));
            }
        }
    }
    let kind = text(kind, "kind");
    let kind_path = path.child("kind");
    if kind.is_empty() {
        errors.push(Error::required(&kind_path, ""));
    } else {
        let faults = dns1035_label(&kind.to_lowercase());
        if !faults.is_empty() {
            let detail = format!("may have mixed case, but should otherwise match: {}", faults.join(","));
            errors.push(Error::invalid(&kind_path, kind, detail));
        }
    }
    errors
}

/// Checks which parameters a binding uses.
pub(super) fn validate_param_ref(reference: &Value, path: &Path) -> ErrorList {
    const EXCLUSIVE: &str = "name and selector are mutually exclusive";
    const ACTIONS: &[&str] = &["Deny", "Allow"];
    let mut errors = ErrorList::new();
    let name = text(reference, "name");
    let selector = present(reference, "selector");
    if !name.is_empty() {
        let path = path.child("name");
        errors.extend(invalid_each(&path, name, any_path_segment_name(name, NameKind::Full)));
        if selector.is_some() {
            errors.push(Error::forbidden(&path, EXCLUSIVE));
        }
    }
    if let Some(selector) = selector {
        let path = path.child("selector");
        errors.extend(validate_label_selector(Some(selector), &path));
        if !name.is_empty() {
            errors.push(Error::forbidden(&path, EXCLUSIVE));
        }
    }
    if name.is_empty() && selector.is_none() {
        errors.push(Error::required(path, "one of name or selector must be specified"));
    }
    match text(reference, "parameterNotFoundAction") {
        "" => errors.push(Error::required(&path.child("parameterNotFoundAction"), "")),
        _ => errors.extend(validate_word(reference, "parameterNotFoundAction", ACTIONS, path)),
    }
    errors
}
