//! A whole control plane in one process: server, embedded store, the generic controllers, and a service of our own that
//! is an ordinary kube-rs program. It greets every namespace that asks for it with a label.
//!
//! `cargo run --example hyper_mini -- ./mini-data`, then `kubectl label namespace default greet=yes` and look for the
//! ConfigMap `greeting`.

use bailiwick::kube::api::{Patch, PatchParams};
use bailiwick::kube::runtime::{WatchStreamExt, watcher};
use bailiwick::kube::{Api, ResourceExt};
use bailiwick::{ControlPlane, Controller, Service, ServiceContext, ServiceError, StoreOptions};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let data_dir = std::env::args().nth(1).unwrap_or_else(|| "./mini-data".to_owned());
    let running = ControlPlane::builder(data_dir)
        .store(StoreOptions::Embedded(Default::default()))
        .controllers(&Controller::ALL)
        .service(Service::new("greeter", greet))
        .start()
        .await?;
    println!("ready at {}; try: kubectl --kubeconfig {} get ns", running.url, running.kubeconfig.display());
    running.until_signal().await?;
    Ok(())
}

async fn greet(mut context: ServiceContext) -> Result<(), ServiceError> {
    let namespaces: Api<Namespace> = Api::all(context.client.clone());
    let wanted = watcher::Config::default().labels("greet=yes");
    let mut events = watcher(namespaces, wanted).default_backoff().applied_objects().boxed();
    loop {
        let namespace = tokio::select! {
            Some(event) = events.next() => event?,
            () = context.shutdown.wait() => return Ok(()),
        };
        let name = namespace.name_any();
        let maps: Api<ConfigMap> = Api::namespaced(context.client.clone(), &name);
        let greeting = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "greeting"},
            "data": {"text": format!("Hello, {name}")},
        });
        maps.patch("greeting", &PatchParams::apply("greeter"), &Patch::Apply(&greeting)).await?;
    }
}
