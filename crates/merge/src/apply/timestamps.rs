//! A write that changes nothing but times in `managedFields` is no write; here is how that is seen.

use serde_json::{Map, Value};

use super::field_manager::managed_fields;

/// Puts back the times of `managedFields` if nothing else differs from the live object; whether it did.
pub fn revert_managed_times(new: &mut Value, live: &Value) -> bool {
    let (Some(Value::Array(ours)), Some(Value::Array(theirs))) = (managed_fields(new), managed_fields(live)) else {
        return false;
    };
    let is_candidate = !ours.is_empty()
        && ours.len() == theirs.len()
        && ours.iter().zip(theirs).any(|(new, live)| new.get("time") != live.get("time"));
    if !is_candidate || !equal_ignoring_managed_times(new, live) {
        return false;
    }
    let Some(managed) = managed_fields(live).cloned() else { return false };
    if let Some(metadata) = new.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("managedFields".to_owned(), managed);
    }
    true
}

/// Whether two objects are equal but for the times in their `managedFields`.
pub fn equal_ignoring_managed_times(a: &Value, b: &Value) -> bool {
    let entries_equal = match (managed_fields(a), managed_fields(b)) {
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| fields_equal(a, b, "time", |_, _| true))
        }
        (a, b) => a == b,
    };
    entries_equal && fields_equal(a, b, "metadata", |a, b| fields_equal(a, b, "managedFields", |_, _| true))
}

/// Whether two maps are equal, where one field is compared in its own way.
fn fields_equal(a: &Value, b: &Value, special: &str, equal: impl Fn(&Value, &Value) -> bool) -> bool {
    let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else { return a == b };
    let rest = |map: &'_ Map<String, Value>| map.len() - usize::from(map.contains_key(special));
    let rest_equal = rest(a) == rest(b)
        && a.iter().filter(|(name, _)| *name != special).all(|(name, value)| b.get(name) == Some(value));
    rest_equal && equal(a.get(special).unwrap_or(&Value::Null), b.get(special).unwrap_or(&Value::Null))
}
