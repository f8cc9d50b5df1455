//! The APIs by which clients ask about authentication and authorization themselves.
//!
//! Each function takes the posted review and gives it back with its status filled in. They validate as upstream does,
//! so no strategy has to; metadata and spec of the answer are those of the request unless said otherwise.

mod access;
mod rules;
mod selectors;
mod subject;

pub use access::{local_subject_access_review, self_subject_access_review, subject_access_review};
pub use rules::self_subject_rules_review;
pub use subject::{self_subject_review, token_review};

#[cfg(test)]
mod tests;
