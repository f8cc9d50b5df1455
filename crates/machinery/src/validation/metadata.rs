//! The rules for `metadata`, the same for every type, in upstream's order and words.
//!
//! Values are taken to be of the right JSON types already (decoding saw to that); what is of another type counts as
//! absent. The handler runs [`validate_object_meta`] on every write and [`validate_object_meta_update`] on updates.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::field::{Error, ErrorList, Path};
use crate::object::{finalizers, metadata};
use crate::resource::{GroupVersion, Scope};
use crate::strategy::{NameKind, NameValidator};
use crate::validation::names;

/// All annotation keys and values together, so that no object carries a database in its annotations.
pub const TOTAL_ANNOTATION_SIZE_LIMIT: usize = 256 * 1024;
/// Longest field manager name.
pub const FIELD_MANAGER_MAX_LENGTH: usize = 128;
/// Longest subresource name in managedFields.
const SUBRESOURCE_MAX_LENGTH: usize = 256;

/// Asks the garbage collector to leave dependents alone.
pub const FINALIZER_ORPHAN_DEPENDENTS: &str = "orphan";
/// Asks the garbage collector to delete dependents first.
pub const FINALIZER_DELETE_DEPENDENTS: &str = "foregroundDeletion";
/// Finalizers without a domain that types of the core group accept.
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", FINALIZER_ORPHAN_DEPENDENTS, FINALIZER_DELETE_DEPENDENTS];

const IMMUTABLE: &str = "field is immutable";

/// What is wrong with the metadata of an object about to be stored. Its name must have been generated already.
pub fn validate_object_meta(object: &Value, scope: Scope, name_validator: NameValidator) -> ErrorList {
    let empty = Map::new();
    let meta = metadata(object).unwrap_or(&empty);
    let path = Path::new("metadata");
    let mut errors = ErrorList::new();

    let generate_name = text(meta, "generateName");
    if !generate_name.is_empty() {
        let at = path.child("generateName");
        errors.extend(
            name_validator(generate_name, NameKind::Prefix).into_iter().map(|t| Error::invalid(&at, generate_name, t)),
        );
    }
    let name = text(meta, "name");
    let at = path.child("name");
    if name.is_empty() {
        errors.push(Error::required(&at, "name or generateName is required"));
    } else {
        errors.extend(name_validator(name, NameKind::Full).into_iter().map(|t| Error::invalid(&at, name, t)));
    }

    let namespace = text(meta, "namespace");
    let at = path.child("namespace");
    match scope {
        Scope::Namespaced if namespace.is_empty() => errors.push(Error::required(&at, "")),
        Scope::Namespaced => errors.extend(
            names::name_is_dns_label(namespace, NameKind::Full).into_iter().map(|t| Error::invalid(&at, namespace, t)),
        ),
        Scope::Cluster if !namespace.is_empty() => errors.push(Error::forbidden(&at, "not allowed on this type")),
        Scope::Cluster => {}
    }

    let generation = integer(meta, "generation");
    if generation < 0 {
        errors.push(Error::invalid(&path.child("generation"), generation, "must be greater than or equal to 0"));
    }
    errors.extend(validate_labels(meta.get("labels"), &path.child("labels")));
    errors.extend(validate_annotations(meta.get("annotations"), &path.child("annotations")));
    errors.extend(validate_owner_references(meta.get("ownerReferences"), &path.child("ownerReferences")));
    errors.extend(validate_finalizers(&finalizers(object), &path.child("finalizers")));
    errors.extend(validate_managed_fields(meta.get("managedFields"), &path.child("managedFields")));
    errors
}

/// What is wrong with how an update changes metadata.
pub fn validate_object_meta_update(new: &Value, old: &Value) -> ErrorList {
    let empty = Map::new();
    let new_meta = metadata(new).unwrap_or(&empty);
    let old_meta = metadata(old).unwrap_or(&empty);
    let path = Path::new("metadata");
    let mut errors = ErrorList::new();

    if present(old_meta, "deletionTimestamp").is_some() {
        let before = finalizers(old);
        let added: BTreeSet<&str> = finalizers(new).into_iter().filter(|f| !before.contains(f)).collect();
        if !added.is_empty() {
            let shown: Vec<String> = added.iter().map(|f| format!("{f:?}")).collect();
            errors.push(Error::forbidden(
                &path.child("finalizers"),
                format!(
                    "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                    shown.join(", ")
                ),
            ));
        }
    }
    if text(new_meta, "resourceVersion").is_empty() {
        errors.push(Error::invalid(&path.child("resourceVersion"), "", "must be specified for an update"));
    }
    let generation = integer(new_meta, "generation");
    if generation < integer(old_meta, "generation") {
        errors.push(Error::invalid(&path.child("generation"), generation, "must not be decremented"));
    }
    for field in ["name", "namespace", "uid"] {
        if text(new_meta, field) != text(old_meta, field) {
            errors.push(Error::invalid(&path.child(field), text(new_meta, field), IMMUTABLE));
        }
    }
    for field in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        if present(new_meta, field) != present(old_meta, field) {
            let value = present(new_meta, field).cloned().unwrap_or(Value::Null);
            errors.push(Error::invalid(&path.child(field), value, IMMUTABLE));
        }
    }
    errors.extend(validate_labels(new_meta.get("labels"), &path.child("labels")));
    errors.extend(validate_annotations(new_meta.get("annotations"), &path.child("annotations")));
    errors.extend(validate_owner_references(new_meta.get("ownerReferences"), &path.child("ownerReferences")));
    errors.extend(validate_managed_fields(new_meta.get("managedFields"), &path.child("managedFields")));
    errors
}

/// The extra rule of native types that use core validation: a finalizer has a domain or is a standard one. Comes after
/// the errors of the two functions above; custom resources do not have it.
pub fn validate_core_finalizers(object: &Value) -> ErrorList {
    let path = Path::new("metadata").child("finalizers");
    finalizers(object)
        .into_iter()
        .enumerate()
        .filter(|(_, name)| !name.contains('/') && !STANDARD_FINALIZERS.contains(name))
        .map(|(i, name)| {
            let text = "name is neither a standard finalizer name nor is it fully qualified";
            Error::invalid(&path.index(i), name, text)
        })
        .collect()
}

/// The rules for a map of labels, wherever it stands.
pub fn validate_labels(labels: Option<&Value>, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    for (key, value) in labels.and_then(Value::as_object).into_iter().flatten() {
        errors.extend(validate_label_name(key, path));
        let value = value.as_str().unwrap_or_default();
        errors.extend(names::label_value(value).into_iter().map(|t| Error::invalid(path, value, t)));
    }
    errors
}

/// The rule for one label key.
pub fn validate_label_name(name: &str, path: &Path) -> ErrorList {
    names::qualified_name(name).into_iter().map(|t| Error::invalid(path, name, t)).collect()
}

/// The rules for a map of annotations; keys are qualified names but for their case.
pub fn validate_annotations(annotations: Option<&Value>, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let mut size = 0;
    for (key, value) in annotations.and_then(Value::as_object).into_iter().flatten() {
        size += key.len() + value.as_str().map_or(0, str::len);
        let wrong = names::qualified_name(&key.to_lowercase());
        errors.extend(wrong.into_iter().map(|t| Error::invalid(path, key.as_str(), t)));
    }
    if size > TOTAL_ANNOTATION_SIZE_LIMIT {
        errors.push(Error::too_long(path, TOTAL_ANNOTATION_SIZE_LIMIT));
    }
    errors
}

/// A field manager must be short and printable.
pub fn validate_field_manager(manager: &str, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    if manager.len() > FIELD_MANAGER_MAX_LENGTH {
        errors.push(Error::too_long(path, FIELD_MANAGER_MAX_LENGTH));
    }
    for (position, c) in manager.char_indices() {
        if !is_printable(c) {
            let detail = format!("invalid character U+{:04X} (at position {position})", c as u32);
            errors.push(Error::invalid(path, manager, detail));
        }
    }
    errors
}

fn validate_owner_references(references: Option<&Value>, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let Some(Value::Array(references)) = references else { return errors };
    let mut controller: Option<String> = None;
    for reference in references {
        let field = |name: &str| reference.get(name).and_then(Value::as_str).unwrap_or_default();
        let version = GroupVersion::parse(field("apiVersion")).unwrap_or_else(|| GroupVersion::new("", ""));
        if version.version.is_empty() {
            errors.push(Error::invalid(&path.child("apiVersion"), field("apiVersion"), "version must not be empty"));
        }
        for name in ["kind", "name", "uid"] {
            if field(name).is_empty() {
                errors.push(Error::invalid(&path.child(name), "", "must not be empty"));
            }
        }
        // An Event that owns things would have them collected within the hour.
        if field("apiVersion") == "v1" && field("kind") == "Event" {
            errors.push(Error::invalid(path, reference.clone(), "/v1, Kind=Event is disallowed from being an owner"));
        }
        if reference.get("controller").and_then(Value::as_bool) == Some(true) {
            let this = format!("{}/{}", field("kind"), field("name"));
            match &controller {
                None => controller = Some(this),
                Some(first) => errors.push(Error::invalid(
                    path,
                    Value::Array(references.clone()),
                    format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                    ),
                )),
            }
        }
    }
    errors
}

fn validate_finalizers(finalizers: &[&str], path: &Path) -> ErrorList {
    let mut errors: ErrorList = finalizers
        .iter()
        .flat_map(|name| names::qualified_name(name).into_iter().map(|t| Error::invalid(path, *name, t)))
        .collect();
    if finalizers.contains(&FINALIZER_ORPHAN_DEPENDENTS) && finalizers.contains(&FINALIZER_DELETE_DEPENDENTS) {
        let list: Value = finalizers.iter().copied().collect();
        errors.push(Error::invalid(
            path,
            list,
            format!("finalizer {FINALIZER_ORPHAN_DEPENDENTS} and {FINALIZER_DELETE_DEPENDENTS} cannot be both set"),
        ));
    }
    errors
}

fn validate_managed_fields(entries: Option<&Value>, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let Some(Value::Array(entries)) = entries else { return errors };
    for (i, entry) in entries.iter().enumerate() {
        let path = path.index(i);
        let field = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
        if !matches!(field("operation"), "Apply" | "Update") {
            errors.push(Error::invalid(&path.child("operation"), field("operation"), "must be `Apply` or `Update`"));
        }
        if !matches!(field("fieldsType"), "" | "FieldsV1") {
            errors.push(Error::invalid(&path.child("fieldsType"), field("fieldsType"), "must be `FieldsV1`"));
        }
        errors.extend(validate_field_manager(field("manager"), &path.child("manager")));
        if field("subresource").len() > SUBRESOURCE_MAX_LENGTH {
            errors.push(Error::too_long(&path.child("subresource"), SUBRESOURCE_MAX_LENGTH));
        }
    }
    errors
}

/// Nearly Go's `unicode.IsPrint`: neither control, nor white space but the plain one, nor invisible formatting.
pub(crate) fn is_printable(c: char) -> bool {
    let invisible = matches!(c as u32, 0xAD | 0x600..=0x605 | 0x200B..=0x200F | 0x2028..=0x202E | 0x2060..=0x206F
        | 0xE000..=0xF8FF | 0xFEFF | 0xFFF0..=0xFFFB | 0xFFFE | 0xFFFF | 0xE0000..=0x10FFFF);
    c == ' ' || !(c.is_control() || c.is_whitespace() || invisible)
}

fn text<'a>(meta: &'a Map<String, Value>, field: &str) -> &'a str {
    meta.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn integer(meta: &Map<String, Value>, field: &str) -> i64 {
    meta.get(field).and_then(Value::as_i64).unwrap_or_default()
}

fn present<'a>(meta: &'a Map<String, Value>, field: &str) -> Option<&'a Value> {
    meta.get(field).filter(|value| !value.is_null())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(errors: &ErrorList) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    fn check(meta: Value, scope: Scope) -> Vec<String> {
        texts(&validate_object_meta(&json!({ "metadata": meta }), scope, names::name_is_dns_subdomain))
    }

    #[test]
    fn a_name_is_required() {
        let expected = ["metadata.name: Required value: name or generateName is required"];
        assert_eq!(check(json!({}), Scope::Cluster), expected);
        assert_eq!(texts(&validate_object_meta(&json!({}), Scope::Cluster, names::name_is_path_segment)), expected);
    }

    #[test]
    fn namespaces_belong_to_namespaced_types() {
        let meta = json!({"name": "a", "namespace": "n"});
        assert_eq!(check(meta, Scope::Cluster), ["metadata.namespace: Forbidden: not allowed on this type"]);
        assert_eq!(check(json!({"name": "a"}), Scope::Namespaced), ["metadata.namespace: Required value"]);
        let meta = json!({"name": "a", "namespace": "n.m"});
        assert_eq!(
            check(meta, Scope::Namespaced),
            ["metadata.namespace: Invalid value: \"n.m\": must not contain dots"]
        );
    }

    /// The order and texts kube-apiserver 1.36.4 gave for a ConfigMap like this.
    #[test]
    fn everything_wrong_at_once_reads_like_upstream() {
        let object = json!({"metadata": {
            "name": "x1", "generation": -1,
            "labels": {"a": "b c"}, "annotations": {"A/B": "1", "/x": "1"},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Event", "name": "x", "uid": "u", "controller": true},
                {"apiVersion": "", "kind": "", "name": "", "uid": "", "controller": true},
            ],
            "finalizers": ["orphan", "foregroundDeletion", "a"],
            "managedFields": [{"manager": "x", "operation": "Foo", "fieldsType": "X"}],
        }});
        let mut errors = validate_object_meta(&object, Scope::Cluster, names::name_is_dns_subdomain);
        errors.extend(validate_core_finalizers(&object));
        let fields: Vec<(&str, &str)> = errors.iter().map(|e| (e.field.as_str(), e.detail.as_str())).collect();
        let label_text = names::label_value("b c").remove(0);
        assert_eq!(
            fields,
            [
                ("metadata.generation", "must be greater than or equal to 0"),
                ("metadata.labels", label_text.as_str()),
                ("metadata.annotations", "prefix part must be non-empty"),
                ("metadata.ownerReferences", "/v1, Kind=Event is disallowed from being an owner"),
                ("metadata.ownerReferences.apiVersion", "version must not be empty"),
                ("metadata.ownerReferences.kind", "must not be empty"),
                ("metadata.ownerReferences.name", "must not be empty"),
                ("metadata.ownerReferences.uid", "must not be empty"),
                (
                    "metadata.ownerReferences",
                    "Only one reference can have Controller set to true. Found \"true\" in references for Event/x and /"
                ),
                ("metadata.finalizers", "finalizer orphan and foregroundDeletion cannot be both set"),
                ("metadata.managedFields[0].operation", "must be `Apply` or `Update`"),
                ("metadata.managedFields[0].fieldsType", "must be `FieldsV1`"),
                ("metadata.finalizers[2]", "name is neither a standard finalizer name nor is it fully qualified"),
            ]
        );
    }

    #[test]
    fn annotations_have_a_total_size() {
        let check = |len: usize| {
            let annotations = json!({"a": "x".repeat(len)});
            texts(&validate_annotations(Some(&annotations), &Path::new("metadata").child("annotations")))
        };
        assert!(check(TOTAL_ANNOTATION_SIZE_LIMIT - 1).is_empty());
        assert_eq!(
            check(TOTAL_ANNOTATION_SIZE_LIMIT),
            ["metadata.annotations: Too long: may not be more than 262144 bytes"]
        );
    }

    #[test]
    fn identity_does_not_change() {
        let old = json!({"metadata": {"name": "a", "uid": "u", "generation": 2, "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z"}});
        let new = json!({"metadata": {"name": "b", "uid": "v", "generation": 1, "deletionGracePeriodSeconds": 7}});
        assert_eq!(
            texts(&validate_object_meta_update(&new, &old)),
            [
                "metadata.resourceVersion: Invalid value: \"\": must be specified for an update",
                "metadata.generation: Invalid value: 1: must not be decremented",
                "metadata.name: Invalid value: \"b\": field is immutable",
                "metadata.uid: Invalid value: \"v\": field is immutable",
                "metadata.creationTimestamp: Invalid value: null: field is immutable",
                "metadata.deletionGracePeriodSeconds: Invalid value: 7: field is immutable",
            ]
        );
        assert!(validate_object_meta_update(&old, &old).is_empty());
    }

    #[test]
    fn no_finalizers_are_added_to_the_dying() {
        let old = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a.b/c"]}});
        let mut new = old.clone();
        new["metadata"]["resourceVersion"] = "1".into();
        new["metadata"]["finalizers"] = json!(["z/z", "a.b/c", "d.e/f", "z/z"]);
        assert_eq!(
            texts(&validate_object_meta_update(&new, &old)),
            ["metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found \
              new finalizers []string{\"d.e/f\", \"z/z\"}"]
        );
        new["metadata"]["finalizers"] = json!([]);
        assert!(validate_object_meta_update(&new, &old).is_empty());
    }

    #[test]
    fn field_managers_are_short_and_printable() {
        let path = Path::new("fieldManager");
        assert_eq!(
            texts(&validate_field_manager(&"a".repeat(129), &path)),
            ["fieldManager: Too long: may not be more than 128 bytes"]
        );
        let errors = validate_field_manager("a\u{7}", &path);
        assert_eq!(errors.first().map(|e| e.detail.as_str()), Some("invalid character U+0007 (at position 1)"));
        assert!(validate_field_manager("kubectl-client-side apply é", &path).is_empty());
    }
}
