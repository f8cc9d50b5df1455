//! Proof of ownership as objects tell it: noticed in seconds, disputed by none, handed over with a word to both, and ended
//! after its grace.

use std::time::Instant;

use anyhow::Result;
use bailiwick_domains_controller::RESCAN_ANNOTATION;
use bailiwick_fakenet::scenario;
use bailiwick_fakenet::scenarios::Scenario;
use jiff::SignedDuration;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use crate::world::{World, condition, create, tells, text, until_named};

pub fn scenarios() -> Vec<Scenario<World>> {
    vec![
        scenario!(a_proof_is_noticed_within_five_seconds_and_what_is_wrong_is_told_before),
        scenario!(a_squatter_blocks_nobody_and_the_fresh_proof_wins),
        scenario!(a_twin_in_the_same_namespace_is_told_as_one),
        scenario!(a_proof_that_goes_away_counts_for_its_grace_and_no_longer),
        scenario!(too_many_domains_of_one_tenant_wait),
    ]
}

/// The line of claims.com that scenarios replace and put back.
const CLAIM: &str = "@ IN TXT \"bailiwick-verification=abc\"";

pub async fn token(api: &Api<DynamicObject>, name: &str) -> Result<String> {
    let has = |object: &DynamicObject| !text(object, "/status/verification/challenge/token").is_empty();
    let object = until_named(api.clone(), name, has).await?;
    Ok(text(&object, "/status/verification/challenge/token").to_owned())
}

fn record(token: &str) -> String {
    format!("_bailiwick-challenge IN TXT \"{token}\"")
}

/// Who had the name, from and to, as the history tells it, the latest first.
fn ownership(object: &DynamicObject) -> Vec<[&str; 2]> {
    let all = object.data.pointer("/status/history").and_then(Value::as_array);
    let of_owner = all.into_iter().flatten().filter(|change| change["field"] == "ownership");
    of_owner.map(|change| ["old", "new"].map(|end| change[end].as_str().unwrap_or_default())).collect()
}

/// Has the service look now, as the portal's button does, an hour later.
async fn look_again(world: &World, api: &Api<DynamicObject>, name: &str, hours: i64) -> Result<()> {
    world.clock.advance(SignedDuration::from_hours(hours));
    let stamp = jiff::Timestamp::now().to_string();
    let patch = json!({"metadata": {"annotations": {RESCAN_ANNOTATION: stamp}}});
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

async fn a_proof_is_noticed_within_five_seconds_and_what_is_wrong_is_told_before(world: &World) -> Result<()> {
    world.namespace("prompt").await?;
    let api = world.domains("prompt");
    create(&api, "Domain", "claims", json!({"name": "claims.com"})).await?;
    let token = token(&api, "claims").await?;
    let cut = record(&token[..20]);
    world.bed.edit_zone("claims.com", CLAIM, &cut)?;
    let wrong = |object: &DynamicObject| condition(object, "Verified").1 == "VerificationRecordContentMismatch";
    let object = until_named(api.clone(), "claims", wrong).await?;
    tells(condition(&object, "Verified").2, "only 20 of 32 letters are there: the value was cut off");
    world.bed.edit_zone("claims.com", &cut, &record(&token))?;
    let live = Instant::now();
    let object = until_named(api.clone(), "claims", |object| condition(object, "Verified").0 == "True").await?;
    let took = live.elapsed();
    println!("a proof was noticed {took:?} after it was live");
    tells(condition(&object, "Verified").2, "the record is on all");
    tells(&world.event(&world.client, "prompt", "DomainVerified").await?, "claims.com is verified");
    world.bed.edit_zone("claims.com", &record(&token), CLAIM)?;
    api.delete("claims", &DeleteParams::default()).await?;
    Ok(())
}

async fn a_squatter_blocks_nobody_and_the_fresh_proof_wins(world: &World) -> Result<()> {
    for namespace in ["former", "squatter", "rightful"] {
        world.namespace(namespace).await?;
    }
    let [former, squatter, rightful] = ["former", "squatter", "rightful"].map(|namespace| world.domains(namespace));
    create(&squatter, "Domain", "claims", json!({"name": "claims.com"})).await?;
    create(&former, "Domain", "claims", json!({"name": "claims.com"})).await?;
    let first = record(&token(&former, "claims").await?);
    world.bed.edit_zone("claims.com", CLAIM, &first)?;
    until_named(former.clone(), "claims", |object| condition(object, "Verified").0 == "True").await?;
    // Who has no proof is told that somebody has, and not who.
    let object =
        until_named(squatter.clone(), "claims", |object| condition(object, "Verified").1 == "Conflict").await?;
    let message = condition(&object, "Verified").2;
    tells(message, "another tenant has proved this domain; a fresh proof takes it over.");
    assert!(!message.contains("former"), "{message}");
    // The zone is somebody else's now, who puts a proof of their own there.
    create(&rightful, "Domain", "claims", json!({"name": "claims.com"})).await?;
    let second = record(&token(&rightful, "claims").await?);
    world.bed.edit_zone("claims.com", &first, &second)?;
    until_named(rightful.clone(), "claims", |object| condition(object, "Verified").0 == "True").await?;
    let object =
        until_named(former.clone(), "claims", |object| condition(object, "Verified").1 == "HandedOver").await?;
    tells(
        condition(&object, "Verified").2,
        "claims.com was proved by another tenant and is theirs now; a fresh proof takes it back",
    );
    tells(&world.event(&world.client, "former", "DomainHandedOver").await?, "is theirs now");
    tells(&world.event(&world.client, "rightful", "DomainTakenOver").await?, "its former holder was told");
    // Events are gone after an hour; the trail stays.
    assert_eq!(
        ownership(&object)[..2],
        [["proved by a TXT record", "handed over to another tenant"], ["not proved", "proved by a TXT record"]]
    );
    let object = rightful.get("claims").await?;
    assert_eq!(ownership(&object)[0], ["proved by another tenant", "taken over from another tenant"]);
    tells(&world.event(&world.client, "squatter", "DomainConflict").await?, "another tenant has proved this domain");
    let object = squatter.get("claims").await?;
    assert_eq!(ownership(&object)[0], ["not proved", "in conflict: another tenant has proved it"]);
    // A new token is given, so that the old record proves nothing.
    let renewed = until_named(former.clone(), "claims", |object| {
        let token = text(object, "/status/verification/challenge/token");
        !token.is_empty() && !first.contains(token)
    });
    renewed.await?;
    world.bed.edit_zone("claims.com", &second, CLAIM)?;
    for api in [&former, &squatter, &rightful] {
        api.delete("claims", &DeleteParams::default()).await?;
    }
    Ok(())
}

async fn a_twin_in_the_same_namespace_is_told_as_one(world: &World) -> Result<()> {
    world.namespace("twins").await?;
    let api = world.domains("twins");
    create(&api, "Domain", "elder", json!({"name": "claims.com"})).await?;
    let proof = record(&token(&api, "elder").await?);
    world.bed.edit_zone("claims.com", CLAIM, &proof)?;
    until_named(api.clone(), "elder", |object| condition(object, "Verified").0 == "True").await?;
    create(&api, "Domain", "younger", json!({"name": "claims.com"})).await?;
    let object = until_named(api.clone(), "younger", |object| condition(object, "Verified").1 == "Conflict").await?;
    tells(condition(&object, "Verified").2, "the Domain elder of the same namespace has proved this domain");
    let history = ownership(&object);
    assert_eq!(history[0][1], "in conflict: the Domain elder of the same namespace has proved it");
    world.bed.edit_zone("claims.com", &proof, CLAIM)?;
    for name in ["elder", "younger"] {
        api.delete(name, &DeleteParams::default()).await?;
    }
    Ok(())
}

async fn a_proof_that_goes_away_counts_for_its_grace_and_no_longer(world: &World) -> Result<()> {
    world.namespace("graced").await?;
    let api = world.domains("graced");
    create(&api, "Domain", "claims", json!({"name": "claims.com"})).await?;
    let proof = record(&token(&api, "claims").await?);
    world.bed.edit_zone("claims.com", CLAIM, &proof)?;
    until_named(api.clone(), "claims", |object| condition(object, "Verified").0 == "True").await?;
    // The token's week is over, and the record is still there: that is enough, also for a controller that starts then.
    let object = world.rescan(&api, "claims", 8 * 24 * 60).await?;
    assert_eq!(condition(&object, "Verified").1, "Verified");
    world.restart().await;
    let object = world.rescan(&api, "claims", 8 * 24 * 60).await?;
    assert_eq!(condition(&object, "Verified").1, "Verified");
    world.bed.edit_zone("claims.com", &proof, CLAIM)?;
    look_again(world, &api, "claims", 1).await?;
    let object = until_named(api.clone(), "claims", |object| condition(object, "Verified").1 == "ProofMissing").await?;
    let (status, _, message) = condition(&object, "Verified");
    assert_eq!(status, "True");
    tells(message, "the proof cannot be seen any more and counts until");
    tells(&world.event(&world.client, "graced", "ProofMissing").await?, "counts until");
    look_again(world, &api, "claims", 73).await?;
    let object = until_named(api.clone(), "claims", |object| condition(object, "Verified").0 == "False").await?;
    tells(condition(&object, "Verified").2, "a new proof is needed");
    tells(&world.event(&world.client, "graced", "VerificationLapsed").await?, "claims.com is no longer verified");
    api.delete("claims", &DeleteParams::default()).await?;
    Ok(())
}

async fn too_many_domains_of_one_tenant_wait(world: &World) -> Result<()> {
    world.namespace("crowd").await?;
    let api = world.domains("crowd");
    for name in ["a", "b", "c", "d"] {
        create(&api, "Domain", name, json!({"name": "plain.com"})).await?;
    }
    create(&api, "Domain", "z", json!({"name": "plain.com"})).await?;
    let object = until_named(api.clone(), "z", |object| condition(object, "Healthy").1 == "QuotaExceeded").await?;
    tells(condition(&object, "Healthy").2, "the namespace crowd has more than 4 domains: this one is not looked at");
    assert!(object.data.pointer("/status/registrarIANAName").is_none());
    for name in ["a", "b", "c", "d", "z"] {
        api.delete(name, &DeleteParams::default()).await?;
    }
    Ok(())
}
