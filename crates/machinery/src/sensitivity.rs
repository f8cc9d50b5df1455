//! Which resources hold values that nobody but their readers may see. Messages, annotations and audit events ask here
//! before they repeat anything of an object.

/// What stands in messages where a value of a Secret would be, as upstream has it.
pub const CONCEALED: &str = "<secret contents redacted>";

/// What of a resource's objects must not be seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sensitivity {
    #[default]
    Nothing,
    /// Secrets: their data.
    Secret,
    /// Token requests and reviews: `spec.token` and `status.token`.
    Token,
}

impl Sensitivity {
    /// What bodies of a resource hold.
    pub fn of(group: &str, resource: &str, subresource: &str) -> Self {
        match (group, resource, subresource) {
            ("", "secrets", _) => Self::Secret,
            ("", "serviceaccounts", "token") | ("authentication.k8s.io", "tokenreviews", _) => Self::Token,
            _ => Self::Nothing,
        }
    }

    /// Whether anything is to be hidden.
    pub fn conceals(self) -> bool {
        self != Self::Nothing
    }
}
