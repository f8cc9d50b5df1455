//! A controller as people write them with kube-rs: every ConfigMap gets a Secret with the same value, owned by it and removed
//! through a finalizer. Under churn it must converge on exactly that.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use bailiwick_testkit::Server;
use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::controller::Action;
use kube::runtime::finalizer::{Event, finalizer};
use kube::runtime::{Controller, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use rand::Rng;
use serde_json::json;

use crate::churn::{self, CATCH_UP, SELECTOR};

const FINALIZER: &str = "tests.bailiwick.dev/secret";
const NAMES: usize = 10;
pub const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// After a conflict with a writer the next attempt will most likely pass.
pub const RETRY: Duration = Duration::from_millis(200);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_with_finalizers_converges_under_churn() -> Result<()> {
    let server = Server::start(env!("CARGO_BIN_EXE_bailiwick"))?;
    let client = server.client().await?;
    let namespace = churn::namespace(&client, "controller-").await?;
    let config_maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &namespace);

    let controller = Controller::new(config_maps.clone(), watcher::Config::default().labels(SELECTOR))
        .owns(secrets.clone(), watcher::Config::default())
        .run(reconcile, |_, _, _| Action::requeue(RETRY), Arc::new(client));
    let running = tokio::spawn(controller.for_each(|_| std::future::ready(())));
    write(&config_maps).await?;
    let converged = converge(&config_maps, &secrets).await;
    running.abort();
    converged
}

async fn reconcile(
    object: Arc<ConfigMap>,
    client: Arc<Client>,
) -> Result<Action, kube::runtime::finalizer::Error<kube::Error>> {
    let namespace = object.namespace().unwrap_or_default();
    let config_maps: Api<ConfigMap> = Api::namespaced(Client::clone(&client), &namespace);
    let secrets: Api<Secret> = Api::namespaced(Client::clone(&client), &namespace);
    finalizer(&config_maps, FINALIZER, object, |event| async {
        match event {
            Event::Apply(object) => put(&secrets, &object).await?,
            Event::Cleanup(object) => {
                allow(404, secrets.delete(&object.name_any(), &DeleteParams::default()).await.map(drop))?;
            }
        }
        Ok(Action::await_change())
    })
    .await
}

async fn put(secrets: &Api<Secret>, object: &ConfigMap) -> Result<(), kube::Error> {
    let name = object.name_any();
    let wanted = Secret {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            owner_references: object.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        string_data: object.data.clone(),
        ..Secret::default()
    };
    match secrets.get_opt(&name).await? {
        None => secrets.create(&PostParams::default(), &wanted).await.map(drop),
        Some(found) if value(&found) == object.data.as_ref().and_then(|data| data.get("value").cloned()) => Ok(()),
        Some(_) => secrets.patch(&name, &PatchParams::default(), &Patch::Merge(&wanted)).await.map(drop),
    }
}

fn value(secret: &Secret) -> Option<String> {
    let value = secret.data.as_ref()?.get("value")?;
    String::from_utf8(value.0.clone()).ok()
}

/// Creates, changes and deletes objects that the controller works on at the same time.
async fn write(config_maps: &Api<ConfigMap>) -> Result<()> {
    let until = Instant::now() + churn::duration();
    let mut count = 0_u64;
    while Instant::now() < until {
        let name = format!("object-{}", rand::rng().random_range(0..NAMES));
        let choice = rand::rng().random_range(0..4);
        count += 1;
        match choice {
            0 => {
                let object = serde_json::from_value(json!({
                    "metadata": {"name": name, "labels": {"writer": "churn"}}, "data": {"value": count.to_string()}
                }))?;
                allow(409, config_maps.create(&PostParams::default(), &object).await.map(drop))?;
            }
            1 => allow(404, config_maps.delete(&name, &DeleteParams::default()).await.map(drop))?,
            _ => {
                let patch = Patch::Merge(json!({"data": {"value": count.to_string()}}));
                allow(404, config_maps.patch(&name, &PatchParams::default(), &patch).await.map(drop))?;
            }
        }
    }
    Ok(())
}

/// Takes an answer that a race can cause for success.
fn allow(code: u16, result: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match result {
        Err(kube::Error::Api(status)) if status.code == code => Ok(()),
        result => result,
    }
}

/// Waits until the Secrets are what the ConfigMaps say, with nothing left over and nothing half deleted.
async fn converge(config_maps: &Api<ConfigMap>, secrets: &Api<Secret>) -> Result<()> {
    let deadline = Instant::now() + CATCH_UP;
    loop {
        let objects = config_maps.list(&ListParams::default().labels(SELECTOR)).await?.items;
        let made = secrets.list(&ListParams::default()).await?.items;
        let wanted: BTreeMap<String, Option<String>> = objects
            .iter()
            .map(|object| (object.name_any(), object.data.as_ref().and_then(|data| data.get("value").cloned())))
            .collect();
        let found: BTreeMap<String, Option<String>> =
            made.iter().map(|secret| (secret.name_any(), value(secret))).collect();
        let settled = objects
            .iter()
            .all(|object| object.meta().deletion_timestamp.is_none() && object.finalizers() == [FINALIZER.to_owned()]);
        let owned = made.iter().all(|secret| {
            let owner = secret.owner_references().first().map(|owner| owner.uid.clone());
            owner.is_some()
                && objects.iter().any(|object| object.name_any() == secret.name_any() && object.uid() == owner)
        });
        if settled && owned && wanted == found {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!(
                "not converged: settled {settled}, owned {owned}\nwanted {wanted:?}\nfound  {found:?}\nobjects {objects:?}"
            );
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
