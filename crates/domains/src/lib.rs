//! Domains and DNS: what the servers of a name say right now, why, and what a person should do about it. The engine asks
//! every server of every zone cut itself, from the root hints, without a cache; registration data comes from RDAP and WHOIS.
//!
//! Network, time and roots are passed in ([`seams`]), so that the same code runs on the real internet and on a fake one.
//! This crate knows nothing of Kubernetes objects or of the API server.

pub mod advice;
pub mod authority;
pub mod caa;
pub mod check;
pub mod dial;
pub mod dnssec;
pub mod endpoint;
pub mod engine;
pub mod evidence;
#[cfg(test)]
mod fuzz;
pub mod history;
pub mod https;
pub mod name;
pub mod plan;
pub mod probe;
pub mod provider;
pub mod quote;
pub mod recursive;
pub mod registration;
pub mod report;
pub mod resolve;
#[cfg(test)]
mod responder;
pub mod scan;
pub mod seams;
pub mod toolbox;
pub mod transport;
pub mod verdict;
pub mod verification;
pub mod wire;
pub mod zonecheck;
