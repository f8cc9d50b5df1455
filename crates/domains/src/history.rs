//! What changed about a domain between two observations, when to warn of its expiration, and what was known at a time in the
//! past. Pure functions of clock and stored state: whoever calls them twice with the same input gets the same answer, after a
//! restart too.

pub mod change;
pub mod expiry;
pub mod past;
pub mod record;

pub use change::{Change, Field, Incident, Observation, UNKNOWN, changes, incidents, learned};
pub use expiry::{ExpiryAlert, ExpiryState, THRESHOLD_DAYS};

/// Changes that are kept with a domain, besides those of who has it.
pub const HISTORY_MAX: usize = 100;
/// Changes of who has it that are kept: a server that comes and goes must not wash them away.
pub const OWNERSHIP_HISTORY_MAX: usize = 50;
