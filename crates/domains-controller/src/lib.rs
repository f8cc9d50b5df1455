//! Domains as objects of the API. A `Domain` (`datumapis.com/v1alpha`) names a domain; the controller here finds out who
//! registered it, asks for proof, watches over it, and tells changes as Events and as history. The entry point is [`run`].
//!
//! All knowledge of DNS is in `bailiwick-domains`; all decisions are pure functions of status, observation and clock
//! (`judge`), so that a restart repeats nothing and forgets nothing.

mod controller;
mod definition;
mod events;
mod judge;
mod status;

pub use controller::{Options, run};
pub use definition::{GROUP, VERSION, domain_definition};
pub use status::{Condition, DomainSpec, DomainStatus, VerificationStatus};

/// Why the controller cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API refused something.
    #[error(transparent)]
    Api(#[from] kube::Error),
    /// An object cannot be read.
    #[error("{name} cannot be read: {source}")]
    Object {
        /// Which.
        name: String,
        /// Why.
        source: serde_json::Error,
    },
    /// The tools cannot be set up.
    #[error(transparent)]
    Tools(#[from] bailiwick_domains::https::HttpError),
}
