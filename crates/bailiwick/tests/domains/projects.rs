//! Domains inside projects: the same service, and claims that meet across tenants who cannot see each other.

use anyhow::Result;
use bailiwick_domains_controller::PROJECT_LABEL;
use bailiwick_fakenet::scenario;
use bailiwick_fakenet::scenarios::Scenario;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::claims::token;
use crate::world::{World, condition, create, resource, tells, text, until_named};

pub fn scenarios() -> Vec<Scenario<World>> {
    vec![
        scenario!(a_project_with_the_label_has_domains_and_checks),
        scenario!(a_name_goes_from_one_project_to_another_with_the_fresh_proof),
        scenario!(whoever_writes_a_proof_into_their_own_status_gets_no_domain_by_it),
    ]
}

/// A project with the label, and a client of its control plane.
async fn project(world: &World, name: &str) -> Result<Client> {
    let post = async |path: &str, body: Value| -> Result<Value> {
        let request =
            http::Request::post(path).header("content-type", "application/json").body(serde_json::to_vec(&body)?)?;
        Ok(world.client.request(request).await?)
    };
    let group = "resourcemanager.miloapis.com/v1alpha1";
    let organization =
        json!({"apiVersion": group, "kind": "Organization", "metadata": {"name": format!("{name}-org")}});
    post(&format!("/apis/{group}/organizations"), organization).await?;
    let project = json!({
        "apiVersion": group, "kind": "Project",
        "metadata": {"name": name, "labels": {PROJECT_LABEL: "enabled"}},
        "spec": {"ownerRef": {"kind": "Organization", "name": format!("{name}-org")}},
    });
    post(&format!("/apis/{group}/projects"), project).await?;
    let kubeconfig = Kubeconfig::read_from(&world.plane.kubeconfig)?;
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.cluster_url = format!("{}projects/{name}", config.cluster_url).parse()?;
    let client = Client::try_from(config)?;
    let domains: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &resource("Domain", "domains"));
    let deadline = tokio::time::Instant::now() + crate::world::PATIENCE;
    while let Err(error) = domains.list(&kube::api::ListParams::default()).await {
        anyhow::ensure!(tokio::time::Instant::now() < deadline, "{name} has no Domains: {error}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    Ok(client)
}

fn domains(client: &Client) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), "default", &resource("Domain", "domains"))
}

async fn a_project_with_the_label_has_domains_and_checks(world: &World) -> Result<()> {
    let client = project(world, "shop").await?;
    create(&domains(&client), "Domain", "plain", json!({"name": "plain.com"})).await?;
    let object = until_named(domains(&client), "plain", |object| !condition(object, "Healthy").0.is_empty()).await?;
    tells(text(&object, "/status/registrarIANAName"), "GoDaddy");
    let checks: Api<DynamicObject> = Api::namespaced_with(client, "default", &resource("DomainCheck", "domainchecks"));
    create(&checks, "DomainCheck", "look", json!({"tool": "scan", "name": "good.com"})).await?;
    let object = until_named(checks, "look", |object| text(object, "/status/phase") == "Succeeded").await?;
    tells(text(&object, "/status/summary"), "good.com: nothing to worry about");
    Ok(())
}

async fn a_name_goes_from_one_project_to_another_with_the_fresh_proof(world: &World) -> Result<()> {
    const CLAIM: &str = "@ IN TXT \"bailiwick-verification=abc\"";
    let (one, two) = (project(world, "first-tenant").await?, project(world, "second-tenant").await?);
    create(&domains(&one), "Domain", "claims", json!({"name": "claims.com"})).await?;
    let first = format!("_bailiwick-challenge IN TXT \"{}\"", token(&domains(&one), "claims").await?);
    world.bed.edit_zone("claims.com", CLAIM, &first)?;
    until_named(domains(&one), "claims", |object| condition(object, "Verified").0 == "True").await?;
    create(&domains(&two), "Domain", "mine", json!({"name": "claims.com"})).await?;
    let object = until_named(domains(&two), "mine", |object| condition(object, "Verified").1 == "Conflict").await?;
    tells(condition(&object, "Verified").2, "another tenant has proved this domain");
    let second = format!("_bailiwick-challenge IN TXT \"{}\"", token(&domains(&two), "mine").await?);
    world.bed.edit_zone("claims.com", &first, &second)?;
    until_named(domains(&two), "mine", |object| condition(object, "Verified").0 == "True").await?;
    let object = until_named(domains(&one), "claims", |object| condition(object, "Verified").1 == "HandedOver").await?;
    let message = condition(&object, "Verified").2;
    tells(message, "claims.com was proved by another tenant and is theirs now");
    assert!(!message.contains("second-tenant"), "{message}");
    tells(&world.event(&one, "default", "DomainHandedOver").await?, "is theirs now");
    tells(&world.event(&two, "default", "DomainTakenOver").await?, "its former holder was told");
    world.bed.edit_zone("claims.com", &second, CLAIM)?;
    domains(&one).delete("claims", &DeleteParams::default()).await?;
    domains(&two).delete("mine", &DeleteParams::default()).await?;
    Ok(())
}

/// Changes the status of an object as somebody with all rights in a project can.
async fn forge(api: &Api<DynamicObject>, name: &str, verification: Value) -> Result<()> {
    let patch = json!({"status": {"verification": verification}});
    api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// Waits until an object has a token that is none of these.
async fn another_token(api: &Api<DynamicObject>, name: &str, old: &[&str]) -> Result<DynamicObject> {
    until_named(api.clone(), name, |object| {
        let token = text(object, "/status/verification/challenge/token");
        !token.is_empty() && !old.contains(&token)
    })
    .await
}

async fn whoever_writes_a_proof_into_their_own_status_gets_no_domain_by_it(world: &World) -> Result<()> {
    const CLAIM: &str = "@ IN TXT \"bailiwick-verification=abc\"";
    let (victim, thief) = (project(world, "robbed-tenant").await?, project(world, "thieving-tenant").await?);
    create(&domains(&victim), "Domain", "claims", json!({"name": "claims.com"})).await?;
    let published = token(&domains(&victim), "claims").await?;
    let record = format!("_bailiwick-challenge IN TXT \"{published}\"");
    world.bed.edit_zone("claims.com", CLAIM, &record)?;
    until_named(domains(&victim), "claims", |object| condition(object, "Verified").0 == "True").await?;
    let api = domains(&thief);
    create(&api, "Domain", "loot", json!({"name": "claims.com"})).await?;
    let own = token(&api, "loot").await?;
    until_named(api.clone(), "loot", |object| condition(object, "Verified").1 == "Conflict").await?;
    // The token that the victim has published, with and without the seal of another state.
    for seal in [json!({}), json!({"seal": null})] {
        let mut verification = json!({"challenge": {"token": published}});
        verification.as_object_mut().expect("an object").extend(seal.as_object().cloned().unwrap_or_default());
        forge(&api, "loot", verification).await?;
        world.rescan(&api, "loot", 6).await?;
        let object = another_token(&api, "loot", &[&own, &published]).await?;
        assert_ne!(condition(&object, "Verified").0, "True", "{object:?}");
    }
    tells(&world.event(&thief, "default", "ProofNotBelieved").await?, "the domain must be proved with it");
    // A proof that is later than every other.
    let later = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(100_000);
    let proved = json!({"state": "proved", "method": "dnsTxt", "since": later, "lastSeen": later});
    forge(&api, "loot", json!({"standing": proved})).await?;
    let object = world.rescan(&api, "loot", 6).await?;
    assert_ne!(text(&object, "/status/verification/standing/state"), "proved");
    // What the victim itself has, seal and all.
    let theirs = domains(&victim).get("claims").await?.data["status"]["verification"].clone();
    forge(&api, "loot", theirs).await?;
    let object = world.rescan(&api, "loot", 6).await?;
    assert_eq!(condition(&object, "Verified").0, "False");
    assert_ne!(text(&object, "/status/verification/challenge/token"), published);
    let object = world.rescan(&domains(&victim), "claims", 6).await?;
    assert_eq!(condition(&object, "Verified").0, "True", "the victim's proof stands");
    let history = object.data.pointer("/status/history").map(Value::to_string).unwrap_or_default();
    assert!(!history.contains("handed over"), "{history}");
    world.bed.edit_zone("claims.com", &record, CLAIM)?;
    domains(&victim).delete("claims", &DeleteParams::default()).await?;
    api.delete("loot", &DeleteParams::default()).await?;
    Ok(())
}
