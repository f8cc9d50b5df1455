//! NamespaceLifecycle: nothing new in a namespace that is missing or going, and some namespaces never go.

use async_trait::async_trait;
use bailiwick_machinery::status::{ApiResult, Cause};
use bailiwick_machinery::{ApiError, GroupResource};

use crate::attributes::{Attributes, Operation, forbidden};
use crate::chain::{Lookup, NamespaceState, Phase, Plugin};

/// The plugin.
pub struct NamespaceLifecycle;

/// Upstream's list; kube-node-lease is not on it.
const IMMORTAL: &[&str] = &["default", "kube-system", "kube-public"];

#[async_trait]
impl Plugin for NamespaceLifecycle {
    fn name(&self) -> &'static str {
        "NamespaceLifecycle"
    }

    fn handles(&self, operation: Operation, phase: Phase) -> bool {
        phase == Phase::Mutate && operation != Operation::Connect
    }

    async fn mutate(&self, attributes: &mut Attributes<'_>, lookup: &dyn Lookup) -> ApiResult<()> {
        check(attributes, lookup)
    }
}

fn check(attributes: &Attributes<'_>, lookup: &dyn Lookup) -> ApiResult<()> {
    if attributes.is_kind("", "Namespace") {
        let immortal = attributes.operation == Operation::Delete && IMMORTAL.contains(&attributes.name);
        return if immortal { Err(forbidden(attributes, "this namespace may not be deleted")) } else { Ok(()) };
    }
    let namespace = attributes.namespace;
    // An access review that said "no such namespace" would tell which exist.
    let access_review = attributes.is_kind("authorization.k8s.io", "LocalSubjectAccessReview");
    if namespace.is_empty() || attributes.operation == Operation::Delete || access_review {
        return Ok(());
    }
    match lookup.namespace_state(namespace) {
        NamespaceState::Active => Ok(()),
        NamespaceState::Missing => {
            let namespaces = GroupResource { group: String::new(), resource: "namespaces".to_owned() };
            Err(ApiError::not_found(&namespaces, namespace))
        }
        NamespaceState::Terminating if attributes.operation == Operation::Create => {
            Err(terminating(attributes, namespace))
        }
        // What is already there may still be changed, finalizers above all.
        NamespaceState::Terminating => Ok(()),
    }
}

fn terminating(attributes: &Attributes<'_>, namespace: &str) -> ApiError {
    let detail = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let mut error = forbidden(attributes, &detail);
    error.details.get_or_insert_default().causes.push(Cause {
        reason: "NamespaceTerminating".to_owned(),
        message: format!("namespace {namespace} is being terminated"),
        field: "metadata.namespace".to_owned(),
    });
    error
}

#[cfg(test)]
mod tests;
