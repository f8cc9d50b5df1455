//! The server is killed and comes back on the same data, with the service in it, or its etcd is; an agent elsewhere only loses
//! sight of it. Nobody helps any of them: what happened meanwhile is noticed, what was told is not told again, and what was begun is finished.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use anyhow::{Context, Result};
use bailiwick_domains_controller::RESCAN_ANNOTATION;
use bailiwick_fakenet::scenario;
use bailiwick_fakenet::scenarios::Scenario;
use bailiwick_testkit::{Etcd, Server};
use jiff::{SignedDuration, Timestamp};
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::agents::{Agent, agent_at, check_at_until, geo};
use crate::claims::token;
use crate::world::{World, condition, create, events, resource, text, until_named, until_served};

pub fn scenarios() -> Vec<Scenario<World>> {
    vec![
        scenario!(a_server_that_was_killed_goes_on_where_it_was_and_so_do_its_agents),
        scenario!(while_etcd_is_away_nothing_is_done_and_afterwards_nothing_is_lost_or_told_twice),
    ]
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

/// A registration of negative.com that ends then, with these flags.
fn registration(world: &World, end: Timestamp, flags: &[&str]) -> Result<String> {
    registration_of(world, "negative.com", end, flags)
}

/// The same of another domain.
fn registration_of(world: &World, domain: &str, end: Timestamp, flags: &[&str]) -> Result<String> {
    let text = world.bed.registration("com", domain).context("a registration")?;
    let mut registration: Value = serde_json::from_str(&text)?;
    for event in registration["events"].as_array_mut().into_iter().flatten() {
        if event["eventAction"] == "expiration" {
            event["eventDate"] = json!(end.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
        }
    }
    registration["status"] = json!(flags);
    Ok(registration.to_string())
}

/// What was told of a domain, each as often as it was, in order.
async fn reasons(client: &Client, domain: &str) -> Result<Vec<String>> {
    let told = events(client, "default").await?.into_iter().filter(|(_, note)| note.contains(domain));
    let mut reasons: Vec<String> = told.map(|(reason, _)| reason).collect();
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

/// A server with the service, in the middle of its work: a domain that is watched over and was warned of, one that waits for its
/// proof, an agent elsewhere, and a check that has just begun.
struct AtWork {
    client: Client,
    domains: Api<DynamicObject>,
    checks: Api<DynamicObject>,
    proof: String,
    _agent: Agent,
}

/// What is told of the two domains once all that happens in [`AtWork::the_world_goes_on`] is noticed.
const TOLD: [(&str, &[&str]); 2] = [
    ("negative.com", &["DomainChanged", "DomainExpiresWithin3Days", "DomainExpiresWithin7Days", "RecordDrifted"]),
    ("claims.com", &["DomainVerified"]),
];

fn in_days(days: i64) -> Timestamp {
    Timestamp::now() + SignedDuration::from_hours(days * 24)
}

impl AtWork {
    async fn begin(world: &World, server: &Server, agent: &str) -> Result<Self> {
        let known = registration(world, in_days(6), &["client transfer prohibited"])?;
        world.bed.set_registration("com", "negative.com", known);
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
        assert_eq!(reasons(&client, "negative.com").await?, ["DomainExpiresWithin7Days"]);
        let agent = agent_at(world, &client, &server.kubeconfig(), agent, "100.64.3.1").await?;
        let work = Self { client, domains, checks, proof, _agent: agent };
        work.agent_answers().await?;
        create(&work.checks, "DomainCheck", "midway", geo()).await?;
        Ok(work)
    }

    async fn agent_answers(&self) -> Result<()> {
        check_at_until(self.checks.clone(), geo(), "203.0.113.2 at pop-away").await?;
        Ok(())
    }

    /// While nobody looks: a proof is brought, a record drifts, a flag comes, and the registration ends sooner.
    fn the_world_goes_on(&self, world: &World) -> Result<()> {
        world.bed.edit_zone("claims.com", CLAIM, &self.proof)?;
        world.bed.edit_zone("negative.com", RIGHT, WRONG)?;
        world.bed.set_registration("com", "negative.com", registration(world, in_days(2), &["client hold"])?);
        Ok(())
    }

    /// Proofs, checks and agents go on by themselves, and what is looked at every hour is noticed when it is looked at.
    async fn goes_on(&self) -> Result<()> {
        let is_finished = |object: &DynamicObject| !text(object, "/status/completionTime").is_empty();
        let midway = until_named(self.checks.clone(), "midway", is_finished).await?;
        assert_eq!(text(&midway, "/status/phase"), "Succeeded");
        let is_verified = |object: &DynamicObject| {
            condition(object, "Verified").0 == "True" && object.data.pointer("/status/unannounced").is_none()
        };
        until_named(self.domains.clone(), "claims", is_verified).await?;
        self.agent_answers().await?;
        rescan(&self.domains, "negative").await?;
        self.all_is_told_once().await
    }

    async fn all_is_told_once(&self) -> Result<()> {
        for (domain, told) in TOLD {
            assert_eq!(reasons(&self.client, domain).await?, told, "{domain}");
        }
        Ok(())
    }

    /// A server that looks once more has nothing to add.
    async fn tells_nothing_twice(&self, server: &mut Server) -> Result<()> {
        server.restart()?;
        until_served(&self.client).await?;
        rescan(&self.domains, "negative").await?;
        rescan(&self.domains, "claims").await?;
        self.all_is_told_once().await
    }

    /// The zones are as they were, for the scenarios that follow.
    fn end(&self, world: &World) -> Result<()> {
        world.bed.edit_zone("negative.com", WRONG, RIGHT)?;
        world.bed.edit_zone("claims.com", &self.proof, CLAIM)
    }
}

async fn a_server_that_was_killed_goes_on_where_it_was_and_so_do_its_agents(world: &World) -> Result<()> {
    let mut server = Server::start_with(program(world)?, &["--with", "domains"])?;
    let work = AtWork::begin(world, &server, "pop-away1").await?;
    server.kill();
    work.the_world_goes_on(world)?;
    server.restart()?;
    until_served(&work.client).await?;
    work.goes_on().await?;
    work.tells_nothing_twice(&mut server).await?;
    work.end(world)
}

/// The server lives and has nowhere to write: nothing may be told that is not written down, and nothing that was found meanwhile
/// may be lost.
async fn while_etcd_is_away_nothing_is_done_and_afterwards_nothing_is_lost_or_told_twice(world: &World) -> Result<()> {
    let Some(mut etcd) = Etcd::start()? else { return Ok(()) };
    let mut server = Server::start_with(program(world)?, &["--with", "domains", "--etcd-servers", etcd.url()])?;
    let work = AtWork::begin(world, &server, "pop-away2").await?;
    // Its first look, and its first warning, fall into the outage or just before: it is warned of once either way.
    let end = registration_of(world, "moving.com", in_days(12), &["ok"])?;
    world.bed.set_registration("com", "moving.com", end);
    create(&work.domains, "Domain", "moving", json!({"name": "moving.com"})).await?;
    etcd.kill();
    work.the_world_goes_on(world)?;
    let refused = create(&work.checks, "DomainCheck", "meanwhile", geo()).await;
    assert!(refused.is_err(), "there is nowhere to write");
    etcd.restart()?;
    until_served(&work.client).await?;
    let is_warned = |object: &DynamicObject| {
        object.data.pointer("/status/expiry").is_some() && object.data.pointer("/status/unannounced").is_none()
    };
    until_named(work.domains.clone(), "moving", is_warned).await?;
    work.goes_on().await?;
    work.tells_nothing_twice(&mut server).await?;
    assert_eq!(reasons(&work.client, "moving.com").await?, ["DomainExpiresWithin15Days"], "neither lost nor doubled");
    work.end(world)
}
