//! Whether a value fits its type, with the words of upstream where it does not.

use std::collections::BTreeSet;

use bailiwick_schema::decode::go_quote;
use serde_json::Value;

use super::error::{TypeError, TypeErrors};
use super::list_key::element_of;
use super::path::PathElement;
use super::types::{ListAtom, ListMerging, MapAtom, Scalar, Shape, TypeRef};
use crate::go_format::{go_format, go_type};

/// What two entries with the same key are to a merged list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicates {
    /// Stored objects may have them, from before a list was declared.
    Allowed,
    /// Configurations may not.
    Refused,
}

/// Checks that an object fits its type.
pub fn validate(types: TypeRef<'_>, object: &Value, duplicates: Duplicates) -> Result<(), TypeErrors> {
    let mut errors = Vec::new();
    Walk { duplicates, errors: &mut errors }.node(types, object);
    if errors.is_empty() { Ok(()) } else { Err(TypeErrors(errors)) }
}

struct Walk<'e> {
    duplicates: Duplicates,
    errors: &'e mut Vec<TypeError>,
}

impl Walk<'_> {
    fn error(&mut self, message: impl Into<String>) {
        self.errors.push(TypeError { path: String::new(), message: message.into() });
    }

    fn node(&mut self, types: TypeRef<'_>, value: &Value) {
        let atom = types.resolve();
        match atom.shape(value) {
            Shape::Map => {
                if let Some(map) = &atom.map {
                    self.map(map, value);
                }
            }
            Shape::Scalar => {
                if let Some(message) = atom.scalar.and_then(|scalar| scalar_error(scalar, value)) {
                    self.error(message);
                }
            }
            Shape::List => {
                if let Some(list) = &atom.list {
                    self.list(list, value);
                }
            }
            Shape::Nothing => self.error("schema error: invalid atom: inlined"),
        }
    }

    fn map(&mut self, map: &MapAtom<'_>, value: &Value) {
        let fields = match value {
            Value::Object(fields) => fields,
            Value::Null => return,
            other => return self.error(format!("expected map, got &{{{}}}", go_format(other))),
        };
        for (name, value) in fields {
            let Some(types) = map.field_or_element(name) else {
                self.errors
                    .push(TypeError { path: format!(".{name}"), message: "field not declared in schema".to_owned() });
                return;
            };
            self.below(&PathElement::Field(name.into()), |walk| walk.node(types, value));
        }
    }

    fn list(&mut self, list: &ListAtom<'_>, value: &Value) {
        let items = match value {
            Value::Array(items) => items,
            Value::Null => return,
            other => return self.error(format!("expected list, got &{{{}}}", go_format(other))),
        };
        let mut seen = BTreeSet::new();
        for (i, item) in items.iter().enumerate() {
            if matches!(list.merging, ListMerging::Atomic) {
                let index = i64::try_from(i).unwrap_or(i64::MAX);
                self.below(&PathElement::Index(index), |walk| walk.node(list.element, item));
                continue;
            }
            match element_of(list, item) {
                Ok(element) => {
                    self.below(&element, |walk| walk.node(list.element, item));
                    if seen.contains(&element) && self.duplicates == Duplicates::Refused {
                        self.error(format!("duplicate entries for key {element}"));
                    }
                    seen.insert(element);
                }
                Err(message) => return self.error(format!("element {i}: {message}")),
            }
        }
    }

    fn below(&mut self, element: &PathElement<'_>, visit: impl FnOnce(&mut Self)) {
        let before = self.errors.len();
        visit(self);
        if self.errors.len() > before {
            let prefix = element.to_string();
            for error in self.errors.iter_mut().skip(before) {
                error.path.insert_str(0, &prefix);
            }
        }
    }
}

/// Why a value is no scalar of the given kind.
pub(super) fn scalar_error(scalar: Scalar, value: &Value) -> Option<String> {
    match (scalar, value) {
        (_, Value::Null)
        | (Scalar::Numeric, Value::Number(_))
        | (Scalar::String, Value::String(_))
        | (Scalar::Boolean, Value::Bool(_))
        | (Scalar::Any, Value::Number(_) | Value::String(_) | Value::Bool(_)) => None,
        (Scalar::Numeric, other) => Some(format!("expected numeric (int or float), got {}", go_type(other))),
        (Scalar::String, other) => {
            Some(format!("expected string, got &value.valueUnstructured{{Value:{}}}", go_syntax(other)))
        }
        (Scalar::Boolean, other) => Some(format!("expected boolean, got &{{{}}}", go_format(other))),
        (Scalar::Any, other) => Some(format!("expected any scalar, got &{{{}}}", go_format(other))),
    }
}

/// A value in Go's syntax (`%#v`).
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => super::go_number::display(number),
        Value::String(text) => go_quote(text),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(fields) => {
            let fields: Vec<_> =
                fields.iter().map(|(name, value)| format!("{}:{}", go_quote(name), go_syntax(value))).collect();
            format!("map[string]interface {{}}{{{}}}", fields.join(", "))
        }
    }
}
