//! What can go wrong for a controller while it works on something. All of it is retried; the text goes to the log.

use kube::core::Status;

use crate::plane::stream::Broken;
use crate::work_queue::Failure;

/// See the module.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Request(#[from] kube::Error),
    #[error("discovery at {path}: {detail}")]
    Discovery { path: &'static str, detail: String },
    /// The object changed under us; the next try sees its new state.
    #[error("{0} changed meanwhile")]
    Changed(String),
    #[error("{0}")]
    Incomplete(String),
}

impl From<Broken> for Error {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Request(error) => Error::Request(error),
            Broken::LineTooLong => Error::Incomplete(broken.to_string()),
        }
    }
}

impl Failure for Error {
    fn is_routine(&self) -> bool {
        match self {
            Error::Request(error) => is_conflict(error),
            Error::Changed(_) => true,
            Error::Discovery { .. } | Error::Incomplete(_) => false,
        }
    }
}

/// The server's answer, if it is one.
pub(crate) fn status(error: &kube::Error) -> Option<&Status> {
    match error {
        kube::Error::Api(status) => Some(status),
        _ => None,
    }
}

pub(crate) fn is_not_found(error: &kube::Error) -> bool {
    status(error).is_some_and(Status::is_not_found)
}

pub(crate) fn is_conflict(error: &kube::Error) -> bool {
    status(error).is_some_and(|status| status.is_conflict() && !status.is_already_exists())
}

pub(crate) fn is_already_there(error: &kube::Error) -> bool {
    status(error).is_some_and(Status::is_already_exists)
}

/// Whether the server refused a create because its namespace is going away.
pub(crate) fn is_namespace_terminating(error: &kube::Error) -> bool {
    let causes = status(error).and_then(|status| status.details.as_ref()).map(|details| details.causes.as_slice());
    causes.unwrap_or_default().iter().any(|cause| cause.reason == "NamespaceTerminating")
}
