//! Conversions between the primitive types.

use std::sync::Arc;

use crate::error::EvalError;
use crate::library::CallContext;
use crate::operations::{format_double, to_text};
use crate::types::Type;
use crate::value::{Duration, Timestamp, Value};

type Outcome<'a> = Result<Value<'a>, EvalError>;

fn impossible(value: &Value<'_>, target: &str) -> EvalError {
    EvalError::new(format!("type conversion error from '{}' to '{target}'", value.type_name()))
}

fn one<'v, 'a>(args: &'v [Value<'a>]) -> Result<&'v Value<'a>, EvalError> {
    args.first().ok_or_else(EvalError::no_such_overload)
}

pub(super) fn to_dyn<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    one(args).cloned()
}

/// The run-time type of a value; containers are of unspecified elements.
pub(super) fn to_type<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    Ok(Value::Type(Arc::new(match one(args)? {
        Value::Null => Type::Null,
        Value::Bool(_) => Type::Bool,
        Value::Int(_) => Type::Int,
        Value::Uint(_) => Type::Uint,
        Value::Double(_) => Type::Double,
        Value::String(_) => Type::String,
        Value::Bytes(_) => Type::Bytes,
        Value::Timestamp(_) => Type::Timestamp,
        Value::Duration(_) => Type::Duration,
        Value::List(_) => Type::list(Type::Dyn),
        Value::Map(_) => Type::map(Type::Dyn, Type::Dyn),
        Value::Type(_) => Type::Type(None),
        Value::Optional(_) => Type::optional(Type::Dyn),
        Value::Opaque(value) => value.cel_type(),
        Value::Struct(value) => Type::structure(value.name()),
        Value::Preserved(_) => Type::Dyn,
    })))
}

pub(super) fn to_bool<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    let value = one(args)?;
    match value {
        Value::Bool(flag) => Ok(Value::Bool(*flag)),
        Value::String(text) => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => Err(impossible(value, "bool")),
        },
        _ => Err(impossible(value, "bool")),
    }
}

pub(super) fn to_bytes<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    let value = one(args)?;
    match value {
        Value::Bytes(bytes) => Ok(Value::Bytes(bytes.clone())),
        Value::String(text) => Ok(Value::bytes(text.as_bytes().to_vec())),
        _ => Err(impossible(value, "bytes")),
    }
}

pub(super) fn to_double<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    let value = one(args)?;
    match value {
        Value::Double(number) => Ok(Value::Double(*number)),
        Value::Int(number) => Ok(Value::Double(*number as f64)),
        Value::Uint(number) => Ok(Value::Double(*number as f64)),
        Value::String(text) => match text.parse::<f64>() {
            Ok(number) if number.is_finite() || is_go_special(text) => Ok(Value::Double(number)),
            _ => Err(impossible(value, "double")),
        },
        _ => Err(impossible(value, "double")),
    }
}

/// Infinities and NaN must be spelled; a number that overflows is an error in Go.
fn is_go_special(text: &str) -> bool {
    let lower = text.trim_start_matches(['+', '-']).to_ascii_lowercase();
    matches!(lower.as_str(), "inf" | "infinity" | "nan")
}

pub(super) fn to_int<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    let overflow = || EvalError::new("integer overflow");
    let value = one(args)?;
    match value {
        Value::Int(number) => Ok(Value::Int(*number)),
        Value::Uint(number) => i64::try_from(*number).map(Value::Int).map_err(|_| overflow()),
        Value::Double(number) => {
            // Bounds are excluded: the doubles nearest to them are out of range.
            if number.is_nan() || *number <= -(2f64.powi(63)) || *number >= 2f64.powi(63) {
                return Err(overflow());
            }
            Ok(Value::Int(*number as i64))
        }
        Value::String(text) if !text.starts_with("+-") => {
            text.parse().map(Value::Int).map_err(|_| impossible(value, "int"))
        }
        Value::Timestamp(at) => Ok(Value::Int(at.seconds)),
        Value::Duration(span) => Ok(Value::Int(span.nanos)),
        _ => Err(impossible(value, "int")),
    }
}

pub(super) fn to_uint<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    let overflow = || EvalError::new("unsigned integer overflow");
    let value = one(args)?;
    match value {
        Value::Uint(number) => Ok(Value::Uint(*number)),
        Value::Int(number) => u64::try_from(*number).map(Value::Uint).map_err(|_| overflow()),
        Value::Double(number) => {
            if number.is_nan() || *number < 0.0 || *number >= 2f64.powi(64) {
                return Err(overflow());
            }
            Ok(Value::Uint(*number as u64))
        }
        Value::String(text) if !text.starts_with('+') => {
            text.parse().map(Value::Uint).map_err(|_| impossible(value, "uint"))
        }
        _ => Err(impossible(value, "uint")),
    }
}

pub(super) fn to_string<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    let value = one(args)?;
    match value {
        Value::String(text) => Ok(Value::String(text.clone())),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Value::string(text.to_owned())),
            Err(_) => Err(EvalError::new("invalid UTF-8 in bytes, cannot convert to string")),
        },
        Value::Double(number) => Ok(Value::string(format_double(*number))),
        Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Timestamp(_) | Value::Duration(_) => {
            Ok(Value::string(to_text(value)))
        }
        _ => Err(impossible(value, "string")),
    }
}

pub(super) fn to_duration<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    let value = one(args)?;
    match value {
        Value::Duration(span) => Ok(Value::Duration(*span)),
        Value::String(text) => {
            Duration::parse(text).map(Value::Duration).ok_or_else(|| impossible(value, "google.protobuf.Duration"))
        }
        _ => Err(impossible(value, "google.protobuf.Duration")),
    }
}

pub(super) fn to_timestamp<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Outcome<'a> {
    let overflow = || EvalError::new("timestamp overflow");
    let value = one(args)?;
    match value {
        Value::Timestamp(at) => Ok(Value::Timestamp(*at)),
        Value::Int(seconds) => Timestamp::new(*seconds, 0).map(Value::Timestamp).ok_or_else(overflow),
        Value::String(text) => {
            let at = Timestamp::parse_rfc3339(text).ok_or_else(|| impossible(value, "google.protobuf.Timestamp"))?;
            if at.is_in_range() { Ok(Value::Timestamp(at)) } else { Err(overflow()) }
        }
        _ => Err(impossible(value, "google.protobuf.Timestamp")),
    }
}
