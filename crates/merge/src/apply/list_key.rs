//! How the entries of a merged list are told apart: by key fields, or by their value in a set.

use std::borrow::Cow;

use bailiwick_schema::decode::go_quote;
use bailiwick_schema::types::FieldType;
use serde_json::Value;

use super::path::PathElement;
use super::types::{KeyDefault, KeyNames, ListAtom, ListMerging};

/// The path element of a list's entry.
pub(super) fn element_of<'a>(list: &ListAtom<'a>, item: &'a Value) -> Result<PathElement<'a>, String> {
    match list.merging {
        ListMerging::Atomic => Err("invalid indexing of non-associative list".to_owned()),
        ListMerging::Set => match item {
            Value::Object(_) => Err("associative list without keys has an element that's a map type".to_owned()),
            Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
            Value::Null => Err("associative list without keys has an element that's an explicit null".to_owned()),
            _ => Ok(PathElement::Value(Cow::Borrowed(item))),
        },
        ListMerging::Keys(names) => match item {
            Value::Object(fields) => keyed(list, names, fields),
            Value::Null => Err("associative list with keys may not have a null element".to_owned()),
            _ => Err("associative list with keys may not have non-map elements".to_owned()),
        },
    }
}

fn keyed<'a>(
    list: &ListAtom<'a>,
    names: KeyNames<'a>,
    fields: &'a serde_json::Map<String, Value>,
) -> Result<PathElement<'a>, String> {
    let mut key = Vec::with_capacity(2);
    for name in names.iter() {
        if let Some(value) = fields.get(name) {
            key.push((Cow::Borrowed(name), Cow::Borrowed(value)));
        } else if list.element.resolve().map.is_none() {
            let why = "associative list may not have non-map types";
            return Err(format!("couldn't find default value for {name}: {why}"));
        } else if let Some(default) = list.key_default(name) {
            let value = match default {
                KeyDefault::Declared(value) => Cow::Borrowed(value),
                KeyDefault::Zero(ty) => Cow::Owned(zero(ty)),
            };
            key.push((Cow::Borrowed(name), value));
        }
    }
    if key.is_empty() {
        let names: Vec<_> = names.iter().map(go_quote).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
            names.join(" ")
        ));
    }
    Ok(PathElement::key(key))
}

fn zero(ty: FieldType) -> Value {
    match ty {
        FieldType::Bool => Value::Bool(false),
        FieldType::Int32 | FieldType::Int64 | FieldType::Double => Value::from(0),
        _ => Value::String(String::new()),
    }
}
