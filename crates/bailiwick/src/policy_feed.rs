//! Keeps admission policies equal to what is stored: a policy or binding is in force before anybody can read it.

use std::sync::Arc;

use bailiwick_admission::Plugin;
use bailiwick_admission::policy::{
    Change, MutatingAdmissionPolicy, ParameterAccess, Policies, Stored, ValidatingAdmissionPolicy,
};
use bailiwick_server::Registry;
use bailiwick_server::cache::{Caches, Event};
use bailiwick_store as store;

/// The plugins for policies, fed with what is stored from now on.
pub async fn connect(registry: &Registry, caches: &Arc<Caches>) -> store::Result<Vec<Box<dyn Plugin>>> {
    let (validating, mutating) = (Policies::validating(), Policies::mutating());
    for (plural, policies, stored) in [
        ("validatingadmissionpolicies", &validating, Stored::Policy),
        ("validatingadmissionpolicybindings", &validating, Stored::Binding),
        ("mutatingadmissionpolicies", &mutating, Stored::Policy),
        ("mutatingadmissionpolicybindings", &mutating, Stored::Binding),
    ] {
        let served = registry.any_version("admissionregistration.k8s.io", plural);
        let Some(spec) = served.and_then(|served| served.cache.as_ref()) else { continue };
        let cache = caches.resource(spec).await?;
        cache.mark_decisive();
        let policies = policies.clone();
        cache.subscribe(Box::new(move |event| apply(&policies, stored, event)));
    }
    Ok(vec![
        Box::new(ParameterAccess::new(validating.clone(), mutating.clone())),
        Box::new(MutatingAdmissionPolicy::new(mutating)),
        Box::new(ValidatingAdmissionPolicy::new(validating)),
    ])
}

fn apply(policies: &Policies, stored: Stored, event: &Event) {
    let object = &event.object;
    if event.deleted {
        return policies.apply(stored, &Change::Delete(object.name()));
    }
    match object.to_value() {
        Ok(value) => policies.apply(stored, &Change::Put(&value)),
        Err(error) => tracing::error!(%error, name = object.name(), "stored admission policy cannot be read"),
    }
}
