//! The roles and bindings every control plane has, and how stored ones are brought up to date with them.
//!
//! `defaults/policy.json` holds upstream's, rule for rule, for those whose types or controllers exist here; the differential
//! suite compares them with kube-apiserver's. Reconciliation adds what is missing and takes nothing away: administrators may
//! extend a default role, and an annotation takes one out of our hands.

use bailiwick_machinery::object::{at, str_at};
use serde_json::{Map, Value, json};

use super::PolicyRule;
use super::coverage::uncovered;
use super::rbac::RbacKind;

/// One role or binding per line.
const POLICY: &str = include_str!("defaults/policy.json");
/// `"false"` keeps a default role or binding as its administrators made it.
const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// A role or binding that must exist.
#[derive(Clone, Debug)]
pub struct DefaultObject {
    pub kind: RbacKind,
    pub namespace: String,
    pub name: String,
    /// As it is created.
    pub object: Value,
}

/// What a stored default object needs.
#[derive(Clone, Debug, PartialEq)]
pub enum Needed {
    Nothing,
    /// To be replaced by this.
    Update(Value),
    /// To be deleted and created again: what a binding refers to cannot be changed.
    Recreate,
}

/// Every default role and binding: cluster roles first, so that no binding is stored before its role.
pub fn objects() -> Vec<DefaultObject> {
    let entries: Vec<Map<String, Value>> =
        serde_json::from_str(POLICY).expect("invariant: the policy is part of the program and tested");
    entries.into_iter().filter_map(default_object).collect()
}

fn default_object(mut entry: Map<String, Value>) -> Option<DefaultObject> {
    let mut take = |field: &str| match entry.remove(field) {
        Some(Value::String(text)) => text,
        _ => String::new(),
    };
    let (kind_name, namespace, name) = (take("kind"), take("namespace"), take("name"));
    let kind = match kind_name.as_str() {
        "ClusterRole" => RbacKind::ClusterRole,
        "ClusterRoleBinding" => RbacKind::ClusterRoleBinding,
        "Role" => RbacKind::Role,
        "RoleBinding" => RbacKind::RoleBinding,
        _ => return None,
    };
    let mut labels = json!({"kubernetes.io/bootstrapping": "rbac-defaults"});
    if let (Some(Value::Object(more)), Some(labels)) = (entry.remove("labels"), labels.as_object_mut()) {
        labels.extend(more);
    }
    let mut metadata = json!({"name": name, "labels": labels, "annotations": {AUTO_UPDATE: "true"}});
    if !namespace.is_empty() {
        metadata["namespace"] = namespace.as_str().into();
    }
    let api_version = format!("{}/v1", RbacKind::GROUP);
    let mut object = json!({"apiVersion": api_version, "kind": kind_name, "metadata": metadata});
    if let Some(fields) = object.as_object_mut() {
        fields.extend(entry);
    }
    Some(DefaultObject { kind, namespace, name, object })
}

/// Compares what is stored with what must be there.
pub fn reconcile(expected: &DefaultObject, existing: &Value) -> Needed {
    let protected = at(existing, &["metadata", "annotations", AUTO_UPDATE]).is_some_and(|value| value == "false");
    if protected {
        return Needed::Nothing;
    }
    let mut updated = existing.clone();
    for field in ["annotations", "labels"] {
        merge_missing(&mut updated, &expected.object, field);
    }
    match expected.kind {
        RbacKind::Role | RbacKind::ClusterRole => {
            add_missing_rules(&mut updated, &expected.object);
            settle_aggregation(&mut updated, &expected.object);
        }
        RbacKind::RoleBinding | RbacKind::ClusterRoleBinding => {
            if !same_role(&expected.object, existing) {
                return Needed::Recreate;
            }
            add_missing_subjects(&mut updated, &expected.object);
        }
    }
    if updated == *existing { Needed::Nothing } else { Needed::Update(updated) }
}

fn same_role(a: &Value, b: &Value) -> bool {
    ["apiGroup", "kind", "name"].iter().all(|field| str_at(a, &["roleRef", field]) == str_at(b, &["roleRef", field]))
}

/// Entries of a map in the metadata that are not there; those that are keep their values.
fn merge_missing(object: &mut Value, expected: &Value, field: &str) {
    let Some(wanted) = at(expected, &["metadata", field]).and_then(Value::as_object) else { return };
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let found = metadata.entry(field).or_insert_with(|| json!({}));
    let Some(found) = found.as_object_mut() else { return };
    for (key, value) in wanted {
        found.entry(key.clone()).or_insert_with(|| value.clone());
    }
}

fn list<'a>(object: &'a Value, field: &str) -> &'a [Value] {
    object.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn append(object: &mut Value, field: &str, items: Vec<Value>) {
    if items.is_empty() {
        return;
    }
    let Some(fields) = object.as_object_mut() else { return };
    match fields.get_mut(field).and_then(Value::as_array_mut) {
        Some(found) => found.extend(items),
        None => drop(fields.insert(field.to_owned(), items.into())),
    }
}

fn add_missing_rules(object: &mut Value, expected: &Value) {
    let rules = |role: &Value| -> Vec<PolicyRule> { list(role, "rules").iter().filter_map(PolicyRule::of).collect() };
    let missing = uncovered(&rules(object), &rules(expected)).unwrap_or_default();
    append(object, "rules", missing.iter().filter_map(|rule| serde_json::to_value(rule).ok()).collect());
}

/// A role that should gather others gathers at least those; one that should not, none.
fn settle_aggregation(object: &mut Value, expected: &Value) {
    let selectors =
        |role: &Value| list(role.get("aggregationRule").unwrap_or(&Value::Null), "clusterRoleSelectors").to_vec();
    let Some(fields) = object.as_object_mut() else { return };
    if expected.get("aggregationRule").is_none() {
        fields.remove("aggregationRule");
        return;
    }
    let found = selectors(&Value::Object(fields.clone()));
    let missing: Vec<Value> = selectors(expected).into_iter().filter(|selector| !found.contains(selector)).collect();
    let rule = fields.entry("aggregationRule").or_insert_with(|| json!({}));
    append(rule, "clusterRoleSelectors", missing);
}

fn add_missing_subjects(object: &mut Value, expected: &Value) {
    let same = |a: &Value, b: &Value| {
        ["kind", "apiGroup", "name", "namespace"].iter().all(|field| str_at(a, &[field]) == str_at(b, &[field]))
    };
    let found = list(object, "subjects");
    let missing: Vec<Value> = list(expected, "subjects")
        .iter()
        .filter(|subject| !found.iter().any(|other| same(subject, other)))
        .cloned()
        .collect();
    append(object, "subjects", missing);
}

#[cfg(test)]
mod tests;
