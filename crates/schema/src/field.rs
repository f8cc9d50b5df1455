//! Field paths and the errors that name them, worded as the Kubernetes API words them.
//!
//! A validation returns an [`ErrorList`]; the API edge turns it into a `Status` with one cause per error. The texts are
//! behaviour: clients and tests match on them.

use std::fmt;

use serde_json::Value;

/// A path to a field of an object: `spec.list[0].name`, `metadata.labels[app]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path(String);

impl Path {
    /// A path that starts at the named top-level field.
    pub fn new(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// The path of the object itself, of which `child` gives top-level fields.
    pub fn root() -> Self {
        Self::default()
    }

    /// A named field below this one.
    pub fn child(&self, name: &str) -> Self {
        if self.0.is_empty() { Self::new(name) } else { self.joined([".", name, ""]) }
    }

    /// An element of this list.
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// An entry of this map.
    pub fn key(&self, key: &str) -> Self {
        self.joined(["[", key, "]"])
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Without `format!`: validating a schema makes hundreds of paths, of which hardly any is ever shown.
    fn joined(&self, parts: [&str; 3]) -> Self {
        let mut path = String::with_capacity(self.0.len() + parts.iter().map(|part| part.len()).sum::<usize>());
        path.push_str(&self.0);
        parts.iter().for_each(|part| path.push_str(part));
        Self(path)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "<nil>" } else { &self.0 })
    }
}

/// The kinds of field error, which are also the `reason` of a Status cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    NotFound,
    Required,
    Duplicate,
    Invalid,
    NotSupported,
    Forbidden,
    TooLong,
    TooMany,
    Internal,
    TypeInvalid,
}

impl ErrorKind {
    /// The machine-readable cause reason.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::Internal => "InternalError",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Internal => "Internal error",
        }
    }
}

/// One thing wrong with one field.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    pub kind: ErrorKind,
    pub field: String,
    /// The offending value where the message shows it.
    pub bad_value: Option<Value>,
    pub detail: String,
}

/// All that is wrong with an object, in the order upstream reports it.
pub type ErrorList = Vec<Error>;

impl Error {
    fn new(kind: ErrorKind, path: &Path, bad_value: Option<Value>, detail: impl Into<String>) -> Self {
        Self { kind, field: path.to_string(), bad_value, detail: detail.into() }
    }

    pub fn required(path: &Path, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Required, path, None, detail)
    }

    pub fn invalid(path: &Path, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, path, Some(value.into()), detail)
    }

    pub fn type_invalid(path: &Path, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::TypeInvalid, path, Some(value.into()), detail)
    }

    /// `supported` is listed in the message, quoted and in the given order.
    pub fn not_supported(path: &Path, value: impl Into<Value>, supported: &[&str]) -> Self {
        let detail = if supported.is_empty() {
            String::new()
        } else {
            let quoted: Vec<String> = supported.iter().map(|s| format!("{s:?}")).collect();
            format!("supported values: {}", quoted.join(", "))
        };
        Self::new(ErrorKind::NotSupported, path, Some(value.into()), detail)
    }

    pub fn duplicate(path: &Path, value: impl Into<Value>) -> Self {
        Self::new(ErrorKind::Duplicate, path, Some(value.into()), "")
    }

    pub fn not_found(path: &Path, value: impl Into<Value>) -> Self {
        Self::new(ErrorKind::NotFound, path, Some(value.into()), "")
    }

    pub fn forbidden(path: &Path, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Forbidden, path, None, detail)
    }

    /// The value itself is not shown: it may be large.
    pub fn too_long(path: &Path, max_length: usize) -> Self {
        let unit = if max_length == 1 { "byte" } else { "bytes" };
        Self::new(ErrorKind::TooLong, path, None, format!("may not be more than {max_length} {unit}"))
    }

    pub fn too_many(path: &Path, actual: usize, max: usize) -> Self {
        let unit = if max == 1 { "item" } else { "items" };
        Self::new(ErrorKind::TooMany, path, Some(actual.into()), format!("must have at most {max} {unit}"))
    }

    pub fn internal(path: &Path, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, path, None, detail)
    }

    /// The message without the field in front, as Status causes carry it.
    pub fn body(&self) -> String {
        let title = self.kind.title();
        let mut text = match (&self.kind, &self.bad_value) {
            (ErrorKind::Required | ErrorKind::Forbidden | ErrorKind::TooLong | ErrorKind::Internal, _) | (_, None) => {
                title.to_owned()
            }
            (_, Some(value)) => format!("{title}: {}", shown(value)),
        };
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

/// A value as an error message shows it: strings quoted, null by name, the rest as JSON.
fn shown(value: &Value) -> String {
    match value {
        Value::String(s) => crate::decode::go_quote(s),
        Value::Null => "null".to_owned(),
        Value::Number(number) if number.is_f64() => {
            number.as_f64().map_or_else(String::new, crate::structural::go_float)
        }
        Value::Array(_) | Value::Object(_) => crate::structural::go_json(value),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_read_like_upstreams() {
        let path = Path::new("spec").child("list").index(0).child("name");
        assert_eq!(path.to_string(), "spec.list[0].name");
        assert_eq!(Path::new("metadata").child("labels").key("a/b").to_string(), "metadata.labels[a/b]");
    }

    #[test]
    fn errors_read_like_upstreams() {
        let name = Path::new("metadata").child("name");
        assert_eq!(
            Error::invalid(&name, "A", "must be lower case").to_string(),
            "metadata.name: Invalid value: \"A\": must be lower case"
        );
        assert_eq!(Error::required(&name, "").to_string(), "metadata.name: Required value");
        assert_eq!(
            Error::not_supported(&name, "x", &["a", "b"]).to_string(),
            "metadata.name: Unsupported value: \"x\": supported values: \"a\", \"b\""
        );
        assert_eq!(Error::too_long(&name, 63).to_string(), "metadata.name: Too long: may not be more than 63 bytes");
        assert_eq!(Error::too_many(&name, 5, 3).to_string(), "metadata.name: Too many: 5: must have at most 3 items");
        assert_eq!(Error::duplicate(&name, "x").to_string(), "metadata.name: Duplicate value: \"x\"");
    }
}
