//! Messages to values, in the form JSON decoding gives. Unknown fields are skipped, repeated singular messages merge.

use std::cell::Cell;

use serde_json::{Map, Number, Value};

use super::wire::{Reader, Tag};
use super::{ProtobufError, text};
use crate::decode::{MAX_DEPTH, MAX_OBJECTS, decode_untyped, encode_base64, fill_zeros};
use crate::time::{Instant, Precision};
use crate::types::{Field, FieldType, Type, Types};

pub(super) fn message(ty: &'static Type, data: &[u8]) -> Result<Value, ProtobufError> {
    structure(ty, data, Map::new(), At { depth: 1, objects: &Cell::new(0) })
}

/// How deep the JSON value being built is here, and how many objects it holds so far.
#[derive(Clone, Copy)]
struct At<'a> {
    depth: usize,
    objects: &'a Cell<usize>,
}

impl At<'_> {
    fn deeper(self, levels: usize) -> Self {
        Self { depth: self.depth + levels, ..self }
    }

    fn enter(self, ty: &Type) -> Result<(), ProtobufError> {
        self.objects.set(self.objects.get() + 1);
        if self.depth > MAX_DEPTH {
            return Err(ProtobufError::TooDeep(ty.short_go_name()));
        }
        if self.objects.get() > MAX_OBJECTS {
            return Err(ProtobufError::TooManyObjects);
        }
        Ok(())
    }
}

fn structure(ty: &'static Type, data: &[u8], mut map: Map<String, Value>, at: At<'_>) -> Result<Value, ProtobufError> {
    fields(ty, data, &mut map, at)?;
    fill_zeros(ty, &mut map);
    Ok(Value::Object(map))
}

/// Reads the fields of a message into the map of its JSON object.
fn fields(ty: &'static Type, data: &[u8], map: &mut Map<String, Value>, at: At<'_>) -> Result<(), ProtobufError> {
    at.enter(ty)?;
    let mut reader = Reader::new(data, ty.short_go_name());
    while let Some(tag) = reader.tag()? {
        match ty.fields.iter().find(|field| field.number == tag.number) {
            None => reader.skip(tag)?,
            Some(field) => match field.ty {
                FieldType::Struct(inner) if field.is_inline() => {
                    fields(inner, reader.bytes(tag, field.name)?, map, at)?;
                }
                _ => one_field(field, tag, &mut reader, map, at)?,
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
    at: At<'_>,
) -> Result<(), ProtobufError> {
    let value = match field.ty {
        FieldType::List(element) => {
            let item = single(field, *element, tag, reader, None, at.deeper(2))?;
            match map.get_mut(field.name) {
                Some(Value::Array(items)) => items.push(item),
                _ => drop(map.insert(field.name.to_owned(), Value::Array(vec![item]))),
            }
            return Ok(());
        }
        FieldType::Map(element) => {
            let (key, item) = entry(field, *element, reader.bytes(tag, field.name)?, at.deeper(2))?;
            match map.get_mut(field.name) {
                Some(Value::Object(entries)) => drop(entries.insert(key, item)),
                _ => drop(map.insert(field.name.to_owned(), Value::Object(Map::from_iter([(key, item)])))),
            }
            return Ok(());
        }
        FieldType::Struct(_) => {
            let existing = map.remove(field.name);
            single(field, field.ty, tag, reader, existing, at.deeper(1))?
        }
        ty => single(field, ty, tag, reader, None, at.deeper(1))?,
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
fn entry(field: &'static Field, element: FieldType, data: &[u8], at: At<'_>) -> Result<(String, Value), ProtobufError> {
    let mut key = String::new();
    let mut value = None;
    let mut reader = Reader::new(data, "MapEntry");
    while let Some(tag) = reader.tag()? {
        match tag.number {
            1 => key = text(reader.bytes(tag, field.name)?),
            2 => value = Some(single(field, element, tag, &mut reader, None, at)?),
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
    at: At<'_>,
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
                Some(raw) => raw_json(name, raw, at)?,
            }
        }
        FieldType::SchemaOrBool | FieldType::SchemaOrArray | FieldType::SchemaOrStringArray => {
            schema_or(ty, reader.bytes(tag, name)?, at)?
        }
        FieldType::Struct(ty) => {
            let existing = match existing {
                Some(Value::Object(map)) => map,
                _ => Map::new(),
            };
            structure(ty, reader.bytes(tag, name)?, existing, at)?
        }
        FieldType::WrappedList(element) => {
            let mut items = Vec::new();
            let mut inner = Reader::new(reader.bytes(tag, name)?, "Items");
            while let Some(tag) = inner.tag()? {
                match tag.number {
                    1 => items.push(single(field, *element, tag, &mut inner, None, at.deeper(1))?),
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

fn raw_json(field: &str, raw: &[u8], at: At<'_>) -> Result<Value, ProtobufError> {
    let value = decode_untyped(raw)
        .map_err(|error| ProtobufError::Json { field: field.to_owned(), error: error.to_string() })?
        .value;
    let (levels, objects) = extent(&value);
    if at.depth + levels > MAX_DEPTH {
        return Err(ProtobufError::TooDeep("RawExtension"));
    }
    at.objects.set(at.objects.get() + objects);
    Ok(value)
}

/// How deep a value nests and how many objects it holds; decoding has bounded both.
fn extent(value: &Value) -> (usize, usize) {
    let join = |(deepest, objects): (usize, usize), inner: &Value| {
        let (levels, more) = extent(inner);
        (deepest.max(levels + 1), objects + more)
    };
    match value {
        Value::Array(items) => items.iter().fold((1, 0), join),
        Value::Object(map) => map.values().fold((1, 1), join),
        _ => (0, 0),
    }
}

fn schema_or(ty: FieldType, data: &[u8], at: At<'_>) -> Result<Value, ProtobufError> {
    let props = Types::native().json_schema_props();
    let mut allows = false;
    let mut schema = None;
    let mut items = Vec::new();
    let mut reader = Reader::new(data, "JSONSchemaPropsOr");
    while let Some(tag) = reader.tag()? {
        match (ty, tag.number) {
            (FieldType::SchemaOrBool, 1) => allows = reader.varint(tag, "Allows")? != 0,
            (FieldType::SchemaOrBool, 2) | (_, 1) => {
                schema = Some(structure(props, reader.bytes(tag, "Schema")?, Map::new(), at)?);
            }
            (FieldType::SchemaOrArray, 2) => {
                items.push(structure(props, reader.bytes(tag, "JSONSchemas")?, Map::new(), at.deeper(1))?);
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
