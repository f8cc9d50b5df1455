//! The YAML text of a value inside a protobuf document, laid out as upstream's writer does.

use std::fmt::Write;

use serde_json::{Number, Value};

/// How much deeper the values of a mapping stand, and the multiple they stand at.
const INDENT: usize = 4;

/// A value as block YAML with a final newline.
pub(super) fn text(value: &Value) -> String {
    let mut out = String::new();
    node(&mut out, value, 0, deeper(0));
    out
}

fn deeper(indent: usize) -> usize {
    (indent + INDENT) / INDENT * INDENT
}

/// Writes a value that begins where the line is now; following lines are indented by `indent`, those of a text by
/// `text_indent`.
fn node(out: &mut String, value: &Value, indent: usize, text_indent: usize) {
    match value {
        Value::Array(items) if !items.is_empty() => {
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    pad(out, indent);
                }
                out.push_str("- ");
                node(out, item, indent + 2, indent + 2);
            }
        }
        Value::Object(entries) if !entries.is_empty() => {
            for (at, (key, value)) in entries.iter().enumerate() {
                if at > 0 {
                    pad(out, indent);
                }
                scalar(out, key);
                out.push(':');
                if is_filled(value) {
                    out.push('\n');
                    pad(out, deeper(indent));
                } else {
                    out.push(' ');
                }
                node(out, value, deeper(indent), deeper(indent));
            }
        }
        Value::String(text) if text.contains('\n') && can_stand_as_lines(text) => lines(out, text, text_indent),
        Value::String(text) => {
            scalar(out, text);
            out.push('\n');
        }
        Value::Number(value) => {
            number(out, value);
            out.push('\n');
        }
        other => {
            let _ = writeln!(out, "{other}");
        }
    }
}

fn is_filled(value: &Value) -> bool {
    match value {
        Value::Array(items) => !items.is_empty(),
        Value::Object(entries) => !entries.is_empty(),
        _ => false,
    }
}

fn pad(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}

/// A text of several lines, each on its own.
fn lines(out: &mut String, text: &str, indent: usize) {
    out.push('|');
    if text.starts_with([' ', '\n']) {
        let _ = write!(out, "{INDENT}");
    }
    match text.strip_suffix('\n') {
        None => out.push('-'),
        Some(rest) if rest.is_empty() || rest.ends_with('\n') => out.push('+'),
        Some(_) => {}
    }
    out.push('\n');
    for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
        if !line.is_empty() {
            pad(out, indent);
        }
        out.push_str(line);
        out.push('\n');
    }
}

fn can_stand_as_lines(text: &str) -> bool {
    !text.contains(" \n") && !text.ends_with(' ') && !text.chars().any(|letter| letter != '\n' && is_special(letter))
}

/// A text on one line: plain where it can be read back as it is, in single quotes where they can hold it. Text that would
/// be read as something else is in double quotes.
fn scalar(out: &mut String, text: &str) {
    if is_read_otherwise(text) || text.chars().any(is_special) {
        double_quoted(out, text);
    } else if can_be_plain(text) {
        out.push_str(text);
    } else {
        let _ = write!(out, "'{}'", text.replace('\'', "''"));
    }
}

/// Characters the writer only writes escaped.
fn is_special(letter: char) -> bool {
    letter.is_control() || letter == '\u{FEFF}' || letter > '\u{FFFF}'
}

fn double_quoted(out: &mut String, text: &str) {
    out.push('"');
    for letter in text.chars() {
        let _ = match letter {
            '"' | '\\' => write!(out, "\\{letter}"),
            '\0' => write!(out, "\\0"),
            '\u{7}' => write!(out, "\\a"),
            '\u{8}' => write!(out, "\\b"),
            '\t' => write!(out, "\\t"),
            '\n' => write!(out, "\\n"),
            '\u{b}' => write!(out, "\\v"),
            '\u{c}' => write!(out, "\\f"),
            '\r' => write!(out, "\\r"),
            '\u{1b}' => write!(out, "\\e"),
            '\u{85}' => write!(out, "\\N"),
            special if is_special(special) => match special as u32 {
                code @ 0..=0xFF => write!(out, "\\x{code:02X}"),
                code @ 0x100..=0xFFFF => write!(out, "\\u{code:04X}"),
                code => write!(out, "\\U{code:08X}"),
            },
            plain => write!(out, "{plain}"),
        };
    }
    out.push('"');
}

fn can_be_plain(text: &str) -> bool {
    let bytes = text.as_bytes();
    let blank_after = |at: usize| bytes.get(at + 1).is_none_or(|next| *next == b' ');
    let indicator = match bytes.first() {
        None => true,
        Some(b'-' | b'?' | b':') => blank_after(0),
        Some(first) => b"#,[]{}&*!|>'\"%@` ".contains(first),
    };
    let inside = bytes.iter().enumerate().any(|(at, byte)| match byte {
        b':' => blank_after(at),
        b'#' => at > 0 && bytes.get(at - 1) == Some(&b' '),
        _ => false,
    });
    !indicator && !inside && !text.ends_with(' ') && !text.starts_with("---") && !text.starts_with("...")
}

/// Whether YAML's core schema sees a null, boolean, number or time in a text.
fn is_read_otherwise(text: &str) -> bool {
    match text {
        "" | "~" | "null" | "Null" | "NULL" | "true" | "True" | "TRUE" | "false" | "False" | "FALSE" => true,
        _ => is_number(text) || is_date(text),
    }
}

fn is_number(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    let plain = unsigned.replace('_', "");
    let based = |prefix: &str, radix: u32| {
        plain.strip_prefix(prefix).is_some_and(|digits| u64::from_str_radix(digits, radix).is_ok())
    };
    if !unsigned.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
        return false;
    }
    let all = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.strip_prefix(['+', '-']).unwrap_or(exponent)),
        None => (unsigned, "0"),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    let is_float = all(whole) && all(fraction) && !(whole.is_empty() && fraction.is_empty());
    based("0x", 16)
        || based("0X", 16)
        || based("0o", 8)
        || based("0b", 2)
        || (!plain.is_empty() && all(&plain))
        || (is_float && !exponent.is_empty() && all(exponent))
}

/// Dates and times begin with a year, month and day.
fn is_date(text: &str) -> bool {
    let date = text.split(['T', 't', ' ']).next().unwrap_or_default();
    let mut parts = date.split('-');
    let mut number = |widths: std::ops::RangeInclusive<usize>| {
        parts.next().is_some_and(|part| widths.contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    number(4..=4) && number(1..=2) && number(1..=2) && parts.next().is_none()
}

/// Numbers as Go writes them: an exponent has a sign and two digits.
fn number(out: &mut String, number: &Number) {
    let text = number.to_string();
    match text.split_once('e') {
        None => out.push_str(&text),
        Some((mantissa, exponent)) => {
            let (sign, digits) = match exponent.strip_prefix('-') {
                Some(digits) => ('-', digits),
                None => ('+', exponent.trim_start_matches('+')),
            };
            let _ = write!(out, "{mantissa}e{sign}{digits:0>2}");
        }
    }
}
