//! Floats as Go prints them. In messages (`%v`) they have the shortest digits, with an exponent from 1e+06 on and below
//! 1e-4; in JSON those without a fraction read like integers.

use std::borrow::Cow;

use serde_json::Value;

/// The text of a float in a message.
pub(crate) fn go_float(value: f64) -> String {
    let scientific = format!("{value:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return format!("{value}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// The JSON text of a value as Go marshals it.
pub(crate) fn go_json(value: &Value) -> String {
    go_numbers(value).to_string()
}

/// Makes integers of floats that have no fraction, as they become by being read and written by Go.
pub fn whole_floats(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Cow::Owned(whole) = go_numbers(value) {
                *value = whole;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_floats),
        Value::Object(map) => map.values_mut().for_each(whole_floats),
        _ => {}
    }
}

/// The value with floats that Go prints like integers made integers.
fn go_numbers(value: &Value) -> Cow<'_, Value> {
    /// Below this every integral float is exact.
    const EXACT: f64 = 1e15;
    match value {
        Value::Number(number) if number.is_f64() => match number.as_f64() {
            Some(float) if float.fract() == 0.0 && float.abs() < EXACT => Cow::Owned((float as i64).into()),
            _ => Cow::Borrowed(value),
        },
        Value::Array(items) => Cow::Owned(items.iter().map(|item| go_numbers(item).into_owned()).collect()),
        Value::Object(map) => {
            Cow::Owned(map.iter().map(|(key, value)| (key.clone(), go_numbers(value).into_owned())).collect())
        }
        _ => Cow::Borrowed(value),
    }
}

#[cfg(test)]
mod tests {
    use super::go_float;

    #[test]
    fn floats_read_like_go_s() {
        for (value, text) in [
            (1.5, "1.5"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (100_000.0, "100000"),
            (1e6, "1e+06"),
            (123_456_789.5, "1.234567895e+08"),
            (-2.5e-7, "-2.5e-07"),
            (3.0, "3"),
        ] {
            assert_eq!(go_float(value), text);
        }
    }
}
