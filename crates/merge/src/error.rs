//! Why a patch was not applied.

/// Variants are by the Status they become; the texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The patch itself is malformed: 400 BadRequest with this text.
    #[error("{0}")]
    BadRequest(String),
    /// The patch has too many operations: 413 RequestEntityTooLarge with this text.
    #[error("{0}")]
    TooLarge(String),
    /// The patch does not fit the object: 422 Invalid with empty details, whose message is always
    /// [`PatchError::REJECTED`]. What went wrong is for logs.
    #[error("{0}")]
    Rejected(String),
    /// Upstream did not foresee this: 500 without a reason, with this text.
    #[error("{0}")]
    Unforeseen(String),
}

impl PatchError {
    /// Whether a `test` operation found something else, so that the patch is not meant for the object.
    pub fn is_failed_test(&self) -> bool {
        matches!(self, Self::Rejected(text) if text.starts_with(crate::json_patch::FAILED_TEST))
    }

    /// The message clients see for [`PatchError::Rejected`].
    pub const REJECTED: &'static str = "the server rejected our request due to an error in our request";
}
