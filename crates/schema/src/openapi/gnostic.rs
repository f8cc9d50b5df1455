//! The protobuf form of OpenAPI documents (gnostic's), which client libraries ask for because it is smaller to read.
//!
//! The messages are tables in [`v2`] and [`v3`]: JSON name, field number and kind. The encoder walks a JSON value along
//! a table; what the table does not name and does not begin with `x-` is left out.

pub mod v2;
pub mod v3;
mod yaml;

use serde_json::Value;

use crate::protobuf::wire::{WireType, put_bytes, put_message, put_tag, put_varint};

/// A field of a message: JSON name, number, kind. In the order of numbers, as Go writes them.
pub type Field = (&'static str, u32, &'static Kind);

/// How a JSON value is written.
pub enum Kind {
    String,
    Bool,
    Int,
    Double,
    /// Any value, as YAML text in a message of its own. A JSON array is that many values.
    Any,
    /// Any value, arrays whole.
    AnyWhole,
    /// A default of version 3: number, boolean or string; other values leave an empty message.
    Default,
    /// A schema, or a boolean that allows anything or nothing.
    SchemaOrBool(&'static Kind),
    /// A message with these fields, and everything that begins with `x-` under the second number.
    Message(&'static [Field], u32),
    /// A message that repeats entries of name and value under this number.
    Map(u32, &'static Kind),
    /// A message around one value or list.
    Wrap(u32, &'static Kind),
    /// A message with one of several fields, by what the value is.
    OneOf(fn(&Value) -> (u32, &'static Kind)),
}

/// Extensions have no place in this message.
const NO_EXTENSIONS: u32 = 0;

/// Writes a field.
pub fn put(out: &mut Vec<u8>, number: u32, kind: &Kind, value: &Value) {
    match (kind, value) {
        (Kind::Wrap(inner_number, inner), _) => put_message(out, number, |out| put(out, *inner_number, inner, value)),
        (Kind::AnyWhole, _) => put_any(out, number, value),
        (Kind::Default, _) => put_message(out, number, |out| match value {
            Value::Number(n) => put_double(out, 1, n.as_f64().unwrap_or_default()),
            Value::Bool(flag) => put_bool(out, 2, *flag),
            Value::String(text) => put_bytes(out, 3, text.as_bytes()),
            _ => {}
        }),
        (_, Value::Array(values)) => values.iter().for_each(|value| put(out, number, kind, value)),
        (Kind::Any, _) => put_any(out, number, value),
        (Kind::String, Value::String(text)) if !text.is_empty() => put_bytes(out, number, text.as_bytes()),
        (Kind::Bool, Value::Bool(true)) => put_bool(out, number, true),
        (Kind::Int, Value::Number(n)) => {
            if let Some(n) = n.as_i64().filter(|n| *n != 0) {
                put_tag(out, number, WireType::Varint);
                put_varint(out, n as u64);
            }
        }
        (Kind::Double, Value::Number(n)) => {
            if let Some(n) = n.as_f64().filter(|n| *n != 0.0) {
                put_double(out, number, n);
            }
        }
        (Kind::SchemaOrBool(schema), _) => put_message(out, number, |out| match value {
            Value::Bool(flag) => put_bool(out, 2, *flag),
            _ => put(out, 1, schema, value),
        }),
        (Kind::Message(fields, extensions), Value::Object(_)) => {
            put_message(out, number, |out| put_fields(out, fields, *extensions, value));
        }
        (Kind::Map(entry_number, entry), Value::Object(entries)) => put_message(out, number, |out| {
            for (name, value) in entries {
                put_entry(out, *entry_number, entry, name, value);
            }
        }),
        (Kind::OneOf(choose), Value::Object(_)) => {
            let (inner_number, inner) = choose(value);
            put_message(out, number, |out| put(out, inner_number, inner, value));
        }
        _ => {}
    }
}

/// Writes one entry of a [`Kind::Map`], for documents that are written piece by piece.
pub fn put_entry(out: &mut Vec<u8>, number: u32, kind: &Kind, name: &str, value: &Value) {
    put_message(out, number, |out| {
        put_bytes(out, 1, name.as_bytes());
        put(out, 2, kind, value);
    });
}

/// Writes a message whose content `write` writes, for documents that are written piece by piece.
pub fn put_nested(out: &mut Vec<u8>, number: u32, write: impl FnOnce(&mut Vec<u8>)) {
    put_message(out, number, write);
}

/// Writes what stands before a message of this length, whose content comes from elsewhere.
pub fn put_head(out: &mut Vec<u8>, number: u32, len: usize) {
    put_tag(out, number, WireType::Bytes);
    put_varint(out, len as u64);
}

fn put_fields(out: &mut Vec<u8>, fields: &[Field], extensions: u32, value: &Value) {
    for (name, number, kind) in fields {
        if let Some(value) = value.get(name) {
            put(out, *number, kind, value);
        }
    }
    if extensions == NO_EXTENSIONS {
        return;
    }
    for (name, value) in value.as_object().into_iter().flatten().filter(|(name, _)| name.starts_with("x-")) {
        put_message(out, extensions, |out| {
            put_bytes(out, 1, name.as_bytes());
            put_any(out, 2, value);
        });
    }
}

/// gnostic's `Any`: the YAML text of a value in field 2.
fn put_any(out: &mut Vec<u8>, number: u32, value: &Value) {
    put_message(out, number, |out| put_bytes(out, 2, yaml::text(value).as_bytes()));
}

fn put_bool(out: &mut Vec<u8>, number: u32, value: bool) {
    put_tag(out, number, WireType::Varint);
    out.push(u8::from(value));
}

fn put_double(out: &mut Vec<u8>, number: u32, value: f64) {
    put_tag(out, number, WireType::Fixed64);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Whether a value is a reference and nothing else matters.
fn is_reference(value: &Value) -> bool {
    value.get("$ref").is_some_and(Value::is_string)
}
