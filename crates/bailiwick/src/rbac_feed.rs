//! Keeps the RBAC index equal to the stored roles and bindings: a change is in the index before anybody can read it.

use std::sync::Arc;

use bailiwick_auth::authz::rbac::{Change, Rbac, RbacKind};
use bailiwick_server::Registry;
use bailiwick_server::cache::{Caches, Event};
use bailiwick_store::{self as store, Revision};

/// Whether there are stored roles and bindings at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredRoles {
    Served,
    Absent,
}

/// Fills the index and subscribes it to changes. What has existed since `base` without being stored is in it already.
pub async fn connect(
    rbac: &Rbac,
    registry: &Registry,
    caches: &Arc<Caches>,
    base: Option<Revision>,
) -> store::Result<StoredRoles> {
    let mut found = StoredRoles::Absent;
    for served in registry.all() {
        let kind = RbacKind::from_plural(&served.resource.plural);
        let (Some(kind), Some(spec)) =
            (kind.filter(|_| served.resource.group == "rbac.authorization.k8s.io"), &served.cache)
        else {
            continue;
        };
        found = StoredRoles::Served;
        let rbac = rbac.clone();
        let cache = caches.resource(spec).await?;
        cache.mark_decisive();
        cache.subscribe(Box::new(move |event| {
            if event.deleted || base != Some(event.revision()) {
                apply(&rbac, kind, event);
            }
        }));
    }
    Ok(found)
}

fn apply(rbac: &Rbac, kind: RbacKind, event: &Event) {
    let object = &event.object;
    if event.deleted {
        rbac.apply(kind, Change::Deleted { namespace: object.namespace(), name: object.name() });
        return;
    }
    match object.to_value() {
        Ok(value) => rbac.apply(kind, Change::Stored(&value)),
        Err(error) => tracing::error!(%error, name = object.name(), "stored RBAC object cannot be read"),
    }
}
