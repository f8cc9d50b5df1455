//! What an unquoted scalar means.

use base64::Engine as _;
use serde_json::{Number, Value};

/// The meaning of a plain scalar without a tag.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar {
    Null,
    Bool(bool),
    Integer(Number),
    Float(f64),
    /// Dates too: JSON has no other form for them.
    Text,
}

/// Resolves a plain scalar as YAML 1.1 with the reference's exceptions (no base-60 numbers).
pub fn resolve(text: &str) -> Scalar {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Scalar::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => return Scalar::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Scalar::Bool(false);
        }
        ".nan" | ".NaN" | ".NAN" => return Scalar::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Scalar::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Scalar::Float(f64::NEG_INFINITY),
        _ => {}
    }
    match text.as_bytes().first() {
        Some(b'0'..=b'9' | b'+' | b'-') => {
            let plain = text.replace('_', "");
            integer(&plain).map(Scalar::Integer).or_else(|| float(&plain)).unwrap_or(Scalar::Text)
        }
        Some(b'.') => float(text).unwrap_or(Scalar::Text),
        _ => Scalar::Text,
    }
}

/// The value of a scalar with a core tag; the error says why there is none.
pub fn resolve_tagged(tag: &str, text: &str) -> Result<Value, String> {
    let found = match tag {
        "str" | "timestamp" => return Ok(text.into()),
        "binary" => {
            let compact: String = text.split_whitespace().collect();
            return base64::engine::general_purpose::STANDARD
                .decode(compact)
                .ok()
                .and_then(|bytes| String::from_utf8(bytes).ok())
                .map(Value::from)
                .ok_or_else(|| "!!binary value contains invalid base64 data".to_owned());
        }
        _ => resolve(text),
    };
    match (tag, &found) {
        ("null", Scalar::Null) | ("bool", Scalar::Bool(_)) | ("int", Scalar::Integer(_)) => to_json(found, text),
        ("float", Scalar::Float(_) | Scalar::Integer(_)) => to_json(found, text),
        ("null" | "bool" | "int" | "float", _) => {
            Err(format!("cannot decode !!{} `{text}` as a !!{tag}", kind(&found)))
        }
        _ => Ok(text.into()),
    }
}

/// A resolved scalar as JSON; infinities have no form there.
pub fn to_json(scalar: Scalar, text: &str) -> Result<Value, String> {
    Ok(match scalar {
        Scalar::Null => Value::Null,
        Scalar::Bool(value) => value.into(),
        Scalar::Integer(number) => Value::Number(number),
        Scalar::Float(value) if value.is_nan() => return Err("json: unsupported value: NaN".to_owned()),
        Scalar::Float(value) if value.is_infinite() => {
            let sign = if value > 0.0 { '+' } else { '-' };
            return Err(format!("json: unsupported value: {sign}Inf"));
        }
        // Whole floats are written without a point on their way to JSON, and so become integers.
        #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and in range")]
        Scalar::Float(value) if value.fract() == 0.0 && value.abs() < 9e18 => (value as i64).into(),
        Scalar::Float(value) => value.into(),
        Scalar::Text => text.into(),
    })
}

/// Whether a text needs quotes to stay one: it would read as something else, here or in a parser that knows base-60
/// numbers and dates.
pub fn is_ambiguous(text: &str) -> bool {
    resolve(text) != Scalar::Text || text == "<<" || is_timestamp(text) || is_base_60(text)
}

fn is_base_60(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let Some((head, rest)) = unsigned.split_once(':') else { return false };
    let (groups, fraction) = rest.split_once('.').unwrap_or((rest, ""));
    head.starts_with(|c: char| c.is_ascii_digit())
        && head.bytes().all(|b| b.is_ascii_digit() || b == b'_')
        && groups.split(':').all(|group| match group.as_bytes() {
            [unit] => unit.is_ascii_digit(),
            [ten, unit] => (b'0'..=b'5').contains(ten) && unit.is_ascii_digit(),
            _ => false,
        })
        && fraction.bytes().all(|b| b.is_ascii_digit() || b == b'_')
}

/// Dates, alone or with a time: `2006-1-2`, `2006-1-2 15:4:5.9`, `2006-1-2T15:4:5Z`, `2006-1-2t15:4:5+07:00`.
fn is_timestamp(text: &str) -> bool {
    let date_end = text.find(['T', 't', ' ']).unwrap_or(text.len());
    let (date, rest) = text.split_at(date_end);
    let parts: Vec<&str> = date.split('-').collect();
    let [year, month, day] = parts.as_slice() else { return false };
    let date_is_valid = year.len() == 4
        && match (year.parse(), short_number(month), short_number(day)) {
            (Ok(year), Some(month), Some(day)) => jiff::civil::Date::new(year, month, day).is_ok(),
            _ => false,
        };
    if !date_is_valid || rest.is_empty() {
        return date_is_valid;
    }
    let (separator, time) = rest.split_at(1);
    let (time, zone) = match time.find(['Z', '+', '-']) {
        Some(at) => time.split_at(at),
        None => (time, ""),
    };
    let zone_is_valid = match zone.as_bytes() {
        [] => separator == " ",
        b"Z" => separator != " ",
        [b'+' | b'-', h1, h2, b':', m1, m2] => separator != " " && [h1, h2, m1, m2].iter().all(|b| b.is_ascii_digit()),
        _ => false,
    };
    let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let fields: Vec<Option<i8>> = clock.split(':').map(short_number).collect();
    zone_is_valid
        && !fraction.is_empty()
        && fraction.bytes().all(|b| b.is_ascii_digit())
        && matches!(fields.as_slice(), [Some(0..=23), Some(0..=59), Some(0..=59)])
}

fn short_number(text: &str) -> Option<i8> {
    (matches!(text.len(), 1 | 2) && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

/// Writes a float in the shortest form that reads back the same, with an exponent from a million on.
pub fn write_float(out: &mut String, value: f64) {
    let scientific = format!("{value:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else {
        out.push_str(&scientific);
        return;
    };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        out.push_str(&value.to_string());
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        out.push_str(&format!("{digits}e{sign}{:02}", exponent.abs()));
    }
}

fn kind(scalar: &Scalar) -> &'static str {
    match scalar {
        Scalar::Null => "null",
        Scalar::Bool(_) => "bool",
        Scalar::Integer(_) => "int",
        Scalar::Float(_) => "float",
        Scalar::Text => "str",
    }
}

fn integer(plain: &str) -> Option<Number> {
    let (sign, digits) = match plain.as_bytes().first()? {
        b'-' => ("-", plain.get(1..)?),
        b'+' => ("", plain.get(1..)?),
        _ => ("", plain),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = match lower.get(..2) {
        Some("0x") => (16, lower.get(2..)?),
        Some("0o") => (8, lower.get(2..)?),
        Some("0b") => (2, lower.get(2..)?),
        _ if lower.len() > 1 && lower.starts_with('0') => (8, lower.get(1..)?),
        _ => (10, lower.as_str()),
    };
    // Only now may no further sign follow.
    if !digits.starts_with(|c: char| c.is_ascii_hexdigit()) {
        return None;
    }
    match i64::from_str_radix(&format!("{sign}{digits}"), radix) {
        Ok(value) => Some(value.into()),
        Err(_) if sign.is_empty() => u64::from_str_radix(digits, radix).ok().map(Number::from),
        Err(_) => None,
    }
}

fn float(plain: &str) -> Option<Scalar> {
    let unsigned = plain.strip_prefix(['+', '-']).unwrap_or(plain);
    let shaped = unsigned.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'))
        && unsigned.bytes().any(|b| b.is_ascii_digit());
    shaped.then(|| plain.parse().ok()).flatten().map(Scalar::Float)
}
