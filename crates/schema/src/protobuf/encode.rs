//! Values to messages: fields in the order of their numbers, zero values written where upstream writes them.
//!
//! Upstream's marshalers write every field that is not a pointer, list, map or byte slice, set or not.

use serde_json::{Map, Value};

use super::wire::{self, WireType};
use super::{ProtobufError, shape};
use crate::decode::decode_base64;
use crate::time::{self, Instant, Precision};
use crate::types::{Field, FieldType, Type, Types};

/// Writes the fields of a struct; null is a struct with nothing set.
pub(super) fn message(ty: &'static Type, value: &Value, out: &mut Vec<u8>) -> Result<(), ProtobufError> {
    match value {
        Value::Object(map) => fields(ty, Some(map), out),
        Value::Null => fields(ty, None, out),
        _ => Err(shape("", FieldType::Struct(ty))),
    }
}

fn fields(ty: &'static Type, map: Option<&Map<String, Value>>, out: &mut Vec<u8>) -> Result<(), ProtobufError> {
    for &index in ty.wire_order {
        let Some(field) = ty.fields.get(usize::from(index)) else { continue };
        if let (true, FieldType::Struct(inner)) = (field.is_inline(), field.ty) {
            wire::put_message(out, field.number, |out| fields(inner, map, out))?;
            continue;
        }
        match map.and_then(|map| map.get(field.name)) {
            None | Some(Value::Null) if field.is_pointer() => {}
            None | Some(Value::Null) => unset(field, out)?,
            Some(value) => set(field, field.ty, value, out)?,
        }
    }
    Ok(())
}

/// What is written for a field that is no pointer and has no value.
fn unset(field: &'static Field, out: &mut Vec<u8>) -> Result<(), ProtobufError> {
    let number = field.number;
    match field.ty {
        FieldType::String => wire::put_bytes(out, number, b""),
        FieldType::Bool | FieldType::Int32 | FieldType::Int64 => {
            wire::put_tag(out, number, WireType::Varint);
            wire::put_varint(out, 0);
        }
        FieldType::Double => {
            wire::put_tag(out, number, WireType::Fixed64);
            out.extend_from_slice(&0f64.to_le_bytes());
        }
        FieldType::Struct(ty) => wire::put_message(out, number, |out| fields(ty, None, out))?,
        FieldType::Quantity => wire::put_message(out, number, |out| wire::put_bytes(out, 1, b"0")),
        FieldType::Time
        | FieldType::MicroTime
        | FieldType::RawExtension
        | FieldType::FieldsV1
        | FieldType::Json
        | FieldType::SchemaOrArray
        | FieldType::SchemaOrStringArray => wire::put_bytes(out, number, b""),
        FieldType::SchemaOrBool => wire::put_message(out, number, |out| put_bool(out, 1, false)),
        FieldType::Bytes | FieldType::Any | FieldType::List(_) | FieldType::WrappedList(_) | FieldType::Map(_) => {}
    }
    Ok(())
}

fn set(field: &'static Field, ty: FieldType, value: &Value, out: &mut Vec<u8>) -> Result<(), ProtobufError> {
    let number = field.number;
    let wrong = || shape(field.name, ty);
    match ty {
        FieldType::List(element) => {
            for item in value.as_array().ok_or_else(wrong)? {
                single(field, number, *element, item, out)?;
            }
            Ok(())
        }
        FieldType::Map(element) => {
            // Keys come sorted out of the value's map, which is the order upstream sorts them into.
            for (key, item) in value.as_object().ok_or_else(wrong)? {
                wire::put_message(out, number, |out| {
                    wire::put_bytes(out, 1, key.as_bytes());
                    single(field, 2, *element, item, out)
                })?;
            }
            Ok(())
        }
        _ => single(field, number, ty, value, out),
    }
}

/// Writes one value under a number.
fn single(
    field: &'static Field,
    number: u32,
    ty: FieldType,
    value: &Value,
    out: &mut Vec<u8>,
) -> Result<(), ProtobufError> {
    let wrong = || shape(field.name, ty);
    match ty {
        FieldType::String => wire::put_bytes(out, number, value.as_str().ok_or_else(wrong)?.as_bytes()),
        FieldType::Bool => put_bool(out, number, value.as_bool().ok_or_else(wrong)?),
        FieldType::Int32 | FieldType::Int64 => {
            wire::put_tag(out, number, WireType::Varint);
            // Negative numbers are written as 64 bits, whatever their type.
            wire::put_varint(out, value.as_i64().ok_or_else(wrong)? as u64);
        }
        FieldType::Double => {
            wire::put_tag(out, number, WireType::Fixed64);
            out.extend_from_slice(&value.as_f64().ok_or_else(wrong)?.to_le_bytes());
        }
        FieldType::Bytes => {
            let bytes = decode_base64(value.as_str().ok_or_else(wrong)?).ok_or_else(wrong)?;
            wire::put_bytes(out, number, &bytes);
        }
        FieldType::Time | FieldType::MicroTime => {
            let instant = instant(ty, value).ok_or_else(wrong)?;
            wire::put_message(out, number, |out| put_timestamp(out, ty, instant));
        }
        FieldType::Quantity => {
            let text = value.as_str().ok_or_else(wrong)?;
            wire::put_message(out, number, |out| wire::put_bytes(out, 1, text.as_bytes()));
        }
        FieldType::RawExtension | FieldType::FieldsV1 | FieldType::Json => {
            let raw = if value.is_null() { Vec::new() } else { serde_json::to_vec(value).map_err(|_| wrong())? };
            wire::put_message(out, number, |out| {
                if !raw.is_empty() {
                    wire::put_bytes(out, 1, &raw);
                }
            });
        }
        FieldType::SchemaOrBool | FieldType::SchemaOrArray | FieldType::SchemaOrStringArray => {
            return wire::put_message(out, number, |out| schema_or(field, ty, value, out));
        }
        FieldType::Struct(ty) => return wire::put_message(out, number, |out| message(ty, value, out)),
        FieldType::WrappedList(element) => {
            let items = match value {
                Value::Null => &[][..],
                _ => value.as_array().ok_or_else(wrong)?,
            };
            return wire::put_message(out, number, |out| {
                items.iter().try_for_each(|item| single(field, 1, *element, item, out))
            });
        }
        // Upstream has no messages with lists of lists or maps of lists.
        FieldType::Any | FieldType::List(_) | FieldType::Map(_) => return Err(wrong()),
    }
    Ok(())
}

fn put_bool(out: &mut Vec<u8>, number: u32, value: bool) {
    wire::put_tag(out, number, WireType::Varint);
    out.push(u8::from(value));
}

/// The instant of a time; null and Go's zero time are both `ZERO`.
fn instant(ty: FieldType, value: &Value) -> Option<Instant> {
    let precision = match ty {
        FieldType::MicroTime => Precision::Microseconds,
        _ => Precision::Seconds,
    };
    match value {
        Value::Null => Some(Instant::ZERO),
        _ => time::parse(value.as_str()?, precision).ok(),
    }
}

fn put_timestamp(out: &mut Vec<u8>, ty: FieldType, instant: Instant) {
    if instant.is_zero() {
        return;
    }
    let nanoseconds = match ty {
        FieldType::MicroTime => instant.nanoseconds / 1000 * 1000,
        _ => 0,
    };
    wire::put_tag(out, 1, WireType::Varint);
    wire::put_varint(out, instant.unix_seconds as u64);
    wire::put_tag(out, 2, WireType::Varint);
    wire::put_varint(out, u64::from(nanoseconds));
}

fn schema_or(field: &'static Field, ty: FieldType, value: &Value, out: &mut Vec<u8>) -> Result<(), ProtobufError> {
    let props = FieldType::Struct(Types::native().json_schema_props());
    match (ty, value) {
        (FieldType::SchemaOrBool, Value::Bool(allows)) => put_bool(out, 1, *allows),
        (FieldType::SchemaOrBool, Value::Object(_)) => {
            put_bool(out, 1, true);
            return single(field, 2, props, value, out);
        }
        (FieldType::SchemaOrArray | FieldType::SchemaOrStringArray, Value::Null) => {}
        (FieldType::SchemaOrArray | FieldType::SchemaOrStringArray, Value::Object(_)) => {
            return single(field, 1, props, value, out);
        }
        (FieldType::SchemaOrArray, Value::Array(items)) => {
            return items.iter().try_for_each(|item| single(field, 2, props, item, out));
        }
        (FieldType::SchemaOrStringArray, Value::Array(items)) => {
            return items.iter().try_for_each(|item| single(field, 2, FieldType::String, item, out));
        }
        _ => return Err(shape(field.name, ty)),
    }
    Ok(())
}
