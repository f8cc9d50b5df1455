//! A controller of a custom resource as people write them with kube-rs: it applies what an orchard wants, owns it, says so in
//! the status and cleans up through a finalizer. Its twin with controller-runtime is `clients/go-controller`.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use bailiwick_testkit::Server;
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, PropagationPolicy};
use kube::runtime::controller::Action;
use kube::runtime::finalizer::{Event, finalizer};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::{Controller, watcher};
use kube::{Api, Client, CustomResource, CustomResourceExt, Resource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::churn::{self, CATCH_UP};
use crate::controller::{POLL_INTERVAL, RETRY};

const FINALIZER: &str = "tests.bailiwick.dev/harvest";
const MANAGER: &str = "orchardist";
const LABEL: &str = "tests.bailiwick.dev/orchard";
/// A ConfigMap in which every orchard that went leaves its name.
const LEDGER: &str = "harvested";
const ORCHARDS: usize = 12;

#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "tests.bailiwick.dev", version = "v1", kind = "Orchard", namespaced, status = "OrchardStatus")]
struct OrchardSpec {
    #[schemars(range(min = 0, max = 9))]
    trees: u32,
    #[serde(default = "apple")]
    variety: String,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct OrchardStatus {
    planted: u32,
    observed_generation: i64,
}

fn apple() -> String {
    "apple".to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_of_a_custom_resource_follows_what_is_applied() -> Result<()> {
    let server = Server::start(env!("CARGO_BIN_EXE_bailiwick"))?;
    let client = server.client().await?;
    define(&client).await?;
    let namespace = churn::namespace(&client, "orchards-").await?;
    let place = Place::of(&client, &namespace);
    place.trees.create(&PostParams::default(), &named(LEDGER)).await?;

    let controller = Controller::new(place.orchards.clone(), watcher::Config::default())
        .owns(place.trees.clone(), watcher::Config::default())
        .run(reconcile, |_, _, _| Action::requeue(RETRY), Arc::new(client));
    let last_error = Arc::new(Mutex::new(String::new()));
    let told = last_error.clone();
    let running = tokio::spawn(controller.for_each(move |outcome| {
        if let Err(error) = outcome {
            *told.lock().unwrap() = format!("{error:?}");
        }
        std::future::ready(())
    }));
    let outcome = seasons(&place).await;
    running.abort();
    let last_error = last_error.lock().unwrap().clone();
    outcome.with_context(|| format!("the controller's last error: {last_error}\nthe server's log:\n{}", server.log()))
}

/// Where orchards and their trees are.
struct Place {
    orchards: Api<Orchard>,
    trees: Api<ConfigMap>,
}

impl Place {
    fn of(client: &Client, namespace: &str) -> Self {
        Self { orchards: Api::namespaced(client.clone(), namespace), trees: Api::namespaced(client.clone(), namespace) }
    }
}

async fn define(client: &Client) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let apply = PatchParams::apply(MANAGER);
    definitions.patch(Orchard::crd_name(), &apply, &Patch::Apply(Orchard::crd())).await?;
    let established = await_condition(definitions, Orchard::crd_name(), conditions::is_crd_established());
    tokio::time::timeout(CATCH_UP, established).await.context("never established")??;
    Ok(())
}

async fn reconcile(
    orchard: Arc<Orchard>,
    client: Arc<Client>,
) -> Result<Action, kube::runtime::finalizer::Error<kube::Error>> {
    let place = Place::of(&client, &orchard.namespace().unwrap_or_default());
    finalizer(&place.orchards, FINALIZER, orchard, |event| async {
        match event {
            Event::Apply(orchard) => plant(&place, &orchard).await?,
            // The trees are the garbage collector's.
            Event::Cleanup(orchard) => {
                let note = Patch::Merge(json!({"data": {orchard.name_any(): "harvested"}}));
                place.trees.patch(LEDGER, &PatchParams::default(), &note).await?;
            }
        }
        Ok(Action::await_change())
    })
    .await
}

async fn plant(place: &Place, orchard: &Orchard) -> Result<(), kube::Error> {
    let name = orchard.name_any();
    let wanted: BTreeSet<String> = (0..orchard.spec.trees).map(|n| format!("{name}-{n}")).collect();
    let apply = PatchParams::apply(MANAGER).force();
    for tree in &wanted {
        let tree_as_wanted = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": tree, "labels": {LABEL: name}, "ownerReferences": [orchard.controller_owner_ref(&())]},
            "data": {"variety": orchard.spec.variety},
        });
        place.trees.patch(tree, &apply, &Patch::Apply(tree_as_wanted)).await?;
    }
    for tree in place.trees.list(&ListParams::default().labels(&format!("{LABEL}={name}"))).await? {
        if !wanted.contains(&tree.name_any()) {
            gone_is_fine(place.trees.delete(&tree.name_any(), &DeleteParams::default()).await.map(drop))?;
        }
    }
    let status = OrchardStatus {
        planted: orchard.spec.trees,
        observed_generation: orchard.meta().generation.unwrap_or_default(),
    };
    let status = json!({
        "apiVersion": Orchard::api_version(&()), "kind": Orchard::kind(&()), "metadata": {"name": name}, "status": status,
    });
    place.orchards.patch_status(&name, &apply, &Patch::Apply(status)).await.map(drop)
}

fn gone_is_fine(result: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match result {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        result => result,
    }
}

/// Lets orchards come, change and go, and waits after each step until the controller has followed.
async fn seasons(place: &Place) -> Result<()> {
    for n in 0..ORCHARDS {
        let orchard = json!({
            "apiVersion": Orchard::api_version(&()), "kind": Orchard::kind(&()),
            "metadata": {"name": name(n)}, "spec": {"trees": n % 4 + 1},
        });
        let made = place.orchards.create(&PostParams::default(), &serde_json::from_value(orchard)?).await?;
        ensure!(made.spec.variety == "apple" && made.meta().generation == Some(1), "not defaulted: {made:?}");
    }
    settled(place, |n| (n % 4 + 1, "apple")).await.context("after creation")?;

    let refused = apply_spec(place, 0, json!({"trees": 10}), &PatchParams::apply("owner").force()).await;
    ensure!(code_of(&refused) == Some(422), "more trees than the schema allows: {refused:?}");
    let refused = apply_spec(place, 0, json!({"trees": 5}), &PatchParams::apply("owner")).await;
    ensure!(code_of(&refused) == Some(409), "a field of another manager: {refused:?}");
    for n in 0..ORCHARDS {
        let spec = json!({"trees": n % 3 + 2, "variety": "pear"});
        apply_spec(place, n, spec, &PatchParams::apply("owner").force()).await?;
    }
    settled(place, |n| (n % 3 + 2, "pear")).await.context("after others applied")?;

    // What the controller owns comes back, and what it no longer wants goes.
    place.trees.delete(&format!("{}-0", name(0)), &DeleteParams::default()).await?;
    let felled = Patch::Merge(json!({"data": {"variety": "stump"}}));
    place.trees.patch(&format!("{}-1", name(1)), &PatchParams::default(), &felled).await?;
    apply_spec(place, 2, json!({"trees": 0, "variety": "pear"}), &PatchParams::apply("owner")).await?;
    settled(place, |n| (if n == 2 { 0 } else { n % 3 + 2 }, "pear")).await.context("after damage")?;
    for n in 0..ORCHARDS {
        let orchard = place.orchards.get(&name(n)).await?;
        ensure!(is_status_applied(&orchard), "{:?}", orchard.managed_fields());
    }

    let background =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Background), ..DeleteParams::default() };
    place.orchards.delete_collection(&background, &ListParams::default()).await?;
    until("all to be gone", || async {
        let orchards = place.orchards.list(&ListParams::default()).await?.items.len();
        let trees = place.trees.list(&ListParams::default().labels(LABEL)).await?.items.len();
        let noted = place.trees.get(LEDGER).await?.data.unwrap_or_default().len();
        let done = (orchards, trees, noted) == (0, 0, ORCHARDS);
        Ok((!done).then(|| format!("{orchards} orchards and {trees} trees left, {noted} harvested")))
    })
    .await
}

async fn apply_spec(
    place: &Place,
    n: usize,
    spec: serde_json::Value,
    parameters: &PatchParams,
) -> Result<(), kube::Error> {
    let orchard = json!({
        "apiVersion": Orchard::api_version(&()), "kind": Orchard::kind(&()), "metadata": {"name": name(n)}, "spec": spec,
    });
    place.orchards.patch(&name(n), parameters, &Patch::Apply(orchard)).await.map(drop)
}

fn code_of(result: &Result<(), kube::Error>) -> Option<u16> {
    match result {
        Err(kube::Error::Api(status)) => Some(status.code),
        _ => None,
    }
}

/// Whether the controller owns the status, by having applied it to the subresource.
fn is_status_applied(orchard: &Orchard) -> bool {
    orchard.managed_fields().iter().any(|entry| {
        entry.manager.as_deref() == Some(MANAGER)
            && entry.operation.as_deref() == Some("Apply")
            && entry.subresource.as_deref() == Some("status")
    })
}

/// Waits until every orchard has the trees it wants, all its own, and says so.
async fn settled(place: &Place, wanted: impl Fn(usize) -> (usize, &'static str)) -> Result<()> {
    let wanted = &wanted;
    until("all orchards to be planted", || async move {
        for n in 0..ORCHARDS {
            let (count, variety) = wanted(n);
            let orchard = place.orchards.get(&name(n)).await?;
            let trees = place.trees.list(&ListParams::default().labels(&format!("{LABEL}={}", name(n)))).await?.items;
            let status = orchard.status.clone().unwrap_or_default();
            let told =
                status.planted as usize == count && Some(status.observed_generation) == orchard.meta().generation;
            let right = trees.iter().all(|tree| {
                tree.data.as_ref().and_then(|data| data.get("variety")).map(String::as_str) == Some(variety)
                    && tree.owner_references().iter().any(|owner| Some(&owner.uid) == orchard.uid().as_ref())
            });
            let guarded = orchard.finalizers() == [FINALIZER.to_owned()];
            if !(told && right && guarded && trees.len() == count) {
                return Ok(Some(format!("{count} trees wanted of {orchard:?}, there are {trees:?}")));
            }
        }
        Ok(None)
    })
    .await
}

/// Asks until nothing is missing.
async fn until<F>(what: &str, missing: impl Fn() -> F) -> Result<()>
where
    F: Future<Output = Result<Option<String>>>,
{
    let deadline = Instant::now() + CATCH_UP;
    while let Some(missing) = missing().await? {
        if Instant::now() > deadline {
            bail!("waited for {what}: {missing}");
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(())
}

fn name(n: usize) -> String {
    format!("orchard-{n:02}")
}

fn named(name: &str) -> ConfigMap {
    ConfigMap { metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }, ..ConfigMap::default() }
}
