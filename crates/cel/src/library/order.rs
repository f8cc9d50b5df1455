//! Order and equality of values for the functions of lists and sets. Numbers of all types share one order.

use std::cmp::Ordering;

use crate::error::EvalError;
use crate::value::Value;

/// How two values compare; an error for types without an order and for NaN.
pub(crate) fn order(a: &Value<'_>, b: &Value<'_>) -> Result<Ordering, EvalError> {
    let wide = |number: i128, float: f64| {
        // Every 64-bit integer lies strictly inside of these bounds, within which the cast is exact.
        if float >= 2f64.powi(64) {
            Ordering::Less
        } else if float < -(2f64.powi(63)) {
            Ordering::Greater
        } else {
            number.cmp(&(float.floor() as i128)).then(if float.fract() == 0.0 {
                Ordering::Equal
            } else {
                Ordering::Less
            })
        }
    };
    let nan = |float: &f64| float.is_nan();
    Ok(match (a, b) {
        (Value::Double(a), _) if nan(a) => return Err(EvalError::new("NaN values cannot be ordered")),
        (_, Value::Double(b)) if nan(b) => return Err(EvalError::new("NaN values cannot be ordered")),
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Uint(a), Value::Uint(b)) => a.cmp(b),
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b).unwrap_or(Ordering::Equal),
        (Value::Int(a), Value::Uint(b)) => i128::from(*a).cmp(&i128::from(*b)),
        (Value::Uint(a), Value::Int(b)) => i128::from(*a).cmp(&i128::from(*b)),
        (Value::Int(a), Value::Double(b)) => wide(i128::from(*a), *b),
        (Value::Uint(a), Value::Double(b)) => wide(i128::from(*a), *b),
        (Value::Double(a), Value::Int(b)) => wide(i128::from(*b), *a).reverse(),
        (Value::Double(a), Value::Uint(b)) => wide(i128::from(*b), *a).reverse(),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::String(a), Value::String(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
        (Value::Timestamp(a), Value::Timestamp(b)) => a.cmp(b),
        (Value::Duration(a), Value::Duration(b)) => a.cmp(b),
        _ => return Err(EvalError::no_such_overload()),
    })
}

/// `a == b` as the language has it; data that contradicts its declared type is equal to nothing.
pub(crate) fn equal(a: &Value<'_>, b: &Value<'_>) -> bool {
    match (a, b) {
        (Value::Null, Value::Null) => true,
        (Value::Type(a), Value::Type(b)) => a == b,
        (Value::Opaque(a), Value::Opaque(b)) => a.equals(&**b),
        (Value::Preserved(a), Value::Preserved(b)) => a == b,
        (Value::Optional(a), Value::Optional(b)) => match (a, b) {
            (Some(a), Some(b)) => equal(a, b),
            (None, None) => true,
            _ => false,
        },
        (Value::List(a), Value::List(b)) => {
            let same = |(a, b)| matches!((a, b), (Ok(a), Ok(b)) if equal(&a, &b));
            a.len() == b.len() && a.iter().zip(b.iter()).all(same)
        }
        (Value::Map(a), Value::Map(b)) => {
            a.len() == b.len()
                && a.keys()
                    .iter()
                    .all(|key| matches!((a.get(key), b.get(key)), (Ok(Some(a)), Ok(Some(b))) if equal(&a, &b)))
        }
        _ => order(a, b) == Ok(Ordering::Equal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_all_types_share_one_order() {
        let ascending = [
            Value::Double(f64::NEG_INFINITY),
            Value::Int(i64::MIN),
            Value::Double(-1.5),
            Value::Int(-1),
            Value::Uint(0),
            Value::Double(0.5),
            Value::Int(1),
            Value::Int(i64::MAX),
            Value::Double(9_223_372_036_854_775_808.0),
            Value::Uint(u64::MAX),
            Value::Double(2f64.powi(64)),
        ];
        for (at, a) in ascending.iter().enumerate() {
            for (other, b) in ascending.iter().enumerate() {
                assert_eq!(order(a, b), Ok(at.cmp(&other)), "{a:?} {b:?}");
            }
        }
        assert!(order(&Value::Double(f64::NAN), &Value::Int(1)).is_err());
        assert!(order(&Value::Bool(true), &Value::Int(1)).is_err());
    }
}
