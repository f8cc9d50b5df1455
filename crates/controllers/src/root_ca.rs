//! Publishes the bundle that vouches for the API server, as ConfigMap `kube-root-ca.crt` in every active namespace.
//!
//! These maps are watched whole, but only these: whether one is as it should be is decided when it is seen, and nothing
//! of it is kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt};

use crate::discovery::ResourceType;
use crate::error::{Error, is_conflict};
use crate::monitor::{Change, Observer};
use crate::per_namespace::PerNamespace;
use crate::requests::ignore_not_found;
use crate::service_account::is_settled;
use crate::work_queue::Outcome;

const NAME: &str = "kube-root-ca.crt";
const KEY: &str = "ca.crt";
/// The annotation under which tools look for a description.
const DESCRIPTION_ANNOTATION: &str = "kubernetes.io/description";
const DESCRIPTION: &str = "The CA that vouches for the certificate of this API server.";
/// Namespaces worked on at the same time.
const WORKERS: usize = 8;

/// See the module.
pub(crate) struct RootCa {
    client: Client,
    bundle: String,
    tracker: PerNamespace,
}

impl RootCa {
    pub fn new(client: Client, bundle: String) -> Self {
        RootCa { client, bundle, tracker: PerNamespace::new() }
    }

    /// Works forever.
    pub async fn run(&self) {
        let publishing = self.tracker.queue.work("root-ca", WORKERS, |namespace| async move {
            self.publish(&namespace).await.map(|()| Outcome::Done)
        });
        tokio::join!(self.watch(), publishing);
    }

    async fn watch(&self) {
        let api: Api<ConfigMap> = Api::all(self.client.clone());
        let config = watcher::Config::default().fields(&format!("metadata.name={NAME}"));
        let mut events = watcher::watcher(api, config).default_backoff().boxed();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => self.tracker.object_list_started(),
                Ok(Event::InitApply(map) | Event::Apply(map)) => {
                    self.tracker.object_present(&map.namespace().unwrap_or_default(), is_good(&map, &self.bundle));
                }
                Ok(Event::Delete(map)) => self.tracker.object_deleted(&map.namespace().unwrap_or_default()),
                Ok(Event::InitDone) => self.tracker.objects_listed(),
                Err(error) => tracing::debug!(%error, "watch of root CA bundles interrupted"),
            }
        }
    }

    async fn publish(&self, namespace: &str) -> Result<(), Error> {
        if !self.tracker.is_lacking(namespace) {
            return Ok(());
        }
        publish(self.client.clone(), &self.bundle, namespace).await
    }
}

fn is_good(map: &ConfigMap, bundle: &str) -> bool {
    let described = map.annotations().get(DESCRIPTION_ANNOTATION).is_some_and(|text| !text.is_empty());
    described && map.data.as_ref().is_some_and(|data| data.len() == 1 && data.get(KEY).is_some_and(|it| it == bundle))
}

/// Makes the map of a namespace what it should be.
pub(crate) async fn publish(client: Client, bundle: &str, namespace: &str) -> Result<(), Error> {
    let api: Api<ConfigMap> = Api::namespaced(client, namespace);
    let data = BTreeMap::from([(KEY.to_owned(), bundle.to_owned())]);
    let description = (DESCRIPTION_ANNOTATION.to_owned(), DESCRIPTION.to_owned());
    let Some(mut live) = api.get_opt(NAME).await? else {
        let metadata = ObjectMeta {
            name: Some(NAME.to_owned()),
            annotations: Some(BTreeMap::from([description])),
            ..ObjectMeta::default()
        };
        let map = ConfigMap { metadata, data: Some(data), ..ConfigMap::default() };
        return match api.create(&PostParams::default(), &map).await {
            Err(error) if !is_settled(&error) => Err(error.into()),
            _ => Ok(()),
        };
    };
    if is_good(&live, bundle) {
        return Ok(());
    }
    live.data = Some(data);
    live.annotations_mut().extend([description]);
    match api.replace(NAME, &PostParams::default(), &live).await {
        Err(error) if is_conflict(&error) => Err(Error::Changed(format!("{namespace}/{NAME}"))),
        result => ignore_not_found(result),
    }
}

impl Observer for RootCa {
    fn observe(&self, resource: &Arc<ResourceType>, change: Change<'_>) {
        if resource.is("", "namespaces") {
            self.tracker.namespace_changed(change);
        }
    }
}
