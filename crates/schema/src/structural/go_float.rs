//! Floats in messages, as Go's `%v` prints them: the shortest digits, with an exponent from 1e+06 on and below 1e-4.

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
