//! The spec of a definition as a whole: group, scope, versions, names, and what must agree between them.

use bailiwick_machinery::field::{Error, ErrorList, Path};
use bailiwick_machinery::validation::names::dns1123_subdomain;
use serde_json::Value;

use super::names::{self, Presence};
use super::schema::{self, Tolerance};
use super::shown::shown_versions;
use super::versions::{Hoisted, validate_columns, validate_deprecation, validate_subresources};
use super::walk::{any_schema, schema_of};
use super::{conversion, selectable_fields};
use crate::field_errors::{immutable, invalid_shown, shown_string};
use crate::fields::{flag, list, present, text};

const SCOPES: &[&str] = &["Cluster", "Namespaced"];

/// Checks the spec; `old` is the stored definition, some of whose faults an update may keep.
pub(super) fn validate(object: &Value, old: Option<&Value>) -> ErrorList {
    let nothing = Value::Null;
    let spec = present(object, "spec").unwrap_or(&nothing);
    let invalid_ca = conversion::InvalidCa::of(old);
    let old = old.and_then(|old| present(old, "spec"));
    let path = Path::new("spec");
    let mut errors = validate_group_and_scope(spec, &path);

    let tolerance = Tolerance::of(spec, old);
    let preserve_unknown = flag(spec, "preserveUnknownFields");
    errors.extend(require_schemas(spec, old, preserve_unknown, &path));
    if preserve_unknown && any_schema(spec, &mut |schema| present(schema, "default").is_some()) {
        let detail = "must be false in order to use defaults in the schema";
        errors.push(Error::invalid(&path.child("preserveUnknownFields"), true, detail));
    }

    let versions = list(spec, "versions");
    let hoisted = Hoisted::of(versions);
    for (index, version) in versions.iter().enumerate() {
        let path = path.child("versions").index(index);
        errors.extend(names::label(&path.child("name"), text(version, "name"), Presence::Required));
        errors.extend(validate_deprecation(version, &path));
        let old = old.and_then(|old| list(old, "versions").iter().find(|v| text(v, "name") == text(version, "name")));
        let own = |field: bool| !field;
        let status = has_status(version);
        errors.extend(validate_version(
            version,
            old,
            &tolerance,
            status,
            &Places {
                schema: own(hoisted.schema).then(|| path.child("schema")),
                subresources: own(hoisted.subresources).then(|| path.clone()),
                columns: own(hoisted.columns).then(|| path.clone()),
                selectable_fields: own(hoisted.selectable_fields).then(|| path.clone()),
                no_schema: "may only be set when `version.schema.openAPIV3Schema` is not included",
            },
        ));
    }
    errors.extend(validate_storage(versions, &hoisted, &path.child("versions")));
    // Upstream's internal type repeats the first name here.
    if let Some(first) = versions.first() {
        errors.extend(names::label(&path.child("version"), text(first, "name"), Presence::Optional));
    }
    errors.extend(validate_names(spec, &path.child("names")));
    if let Some(first) = versions.first() {
        let old = old.and_then(|old| list(old, "versions").first());
        let status = versions.iter().any(has_status);
        errors.extend(validate_version(
            first,
            old,
            &tolerance,
            status,
            &Places {
                schema: hoisted.schema.then(|| path.child("validation")),
                subresources: hoisted.subresources.then(|| path.clone()),
                columns: hoisted.columns.then(|| path.clone()),
                selectable_fields: hoisted.selectable_fields.then(|| path.clone()),
                no_schema: "may only be set when validations.schema is included",
            },
        ));
    }
    errors.extend(validate_conversion(spec, old, invalid_ca, &path.child("conversion")));
    errors
}

/// Storage depends on the group and the names, so they stay; scope and kind once the definition is established.
pub(super) fn validate_immutable(object: &Value, old: &Value) -> ErrorList {
    let path = Path::new("spec");
    let (new_spec, old_spec) = (&object["spec"], &old["spec"]);
    let check = |field: &str| immutable(&path.child(field), new_spec.get(field), old_spec.get(field), shown_string);
    let check_name = |field: &str| {
        let path = path.child("names").child(field);
        immutable(&path, new_spec["names"].get(field), old_spec["names"].get(field), shown_string)
    };
    let established = list(&old["status"], "conditions")
        .iter()
        .any(|condition| text(condition, "type") == "Established" && text(condition, "status") == "True");
    let mut errors = ErrorList::new();
    if established {
        errors.extend(check("scope"));
        errors.extend(check_name("kind"));
    }
    errors.extend(check("group"));
    errors.extend(check_name("plural"));
    errors
}

fn validate_group_and_scope(spec: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let group = text(spec, "group");
    let faults = dns1123_subdomain(group);
    if group.is_empty() {
        errors.push(Error::required(&path.child("group"), ""));
    } else if !faults.is_empty() {
        errors.push(Error::invalid(&path.child("group"), group, faults.join(",")));
    } else if !group.contains('.') {
        errors.push(Error::invalid(&path.child("group"), group, "should be a domain with at least one dot"));
    }
    match text(spec, "scope") {
        "" => errors.push(Error::required(&path.child("scope"), "")),
        scope if !SCOPES.contains(&scope) => {
            errors.push(Error::not_supported(&path.child("scope"), scope, SCOPES));
        }
        _ => {}
    }
    errors
}

/// New definitions have a schema in every version. Old ones without may stay so where nothing is pruned or served.
fn require_schemas(spec: &Value, old: Option<&Value>, preserve_unknown: bool, path: &Path) -> ErrorList {
    let versions = list(spec, "versions").iter().enumerate();
    let without = versions.filter(|(_, version)| schema_of(version).is_none());
    let at = |index: usize| path.child("versions").index(index).child("schema").child("openAPIV3Schema");
    let complete = old.is_none_or(|old| list(old, "versions").iter().all(|version| schema_of(version).is_some()));
    if complete {
        return without.map(|(index, _)| Error::required(&at(index), "")).collect();
    }
    without
        .filter(|(_, version)| flag(version, "served") && !preserve_unknown)
        .map(|(index, _)| Error::required(&at(index), "because otherwise all fields are pruned"))
        .collect()
}

fn validate_storage(versions: &[Value], hoisted: &Hoisted, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let mut wrong = |detail: &str| errors.push(invalid_shown(path, &shown_versions(versions, hoisted), detail));
    let repeated = |(index, version): (usize, &Value)| {
        versions[..index].iter().any(|earlier| text(earlier, "name") == text(version, "name"))
    };
    if versions.iter().enumerate().any(repeated) {
        wrong("must contain unique version names");
    }
    if versions.iter().filter(|version| flag(version, "storage")).count() != 1 {
        wrong("must have exactly one version marked as storage version");
    }
    errors
}

fn validate_names(spec: &Value, path: &Path) -> ErrorList {
    let nothing = Value::Null;
    let names = present(spec, "names").unwrap_or(&nothing);
    let required = ["plural", "singular", "kind", "listKind"];
    let absent = required.iter().filter(|field| text(names, field).is_empty());
    let mut errors: ErrorList = absent.map(|field| Error::required(&path.child(field), "")).collect();
    errors.extend(names::validate(names, path));
    errors
}

fn has_status(version: &Value) -> bool {
    present(version, "subresources").is_some_and(|subresources| present(subresources, "status").is_some())
}

/// Where the fields of a version are reported; `None` for those that are reported elsewhere.
struct Places {
    schema: Option<Path>,
    subresources: Option<Path>,
    columns: Option<Path>,
    selectable_fields: Option<Path>,
    /// What to say of selectable fields when the schema is not in the same place; upstream looks no further.
    no_schema: &'static str,
}

fn validate_version(
    version: &Value,
    old: Option<&Value>,
    tolerance: &Tolerance,
    has_status: bool,
    places: &Places,
) -> ErrorList {
    let mut errors = ErrorList::new();
    let schema = schema_of(version);
    if let (Some(path), Some(schema)) = (&places.schema, schema) {
        let name = text(version, "name");
        errors.extend(schema::validate(schema, name, has_status, tolerance, &path.child("openAPIV3Schema")));
    }
    if let (Some(path), Some(subresources)) = (&places.subresources, present(version, "subresources")) {
        errors.extend(validate_subresources(subresources, &path.child("subresources")));
    }
    if let Some(path) = &places.columns {
        errors.extend(validate_columns(version, path));
    }
    let fields = list(version, "selectableFields");
    if let (Some(path), false) = (&places.selectable_fields, fields.is_empty()) {
        let path = path.child("selectableFields");
        let old = old.and_then(|old| present(old, "selectableFields"));
        match schema.filter(|_| places.schema.is_some()) {
            Some(schema) => errors.extend(selectable_fields::validate(fields, schema, old, &path)),
            None => errors.push(Error::invalid(&path, "", places.no_schema)),
        }
    }
    errors
}

fn validate_conversion(spec: &Value, old: Option<&Value>, invalid_ca: conversion::InvalidCa, path: &Path) -> ErrorList {
    let Some(conversion) = present(spec, "conversion") else { return ErrorList::new() };
    let mut errors = ErrorList::new();
    let strategy = text(conversion, "strategy");
    if strategy != "None" && flag(spec, "preserveUnknownFields") {
        let detail = "must be None if spec.preserveUnknownFields is true";
        errors.push(Error::invalid(&path.child("strategy"), strategy, detail));
    }
    errors.extend(conversion::validate(conversion, conversion::tolerance(old), invalid_ca, path));
    errors
}
