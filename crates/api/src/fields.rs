//! Reading and defaulting fields of JSON objects the way Go structs behave: an absent or null field is the zero value.
//!
//! Objects reach the hooks already decoded by type, so a field of another JSON type cannot occur; if it does, it reads
//! as absent.

use serde_json::{Map, Value};

/// The field, unless it is absent or null (a nil pointer).
pub(crate) fn present<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    object.get(name).filter(|value| !value.is_null())
}

/// A string; empty when absent.
pub(crate) fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    optional_text(object, name).unwrap_or_default()
}

/// A pointer to a string.
pub(crate) fn optional_text<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object.get(name).and_then(Value::as_str)
}

/// An integer; 0 when absent.
pub(crate) fn integer(object: &Value, name: &str) -> i64 {
    optional_integer(object, name).unwrap_or_default()
}

/// A pointer to an integer.
pub(crate) fn optional_integer(object: &Value, name: &str) -> Option<i64> {
    object.get(name).and_then(Value::as_i64)
}

/// A boolean; false when absent.
pub(crate) fn flag(object: &Value, name: &str) -> bool {
    object.get(name).and_then(Value::as_bool).unwrap_or_default()
}

/// A list; empty when absent.
pub(crate) fn list<'a>(object: &'a Value, name: &str) -> &'a [Value] {
    object.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// A list of strings; empty when absent.
pub(crate) fn texts<'a>(object: &'a Value, name: &str) -> Vec<&'a str> {
    list(object, name).iter().filter_map(Value::as_str).collect()
}

/// A map or struct; `None` when absent.
pub(crate) fn map<'a>(object: &'a Value, name: &str) -> Option<&'a Map<String, Value>> {
    object.get(name).and_then(Value::as_object)
}

/// Gives a field a value if it is absent or null. Does nothing when `object` is not an object.
pub(crate) fn set_default(object: &mut Value, name: &str, value: impl FnOnce() -> Value) {
    if let Some(map) = object.as_object_mut()
        && map.get(name).is_none_or(Value::is_null)
    {
        map.insert(name.to_owned(), value());
    }
}

/// Gives a number a value if it is absent, null or 0.
pub(crate) fn set_default_nonzero(object: &mut Value, name: &str, value: i64) {
    if integer(object, name) == 0
        && let Some(map) = object.as_object_mut()
    {
        map.insert(name.to_owned(), value.into());
    }
}

/// The elements of a list, to be changed.
pub(crate) fn each_mut<'a>(object: &'a mut Value, name: &str) -> impl Iterator<Item = &'a mut Value> {
    object.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten()
}

/// A struct behind a pointer, to be changed; `None` when absent or null.
pub(crate) fn present_mut<'a>(object: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    object.get_mut(name).filter(|value| value.is_object())
}

/// Sets a field.
pub(crate) fn put(object: &mut Value, name: &str, value: Value) {
    if let Some(map) = object.as_object_mut() {
        map.insert(name.to_owned(), value);
    }
}

/// Replaces a field by that of `from`; removes it where `from` has none.
pub(crate) fn carry_over(object: &mut Value, from: &Value, name: &str) {
    let Some(map) = object.as_object_mut() else { return };
    match from.get(name) {
        // Mostly nothing was changed, and comparing is cheaper than a copy that is dropped again.
        Some(value) if map.get(name) == Some(value) => None,
        Some(value) => map.insert(name.to_owned(), value.clone()),
        None => map.remove(name),
    };
}

/// Equality that takes absent, null and empty lists and maps for the same thing, as upstream's semantic comparison does.
pub(crate) fn same(a: Option<&Value>, b: Option<&Value>) -> bool {
    match (a.filter(|v| !is_empty(v)), b.filter(|v| !is_empty(v))) {
        (None, None) => true,
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            a.iter().all(|(key, value)| same(Some(value), b.get(key)))
                && b.iter().all(|(key, value)| a.contains_key(key) || is_empty(value))
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(Some(a), Some(b)))
        }
        (a, b) => a == b,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(items) => items.is_empty(),
        _ => false,
    }
}
