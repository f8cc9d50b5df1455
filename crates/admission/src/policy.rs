//! Admission policies: rules in CEL that validate or change requests inside the server.
//!
//! [`Policies`] holds the stored policies of one kind with their bindings, fed by the server's change log; a policy is
//! compiled when the first request matches it. The plugins [`ValidatingAdmissionPolicy`] and [`MutatingAdmissionPolicy`]
//! run them.

mod compiled;
mod evaluation;
mod index;
mod mutating;
mod param_access;
mod params;
#[cfg(test)]
mod tests;
mod validating;

pub use index::{Change, Policies, Stored};
pub use mutating::MutatingAdmissionPolicy;
pub use param_access::ParameterAccess;
pub use params::{ParamKind, ParamScope};
pub use validating::ValidatingAdmissionPolicy;

use crate::attributes::Attributes;

/// Policies never decide about policies, which could then no longer be repaired.
const CONFIGURATION: &[&str] = &[
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
];

/// Reviews that policies must not get in the way of.
const REVIEWS: &[(&str, &str)] = &[
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
];

fn is_exempt(attributes: &Attributes<'_>) -> bool {
    let (group, plural) = (attributes.resource.group.as_str(), attributes.resource.plural.as_str());
    (group == "admissionregistration.k8s.io" && CONFIGURATION.contains(&plural)) || REVIEWS.contains(&(group, plural))
}
