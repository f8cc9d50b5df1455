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

/// Whether a request that failed may well succeed when it is made again: nobody answered, or whoever did was busy or out
/// of order. What was understood and refused is not meant.
pub(crate) fn is_passing(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => matches!(status.code, 409 | 429 | 500..) || is_of_terminating_namespace(status),
        // What cannot even be asked for.
        kube::Error::BuildRequest(_) => false,
        _ => true,
    }
}

/// What was to be written into a namespace that goes away can be once it is made anew.
fn is_of_terminating_namespace(status: &kube::core::Status) -> bool {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    causes.any(|cause| cause.reason == "NamespaceTerminating")
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

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(code: u16) -> kube::Error {
        kube::Error::Api(Box::new(kube::core::Status { code, ..Default::default() }))
    }

    #[test]
    fn refusals_last_and_troubles_pass() {
        for code in [409, 429, 500, 502, 503, 504] {
            assert!(is_passing(&answered(code)), "{code}");
        }
        for code in [400, 403, 404, 405, 422] {
            assert!(!is_passing(&answered(code)), "{code}");
        }
        assert!(is_passing(&kube::Error::Service("connection refused".into())));
    }
}
