//! Numbers as Go writes them: `1.0` is `1`, and limits are floating point whatever they were written as.

use serde_json::{Number, Value};

/// From here on Go writes powers of ten.
const EXPONENT_FROM: f64 = 1e21;

/// A limit (`maximum`, `multipleOf`), which Go keeps as a float.
pub(super) fn float(value: &mut Value) {
    if let Some(number) = value.as_f64() {
        *value = whole(number).unwrap_or_else(|| number.into());
    }
}

/// Numbers inside any value (`default`, `enum`, `example`): floats without a fraction lose their point.
pub(super) fn tidy(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Some(whole) = number.as_f64().and_then(whole) {
                *value = whole;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        Value::Object(entries) => entries.values_mut().for_each(tidy),
        _ => {}
    }
}

/// A float that has no fraction and that Go writes in full, as an integer.
fn whole(number: f64) -> Option<Value> {
    if number.fract() != 0.0 || number.abs() >= EXPONENT_FROM {
        return None;
    }
    // The shortest digits that read back as this float, filled up with zeros: what Go writes as well.
    let digits = number.to_string();
    let integer = digits.parse::<i64>().map(Number::from).or_else(|_| digits.parse::<u64>().map(Number::from));
    integer.ok().map(Value::Number)
}
