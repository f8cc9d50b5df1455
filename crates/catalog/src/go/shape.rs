//! Typed JSON decoding by tables: the types that Go declares as structs are data here. [`check`] says what Go's decoder
//! would say about a value, [`append_typed`] writes it as Go's encoder would write the decoded struct: known fields
//! only, in the order of declaration, empty ones left out where the type says so.

use base64::Engine as _;
use serde_json::{Map, Value};

use super::json::{Dialect, append_json, append_text, printed_float};

/// A type.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// Text, with the name of its Go type.
    Text(&'static str),
    Bool,
    /// `int32` and the like, by name.
    Int(&'static str),
    /// Base64 in JSON.
    Bytes,
    /// Kept as it is.
    Raw,
    /// Of a type, by name, that reads itself.
    Opaque(&'static str),
    Struct(&'static Struct),
    List(&'static Shape),
    /// Of text to a type.
    Map(&'static Shape),
}

/// A struct type.
#[derive(Debug)]
pub struct Struct {
    /// As error messages have it, with the package.
    pub name: &'static str,
    /// In the order of declaration.
    pub fields: &'static [Field],
}

/// A field of a struct.
#[derive(Debug)]
pub struct Field {
    /// In JSON.
    pub name: &'static str,
    pub shape: Shape,
    pub omit: Omit,
}

/// When a field is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Omit {
    Never,
    Empty,
}

impl Shape {
    /// A plain string.
    pub const TEXT: Shape = Shape::Text("string");

    fn go_type(self) -> String {
        match self {
            Shape::Text(name) | Shape::Int(name) | Shape::Opaque(name) => name.to_owned(),
            Shape::Bool => "bool".to_owned(),
            Shape::Bytes => "[]uint8".to_owned(),
            Shape::Raw => "json.RawMessage".to_owned(),
            Shape::Struct(shape) => shape.name.to_owned(),
            Shape::List(item) => format!("[]{}", item.go_type()),
            Shape::Map(item) => format!("map[string]{}", item.go_type()),
        }
    }

    /// The empty value, as the encoder writes it.
    fn append_zero(self, out: &mut String) {
        match self {
            Shape::Text(_) => out.push_str("\"\""),
            Shape::Bool => out.push_str("false"),
            Shape::Int(_) => out.push('0'),
            Shape::Bytes | Shape::Raw | Shape::Opaque(_) | Shape::List(_) | Shape::Map(_) => out.push_str("null"),
            Shape::Struct(shape) => append_struct(out, &Map::new(), shape, Dialect::Catalog),
        }
    }
}

/// Finds a field in any case; the last key that matches wins, as in Go.
fn lookup<'v>(fields: &'v Map<String, Value>, name: &str) -> Option<&'v Value> {
    match fields.get(name) {
        Some(value) if fields.len() == 1 => Some(value),
        exact => fields
            .iter()
            .rev()
            .find(|(key, _)| key.len() == name.len() && key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
            .or(exact),
    }
}

/// Numbers and booleans where a type wants texts become texts, as upstream's YAML library has it.
pub fn scalars_to_texts(value: &mut Value, shape: Shape) {
    match (shape, value) {
        (Shape::Text(_), value) => match value {
            Value::Number(number) if number.is_f64() => {
                *value = printed_float(number.as_f64().unwrap_or_default()).into();
            }
            Value::Number(_) | Value::Bool(_) => *value = value.to_string().into(),
            _ => {}
        },
        (Shape::List(item), Value::Array(items)) => items.iter_mut().for_each(|it| scalars_to_texts(it, *item)),
        (Shape::Map(item), Value::Object(fields)) => fields.values_mut().for_each(|it| scalars_to_texts(it, *item)),
        (Shape::Struct(shape), Value::Object(fields)) => {
            for (key, value) in fields {
                if let Some(field) = shape.fields.iter().find(|field| field.name.eq_ignore_ascii_case(key)) {
                    scalars_to_texts(value, field.shape);
                }
            }
        }
        _ => {}
    }
}

/// The first mismatch between a value and a type, worded as Go words it.
pub fn check(value: &Value, shape: Shape) -> Result<(), String> {
    Checker { unknown: Unknown::Ignored, path: Vec::new(), owner: "" }.check(value, shape)
}

/// The same, and fields that the type does not have are an error.
pub fn check_strict(value: &Value, shape: Shape) -> Result<(), String> {
    Checker { unknown: Unknown::Refused, path: Vec::new(), owner: "" }.check(value, shape)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unknown {
    Ignored,
    Refused,
}

struct Checker {
    unknown: Unknown,
    path: Vec<&'static str>,
    /// The innermost struct, without its package.
    owner: &'static str,
}

impl Checker {
    fn check(&mut self, value: &Value, shape: Shape) -> Result<(), String> {
        match (shape, value) {
            (_, Value::Null)
            | (Shape::Raw | Shape::Opaque(_), _)
            | (Shape::Text(_), Value::String(_))
            | (Shape::Bool, Value::Bool(_)) => Ok(()),
            (Shape::Int(_), Value::Number(number)) if number.is_i64() => Ok(()),
            (Shape::Int(_), Value::Number(number)) => Err(self.mismatch(&format!("number {number}"), shape)),
            (Shape::Bytes, Value::String(text)) => match base64_decode(text) {
                Ok(_) => Ok(()),
                Err(at) => Err(format!("illegal base64 data at input byte {at}")),
            },
            (Shape::Struct(shape), Value::Object(fields)) => {
                let outer = std::mem::replace(&mut self.owner, short(shape.name));
                for (key, value) in fields {
                    let field = shape.fields.iter().find(|field| field.name.eq_ignore_ascii_case(key));
                    if let Some(field) = field {
                        self.path.push(field.name);
                        self.check(value, field.shape)?;
                        self.path.pop();
                    } else if self.unknown == Unknown::Refused {
                        return Err(format!("json: unknown field {}", super::quote(key)));
                    }
                }
                self.owner = outer;
                Ok(())
            }
            (Shape::List(item), Value::Array(items)) => items.iter().try_for_each(|value| self.check(value, *item)),
            (Shape::Bytes, Value::Array(items)) => {
                items.iter().try_for_each(|value| self.check(value, Shape::Int("uint8")))
            }
            (Shape::Map(item), Value::Object(fields)) => fields.values().try_for_each(|value| self.check(value, *item)),
            (shape, value) => Err(self.mismatch(kind(value), shape)),
        }
    }

    fn mismatch(&self, found: &str, shape: Shape) -> String {
        let wanted = shape.go_type();
        if self.path.is_empty() {
            return format!("json: cannot unmarshal {found} into Go value of type {wanted}");
        }
        let path = self.path.join(".");
        format!("json: cannot unmarshal {found} into Go struct field {}.{path} of type {wanted}", self.owner)
    }
}

fn short(name: &'static str) -> &'static str {
    name.rsplit('.').next().unwrap_or(name)
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn base64_decode(text: &str) -> Result<Vec<u8>, usize> {
    // Go skips line breaks.
    let compact: String;
    let text = if text.contains(['\n', '\r']) {
        compact = text.replace(['\n', '\r'], "");
        &compact
    } else {
        text
    };
    base64::engine::general_purpose::STANDARD.decode(text).map_err(|error| match error {
        base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => at,
        base64::DecodeError::InvalidLength(_) | base64::DecodeError::InvalidPadding => text.len() / 4 * 4,
    })
}

/// Writes a value that passed [`check`] as the encoder writes its type.
pub fn append_typed(out: &mut String, value: &Value, shape: Shape, dialect: Dialect) {
    match (shape, value) {
        // It comes from a manifest and is passed on as it stands there.
        (Shape::Raw, value) => append_json(out, value, Dialect::Manifest),
        (shape, Value::Null) => shape.append_zero(out),
        (Shape::Struct(shape), Value::Object(fields)) => append_struct(out, fields, shape, dialect),
        (Shape::List(item), Value::Array(items)) => {
            out.push('[');
            for (i, value) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                append_typed(out, value, *item, dialect);
            }
            out.push(']');
        }
        (Shape::Map(item), Value::Object(fields)) => {
            out.push('{');
            for (i, (key, value)) in fields.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                append_text(out, key, dialect);
                out.push(':');
                append_typed(out, value, *item, dialect);
            }
            out.push('}');
        }
        (Shape::Bytes, Value::String(text)) => {
            let bytes = base64_decode(text).unwrap_or_default();
            append_text(out, &base64::engine::general_purpose::STANDARD.encode(bytes), dialect);
        }
        (_, value) => append_json(out, value, dialect),
    }
}

fn append_struct(out: &mut String, fields: &Map<String, Value>, shape: &Struct, dialect: Dialect) {
    out.push('{');
    let mut first = true;
    for field in shape.fields {
        let value = lookup(fields, field.name).unwrap_or(&Value::Null);
        if field.omit == Omit::Empty && is_empty(value, field.shape) {
            continue;
        }
        if !std::mem::take(&mut first) {
            out.push(',');
        }
        append_text(out, field.name, dialect);
        out.push(':');
        append_typed(out, value, field.shape, dialect);
    }
    out.push('}');
}

/// Structs are never empty, whatever their fields.
fn is_empty(value: &Value, shape: Shape) -> bool {
    match (shape, value) {
        (Shape::Struct(_), _) => false,
        (Shape::Raw, value) => value.is_null(),
        (_, Value::Null) => true,
        (_, Value::Bool(flag)) => !flag,
        (_, Value::Number(number)) => number.as_i64() == Some(0),
        (_, Value::String(text)) => text.is_empty(),
        (_, Value::Array(items)) => items.is_empty(),
        (_, Value::Object(fields)) => fields.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    static INNER: Struct = Struct {
        name: "pkg.Inner",
        fields: &[
            Field { name: "zeta", shape: Shape::TEXT, omit: Omit::Never },
            Field { name: "count", shape: Shape::Int("int32"), omit: Omit::Empty },
        ],
    };
    static OUTER: Struct = Struct {
        name: "pkg.Outer",
        fields: &[
            Field { name: "items", shape: Shape::List(&Shape::Struct(&INNER)), omit: Omit::Empty },
            Field { name: "inner", shape: Shape::Struct(&INNER), omit: Omit::Empty },
        ],
    };

    #[test]
    fn known_fields_are_written_in_order_of_declaration() {
        let mut out = String::new();
        let value = json!({"unknown": 1, "ITEMS": [{"count": 2, "zeta": "z"}, null], "inner": {}});
        append_typed(&mut out, &value, Shape::Struct(&OUTER), Dialect::Catalog);
        assert_eq!(out, r#"{"items":[{"zeta":"z","count":2},{"zeta":""}],"inner":{"zeta":""}}"#);
    }

    #[test]
    fn mismatches_name_the_innermost_struct_and_the_whole_path() {
        assert_eq!(
            check(&json!({"items": [{"zeta": 1}]}), Shape::Struct(&OUTER)).unwrap_err(),
            "json: cannot unmarshal number into Go struct field Inner.items.zeta of type string"
        );
        assert_eq!(
            check(&json!([]), Shape::Struct(&OUTER)).unwrap_err(),
            "json: cannot unmarshal array into Go value of type pkg.Outer"
        );
    }
}
