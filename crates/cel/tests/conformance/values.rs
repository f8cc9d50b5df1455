//! Values and types of the test files.

use bailiwick_cel::operations::equals;
use bailiwick_cel::{Duration, Key, Map, OwnedMap, Timestamp, Type, Value};

use crate::textproto::{Field, Message};

/// The CEL value a `cel.expr.Value` describes, or `None` if it needs protobuf messages.
pub fn value(message: &Message) -> Option<Value<'static>> {
    let (kind, field) = message.fields.first()?;
    Some(match (kind.as_str(), field) {
        ("null_value", _) => Value::Null,
        ("bool_value", Field::Word(word)) => Value::Bool(word == "true"),
        ("int64_value", Field::Word(word)) => Value::Int(integer(word)?),
        ("uint64_value", Field::Word(word)) => Value::Uint(word.parse().ok()?),
        ("double_value", Field::Word(word)) => Value::Double(double(word)?),
        ("string_value", Field::Text(bytes)) => Value::string(String::from_utf8_lossy(bytes).into_owned()),
        ("bytes_value", Field::Text(bytes)) => Value::bytes(bytes.clone()),
        ("list_value", Field::Message(list)) => {
            let items = list.all("values").map(|item| value(item.as_message()?)).collect::<Option<Vec<_>>>()?;
            Value::list(items)
        }
        ("map_value", Field::Message(map)) => {
            let mut entries = OwnedMap::default();
            for entry in map.all("entries") {
                let entry = entry.as_message()?;
                let key = Key::from_value(&value(entry.message("key")?)?)?;
                entries.insert(key, value(entry.message("value")?)?);
            }
            Value::Map(Map::owned(entries))
        }
        ("type_value", Field::Text(bytes)) => type_value(&String::from_utf8_lossy(bytes))?,
        ("object_value", Field::Message(any)) => object(any)?,
        _ => return None,
    })
}

fn integer(word: &str) -> Option<i64> {
    match word.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).ok(),
        None => word.parse().ok(),
    }
}

fn double(word: &str) -> Option<f64> {
    match word {
        "inf" | "infinity" => Some(f64::INFINITY),
        "-inf" | "-infinity" => Some(f64::NEG_INFINITY),
        "nan" => Some(f64::NAN),
        other => other.parse().ok(),
    }
}

fn type_value(name: &str) -> Option<Value<'static>> {
    let ty = match name {
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "int" => Type::Int,
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "null_type" => Type::Null,
        "string" => Type::String,
        "type" => Type::Type(None),
        "uint" => Type::Uint,
        "google.protobuf.Timestamp" => Type::Timestamp,
        "google.protobuf.Duration" => Type::Duration,
        "optional_type" => Type::optional(Type::Dyn),
        _ => return None,
    };
    Some(Value::Type(std::sync::Arc::new(ty)))
}

fn object(any: &Message) -> Option<Value<'static>> {
    let (url, field) = any.fields.first()?;
    let inner = field.as_message()?;
    let number = |name: &str| inner.word(name).and_then(integer).unwrap_or(0);
    match url.as_str() {
        "type.googleapis.com/google.protobuf.Duration" => {
            let nanos = number("seconds").checked_mul(1_000_000_000)?.checked_add(number("nanos"))?;
            Some(Value::Duration(Duration { nanos }))
        }
        "type.googleapis.com/google.protobuf.Timestamp" => {
            Timestamp::new(number("seconds"), u32::try_from(number("nanos")).ok()?).map(Value::Timestamp)
        }
        _ => None,
    }
}

/// Whether a result is the expected value; numbers must also be of the same type, and NaN equals itself here.
pub fn same(found: &Value<'_>, expected: &Value<'_>) -> bool {
    match (found, expected) {
        (Value::Double(a), Value::Double(b)) if a.is_nan() && b.is_nan() => true,
        (Value::List(a), Value::List(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| matches!((a, b), (Ok(a), Ok(b)) if same(&a, &b)))
        }
        _ => found.type_name() == expected.type_name() && equals(found, expected) == Ok(true),
    }
}

/// The type a `cel.expr.Type` describes, or `None` if it needs protobuf messages.
pub fn type_of(message: &Message) -> Option<Type> {
    let (kind, field) = message.fields.first()?;
    Some(match (kind.as_str(), field) {
        ("dyn", _) => Type::Dyn,
        ("null", _) => Type::Null,
        ("primitive", Field::Word(word)) => match word.as_str() {
            "BOOL" => Type::Bool,
            "INT64" => Type::Int,
            "UINT64" => Type::Uint,
            "DOUBLE" => Type::Double,
            "STRING" => Type::String,
            "BYTES" => Type::Bytes,
            _ => return None,
        },
        ("well_known", Field::Word(word)) => match word.as_str() {
            "TIMESTAMP" => Type::Timestamp,
            "DURATION" => Type::Duration,
            "ANY" => Type::Dyn,
            _ => return None,
        },
        ("wrapper", Field::Word(word)) => Type::Wrapper(match word.as_str() {
            "BOOL" => bailiwick_cel::Primitive::Bool,
            "INT64" => bailiwick_cel::Primitive::Int,
            "UINT64" => bailiwick_cel::Primitive::Uint,
            "DOUBLE" => bailiwick_cel::Primitive::Double,
            "STRING" => bailiwick_cel::Primitive::String,
            "BYTES" => bailiwick_cel::Primitive::Bytes,
            _ => return None,
        }),
        ("list_type", Field::Message(list)) => Type::list(match list.message("elem_type") {
            Some(element) => type_of(element)?,
            None => Type::Dyn,
        }),
        ("map_type", Field::Message(map)) => {
            Type::map(type_of(map.message("key_type")?)?, type_of(map.message("value_type")?)?)
        }
        ("type", Field::Message(inner)) => match type_of(inner) {
            Some(inner) => Type::type_of(inner),
            None => return None,
        },
        ("abstract_type", Field::Message(inner)) if inner.text("name").as_deref() == Some("optional_type") => {
            Type::optional(type_of(inner.message("parameter_types")?)?)
        }
        _ => return None,
    })
}
