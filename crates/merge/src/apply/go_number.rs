//! Floating-point numbers as Go writes them: in JSON, and with `%v` in messages.

use serde_json::Number;

/// JSON: plain digits from 1e-6 up to 1e21, an exponent beyond.
pub(super) fn json(number: &Number) -> String {
    let Some(float) = number.as_f64().filter(|_| number.is_f64()) else { return number.to_string() };
    let magnitude = float.abs();
    if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) { with_exponent(float) } else { float.to_string() }
}

/// `%v`: integers in full, floats with an exponent from a million on.
pub(super) fn display(number: &Number) -> String {
    let Some(float) = number.as_f64().filter(|_| number.is_f64()) else { return number.to_string() };
    if float != 0.0 && !(MIN_PLAIN_EXPONENT..=MAX_PLAIN_EXPONENT).contains(&exponent(float)) {
        with_exponent(float)
    } else {
        float.to_string()
    }
}

/// The exponents between which Go's `%v` writes plain digits.
const MIN_PLAIN_EXPONENT: i32 = -4;
const MAX_PLAIN_EXPONENT: i32 = 5;

fn exponent(float: f64) -> i32 {
    format!("{float:e}").rsplit('e').next().and_then(|exponent| exponent.parse().ok()).unwrap_or(0)
}

/// Go writes the sign of the exponent and at least two of its digits.
fn with_exponent(float: f64) -> String {
    let text = format!("{float:e}");
    let Some((mantissa, exponent)) = text.split_once('e') else { return text };
    let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
    format!("{mantissa}e{sign}{digits:0>2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn float(value: f64) -> Number {
        Number::from_f64(value).expect("a finite number")
    }

    #[test]
    fn floats_in_messages_get_an_exponent_from_a_million_on() {
        for (value, text) in [
            (80.0, "80"),
            (999_999.0, "999999"),
            (1e6, "1e+06"),
            (1_234_567.0, "1.234567e+06"),
            (1e-5, "1e-05"),
            (1e-4, "0.0001"),
            (123_456.789, "123456.789"),
        ] {
            assert_eq!(display(&float(value)), text);
        }
        assert_eq!(display(&Number::from(1_234_567)), "1234567");
    }

    #[test]
    fn floats_in_json_get_an_exponent_from_1e21_on() {
        for (value, text) in [(80.0, "80"), (1e6, "1000000"), (1e21, "1e+21"), (1e-7, "1e-07"), (0.5, "0.5")] {
            assert_eq!(json(&float(value)), text);
        }
    }
}
