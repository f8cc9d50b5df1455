//! Whether a value is one of those a schema enumerates. Go converts a value to the type of the allowed one before it
//! compares: numbers to each other by truncation, and integers to the character they stand for.

use std::collections::HashSet;
use std::sync::OnceLock;

use serde_json::{Number, Value};

use super::numeric::{Numeric, go_integer};

/// Longer enumerations are looked up by hash, so that a long list of values against a long enumeration stays cheap.
const SCANNED: usize = 16;

/// The index of a long enumeration, made when it is first needed.
#[derive(Debug, Default)]
pub struct Members(OnceLock<HashSet<String>>);

impl Members {
    /// Whether `value` is among `allowed`, which must be the same every time.
    pub fn contain(&self, allowed: &[Value], value: &Value) -> bool {
        if allowed.len() <= SCANNED {
            return allowed.iter().any(|allowed| converts_to(value, allowed));
        }
        let index = self.0.get_or_init(|| allowed.iter().filter(|v| !v.is_null()).map(Value::to_string).collect());
        let has = |value: Value| index.contains(&value.to_string());
        match value {
            Value::Null => false,
            Value::Number(number) => match Numeric::of(number) {
                Numeric::Integer(integer) => {
                    has(integer.into()) || has((integer as f64).into()) || has(character(integer).to_string().into())
                }
                Numeric::Float(float) => has(float.into()) || has(go_integer(float).into()),
            },
            value => index.contains(&value.to_string()),
        }
    }
}

/// Equality of schemas is that of the enumeration, which stands beside this.
impl PartialEq for Members {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

fn converts_to(value: &Value, allowed: &Value) -> bool {
    match (value, allowed) {
        (Value::Number(value), Value::Number(allowed)) => numbers_convert(value, allowed),
        (Value::Number(value), Value::String(allowed)) => match Numeric::of(value) {
            Numeric::Integer(code) => allowed.as_str() == character(code).encode_utf8(&mut [0; 4]),
            Numeric::Float(_) => false,
        },
        (Value::Null, _) => false,
        (value, allowed) => value == allowed,
    }
}

fn numbers_convert(value: &Number, allowed: &Number) -> bool {
    match (Numeric::of(value), Numeric::of(allowed)) {
        (Numeric::Integer(value), Numeric::Integer(allowed)) => value == allowed,
        (Numeric::Integer(value), Numeric::Float(allowed)) => value as f64 == allowed,
        (Numeric::Float(value), Numeric::Integer(allowed)) => go_integer(value) == allowed,
        (Numeric::Float(value), Numeric::Float(allowed)) => value == allowed,
    }
}

fn character(code: i64) -> char {
    u32::try_from(code).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn long_enumerations_hold_what_short_ones_hold() {
        let allowed = [json!("a"), json!(1), json!(2.5), json!(3.0), json!({"q": [1]}), json!(true), json!(null)];
        let mut long = allowed.to_vec();
        long.extend((100..200).map(|n| json!(format!("x{n}"))));
        for value in [
            json!("a"),
            json!("b"),
            json!(1),
            json!(1.9),
            json!(2.5),
            json!(2),
            json!(3),
            json!(97),
            json!(98),
            json!({"q": [1]}),
            json!({"q": [2]}),
            json!(true),
            json!(false),
            json!(null),
            json!("x150"),
        ] {
            let short = Members::default().contain(&allowed, &value) || value == "x150";
            assert_eq!(Members::default().contain(&long, &value), short, "{value}");
        }
    }
}
