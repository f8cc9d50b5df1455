//! Which bundles to install: dependency resolution over several catalogs, for the subscriptions of OLM v0 and the
//! extensions of OLM v1.
//!
//! A [`Request`] says what is wanted, what is installed and which catalogs there are ([`Snapshot`]s with priorities).
//! [`resolve`] answers with the [`Step`]s to take, or with a [`Refusal`] that tells in plain words which statements
//! cannot all be true and what would help.
//!
//! The solver is our own rather than `resolvo` or `pubgrub`. OLM's answer is defined by an order of choices: first the
//! subscriptions, each with its candidates from best to worst, then what the chosen bundles require, first in first
//! out. A solver with clause learning that always decides the first open choice gives exactly this answer, because a
//! candidate is passed over only when it is proven impossible under the choices before it; solvers that pick by fewest
//! candidates (as those crates do) give another. It also knows at-most-one sets natively (one bundle of a package, one
//! provider of an API), and remembers which statements every conclusion rests on, which is what a refusal is told from.

mod build;
mod describe;
mod installed;
mod left_out;
mod partial;
mod providers;
mod refusal;
mod request;
mod requirement;
mod search;
mod snapshot;
mod solver;
mod story;
mod wanted;

pub use describe::describe;
pub use installed::Installed;
pub use partial::{Partial, resolve_possible};
pub use refusal::{Reason, Refusal};
pub use request::{Because, Choice, Request, Resolution, Source, SourceKey, Step, Upgrades, Want};
pub use requirement::Requirement;
pub use search::{resolve, why_not};
pub(crate) use snapshot::BundleContent;
pub use snapshot::Snapshot;

#[cfg(test)]
mod tests;
