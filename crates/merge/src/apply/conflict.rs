//! Who manages fields, and what is said when an applied configuration meets fields of somebody else.

use std::borrow::Cow;
use std::fmt;

use bailiwick_schema::decode::go_quote;

use super::path::{Html, write_string};

/// How a manager came to own its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    Apply,
    Update,
}

impl Operation {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// What tells the entries of `managedFields` apart.
#[derive(Clone, Debug)]
pub struct ManagerId<'a> {
    pub manager: Cow<'a, str>,
    pub operation: Operation,
    /// The version its fields are named in; part of the identity for updates only.
    pub api_version: Cow<'a, str>,
    pub subresource: Cow<'a, str>,
}

impl PartialEq for ManagerId<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.manager == other.manager
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }
}

impl Eq for ManagerId<'_> {}

impl ManagerId<'_> {
    pub(super) fn into_owned(self) -> ManagerId<'static> {
        ManagerId {
            manager: Cow::Owned(self.manager.into_owned()),
            operation: self.operation,
            api_version: Cow::Owned(self.api_version.into_owned()),
            subresource: Cow::Owned(self.subresource.into_owned()),
        }
    }

    /// The text upstream sorts managers by.
    pub(super) fn sort_text(&self) -> String {
        let mut out = String::from("{");
        let mut field = |name: &str, value: &str| {
            if !value.is_empty() {
                if out.len() > 1 {
                    out.push(',');
                }
                out.push_str(name);
                write_string(&mut out, value, Html::Escaped);
            }
        };
        field("\"manager\":", &self.manager);
        field("\"operation\":", self.operation.as_str());
        if self.operation == Operation::Update {
            field("\"apiVersion\":", &self.api_version);
        }
        field("\"subresource\":", &self.subresource);
        out.push('}');
        out
    }
}

/// As conflict messages name it: `"kubectl" with subresource "status" using v1`.
impl fmt::Display for ManagerId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&go_quote(&self.manager))?;
        if !self.subresource.is_empty() {
            write!(f, " with subresource {}", go_quote(&self.subresource))?;
        }
        if self.operation == Operation::Update {
            write!(f, " using {}", self.api_version)?;
        }
        Ok(())
    }
}

/// A field that somebody else owns and the configuration would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    pub manager: ManagerId<'static>,
    /// `.data.key`: the `field` of the cause.
    pub path: String,
}

impl Conflict {
    /// The message of the cause of type `FieldManagerConflict`.
    pub fn message(&self) -> String {
        format!("conflict with {}", self.manager)
    }
}

/// Every conflict of one request, by manager. Printed, they are the message of the 409 Status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflicts(pub Vec<Conflict>);

impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [conflict] = self.0.as_slice() {
            return write!(f, "Apply failed with 1 conflict: {}: {}", conflict.message(), conflict.path);
        }
        write!(f, "Apply failed with {} conflicts: ", self.0.len())?;
        let mut previous: Option<&ManagerId<'_>> = None;
        for conflict in &self.0 {
            let newline = if previous.is_some() { "\n" } else { "" };
            if previous != Some(&conflict.manager) {
                writeln!(f, "{newline}conflicts with {}:", conflict.manager)?;
            } else {
                f.write_str(newline)?;
            }
            write!(f, "- {}", conflict.path)?;
            previous = Some(&conflict.manager);
        }
        Ok(())
    }
}
