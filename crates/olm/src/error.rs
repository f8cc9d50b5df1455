//! What can go wrong. What is the user's to repair goes into conditions; what is here is tried again.

use bailiwick_controllers::work_queue::Failure;

/// Why something could not be done now.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Request(#[from] kube::Error),
    /// Something of this machine, such as a directory.
    #[error("{what}: {error}")]
    Io { what: String, error: std::io::Error },
    #[error("{0}")]
    Other(String),
}

impl Failure for Error {
    fn is_routine(&self) -> bool {
        matches!(self, Error::Request(error) if is_conflict(error))
    }
}

pub(crate) fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_conflict() && !status.is_already_exists())
}

/// Paths that nobody serves are answered with 404 and no Status.
pub(crate) fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_not_found() || status.code == 404)
}

pub(crate) fn is_already_there(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_already_exists())
}

/// What a refusal says, without the words of the client library.
pub(crate) fn plain(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => {
            let mut text = other.to_string();
            let mut source = std::error::Error::source(other);
            while let Some(inner) = source {
                let inner_text = inner.to_string();
                if !text.contains(&inner_text) {
                    text.push_str(": ");
                    text.push_str(&inner_text);
                }
                source = inner.source();
            }
            text
        }
    }
}
