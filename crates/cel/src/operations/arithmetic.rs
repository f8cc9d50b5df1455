//! Arithmetic, with every overflow an error, and concatenation.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::equality::{map_key, scalar_key};
use crate::decl::{DeclKind, DeclType, ListSemantics};
use crate::error::EvalError;
use crate::value::{Duration, List, Value};

fn int_overflow() -> EvalError {
    EvalError::new("integer overflow")
}

fn uint_overflow() -> EvalError {
    EvalError::new("unsigned integer overflow")
}

fn duration(nanos: Option<i64>) -> Result<Value<'static>, EvalError> {
    nanos.map(|nanos| Value::Duration(Duration { nanos })).ok_or_else(|| EvalError::new("duration overflow"))
}

fn timestamp_overflow() -> EvalError {
    EvalError::new("timestamp overflow")
}

/// `a + b`
pub fn add<'a>(a: &Value<'a>, b: &Value<'a>) -> Result<Value<'a>, EvalError> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => a.checked_add(*b).map(Value::Int).ok_or_else(int_overflow),
        (Value::Uint(a), Value::Uint(b)) => a.checked_add(*b).map(Value::Uint).ok_or_else(uint_overflow),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a + b)),
        (Value::String(a), Value::String(b)) => {
            let mut text = String::with_capacity(a.len() + b.len());
            text.push_str(a);
            text.push_str(b);
            Ok(Value::string(text))
        }
        (Value::Bytes(a), Value::Bytes(b)) => Ok(Value::bytes([&**a, &**b].concat())),
        (Value::List(a), Value::List(b)) => concatenate(a, b).map(Value::List),
        (Value::Duration(a), Value::Duration(b)) => duration(a.nanos.checked_add(b.nanos)),
        (Value::Timestamp(at), Value::Duration(span)) | (Value::Duration(span), Value::Timestamp(at)) => {
            at.checked_add(*span).map(Value::Timestamp).ok_or_else(timestamp_overflow)
        }
        _ => Err(EvalError::no_such_overload()),
    }
}

/// `a - b`
pub fn subtract<'a>(a: &Value<'a>, b: &Value<'a>) -> Result<Value<'a>, EvalError> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => a.checked_sub(*b).map(Value::Int).ok_or_else(int_overflow),
        (Value::Uint(a), Value::Uint(b)) => a.checked_sub(*b).map(Value::Uint).ok_or_else(uint_overflow),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a - b)),
        (Value::Duration(a), Value::Duration(b)) => duration(a.nanos.checked_sub(b.nanos)),
        (Value::Timestamp(a), Value::Timestamp(b)) => {
            a.checked_since(*b).map(Value::Duration).ok_or_else(timestamp_overflow)
        }
        (Value::Timestamp(at), Value::Duration(span)) => span
            .nanos
            .checked_neg()
            .and_then(|nanos| at.checked_add(Duration { nanos }))
            .map(Value::Timestamp)
            .ok_or_else(timestamp_overflow),
        _ => Err(EvalError::no_such_overload()),
    }
}

/// `a * b`
pub fn multiply<'a>(a: &Value<'a>, b: &Value<'a>) -> Result<Value<'a>, EvalError> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => a.checked_mul(*b).map(Value::Int).ok_or_else(int_overflow),
        (Value::Uint(a), Value::Uint(b)) => a.checked_mul(*b).map(Value::Uint).ok_or_else(uint_overflow),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a * b)),
        _ => Err(EvalError::no_such_overload()),
    }
}

/// `a / b`
pub fn divide<'a>(a: &Value<'a>, b: &Value<'a>) -> Result<Value<'a>, EvalError> {
    match (a, b) {
        (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => Err(EvalError::new("division by zero")),
        (Value::Int(a), Value::Int(b)) => a.checked_div(*b).map(Value::Int).ok_or_else(int_overflow),
        (Value::Uint(a), Value::Uint(b)) => a.checked_div(*b).map(Value::Uint).ok_or_else(uint_overflow),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a / b)),
        _ => Err(EvalError::no_such_overload()),
    }
}

/// `a % b`
pub fn modulo<'a>(a: &Value<'a>, b: &Value<'a>) -> Result<Value<'a>, EvalError> {
    match (a, b) {
        (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => Err(EvalError::new("modulus by zero")),
        (Value::Int(a), Value::Int(b)) => a.checked_rem(*b).map(Value::Int).ok_or_else(int_overflow),
        (Value::Uint(a), Value::Uint(b)) => a.checked_rem(*b).map(Value::Uint).ok_or_else(uint_overflow),
        _ => Err(EvalError::no_such_overload()),
    }
}

/// `-a`
pub fn negate<'a>(a: &Value<'a>) -> Result<Value<'a>, EvalError> {
    match a {
        Value::Int(number) => number.checked_neg().map(Value::Int).ok_or_else(int_overflow),
        Value::Double(number) => Ok(Value::Double(-number)),
        Value::Duration(span) => duration(span.nanos.checked_neg()),
        _ => Err(EvalError::no_such_overload()),
    }
}

/// Lists one after the other; sets and keyed lists of Kubernetes are merged.
fn concatenate<'a>(a: &List<'a>, b: &List<'a>) -> Result<List<'a>, EvalError> {
    let decl: Option<&'a DeclType> = a.decl();
    let mut items = Vec::with_capacity(a.len() + b.len());
    for item in a.iter() {
        items.push(item?);
    }
    match decl.map(|decl| &decl.kind) {
        Some(DeclKind::List { semantics: ListSemantics::Set, .. }) => {
            let mut known: HashSet<String> = items.iter().map(scalar_key).collect();
            for item in b.iter() {
                let item = item?;
                if known.insert(scalar_key(&item)) {
                    items.push(item);
                }
            }
        }
        Some(DeclKind::List { semantics: ListSemantics::Map(keys), .. }) => {
            let positions: HashMap<String, usize> =
                items.iter().enumerate().map(|(at, item)| (map_key(item, keys), at)).collect();
            for item in b.iter() {
                let item = item?;
                match positions.get(&map_key(&item, keys)).and_then(|at| items.get_mut(*at)) {
                    Some(known) => *known = item,
                    None => items.push(item),
                }
            }
        }
        _ => {
            for item in b.iter() {
                items.push(item?);
            }
        }
    }
    Ok(List::Owned { items: Arc::new(items), decl })
}
