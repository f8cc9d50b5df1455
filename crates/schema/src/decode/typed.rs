//! The walk over structs, lists and maps: fields found by name, errors given their place, zero values filled in.

use std::borrow::Cow;

use serde_json::{Map, Number, Value};

use super::quote::go_quote;
use super::scanner::{Literal, Scanner, SyntaxError};
use super::{DecodeError, Decoded, scalar};
use crate::types::{Field, FieldType, GoType, Type, Types};

/// Upstream stops collecting strict errors here.
const MAX_STRICT_ERRORS: usize = 100;

pub(super) fn decode(ty: FieldType, data: &[u8]) -> Result<Decoded, DecodeError> {
    let mut decoder = Decoder {
        scanner: Scanner::new(data),
        path: Vec::with_capacity(8),
        strict: Vec::new(),
        lenient: 0,
        mismatch: None,
        fatal: None,
    };
    let value = decoder.value(ty, GoType::of(ty), None)?;
    decoder.scanner.end()?;
    match decoder.fatal.or(decoder.mismatch) {
        Some(message) => Err(DecodeError::Mismatch(message)),
        None => Ok(Decoded { value: value.unwrap_or_else(|| zero(ty)), strict: decoder.strict }),
    }
}

/// What Go prints for a value of this type that was never set.
pub fn zero(ty: FieldType) -> Value {
    match ty {
        FieldType::String => Value::String(String::new()),
        FieldType::Bool => Value::Bool(false),
        FieldType::Int32 | FieldType::Int64 | FieldType::Double => Value::Number(0.into()),
        FieldType::Quantity => Value::String("0".to_owned()),
        FieldType::SchemaOrBool => Value::Bool(false),
        FieldType::Struct(ty) => {
            let mut map = Map::new();
            fill_zeros(ty, &mut map);
            Value::Object(map)
        }
        FieldType::Bytes
        | FieldType::Time
        | FieldType::MicroTime
        | FieldType::RawExtension
        | FieldType::FieldsV1
        | FieldType::Json
        | FieldType::Any
        | FieldType::SchemaOrArray
        | FieldType::SchemaOrStringArray
        | FieldType::List(_)
        | FieldType::WrappedList(_)
        | FieldType::Map(_) => Value::Null,
    }
}

/// Adds the fields that Go prints even when they were not set.
pub(crate) fn fill_zeros(ty: &'static Type, map: &mut Map<String, Value>) {
    for field in ty.fields {
        if field.is_inline() {
            if let FieldType::Struct(inner) = field.ty {
                fill_zeros(inner, map);
            }
        } else if field.always_printed() && !map.contains_key(field.name) {
            let value = if field.is_pointer() { Value::Null } else { zero(field.ty) };
            map.insert(field.name.to_owned(), value);
        }
    }
}

/// One step from an object to the value being decoded.
enum Step<'a> {
    Field(&'static Type, &'static Field),
    Key(Cow<'a, str>),
    Index(usize),
}

pub(super) struct Decoder<'a> {
    pub(super) scanner: Scanner<'a>,
    path: Vec<Step<'a>>,
    strict: Vec<String>,
    /// Depth inside values that upstream decodes by a second, lenient pass.
    lenient: usize,
    /// The first value that did not fit; decoding went on.
    mismatch: Option<String>,
    /// The first error at which upstream stops; it wins over `mismatch`.
    fatal: Option<String>,
}

impl<'a> Decoder<'a> {
    /// Decodes the next value. `None` is null: a nil pointer, list or map, or a zero value. `existing` is the value an
    /// earlier duplicate of the field gave, into which Go decodes structs and maps.
    fn value(&mut self, ty: FieldType, go: GoType, existing: Option<Value>) -> Result<Option<Value>, SyntaxError> {
        let first = self.scanner.peek_value()?;
        if first == b'n' {
            self.scanner.literal()?;
            return Ok(None);
        }
        match ty {
            FieldType::Struct(ty) if first == b'{' => self.structure(ty, existing).map(Some),
            FieldType::Map(element) if first == b'{' => self.map(*element, go.element(), existing).map(Some),
            FieldType::List(element) | FieldType::WrappedList(element) if first == b'[' => {
                self.list(*element, go.element()).map(Some)
            }
            FieldType::Any => self.untyped().map(Some),
            FieldType::RawExtension | FieldType::FieldsV1 | FieldType::Json => {
                self.leniently(|this| this.untyped()).map(Some)
            }
            FieldType::SchemaOrBool | FieldType::SchemaOrArray | FieldType::SchemaOrStringArray => {
                self.by_own_decoder(|this| this.schema_or(ty, first)).map(Some)
            }
            FieldType::Struct(_) | FieldType::Map(_) | FieldType::List(_) | FieldType::WrappedList(_) => {
                self.mismatched(first, go)
            }
            _ => scalar::decode(self, ty, go, first),
        }
    }

    fn structure(&mut self, ty: &'static Type, existing: Option<Value>) -> Result<Value, SyntaxError> {
        let mut map = match existing {
            Some(Value::Object(map)) => map,
            _ => Map::new(),
        };
        // A type has at most 64 fields (asserted by a test of the table).
        let mut seen: u64 = 0;
        let mut more = self.scanner.open(b'}')?.entered();
        while more {
            let key = self.scanner.key()?;
            match ty.field_index(&key) {
                Some((index, field)) => {
                    let bit = 1u64.checked_shl(index as u32).unwrap_or(0);
                    let duplicate = seen & bit != 0;
                    seen |= bit;
                    if duplicate {
                        self.strict_error("duplicate", field.name);
                    }
                    self.field(ty, field, duplicate, &mut map)?;
                }
                None => {
                    self.strict_error("unknown", &key);
                    self.scanner.skip_value()?;
                }
            }
            more = self.scanner.next(b'}')?;
        }
        fill_zeros(ty, &mut map);
        Ok(Value::Object(map))
    }

    fn field(
        &mut self,
        ty: &'static Type,
        field: &'static Field,
        duplicate: bool,
        map: &mut Map<String, Value>,
    ) -> Result<(), SyntaxError> {
        // Objects of an earlier duplicate are merged into; so is what a surrounding duplicate brought along.
        let existing = match field.ty {
            FieldType::Struct(_) | FieldType::Map(_) => map.remove(field.name),
            _ => None,
        };
        let kept =
            existing.as_ref().filter(|_| !field.is_pointer() && matches!(field.ty, FieldType::Struct(_))).cloned();
        self.path.push(Step::Field(ty, field));
        let value = self.value(field.ty, field.go_type(), existing)?;
        self.path.pop();
        let value = match value {
            None => kept,
            Some(value) if field.is_pointer() || !is_go_zero(field, &value) || is_reset(field) => Some(value),
            Some(_) => {
                map.remove(field.name);
                None
            }
        };
        match value {
            Some(value) => {
                map.insert(field.name.to_owned(), value);
            }
            None if duplicate && (field.is_pointer() || is_nilable(field.ty)) => {
                map.remove(field.name);
            }
            None => {}
        }
        Ok(())
    }

    fn map(&mut self, element: FieldType, go: GoType, existing: Option<Value>) -> Result<Value, SyntaxError> {
        let mut map = match existing {
            Some(Value::Object(map)) => map,
            _ => Map::new(),
        };
        let merging = !map.is_empty();
        let mut fresh: Vec<String> = Vec::new();
        let mut more = self.scanner.open(b'}')?.entered();
        while more {
            let key = self.scanner.key()?;
            let duplicate = if merging { fresh.iter().any(|k| *k == key) } else { map.contains_key(&*key) };
            if duplicate {
                self.strict_error("duplicate", &key);
            } else if merging {
                fresh.push(key.clone().into_owned());
            }
            self.path.push(Step::Key(key));
            let value = self.value(element, go, None)?;
            let Some(Step::Key(key)) = self.path.pop() else { break };
            map.insert(key.into_owned(), value.unwrap_or_else(|| map_zero(element)));
            more = self.scanner.next(b'}')?;
        }
        Ok(Value::Object(map))
    }

    /// Bytes written as a list of numbers, which Go takes as well.
    pub(super) fn byte_list(&mut self) -> Result<Vec<u8>, SyntaxError> {
        let mut bytes = Vec::new();
        let mut more = self.scanner.open(b']')?.entered();
        while more {
            let byte = match self.scanner.peek_value()? {
                b'-' | b'0'..=b'9' => {
                    let text = self.scanner.number()?;
                    let byte = text.parse::<u8>();
                    if byte.is_err() {
                        self.save_mismatch(&format!("number {text}"), "uint8");
                    }
                    byte.unwrap_or(0)
                }
                first => {
                    if first != b'n' {
                        self.save_mismatch(json_kind(first), "uint8");
                    }
                    self.scanner.skip_value()?;
                    0
                }
            };
            bytes.push(byte);
            more = self.scanner.next(b']')?;
        }
        Ok(bytes)
    }

    fn list(&mut self, element: FieldType, go: GoType) -> Result<Value, SyntaxError> {
        let mut items = Vec::new();
        let mut more = self.scanner.open(b']')?.entered();
        while more {
            self.path.push(Step::Index(items.len()));
            let value = self.value(element, go, None)?;
            self.path.pop();
            items.push(value.unwrap_or_else(|| zero(element)));
            more = self.scanner.next(b']')?;
        }
        Ok(Value::Array(items))
    }

    /// A value without a type; numbers are integers where they fit.
    fn untyped(&mut self) -> Result<Value, SyntaxError> {
        Ok(match self.scanner.peek_value()? {
            b'"' => Value::String(self.scanner.string()?.into_owned()),
            b't' | b'f' | b'n' => match self.scanner.literal()? {
                Literal::True => Value::Bool(true),
                Literal::False => Value::Bool(false),
                Literal::Null => Value::Null,
            },
            b'{' => self.untyped_object()?,
            b'[' => {
                let mut items = Vec::new();
                let mut more = self.scanner.open(b']')?.entered();
                while more {
                    self.path.push(Step::Index(items.len()));
                    items.push(self.untyped()?);
                    self.path.pop();
                    more = self.scanner.next(b']')?;
                }
                Value::Array(items)
            }
            _ => {
                let text = self.scanner.number()?;
                match untyped_number(text) {
                    Some(number) => Value::Number(number),
                    None => {
                        self.save_mismatch(&format!("number {text}"), "float64");
                        Value::Null
                    }
                }
            }
        })
    }

    fn untyped_object(&mut self) -> Result<Value, SyntaxError> {
        let mut map = Map::new();
        let mut more = self.scanner.open(b'}')?.entered();
        while more {
            let key = self.scanner.key()?;
            if map.contains_key(&*key) {
                self.strict_error("duplicate", &key);
            }
            self.path.push(Step::Key(key));
            let value = self.untyped()?;
            let Some(Step::Key(key)) = self.path.pop() else { break };
            map.insert(key.into_owned(), value);
            more = self.scanner.next(b'}')?;
        }
        Ok(Value::Object(map))
    }

    /// The places of a JSON schema where a schema or something simpler may stand.
    fn schema_or(&mut self, ty: FieldType, first: u8) -> Result<Value, SyntaxError> {
        let props = Types::native().json_schema_props();
        match (ty, first) {
            (_, b'{') => self.structure(props, None),
            (FieldType::SchemaOrBool, b't' | b'f') => Ok(Value::Bool(self.scanner.literal()? == Literal::True)),
            (FieldType::SchemaOrBool, _) => {
                self.scanner.skip_value()?;
                self.stop("boolean or JSON schema expected".to_owned());
                Ok(Value::Bool(false))
            }
            (_, b'[') => {
                let element = match ty {
                    FieldType::SchemaOrArray => FieldType::Struct(props),
                    _ => FieldType::String,
                };
                let list = self.list(element, GoType::of(element))?;
                // An empty list is the same as nothing, which prints as null.
                Ok(if list.as_array().is_some_and(Vec::is_empty) { Value::Null } else { list })
            }
            _ => {
                self.scanner.skip_value()?;
                Ok(Value::Null)
            }
        }
    }

    fn leniently<T>(&mut self, decode: impl FnOnce(&mut Self) -> T) -> T {
        self.lenient += 1;
        let value = decode(self);
        self.lenient -= 1;
        value
    }

    /// Decodes where upstream's type does so itself: leniently, and whatever does not fit inside ends decoding.
    fn by_own_decoder<T>(&mut self, decode: impl FnOnce(&mut Self) -> T) -> T {
        let outer = self.mismatch.take();
        let value = self.leniently(decode);
        if let Some(inner) = std::mem::replace(&mut self.mismatch, outer) {
            self.stop(inner);
        }
        value
    }

    /// Reports a value of the wrong kind and passes over it.
    pub(super) fn mismatched(&mut self, first: u8, go: GoType) -> Result<Option<Value>, SyntaxError> {
        self.save_mismatch(json_kind(first), go);
        self.scanner.skip_value()?;
        Ok(None)
    }

    pub(super) fn save_mismatch(&mut self, found: &str, go: impl std::fmt::Display) {
        if self.mismatch.is_none() {
            self.mismatch = Some(self.mismatch_text(found, go));
        }
    }

    /// Reports a value of the wrong kind where a type's own decoder would, which ends decoding upstream.
    pub(super) fn stop_at_mismatch(&mut self, found: &str, go: &str) {
        let text = self.mismatch_text(found, go);
        self.stop(text);
    }

    pub(super) fn stop(&mut self, message: String) {
        self.fatal.get_or_insert(message);
    }

    /// Reports an error that has no place in its text.
    pub(super) fn save_error(&mut self, message: String) {
        self.mismatch.get_or_insert(message);
    }

    fn mismatch_text(&self, found: &str, go: impl std::fmt::Display) -> String {
        let mut names: Vec<&str> = Vec::new();
        let mut structure = None;
        for step in &self.path {
            if let Step::Field(ty, field) = step {
                structure = Some(ty.short_go_name());
                push_embedding(ty, field, &mut names);
                names.push(field.name);
            }
        }
        match structure {
            Some(name) => {
                format!("json: cannot unmarshal {found} into Go struct field {name}.{} of type {go}", names.join("."))
            }
            None => format!("json: cannot unmarshal {found} into Go value of type {go}"),
        }
    }

    fn strict_error(&mut self, what: &str, name: &str) {
        if self.lenient > 0 || self.strict.len() >= MAX_STRICT_ERRORS {
            return;
        }
        let mut path = String::new();
        for step in &self.path {
            match step {
                Step::Field(_, field) => push_key(&mut path, field.name),
                Step::Key(key) => push_key(&mut path, key),
                Step::Index(index) => path.push_str(&format!("[{index}]")),
            }
        }
        push_key(&mut path, name);
        let message = format!("{what} field {}", go_quote(&path));
        if !self.strict.contains(&message) {
            self.strict.push(message);
        }
    }
}

fn push_key(path: &mut String, key: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(key);
}

/// Adds the Go names of the embedded structs between a type and one of its fields.
fn push_embedding(ty: &'static Type, field: &'static Field, names: &mut Vec<&'static str>) -> bool {
    for declared in ty.fields {
        if std::ptr::eq(declared, field) {
            return true;
        }
        if let (true, FieldType::Struct(inner)) = (declared.is_inline(), declared.ty) {
            names.push(declared.name);
            if push_embedding(inner, field, names) {
                return true;
            }
            names.pop();
        }
    }
    false
}

/// What Go's error messages call a JSON value, by its first byte.
pub(super) fn json_kind(first: u8) -> &'static str {
    match first {
        b'{' => "object",
        b'[' => "array",
        b'"' => "string",
        b't' | b'f' => "bool",
        b'n' => "null",
        _ => "number",
    }
}

fn untyped_number(text: &str) -> Option<Number> {
    if let Ok(integer) = text.parse::<i64>() {
        return Some(integer.into());
    }
    text.parse::<f64>().ok().and_then(Number::from_f64)
}

/// An empty list of managers asks to forget those that are stored, which no list at all does not.
fn is_reset(field: &Field) -> bool {
    field.name == "managedFields"
}

/// Whether the field counts as not set with this value. Structs never do; empty lists and maps do not survive storage.
fn is_go_zero(field: &Field, value: &Value) -> bool {
    match field.ty {
        FieldType::Bytes if field.always_printed() => false,
        FieldType::String
        | FieldType::Bool
        | FieldType::Int32
        | FieldType::Int64
        | FieldType::Double
        | FieldType::Bytes
        | FieldType::Time
        | FieldType::MicroTime
        | FieldType::List(_)
        | FieldType::Map(_) => match value {
            Value::String(s) => s.is_empty(),
            Value::Bool(b) => !b,
            Value::Number(n) => n.as_f64() == Some(0.0),
            Value::Array(items) => items.is_empty(),
            Value::Object(entries) => entries.is_empty(),
            Value::Null => true,
        },
        _ => false,
    }
}

fn is_nilable(ty: FieldType) -> bool {
    matches!(ty, FieldType::Bytes | FieldType::List(_) | FieldType::WrappedList(_) | FieldType::Map(_) | FieldType::Any)
}

/// A null in a map of bytes or lists is stored as an empty one and comes back as such.
pub(crate) fn map_zero(element: FieldType) -> Value {
    match element {
        FieldType::Bytes => Value::String(String::new()),
        FieldType::WrappedList(_) => Value::Array(Vec::new()),
        other => zero(other),
    }
}
