//! The ways to prove a domain, as objects show them and as they are taken.

use anyhow::Result;
use bailiwick_fakenet::scenario;
use bailiwick_fakenet::scenarios::Scenario;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::claims::token;
use crate::world::{DELEGATION_ZONE, NAMESERVER_ZONE, World, condition, create, text, until_named};

pub fn scenarios() -> Vec<Scenario<World>> {
    vec![
        scenario!(a_cname_into_the_zone_of_the_service_is_shown_and_proves),
        scenario!(a_delegation_to_a_nameserver_of_the_service_is_shown_and_proves),
        scenario!(a_file_on_the_site_is_shown_and_proves),
        scenario!(a_proof_is_for_its_scope_and_account),
    ]
}

/// The line of claims.com that scenarios replace and put back.
const CLAIM: &str = "@ IN TXT \"bailiwick-verification=abc\"";

async fn a_cname_into_the_zone_of_the_service_is_shown_and_proves(world: &World) -> Result<()> {
    world.namespace("delegated").await?;
    let api = world.domains("delegated");
    create(&api, "Domain", "claims", json!({"name": "claims.com"})).await?;
    let token = token(&api, "claims").await?;
    let object = api.get("claims").await?;
    let target = format!("{token}.{DELEGATION_ZONE}");
    assert_eq!(
        object.data.pointer("/status/verification/cnameRecord"),
        Some(&json!({"name": "_bailiwick-challenge.claims.com", "type": "CNAME", "content": target}))
    );
    let alias = format!("_bailiwick-challenge IN CNAME {target}.");
    world.bed.edit_zone("claims.com", CLAIM, &alias)?;
    let object = until_named(api.clone(), "claims", |object| condition(object, "Verified").0 == "True").await?;
    assert_eq!(text(&object, "/status/verification/standing/method"), "dnsDelegation");
    world.bed.edit_zone("claims.com", &alias, CLAIM)?;
    api.delete("claims", &DeleteParams::default()).await?;
    Ok(())
}

async fn a_delegation_to_a_nameserver_of_the_service_is_shown_and_proves(world: &World) -> Result<()> {
    world.namespace("given").await?;
    let api = world.domains("given");
    create(&api, "Domain", "given", json!({"name": "given.claims.com"})).await?;
    let token = token(&api, "given").await?;
    let object = api.get("given").await?;
    let target = format!("{token}.{NAMESERVER_ZONE}");
    assert_eq!(
        object.data.pointer("/status/verification/nsRecord"),
        Some(&json!({"name": "given.claims.com", "type": "NS", "content": target}))
    );
    let delegation = format!("given IN NS {target}.");
    world.bed.edit_zone("claims.com", CLAIM, &delegation)?;
    let object = until_named(api.clone(), "given", |object| condition(object, "Verified").0 == "True").await?;
    assert_eq!(text(&object, "/status/verification/standing/method"), "dnsNameserver");
    assert_eq!(text(&object, "/status/verification/evidence/delegations/0/nameservers/0"), target);
    world.bed.edit_zone("claims.com", &delegation, CLAIM)?;
    api.delete("given", &DeleteParams::default()).await?;
    Ok(())
}

async fn a_file_on_the_site_is_shown_and_proves(world: &World) -> Result<()> {
    world.namespace("filed").await?;
    let api = world.domains("filed");
    create(&api, "Domain", "claims", json!({"name": "claims.com"})).await?;
    token(&api, "claims").await?;
    let object = api.get("claims").await?;
    let url = text(&object, "/status/verification/http/url").to_owned();
    let path = url.strip_prefix("http://claims.com").expect("a file of the domain's own site");
    world.bed.put_on_site("claims.com", path, text(&object, "/status/verification/http/body"));
    let object = until_named(api.clone(), "claims", |object| condition(object, "Verified").0 == "True").await?;
    assert_eq!(text(&object, "/status/verification/standing/method"), "httpFile");
    assert_eq!(text(&object, "/status/verification/evidence/site/url"), url);
    assert_eq!(text(&object, "/status/verification/evidence/site/file"), "present");
    api.delete("claims", &DeleteParams::default()).await?;
    Ok(())
}

async fn a_proof_is_for_its_scope_and_account(world: &World) -> Result<()> {
    world.namespace("scoped").await?;
    let api = world.domains("scoped");
    let spec = json!({"name": "claims.com", "verification": {"scope": "Host", "accountLabel": "k4ng"}});
    create(&api, "Domain", "claims", spec).await?;
    let first = token(&api, "claims").await?;
    let object = api.get("claims").await?;
    let name = "_k4ng._bailiwick-host-challenge.claims.com";
    assert_eq!(text(&object, "/status/verification/record/name"), name);
    let proof = format!("_k4ng._bailiwick-host-challenge IN TXT \"{first}\"");
    world.bed.edit_zone("claims.com", CLAIM, &proof)?;
    until_named(api.clone(), "claims", |object| condition(object, "Verified").0 == "True").await?;
    // What was proved for the host is not proved for everything below it.
    let wider = json!({"spec": {"verification": {"scope": "Domain"}}});
    api.patch("claims", &PatchParams::default(), &Patch::Merge(wider)).await?;
    let object = until_named(api.clone(), "claims", |object| condition(object, "Verified").0 == "False").await?;
    assert_eq!(text(&object, "/status/verification/record/name"), "_k4ng._bailiwick-challenge.claims.com");
    assert_ne!(text(&object, "/status/verification/challenge/token"), first);
    world.bed.edit_zone("claims.com", &proof, CLAIM)?;
    api.delete("claims", &DeleteParams::default()).await?;
    Ok(())
}
