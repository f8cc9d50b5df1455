//! The YAML text of a value inside a protobuf document, laid out as upstream's writer does.

use std::fmt::Write;

use serde_json::Value;

/// A value as block YAML with a final newline.
pub(super) fn text(value: &Value) -> String {
    let mut out = String::new();
    node(&mut out, value, 0);
    out
}

/// Writes a value that begins where the line is now; following lines are indented by `indent`.
fn node(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Array(items) if !items.is_empty() => {
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    pad(out, indent);
                }
                out.push_str("- ");
                node(out, item, indent + 2);
            }
        }
        Value::Object(entries) if !entries.is_empty() => {
            for (at, (key, value)) in entries.iter().enumerate() {
                if at > 0 {
                    pad(out, indent);
                }
                scalar(out, key);
                out.push(':');
                match value {
                    Value::Object(inner) if !inner.is_empty() => nested(out, value, indent + 2),
                    Value::Array(inner) if !inner.is_empty() => nested(out, value, indent + 2),
                    _ => {
                        out.push(' ');
                        node(out, value, indent);
                    }
                }
            }
        }
        Value::String(text) => {
            scalar(out, text);
            out.push('\n');
        }
        other => {
            let _ = writeln!(out, "{other}");
        }
    }
}

fn nested(out: &mut String, value: &Value, indent: usize) {
    out.push('\n');
    pad(out, indent);
    node(out, value, indent);
}

fn pad(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}

/// Words are written plain, other text in quotes: single ones where they can hold it, as upstream prefers them.
fn scalar(out: &mut String, text: &str) {
    let words = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && !text.ends_with(' ')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | '$' | ' '));
    if words && !is_keyword(text) {
        out.push_str(text);
    } else if text.is_empty() || text.chars().any(char::is_control) {
        // Double quotes are what JSON and YAML share.
        let _ = write!(out, "{}", Value::from(text));
    } else {
        let _ = write!(out, "'{}'", text.replace('\'', "''"));
    }
}

/// Words that YAML readers take for something other than a string.
fn is_keyword(text: &str) -> bool {
    ["true", "false", "null", "yes", "no", "on", "off", "y", "n"].iter().any(|word| text.eq_ignore_ascii_case(word))
}
