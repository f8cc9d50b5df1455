//! Reading and writing the metadata of objects held as JSON values.

use serde_json::{Map, Value};

/// The `metadata` of an object; `None` when it is absent or not an object.
pub fn metadata(object: &Value) -> Option<&Map<String, Value>> {
    object.get("metadata")?.as_object()
}

/// The `metadata` of an object, made if absent. `None` when `object` or its metadata is of another JSON type.
pub fn metadata_mut(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object.as_object_mut()?.entry("metadata").or_insert_with(|| Value::Object(Map::new())).as_object_mut()
}

/// A string field of `metadata`; empty when absent.
pub fn meta_str<'a>(object: &'a Value, field: &str) -> &'a str {
    metadata(object).and_then(|m| m.get(field)).and_then(Value::as_str).unwrap_or_default()
}

/// Sets or, with an empty string, removes a string field of `metadata`.
pub fn set_meta_str(object: &mut Value, field: &str, value: &str) {
    if let Some(meta) = metadata_mut(object) {
        if value.is_empty() {
            meta.remove(field);
        } else {
            meta.insert(field.to_owned(), Value::String(value.to_owned()));
        }
    }
}

pub fn name(object: &Value) -> &str {
    meta_str(object, "name")
}

pub fn namespace(object: &Value) -> &str {
    meta_str(object, "namespace")
}

pub fn uid(object: &Value) -> &str {
    meta_str(object, "uid")
}

/// The value at a path of object keys.
pub fn at<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, key| value.get(key))
}

/// The string at a path of object keys; empty when absent.
pub fn str_at<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or_default()
}

pub fn finalizers(object: &Value) -> Vec<&str> {
    metadata(object)
        .and_then(|m| m.get("finalizers"))
        .and_then(Value::as_array)
        .map(|list| list.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default()
}

/// Whether deletion has been asked for.
pub fn is_deleting(object: &Value) -> bool {
    metadata(object).is_some_and(|m| m.get("deletionTimestamp").is_some_and(|t| !t.is_null()))
}
