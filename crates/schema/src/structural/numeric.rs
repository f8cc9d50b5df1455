//! Numbers as Go holds them, and its conversions between integers and floats.

use serde_json::{Number, Value};

/// A number as Go decodes it: an integer if it is written as one and fits 64 bits.
#[derive(Clone, Copy, Debug)]
pub(super) enum Numeric {
    Integer(i64),
    Float(f64),
}

impl Numeric {
    pub(super) fn of(number: &Number) -> Self {
        match number.as_i64() {
            Some(integer) => Self::Integer(integer),
            None => Self::Float(number.as_f64().unwrap_or_default()),
        }
    }

    pub(super) fn as_f64(self) -> f64 {
        match self {
            Self::Integer(integer) => integer as f64,
            Self::Float(float) => float,
        }
    }

    pub(super) fn to_value(self) -> Value {
        match self {
            Self::Integer(integer) => integer.into(),
            Self::Float(float) => float.into(),
        }
    }
}

/// The integer whose digits the float is written with, if it is one of 64 bits.
pub(super) fn exact_integer(float: f64) -> Option<i64> {
    (float.fract() == 0.0 && (i64::MIN as f64..-(i64::MIN as f64)).contains(&float)).then_some(float as i64)
}

/// Go's conversion of a float to an integer on amd64: truncated, and the smallest integer if it does not fit.
pub(super) fn go_integer(float: f64) -> i64 {
    exact_integer(float.trunc()).unwrap_or(i64::MIN)
}
