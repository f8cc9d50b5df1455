//! The durable heart of Bailiwick: ordered keys, opaque values and one 64-bit clock of revisions.
//!
//! [`Store`] is etcd's data model as a Rust trait, because Kubernetes semantics are built on it: compare-and-set on the
//! revision a key was last written at, ranges at a past revision, and a watch that is ordered and gap-free. Two engines
//! implement it, [`embedded`] (default) and [`etcd`]; [`contract`] is the one test suite both must pass.
//!
//! This crate knows nothing of JSON, HTTP or Kubernetes.

#[cfg(feature = "contract")]
pub mod contract;
pub mod embedded;

mod contract_types;
mod error;
pub mod etcd;

pub use contract_types::*;
pub use error::Error;

/// Everything fallible in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
