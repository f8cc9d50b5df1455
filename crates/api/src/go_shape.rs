//! Values as upstream's error messages show them when a whole struct is wrong: JSON of Go's internal types, which have
//! other field names and orders than the API and write out every zero value.

use serde_json::Value;

use crate::fields::{flag, integer, list, map, present, text};

/// What a Go field holds.
pub(crate) enum Shape {
    Text,
    Integer,
    Flag,
    /// A pointer to a scalar.
    Optional,
    /// A list shown as it is.
    Texts,
    Struct(&'static [Field]),
    Pointer(&'static [Field]),
    List(&'static [Field]),
    Map(&'static [Field]),
    /// Where the API takes an object or a list of them.
    OneOrList(&'static [Field]),
    /// Where the API takes an object or a boolean.
    OneOrFlag(&'static [Field]),
}

/// A Go field: its name there, its name in the API, and what it holds.
pub(crate) type Field = (&'static str, &'static str, Shape);

/// An object as messages show it.
pub(crate) fn shown(object: &Value, fields: &[Field]) -> String {
    let members: Vec<String> =
        fields.iter().map(|(go, json, shape)| format!("\"{go}\":{}", shown_field(object, json, shape))).collect();
    format!("{{{}}}", members.join(","))
}

/// A list of objects as messages show it; `null` when it is empty.
pub(crate) fn shown_list(items: &[Value], fields: &[Field]) -> String {
    if items.is_empty() {
        return "null".to_owned();
    }
    let items: Vec<String> = items.iter().map(|item| shown(item, fields)).collect();
    format!("[{}]", items.join(","))
}

fn shown_field(object: &Value, name: &str, shape: &Shape) -> String {
    match shape {
        Shape::Text => Value::from(text(object, name)).to_string(),
        Shape::Integer => integer(object, name).to_string(),
        Shape::Flag => flag(object, name).to_string(),
        Shape::Optional => object.get(name).unwrap_or(&Value::Null).to_string(),
        Shape::Texts if list(object, name).is_empty() => "null".to_owned(),
        Shape::Texts => Value::from(list(object, name)).to_string(),
        Shape::Struct(fields) => shown(object.get(name).unwrap_or(&Value::Null), fields),
        Shape::Pointer(fields) => present(object, name).map_or_else(|| "null".to_owned(), |value| shown(value, fields)),
        Shape::List(fields) => shown_list(list(object, name), fields),
        Shape::Map(fields) => shown_map(object, name, fields),
        Shape::OneOrList(fields) => match object.get(name) {
            Some(Value::Array(items)) => format!("{{\"Schema\":null,\"JSONSchemas\":{}}}", shown_list(items, fields)),
            Some(one @ Value::Object(_)) => format!("{{\"Schema\":{},\"JSONSchemas\":null}}", shown(one, fields)),
            _ => "null".to_owned(),
        },
        Shape::OneOrFlag(fields) => match object.get(name) {
            Some(Value::Bool(allows)) => format!("{{\"Allows\":{allows},\"Schema\":null}}"),
            Some(one @ Value::Object(_)) => format!("{{\"Allows\":true,\"Schema\":{}}}", shown(one, fields)),
            _ => "null".to_owned(),
        },
    }
}

fn shown_map(object: &Value, name: &str, fields: &[Field]) -> String {
    let Some(entries) = map(object, name).filter(|entries| !entries.is_empty()) else { return "null".to_owned() };
    let entries: Vec<String> =
        entries.iter().map(|(key, value)| format!("{}:{}", Value::from(key.as_str()), shown(value, fields))).collect();
    format!("{{{}}}", entries.join(","))
}
