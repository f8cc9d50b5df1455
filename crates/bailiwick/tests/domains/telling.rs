//! How users are told: the inventory's columns, what a rescan found, trouble when it begins and ends, and that no event is lost
//! or told twice when events cannot be written.

use anyhow::{Context, Result};
use bailiwick::ControlPlane;
use bailiwick_fakenet::scenario;
use bailiwick_fakenet::scenarios::Scenario;
use jiff::Timestamp;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams};
use serde_json::{Value, json};

use crate::claims::token;
use crate::world::{World, client, condition, create, resource, tells, text, until_named};

pub fn scenarios() -> Vec<Scenario<World>> {
    vec![
        scenario!(without_the_service_there_is_nothing_to_look_at),
        scenario!(the_inventory_has_its_columns),
        scenario!(a_rescan_that_finds_nothing_new_shows_that_it_was_made),
        scenario!(trouble_is_told_when_it_begins_and_when_it_has_ended),
        scenario!(an_event_that_cannot_be_written_is_written_later_and_once),
    ]
}

async fn without_the_service_there_is_nothing_to_look_at(_world: &World) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let plane = ControlPlane::builder(directory.path()).start().await?;
    let client = client(&plane.kubeconfig).await?;
    let domains: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &resource("Domain", "domains"));
    let refused = create(&domains, "Domain", "victim", json!({"name": "victim.com"})).await.expect_err("no such type");
    tells(&refused.to_string(), "not found");
    let metrics = client.request_text(http::Request::get("/metrics").body(Vec::new())?).await?;
    assert!(!metrics.contains("bailiwick_domains_"), "nothing of it runs");
    Ok(())
}

async fn the_inventory_has_its_columns(world: &World) -> Result<()> {
    world.namespace("inventory").await?;
    let api = world.domains("inventory");
    create(&api, "Domain", "q7.io", json!({"name": "q7.io"})).await?;
    until_named(api.clone(), "q7.io", |object| !text(object, "/status/registrarIANAName").is_empty()).await?;
    let request = http::Request::get(api.resource_url())
        .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(Vec::new())?;
    let table: Value = world.client.request(request).await?;
    let columns = table["columnDefinitions"].as_array().context("columns")?;
    let named = |priority: u64| -> Vec<&str> {
        columns.iter().filter(|one| one["priority"] == priority).filter_map(|one| one["name"].as_str()).collect()
    };
    assert_eq!(
        named(0),
        ["Name", "Domain", "Registrar", "DNS Provider", "Expires", "Days", "Verified", "Healthy", "Last Change"]
    );
    assert_eq!(named(1), ["Source", "As Of", "Last Scan"]);
    let row = table.pointer("/rows/0/cells").and_then(Value::as_array).context("a row")?;
    let cells: Vec<&Value> = row.iter().take(5).chain(row.iter().skip(6).take(2)).collect();
    assert_eq!(cells, ["q7.io", "q7.io", "NAMECHEAP INC", "DigitalOcean", "2029-07-06T13:58:57.00Z", "False", "True"]);
    assert_eq!(row.get(9), Some(&json!("rdap")));
    api.delete("q7.io", &DeleteParams::default()).await?;
    Ok(())
}

async fn a_rescan_that_finds_nothing_new_shows_that_it_was_made(world: &World) -> Result<()> {
    let time = |object: &DynamicObject, field: &str| -> Result<Timestamp> {
        text(object, &format!("/status/{field}")).parse().with_context(|| format!("no {field}: {}", object.data))
    };
    world.namespace("button").await?;
    let api = world.domains("button");
    create(&api, "Domain", "q7.io", json!({"name": "q7.io"})).await?;
    let crawled = |object: &DynamicObject| !text(object, "/status/registrarIANAName").is_empty();
    let first = until_named(api.clone(), "q7.io", crawled).await?;
    let second = world.rescan(&api, "q7.io", 6).await?;
    for field in ["lastScan", "registrationObserved"] {
        assert!(time(&second, field)? > time(&first, field)?, "{field}");
    }
    assert!(time(&second, "nextCheck")? > time(&second, "lastScan")?);
    assert_eq!(text(&second, "/status/registrationSource"), "rdap");
    api.delete("q7.io", &DeleteParams::default()).await?;
    Ok(())
}

async fn trouble_is_told_when_it_begins_and_when_it_has_ended(world: &World) -> Result<()> {
    const RIGHT: &str = "@ 3600 IN NS ns2.op-a.net.";
    const WRONG: &str = "@ 3600 IN NS ns9.op-a.net.";
    world.namespace("trouble").await?;
    let api = world.domains("trouble");
    create(&api, "Domain", "broken", json!({"name": "broken.com"})).await?;
    until_named(api.clone(), "broken", |object| condition(object, "Healthy").0 == "False").await?;
    let note = world.event(&world.client, "trouble", "TroubleBegan").await?;
    tells(&note, "broken.com: no nameserver answers: the domain does not work");
    api.delete("broken", &DeleteParams::default()).await?;
    world.namespace("mended").await?;
    let api = world.domains("mended");
    create(&api, "Domain", "fresh", json!({"name": "fresh.com"})).await?;
    until_named(api.clone(), "fresh", |object| condition(object, "Healthy").0 == "True").await?;
    assert_eq!(world.events("mended").await?, []);
    world.bed.edit_zone("fresh.com", RIGHT, WRONG)?;
    let object = world.rescan(&api, "fresh", 6).await?;
    assert_eq!(condition(&object, "Healthy").1, "Warnings");
    // It is the same trouble an hour later, and for a controller that starts then.
    world.restart().await;
    world.rescan(&api, "fresh", 60).await?;
    world.bed.edit_zone("fresh.com", WRONG, RIGHT)?;
    let object = world.rescan(&api, "fresh", 60).await?;
    world.event(&world.client, "mended", "TroubleEnded").await?;
    let told = world.events("mended").await?;
    let reasons: Vec<&str> = told.iter().map(|(reason, _)| reason.as_str()).collect();
    assert_eq!(reasons, ["TroubleBegan", "TroubleEnded"], "{told:?}");
    tells(&told[0].1, "fresh.com: the parent zone delegates to ns1.op-a.net, ns2.op-a.net, the zone itself lists");
    tells(&told[1].1, "fresh.com: mended, after it was so since ");
    let history = object.data.pointer("/status/history").and_then(Value::as_array).context("a history")?;
    assert!(history.len() == 2 && history.iter().all(|change| change["field"] == "health"), "{history:?}");
    api.delete("fresh", &DeleteParams::default()).await?;
    Ok(())
}

async fn an_event_that_cannot_be_written_is_written_later_and_once(world: &World) -> Result<()> {
    const CLAIM: &str = "@ IN TXT \"bailiwick-verification=abc\"";
    const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
    world.namespace("outage").await?;
    let post = async |path: &str, body: Value| -> Result<Value> {
        let request =
            http::Request::post(path).header("content-type", "application/json").body(serde_json::to_vec(&body)?)?;
        Ok(world.client.request(request).await?)
    };
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "no-events"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "outage"}},
                "resourceRules": [{"apiGroups": ["", "events.k8s.io"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["events"]}],
            },
            "validations": [{"expression": "false", "message": "out of order"}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "no-events"},
        "spec": {"policyName": "no-events", "validationActions": ["Deny"]},
    });
    post(&format!("{GROUP}/validatingadmissionpolicies"), policy).await?;
    post(&format!("{GROUP}/validatingadmissionpolicybindings"), binding).await?;
    let event = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": "outage"},
            "involvedObject": {"namespace": "outage"}, "reason": "Try", "message": "try", "type": "Normal",
        })
    };
    // The policy counts a moment after it was accepted.
    let mut number = 0;
    while post("/api/v1/namespaces/outage/events", event(&format!("try-{number}"))).await.is_ok() {
        number += 1;
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let api = world.domains("outage");
    create(&api, "Domain", "claims", json!({"name": "claims.com"})).await?;
    let proof = format!("_bailiwick-challenge IN TXT \"{}\"", token(&api, "claims").await?);
    world.bed.edit_zone("claims.com", CLAIM, &proof)?;
    let object = until_named(api.clone(), "claims", |object| condition(object, "Verified").0 == "True").await?;
    assert_eq!(text(&object, "/status/unannounced/0/reason"), "DomainVerified", "it waits with what it tells of");
    // A controller that starts in the middle of it knows.
    world.restart().await;
    let path = format!("{GROUP}/validatingadmissionpolicybindings/no-events");
    world.client.request::<Value>(http::Request::delete(path).body(Vec::new())?).await?;
    let told = |object: &DynamicObject| object.data.pointer("/status/unannounced").is_none();
    until_named(api.clone(), "claims", told).await?;
    world.restart().await;
    world.rescan(&api, "claims", 6).await?;
    let events = world.events("outage").await?;
    let verified: Vec<&String> =
        events.iter().filter(|(reason, _)| reason == "DomainVerified").map(|(_, note)| note).collect();
    assert_eq!(verified, ["claims.com is verified"], "once");
    world.bed.edit_zone("claims.com", &proof, CLAIM)?;
    api.delete("claims", &DeleteParams::default()).await?;
    assert_eq!(api.list(&ListParams::default()).await?.items.len(), 0);
    Ok(())
}
