//! The endpoints of services that namespaces keep in ConfigMaps, read when somebody asks for one.
//!
//! Nothing is loaded before: a control plane whose configurations name no services does not pay for them.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, Weak};

use bailiwick_aggregation::Aggregator;
use bailiwick_server::cache::{Caches, ResourceCache};
use bailiwick_server::{Registry, Served};
use bailiwick_webhook::services::{ENDPOINTS_CONFIG_MAP, EndpointMaps, Mapping};
use serde::Deserialize;
use tokio::sync::OnceCell;

/// See the module.
pub(crate) struct StoredEndpointMaps {
    /// ConfigMaps, where they are served.
    served: Option<Arc<Served>>,
    /// Not held: definitions and webhooks, which the caches feed, hold on to us.
    caches: Weak<Caches>,
    cache: OnceCell<Arc<ResourceCache>>,
    /// Wants to know when something has moved.
    listener: OnceLock<Weak<Aggregator>>,
}

#[derive(Deserialize)]
struct ConfigMap {
    #[serde(default)]
    data: Option<BTreeMap<String, String>>,
}

impl StoredEndpointMaps {
    pub fn new(registry: &Registry, caches: &Arc<Caches>) -> Self {
        let served = registry.any_version("", "configmaps").cloned();
        Self { served, caches: Arc::downgrade(caches), cache: OnceCell::new(), listener: OnceLock::new() }
    }

    /// Tells `aggregator` of changes from now on.
    pub fn tell(&self, aggregator: &Arc<Aggregator>) {
        let _ = self.listener.set(Arc::downgrade(aggregator));
    }

    async fn find(&self, namespace: &str) -> Result<Option<BTreeMap<String, String>>, String> {
        let Some((served, spec)) = self.served.as_ref().and_then(|served| Some((served, served.cache.as_ref()?)))
        else {
            return Ok(None);
        };
        let load = || async {
            let caches = self.caches.upgrade().ok_or("the server has stopped")?;
            let cache = caches.resource(spec).await.map_err(|error| error.to_string())?;
            let listener = self.listener.get().cloned().unwrap_or_default();
            cache.subscribe(Box::new(move |event| {
                if event.object.name() == ENDPOINTS_CONFIG_MAP
                    && let Some(aggregator) = listener.upgrade()
                {
                    aggregator.look_again();
                }
            }));
            Ok::<_, String>(cache)
        };
        let cache = self.cache.get_or_try_init(load).await?;
        let Some(map) = cache.get(&served.key(namespace, ENDPOINTS_CONFIG_MAP)) else { return Ok(None) };
        let map: ConfigMap = serde_json::from_slice(map.stored_json()).map_err(|error| error.to_string())?;
        Ok(map.data)
    }
}

impl EndpointMaps for StoredEndpointMaps {
    fn endpoints<'a>(&'a self, namespace: &'a str) -> Mapping<'a> {
        Box::pin(self.find(namespace))
    }
}
