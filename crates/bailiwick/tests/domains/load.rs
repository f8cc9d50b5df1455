//! Hundreds of vantage points: those who do not answer are named, and hold up nobody who does not ask them.

use anyhow::{Context, Result};
use bailiwick_domains_controller::SERVICE_NAMESPACE;
use bailiwick_fakenet::scenario;
use bailiwick_fakenet::scenarios::Scenario;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams, PostParams};
use serde_json::{Value, json};

use crate::world::{PATIENCE, World, create, tells, text, until_named};

pub fn scenarios() -> Vec<Scenario<World>> {
    vec![scenario!(three_hundred_places_that_do_not_answer_are_named_and_hold_nobody_up)]
}

const PLACES: usize = 300;

async fn three_hundred_places_that_do_not_answer_are_named_and_hold_nobody_up(world: &World) -> Result<()> {
    world.namespace("crowded").await?;
    let leases: Api<Lease> = Api::namespaced(world.client.clone(), SERVICE_NAMESPACE);
    let renewed = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.000000Z").to_string();
    for number in 0..PLACES {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": format!("deaf-{number:03}"), "labels": {"datumapis.com/dns-agent": "true"}},
            "spec": {"holderIdentity": "deaf", "leaseDurationSeconds": 600, "renewTime": renewed},
        });
        leases.create(&PostParams::default(), &serde_json::from_value(lease)?).await?;
    }
    // The leases reach the service by a watch.
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let metrics = world.client.request_text(http::Request::get("/metrics").body(Vec::new())?).await?;
        if metrics.contains(&format!("bailiwick_domains_agents_alive {PLACES}\n")) {
            break;
        }
        let alive = metrics.lines().find(|line| line.starts_with("bailiwick_domains_agents_alive "));
        anyhow::ensure!(tokio::time::Instant::now() < deadline, "not all {PLACES} are known: {alive:?}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let checks = world.checks("crowded");
    create(&checks, "DomainCheck", "everywhere", json!({"tool": "fqdn", "name": "good.com", "endpoints": "skip"}))
        .await?;
    until_named(checks.clone(), "everywhere", |object| text(object, "/status/phase") == "Running").await?;
    create(&checks, "DomainCheck", "here", json!({"tool": "scan", "name": "good.com"})).await?;
    let ended = |object: &DynamicObject| !text(object, "/status/completionTime").is_empty();
    let here = until_named(checks.clone(), "here", ended).await?;
    assert_eq!(text(&here, "/status/phase"), "Succeeded");
    let everywhere = until_named(checks.clone(), "everywhere", ended).await?;
    assert_eq!(text(&everywhere, "/status/phase"), "Succeeded", "{}", everywhere.data["status"]["message"]);
    tells(text(&everywhere, "/status/report"), "deaf-000 was not heard");
    tells(text(&everywhere, "/status/report"), "deaf-299 was not heard");
    let time = |object: &DynamicObject| text(object, "/status/completionTime").parse::<Timestamp>();
    // Whoever does not answer is waited for; the other check was not.
    assert!(time(&here)? < time(&everywhere)?);
    let everybody = ListParams::default().labels("datumapis.com/dns-agent");
    leases.delete_collection(&DeleteParams::default(), &everybody).await?;
    let left: Vec<Value> = everywhere.data.pointer("/status/result").into_iter().cloned().collect();
    left.first().context("a result")?;
    Ok(())
}
