//! What a gRPC status from etcd means for our callers, and whether the request may be tried again.

use std::error::Error as _;

use tonic::{Code, Status};

use crate::Error;

/// etcd's own errors begin with this; everything else comes from gRPC or the network.
const ETCD: &str = "etcdserver: ";

/// An etcd error that the engine reacts to rather than passes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    Compacted,
    FutureRevision,
    LeaseNotFound,
}

/// The error if it is one the engine handles itself.
pub fn known(status: &Status) -> Option<Known> {
    match status.message().strip_prefix(ETCD)? {
        "mvcc: required revision has been compacted" => Some(Known::Compacted),
        "mvcc: required revision is a future revision" => Some(Known::FutureRevision),
        "requested lease not found" => Some(Known::LeaseNotFound),
        _ => None,
    }
}

/// Whether the request certainly never left this machine, so that even a write may be tried elsewhere.
pub fn never_sent(status: &Status) -> bool {
    let mut source = status.source();
    while let Some(error) = source {
        if error.is::<tonic::ConnectError>() {
            return true;
        }
        source = error.source();
    }
    false
}

/// Whether another member, or the same one later, may well answer. Only for requests that are safe to repeat.
pub fn transient(status: &Status) -> bool {
    if status.message().starts_with(ETCD) {
        // "no leader", "leader changed", "request timed out", "server stopped", …; the rest are verdicts.
        // A learner cannot serve us, but another member can.
        return matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded)
            || status.message().ends_with("rpc not supported for learner")
            || status.message().ends_with("too many requests");
    }
    // A connection that breaks shows up under any of these, depending on what it was doing.
    matches!(
        status.code(),
        Code::Unavailable | Code::Unknown | Code::Cancelled | Code::Internal | Code::DeadlineExceeded | Code::Aborted
    )
}

/// The error as callers of the store see it.
pub fn to_error(status: &Status) -> Error {
    let message = || status.message().to_owned();
    match status.code() {
        Code::ResourceExhausted if status.message().contains("database space exceeded") => Error::NoSpace(message()),
        // gRPC's own limit on the size of a request, just above etcd's.
        Code::ResourceExhausted if status.message().contains("larger than max") => Error::InvalidRequest(message()),
        Code::InvalidArgument | Code::OutOfRange => Error::InvalidRequest(message()),
        Code::DataLoss => Error::Corrupt(message()),
        _ => {
            let mut text = format!("{}: {}", status.code(), status.message());
            let mut source = status.source();
            while let Some(error) = source {
                text.push_str(&format!(": {error}"));
                source = error.source();
            }
            Error::Unavailable(text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_disk_quota_is_no_space_but_overload_is_not() {
        let full = Status::resource_exhausted("etcdserver: mvcc: database space exceeded");
        assert!(matches!(to_error(&full), Error::NoSpace(_)));
        assert!(!transient(&full));
        let busy = Status::resource_exhausted("etcdserver: too many requests");
        assert!(matches!(to_error(&busy), Error::Unavailable(_)));
        assert!(transient(&busy));
    }

    #[test]
    fn oversized_requests_are_the_callers_fault() {
        for status in [
            Status::invalid_argument("etcdserver: request is too large"),
            Status::resource_exhausted("grpc: received message larger than max (3000000 vs. 2097152)"),
        ] {
            assert!(matches!(to_error(&status), Error::InvalidRequest(_)), "{status:?}");
            assert!(!transient(&status));
        }
    }

    #[test]
    fn a_corrupt_cluster_is_not_retried() {
        let status = Status::data_loss("etcdserver: corrupt cluster");
        assert!(matches!(to_error(&status), Error::Corrupt(_)));
        assert!(!transient(&status));
    }

    #[test]
    fn history_errors_are_recognised() {
        let gone = Status::out_of_range("etcdserver: mvcc: required revision has been compacted");
        let future = Status::out_of_range("etcdserver: mvcc: required revision is a future revision");
        assert_eq!(known(&gone), Some(Known::Compacted));
        assert_eq!(known(&future), Some(Known::FutureRevision));
        assert_eq!(known(&Status::unavailable("etcdserver: no leader")), None);
    }

    #[test]
    fn a_lost_leader_is_worth_another_try() {
        for text in ["etcdserver: no leader", "etcdserver: leader changed", "etcdserver: request timed out"] {
            assert!(transient(&Status::unavailable(text)));
            assert!(!never_sent(&Status::unavailable(text)));
        }
    }
}
