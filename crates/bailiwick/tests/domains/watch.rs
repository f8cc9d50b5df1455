//! The health loop as objects tell it.

use anyhow::{Context, Result};
use bailiwick_domains_controller::RESCAN_ANNOTATION;
use bailiwick_fakenet::scenario;
use bailiwick_fakenet::scenarios::Scenario;
use jiff::SignedDuration;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use crate::world::{World, condition, create, tells, text, until_named};

pub fn scenarios() -> Vec<Scenario<World>> {
    vec![
        scenario!(the_two_line_object_is_crawled_with_the_values_of_the_design_document),
        scenario!(both_objects_of_the_design_document_apply),
        scenario!(a_record_that_drifts_is_told_with_what_is_there_instead),
        scenario!(a_changed_delegation_and_changed_ds_records_are_events_and_history),
    ]
}

fn is_crawled(object: &DynamicObject) -> bool {
    !condition(object, "Healthy").0.is_empty()
}

async fn the_two_line_object_is_crawled_with_the_values_of_the_design_document(world: &World) -> Result<()> {
    world.namespace("seed").await?;
    let api = world.domains("seed");
    create(&api, "Domain", "q7.io", json!({"name": "q7.io"})).await?;
    // Registries are asked one after the other; those of earlier scenarios may still be in front.
    let object = until_named(api.clone(), "q7.io", |object| !text(object, "/status/registrarIANAName").is_empty());
    let object = object.await?;
    let status = &object.data["status"];
    assert_eq!(status["registrarIANAID"], 1068);
    assert_eq!(text(&object, "/status/registrarIANAName"), "NAMECHEAP INC");
    assert_eq!(text(&object, "/status/createdDate"), "2012-07-06T13:58:57.00Z");
    assert_eq!(text(&object, "/status/modifiedDate"), "2019-08-17T16:33:24.36Z");
    assert_eq!(text(&object, "/status/expirationDate"), "2029-07-06T13:58:57.00Z");
    let servers = ["ns1.digitalocean.com", "ns2.digitalocean.com", "ns3.digitalocean.com"];
    assert_eq!(status["nameservers"], json!(servers));
    assert_eq!(text(&object, "/status/DNSSEC"), "unsigned");
    let flags = ["clientDeleteProhibited", "clientTransferProhibited", "clientUpdateProhibited"];
    assert_eq!(status["statusFlags"], json!(flags));
    assert_eq!(text(&object, "/status/dnsProvider"), "DigitalOcean");
    api.delete("q7.io", &DeleteParams::default()).await?;
    Ok(())
}

/// The design document's own file, where it is there.
async fn both_objects_of_the_design_document_apply(world: &World) -> Result<()> {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/domains/examples.yaml");
    let Ok(text) = std::fs::read_to_string(&file) else {
        bailiwick_testkit::skip_named(
            "both_objects_of_the_design_document_apply",
            format_args!("{} is not there", file.display()),
        );
        return Ok(());
    };
    world.namespace("design").await?;
    for (index, document) in text.split("\n---").filter(|document| document.contains("kind:")).enumerate() {
        let mut object: DynamicObject = serde_json::from_value(bailiwick::machinery::yaml::decode(document)?.value)?;
        object.metadata.namespace = None;
        object.metadata.name = Some(format!("example-{index}"));
        world.domains("design").create(&kube::api::PostParams::default(), &object).await?;
        until_named(world.domains("design"), &format!("example-{index}"), is_crawled).await?;
    }
    assert_eq!(world.domains("design").list(&kube::api::ListParams::default()).await?.items.len(), 2);
    Ok(())
}

async fn a_record_that_drifts_is_told_with_what_is_there_instead(world: &World) -> Result<()> {
    const RIGHT: &str = "@ IN A 151.101.1.10";
    const WRONG: &str = "@ IN A 203.0.113.9";
    world.namespace("wanted").await?;
    let api = world.domains("wanted");
    let record = json!({"name": "fresh.com", "type": "A", "value": "151.101.1.10"});
    create(&api, "Domain", "fresh", json!({"name": "fresh.com", "records": [record]})).await?;
    let object = until_named(api.clone(), "fresh", |object| condition(object, "RecordsMatch").0 == "True").await?;
    tells(condition(&object, "RecordsMatch").2, "all 1 records are as they should be");
    world.bed.edit_zone("fresh.com", RIGHT, WRONG)?;
    // An hour later.
    world.clock.advance(SignedDuration::from_hours(1));
    let rescan = json!({"metadata": {"annotations": {RESCAN_ANNOTATION: "1"}}});
    api.patch("fresh", &PatchParams::default(), &Patch::Merge(rescan)).await?;
    let object = until_named(api.clone(), "fresh", |object| condition(object, "RecordsMatch").0 == "False").await?;
    tells(condition(&object, "RecordsMatch").2, "fresh.com A is 203.0.113.9 and should be 151.101.1.10");
    let note = world.event(&world.client, "wanted", "RecordDrifted").await?;
    tells(&note, "fresh.com A is 203.0.113.9 and should be 151.101.1.10; it was right since ");
    world.bed.edit_zone("fresh.com", WRONG, RIGHT)?;
    api.delete("fresh", &DeleteParams::default()).await?;
    Ok(())
}

/// What was observed before is changed, as if the zone had been another: the next look finds the difference.
async fn a_changed_delegation_and_changed_ds_records_are_events_and_history(world: &World) -> Result<()> {
    world.namespace("drift").await?;
    let api = world.domains("drift");
    create(&api, "Domain", "good", json!({"name": "good.com"})).await?;
    let object = until_named(api.clone(), "good", is_crawled).await?;
    let signers = object.data.pointer("/status/observation/delegationSigners").and_then(Value::as_array);
    assert_eq!(signers.map(Vec::len), Some(1), "good.com is signed");
    let observed = json!({"status": {"observation": {"delegationSigners": ["1 13 2 00ff"]}}});
    api.patch_status("good", &PatchParams::default(), &Patch::Merge(observed)).await?;
    world.clock.advance(SignedDuration::from_mins(6));
    let rescan = json!({"metadata": {"annotations": {RESCAN_ANNOTATION: "1"}}});
    api.patch("good", &PatchParams::default(), &Patch::Merge(rescan)).await?;
    let changed = |object: &DynamicObject| object.data.pointer("/status/history/0").is_some();
    let object = until_named(api.clone(), "good", changed).await?;
    let change = object.data.pointer("/status/history/0").context("a change")?;
    assert_eq!((change["field"].as_str(), change["old"].as_str()), (Some("delegationSigners"), Some("1 13 2 00ff")));
    tells(
        &world.event(&world.client, "drift", "DomainChanged").await?,
        "good.com: DS records changed from 1 13 2 00ff to",
    );
    api.delete("good", &DeleteParams::default()).await?;
    Ok(())
}
