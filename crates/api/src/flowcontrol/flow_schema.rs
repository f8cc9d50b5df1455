//! FlowSchemas: which requests belong together and at which priority level they are served.

use bailiwick_machinery::field::{Error, ErrorList, Path};
use bailiwick_machinery::object;
use bailiwick_machinery::strategy::NameKind;
use bailiwick_machinery::table::Column;
use bailiwick_machinery::validation::names::{name_is_dns_label, name_is_dns_subdomain};
use jiff::Timestamp;
use k8s_openapi::api::flowcontrol::v1::{FlowSchemaSpec, PriorityLevelConfigurationReference};
use serde_json::{Value, json};

use super::bootstrap;
use crate::columns::{age, age_column, description, name_column};
use crate::field_errors::{invalid_each, invalid_shown};
use crate::fields::{flag, integer, list, present, present_mut, same, set_default_nonzero, text, texts};
use crate::go_shape::{Field, Shape, shown};

/// Where a schema stands that does not say: after the specific ones, before the catch-all ones.
const DEFAULT_MATCHING_PRECEDENCE: i64 = 1000;
const MAX_MATCHING_PRECEDENCE: i64 = 10_000;

const DISTINGUISHER_METHODS: &[&str] = &["ByNamespace", "ByUser"];
const SUBJECT_KINDS: &[&str] = &["Group", "ServiceAccount", "User"];
const VERBS: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];

const SUBJECT: &[Field] = &[
    ("Kind", "kind", Shape::Text),
    ("User", "user", Shape::Pointer(&[("Name", "name", Shape::Text)])),
    ("Group", "group", Shape::Pointer(&[("Name", "name", Shape::Text)])),
    (
        "ServiceAccount",
        "serviceAccount",
        Shape::Pointer(&[("Namespace", "namespace", Shape::Text), ("Name", "name", Shape::Text)]),
    ),
];
const DISTINGUISHER: &[Field] = &[("Type", "type", Shape::Text)];
const SPEC: &[Field] = &[
    ("PriorityLevelConfiguration", "priorityLevelConfiguration", Shape::Struct(&[("Name", "name", Shape::Text)])),
    ("MatchingPrecedence", "matchingPrecedence", Shape::Integer),
    ("DistinguisherMethod", "distinguisherMethod", Shape::Pointer(DISTINGUISHER)),
    (
        "Rules",
        "rules",
        Shape::List(&[
            ("Subjects", "subjects", Shape::List(SUBJECT)),
            (
                "ResourceRules",
                "resourceRules",
                Shape::List(&[
                    ("Verbs", "verbs", Shape::Texts),
                    ("APIGroups", "apiGroups", Shape::Texts),
                    ("Resources", "resources", Shape::Texts),
                    ("ClusterScope", "clusterScope", Shape::Flag),
                    ("Namespaces", "namespaces", Shape::Texts),
                ]),
            ),
            (
                "NonResourceRules",
                "nonResourceRules",
                Shape::List(&[("Verbs", "verbs", Shape::Texts), ("NonResourceURLs", "nonResourceURLs", Shape::Texts)]),
            ),
        ]),
    ),
];

pub(super) fn default(object: &mut Value) {
    if let Some(spec) = present_mut(object, "spec") {
        set_default_nonzero(spec, "matchingPrecedence", DEFAULT_MATCHING_PRECEDENCE);
    }
}

pub(super) fn validate(object: &Value) -> ErrorList {
    let nothing = Value::Null;
    let name = object::name(object);
    let spec = present(object, "spec").unwrap_or(&nothing);
    let path = Path::new("spec");
    let mut errors = validate_spec(name, spec, &path);
    if let Some(mandatory) = bootstrap::mandatory("FlowSchema", name)
        && !same(Some(spec), mandatory.get("spec"))
    {
        errors.push(invalid_shown(&path, &shown(spec, SPEC), &format!("spec of '{name}' must equal the fixed value")));
    }
    errors
}

fn validate_spec(name: &str, spec: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let precedence = integer(spec, "matchingPrecedence");
    let mut misplaced =
        |detail: &str| errors.push(Error::invalid(&path.child("matchingPrecedence"), precedence, detail));
    if precedence <= 0 {
        misplaced("must be a positive value");
    }
    if precedence > MAX_MATCHING_PRECEDENCE {
        misplaced("must not be greater than 10000");
    }
    if precedence == 1 && name != "exempt" {
        misplaced("only the schema named 'exempt' may have matchingPrecedence 1");
    }
    if let Some(method) = present(spec, "distinguisherMethod")
        && !DISTINGUISHER_METHODS.contains(&text(method, "type"))
    {
        let shown = json!({"Type": text(method, "type")});
        let path = path.child("distinguisherMethod").child("type");
        errors.push(Error::not_supported(&path, shown, DISTINGUISHER_METHODS));
    }
    let level_path = path.child("priorityLevelConfiguration").child("name");
    match present(spec, "priorityLevelConfiguration").map(|level| text(level, "name")).unwrap_or_default() {
        "" => errors.push(Error::required(&level_path, "must reference a priority level")),
        level => errors.extend(invalid_each(&level_path, level, name_is_dns_subdomain(level, NameKind::Full))),
    }
    for (index, rule) in list(spec, "rules").iter().enumerate() {
        errors.extend(validate_rule(rule, &path.child("rules").index(index)));
    }
    errors
}

fn validate_rule(rule: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let subjects = list(rule, "subjects");
    if subjects.is_empty() {
        errors.push(Error::required(&path.child("subjects"), "subjects must contain at least one value"));
    }
    for (index, subject) in subjects.iter().enumerate() {
        errors.extend(validate_subject(subject, &path.child("subjects").index(index)));
    }
    let (resource_rules, other_rules) = (list(rule, "resourceRules"), list(rule, "nonResourceRules"));
    if resource_rules.is_empty() && other_rules.is_empty() {
        let detail = "at least one of resourceRules and nonResourceRules has to be non-empty";
        errors.push(Error::required(path, detail));
    }
    for (index, rule) in resource_rules.iter().enumerate() {
        errors.extend(validate_resource_rule(rule, &path.child("resourceRules").index(index)));
    }
    for (index, rule) in other_rules.iter().enumerate() {
        errors.extend(validate_non_resource_rule(rule, &path.child("nonResourceRules").index(index)));
    }
    errors
}

/// The field that each kind of subject uses, in the order upstream complains about the others.
const SUBJECT_FIELDS: [(&str, &str); 3] = [("ServiceAccount", "serviceAccount"), ("User", "user"), ("Group", "group")];

fn validate_subject(subject: &Value, path: &Path) -> ErrorList {
    let kind = text(subject, "kind");
    let Some((_, own)) = SUBJECT_FIELDS.iter().find(|(name, _)| *name == kind) else {
        return vec![Error::not_supported(&path.child("kind"), kind, SUBJECT_KINDS)];
    };
    let own_path = path.child(own);
    let mut errors = match present(subject, own) {
        None => vec![Error::required(&own_path, format!("{own} is required when subject kind is '{kind}'"))],
        Some(account) if kind == "ServiceAccount" => validate_service_account(account, &own_path),
        Some(named) if text(named, "name").is_empty() => vec![Error::required(&own_path.child("name"), "")],
        Some(_) => ErrorList::new(),
    };
    for (other_kind, other) in SUBJECT_FIELDS.iter().filter(|(name, _)| *name != kind) {
        if present(subject, other).is_some() {
            let detail = format!("{other} is forbidden when subject kind is not '{other_kind}'");
            errors.push(Error::forbidden(&path.child(other), detail));
        }
    }
    errors
}

fn validate_service_account(account: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    match text(account, "name") {
        "" => errors.push(Error::required(&path.child("name"), "")),
        "*" => {}
        name => errors.extend(invalid_each(&path.child("name"), name, name_is_dns_subdomain(name, NameKind::Full))),
    }
    let namespace_path = path.child("namespace");
    match text(account, "namespace") {
        "" => errors.push(Error::required(&namespace_path, "must specify namespace for service account")),
        name => errors.extend(invalid_each(&namespace_path, name, name_is_dns_label(name, NameKind::Full))),
    }
    errors
}

/// Checks a list in which `*` stands alone; says whether its items are still to be looked at.
fn validate_list(rule: &Value, name: &str, missing: &str, plural: &str, path: &Path, errors: &mut ErrorList) -> bool {
    let items = texts(rule, name);
    let path = path.child(name);
    if items.is_empty() {
        errors.push(Error::required(&path, missing));
        return false;
    }
    if !items.contains(&"*") {
        return true;
    }
    if items.len() > 1 {
        let detail = format!("if '*' is present, must not specify other {plural}");
        errors.push(Error::invalid(&path, Value::from(list(rule, name)), detail));
    }
    false
}

fn validate_verbs(rule: &Value, path: &Path, errors: &mut ErrorList) {
    let named = validate_list(rule, "verbs", "verbs must contain at least one value", "verbs", path, errors);
    if named && !texts(rule, "verbs").iter().all(|verb| VERBS.contains(verb)) {
        errors.push(Error::not_supported(&path.child("verbs"), Value::from(list(rule, "verbs")), VERBS));
    }
}

fn validate_non_resource_rule(rule: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    validate_verbs(rule, path, &mut errors);
    let missing = "nonResourceURLs must contain at least one value";
    if validate_list(rule, "nonResourceURLs", missing, "non-resource URLs", path, &mut errors) {
        for (index, url) in texts(rule, "nonResourceURLs").iter().enumerate() {
            if let Some(detail) = url_path_fault(url) {
                errors.push(Error::invalid(&path.child("nonResourceURLs").index(index), *url, detail));
            }
        }
    }
    errors
}

fn url_path_fault(path: &str) -> Option<&'static str> {
    match path {
        "" => Some("must not be empty"),
        "/" => None,
        _ if !path.starts_with('/') => Some("must start with slash"),
        _ if path.contains(' ') => Some("must not contain white-space"),
        _ if path.contains("//") => Some("must not contain double slash"),
        _ if path.matches('*').count() > 1 || path.contains('*') && !path.ends_with("/*") => {
            Some("wildcard can only do suffix matching")
        }
        _ => None,
    }
}

fn validate_resource_rule(rule: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    validate_verbs(rule, path, &mut errors);
    let missing = "resource rules must supply at least one api group";
    validate_list(rule, "apiGroups", missing, "api groups", path, &mut errors);
    let missing = "resource rules must supply at least one resource";
    validate_list(rule, "resources", missing, "resources", path, &mut errors);
    if flag(rule, "clusterScope") && list(rule, "namespaces").is_empty() {
        return errors;
    }
    let missing = "resource rules that are not cluster scoped must supply at least one namespace";
    if validate_list(rule, "namespaces", missing, "namespaces", path, &mut errors) {
        for (index, namespace) in texts(rule, "namespaces").iter().enumerate() {
            let path = path.child("namespaces").index(index);
            let faults = name_is_dns_label(namespace, NameKind::Full).into_iter();
            let introduced =
                faults.map(|fault| format!("each member of this list must be '*' or a DNS-1123 label; {fault}"));
            errors.extend(invalid_each(&path, namespace, introduced.collect()));
        }
    }
    errors
}

pub(super) fn head() -> Vec<Column> {
    vec![
        name_column(),
        Column::new("PriorityLevel", "string", &description::<PriorityLevelConfigurationReference>("name")),
        Column::new("MatchingPrecedence", "string", &description::<FlowSchemaSpec>("matchingPrecedence")),
        Column::new("DistinguisherMethod", "string", &description::<FlowSchemaSpec>("distinguisherMethod")),
        age_column(),
        Column::new("MissingPL", "string", "whether the priority level it names is missing or broken"),
    ]
}

pub(super) fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &object["spec"];
    let method = present(spec, "distinguisherMethod").map_or("<none>", |method| text(method, "type"));
    let dangling = list(&object["status"], "conditions").iter().find(|c| text(c, "type") == "Dangling");
    vec![
        json!(object::name(object)),
        json!(text(&spec["priorityLevelConfiguration"], "name")),
        json!(integer(spec, "matchingPrecedence")),
        json!(method),
        age(object, now),
        json!(dangling.map_or("?", |condition| text(condition, "status"))),
    ]
}
