//! Proof that somebody controls a name. A [`Challenge`] is put into DNS, or onto the site, and every authoritative server is
//! asked from several places; what does not match is recognised down to the slip of the hand that made it so.
//!
//! Deciding is a pure function of what was seen; what was seen is kept as evidence.

pub mod challenge;
pub mod claims;
pub mod decision;
pub mod evidence;
pub mod site;
pub mod slip;
pub mod standing;
pub mod verifier;
mod visitors;
pub mod visits;

pub use challenge::{Challenge, Method, Scope, system_random};
pub use decision::{Finding, Verdict};
pub use evidence::Evidence;
pub use slip::Slip;
pub use verifier::Verifier;
pub use visits::Visits;
