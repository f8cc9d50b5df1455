//! The protobuf text format, as far as test files use it: a tree of named fields.

/// A field's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Field {
    /// A number, an identifier or an enum value, as written.
    Word(String),
    /// Quoted text; bytes, because escapes may spell any.
    Text(Vec<u8>),
    Message(Message),
}

/// Fields in order; names repeat.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message {
    pub fields: Vec<(String, Field)>,
}

impl Message {
    pub fn all<'m>(&'m self, name: &'m str) -> impl Iterator<Item = &'m Field> {
        self.fields.iter().filter(move |(known, _)| known == name).map(|(_, field)| field)
    }

    pub fn get<'m>(&'m self, name: &'m str) -> Option<&'m Field> {
        self.all(name).next()
    }

    pub fn message<'m>(&'m self, name: &'m str) -> Option<&'m Message> {
        self.get(name).and_then(Field::as_message)
    }

    pub fn text(&self, name: &str) -> Option<String> {
        match self.get(name)? {
            Field::Text(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        }
    }

    pub fn word<'m>(&'m self, name: &'m str) -> Option<&'m str> {
        match self.get(name)? {
            Field::Word(word) => Some(word),
            _ => None,
        }
    }
}

impl Field {
    pub fn as_message(&self) -> Option<&Message> {
        match self {
            Self::Message(message) => Some(message),
            _ => None,
        }
    }
}

/// Parses a whole file.
pub fn parse(text: &str) -> Result<Message, String> {
    let mut parser = Parser { rest: text };
    let message = parser.fields(None)?;
    Ok(message)
}

struct Parser<'t> {
    rest: &'t str,
}

impl Parser<'_> {
    fn skip(&mut self) {
        loop {
            self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r', ',', ';']);
            match self.rest.strip_prefix('#') {
                Some(comment) => self.rest = comment.find('\n').map_or("", |at| &comment[at..]),
                None => return,
            }
        }
    }

    fn accept(&mut self, c: char) -> bool {
        self.skip();
        match self.rest.strip_prefix(c) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn fields(&mut self, close: Option<char>) -> Result<Message, String> {
        let mut message = Message::default();
        loop {
            self.skip();
            match close {
                Some(close) if self.accept(close) => return Ok(message),
                None if self.rest.is_empty() => return Ok(message),
                _ => {}
            }
            let name = self.name()?;
            let colon = self.accept(':');
            if self.accept('[') {
                while !self.accept(']') {
                    let value = self.value()?;
                    message.fields.push((name.clone(), value));
                }
                continue;
            }
            let _ = colon;
            let value = self.value()?;
            message.fields.push((name, value));
        }
    }

    fn name(&mut self) -> Result<String, String> {
        self.skip();
        if let Some(rest) = self.rest.strip_prefix('[') {
            let end = rest.find(']').ok_or("unclosed extension name")?;
            self.rest = &rest[end + 1..];
            return Ok(rest[..end].to_owned());
        }
        self.bare()
    }

    fn bare(&mut self) -> Result<String, String> {
        let end = self
            .rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '+')))
            .unwrap_or(self.rest.len());
        if end == 0 {
            return Err(format!("expected a word at {:?}", self.rest.chars().take(30).collect::<String>()));
        }
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        Ok(word.to_owned())
    }

    fn value(&mut self) -> Result<Field, String> {
        self.skip();
        if self.accept('{') {
            return self.fields(Some('}')).map(Field::Message);
        }
        if self.accept('<') {
            return self.fields(Some('>')).map(Field::Message);
        }
        if self.rest.starts_with(['"', '\'']) {
            let mut bytes = Vec::new();
            while self.rest.starts_with(['"', '\'']) {
                self.quoted(&mut bytes)?;
                self.skip();
            }
            return Ok(Field::Text(bytes));
        }
        self.bare().map(Field::Word)
    }

    fn quoted(&mut self, bytes: &mut Vec<u8>) -> Result<(), String> {
        let mut chars = self.rest.char_indices();
        let Some((_, quote)) = chars.next() else { return Err("expected a quote".to_owned()) };
        while let Some((at, c)) = chars.next() {
            if c == quote {
                self.rest = &self.rest[at + c.len_utf8()..];
                return Ok(());
            }
            if c != '\\' {
                bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                continue;
            }
            let Some((_, letter)) = chars.next() else { break };
            let mut digits = |count: usize, radix: u32, first: Option<char>| {
                let mut text: String = first.into_iter().collect();
                while text.len() < count {
                    match chars.clone().next() {
                        Some((_, c)) if c.is_digit(radix) => {
                            text.push(c);
                            chars.next();
                        }
                        _ => break,
                    }
                }
                u32::from_str_radix(&text, radix).unwrap_or(0)
            };
            match letter {
                'n' => bytes.push(b'\n'),
                't' => bytes.push(b'\t'),
                'r' => bytes.push(b'\r'),
                'a' => bytes.push(7),
                'b' => bytes.push(8),
                'f' => bytes.push(12),
                'v' => bytes.push(11),
                'x' | 'X' => bytes.push(digits(2, 16, None) as u8),
                'u' | 'U' => {
                    let code = digits(if letter == 'u' { 4 } else { 8 }, 16, None);
                    let c = char::from_u32(code).unwrap_or('\u{fffd}');
                    bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                }
                '0'..='7' => bytes.push(digits(3, 8, Some(letter)) as u8),
                other => bytes.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        Err("unclosed text".to_owned())
    }
}
