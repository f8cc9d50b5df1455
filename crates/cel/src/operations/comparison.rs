//! Order of values. Numbers compare across types.

use std::cmp::Ordering;

use crate::error::EvalError;
use crate::value::Value;

/// One of the four relations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    Less,
    LessEquals,
    Greater,
    GreaterEquals,
}

impl Relation {
    /// Whether the relation holds for operands in this order.
    pub fn holds(self, ordering: Ordering) -> bool {
        match self {
            Self::Less => ordering.is_lt(),
            Self::LessEquals => ordering.is_le(),
            Self::Greater => ordering.is_gt(),
            Self::GreaterEquals => ordering.is_ge(),
        }
    }
}

/// The order of two values of comparable types.
pub fn compare(a: &Value<'_>, b: &Value<'_>) -> Result<Ordering, EvalError> {
    if let Some(ordering) = numbers(a, b) {
        return ordering.ok_or_else(|| EvalError::new("NaN values cannot be ordered"));
    }
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => Ok(a.cmp(b)),
        (Value::String(a), Value::String(b)) => Ok((**a).cmp(&**b)),
        (Value::Bytes(a), Value::Bytes(b)) => Ok((**a).cmp(&**b)),
        (Value::Timestamp(a), Value::Timestamp(b)) => Ok(a.cmp(b)),
        (Value::Duration(a), Value::Duration(b)) => Ok(a.cmp(b)),
        _ => Err(EvalError::no_such_overload()),
    }
}

/// The order of two numbers, `Some(None)` if one of them is not a number, `None` if they are no numbers at all.
#[allow(clippy::option_option)]
pub(super) fn numbers(a: &Value<'_>, b: &Value<'_>) -> Option<Option<Ordering>> {
    Some(match (a, b) {
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::Uint(a), Value::Uint(b)) => Some(a.cmp(b)),
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
        (Value::Int(a), Value::Uint(b)) => Some(int_uint(*a, *b)),
        (Value::Uint(a), Value::Int(b)) => Some(int_uint(*b, *a).reverse()),
        // Beyond the range of the other type the cast saturates, and the order is right all the same.
        (Value::Int(a), Value::Double(b)) => (*a as f64).partial_cmp(b),
        (Value::Double(a), Value::Int(b)) => a.partial_cmp(&(*b as f64)),
        (Value::Uint(a), Value::Double(b)) => (*a as f64).partial_cmp(b),
        (Value::Double(a), Value::Uint(b)) => a.partial_cmp(&(*b as f64)),
        _ => return None,
    })
}

fn int_uint(a: i64, b: u64) -> Ordering {
    match u64::try_from(a) {
        Ok(a) => a.cmp(&b),
        Err(_) => Ordering::Less,
    }
}
