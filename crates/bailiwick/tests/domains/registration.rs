//! What happens at the registry, told to the user once each, over restarts of the controller: expiration thresholds, status flags,
//! the registrar, the modification date.

use anyhow::{Context, Result};
use bailiwick_fakenet::scenario;
use bailiwick_fakenet::scenarios::Scenario;
use jiff::{SignedDuration, Timestamp};
use kube::api::{DeleteParams, DynamicObject};
use serde_json::{Value, json};

use crate::world::{World, condition, create, tells, text, until_named};

pub fn scenarios() -> Vec<Scenario<World>> {
    vec![
        scenario!(flags_the_registrar_and_the_modification_date_are_told_with_old_and_new_values),
        scenario!(each_threshold_is_told_once_over_restarts_and_renewal_arms_them_again),
    ]
}

fn registry_of(world: &World) -> Result<Value> {
    let text = world.bed.registration("com", "negative.com").context("a registration")?;
    Ok(serde_json::from_str(&text)?)
}

/// Sets the date of an event of the registration.
fn set_date(registration: &mut Value, action: &str, at: Timestamp) {
    for event in registration["events"].as_array_mut().into_iter().flatten() {
        if event["eventAction"] == action {
            event["eventDate"] = json!(at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
        }
    }
}

fn now(world: &World) -> Timestamp {
    bailiwick_domains::seams::Clock::now(&*world.clock)
}

async fn add(world: &World, namespace: &str, spec: Value) -> Result<kube::Api<DynamicObject>> {
    world.namespace(namespace).await?;
    let api = world.domains(namespace);
    create(&api, "Domain", "negative", spec).await?;
    until_named(api.clone(), "negative", |object| !text(object, "/status/registrarIANAName").is_empty()).await?;
    Ok(api)
}

async fn flags_the_registrar_and_the_modification_date_are_told_with_old_and_new_values(world: &World) -> Result<()> {
    let mut registration = registry_of(world)?;
    world.bed.set_registration("com", "negative.com", registration.to_string());
    let api = add(world, "registered", json!({"name": "negative.com"})).await?;
    assert_eq!(world.events("registered").await?, []);
    // A flag comes, one goes, and the modification date moves along, as it does at registries.
    registration["status"] = json!(["client hold"]);
    set_date(&mut registration, "last changed", now(world));
    world.bed.set_registration("com", "negative.com", registration.to_string());
    world.rescan(&api, "negative", 6).await?;
    world.restart().await;
    let object = world.rescan(&api, "negative", 6).await?;
    let told = world.events("registered").await?;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].0, "DomainChanged");
    tells(&told[0].1, "negative.com: status flags changed from clientTransferProhibited to clientHold");
    tells(&told[0].1, "(clientHold is set: the registrar took the name out of DNS; call the registrar");
    tells(&told[0].1, "modification date changed from 2025-06-01T00:00:00Z to ");
    assert_eq!(text(&object, "/status/statusFlags/0"), "clientHold");
    tells(condition(&object, "Healthy").2, "clientHold");
    let fields: Vec<&str> = ["0", "1"].iter().map(|n| text(&object, &format!("/status/history/{n}/field"))).collect();
    assert_eq!(fields, ["modified", "statusFlags"]);
    // Another registrar.
    let entity = registration.pointer_mut("/entities/0").context("a registrar")?;
    entity["handle"] = json!("81");
    entity["publicIds"][0]["identifier"] = json!("81");
    entity["vcardArray"][1][1][3] = json!("Gandi SAS");
    registration["status"] = json!(["client transfer prohibited"]);
    world.bed.set_registration("com", "negative.com", registration.to_string());
    world.restart().await;
    let object = world.rescan(&api, "negative", 6).await?;
    world.restart().await;
    world.rescan(&api, "negative", 6).await?;
    let told = world.events("registered").await?;
    assert_eq!(told.len(), 2, "{told:?}");
    tells(
        &told[1].1,
        "negative.com moved from NAMECHEAP INC to Gandi SAS: if you did not ask for this, call your registrar now",
    );
    tells(&told[1].1, "with it status flags changed from clientHold to clientTransferProhibited");
    assert_eq!(object.data["status"]["registrarIANAID"], 81);
    api.delete("negative", &DeleteParams::default()).await?;
    Ok(())
}

async fn each_threshold_is_told_once_over_restarts_and_renewal_arms_them_again(world: &World) -> Result<()> {
    let mut registration = registry_of(world)?;
    let end = now(world) + SignedDuration::from_hours(31 * 24);
    set_date(&mut registration, "expiration", end);
    world.bed.set_registration("com", "negative.com", registration.to_string());
    let spec = json!({"name": "negative.com", "autoRenewal": "Enabled"});
    let api = add(world, "expiring", spec).await?;
    assert_eq!(world.events("expiring").await?, []);
    let mut expected: Vec<String> = Vec::new();
    for days in [30, 15, 7, 3, 1] {
        // An hour past the threshold.
        let at = end - SignedDuration::from_hours(24 * days - 1);
        let minutes = at.duration_since(now(world)).as_secs() / 60;
        world.restart().await;
        world.rescan(&api, "negative", minutes).await?;
        world.rescan(&api, "negative", 6).await?;
        expected.push(format!("DomainExpiresWithin{days}Days"));
        let told = world.events("expiring").await?;
        let thresholds: Vec<&String> =
            told.iter().map(|(reason, _)| reason).filter(|reason| reason.starts_with("DomainExpires")).collect();
        assert_eq!(thresholds, expected.iter().collect::<Vec<_>>());
    }
    let object = api.get("negative").await?;
    assert_eq!(object.data["status"]["daysUntilExpiration"], 0);
    assert_eq!(object.data.pointer("/status/autoRenewal/declared"), Some(&json!("Enabled")));
    assert_eq!(object.data.pointer("/status/autoRenewal/observed"), Some(&json!("unknown")));
    let note = world.event(&world.client, "expiring", "TroubleBegan").await?;
    tells(&note, "spec.autoRenewal says Enabled, but the registration expires in ");
    // Renewed at the last moment: good news, and the next year's thresholds are armed.
    set_date(&mut registration, "expiration", end + SignedDuration::from_hours(25 * 24));
    world.bed.set_registration("com", "negative.com", registration.to_string());
    world.rescan(&api, "negative", 6).await?;
    let told = world.events("expiring").await?;
    let last: Vec<&str> = told.iter().rev().take(3).map(|(reason, _)| reason.as_str()).collect();
    assert!(last.contains(&"DomainChanged") && last.contains(&"TroubleEnded"), "{told:?}");
    assert!(last.contains(&"DomainExpiresWithin30Days"), "the new end is within thirty days again: {told:?}");
    api.delete("negative", &DeleteParams::default()).await?;
    Ok(())
}
