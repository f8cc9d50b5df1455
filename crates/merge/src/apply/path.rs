//! One step of a path into an object, and how it is ordered, printed and named in `fieldsV1`.
//!
//! Elements borrow from the objects they were found in, so that comparing two objects copies no names.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::{self, Write as _};

use serde_json::Value;

use super::fields_v1::FieldsError;
use super::{go_number, value};

/// One step into an object.
#[derive(Clone, Debug)]
pub enum PathElement<'a> {
    /// A field of a struct or a key of a map.
    Field(Cow<'a, str>),
    /// The entry of a list whose key fields have these values; sorted by name.
    Key(Vec<(Cow<'a, str>, Cow<'a, Value>)>),
    /// The element of a set with this value.
    Value(Cow<'a, Value>),
    /// An element of a list by its place.
    Index(i64),
}

impl<'a> PathElement<'a> {
    /// The entry of a list with these key fields.
    pub fn key(mut fields: Vec<(Cow<'a, str>, Cow<'a, Value>)>) -> Self {
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        Self::Key(fields)
    }

    /// The element with nothing borrowed.
    pub fn into_owned(self) -> PathElement<'static> {
        let text = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        let value = |value: Cow<'_, Value>| Cow::Owned(value.into_owned());
        match self {
            Self::Field(name) => PathElement::Field(text(name)),
            Self::Key(fields) => PathElement::Key(fields.into_iter().map(|(name, v)| (text(name), value(v))).collect()),
            Self::Value(v) => PathElement::Value(value(v)),
            Self::Index(index) => PathElement::Index(index),
        }
    }

    /// Reads an element from its name in `fieldsV1`; `None` for kinds that later versions may add.
    pub fn parse(name: &'a str) -> Result<Option<Self>, FieldsError> {
        let (Some(kind), Some(separator)) = (name.as_bytes().first(), name.as_bytes().get(1)) else {
            return Err(FieldsError::new("key must be 2 characters long:"));
        };
        let (true, Some(rest)) = (*separator == b':', name.get(2..)) else {
            return Err(FieldsError::new(format!("missing colon: {name}")));
        };
        Ok(Some(match kind {
            b'f' => Self::Field(Cow::Borrowed(rest)),
            b'k' => match first_json_value(rest)? {
                Value::Object(fields) => {
                    Self::Key(fields.into_iter().map(|(name, v)| (Cow::Owned(name), Cow::Owned(v))).collect())
                }
                Value::Null => Self::Key(Vec::new()),
                _ => return Err(FieldsError::new(format!("ReadObjectCB: expect {{ or n, but found {rest}"))),
            },
            b'v' => Self::Value(Cow::Owned(first_json_value(rest)?)),
            b'i' => match rest.parse() {
                Ok(index) => Self::Index(index),
                Err(_) => {
                    return Err(FieldsError::new(format!("strconv.Atoi: parsing {rest:?}: invalid syntax")));
                }
            },
            _ => return Ok(None),
        }))
    }

    /// Appends the element's name in `fieldsV1`.
    pub fn write_name(&self, out: &mut String) {
        match self {
            Self::Field(name) => {
                out.reserve(name.len() + 2);
                out.push_str("f:");
                out.push_str(name);
            }
            Self::Key(fields) => {
                out.push_str("k:{");
                for (i, (name, value)) in fields.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    write_string(out, name, Html::Plain);
                    out.push(':');
                    write_value(out, value);
                }
                out.push('}');
            }
            Self::Value(value) => {
                out.push_str("v:");
                write_value(out, value);
            }
            Self::Index(index) => {
                let _ = write!(out, "i:{index}");
            }
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

/// The first JSON value of a text, as upstream reads it: numbers are floats, what follows is not looked at.
fn first_json_value(text: &str) -> Result<Value, FieldsError> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    match values.next() {
        Some(Ok(value)) => Ok(with_floats(value)),
        Some(Err(error)) => Err(FieldsError::new(error.to_string())),
        None => Err(FieldsError::new("EOF")),
    }
}

fn with_floats(value: Value) -> Value {
    match value {
        Value::Number(number) => number.as_f64().map_or(Value::Null, Value::from),
        Value::Array(items) => items.into_iter().map(with_floats).collect(),
        Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, with_floats(value))).collect(),
        other => other,
    }
}

impl Ord for PathElement<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            (Self::Key(a), Self::Key(b)) => {
                let unequal = a.iter().zip(b).map(|(a, b)| a.0.cmp(&b.0).then_with(|| value::order(&a.1, &b.1)));
                unequal.into_iter().find(|order| order.is_ne()).unwrap_or_else(|| a.len().cmp(&b.len()))
            }
            (Self::Value(a), Self::Value(b)) => value::order(a, b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            (a, b) => a.rank().cmp(&b.rank()),
        }
    }
}

impl PartialOrd for PathElement<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PathElement<'_> {}

/// As messages show it: `.name`, `[port=80,protocol="TCP"]`, `[="a"]`, `[3]`.
impl fmt::Display for PathElement<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                f.write_char('[')?;
                for (i, (name, value)) in fields.iter().enumerate() {
                    let comma = if i > 0 { "," } else { "" };
                    write!(f, "{comma}{name}={}", display_value(value))?;
                }
                f.write_char(']')
            }
            Self::Value(value) => write!(f, "[={}]", display_value(value)),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

fn display_value(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => go_number::display(number),
        Value::String(text) => bailiwick_schema::decode::go_quote(text),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(display_value).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(fields) => fields.iter().map(|(name, v)| format!("{name}={}", display_value(v))).collect(),
    }
}

/// Steps from the root of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path<'a>(pub Vec<PathElement<'a>>);

impl Path<'static> {
    /// A path of field names.
    pub fn fields(names: &[&str]) -> Self {
        Self(names.iter().map(|name| PathElement::Field(Cow::Owned((*name).to_owned()))).collect())
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| write!(f, "{element}"))
    }
}

/// Whether `<`, `>` and `&` are escaped, which Go does for values but not for names.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Html {
    Plain,
    Escaped,
}

fn write_value(out: &mut String, value: &Value) {
    match value {
        Value::String(text) => write_string(out, text, Html::Escaped),
        Value::Number(number) => out.push_str(&go_number::json(number)),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_value(out, item);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            out.push('{');
            for (i, (name, value)) in fields.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_string(out, name, Html::Escaped);
                out.push(':');
                write_value(out, value);
            }
            out.push('}');
        }
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
    }
}

/// A JSON string with Go's escapes.
pub(super) fn write_string(out: &mut String, text: &str, html: Html) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{0}'..='\u{1f}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' if html == Html::Escaped => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
