//! Roles and bindings. The rules here say what is well formed; that nobody grants more than they hold is decided where
//! the authorizer is known.

use bailiwick_machinery::field::{Error, ErrorList, Path};
use bailiwick_machinery::selector::{LabelSelector, validate_label_selector};
use bailiwick_machinery::strategy::{NameKind, NameValidator};
use bailiwick_machinery::table::Column;
use bailiwick_machinery::validation::{names, validate_core_finalizers};
use bailiwick_machinery::{Context, Resource, Scope, Strategy, object};
use jiff::Timestamp;
use k8s_openapi::api::rbac::v1 as rbac;
use serde_json::{Value, json};

use crate::columns::{Printer, age, age_column, default_table, description, name_column};
use crate::descriptor::Named;
use crate::field_errors::{invalid_each, invalid_shown};
use crate::fields::{each_mut, list, present, put, set_default, text};
use crate::go_shape::{self, Shape};

/// The API group of roles and of subjects that are users or groups.
pub const GROUP: &str = "rbac.authorization.k8s.io";

/// `roles`, `rolebindings`, `clusterroles` and `clusterrolebindings`.
pub fn resources() -> Vec<Resource> {
    let named = |kind, plural| Named { group: GROUP, version: "v1", kind, plural };
    vec![
        named("ClusterRoleBinding", "clusterrolebindings").stored(
            Scope::Cluster,
            Binding(Scope::Cluster),
            Printer::new(cluster_binding_columns, binding_cells),
        ),
        named("ClusterRole", "clusterroles").stored(Scope::Cluster, Role(Scope::Cluster), default_table()),
        named("RoleBinding", "rolebindings").stored(
            Scope::Namespaced,
            Binding(Scope::Namespaced),
            Printer::new(binding_columns, binding_cells),
        ),
        named("Role", "roles").stored(Scope::Namespaced, Role(Scope::Namespaced), default_table()),
    ]
}

/// Rules of `roles` and `clusterroles`.
struct Role(Scope);

impl Strategy for Role {
    fn default(&self, object: &mut Value) {
        set_default(object, "rules", || Value::Null);
    }

    fn validate(&self, _cx: &Context<'_>, object: &Value) -> ErrorList {
        let mut errors = validate_core_finalizers(object);
        for (index, rule) in list(object, "rules").iter().enumerate() {
            errors.extend(validate_rule(rule, self.0, &Path::new("rules").index(index)));
        }
        if self.0 == Scope::Cluster {
            errors.extend(validate_aggregation(object));
        }
        errors
    }

    fn validate_update(&self, cx: &Context<'_>, object: &Value, old: &Value) -> ErrorList {
        let mut errors = self.validate(cx, object);
        // Label values that older servers let in may stay.
        if self.0 == Scope::Cluster && !validate_aggregation(old).is_empty() {
            errors.retain(|error| !error.field.contains(".values["));
        }
        errors
    }

    fn name_validator(&self) -> NameValidator {
        names::name_is_path_segment
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }
}

/// What is wrong with one policy rule.
fn validate_rule(rule: &Value, scope: Scope, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let empty = |field| list(rule, field).is_empty();
    if empty("verbs") {
        errors.push(Error::required(&path.child("verbs"), "verbs must contain at least one value"));
    }
    if !empty("nonResourceURLs") {
        let urls = || json!(list(rule, "nonResourceURLs"));
        let path = path.child("nonResourceURLs");
        if scope == Scope::Namespaced {
            errors.push(Error::invalid(&path, urls(), "namespaced rules cannot apply to non-resource URLs"));
        }
        if !(empty("apiGroups") && empty("resources") && empty("resourceNames")) {
            let complaint = "rules cannot apply to both regular resources and non-resource URLs";
            errors.push(Error::invalid(&path, urls(), complaint));
        }
        return errors;
    }
    if empty("apiGroups") {
        errors.push(Error::required(&path.child("apiGroups"), "resource rules must supply at least one api group"));
    }
    if empty("resources") {
        errors.push(Error::required(&path.child("resources"), "resource rules must supply at least one resource"));
    }
    errors
}

fn validate_aggregation(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let Some(aggregation) = present(object, "aggregationRule") else { return errors };
    let path = Path::new("aggregationRule").child("clusterRoleSelectors");
    let selectors = list(aggregation, "clusterRoleSelectors");
    if selectors.is_empty() {
        let complaint = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        errors.push(Error::required(&path, complaint));
    }
    for (index, selector) in selectors.iter().enumerate() {
        let path = path.index(index);
        errors.extend(validate_label_selector(Some(selector), &path));
        if LabelSelector::from_object(Some(selector)).is_err() {
            errors.push(Error::invalid(&path, Value::Null, "invalid label selector."));
        }
    }
    errors
}

/// Rules of `rolebindings` and `clusterrolebindings`.
struct Binding(Scope);

impl Strategy for Binding {
    fn default(&self, object: &mut Value) {
        set_default(object, "roleRef", || json!({}));
        if let Some(role) = object.get_mut("roleRef")
            && text(role, "apiGroup").is_empty()
        {
            put(role, "apiGroup", json!(GROUP));
        }
        for subject in each_mut(object, "subjects") {
            if matches!(text(subject, "kind"), "User" | "Group") && text(subject, "apiGroup").is_empty() {
                put(subject, "apiGroup", json!(GROUP));
            }
        }
    }

    fn validate(&self, _cx: &Context<'_>, object: &Value) -> ErrorList {
        let mut errors = validate_core_finalizers(object);
        errors.extend(validate_role_ref(object.get("roleRef").unwrap_or(&Value::Null), self.0));
        for (index, subject) in list(object, "subjects").iter().enumerate() {
            errors.extend(validate_subject(subject, self.0, &Path::new("subjects").index(index)));
        }
        errors
    }

    fn validate_update(&self, cx: &Context<'_>, object: &Value, old: &Value) -> ErrorList {
        const ROLE_REF: [go_shape::Field; 3] =
            [("APIGroup", "apiGroup", Shape::Text), ("Kind", "kind", Shape::Text), ("Name", "name", Shape::Text)];
        let mut errors = self.validate(cx, object);
        let role = |binding: &Value| go_shape::shown(binding.get("roleRef").unwrap_or(&Value::Null), &ROLE_REF);
        if role(object) != role(old) {
            errors.push(invalid_shown(&Path::new("roleRef"), &role(object), "cannot change roleRef"));
        }
        errors
    }

    fn name_validator(&self) -> NameValidator {
        names::name_is_path_segment
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }
}

fn validate_role_ref(role: &Value, scope: Scope) -> ErrorList {
    let path = Path::new("roleRef");
    let mut errors = ErrorList::new();
    let group = text(role, "apiGroup");
    if group != GROUP {
        errors.push(Error::not_supported(&path.child("apiGroup"), group, &[GROUP]));
    }
    let kinds: &[&str] = if scope == Scope::Namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    let kind = text(role, "kind");
    if !kinds.contains(&kind) {
        errors.push(Error::not_supported(&path.child("kind"), kind, kinds));
    }
    match text(role, "name") {
        "" => errors.push(Error::required(&path.child("name"), "")),
        name => {
            errors.extend(invalid_each(&path.child("name"), name, names::name_is_path_segment(name, NameKind::Full)));
        }
    }
    errors
}

fn validate_subject(subject: &Value, scope: Scope, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let name = text(subject, "name");
    let group = text(subject, "apiGroup");
    if name.is_empty() {
        errors.push(Error::required(&path.child("name"), ""));
    }
    match text(subject, "kind") {
        "ServiceAccount" => {
            if !name.is_empty() {
                errors.extend(invalid_each(&path.child("name"), name, names::dns1123_subdomain(name)));
            }
            if !group.is_empty() {
                errors.push(Error::not_supported(&path.child("apiGroup"), group, &[""]));
            }
            if scope == Scope::Cluster && text(subject, "namespace").is_empty() {
                errors.push(Error::required(&path.child("namespace"), ""));
            }
        }
        "User" | "Group" => {
            if group != GROUP {
                errors.push(Error::not_supported(&path.child("apiGroup"), group, &[GROUP]));
            }
        }
        kind => errors.push(Error::not_supported(&path.child("kind"), kind, &["ServiceAccount", "User", "Group"])),
    }
    errors
}

fn binding_columns() -> Vec<Column> {
    binding_table("roleBinding", &description::<rbac::RoleBinding>("roleRef"))
}

fn cluster_binding_columns() -> Vec<Column> {
    binding_table("clusterRoleBinding", &description::<rbac::ClusterRoleBinding>("roleRef"))
}

fn binding_table(binding: &str, role: &str) -> Vec<Column> {
    // The sentence about immutability came with v1; the table still shows the documentation of v1beta1.
    let role = role.trim_end_matches(" This field is immutable.");
    let subjects = |plural: &str| Column::new(plural, "string", &format!("{plural} in the {binding}")).priority(1);
    vec![
        name_column(),
        Column::new("Role", "string", role),
        age_column(),
        subjects("Users"),
        subjects("Groups"),
        subjects("ServiceAccounts"),
    ]
}

fn binding_cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let role = |field| object::str_at(object, &["roleRef", field]);
    let subjects = |kind: &str, show: fn(&Value) -> String| {
        let shown: Vec<String> =
            list(object, "subjects").iter().filter(|subject| text(subject, "kind") == kind).map(show).collect();
        json!(shown.join(", "))
    };
    let name = |subject: &Value| text(subject, "name").to_owned();
    let namespaced_name = |subject: &Value| format!("{}/{}", text(subject, "namespace"), text(subject, "name"));
    vec![
        json!(object::name(object)),
        json!(format!("{}/{}", role("kind"), role("name"))),
        age(object, now),
        subjects("User", name),
        subjects("Group", name),
        subjects("ServiceAccount", namespaced_name),
    ]
}

#[cfg(test)]
mod tests;
