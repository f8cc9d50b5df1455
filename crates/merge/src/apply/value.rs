//! JSON values as field management compares them: numbers by what they are worth, so that `1` and `1.0` are the same.

use std::cmp::Ordering;

use serde_json::{Number, Value};

/// Whether two values are the same to field management.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::String(a), Value::String(b)) => a == b,
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b) == Ordering::Equal,
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|((key_a, a), (key_b, b))| key_a == key_b && same(a, b))
        }
        (a, b) => a == b,
    }
}

/// A total order over values of all kinds: numbers, strings, booleans, lists, maps, null.
pub(super) fn order(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => {
            let unequal = a.iter().zip(b).map(|(a, b)| order(a, b)).find(|order| order.is_ne());
            unequal.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (Value::Object(a), Value::Object(b)) => {
            let unequal = a.iter().zip(b).map(|(a, b)| a.0.cmp(b.0).then_with(|| order(a.1, b.1)));
            unequal.into_iter().find(|order| order.is_ne()).unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (a, b) => rank(a).cmp(&rank(b)),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

fn compare_numbers(a: &Number, b: &Number) -> Ordering {
    if let (Some(a), Some(b)) = (a.as_i64(), b.as_i64()) {
        return a.cmp(&b);
    }
    let (a, b) = (a.as_f64().unwrap_or_default(), b.as_f64().unwrap_or_default());
    a.partial_cmp(&b).unwrap_or(Ordering::Equal)
}

/// Whether a value is a string, number or boolean.
pub(super) fn is_scalar(value: &Value) -> bool {
    matches!(value, Value::String(_) | Value::Number(_) | Value::Bool(_))
}
