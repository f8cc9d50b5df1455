//! A JSON scanner over bytes that finds the same syntax errors as Go's and words them alike.
//!
//! It hands out tokens without copying where the input allows it. Invalid UTF-8 and lone surrogates become U+FFFD as in
//! Go, so what comes out is always valid text.

use std::borrow::Cow;

use serde_json::Value;

/// How deep lists and objects may nest. Upstream allows 10,000; ours is what every reader of stored objects can parse
/// (serde_json stops at 128), less room for the list and event objects around an object, and cannot overflow a stack.
pub const MAX_DEPTH: usize = 120;

/// How many objects one body may hold. A small object costs some hundred times its text in memory, so a body of the size
/// limit made of nothing else would take a gigabyte; real objects stay far below.
pub const MAX_OBJECTS: usize = 100_000;

/// Input that is not JSON, in Go's words, or that passes our limits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SyntaxError {
    pub message: String,
    /// The number of bytes read when the error was found.
    pub offset: usize,
}

pub(super) struct Scanner<'a> {
    data: &'a [u8],
    pos: usize,
    depth: usize,
    objects: usize,
    fields: usize,
}

/// Bytes that end the plain run of a string: quote, backslash, control and non-ASCII.
fn ends_plain_run(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\' || byte >= 0x80
}

/// The number of bytes before the first that ends a plain run, eight at a time.
fn plain_run(data: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    let mut at = 0;
    while let Some(chunk) = data.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*chunk);
        // Subtracting a limit sets the high bit of smaller bytes; a borrow can only mark bytes after a true hit.
        let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word & HIGH;
        let quote = below(word ^ (ONES * b'"' as u64), 1);
        let backslash = below(word ^ (ONES * b'\\' as u64), 1);
        let hits = below(word, 0x20) | quote | backslash | (word & HIGH);
        if hits != 0 {
            return at + hits.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = data.get(at..).unwrap_or_default();
    at + rest.iter().position(|&c| ends_plain_run(c)).unwrap_or(rest.len())
}

impl<'a> Scanner<'a> {
    pub(super) fn new(data: &'a [u8]) -> Self {
        Self { data, pos: 0, depth: 0, objects: 0, fields: 0 }
    }

    /// The first byte of the value that comes next.
    #[inline]
    pub(super) fn peek_value(&mut self) -> Result<u8, SyntaxError> {
        self.skip_space();
        match self.byte() {
            Some(c @ (b'{' | b'[' | b'"' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n')) => Ok(c),
            _ => Err(self.unexpected("looking for beginning of value")),
        }
    }

    /// Where the next token begins, to cut its text with [`Self::since`].
    pub(super) fn position(&self) -> usize {
        self.pos
    }

    pub(super) fn since(&self, start: usize) -> &'a [u8] {
        self.data.get(start..self.pos).unwrap_or_default()
    }

    /// Nothing but space may follow the value.
    pub(super) fn end(&mut self) -> Result<(), SyntaxError> {
        self.skip_space();
        if self.pos == self.data.len() { Ok(()) } else { Err(self.unexpected("after top-level value")) }
    }

    /// Enters an object or list whose opening byte is next; `closing` ends an empty one at once.
    #[inline]
    pub(super) fn open(&mut self, closing: u8) -> Result<Opened, SyntaxError> {
        self.pos += 1;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(SyntaxError { message: "exceeded max depth".to_owned(), offset: self.pos });
        }
        self.objects += usize::from(closing == b'}');
        if self.objects > MAX_OBJECTS {
            return Err(SyntaxError { message: "exceeded max number of objects".to_owned(), offset: self.pos });
        }
        self.skip_space();
        if self.byte() == Some(closing) {
            self.pos += 1;
            self.depth -= 1;
            return Ok(Opened::Empty);
        }
        Ok(Opened::Entered)
    }

    /// Reads a key and the colon after it.
    #[inline]
    pub(super) fn key(&mut self) -> Result<Cow<'a, str>, SyntaxError> {
        self.skip_space();
        if self.byte() != Some(b'"') {
            return Err(self.unexpected("looking for beginning of object key string"));
        }
        let key = self.string()?;
        self.skip_space();
        if self.byte() != Some(b':') {
            return Err(self.unexpected("after object key"));
        }
        self.pos += 1;
        self.fields += 1;
        Ok(key)
    }

    /// After a value inside an object or list: whether another one follows.
    #[inline]
    pub(super) fn next(&mut self, closing: u8) -> Result<bool, SyntaxError> {
        self.skip_space();
        match self.byte() {
            Some(b',') => {
                self.pos += 1;
                Ok(true)
            }
            Some(c) if c == closing => {
                self.pos += 1;
                self.depth -= 1;
                Ok(false)
            }
            _ if closing == b'}' => Err(self.unexpected("after object key:value pair")),
            _ => Err(self.unexpected("after array element")),
        }
    }

    /// Reads a string whose opening quote is next.
    pub(super) fn string(&mut self) -> Result<Cow<'a, str>, SyntaxError> {
        self.pos += 1;
        let start = self.pos;
        self.skip_plain_run();
        if self.byte() == Some(b'"') {
            let text = self.since(start);
            self.pos += 1;
            // A plain run is ASCII, so this check cannot fail; it is cheaper than it looks.
            if let Ok(text) = std::str::from_utf8(text) {
                return Ok(Cow::Borrowed(text));
            }
        }
        self.string_with_escapes(start)
    }

    fn string_with_escapes(&mut self, start: usize) -> Result<Cow<'a, str>, SyntaxError> {
        let mut text: Vec<u8> = self.since(start).to_vec();
        loop {
            let run = self.pos;
            self.skip_plain_run();
            text.extend_from_slice(self.since(run));
            match self.byte() {
                Some(b'"') => {
                    self.pos += 1;
                    break;
                }
                Some(b'\\') => {
                    self.pos += 1;
                    let c = self.escape()?;
                    text.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                }
                Some(c) if c >= 0x80 => {
                    text.push(c);
                    self.pos += 1;
                }
                _ => return Err(self.unexpected("in string literal")),
            }
        }
        Ok(Cow::Owned(match String::from_utf8(text) {
            Ok(text) => text,
            Err(bad) => replace_invalid_utf8(bad.as_bytes()),
        }))
    }

    /// Reads what follows a backslash.
    fn escape(&mut self) -> Result<char, SyntaxError> {
        let c = match self.byte() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.pos += 1;
                return self.unicode_escape();
            }
            _ => return Err(self.unexpected_inside("in string escape code")),
        };
        self.pos += 1;
        Ok(c)
    }

    fn unicode_escape(&mut self) -> Result<char, SyntaxError> {
        let first = self.hex4()?;
        if (0xD800..0xDC00).contains(&first) && self.rest().starts_with(b"\\u") {
            let back = self.pos;
            self.pos += 2;
            let second = self.hex4()?;
            if (0xDC00..0xE000).contains(&second) {
                let code = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
                return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            // The second escape is a character of its own.
            self.pos = back;
        }
        Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn hex4(&mut self) -> Result<u32, SyntaxError> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.byte().and_then(|c| char::from(c).to_digit(16));
            let Some(digit) = digit else { return Err(self.unexpected_inside("in \\u hexadecimal character escape")) };
            code = code * 16 + digit;
            self.pos += 1;
        }
        Ok(code)
    }

    /// Reads a number and returns its text.
    pub(super) fn number(&mut self) -> Result<&'a str, SyntaxError> {
        let start = self.pos;
        if self.byte() == Some(b'-') {
            self.pos += 1;
        }
        match self.byte() {
            Some(b'0') => self.pos += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return Err(self.unexpected_inside("in numeric literal")),
        }
        if self.byte() == Some(b'.') {
            self.pos += 1;
            if !self.byte().is_some_and(|c| c.is_ascii_digit()) {
                return Err(self.unexpected_inside("after decimal point in numeric literal"));
            }
            self.digits();
        }
        if matches!(self.byte(), Some(b'e' | b'E')) {
            self.pos += 1;
            if matches!(self.byte(), Some(b'+' | b'-')) {
                self.pos += 1;
            }
            if !self.byte().is_some_and(|c| c.is_ascii_digit()) {
                return Err(self.unexpected_inside("in exponent of numeric literal"));
            }
            self.digits();
        }
        Ok(std::str::from_utf8(self.since(start)).unwrap_or_default())
    }

    fn digits(&mut self) {
        while self.byte().is_some_and(|c| c.is_ascii_digit()) {
            self.pos += 1;
        }
    }

    /// Reads `true`, `false` or `null`, whose first byte was seen.
    pub(super) fn literal(&mut self) -> Result<Literal, SyntaxError> {
        let (word, literal) = match self.byte() {
            Some(b't') => ("true", Literal::True),
            Some(b'f') => ("false", Literal::False),
            _ => ("null", Literal::Null),
        };
        for expected in word.bytes() {
            if self.byte() != Some(expected) {
                let context = format!("in literal {word} (expecting '{}')", char::from(expected));
                return Err(self.unexpected_inside(&context));
            }
            self.pos += 1;
        }
        Ok(literal)
    }

    /// Passes over one value, checking its syntax.
    pub(super) fn skip_value(&mut self) -> Result<(), SyntaxError> {
        match self.peek_value()? {
            b'"' => self.string().map(drop),
            b't' | b'f' | b'n' => self.literal().map(drop),
            b'{' => {
                let mut more = self.open(b'}')?.entered();
                while more {
                    self.key()?;
                    self.skip_value()?;
                    more = self.next(b'}')?;
                }
                Ok(())
            }
            b'[' => {
                let mut more = self.open(b']')?.entered();
                while more {
                    self.skip_value()?;
                    more = self.next(b']')?;
                }
                Ok(())
            }
            _ => self.number().map(drop),
        }
    }

    #[inline]
    fn byte(&self) -> Option<u8> {
        self.data.get(self.pos).copied()
    }

    fn rest(&self) -> &'a [u8] {
        self.data.get(self.pos..).unwrap_or_default()
    }

    #[inline]
    fn skip_space(&mut self) {
        while matches!(self.byte(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.pos += 1;
        }
    }

    #[inline]
    fn skip_plain_run(&mut self) {
        self.pos += plain_run(self.rest());
    }

    /// Inside a token Go's scanner is told of the end of input as if a space followed, and complains about that.
    #[cold]
    fn unexpected_inside(&self, context: &str) -> SyntaxError {
        let found = self.byte().unwrap_or(b' ');
        SyntaxError { message: format!("invalid character {} {context}", quote_byte(found)), offset: self.pos + 1 }
    }

    #[cold]
    fn unexpected(&self, context: &str) -> SyntaxError {
        match self.byte() {
            None => SyntaxError { message: "unexpected end of JSON input".to_owned(), offset: self.data.len() },
            Some(c) => {
                SyntaxError { message: format!("invalid character {} {context}", quote_byte(c)), offset: self.pos + 1 }
            }
        }
    }
}

/// Whether an opened object or list has entries.
pub(super) enum Opened {
    Empty,
    Entered,
}

impl Opened {
    pub(super) fn entered(&self) -> bool {
        matches!(self, Self::Entered)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Literal {
    True,
    False,
    Null,
}

/// Checks that `data` is one JSON value, with Go's error words.
pub fn check_syntax(data: &[u8]) -> Result<(), SyntaxError> {
    fields_written(data).map(drop)
}

/// Checks that `data` is one JSON value, and counts the fields of all its objects. A parsed value with fewer had some twice.
pub fn fields_written(data: &[u8]) -> Result<usize, SyntaxError> {
    let mut scanner = Scanner::new(data);
    scanner.skip_value()?;
    scanner.end()?;
    Ok(scanner.fields)
}

/// The fields of all objects of a value.
pub fn fields_of(value: &Value) -> usize {
    match value {
        Value::Object(fields) => fields.len() + fields.values().map(fields_of).sum::<usize>(),
        Value::Array(items) => items.iter().map(fields_of).sum(),
        _ => 0,
    }
}

/// A byte as Go's scanner shows it: single-quoted, as the Latin-1 character of that number.
fn quote_byte(byte: u8) -> String {
    match byte {
        b'\'' => "'\\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        _ => {
            let quoted = super::quote::go_quote(&char::from(byte).to_string());
            format!("'{}'", quoted.trim_start_matches('"').trim_end_matches('"'))
        }
    }
}

/// Replaces every byte that is not part of valid UTF-8 by U+FFFD, one for one as Go does.
fn replace_invalid_utf8(mut bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    loop {
        match std::str::from_utf8(bytes) {
            Ok(valid) => {
                text.push_str(valid);
                return text;
            }
            Err(error) => {
                let (valid, rest) = bytes.split_at(error.valid_up_to());
                text.push_str(std::str::from_utf8(valid).unwrap_or_default());
                text.push(char::REPLACEMENT_CHARACTER);
                bytes = rest.get(1..).unwrap_or_default();
            }
        }
    }
}
