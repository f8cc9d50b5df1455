//! From the text of a document to a value. Keys that occur twice are refused with their line: Go's decoders take the
//! last one silently, and catalogs have been broken that way.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::documents::{Document, Form};
use crate::go::quote;

/// Why a document cannot be read, with the line in the stream where that is known.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ParseError {
    pub line: usize,
    pub message: String,
}

/// Reads a document.
pub(crate) fn parse_document(document: &Document) -> Result<Value, ParseError> {
    let text = std::str::from_utf8(&document.text).map_err(|error| {
        let before = document.text.get(..error.valid_up_to()).unwrap_or_default();
        let line = document.line + memchr::memchr_iter(b'\n', before).count();
        ParseError { line, message: "the text is not UTF-8".to_owned() }
    })?;
    match document.form {
        Form::Json => {
            let mut input = serde_json::Deserializer::from_str(text);
            let parsed = Unique.deserialize(&mut input).and_then(|value| input.end().map(|()| value));
            parsed.map_err(|error| ParseError {
                line: document.line + error.line().saturating_sub(1),
                message: error.to_string(),
            })
        }
        Form::Yaml => {
            let decoded = bailiwick_machinery::yaml::decode(text)
                .map_err(|error| ParseError { line: document.line, message: error.to_string() })?;
            match decoded.strict_error() {
                None => Ok(decoded.value),
                Some(message) => Err(ParseError { line: document.line, message }),
            }
        }
    }
}

/// Reads a document of a bundle, where the last of two equal keys wins: bundles are what they are.
pub(crate) fn parse_lenient(document: &Document) -> Result<Value, String> {
    let text = std::str::from_utf8(&document.text).map_err(|_| "the text is not UTF-8".to_owned())?;
    match document.form {
        Form::Json => serde_json::from_str(text).map_err(|error| error.to_string()),
        Form::Yaml => bailiwick_machinery::yaml::decode(text).map(|it| it.value).map_err(|error| error.to_string()),
    }
}

/// Builds a value of whose objects no key occurs twice.
struct Unique;

impl<'de> DeserializeSeed<'de> for Unique {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Value, D::Error> {
        input.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Unique {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut input: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = input.next_element_seed(Unique)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut input: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(key) = input.next_key::<String>()? {
            if fields.contains_key(&key) {
                return Err(A::Error::custom(format!("key {} already set in map", quote(&key))));
            }
            let value = input.next_value_seed(Unique)?;
            fields.insert(key, value);
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(form: Form, text: &str) -> Result<Value, ParseError> {
        parse_document(&Document { form, text: text.into(), line: 10 })
    }

    #[test]
    fn both_forms_give_the_same_value() {
        let value = json!({"a": [1, -2.5, "x", null, true]});
        assert_eq!(parse(Form::Json, "{\"a\":[1,-2.5,\"x\",null,true]}"), Ok(value.clone()));
        assert_eq!(parse(Form::Yaml, "a: [1, -2.5, x, ~, yes]"), Ok(value));
    }

    #[test]
    fn duplicate_keys_and_bad_bytes_name_their_line() {
        let error = parse(Form::Json, "{\"a\":1,\n\"a\":2}").unwrap_err();
        assert_eq!(error.line, 11);
        assert!(error.message.contains("key \"a\" already set in map"), "{}", error.message);
        assert!(parse(Form::Yaml, "a: 1\na: 2\n").unwrap_err().message.contains("already set in map"));
        let document = Document { form: Form::Yaml, text: b"a: 1\nb: \xff".to_vec(), line: 3 };
        assert_eq!(parse_document(&document).unwrap_err().line, 4);
    }
}
