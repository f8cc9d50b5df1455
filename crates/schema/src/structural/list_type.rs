//! Uniqueness in lists of type set (whole elements) and map (their keys).

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::go_float::go_json;
use super::location::Location;
use super::schema::{Additional, ListType, Schema};
use crate::field::{Error, ErrorList, Path};

/// Reports the second appearance of every element or key that occurs more than once.
pub fn validate_list_types(value: &Value, schema: &Schema, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    if let Value::Object(_) = value {
        node(value, schema, &Location::ROOT, path, &mut errors);
    }
    errors
}

fn node(value: &Value, schema: &Schema, at: &Location<'_>, base: &Path, errors: &mut ErrorList) {
    if !schema.below.keyed_lists {
        return;
    }
    match value {
        Value::Object(map) => {
            if let Additional::Schema(schema) = &schema.additional_properties {
                for (key, value) in map {
                    node(value, schema, &at.key(key), base, errors);
                }
            }
            for (key, value) in map {
                if let Some(schema) = schema.property(key) {
                    node(value, schema, &at.field(key), base, errors);
                }
            }
        }
        Value::Array(items) => {
            match &schema.list_type {
                Some(ListType::Set) => {
                    for index in repeated(items.iter().map(Key::Value)) {
                        if let Some(item) = items.get(index) {
                            errors.push(Error::duplicate(&at.index(index).path(base), item.clone()));
                        }
                    }
                }
                Some(ListType::Map(keys)) => list_map(items, keys, at, base, errors),
                Some(ListType::Atomic) | None => {}
            }
            if let Some(schema) = &schema.items {
                for (index, item) in items.iter().enumerate() {
                    node(item, schema, &at.index(index), base, errors);
                }
            }
        }
        _ => {}
    }
}

fn list_map(items: &[Value], keys: &[Box<str>], at: &Location<'_>, base: &Path, errors: &mut ErrorList) {
    let misfit = items.iter().position(|item| !item.is_object() && !item.is_null());
    if let Some(index) = misfit {
        let item = items.get(index).cloned().unwrap_or_default();
        let detail = "must be an object for an array of list-type map";
        errors.push(Error::invalid(&at.index(index).path(base), item, detail));
        return;
    }
    let repeated = match keys {
        [key] => repeated(items.iter().map(|item| item.get(&**key).map_or(Key::Unspecified, Key::Value))),
        keys => repeated(items.iter().map(|item| Key::Many(item, keys))),
    };
    for index in repeated {
        let item = items.get(index).unwrap_or(&Value::Null);
        let shown: Map<String, Value> =
            keys.iter().filter_map(|key| item.get(&**key).map(|value| (key.to_string(), value.clone()))).collect();
        errors.push(Error::duplicate(&at.index(index).path(base), Value::Object(shown)));
    }
}

/// What makes an element unique.
enum Key<'a> {
    Unspecified,
    Value(&'a Value),
    Many(&'a Value, &'a [Box<str>]),
}

/// The indices at which a key appears for the second time.
fn repeated<'a>(keys: impl ExactSizeIterator<Item = Key<'a>>) -> Vec<usize> {
    if keys.len() <= 1 {
        return Vec::new();
    }
    let mut strings: HashMap<&str, u32> = HashMap::new();
    let mut others: HashMap<String, u32> = HashMap::new();
    let mut indices = Vec::new();
    for (index, key) in keys.enumerate() {
        let times = match key {
            Key::Value(Value::String(text)) => strings.entry(text).or_default(),
            // Scalars of different types differ; objects and lists are compared as they would be printed.
            Key::Value(value @ (Value::Array(_) | Value::Object(_))) => others.entry(go_json(value)).or_default(),
            Key::Value(value) => others.entry(value.to_string()).or_default(),
            Key::Unspecified => others.entry(String::new()).or_default(),
            Key::Many(item, keys) => {
                let mut text = String::new();
                for key in keys {
                    text.push('\u{0}');
                    if let Some(value) = item.get(&**key) {
                        text.push_str(&go_json(value));
                    }
                }
                others.entry(text).or_default()
            }
        };
        *times += 1;
        if *times == 2 {
            indices.push(index);
        }
    }
    indices
}
