//! Which old value belongs to a new one, and whether it is still the same. Only fields the schema declares and elements
//! of list maps are followed; all else is compared as a whole or not at all.

use std::collections::HashMap;

use serde_json::Value;

use crate::structural::schema::{ListType, Schema};

/// Whether a value is what it was. Fields without a schema count as changed, and the order of list maps as unchanged.
pub(in crate::structural) fn unchanged(new: &Value, old: &Value, schema: &Schema) -> bool {
    match (new, old) {
        (Value::Array(new), Value::Array(old_items)) => {
            if new.len() != old_items.len() {
                return false;
            }
            let (Some(ListType::Map(_)), Some(item_schema)) = (&schema.list_type, &schema.items) else {
                return new == old_items;
            };
            let old = OldItems::new(Some(old), schema);
            new.iter().all(|item| old.matching(item).is_some_and(|old| unchanged(item, old, item_schema)))
        }
        (Value::Object(new), Value::Object(old)) => {
            new.len() == old.len()
                && new.iter().all(|(key, value)| {
                    let schema = schema.property(key).or_else(|| schema.additional());
                    match (old.get(key), schema) {
                        (Some(old), Some(schema)) => unchanged(value, old, schema),
                        _ => false,
                    }
                })
        }
        (new, old) => new == old,
    }
}

/// The old elements of a list map by key; of other lists elements have no old value.
pub(in crate::structural) struct OldItems<'a> {
    keys: &'a [Box<str>],
    by_key: HashMap<String, &'a Value>,
}

impl<'a> OldItems<'a> {
    pub(in crate::structural) fn new(old: Option<&'a Value>, schema: &'a Schema) -> Self {
        let (Some(Value::Array(old)), Some(ListType::Map(keys))) = (old, &schema.list_type) else {
            return Self { keys: &[], by_key: HashMap::new() };
        };
        let mut by_key = HashMap::with_capacity(old.len());
        for item in old {
            if let Some(key) = composite_key(item, keys) {
                by_key.entry(key).or_insert(item);
            }
        }
        Self { keys, by_key }
    }

    pub(in crate::structural) fn matching(&self, item: &Value) -> Option<&'a Value> {
        if self.by_key.is_empty() {
            return None;
        }
        self.by_key.get(&composite_key(item, self.keys)?).copied()
    }
}

/// All keys of an element as one text; `None` if one is missing or no scalar.
fn composite_key(item: &Value, keys: &[Box<str>]) -> Option<String> {
    let item = item.as_object()?;
    let mut text = String::new();
    for key in keys {
        match item.get(&**key)? {
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
            scalar => {
                text.push('\u{0}');
                text.push_str(&scalar.to_string());
            }
        }
    }
    Some(text)
}
