//! What changed about a domain between two observations, and when to warn of its expiration. Pure functions of clock and
//! stored state: whoever calls them twice with the same input gets the same answer, after a restart too.

pub mod change;
pub mod expiry;

pub use change::{Change, Field, Incident, Observation, changes, incidents};
pub use expiry::{ExpiryAlert, ExpiryState, THRESHOLD_DAYS};
