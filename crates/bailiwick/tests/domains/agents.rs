//! Vantage points on other machines: agents as programs of their own, with an agent's rights and no more.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use bailiwick_domains_controller::{AGENT_ROLE, SERVICE_NAMESPACE};
use bailiwick_fakenet::scenario;
use bailiwick_fakenet::scenarios::Scenario;
use bailiwick_testkit::Controllers;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, RoleBinding, RoleRef, Subject};
use kube::api::{DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::world::{PATIENCE, World, client, condition, create, resource, tells, text, until, until_named};

pub fn scenarios() -> Vec<Scenario<World>> {
    vec![
        scenario!(answers_from_two_agents_are_grouped_by_what_they_see),
        scenario!(a_certificate_that_one_place_still_has_and_a_place_without_answer_are_told),
        scenario!(an_agent_that_is_gone_is_skipped_and_that_is_said),
        scenario!(a_proof_that_another_place_does_not_see_does_not_count),
        scenario!(a_file_that_another_place_does_not_see_does_not_count),
        scenario!(an_agent_may_do_its_work_and_nothing_else),
        scenario!(evidence_that_is_not_what_was_asked_for_is_not_taken),
        scenario!(two_agents_cannot_have_one_name),
        scenario!(an_agent_shows_whether_it_is_registered_and_what_it_did),
    ]
}

/// A running `bailiwick dns agent`; it ends politely when dropped.
pub struct Agent {
    child: Child,
}

impl Drop for Agent {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = Command::new("kill").arg(self.child.id().to_string()).status();
            let _ = self.child.wait();
        }
    }
}

impl Agent {
    /// Ends it as a machine that fails.
    fn fail(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

/// A kubeconfig with the rights of an agent of this name.
async fn credentials(world: &World, name: &str) -> Result<PathBuf> {
    credentials_at(world, &world.client, &world.plane.kubeconfig, name).await
}

/// The same for another server, whose administrator's kubeconfig this is.
async fn credentials_at(world: &World, client: &kube::Client, admin: &Path, name: &str) -> Result<PathBuf> {
    let roles: Api<ClusterRole> = Api::all(client.clone());
    until(roles, |role| role.name_any() == AGENT_ROLE).await.context("the service makes no role for agents")?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), SERVICE_NAMESPACE);
    let metadata = || ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    accounts
        .create(&PostParams::default(), &ServiceAccount { metadata: metadata(), ..ServiceAccount::default() })
        .await?;
    let bindings: Api<RoleBinding> = Api::namespaced(client.clone(), SERVICE_NAMESPACE);
    let binding = RoleBinding {
        metadata: metadata(),
        role_ref: RoleRef {
            api_group: Some("rbac.authorization.k8s.io".to_owned()),
            kind: "ClusterRole".to_owned(),
            name: AGENT_ROLE.to_owned(),
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: name.to_owned(),
            namespace: Some(SERVICE_NAMESPACE.to_owned()),
            ..Subject::default()
        }]),
    };
    bindings.create(&PostParams::default(), &binding).await?;
    let request = TokenRequest {
        spec: Some(TokenRequestSpec { expiration_seconds: Some(3600), ..TokenRequestSpec::default() }),
        ..TokenRequest::default()
    };
    let token = accounts.create_token_request(name, &PostParams::default(), &request).await?;
    let token = token.status.context("a token")?.token;
    let admin: serde_json::Value = serde_json::to_value(kube::config::Kubeconfig::read_from(admin)?)?;
    let cluster = admin.pointer("/clusters/0/cluster").context("a cluster")?;
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "agent",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "agent", "context": {"cluster": "c", "user": "u"}}],
    });
    let file = world.bed.directory().join(format!("{name}.kubeconfig"));
    std::fs::write(&file, config.to_string())?;
    Ok(file)
}

fn command(world: &World, kubeconfig: &Path, name: &str, source: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bailiwick"));
    command
        .args(["dns", "agent", "--name", name, "--region", name, "--source", source, "--kubeconfig"])
        .arg(kubeconfig)
        .env("BAILIWICK_DNS_ROOTS", world.bed.roots_file());
    command
}

fn spawn(world: &World, kubeconfig: &Path, name: &str, source: &str) -> Result<Agent> {
    let child = command(world, kubeconfig, name, source).stderr(Stdio::inherit()).spawn()?;
    Ok(Agent { child })
}

/// An agent that asks from one of the places of the fake internet, once it is registered.
pub async fn agent(world: &World, name: &str, source: &str) -> Result<Agent> {
    let file = credentials(world, name).await?;
    let agent = spawn(world, &file, name, source)?;
    registered(&world.client, name).await?;
    Ok(agent)
}

/// The same for another server.
pub async fn agent_at(world: &World, client: &kube::Client, admin: &Path, name: &str, source: &str) -> Result<Agent> {
    let agent = spawn(world, &credentials_at(world, client, admin, name).await?, name, source)?;
    registered(client, name).await?;
    Ok(agent)
}

async fn registered(client: &kube::Client, name: &str) -> Result<()> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), SERVICE_NAMESPACE);
    let held = |lease: &Lease| {
        let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default();
        lease.name_any() == name && !holder.is_empty()
    };
    until(leases, held).await.with_context(|| format!("{name} does not register"))?;
    Ok(())
}

/// Runs a check again until it tells something: the service learns of leases by a watch of its own, a moment later.
pub async fn check_until(world: &World, namespace: &str, spec: serde_json::Value, told: &str) -> Result<DynamicObject> {
    check_at_until(world.checks(namespace), spec, told).await
}

/// The same with the checks of another server.
pub async fn check_at_until(api: Api<DynamicObject>, spec: serde_json::Value, told: &str) -> Result<DynamicObject> {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let name = format!("check-{:08x}", rand::random::<u32>());
        create(&api, "DomainCheck", &name, spec.clone()).await?;
        let object =
            until_named(api.clone(), &name, |object| matches!(text(object, "/status/phase"), "Succeeded" | "Failed"));
        let object = object.await?;
        let is_late = tokio::time::Instant::now() > deadline;
        if text(&object, "/status/summary").contains(told) || is_late {
            tells(text(&object, "/status/summary"), told);
            return Ok(object);
        }
        // Each is gone when it was read, so that there is room for the next.
        api.delete(&name, &kube::api::DeleteParams::default()).await?;
    }
}

pub fn geo() -> serde_json::Value {
    json!({"tool": "fqdn", "name": "geo.com", "types": ["A"], "endpoints": "skip"})
}

async fn answers_from_two_agents_are_grouped_by_what_they_see(world: &World) -> Result<()> {
    world.namespace("places").await?;
    let _sin = agent(world, "pop-sin1", "100.64.3.1").await?;
    let _gru = agent(world, "pop-gru1", "100.64.4.1").await?;
    let told = "203.0.113.2 at pop-gru1, pop-sin1";
    let object = check_until(world, "places", geo(), told).await?;
    let summary = text(&object, "/status/summary");
    tells(summary, "2 different answers");
    tells(summary, "203.0.113.1 at fra");
    tells(summary, "the answer depends on the place; nothing is stale");
    let places = object.data.pointer("/status/result/0/places").and_then(|list| list.as_array()).context("places")?;
    assert_eq!(places.len(), 3);
    // Only those that are named are asked.
    let mut spec = geo();
    spec["vantagePoints"] = json!(["pop-sin1", "pop-nowhere"]);
    create(&world.checks("places"), "DomainCheck", "some", spec).await?;
    let object =
        until_named(world.checks("places"), "some", |object| text(object, "/status/phase") == "Succeeded").await?;
    tells(text(&object, "/status/summary"), "pop-nowhere was not heard: there is no agent of this name.");
    tells(text(&object, "/status/summary"), "203.0.113.2 at pop-sin1.");
    // Work that was done is removed.
    let probes: Api<DynamicObject> =
        Api::namespaced_with(world.client.clone(), SERVICE_NAMESPACE, &resource("DomainProbe", "domainprobes"));
    assert_eq!(probes.list(&ListParams::default()).await?.items.len(), 0);
    Ok(())
}

/// One address, a machine at each place: Singapore was forgotten when the certificate was changed, São Paulo hangs up.
async fn a_certificate_that_one_place_still_has_and_a_place_without_answer_are_told(world: &World) -> Result<()> {
    // A namespace may have few checks run in a minute.
    for namespace in ["pops", "pops-same", "pops-private", "pops-away"] {
        world.namespace(namespace).await?;
    }
    let spec = |name: &str| json!({"tool": "fqdn", "name": name, "types": ["A"]});
    let _sin = agent(world, "pop-sin2", "100.64.3.1").await?;
    let gru = agent(world, "pop-gru2", "100.64.4.1").await?;
    let told = "the certificate is for former.plain.com, not for pops.plain.com at pop-sin2";
    check_until(world, "pops", spec("pops.plain.com"), told).await?;
    let object = check_until(world, "pops", spec("pops.plain.com"), " at pop-gru2").await?;
    let summary = text(&object, "/status/summary");
    tells(summary, "151.101.1.15 is not the same from everywhere: TLS ok, HTTP 200 at fra; ");
    tells(summary, told);
    tells(summary, "TLS fails: ");
    let (status, _, message) = condition(&object, "Healthy");
    assert_eq!(status, "False");
    tells(message, &format!("151.101.1.15: {told}"));
    assert!(!message.contains("at fra"), "Frankfurt has nothing to mend: {message}");
    // One verdict for each address and place.
    let views = object.data.pointer("/status/result/0/endpoints/0/views").and_then(|list| list.as_array());
    let places = |view: &serde_json::Value| (view["places"].clone(), view["isReady"].clone());
    let views: Vec<_> = views.context("views")?.iter().map(places).collect();
    assert!(views.contains(&(json!(["fra"]), json!(true))), "{views:?}");
    assert!(views.contains(&(json!(["pop-gru2"]), json!(false))), "{views:?}");
    // Where all see the same, that is one line.
    let object = check_until(world, "pops-same", spec("plain.com"), "All 3 places get the same answer").await?;
    let report = text(&object, "/status/report");
    tells(report, "151.101.1.10  TLS ok, HTTP 200");
    assert!(!text(&object, "/status/summary").contains("not the same"));
    // Nobody calls what is not public, wherever they are.
    let object = check_until(world, "pops-private", spec("geo.com"), "203.0.113.2").await?;
    tells(text(&object, "/status/report"), "203.0.113.2  not called: not a public address");
    // A place that goes away is told as away, not as mended and not as broken.
    drop(gru);
    check_until(world, "pops-away", spec("pops.plain.com"), "pop-gru2 was not heard: it was shut down.").await?;
    Ok(())
}

async fn an_agent_that_is_gone_is_skipped_and_that_is_said(world: &World) -> Result<()> {
    world.namespace("away").await?;
    drop(agent(world, "pop-lhr1", "100.64.5.1").await?);
    check_until(world, "away", geo(), "pop-lhr1 was not heard: it was shut down.").await?;
    // One that fails says nothing: its lease ends.
    agent(world, "pop-nrt1", "100.64.6.1").await?.fail()?;
    let leases: Api<Lease> = Api::namespaced(world.client.clone(), SERVICE_NAMESPACE);
    let earlier = jiff::Timestamp::now() - jiff::SignedDuration::from_mins(5);
    let past = json!({"spec": {"renewTime": earlier.strftime("%Y-%m-%dT%H:%M:%S.000000Z").to_string()}});
    leases.patch("pop-nrt1", &PatchParams::default(), &Patch::Merge(past)).await?;
    check_until(world, "away", geo(), "pop-nrt1 was not heard: its lease ended ").await?;
    Ok(())
}

async fn a_proof_that_another_place_does_not_see_does_not_count(world: &World) -> Result<()> {
    world.namespace("split").await?;
    let _syd = agent(world, "pop-syd1", "100.64.7.1").await?;
    check_until(world, "split", geo(), "pop-syd1").await?;
    create(&world.domains("split"), "Domain", "geo", json!({"name": "geo.com"})).await?;
    let object = until_named(world.domains("split"), "geo", |object| {
        object.data.pointer("/status/verification/challenge/token").is_some()
    });
    let token = text(&object.await?, "/status/verification/challenge/token").to_owned();
    world.bed.add_to_view("fra", &format!("_bailiwick-challenge 60 IN TXT \"{token}\""))?;
    let object = until_named(world.domains("split"), "geo", |object| {
        condition(object, "Verified").2.contains("not from pop-syd1")
    });
    let object = object.await?;
    let (status, _, message) = condition(&object, "Verified");
    assert_eq!(status, "False");
    tells(message, "seen from fra, not from pop-syd1: the servers answer differently depending on who asks");
    world.bed.add_to_view("rest", &format!("_bailiwick-challenge 60 IN TXT \"{token}\""))?;
    let object = until_named(world.domains("split"), "geo", |object| condition(object, "Verified").0 == "True").await?;
    let evidence = object.data.pointer("/status/verification/evidence/answers").context("evidence")?.to_string();
    tells(&evidence, "\"vantagePoint\":\"pop-syd1\"");
    tells(&evidence, "\"vantagePoint\":\"fra\"");
    world.domains("split").delete("geo", &kube::api::DeleteParams::default()).await?;
    Ok(())
}

/// A site that shows its visitors different things, as one that was taken over in one place does.
async fn a_file_that_another_place_does_not_see_does_not_count(world: &World) -> Result<()> {
    world.namespace("filed-there").await?;
    let _jnb = agent(world, "pop-jnb1", "100.64.8.1").await?;
    check_until(world, "filed-there", geo(), "pop-jnb1").await?;
    world.bed.hide_files_on_site("claims.com", Some("100.64.8.1".parse()?));
    let api = world.domains("filed-there");
    create(&api, "Domain", "claims", json!({"name": "claims.com"})).await?;
    let object = until_named(api.clone(), "claims", |object| !text(object, "/status/verification/http/url").is_empty());
    let object = object.await?;
    let url = text(&object, "/status/verification/http/url");
    let path = url.strip_prefix("http://claims.com").context("a file of the domain's own site")?;
    world.bed.put_on_site("claims.com", path, text(&object, "/status/verification/http/body"));
    let told =
        format!("the file at {url} is seen from fra, not from pop-jnb1: the site must be the same for everybody");
    let object =
        until_named(api.clone(), "claims", |object| condition(object, "Verified").2.contains("not from pop-jnb1"));
    let object = object.await?;
    let (status, _, message) = condition(&object, "Verified");
    assert_eq!(status, "False");
    tells(message, &told);
    tells(message, &format!("pop-jnb1: the file at {url} has something else in it"));
    world.bed.hide_files_on_site("claims.com", None);
    let object = until_named(api.clone(), "claims", |object| condition(object, "Verified").0 == "True").await?;
    tells(condition(&object, "Verified").2, &format!("the file is at {url}, seen from 2 places"));
    assert_eq!(text(&object, "/status/verification/standing/method"), "httpFile");
    let elsewhere = object.data.pointer("/status/verification/evidence/sitesElsewhere/0").context("evidence")?;
    assert_eq!((&elsewhere["vantagePoint"], &elsewhere["file"]), (&json!("pop-jnb1"), &json!("present")));
    api.delete("claims", &kube::api::DeleteParams::default()).await?;
    Ok(())
}

async fn an_agent_may_do_its_work_and_nothing_else(world: &World) -> Result<()> {
    let file = credentials(world, "pop-least").await?;
    let own = client(&file).await?;
    let forbidden = |error: kube::Error| matches!(error, kube::Error::Api(status) if status.code == 403);
    let domains: Api<DynamicObject> = Api::namespaced_with(own.clone(), "default", &resource("Domain", "domains"));
    assert!(domains.list(&ListParams::default()).await.is_err_and(forbidden));
    let probes = |client: &kube::Client| -> Api<DynamicObject> {
        Api::namespaced_with(client.clone(), SERVICE_NAMESPACE, &resource("DomainProbe", "domainprobes"))
    };
    assert!(create(&probes(&own), "DomainProbe", "mine", json!({})).await.is_err());
    // Nobody answers for another, and nobody renews another's lease.
    let spec = json!({
        "agent": "pop-other", "deadline": "2030-01-01T00:00:00Z",
        "questions": [{"kind": "look", "name": "good.com", "record": "A"}],
    });
    create(&probes(&world.client), "DomainProbe", "pop-other-1", spec).await?;
    let evidence = json!({"status": {"evidence": "[]"}});
    let written = probes(&own).patch_status("pop-other-1", &PatchParams::default(), &Patch::Merge(&evidence)).await;
    let told = written.expect_err("refused").to_string();
    tells(&told, "an agent answers for itself alone");
    let leases: Api<Lease> = Api::namespaced(own, SERVICE_NAMESPACE);
    let metadata = ObjectMeta { name: Some("pop-other".to_owned()), ..ObjectMeta::default() };
    let lease = leases.create(&PostParams::default(), &Lease { metadata, ..Lease::default() }).await;
    tells(&lease.expect_err("refused").to_string(), "an agent answers for itself alone");
    probes(&world.client).delete("pop-other-1", &kube::api::DeleteParams::default()).await?;
    Ok(())
}

async fn evidence_that_is_not_what_was_asked_for_is_not_taken(world: &World) -> Result<()> {
    world.namespace("liar").await?;
    let leases: Api<Lease> = Api::namespaced(world.client.clone(), SERVICE_NAMESPACE);
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "pop-liar", "labels": {"datumapis.com/dns-agent": "true"}},
        "spec": {"holderIdentity": "liar", "leaseDurationSeconds": 600,
                 "renewTime": jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.000000Z").to_string()},
    });
    leases.create(&PostParams::default(), &serde_json::from_value(lease)?).await?;
    let probes: Api<DynamicObject> =
        Api::namespaced_with(world.client.clone(), SERVICE_NAMESPACE, &resource("DomainProbe", "domainprobes"));
    let lying = async {
        loop {
            let probe = until(probes.clone(), |probe| {
                text(probe, "/spec/agent") == "pop-liar" && probe.data.pointer("/status/evidence").is_none()
            });
            let name = probe.await?.name_any();
            let evidence = json!([{"kind": "look", "place": {"place": "fra", "outcome": {"kind": "found"}, "serials": [],
                "elapsedMs": 1.0, "records": [{"name": "x", "type": "TXT", "ttl": 1, "data": "lies"}]}}]);
            let status = json!({"status": {"evidence": evidence.to_string()}});
            probes.patch_status(&name, &PatchParams::default(), &Patch::Merge(&status)).await?;
        }
        #[allow(unreachable_code)]
        Ok::<(), anyhow::Error>(())
    };
    let told = "pop-liar was not heard: its evidence is not taken: it is about something else.";
    tokio::select! {
        ended = lying => ended?,
        checked = check_until(world, "liar", geo(), told) => { checked?; }
    }
    leases.delete("pop-liar", &kube::api::DeleteParams::default()).await?;
    Ok(())
}

async fn two_agents_cannot_have_one_name(world: &World) -> Result<()> {
    let file = credentials(world, "pop-twin").await?;
    let _first = spawn(world, &file, "pop-twin", "100.64.8.1")?;
    registered(&world.client, "pop-twin").await?;
    let output = Command::new(env!("CARGO_BIN_EXE_bailiwick"))
        .args(["dns", "agent", "--name", "pop-twin", "--kubeconfig"])
        .arg(&file)
        .env("BAILIWICK_DNS_ROOTS", world.bed.roots_file())
        .output()?;
    assert!(!output.status.success());
    tells(&String::from_utf8_lossy(&output.stderr), "another agent is called pop-twin and is alive");
    Ok(())
}

async fn an_agent_shows_whether_it_is_registered_and_what_it_did(world: &World) -> Result<()> {
    world.namespace("shown").await?;
    let file = credentials(world, "pop-shown").await?;
    let agent = Controllers::start_as(command(world, &file, "pop-shown", "100.64.9.1"))?;
    assert_eq!(agent.get("/healthz")?, (200, "ok".to_owned()));
    registered(&world.client, "pop-shown").await?;
    check_until(world, "shown", geo(), "pop-shown").await?;
    assert_eq!(agent.get("/readyz")?, (200, "registered".to_owned()));
    let (status, metrics) = agent.get("/metrics")?;
    assert_eq!(status, 200);
    tells(&metrics, "bailiwick_dns_agent_registered 1\n");
    let counted = |name: &str| -> Result<u64> {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)).context("not counted")?;
        Ok(line.trim().parse()?)
    };
    assert!(counted("bailiwick_dns_agent_probes_total{outcome=\"answered\"}")? > 0, "{metrics}");
    assert!(counted("bailiwick_dns_agent_dns_queries_total")? > 0, "{metrics}");
    agent.terminate()?;
    Ok(())
}
