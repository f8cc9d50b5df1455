//! Watches the kinds that matter and works on what has changed, until it is dropped.

use std::sync::Arc;
use std::time::Duration;

use bailiwick_controllers::work_queue::Outcome;
use futures::StreamExt;
use futures::future::BoxFuture;
use kube::api::{Api, DynamicObject, PartialObjectMeta};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Client, ResourceExt};
use tokio::sync::watch;

use crate::catalog_source::{self, SourcesRead};
use crate::catalogs::Catalogs;
use crate::context::{Context, Key, Role};
use crate::copied_csv::COPIED_FROM;
use crate::error::Error;
use crate::kinds::{
    CATALOG_SOURCE, CLUSTER_CATALOG, CLUSTER_EXTENSION, CRD, CSV, INSTALL_PLAN, Kind, NAMESPACE, OPERATOR_CONDITION,
    OPERATOR_GROUP, SUBSCRIPTION,
};
use crate::pull::Puller;
use crate::{Options, cluster_catalog, cluster_extension, crds, namespace, package_server};

/// What is worked on at once: most of it waits for registries.
const CONCURRENCY: usize = 8;

/// How often what was pulled and is not needed any more is removed.
const CLEANING_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

/// Does the work until `shutdown` is over, or, with others that do it too, whenever it is our turn.
pub(crate) async fn run(client: Client, options: Options, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
    let Options { directory, global_namespace, pull, package_server, election } = options;
    let shared = Shared {
        client: client.clone(),
        global_namespace: global_namespace.clone(),
        puller: Puller::new(pull, &directory),
        catalogs: Arc::default(),
    };
    let cleaning = async {
        loop {
            if let Err(error) = shared.puller.remove_unused().await {
                tracing::warn!(%error, "images that are not needed any more stay");
            }
            tokio::time::sleep(CLEANING_INTERVAL).await;
        }
    };
    let serving = async {
        let Some(server) = package_server else { return std::future::pending().await };
        let Err(error) = package_server::serve(&client, server, &global_namespace, shared.catalogs.clone()).await;
        tracing::error!(%error, "PackageManifests are not served");
        std::future::pending().await
    };
    let working = async {
        let Some(election) = election else {
            return tokio::select! {
                ended = lead(&shared) => ended,
                () = shutdown => Ok(()),
            };
        };
        let turn = watch::Sender::new(Role::Follower);
        let leading = |stopped: BoxFuture<'static, ()>| {
            let (shared, turn) = (&shared, &turn);
            async move {
                turn.send_replace(Role::Leader);
                let _turn = EndOfTurn(turn);
                tokio::select! {
                    result = lead(shared) => if let Err(error) = result {
                        tracing::warn!(%error, "operators are not installed from catalogs for now");
                    },
                    () = stopped => {}
                }
            }
        };
        tokio::select! {
            () = bailiwick_controllers::lead(client.clone(), election, leading, shutdown) => {}
            () = follow(&shared, turn.subscribe()) => {}
        }
        Ok(())
    };
    tokio::select! {
        () = serving => Ok(()),
        () = cleaning => Ok(()),
        ended = working => ended,
    }
}

/// What outlasts a turn.
struct Shared {
    client: Client,
    global_namespace: String,
    puller: Arc<Puller>,
    catalogs: Arc<Catalogs>,
}

impl Shared {
    fn context(&self, role: Role) -> Context {
        let (puller, catalogs) = (self.puller.clone(), self.catalogs.clone());
        Context::new(self.client.clone(), self.global_namespace.clone(), puller, catalogs, role)
    }
}

/// Says that the turn is over, however it ended.
struct EndOfTurn<'t>(&'t watch::Sender<Role>);

impl Drop for EndOfTurn<'_> {
    fn drop(&mut self) {
        self.0.send_replace(Role::Follower);
    }
}

/// Everything there is to do, forever.
async fn lead(shared: &Shared) -> Result<(), Error> {
    crds::install(&shared.client).await?;
    crds::ensure_roles(&shared.client).await?;
    crds::ensure_namespaces(&shared.client, &shared.global_namespace).await?;
    let context = shared.context(Role::Leader);
    let kinds = [
        CATALOG_SOURCE,
        SUBSCRIPTION,
        INSTALL_PLAN,
        CSV,
        OPERATOR_GROUP,
        OPERATOR_CONDITION,
        CLUSTER_CATALOG,
        CLUSTER_EXTENSION,
        CRD,
        NAMESPACE,
    ];
    work(&context, &kinds).await;
    Ok(())
}

/// Reads the catalogs that others look after, for their PackageManifests, whenever it is not our turn.
async fn follow(shared: &Shared, mut turn: watch::Receiver<Role>) {
    loop {
        let context = shared.context(Role::Follower);
        tokio::select! {
            () = work(&context, &[CATALOG_SOURCE]) => {}
            _ = turn.wait_for(|role| *role == Role::Leader) => {}
        }
        if turn.wait_for(|role| *role == Role::Follower).await.is_err() {
            return;
        }
    }
}

async fn work(context: &Context, kinds: &[Kind]) {
    let read = SourcesRead::default();
    let watching = futures::future::join_all(kinds.iter().map(|kind| watch_kind(context, *kind)));
    let working = context.queue.work("olm", CONCURRENCY, |key| reconcile(context, &read, key));
    tokio::select! {
        _ = watching => {}
        () = working => {}
    }
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
async fn watch_kind(context: &Context, kind: Kind) {
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
            // A copy that somebody changed is made good where it comes from.
            CSV if object.labels().contains_key(COPIED_FROM) => {
                let from = object.labels().get(COPIED_FROM).cloned().unwrap_or_default();
                context.queue.add(Key::Namespace(from));
                context.queue.add(Key::Namespace(namespace));
            }
            _ => context.queue.add(Key::Namespace(namespace)),
        }
    }
}
