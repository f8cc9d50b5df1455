//! Watches the kinds that matter and works on what has changed, until it is dropped.

use std::sync::Arc;

use bailiwick_controllers::work_queue::Outcome;
use futures::StreamExt;
use kube::api::{Api, DynamicObject, PartialObjectMeta};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Client, ResourceExt};

use crate::catalog_source::{self, SourcesRead};
use crate::catalogs::Catalogs;
use crate::context::{Context, Key};
use crate::error::Error;
use crate::kinds::{
    CATALOG_SOURCE, CLUSTER_CATALOG, CLUSTER_EXTENSION, CRD, CSV, INSTALL_PLAN, Kind, NAMESPACE, OPERATOR_CONDITION,
    OPERATOR_GROUP, SUBSCRIPTION,
};
use crate::pull::Puller;
use crate::{Options, cluster_catalog, cluster_extension, namespace, package_server};

/// What is worked on at once: most of it waits for registries.
const CONCURRENCY: usize = 8;

/// Works forever.
pub(crate) async fn work(client: Client, options: Options) -> Result<(), Error> {
    let puller = Puller::new(options.pull, &options.directory);
    let catalogs: Arc<Catalogs> = Arc::default();
    let context = Context::new(client.clone(), options.global_namespace.clone(), puller, catalogs.clone());
    let read = SourcesRead::default();
    let serving = async {
        let Some(server) = options.package_server else { return std::future::pending().await };
        let Err(error) = package_server::serve(&client, server, &options.global_namespace, catalogs).await;
        tracing::error!(%error, "PackageManifests are not served");
        std::future::pending().await
    };
    let watching = futures::future::join_all([
        watch(&context, CATALOG_SOURCE),
        watch(&context, SUBSCRIPTION),
        watch(&context, INSTALL_PLAN),
        watch(&context, CSV),
        watch(&context, OPERATOR_GROUP),
        watch(&context, OPERATOR_CONDITION),
        watch(&context, CLUSTER_CATALOG),
        watch(&context, CLUSTER_EXTENSION),
        watch(&context, CRD),
        watch(&context, NAMESPACE),
    ]);
    let working = context.queue.work("olm", CONCURRENCY, |key| reconcile(&context, &read, key));
    tokio::select! {
        () = serving => {}
        _ = watching => {}
        () = working => {}
    }
    Ok(())
}

async fn reconcile(context: &Context, read: &SourcesRead, key: Key) -> Result<Outcome, Error> {
    match &key {
        Key::CatalogSource { namespace, name } => catalog_source::reconcile(context, read, namespace, name).await,
        Key::Namespace(namespace) => namespace::reconcile(context, namespace).await,
        Key::ClusterCatalog(name) => cluster_catalog::reconcile(context, read, name).await,
        Key::ClusterExtension(name) => cluster_extension::reconcile(context, name).await,
    }
}

/// Adds to the queue whatever changes of a kind, forever.
async fn watch(context: &Context, kind: Kind) {
    let api: Api<PartialObjectMeta<DynamicObject>> = Api::all_with(context.client.clone(), &kind.resource());
    let events = watcher::watcher(api, watcher::Config::default());
    let mut events = std::pin::pin!(events.default_backoff());
    while let Some(event) = events.next().await {
        let object = match event {
            Ok(Event::Apply(object) | Event::InitApply(object) | Event::Delete(object)) => object,
            Ok(Event::Init | Event::InitDone) => continue,
            Err(error) => {
                tracing::debug!(%error, kind = kind.kind, "watching begins anew");
                continue;
            }
        };
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        match kind {
            CATALOG_SOURCE => {
                context.queue.add(Key::CatalogSource { namespace: namespace.clone(), name });
                // Its health is told by Subscriptions.
                context.catalogs_changed();
            }
            CLUSTER_CATALOG => context.queue.add(Key::ClusterCatalog(name)),
            CLUSTER_EXTENSION => context.queue.add(Key::ClusterExtension(name)),
            CRD => context.catalogs_changed(),
            NAMESPACE => context.namespace_changed(&name),
            _ => context.queue.add(Key::Namespace(namespace)),
        }
    }
}
