//! Keeps what is served equal to the stored CustomResourceDefinitions: a definition that anybody can see established is
//! served, and one that is gone is not. One whose names are accepted and that is not established yet is served to those
//! who know of it, as upstream does.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bailiwick_apiextensions::Definition;
use bailiwick_apiextensions::definition::{Converters, Names};
use bailiwick_server::cache::{Event, Object};
use bailiwick_server::{Tenant, Visibility};
use bailiwick_store as store;

/// What decides how a definition is served. Other changes of it, such as most of its status, change nothing.
#[derive(PartialEq)]
struct Served {
    generation: i64,
    established: bool,
    names_accepted: bool,
    terminating: bool,
    names: Names,
}

/// Serves what is defined, from now on.
pub async fn connect(tenant: &Arc<Tenant>, converters: Arc<dyn Converters>) -> store::Result<()> {
    let Some(cache) = tenant.cache_of("apiextensions.k8s.io", "customresourcedefinitions").await? else {
        return Ok(());
    };
    // Whoever has changed a definition is answered by the changed one in the very next request.
    cache.mark_decisive();
    let served: Mutex<HashMap<Box<str>, Served>> = Mutex::default();
    // The control plane may go before the cache that holds this subscriber.
    let tenant = Arc::downgrade(tenant);
    cache.subscribe(Box::new(move |event| {
        let Some(tenant) = tenant.upgrade() else { return };
        let mut served = served.lock().unwrap_or_else(PoisonError::into_inner);
        apply(&tenant, &*converters, &mut served, event);
    }));
    Ok(())
}

fn apply(tenant: &Tenant, converters: &dyn Converters, served: &mut HashMap<Box<str>, Served>, event: &Event) {
    let object: &Object = &event.object;
    // The name of a definition is its plural and group.
    let Some((plural, group)) = object.name().split_once('.') else { return };
    if event.deleted {
        served.remove(object.name());
        tenant.redefine(group, plural, &[], Visibility::Hidden);
        return;
    }
    let definition = match Definition::parse(object.stored_json()) {
        Ok(definition) => definition,
        Err(error) => return tracing::error!(%error, name = object.name(), "definition is not served"),
    };
    let now = Served {
        generation: definition.generation,
        established: definition.established,
        names_accepted: definition.names_accepted,
        terminating: definition.terminating,
        names: definition.accepted_names.clone(),
    };
    if served.get(object.name()) != Some(&now) {
        let visibility = if definition.established { Visibility::Discoverable } else { Visibility::Hidden };
        tenant.redefine(group, plural, &definition.resources(object.revision.0, converters), visibility);
        served.insert(object.name().into(), now);
    }
}
