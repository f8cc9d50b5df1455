//! The server is killed and comes back on the same data, with the service in it; an agent elsewhere only loses sight of it.
//! Nobody helps either: what happened meanwhile is noticed, what was told is not told again, and what was begun is finished.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use anyhow::{Context, Result};
use bailiwick_domains_controller::RESCAN_ANNOTATION;
use bailiwick_fakenet::scenario;
use bailiwick_fakenet::scenarios::Scenario;
use bailiwick_testkit::Server;
use jiff::{SignedDuration, Timestamp};
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::agents::{agent_at, check_at_until, geo};
use crate::claims::token;
use crate::world::{World, condition, create, events, resource, text, until_named, until_served};

pub fn scenarios() -> Vec<Scenario<World>> {
    vec![scenario!(a_server_that_was_killed_goes_on_where_it_was_and_so_do_its_agents)]
}

/// The line of claims.com that scenarios replace and put back.
const CLAIM: &str = "@ IN TXT \"bailiwick-verification=abc\"";
const RIGHT: &str = "@ IN A 151.101.1.10";
const WRONG: &str = "@ IN A 203.0.113.9";

/// The program as it runs on the fake internet.
fn program(world: &World) -> Result<PathBuf> {
    let mut roots: Value = serde_json::from_slice(&std::fs::read(world.bed.roots_file())?)?;
    roots["vantagePoints"].as_array_mut().context("places")?.truncate(1);
    let (file, script) = (world.bed.directory().join("outage.json"), world.bed.directory().join("outage.sh"));
    std::fs::write(&file, roots.to_string())?;
    let program = env!("CARGO_BIN_EXE_bailiwick");
    std::fs::write(&script, format!("#!/bin/sh\nBAILIWICK_DNS_ROOTS='{}' exec '{program}' \"$@\"\n", file.display()))?;
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755))?;
    Ok(script)
}

/// A registration that ends then, with these flags.
fn registration(world: &World, end: Timestamp, flags: &[&str]) -> Result<String> {
    let text = world.bed.registration("com", "negative.com").context("a registration")?;
    let mut registration: Value = serde_json::from_str(&text)?;
    for event in registration["events"].as_array_mut().into_iter().flatten() {
        if event["eventAction"] == "expiration" {
            event["eventDate"] = json!(end.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
        }
    }
    registration["status"] = json!(flags);
    Ok(registration.to_string())
}

/// How often each reason was told, in order.
async fn reasons(client: &Client) -> Result<Vec<String>> {
    let mut reasons: Vec<String> = events(client, "default").await?.into_iter().map(|(reason, _)| reason).collect();
    reasons.sort();
    Ok(reasons)
}

/// Has a domain looked at, and waits until what was found is told.
async fn rescan(api: &Api<DynamicObject>, name: &str) -> Result<()> {
    let stamp = Timestamp::now().to_string();
    let patch = json!({"metadata": {"annotations": {RESCAN_ANNOTATION: stamp}}});
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    let is_told = |object: &DynamicObject| {
        text(object, "/status/observedRescan") == stamp && object.data.pointer("/status/unannounced").is_none()
    };
    until_named(api.clone(), name, is_told).await?;
    Ok(())
}

async fn a_server_that_was_killed_goes_on_where_it_was_and_so_do_its_agents(world: &World) -> Result<()> {
    let end = Timestamp::now() + SignedDuration::from_hours(6 * 24);
    world.bed.set_registration("com", "negative.com", registration(world, end, &["client transfer prohibited"])?);
    let mut server = Server::start_with(program(world)?, &["--with", "domains"])?;
    let client = server.client().await?;
    until_served(&client).await?;
    let api = |kind: &str, plural: &str| -> Api<DynamicObject> {
        Api::namespaced_with(client.clone(), "default", &resource(kind, plural))
    };
    let (domains, checks) = (api("Domain", "domains"), api("DomainCheck", "domainchecks"));
    let records = json!([{"name": "negative.com", "type": "A", "value": "151.101.1.10"}]);
    create(&domains, "Domain", "negative", json!({"name": "negative.com", "records": records})).await?;
    create(&domains, "Domain", "claims", json!({"name": "claims.com"})).await?;
    let proof = format!("_bailiwick-challenge IN TXT \"{}\"", token(&domains, "claims").await?);
    let is_warned = |object: &DynamicObject| {
        object.data.pointer("/status/expiry").is_some() && object.data.pointer("/status/unannounced").is_none()
    };
    until_named(domains.clone(), "negative", is_warned).await?;
    assert_eq!(reasons(&client).await?, ["DomainExpiresWithin7Days"]);
    let _agent = agent_at(world, &client, &server.kubeconfig(), "pop-away1", "100.64.3.1").await?;
    check_at_until(checks.clone(), geo(), "203.0.113.2 at pop-away1").await?;
    // In the middle of a check.
    create(&checks, "DomainCheck", "midway", geo()).await?;
    server.kill();
    // The world goes on.
    world.bed.edit_zone("claims.com", CLAIM, &proof)?;
    world.bed.edit_zone("negative.com", RIGHT, WRONG)?;
    world.bed.set_registration("com", "negative.com", registration(world, end, &["client hold"])?);
    server.restart()?;
    until_served(&client).await?;
    // Proofs, checks and agents go on by themselves.
    let is_finished = |object: &DynamicObject| !text(object, "/status/completionTime").is_empty();
    let midway = until_named(checks.clone(), "midway", is_finished).await?;
    assert_eq!(text(&midway, "/status/phase"), "Succeeded");
    let is_verified = |object: &DynamicObject| {
        condition(object, "Verified").0 == "True" && object.data.pointer("/status/unannounced").is_none()
    };
    until_named(domains.clone(), "claims", is_verified).await?;
    check_at_until(checks.clone(), geo(), "203.0.113.2 at pop-away1").await?;
    // What is looked at every hour is looked at now, and once more by a third server.
    rescan(&domains, "negative").await?;
    let told = ["DomainChanged", "DomainExpiresWithin7Days", "DomainVerified", "RecordDrifted"];
    assert_eq!(reasons(&client).await?, told);
    server.restart()?;
    until_served(&client).await?;
    rescan(&domains, "negative").await?;
    rescan(&domains, "claims").await?;
    assert_eq!(reasons(&client).await?, told, "once");
    world.bed.edit_zone("negative.com", WRONG, RIGHT)?;
    world.bed.edit_zone("claims.com", &proof, CLAIM)?;
    Ok(())
}
