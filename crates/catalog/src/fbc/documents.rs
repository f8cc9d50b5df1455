//! Splits a stream into documents without reading all of it: JSON objects one after the other, or YAML documents
//! between lines of `---`. A stream that begins like JSON and turns out not to be is read as YAML.

use std::io::{self, BufRead};

/// A document larger than this is refused: the largest bundles with all their manifests have a few megabytes.
const MAX_DOCUMENT_BYTES: usize = 64 * 1024 * 1024;
/// After so many JSON objects a stream is JSON for good.
const UNDECIDED_DOCUMENTS: usize = 2;

/// What a document is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Json,
    Yaml,
}

/// One document of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    pub form: Form,
    pub text: Vec<u8>,
    /// The line it begins on, from 1.
    pub line: usize,
}

/// Reads documents one by one.
pub struct DocumentReader<R> {
    input: R,
    /// Bytes read ahead while deciding.
    pending: Vec<u8>,
    form: Option<Form>,
    line: usize,
    count: usize,
}

impl<R: BufRead> DocumentReader<R> {
    /// Starts at the beginning of a stream.
    pub fn new(input: R) -> Self {
        DocumentReader { input, pending: Vec::new(), form: None, line: 1, count: 0 }
    }

    /// The line that comes next, from 1.
    pub fn line(&self) -> usize {
        self.line
    }

    /// The next document, or `None` at the end.
    pub fn next_document(&mut self) -> io::Result<Option<Document>> {
        if self.form.is_none() {
            self.form = Some(if self.skip_space()? == Some(b'{') { Form::Json } else { Form::Yaml });
        }
        let document = match self.form {
            Some(Form::Json) => self.next_json()?,
            _ => self.next_yaml()?,
        };
        self.count += usize::from(document.is_some());
        Ok(document)
    }

    fn next_json(&mut self) -> io::Result<Option<Document>> {
        match self.skip_space()? {
            None => return Ok(None),
            Some(b'{') => {}
            Some(_) => return self.as_yaml(Vec::new()),
        }
        let line = self.line;
        let mut text = Vec::new();
        let mut state = JsonState::default();
        loop {
            let chunk = self.fill()?;
            if chunk.is_empty() {
                break;
            }
            let (used, done) = state.scan(chunk);
            text.extend_from_slice(chunk.get(..used).unwrap_or_default());
            self.consume(used);
            check_size(&text)?;
            if done {
                break;
            }
        }
        let undecided = self.count < UNDECIDED_DOCUMENTS;
        if undecided && serde_json::from_slice::<serde::de::IgnoredAny>(&text).is_err() {
            return self.as_yaml(text);
        }
        self.line += memchr::memchr_iter(b'\n', &text).count();
        Ok(Some(Document { form: Form::Json, text, line }))
    }

    fn as_yaml(&mut self, text: Vec<u8>) -> io::Result<Option<Document>> {
        self.form = Some(Form::Yaml);
        self.pending.splice(..0, text);
        self.next_yaml()
    }

    fn next_yaml(&mut self) -> io::Result<Option<Document>> {
        let mut text = Vec::new();
        let mut start = self.line;
        loop {
            let at = text.len();
            if self.read_line(&mut text)? == 0 {
                break;
            }
            let line = text.get(at..).unwrap_or_default();
            if let Some(rest) = line.strip_prefix(b"---") {
                let rest = rest.trim_ascii();
                if !rest.is_empty() && !rest.starts_with(b"#") {
                    let rest = String::from_utf8_lossy(rest).into_owned();
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        format!("invalid Yaml document separator: {rest}"),
                    ));
                }
                text.truncate(at);
                self.line += 1;
                if !text.is_empty() {
                    break;
                }
                start = self.line;
            } else {
                self.line += 1;
                check_size(&text)?;
            }
        }
        if text.is_empty() { Ok(None) } else { Ok(Some(Document { form: Form::Yaml, text, line: start })) }
    }

    /// The next byte that is no space, which stays unread.
    fn skip_space(&mut self) -> io::Result<Option<u8>> {
        loop {
            let chunk = self.fill()?;
            if chunk.is_empty() {
                return Ok(None);
            }
            let spaces = chunk.iter().take_while(|b| b.is_ascii_whitespace()).count();
            let next = chunk.get(spaces).copied();
            let lines = memchr::memchr_iter(b'\n', chunk.get(..spaces).unwrap_or_default()).count();
            self.line += lines;
            self.consume(spaces);
            if next.is_some() {
                return Ok(next);
            }
        }
    }

    fn read_line(&mut self, text: &mut Vec<u8>) -> io::Result<usize> {
        let before = text.len();
        loop {
            let chunk = self.fill()?;
            if chunk.is_empty() {
                return Ok(text.len() - before);
            }
            let end = memchr::memchr(b'\n', chunk);
            let used = end.map_or(chunk.len(), |at| at + 1);
            text.extend_from_slice(chunk.get(..used).unwrap_or_default());
            self.consume(used);
            if end.is_some() {
                return Ok(text.len() - before);
            }
            check_size(text)?;
        }
    }

    fn fill(&mut self) -> io::Result<&[u8]> {
        if self.pending.is_empty() { self.input.fill_buf() } else { Ok(&self.pending) }
    }

    fn consume(&mut self, bytes: usize) {
        if self.pending.is_empty() {
            self.input.consume(bytes);
        } else {
            self.pending.drain(..bytes);
        }
    }
}

fn check_size(text: &[u8]) -> io::Result<()> {
    if text.len() > MAX_DOCUMENT_BYTES {
        let message = format!("a document has more than {MAX_DOCUMENT_BYTES} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    Ok(())
}

/// Where in a JSON object a scan is.
#[derive(Default)]
struct JsonState {
    depth: usize,
    in_text: bool,
    escaped: bool,
}

impl JsonState {
    /// How many bytes belong to the object, and whether it ended.
    fn scan(&mut self, chunk: &[u8]) -> (usize, bool) {
        let mut at = 0;
        while let Some(&byte) = chunk.get(at) {
            if self.in_text {
                if self.escaped {
                    self.escaped = false;
                    at += 1;
                    continue;
                }
                let Some(found) = chunk.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) else {
                    return (chunk.len(), false);
                };
                at += found;
                if chunk.get(at) == Some(&b'\\') {
                    self.escaped = true;
                } else {
                    self.in_text = false;
                }
            } else {
                match byte {
                    b'"' => self.in_text = true,
                    b'{' | b'[' => self.depth += 1,
                    b'}' | b']' => {
                        self.depth = self.depth.saturating_sub(1);
                        if self.depth == 0 {
                            return (at + 1, true);
                        }
                    }
                    _ => {}
                }
            }
            at += 1;
        }
        (chunk.len(), false)
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use proptest::prelude::*;

    use super::*;

    fn split(text: &str) -> Vec<(Form, String, usize)> {
        // A tiny buffer, so that every boundary is met.
        let mut reader = DocumentReader::new(BufReader::with_capacity(3, text.as_bytes()));
        let mut found = Vec::new();
        while let Some(document) = reader.next_document().unwrap() {
            found.push((document.form, String::from_utf8(document.text).unwrap(), document.line));
        }
        found
    }

    #[test]
    fn json_objects_follow_each_other() {
        assert_eq!(
            split(" {\"a\":\"}\\\"\"}\n{\"b\":[{}]}{}"),
            [
                (Form::Json, "{\"a\":\"}\\\"\"}".to_owned(), 1),
                (Form::Json, "{\"b\":[{}]}".to_owned(), 2),
                (Form::Json, "{}".to_owned(), 2),
            ]
        );
    }

    #[test]
    fn yaml_documents_are_separated_by_lines() {
        assert_eq!(
            split("---\na: 1\n--- # next\n---\nb: 2"),
            [(Form::Yaml, "a: 1\n".to_owned(), 2), (Form::Yaml, "b: 2".to_owned(), 5)]
        );
    }

    #[test]
    fn what_only_looks_like_json_is_yaml() {
        assert_eq!(split("{a: b}\n---\nc: d\n").len(), 2);
        let mixed = split("{\"a\":1}\n---\nb: 2\n");
        assert_eq!(mixed.iter().map(|found| found.0).collect::<Vec<_>>(), [Form::Json, Form::Yaml]);
    }

    #[test]
    fn a_separator_with_content_is_refused() {
        let mut reader = DocumentReader::new("--- a: 1\n".as_bytes());
        assert_eq!(reader.next_document().unwrap_err().to_string(), "invalid Yaml document separator: a: 1");
    }

    proptest! {
        #[test]
        fn no_stream_panics_and_none_is_read_twice(text in "[-{}\\[\\]\"\\\\a: \n#]{0,60}") {
            let mut reader = DocumentReader::new(BufReader::with_capacity(2, text.as_bytes()));
            let mut total = 0;
            while let Ok(Some(document)) = reader.next_document() {
                total += document.text.len();
            }
            prop_assert!(total <= text.len());
        }
    }
}
