//! Tells what is wrong with bytes that should be a JSON object, in the words of Go's decoder, which clients see.

/// How deep values may nest; Go's own limit.
const MAX_DEPTH: usize = 10_000;

const END: &str = "unexpected end of JSON input";

/// Checks that `bytes` are one JSON object (or null, which Go takes for an empty one).
pub(super) fn check_object(bytes: &[u8]) -> Result<(), String> {
    let mut scanner = Scanner { bytes, at: 0 };
    scanner.skip_space();
    let kind = match scanner.bytes.get(scanner.at) {
        Some(b'{' | b'n') => None,
        Some(b'[') => Some("array"),
        Some(b'"') => Some("string"),
        Some(b't' | b'f') => Some("bool"),
        _ => Some("number"),
    };
    scanner.document()?;
    match kind {
        None => Ok(()),
        Some(kind) => Err(format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}")),
    }
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// An open list or object and what may come next in it.
#[derive(Clone, Copy)]
enum Open {
    List,
    Object,
}

impl Scanner<'_> {
    /// Scans without recursion: depth is the client's choice.
    fn document(&mut self) -> Result<(), String> {
        let mut open: Vec<Open> = Vec::new();
        loop {
            // A value starts here.
            let mut ended = true;
            match self.next_token()? {
                b'{' => {
                    if self.next_is(b'}')? {
                        self.at += 1;
                    } else {
                        self.key()?;
                        open.push(Open::Object);
                        ended = false;
                    }
                }
                b'[' => {
                    if self.next_is(b']')? {
                        self.at += 1;
                    } else {
                        open.push(Open::List);
                        ended = false;
                    }
                }
                b'"' => self.string()?,
                b't' => self.literal("true")?,
                b'f' => self.literal("false")?,
                b'n' => self.literal("null")?,
                first @ (b'-' | b'0'..=b'9') => self.number(first)?,
                other => return Err(invalid(other, "looking for beginning of value")),
            }
            if open.len() > MAX_DEPTH {
                return Err("exceeded max depth".to_owned());
            }
            // After a value: close what ends with it, or go on to the next one.
            while ended {
                let Some(&inside) = open.last() else { return self.end() };
                match (inside, self.next_token()?) {
                    (Open::List, b',') => ended = false,
                    (Open::Object, b',') => {
                        self.key()?;
                        ended = false;
                    }
                    (Open::List, b']') | (Open::Object, b'}') => {
                        open.pop();
                    }
                    (Open::List, other) => return Err(invalid(other, "after array element")),
                    (Open::Object, other) => return Err(invalid(other, "after object key:value pair")),
                }
            }
        }
    }

    fn end(&mut self) -> Result<(), String> {
        self.skip_space();
        match self.bytes.get(self.at) {
            None => Ok(()),
            Some(byte) => Err(invalid(*byte, "after top-level value")),
        }
    }

    fn key(&mut self) -> Result<(), String> {
        match self.next_token()? {
            b'"' => self.string()?,
            other => return Err(invalid(other, "looking for beginning of object key string")),
        }
        match self.next_token()? {
            b':' => Ok(()),
            other => Err(invalid(other, "after object key")),
        }
    }

    fn string(&mut self) -> Result<(), String> {
        loop {
            match self.next_byte().ok_or(END)? {
                b'"' => return Ok(()),
                b'\\' => match self.next_byte().ok_or(END)? {
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {}
                    b'u' => {
                        for _ in 0..4 {
                            let digit = self.next_byte().unwrap_or(b' ');
                            if !digit.is_ascii_hexdigit() {
                                return Err(invalid(digit, "in \\u hexadecimal character escape"));
                            }
                        }
                    }
                    other => return Err(invalid(other, "in string escape code")),
                },
                control @ 0..0x20 => return Err(invalid(control, "in string literal")),
                _ => {}
            }
        }
    }

    fn literal(&mut self, word: &str) -> Result<(), String> {
        for expected in word.bytes().skip(1) {
            // At the end Go pretends to see a space.
            let byte = self.next_byte().unwrap_or(b' ');
            if byte != expected {
                return Err(invalid(byte, &format!("in literal {word} (expecting {})", quoted(expected))));
            }
        }
        Ok(())
    }

    fn number(&mut self, first: u8) -> Result<(), String> {
        let first = if first == b'-' { self.next_byte().unwrap_or(b' ') } else { first };
        match first {
            b'0' => {}
            b'1'..=b'9' => self.skip_digits(),
            other => return Err(invalid(other, "in numeric literal")),
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if matches!(self.bytes.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.bytes.get(self.at), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        Ok(())
    }

    fn digits(&mut self, place: &str) -> Result<(), String> {
        match self.next_byte().unwrap_or(b' ') {
            b'0'..=b'9' => {
                self.skip_digits();
                Ok(())
            }
            other => Err(invalid(other, place)),
        }
    }

    fn skip_digits(&mut self) {
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
    }

    fn skip_space(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn next_byte(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.at).copied();
        self.at += usize::from(byte.is_some());
        byte
    }

    fn next_token(&mut self) -> Result<u8, String> {
        self.skip_space();
        self.next_byte().ok_or_else(|| END.to_owned())
    }

    /// Whether the next token is `byte`, which is left where it is.
    fn next_is(&mut self, byte: u8) -> Result<bool, String> {
        self.skip_space();
        self.bytes.get(self.at).map(|next| *next == byte).ok_or_else(|| END.to_owned())
    }
}

fn invalid(byte: u8, place: &str) -> String {
    format!("invalid character {} {place}", quoted(byte))
}

/// A byte as Go quotes it in these messages: as the character of that number.
fn quoted(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        b'\\' => r"'\\'".to_owned(),
        7 => r"'\a'".to_owned(),
        8 => r"'\b'".to_owned(),
        12 => r"'\f'".to_owned(),
        b'\n' => r"'\n'".to_owned(),
        b'\r' => r"'\r'".to_owned(),
        b'\t' => r"'\t'".to_owned(),
        11 => r"'\v'".to_owned(),
        0..0x20 | 0x7f => format!(r"'\x{byte:02x}'"),
        0x80..=0xa0 | 0xad => format!(r"'\u{byte:04x}'"),
        _ => format!("'{}'", char::from(byte)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(input: &str, expected: &str) {
        let found = check_object(input.as_bytes()).err().unwrap_or_default();
        assert_eq!(found, expected, "{input}");
    }

    #[test]
    fn errors_are_worded_as_go_words_them() {
        check(r#" {"a": [1, -2.5e+3, true, false, null, "x\u00e9\n"], "b": {}} "#, "");
        check("null", "");
        check("", END);
        check(r#"{""#, END);
        check(r#"{"a":[{}"#, END);
        check("[]", "json: cannot unmarshal array into Go value of type map[string]interface {}");
        check("-1", "json: cannot unmarshal number into Go value of type map[string]interface {}");
        check(r#"{"a":1} x"#, "invalid character 'x' after top-level value");
        check("x", "invalid character 'x' looking for beginning of value");
        check("{1}", "invalid character '1' looking for beginning of object key string");
        check(r#"{"a" 1}"#, "invalid character '1' after object key");
        check(r#"{"a":1 2}"#, "invalid character '2' after object key:value pair");
        check(r#"{"a":1,}"#, "invalid character '}' looking for beginning of object key string");
        check("[1 2]", "invalid character '2' after array element");
        check("tru", "invalid character ' ' in literal true (expecting 'e')");
        check("nuke", "invalid character 'k' in literal null (expecting 'l')");
        check("-x", "invalid character 'x' in numeric literal");
        check("1.x", "invalid character 'x' after decimal point in numeric literal");
        check("1e", "invalid character ' ' in exponent of numeric literal");
        check("{\"a\n\":1}", r"invalid character '\n' in string literal");
        check(r#"{"\x":1}"#, "invalid character 'x' in string escape code");
        check(r#"{"\u00g0":1}"#, r"invalid character 'g' in \u hexadecimal character escape");
    }

    proptest! {
        #[test]
        fn accepts_exactly_what_a_json_parser_accepts(text in r#"[\[\]{}:," 0-9a-eE.truflsn\-]{0,12}"#) {
            let parsed = serde_json::from_str::<serde_json::Value>(&text);
            let expected = parsed.is_ok_and(|value| value.is_object() || value.is_null());
            prop_assert_eq!(check_object(text.as_bytes()).is_ok(), expected);
        }

        #[test]
        fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = check_object(&bytes);
        }
    }
}
