//! Domains as objects of the API. A `Domain` (`datumapis.com/v1alpha`) names a domain; the controller here finds out who
//! registered it, asks for proof, watches over it, and tells changes as Events and as history. A `DomainCheck` runs one of the
//! DNS tools. The entry points are [`run`], and [`run_agent`] for vantage points on other machines.
//!
//! All knowledge of DNS is in `bailiwick-domains`; all decisions are pure functions of status, observation and clock
//! (`judge`), so that a restart repeats nothing and forgets nothing. Objects are served in the root and in all projects that
//! want them.

mod access;
mod agent;
mod agent_metrics;
mod agents;
mod check_status;
mod controller;
mod definition;
mod events;
mod follow;
mod health;
mod index;
mod judge;
mod metrics;
mod opt_out;
mod quota;
mod records;
mod seal;
mod status;
mod troubles;

pub use access::{AGENT_ROLE, SERVICE_NAMESPACE};
pub use agent::{AgentOptions, run_agent};
pub use agent_metrics::AgentMetrics;
pub use bailiwick_domains::history::record::{Drift, LastRight, RecordEvidence, RecordState, WantedRecord};
pub use controller::{LEASE, Options, PROJECT_LABEL, RESCAN_ANNOTATION, run};
pub use definition::{GROUP, VERSION, check_definition, domain_definition, probe_definition};
pub use metrics::Metrics;
pub use opt_out::OPT_OUT;
pub use seal::{SEAL_SECRET, Seal};
pub use status::{
    Announcement, Condition, DomainSpec, DomainStatus, ProofScope, Renewal, RenewalStatus, Trouble, VerificationSpec,
    VerificationStatus,
};

/// Why the controller, or an agent, cannot go on.
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
    /// The stream of what happens in projects broke.
    #[error("{0}")]
    Stream(String),
    /// The tools cannot be set up.
    #[error(transparent)]
    Tools(#[from] bailiwick_domains::https::HttpError),
    /// The Secret with the key of seals has none.
    #[error(
        "the Secret {} in {} has no key: restore it, or delete it and have all domains proved again",
        SEAL_SECRET,
        SERVICE_NAMESPACE
    )]
    SealKey,
    /// An agent's name is not one.
    #[error("{0:?} cannot be the name of an agent: up to 40 small letters, digits and hyphens, such as pop-fra1")]
    AgentName(String),
    /// Another agent has the name.
    #[error(
        "another agent is called {0} and is alive: give this one another name, or wait until that one's lease has ended"
    )]
    AgentThere(String),
}

impl From<bailiwick_controllers::plane::stream::Broken> for Error {
    fn from(broken: bailiwick_controllers::plane::stream::Broken) -> Self {
        use bailiwick_controllers::plane::stream::Broken;
        match broken {
            Broken::Request(error) => Self::Api(error),
            Broken::LineTooLong => Self::Stream(broken.to_string()),
        }
    }
}

impl bailiwick_controllers::work_queue::Failure for Error {
    fn is_routine(&self) -> bool {
        matches!(self, Self::Api(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found())
    }
}
