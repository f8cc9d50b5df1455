//! Field errors many types share: names that break a rule, fields that may not change, and values shown the way
//! upstream's in-memory types print.

use bailiwick_machinery::field::{Error, ErrorKind, ErrorList, Path};
use serde_json::Value;

use crate::fields::same;

/// What upstream says of a field that may not change.
pub(crate) const IMMUTABLE: &str = "field is immutable";

/// One error per complaint of a name validator about `value`.
pub(crate) fn invalid_each(path: &Path, value: &str, complaints: Vec<String>) -> ErrorList {
    complaints.into_iter().map(|complaint| Error::invalid(path, value, complaint)).collect()
}

/// An error when a field changed. The message shows the new value as `shown` renders it.
pub(crate) fn immutable(
    path: &Path,
    new: Option<&Value>,
    old: Option<&Value>,
    shown: fn(Option<&Value>) -> String,
) -> Option<Error> {
    let nonempty = |value: &&Value| value.as_str() != Some("");
    (!same(new.filter(nonempty), old.filter(nonempty))).then(|| invalid_shown(path, &shown(new), IMMUTABLE))
}

/// An "Invalid value" error whose value is already rendered: upstream prints structs with their Go field names, in order.
pub(crate) fn invalid_shown(path: &Path, value: &str, detail: &str) -> Error {
    Error { kind: ErrorKind::Invalid, field: path.to_string(), bad_value: None, detail: format!("{value}: {detail}") }
}

/// A value as messages show it: JSON, with null for what is absent.
pub(crate) fn shown_json(value: Option<&Value>) -> String {
    value.unwrap_or(&Value::Null).to_string()
}

/// A string as messages show it; an absent one is empty.
pub(crate) fn shown_string(value: Option<&Value>) -> String {
    Value::from(value.and_then(Value::as_str).unwrap_or_default()).to_string()
}
