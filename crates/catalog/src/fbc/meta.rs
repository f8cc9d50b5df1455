//! A document of a catalog with its identity: schema, package and name, whose keys may be written in any case.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::documents::Form;
use crate::go::{Dialect, append_json, pretty_json, printed_float, quote, to_json};

/// A document before its schema is looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct Meta {
    /// Empty when there is none.
    pub schema: String,
    pub package: String,
    pub name: String,
    pub body: Value,
}

impl Meta {
    /// Reads the identity of a document.
    pub fn new(body: Value) -> Result<Self, String> {
        Self::of(body, Form::Json)
    }

    /// Reads the identity of a document that was written in some form.
    pub(crate) fn of(body: Value, form: Form) -> Result<Self, String> {
        let fields = match &body {
            Value::Object(fields) => fields,
            Value::Null => {
                return Ok(Meta { schema: String::new(), package: String::new(), name: String::new(), body });
            }
            other => return Err(no_object(other, form)),
        };
        refuse_equal_keys(fields)?;
        let schema = identity(fields, "schema")?;
        let package = identity(fields, "package")?;
        let name = identity(fields, "name")?;
        Ok(Meta { schema, package, name, body })
    }

    /// The document as compact JSON with sorted keys and a line break: what digests and messages are made of.
    pub fn blob(&self) -> String {
        if self.body.is_null() {
            return String::new();
        }
        let mut text = to_json(&self.body);
        text.push('\n');
        text
    }
}

/// What opm says about a document that is no object, with an arrow behind what it could not use.
fn no_object(value: &Value, form: Form) -> String {
    let text = match form {
        // As it was written.
        Form::Json => value.to_string(),
        // What was YAML comes from an encoder that escapes HTML.
        Form::Yaml => {
            let mut text = String::new();
            append_json(&mut text, value, Dialect::Manifest);
            text
        }
    };
    let (kind, offset) = match value {
        Value::Array(_) => ("array", 1),
        Value::String(_) => ("string", text.len()),
        Value::Bool(_) => ("bool", text.len()),
        _ => ("number", text.len()),
    };
    let shown = match value {
        Value::Array(_) => format!("[ <== {}", pretty_json(&text, 4).strip_prefix('[').unwrap_or_default()),
        _ => format!("{text} <=="),
    };
    format!(
        "json: cannot unmarshal {kind} into Go value of type map[string]interface {{}} at offset {offset} (indicated by \
         <==)\n{shown}"
    )
}

fn refuse_equal_keys(fields: &Map<String, Value>) -> Result<(), String> {
    let mut folded: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for key in fields.keys() {
        folded.entry(key.to_lowercase()).or_default().push(key);
    }
    let errors: Vec<String> = folded
        .iter()
        .filter(|(_, keys)| keys.len() > 1)
        .map(|(key, keys)| format!("duplicate keys for key {}: [{}]", quote(key), keys.join(" ")))
        .collect();
    match errors.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        many => Err(format!("[{}]", many.join(", "))),
    }
}

fn identity(fields: &Map<String, Value>, name: &str) -> Result<String, String> {
    let found = fields.get_key_value(name).or_else(|| fields.iter().find(|(key, _)| key.to_lowercase() == name));
    match found {
        None => Ok(String::new()),
        Some((_, Value::String(text))) => Ok(text.clone()),
        Some((key, other)) => {
            let (verb, plain) = printed(other);
            Err(format!("expected value for key {} to be a string, got {verb}: {plain}", quote(key)))
        }
    }
}

/// A value as Go's `%t` and `%v` print it.
fn printed(value: &Value) -> (String, String) {
    match value {
        Value::Null => ("%!t(<nil>)".to_owned(), "<nil>".to_owned()),
        Value::Bool(flag) => (flag.to_string(), flag.to_string()),
        Value::Number(_) => {
            let text = printed_float(value.as_f64().unwrap_or_default());
            (format!("%!t(float64={text})"), text)
        }
        Value::String(text) => (format!("%!t(string={text})"), text.clone()),
        Value::Array(items) => {
            let (verbs, plains): (Vec<_>, Vec<_>) = items.iter().map(printed_inside).unzip();
            (format!("[{}]", verbs.join(" ")), format!("[{}]", plains.join(" ")))
        }
        Value::Object(fields) => {
            let (verbs, plains): (Vec<_>, Vec<_>) = fields
                .iter()
                .map(|(key, value)| {
                    let (verb, plain) = printed_inside(value);
                    (format!("%!t(string={key}):{verb}"), format!("{key}:{plain}"))
                })
                .unzip();
            (format!("map[{}]", verbs.join(" ")), format!("map[{}]", plains.join(" ")))
        }
    }
}

/// The same inside a list or a map, where nothing is printed as nothing.
fn printed_inside(value: &Value) -> (String, String) {
    if value.is_null() { ("<nil>".to_owned(), "<nil>".to_owned()) } else { printed(value) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_are_found_in_any_case() {
        let meta = Meta::new(json!({"Schema": "olm.semver", "NAME": "x"})).unwrap();
        assert_eq!((meta.schema.as_str(), meta.name.as_str()), ("olm.semver", "x"));
        assert_eq!(
            Meta::new(json!({"schema": "a", "Schema": "b"})).unwrap_err(),
            "duplicate keys for key \"schema\": [Schema schema]"
        );
        assert_eq!(
            Meta::new(json!({"schema": 5})).unwrap_err(),
            "expected value for key \"schema\" to be a string, got %!t(float64=5): 5"
        );
    }
}
