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
            let at =
                |message: String| ParseError { line: document.line + line_in(&message).saturating_sub(1), message };
            let decoded = bailiwick_machinery::yaml::decode(text).map_err(|error| at(error.to_string()))?;
            match decoded.strict_error() {
                None => Ok(decoded.value),
                Some(message) => Err(at(message)),
            }
        }
    }
}

/// The line of the document that a message of the YAML parser names; the first if none.
fn line_in(message: &str) -> usize {
    let named = message.split_once("line ").map(|(_, rest)| rest.split(|c: char| !c.is_ascii_digit()).next());
    named.flatten().and_then(|number| number.parse().ok()).unwrap_or(1)
}

/// A document that opm may read although something is wrong with it.
pub(crate) struct Tolerated {
    /// What opm reads; the error when it reads nothing.
    pub value: Result<Value, ParseError>,
    /// What its author should know: a key that occurs twice, of which the last one counts.
    pub warning: Option<ParseError>,
}

/// Reads a document of a bundle or a template, where the last of two equal keys wins: bundles are what they are.
pub(crate) fn parse_tolerant(document: &Document) -> Tolerated {
    let refusal = match parse_document(document) {
        Ok(value) => {
            let folded = folded_twice(&value).map(|message| ParseError { line: document.line, message });
            return Tolerated { value: Ok(value), warning: folded };
        }
        Err(error) => error,
    };
    let Ok(text) = std::str::from_utf8(&document.text) else {
        return Tolerated { value: Err(refusal), warning: None };
    };
    let value = match document.form {
        Form::Json => serde_json::from_str(text).ok(),
        Form::Yaml => bailiwick_machinery::yaml::decode(text).ok().map(|it| it.value),
    };
    match value {
        Some(value) => Tolerated { value: Ok(value), warning: Some(refusal) },
        None => Tolerated { value: Err(refusal), warning: None },
    }
}

/// Two keys of the document that differ only in case, such as `Stable` and `stable`: only one of them is looked at.
fn folded_twice(value: &Value) -> Option<String> {
    let mut seen: Vec<(String, &String)> = Vec::new();
    for key in value.as_object()?.keys() {
        let folded = key.to_lowercase();
        if let Some((_, first)) = seen.iter().find(|(it, _)| *it == folded) {
            return Some(format!("the keys {} and {} differ only in case", quote(first), quote(key)));
        }
        seen.push((folded, key));
    }
    None
}

/// The value of [`parse_tolerant`] alone.
pub(crate) fn parse_lenient(document: &Document) -> Result<Value, String> {
    parse_tolerant(document).value.map_err(|error| error.message)
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
    fn what_is_tolerated_is_told() {
        let tolerated = |form, text: &str| parse_tolerant(&Document { form, text: text.into(), line: 10 });
        for (form, text) in [(Form::Json, "{\"a\":1,\n\"a\":2}"), (Form::Yaml, "a: 1\na: 2\n")] {
            let read = tolerated(form, text);
            assert_eq!(read.value, Ok(json!({"a": 2})));
            let warning = read.warning.unwrap();
            assert_eq!(warning.line, 11);
            assert!(warning.message.contains("key \"a\" already set in map"), "{}", warning.message);
        }
        let read = tolerated(Form::Yaml, "Stable: 1\nstable: 2\n");
        assert!(read.value.is_ok() && read.warning.unwrap().message.contains("differ only in case"));
        assert!(tolerated(Form::Yaml, "a: 1\nb: 2\n").warning.is_none());
        assert_eq!(tolerated(Form::Yaml, "a: 1\nb: [\n").value.unwrap_err().line, 11);
    }

    #[test]
    fn duplicate_keys_and_bad_bytes_name_their_line() {
        let error = parse(Form::Json, "{\"a\":1,\n\"a\":2}").unwrap_err();
        assert_eq!(error.line, 11);
        assert!(error.message.contains("key \"a\" already set in map"), "{}", error.message);
        let error = parse(Form::Yaml, "a: 1\na: 2\n").unwrap_err();
        assert!(error.message.contains("already set in map"), "{}", error.message);
        assert_eq!(error.line, 11);

        let document = Document { form: Form::Yaml, text: b"a: 1\nb: \xff".to_vec(), line: 3 };
        assert!(parse_tolerant(&document).value.is_err());
        assert_eq!(parse_document(&document).unwrap_err().line, 4);
    }
}
