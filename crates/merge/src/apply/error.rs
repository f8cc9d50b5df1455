//! Why an object could not be typed, tracked or applied; the texts are those clients of upstream see.

use std::fmt;

use super::conflict::Conflicts;

/// A value that does not fit its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeError {
    /// `.spec.ports[port=80]`; empty at the root.
    pub path: String,
    pub message: String,
}

/// Every value of an object that does not fit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeErrors(pub Vec<TypeError>);

impl TypeErrors {
    pub(super) fn one(message: impl Into<String>) -> Self {
        Self(vec![TypeError { path: String::new(), message: message.into() }])
    }

    /// The same errors, found below an element.
    pub(super) fn below(mut self, element: &impl fmt::Display) -> Self {
        let prefix = element.to_string();
        for error in &mut self.0 {
            error.path.insert_str(0, &prefix);
        }
        self
    }
}

impl fmt::Display for TypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() { f.write_str(&self.message) } else { write!(f, "{}: {}", self.path, self.message) }
    }
}

impl fmt::Display for TypeErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [error] = self.0.as_slice() {
            return write!(f, "{error}");
        }
        f.write_str("errors:")?;
        self.0.iter().try_for_each(|error| write!(f, "\n  {error}"))
    }
}

impl std::error::Error for TypeErrors {}

/// Why the fields of a written object could not be tracked. The write goes on without `managedFields`; this is for logs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    #[error("object does not fit its type: {0}")]
    Type(#[from] TypeErrors),
    #[error("failed to convert object: {0}")]
    Convert(String),
    #[error("failed to decode managed fields: {0}")]
    ManagedFields(String),
}

/// Why a configuration was not applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// Others own fields that the configuration sets to something else: 409 Conflict with a cause for each.
    #[error("{0}")]
    Conflict(Conflicts),
    /// 400 BadRequest with this text.
    #[error("{0}")]
    BadRequest(String),
    /// Upstream did not foresee this: 500 without a reason, with this text.
    #[error("{0}")]
    Unforeseen(String),
}

/// What stands before a value in the texts of `validation.rs`.
const BEFORE_VALUE: &str = "got ";

impl ApplyError {
    /// The same, but where a text would show a value of the object it ends with `instead`.
    pub fn without_values(self, instead: &str) -> Self {
        let conceal = |text: String| match text.split_once(BEFORE_VALUE) {
            Some((before, _)) => format!("{before}{BEFORE_VALUE}{instead}"),
            None => text,
        };
        match self {
            Self::BadRequest(text) => Self::BadRequest(conceal(text)),
            Self::Unforeseen(text) => Self::Unforeseen(conceal(text)),
            conflict @ Self::Conflict(_) => conflict,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_an_object_can_be_left_out_of_texts() {
        let error =
            ApplyError::Unforeseen(".data.a: expected string, got &value.valueUnstructured{Value:7}".to_owned());
        let concealed = ApplyError::Unforeseen(".data.a: expected string, got (hidden)".to_owned());
        assert_eq!(error.without_values("(hidden)"), concealed);
        let plain = ApplyError::BadRequest("metadata.managedFields must be nil".to_owned());
        assert_eq!(plain.clone().without_values("(hidden)"), plain);
    }
}
