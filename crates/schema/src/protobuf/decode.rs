//! Messages to values, in the form JSON decoding gives. Unknown fields are skipped, repeated singular messages merge.

use serde_json::{Map, Number, Value};

use super::wire::{Reader, Tag};
use super::{ProtobufError, text};
use crate::decode::{MAX_DEPTH, decode_untyped, encode_base64, fill_zeros};
use crate::time::{Instant, Precision};
use crate::types::{Field, FieldType, Type, Types};

pub(super) fn message(ty: &'static Type, data: &[u8]) -> Result<Value, ProtobufError> {
    structure(ty, data, Map::new(), 1)
}

fn structure(
    ty: &'static Type,
    data: &[u8],
    mut map: Map<String, Value>,
    depth: usize,
) -> Result<Value, ProtobufError> {
    fields(ty, data, &mut map, depth)?;
    fill_zeros(ty, &mut map);
    Ok(Value::Object(map))
}

/// Reads the fields of a message into the map of its JSON object.
fn fields(ty: &'static Type, data: &[u8], map: &mut Map<String, Value>, depth: usize) -> Result<(), ProtobufError> {
    if depth > MAX_DEPTH {
        return Err(ProtobufError::TooDeep(ty.short_go_name()));
    }
    let mut reader = Reader::new(data, ty.short_go_name());
    while let Some(tag) = reader.tag()? {
        match ty.fields.iter().find(|field| field.number == tag.number) {
            None => reader.skip(tag)?,
            Some(field) => match field.ty {
                FieldType::Struct(inner) if field.is_inline() => {
                    fields(inner, reader.bytes(tag, field.name)?, map, depth)?;
                }
                _ => one_field(field, tag, &mut reader, map, depth)?,
            },
        }
    }
    Ok(())
}

fn one_field(
    field: &'static Field,
    tag: Tag,
    reader: &mut Reader<'_>,
    map: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), ProtobufError> {
    let value = match field.ty {
        FieldType::List(element) => {
            let item = single(field, *element, tag, reader, None, depth + 2)?;
            match map.get_mut(field.name) {
                Some(Value::Array(items)) => items.push(item),
                _ => drop(map.insert(field.name.to_owned(), Value::Array(vec![item]))),
            }
            return Ok(());
        }
        FieldType::Map(element) => {
            let (key, item) = entry(field, *element, reader.bytes(tag, field.name)?, depth + 2)?;
            match map.get_mut(field.name) {
                Some(Value::Object(entries)) => drop(entries.insert(key, item)),
                _ => drop(map.insert(field.name.to_owned(), Value::Object(Map::from_iter([(key, item)])))),
            }
            return Ok(());
        }
        FieldType::Struct(_) => {
            let existing = map.remove(field.name);
            single(field, field.ty, tag, reader, existing, depth + 1)?
        }
        ty => single(field, ty, tag, reader, None, depth + 1)?,
    };
    if field.is_pointer() || !is_unset(field, &value) {
        map.insert(field.name.to_owned(), value);
    } else {
        map.remove(field.name);
    }
    Ok(())
}

/// Whether a value that is no pointer counts as not set, so that it is printed only where zeros are.
fn is_unset(field: &Field, value: &Value) -> bool {
    match value {
        Value::String(s) => s.is_empty() && !(matches!(field.ty, FieldType::Bytes) && field.always_printed()),
        Value::Bool(b) => !b && !matches!(field.ty, FieldType::SchemaOrBool),
        Value::Number(n) => n.as_f64() == Some(0.0),
        Value::Null => true,
        Value::Array(_) | Value::Object(_) => false,
    }
}

/// An entry of a map: a message of key and value, either of which may be left out.
fn entry(
    field: &'static Field,
    element: FieldType,
    data: &[u8],
    depth: usize,
) -> Result<(String, Value), ProtobufError> {
    let mut key = String::new();
    let mut value = None;
    let mut reader = Reader::new(data, "MapEntry");
    while let Some(tag) = reader.tag()? {
        match tag.number {
            1 => key = text(reader.bytes(tag, field.name)?),
            2 => value = Some(single(field, element, tag, &mut reader, None, depth)?),
            _ => reader.skip(tag)?,
        }
    }
    Ok((key, value.unwrap_or_else(|| crate::decode::map_zero(element))))
}

fn single(
    field: &'static Field,
    ty: FieldType,
    tag: Tag,
    reader: &mut Reader<'_>,
    existing: Option<Value>,
    depth: usize,
) -> Result<Value, ProtobufError> {
    let name = field.name;
    Ok(match ty {
        FieldType::String => Value::String(text(reader.bytes(tag, name)?)),
        FieldType::Bool => Value::Bool(reader.varint(tag, name)? != 0),
        FieldType::Int32 => Value::Number((reader.varint(tag, name)? as i32).into()),
        FieldType::Int64 => Value::Number((reader.varint(tag, name)? as i64).into()),
        FieldType::Double => Value::Number(double(reader.double(tag, name)?)),
        FieldType::Bytes => Value::String(encode_base64(reader.bytes(tag, name)?)),
        FieldType::Time => timestamp(reader.bytes(tag, name)?, Precision::Seconds)?,
        FieldType::MicroTime => timestamp(reader.bytes(tag, name)?, Precision::Microseconds)?,
        FieldType::Quantity => {
            let text = first_bytes(reader.bytes(tag, name)?, "Quantity")?.map(text).unwrap_or_default();
            Value::String(if text.is_empty() { "0".to_owned() } else { canonical_quantity(name, &text)? })
        }
        FieldType::RawExtension | FieldType::FieldsV1 | FieldType::Json => {
            match first_bytes(reader.bytes(tag, name)?, "Raw")? {
                None | Some([]) => Value::Null,
                Some(raw) => raw_json(name, raw, depth)?,
            }
        }
        FieldType::SchemaOrBool | FieldType::SchemaOrArray | FieldType::SchemaOrStringArray => {
            schema_or(ty, reader.bytes(tag, name)?, depth)?
        }
        FieldType::Struct(ty) => {
            let existing = match existing {
                Some(Value::Object(map)) => map,
                _ => Map::new(),
            };
            structure(ty, reader.bytes(tag, name)?, existing, depth)?
        }
        FieldType::WrappedList(element) => {
            let mut items = Vec::new();
            let mut inner = Reader::new(reader.bytes(tag, name)?, "Items");
            while let Some(tag) = inner.tag()? {
                match tag.number {
                    1 => items.push(single(field, *element, tag, &mut inner, None, depth + 1)?),
                    _ => inner.skip(tag)?,
                }
            }
            Value::Array(items)
        }
        FieldType::Any | FieldType::List(_) | FieldType::Map(_) => {
            reader.skip(tag)?;
            Value::Null
        }
    })
}

/// A float, held as an integer where Go prints one, as JSON decoding does.
fn double(value: f64) -> Number {
    crate::decode::go_number(value).unwrap_or_else(|| 0.into())
}

fn timestamp(data: &[u8], precision: Precision) -> Result<Value, ProtobufError> {
    if data.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanoseconds) = (0i64, 0i32);
    let mut reader = Reader::new(data, "Timestamp");
    while let Some(tag) = reader.tag()? {
        match tag.number {
            1 => seconds = reader.varint(tag, "Seconds")? as i64,
            2 => nanoseconds = reader.varint(tag, "Nanos")? as i32,
            _ => reader.skip(tag)?,
        }
    }
    let instant = Instant::from_unix(seconds, if precision == Precision::Seconds { 0 } else { nanoseconds });
    Ok(if instant.is_zero() { Value::Null } else { Value::String(instant.format(precision)) })
}

/// Field 1 of a message that holds nothing else of interest.
fn first_bytes<'a>(data: &'a [u8], name: &'static str) -> Result<Option<&'a [u8]>, ProtobufError> {
    let mut found = None;
    let mut reader = Reader::new(data, name);
    while let Some(tag) = reader.tag()? {
        match tag.number {
            1 => found = Some(reader.bytes(tag, name)?),
            _ => reader.skip(tag)?,
        }
    }
    Ok(found)
}

fn canonical_quantity(field: &str, text: &str) -> Result<String, ProtobufError> {
    match text.parse::<crate::quantity::Quantity>() {
        Ok(quantity) => Ok(quantity.to_string()),
        Err(error) => Err(ProtobufError::Json { field: field.to_owned(), error: error.to_string() }),
    }
}

fn raw_json(field: &str, raw: &[u8], depth: usize) -> Result<Value, ProtobufError> {
    let value = decode_untyped(raw)
        .map_err(|error| ProtobufError::Json { field: field.to_owned(), error: error.to_string() })?
        .value;
    if depth + nesting(&value) > MAX_DEPTH {
        return Err(ProtobufError::TooDeep("RawExtension"));
    }
    Ok(value)
}

/// How deep a value nests; decoding has bounded it.
fn nesting(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(nesting).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(nesting).max().unwrap_or(0),
        _ => 0,
    }
}

fn schema_or(ty: FieldType, data: &[u8], depth: usize) -> Result<Value, ProtobufError> {
    let props = Types::native().json_schema_props();
    let mut allows = false;
    let mut schema = None;
    let mut items = Vec::new();
    let mut reader = Reader::new(data, "JSONSchemaPropsOr");
    while let Some(tag) = reader.tag()? {
        match (ty, tag.number) {
            (FieldType::SchemaOrBool, 1) => allows = reader.varint(tag, "Allows")? != 0,
            (FieldType::SchemaOrBool, 2) | (_, 1) => {
                schema = Some(structure(props, reader.bytes(tag, "Schema")?, Map::new(), depth)?);
            }
            (FieldType::SchemaOrArray, 2) => {
                items.push(structure(props, reader.bytes(tag, "JSONSchemas")?, Map::new(), depth + 1)?);
            }
            (FieldType::SchemaOrStringArray, 2) => items.push(Value::String(text(reader.bytes(tag, "Property")?))),
            _ => reader.skip(tag)?,
        }
    }
    Ok(match (ty, schema) {
        (FieldType::SchemaOrBool, Some(schema)) => schema,
        (FieldType::SchemaOrBool, None) => Value::Bool(allows),
        _ if !items.is_empty() => Value::Array(items),
        (_, Some(schema)) => schema,
        _ => Value::Null,
    })
}
