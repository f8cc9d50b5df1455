//! Merging objects: directives first, then field by field.

use serde_json::{Map, Value};

use super::lists;
use super::schema::{Place, Strategy, unforeseen};
use crate::error::PatchError;
use crate::go_format::{go_format, go_type};

/// What to do with the object or list element that carries it.
pub const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_PRIMITIVE_LIST: &str = "$deleteFromPrimitiveList";
const SET_ELEMENT_ORDER: &str = "$setElementOrder";

type Fields = Map<String, Value>;

/// Merges the fields of `patch` into `original`, which stands at `place`.
pub fn merge(mut original: Fields, mut patch: Fields, place: Place) -> Result<Fields, PatchError> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                Ok(patch)
            }
            Some("delete") => Ok(Fields::new()),
            _ => Err(unknown_directive(&directive.clone(), patch)),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    order_lists(&mut original, &mut patch, place)?;
    for (key, value) in patch {
        match list_to_delete_from(&key)? {
            Some(list) => delete_from_list(&mut original, list, value, place)?,
            None => merge_field(&mut original, key, value, place)?,
        }
    }
    Ok(original)
}

/// The error for a `$patch` we do not know.
pub fn unknown_directive(directive: &Value, patch: Fields) -> PatchError {
    let shown = match directive {
        Value::String(text) => text.clone(),
        other => format!("%!s({}={})", go_type(other), go_format(other)),
    };
    unforeseen(format!("unknown patch type: {shown} in map: {}", go_format(&Value::Object(patch))))
}

fn merge_field(original: &mut Fields, key: String, value: Value, place: Place) -> Result<(), PatchError> {
    if value.is_null() {
        original.remove(&key);
        return Ok(());
    }
    let merged = match (original.get_mut(&key).map(Value::take), value) {
        (Some(Value::Object(current)), Value::Object(patch)) => {
            let rules = place.of_object(&key)?;
            Some(Value::Object(match rules.strategy {
                Strategy::Replace => patch,
                _ => merge(current, patch, rules.place)?,
            }))
        }
        (Some(Value::Array(current)), Value::Array(patch)) => {
            let rules = place.of_list(&key)?;
            Some(Value::Array(match rules.strategy {
                Strategy::Merge => lists::merge(current, patch, &rules)?,
                _ => patch,
            }))
        }
        (_, value) => without_directives(without_nulls(value)),
    };
    match merged {
        Some(merged) => original.insert(key, merged),
        None => original.remove(&key),
    };
    Ok(())
}

/// `$retainKeys` names the fields to keep; the patch may set no others.
fn retain_keys(original: &mut Fields, patch: &mut Fields) -> Result<(), PatchError> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let bad = || PatchError::BadRequest("invalid patch format of retainKeys".to_owned());
    let Value::Array(keys) = keys else { return Err(bad()) };
    let kept: std::collections::HashSet<&str> = keys.iter().filter_map(Value::as_str).collect();
    let is_list_directive =
        |key: &str| key.starts_with(DELETE_FROM_PRIMITIVE_LIST) || key.starts_with(SET_ELEMENT_ORDER);
    let stray =
        |(key, value): (&String, &Value)| !value.is_null() && !is_list_directive(key) && !kept.contains(key.as_str());
    if patch.iter().any(stray) {
        return Err(bad());
    }
    original.retain(|key, _| kept.contains(key.as_str()));
    Ok(())
}

/// Applies every `$setElementOrder/…` together with the list it orders, and takes both out of the patch.
fn order_lists(original: &mut Fields, patch: &mut Fields, place: Place) -> Result<(), PatchError> {
    let directives: Vec<String> = patch.keys().filter(|key| key.starts_with(SET_ELEMENT_ORDER)).cloned().collect();
    for directive in directives {
        let order = list(patch.remove(&directive))?.unwrap_or_default();
        let Some(key) = directive.strip_prefix(SET_ELEMENT_ORDER).and_then(|rest| rest.strip_prefix('/')) else {
            return Err(PatchError::BadRequest("invalid patch format of setElementOrder list".to_owned()));
        };
        let current = list(original.get(key).cloned())?;
        let patched = list(patch.get(key).cloned())?;
        let rules = place.of_list(key)?;
        if let Some(ordered) = lists::merge_in_order(current, patched, &order, &rules)? {
            original.insert(key.to_owned(), Value::Array(ordered));
            patch.remove(key);
        }
    }
    Ok(())
}

fn list(value: Option<Value>) -> Result<Option<Vec<Value>>, PatchError> {
    match value {
        None => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items)),
        Some(other) => Err(lists::bad_type("[]interface {}", &other)),
    }
}

/// The list a `$deleteFromPrimitiveList/…` is about; `None` for any other key.
fn list_to_delete_from(key: &str) -> Result<Option<&str>, PatchError> {
    match key.strip_prefix(DELETE_FROM_PRIMITIVE_LIST) {
        None => Ok(None),
        Some(rest) => match rest.strip_prefix('/') {
            Some(list) => Ok(Some(list)),
            None => Err(PatchError::BadRequest("invalid patch format of primitive list".to_owned())),
        },
    }
}

fn delete_from_list(original: &mut Fields, key: &str, value: Value, place: Place) -> Result<(), PatchError> {
    if value.is_null() {
        original.remove(key);
        return Ok(());
    }
    // What is not a list on both sides is passed over, as upstream does.
    let (Some(Value::Array(current)), Value::Array(unwanted)) = (original.get_mut(key), value) else { return Ok(()) };
    let rules = place.of_list(key)?;
    *current = lists::delete(std::mem::take(current), unwanted, &rules)?;
    Ok(())
}

/// Drops fields that are null; nulls that are list elements stay.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(
            fields.into_iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k, without_nulls(v))).collect(),
        ),
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        scalar => scalar,
    }
}

/// Drops every object that is a directive; `None` when the value itself is one.
pub fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(fields) if fields.contains_key(DIRECTIVE) => None,
        Value::Object(fields) => {
            Some(Value::Object(fields.into_iter().filter_map(|(k, v)| without_directives(v).map(|v| (k, v))).collect()))
        }
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(without_directives).collect())),
        scalar => Some(scalar),
    }
}
