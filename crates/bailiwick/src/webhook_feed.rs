//! Keeps the indexes of webhooks equal to the stored configurations: a change counts for the next request.

use std::sync::Arc;

use bailiwick_admission::webhook::{ConfigurationChange, WebhookIndex, WebhookKind};
use bailiwick_server::Registry;
use bailiwick_server::cache::{Caches, Event};
use bailiwick_store as store;

/// Fills the indexes and subscribes them to changes.
pub async fn connect(indexes: [&WebhookIndex; 2], registry: &Registry, caches: &Arc<Caches>) -> store::Result<()> {
    for served in registry.all().filter(|served| served.resource.group == "admissionregistration.k8s.io") {
        let (Some(kind), Some(spec)) = (WebhookKind::from_plural(&served.resource.plural), &served.cache) else {
            continue;
        };
        for index in indexes.into_iter().filter(|index| index.kind() == kind) {
            let index = index.clone();
            let cache = caches.resource(spec).await?;
            cache.mark_decisive();
            cache.subscribe(Box::new(move |event| apply(&index, event)));
        }
    }
    Ok(())
}

fn apply(index: &WebhookIndex, event: &Event) {
    let object = &event.object;
    if event.deleted {
        return index.apply(ConfigurationChange::Deleted { name: object.name() });
    }
    match object.to_value() {
        Ok(value) => index.apply(ConfigurationChange::Stored(&value)),
        Err(error) => tracing::error!(%error, name = object.name(), "stored webhook configuration cannot be read"),
    }
}
