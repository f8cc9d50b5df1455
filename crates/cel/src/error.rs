//! What can go wrong while an expression runs. The texts are those of cel-go, because Kubernetes shows them to users.

use std::borrow::Cow;

/// Why an evaluation gave no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// An ordinary error of the language: it may be absorbed by `||`, `&&` and the macros built on them.
    #[error("{0}")]
    Failed(Cow<'static, str>),
    /// The budget is used up. Nothing absorbs this.
    #[error("operation cancelled: actual cost limit exceeded")]
    CostLimitExceeded,
}

impl EvalError {
    /// An ordinary error with this text.
    pub fn new(message: impl Into<Cow<'static, str>>) -> Self {
        Self::Failed(message.into())
    }

    /// The arguments have types no overload takes.
    pub fn no_such_overload() -> Self {
        Self::Failed(Cow::Borrowed("no such overload"))
    }

    /// A map or an object lacks the key.
    pub fn no_such_key(key: impl std::fmt::Display) -> Self {
        Self::Failed(Cow::Owned(format!("no such key: {key}")))
    }
}
