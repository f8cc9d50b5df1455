//! From JSON values to YAML text: block style, sorted keys, lists not indented below their key.

use serde_json::Value;

use super::scalar::{Scalar, resolve};

/// Writes a value as one document.
pub fn encode(value: &Value) -> String {
    let mut out = String::new();
    write(&mut out, value, 0);
    out
}

/// Writes a value that starts on a line of its own.
fn write(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(key, _)| *key);
            for (i, (key, value)) in fields.into_iter().enumerate() {
                if i > 0 {
                    pad(out, indent);
                }
                push_key(out, key);
                match value {
                    Value::Object(inner) if !inner.is_empty() => {
                        out.push('\n');
                        pad(out, indent + 2);
                        write(out, value, indent + 2);
                    }
                    Value::Array(items) if !items.is_empty() => {
                        out.push('\n');
                        pad(out, indent);
                        write(out, value, indent);
                    }
                    _ => {
                        out.push(' ');
                        write(out, value, indent + 2);
                    }
                }
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    pad(out, indent);
                }
                out.push_str("- ");
                write(out, item, indent + 2);
            }
        }
        Value::Object(_) => out.push_str("{}\n"),
        Value::Array(_) => out.push_str("[]\n"),
        Value::String(text) => push_text(out, text, indent),
        scalar => {
            out.push_str(&scalar.to_string());
            out.push('\n');
        }
    }
}

fn pad(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}

fn push_key(out: &mut String, key: &str) {
    if is_plain(key) {
        out.push_str(key);
    } else {
        push_quoted(out, key);
    }
    out.push(':');
}

fn push_text(out: &mut String, text: &str, indent: usize) {
    if is_plain(text) {
        out.push_str(text);
        out.push('\n');
    } else if is_block(text) {
        push_block(out, text, indent);
    } else {
        push_quoted(out, text);
        out.push('\n');
    }
}

/// Whether a string reads back as itself without quotes.
fn is_plain(text: &str) -> bool {
    let first_is_fine = text.starts_with(|c: char| {
        !c.is_ascii_punctuation() || matches!(c, '_' | '/' | '(' | ')' | ';' | '$' | '^' | '+' | '.' | '\\')
    });
    first_is_fine
        && resolve(text) == Scalar::Text
        && !looks_like_a_date(text)
        && text.chars().all(|c| is_printable(c) && c != '\n')
        && !text.starts_with(' ')
        && !text.ends_with([' ', ':'])
        && !text.contains(": ")
        && !text.contains(" #")
        && text != "..."
        && text != "<<"
}

fn looks_like_a_date(text: &str) -> bool {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    digits > 0 && text.as_bytes().get(digits).is_some_and(|b| matches!(b, b'-' | b':'))
}

fn is_printable(c: char) -> bool {
    !c.is_control()
        && !matches!(c, '\u{85}' | '\u{a0}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// Whether a text of several lines can be written as a literal block.
fn is_block(text: &str) -> bool {
    text.contains('\n')
        && !text.starts_with([' ', '\n', '\t'])
        && text.chars().all(|c| is_printable(c) || c == '\n' || c == '\t')
}

fn push_block(out: &mut String, text: &str, indent: usize) {
    let body = text.strip_suffix('\n');
    out.push_str(match body {
        None => "|-",
        Some(body) if body.ends_with('\n') => "|+",
        Some(_) => "|",
    });
    for line in body.unwrap_or(text).split('\n') {
        out.push('\n');
        if !line.is_empty() {
            pad(out, indent.max(2));
            out.push_str(line);
        }
    }
    out.push('\n');
}

fn push_quoted(out: &mut String, text: &str) {
    let ambiguous = resolve(text) != Scalar::Text || looks_like_a_date(text);
    if !ambiguous && text.chars().all(|c| is_printable(c) && c != '\n') {
        out.push('\'');
        out.push_str(&text.replace('\'', "''"));
        out.push('\'');
        return;
    }
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if is_printable(c) => out.push(c),
            c if (c as u32) < 0x100 => out.push_str(&format!("\\x{:02x}", c as u32)),
            c if (c as u32) < 0x1_0000 => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push_str(&format!("\\U{:08x}", c as u32)),
        }
    }
    out.push('"');
}
