//! JSON text as Go's encoder writes it: keys sorted, no spaces.

use serde_json::Value;

/// The two ways in which opm writes JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Objects of a catalog: numbers have been 64-bit floats, HTML is left alone.
    Catalog,
    /// Kubernetes manifests: integers are exact, `<`, `>` and `&` are escaped.
    Manifest,
}

/// A value of a catalog as compact JSON.
pub fn to_json(value: &Value) -> String {
    let mut out = String::new();
    append_json(&mut out, value, Dialect::Catalog);
    out
}

/// Appends a value as compact JSON.
pub fn append_json(out: &mut String, value: &Value, dialect: Dialect) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => match number.as_i64() {
            // Up to here a float holds every integer.
            Some(whole) if whole.unsigned_abs() < 1 << 53 || dialect == Dialect::Manifest => {
                out.push_str(&whole.to_string());
            }
            _ => append_float(out, number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => append_text(out, text, dialect),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                append_json(out, item, dialect);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            out.push('{');
            for (i, (key, value)) in fields.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                append_text(out, key, dialect);
                out.push(':');
                append_json(out, value, dialect);
            }
            out.push('}');
        }
    }
}

fn append_float(out: &mut String, value: f64) {
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
        let text = format!("{value:e}");
        match text.split_once('e') {
            Some((digits, exponent)) if !exponent.starts_with('-') => {
                out.push_str(digits);
                out.push_str("e+");
                out.push_str(exponent);
            }
            _ => out.push_str(&text),
        }
    } else {
        out.push_str(&value.to_string());
    }
}

/// A float as Go's `%v` prints it: with an exponent, of two digits at least, from a million on and below 0.0001.
pub fn printed_float(value: f64) -> String {
    let scientific = format!("{value:e}");
    match scientific.split_once('e').map(|(digits, exponent)| (digits, exponent.parse::<i32>().unwrap_or_default())) {
        Some((digits, exponent)) if !(-4..6).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
        _ => value.to_string(),
    }
}

/// Appends a text in quotes, as catalogs have it.
pub fn append_string(out: &mut String, text: &str) {
    append_text(out, text, Dialect::Catalog);
}

/// Bytes at which a text may have to be escaped: U+2028 and U+2029 begin with the last one.
const SPECIAL: [bool; 256] = {
    let mut special = [false; 256];
    let mut control = 0;
    while control < 0x20 {
        special[control] = true;
        control += 1;
    }
    special[b'"' as usize] = true;
    special[b'\\' as usize] = true;
    special[b'<' as usize] = true;
    special[b'>' as usize] = true;
    special[b'&' as usize] = true;
    special[0xe2] = true;
    special
};

/// Appends a text in quotes. Manifests are long texts with little to escape, so it is looked at by bytes.
pub fn append_text(out: &mut String, text: &str, dialect: Dialect) {
    out.reserve(text.len() + 2);
    out.push('"');
    let mut written = 0;
    for (at, byte) in text.bytes().enumerate() {
        if !SPECIAL.get(usize::from(byte)).copied().unwrap_or_default() {
            continue;
        }
        let rest = text.as_bytes().get(at..).unwrap_or_default();
        let control;
        let (escape, length) = match rest {
            [b'"', ..] => ("\\\"", 1),
            [b'\\', ..] => ("\\\\", 1),
            [0x08, ..] => ("\\b", 1),
            [0x0c, ..] => ("\\f", 1),
            [b'\n', ..] => ("\\n", 1),
            [b'\r', ..] => ("\\r", 1),
            [b'\t', ..] => ("\\t", 1),
            [0xe2, 0x80, 0xa8, ..] => ("\\u2028", 3),
            [0xe2, 0x80, 0xa9, ..] => ("\\u2029", 3),
            [b'<', ..] if dialect == Dialect::Manifest => ("\\u003c", 1),
            [b'>', ..] if dialect == Dialect::Manifest => ("\\u003e", 1),
            [b'&', ..] if dialect == Dialect::Manifest => ("\\u0026", 1),
            [0..=0x1f, ..] => {
                control = format!("\\u{byte:04x}");
                (control.as_str(), 1)
            }
            _ => continue,
        };
        out.push_str(text.get(written..at).unwrap_or_default());
        out.push_str(escape);
        written = at + length;
    }
    out.push_str(text.get(written..).unwrap_or_default());
    out.push('"');
}

/// JSON text without the spaces between its tokens, everything else as it is.
pub fn compact_json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut in_text, mut escaped) = (false, false);
    for c in text.chars() {
        if in_text {
            (in_text, escaped) = (c != '"' || escaped, c == '\\' && !escaped);
        } else if c.is_ascii_whitespace() {
            continue;
        } else {
            in_text = c == '"';
        }
        out.push(c);
    }
    out
}

/// Compact JSON with line breaks and `indent` spaces for each level.
pub fn pretty_json(compact: &str, indent: usize) -> String {
    let mut out = String::with_capacity(compact.len() * 2);
    let (mut depth, mut in_text, mut escaped) = (0usize, false, false);
    let mut chars = compact.chars().peekable();
    let newline = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', indent * depth));
    };
    while let Some(c) = chars.next() {
        if in_text {
            out.push(c);
            (in_text, escaped) = (c != '"' || escaped, c == '\\' && !escaped);
            continue;
        }
        match c {
            '"' => {
                in_text = true;
                out.push(c);
            }
            '{' | '[' => {
                out.push(c);
                if let Some(close) = chars.next_if(|next| matches!(next, '}' | ']')) {
                    out.push(close);
                } else {
                    depth += 1;
                    newline(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                newline(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                newline(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_floats() {
        for (value, text) in [
            (json!(1), "1"),
            (json!(-0.5), "-0.5"),
            (json!(9007199254740993i64), "9007199254740992"),
            (json!(18446744073709551615u64), "18446744073709552000"),
            (json!(1e21), "1e+21"),
            (json!(1e-7), "1e-7"),
            (json!(1234567.5), "1234567.5"),
        ] {
            assert_eq!(to_json(&value), text);
        }
    }

    #[test]
    fn floats_are_printed_as_go_prints_them() {
        for (value, text) in [
            (5.0, "5"),
            (-0.5, "-0.5"),
            (0.0, "0"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (999999.0, "999999"),
            (1e6, "1e+06"),
            (9007199254740992.0, "9.007199254740992e+15"),
            (1e21, "1e+21"),
            (1e-300, "1e-300"),
        ] {
            assert_eq!(printed_float(value), text);
        }
    }

    #[test]
    fn texts_keep_html_and_escape_controls() {
        assert_eq!(to_json(&json!("<a&b>\u{2028}\u{1}\n")), "\"<a&b>\\u2028\\u0001\\n\"");
    }

    #[test]
    fn indenting_leaves_empty_collections_and_texts_alone() {
        let text = r#"{"a":[],"b":{"c":"x{,\"y"},"d":[1,2]}"#;
        let expected = "{\n  \"a\": [],\n  \"b\": {\n    \"c\": \"x{,\\\"y\"\n  },\n  \"d\": [\n    1,\n    2\n  ]\n}";
        assert_eq!(pretty_json(text, 2), expected);
    }
}
