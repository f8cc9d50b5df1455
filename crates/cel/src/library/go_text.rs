//! Texts as Go prints them inside messages: quoted strings and the errors of number parsing.

use std::fmt::Write as _;

/// A string in double quotes, escaped as Go's `%q` does.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        push_escaped(&mut out, c);
    }
    out.push('"');
    out
}

/// Bytes in double quotes; what is no UTF-8 is written in hexadecimal.
pub(crate) fn quoted_bytes(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() + 2);
    out.push('"');
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            push_escaped(&mut out, c);
        }
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out.push('"');
    out
}

fn push_escaped(out: &mut String, c: char) {
    let written = match c {
        '"' => "\\\"",
        '\\' => "\\\\",
        '\x07' => "\\a",
        '\x08' => "\\b",
        '\x0c' => "\\f",
        '\n' => "\\n",
        '\r' => "\\r",
        '\t' => "\\t",
        '\x0b' => "\\v",
        c if is_printable(c) => {
            out.push(c);
            return;
        }
        c => {
            let code = u32::from(c);
            let _ = match code {
                0..0x80 => write!(out, "\\x{code:02x}"),
                0x80..0x10000 => write!(out, "\\u{code:04x}"),
                _ => write!(out, "\\U{code:08x}"),
            };
            return;
        }
    };
    out.push_str(written);
}

fn is_printable(c: char) -> bool {
    // Rust escapes what does not print; a letter in front keeps it from escaping combining marks, which do print.
    c.is_ascii_graphic()
        || c == ' '
        || (!c.is_ascii() && !['a', c].iter().collect::<String>().escape_debug().any(|e| e == '\\'))
}

/// What Go's `strconv` says of a text that is no number.
pub(crate) fn number_error(function: &str, text: &str) -> String {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let why = if digits { "value out of range" } else { "invalid syntax" };
    format!("strconv.{function}: parsing {}: {why}", quoted(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_quoted_as_go_does() {
        assert_eq!(quoted("a\"b\\c\n\x01\x7fé\u{200b}\u{e0001}"), r#""a\"b\\c\n\x01\x7fé\u200b\U000e0001""#);
        assert_eq!(quoted("e\u{301}"), "\"e\u{301}\"");
        assert_eq!(quoted_bytes(b"a\xff\xc3\xa9"), r#""a\xffé""#);
    }
}
