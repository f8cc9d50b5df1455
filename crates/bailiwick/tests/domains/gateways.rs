//! Plans that are looked at again and again: a Gateway's own, made with it and gone with it, and checks that somebody repeats.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bailiwick_fakenet::scenario;
use bailiwick_fakenet::scenarios::Scenario;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

use crate::agents::{agent, check_until, geo};
use crate::world::{PATIENCE, World, condition, create, tells, text, until_named};

pub fn scenarios() -> Vec<Scenario<World>> {
    vec![
        scenario!(a_gateways_plan_is_watched_told_and_gone_with_it),
        scenario!(a_live_gateway_is_called_from_each_place),
        scenario!(a_repeated_check_tells_what_begins_and_what_has_ended),
        scenario!(only_names_of_ones_own_are_looked_at_again_and_again),
    ]
}

const GROUP: &str = "gateway.networking.k8s.io";

fn of_gateway_api(world: &World, namespace: &str, kind: &str) -> Api<DynamicObject> {
    let plural = format!("{}s", kind.to_lowercase());
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, "v1", kind), &plural);
    Api::namespaced_with(world.client.clone(), namespace, &resource)
}

/// Defines Gateways and HTTPRoutes, unless an earlier scenario has, and waits until they are served.
pub async fn gateway_api(world: &World) -> Result<()> {
    let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let resource = ApiResource::from_gvk_with_plural(&kind, "customresourcedefinitions");
    let definitions: Api<DynamicObject> = Api::all_with(world.client.clone(), &resource);
    for (plural, singular, kind) in [("gateways", "gateway", "Gateway"), ("httproutes", "httproute", "HTTPRoute")] {
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {
                "name": format!("{plural}.{GROUP}"),
                "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/gateway-api/pull/1"},
            },
            "spec": {
                "group": GROUP, "scope": "Namespaced",
                "names": {"plural": plural, "singular": singular, "kind": kind, "listKind": format!("{kind}List")},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }}}],
            },
        });
        let apply = PatchParams::apply("test").force();
        definitions.patch(&format!("{plural}.{GROUP}"), &apply, &Patch::Apply(definition)).await?;
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while let Err(error) = of_gateway_api(world, "default", kind).list(&ListParams::default()).await {
            ensure!(tokio::time::Instant::now() < deadline, "{kind} is not served: {error}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(())
}

/// Makes a Gateway or an HTTPRoute.
pub async fn make(world: &World, namespace: &str, kind: &str, mut object: Value) -> Result<()> {
    object["apiVersion"] = json!(format!("{GROUP}/v1"));
    object["kind"] = json!(kind);
    let api = of_gateway_api(world, namespace, kind);
    api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    Ok(())
}

/// The events of one reason in a namespace: what each is about, and its note.
async fn told(world: &World, namespace: &str, reason: &str) -> Result<Vec<(String, String)>> {
    let api: Api<Event> = Api::namespaced(world.client.clone(), namespace);
    let events = api.list(&ListParams::default()).await?.items.into_iter();
    let of_reason = events.filter(|event| event.reason.as_deref() == Some(reason));
    let about = |event: &Event| {
        let about = event.regarding.clone().unwrap_or_default();
        format!("{} {}", about.kind.unwrap_or_default(), about.name.unwrap_or_default())
    };
    Ok(of_reason.map(|event| (about(&event), event.note.unwrap_or_default())).collect())
}

/// The line of claims.com that scenarios replace and put back.
const CLAIM: &str = "@ IN TXT \"bailiwick-verification=abc\"";

async fn a_gateways_plan_is_watched_told_and_gone_with_it(world: &World) -> Result<()> {
    const RIGHT: &str = "gate 300 IN CNAME edge.target.net.";
    const WRONG: &str = "gate 300 IN A 203.0.113.9";
    gateway_api(world).await?;
    world.namespace("gated").await?;
    let (checks, domains) = (world.checks("gated"), world.domains("gated"));
    let gateway = json!({
        "metadata": {"name": "edge"}, "spec": {"listeners": [{"name": "https"}]},
        "status": {"addresses": [{"type": "Hostname", "value": "edge.target.net"}]},
    });
    let route = json!({
        "metadata": {"name": "gate"},
        // Nobody here claims good.com.
        "spec": {"parentRefs": [{"name": "edge"}], "hostnames": ["gate.claims.com", "gate.good.com"]},
    });
    make(world, "gated", "Gateway", gateway).await?;
    make(world, "gated", "HTTPRoute", route).await?;
    // With the domain it is known whose hosts these are.
    create(&domains, "Domain", "claims", json!({"name": "claims.com"})).await?;
    let has_proof = |object: &DynamicObject| text(object, "/status/report").contains("_bailiwick-challenge");
    let object = until_named(checks.clone(), "gateway-edge", has_proof).await?;
    assert_eq!(condition(&object, "Healthy").0, "False");
    assert_eq!(condition(&object, "Healthy").1, "NotFulfilled");
    tells(condition(&object, "Healthy").2, "gate.claims.com CNAME edge.target.net: missing");
    let report = text(&object, "/status/report");
    tells(report, "Create in claims.com");
    assert!(!report.contains("good.com"), "{report}");
    world.bed.edit_zone("claims.com", CLAIM, RIGHT)?;
    let object = world.rescan(&checks, "gateway-edge", 6).await?;
    assert_eq!(condition(&object, "Healthy").1, "Fulfilled", "{}", text(&object, "/status/report"));
    world.bed.edit_zone("claims.com", RIGHT, WRONG)?;
    let object = world.rescan(&checks, "gateway-edge", 6).await?;
    assert_eq!(condition(&object, "Healthy").1, "Broken");
    // It is as broken as before, also for a controller that starts then; and it is the same object.
    world.restart().await;
    let later = world.rescan(&checks, "gateway-edge", 6).await?;
    assert_eq!(later.metadata.uid, object.metadata.uid);
    let about = "Gateway edge".to_owned();
    let note = "the Gateway edge: everything is as planned, for everybody".to_owned();
    assert_eq!(told(world, "gated", "PlanFulfilled").await?, [(about.clone(), note)]);
    let broken = told(world, "gated", "PlanBroken").await?;
    let [(subject, note)] = broken.as_slice() else { anyhow::bail!("told once: {broken:?}") };
    assert_eq!(*subject, about);
    tells(note, "gate.claims.com CNAME edge.target.net: found A 203.0.113.9 (addresses stand at gate.claims.com");
    tells(note, "; it was as planned since ");
    // The plan follows its service, by itself.
    let other = json!({"spec": {"hostnames": ["door.claims.com"]}});
    of_gateway_api(world, "gated", "HTTPRoute").patch("gate", &PatchParams::default(), &Patch::Merge(other)).await?;
    let object = until_named(checks.clone(), "gateway-edge", |object| {
        text(object, "/status/report").contains("door.claims.com")
    });
    assert!(!text(&object.await?, "/status/report").contains("gate.claims.com"));
    of_gateway_api(world, "gated", "Gateway").delete("edge", &DeleteParams::default()).await?;
    let gone =
        kube::runtime::wait::await_condition(checks, "gateway-edge", |object: Option<&DynamicObject>| object.is_none());
    tokio::time::timeout(PATIENCE, gone).await.context("the check outlives its Gateway")??;
    world.bed.edit_zone("claims.com", WRONG, CLAIM)?;
    domains.delete("claims", &DeleteParams::default()).await?;
    Ok(())
}

/// The records are right; whether what they lead to serves them is seen from each place, and told about the Gateway.
async fn a_live_gateway_is_called_from_each_place(world: &World) -> Result<()> {
    gateway_api(world).await?;
    for namespace in ["served", "served-agents"] {
        world.namespace(namespace).await?;
    }
    let (checks, domains) = (world.checks("served"), world.domains("served"));
    let listener = json!({"name": "https", "protocol": "HTTPS", "port": 443, "hostname": "pops.plain.com"});
    let gateway = json!({
        "metadata": {"name": "edge"}, "spec": {"listeners": [listener]},
        "status": {"addresses": [{"type": "IPAddress", "value": "151.101.1.15"}]},
    });
    make(world, "served", "Gateway", gateway).await?;
    create(&domains, "Domain", "plain", json!({"name": "plain.com"})).await?;
    let is_served = |object: &DynamicObject| condition(object, "Served").0 == "True";
    let object = until_named(checks.clone(), "gateway-edge", is_served).await?;
    assert_eq!(condition(&object, "Healthy").1, "Fulfilled", "{}", text(&object, "/status/report"));
    tells(
        text(&object, "/status/report"),
        "https://pops.plain.com, called from every place\n  151.101.1.15  TLS ok, HTTP 200",
    );
    let _sin = agent(world, "pop-sin3", "100.64.3.1").await?;
    check_until(world, "served-agents", geo(), "pop-sin3").await?;
    let object = world.rescan(&checks, "gateway-edge", 6).await?;
    let (status, reason, message) = condition(&object, "Served");
    assert_eq!((status, reason), ("False", "NotServed"));
    let problem = "the certificate is for former.plain.com, not for pops.plain.com at pop-sin3";
    tells(message, &format!("https://pops.plain.com at 151.101.1.15: {problem}"));
    tells(text(&object, "/status/summary"), problem);
    assert_eq!(condition(&object, "Healthy").1, "Fulfilled", "the records are right all the same");
    let failing = told(world, "served", "ServiceFailing").await?;
    let [(about, note)] = failing.as_slice() else { anyhow::bail!("told once: {failing:?}") };
    assert_eq!(about, "Gateway edge");
    tells(note, problem);
    of_gateway_api(world, "served", "Gateway").delete("edge", &DeleteParams::default()).await?;
    domains.delete("plain", &DeleteParams::default()).await?;
    Ok(())
}

async fn a_repeated_check_tells_what_begins_and_what_has_ended(world: &World) -> Result<()> {
    const RIGHT: &str = "@ 3600 IN NS ns2.op-a.net.";
    const WRONG: &str = "@ 3600 IN NS ns9.op-a.net.";
    world.namespace("again").await?;
    let (checks, domains) = (world.checks("again"), world.domains("again"));
    create(&domains, "Domain", "fresh", json!({"name": "fresh.com"})).await?;
    until_named(domains.clone(), "fresh", |object| !condition(object, "Healthy").0.is_empty()).await?;
    let spec = json!({"tool": "zoneCheck", "name": "fresh.com", "repeatSeconds": 3600});
    create(&checks, "DomainCheck", "zone", spec).await?;
    let first = until_named(checks.clone(), "zone", |object| text(object, "/status/phase") == "Succeeded").await?;
    assert!(!text(&first, "/status/nextRun").is_empty());
    world.rescan(&checks, "zone", 6).await?;
    assert_eq!(told(world, "again", "TroubleBegan").await?, [], "nothing has changed");
    world.bed.edit_zone("fresh.com", RIGHT, WRONG)?;
    let object = world.rescan(&checks, "zone", 6).await?;
    assert_eq!(condition(&object, "Healthy").1, "Troubles");
    world.bed.edit_zone("fresh.com", WRONG, RIGHT)?;
    world.rescan(&checks, "zone", 6).await?;
    for (reason, words) in
        [("TroubleBegan", "ns9.op-a.net"), ("TroubleEnded", "fresh.com: mended, after it was so since")]
    {
        let told = told(world, "again", reason).await?;
        let of_check: Vec<_> = told.iter().filter(|(about, _)| about == "DomainCheck zone").collect();
        ensure!(of_check.len() == 1, "{reason}: {told:?}");
        tells(&of_check[0].1, words);
    }
    checks.delete("zone", &DeleteParams::default()).await?;
    domains.delete("fresh", &DeleteParams::default()).await?;
    Ok(())
}

async fn only_names_of_ones_own_are_looked_at_again_and_again(world: &World) -> Result<()> {
    world.namespace("stalker").await?;
    let checks = world.checks("stalker");
    let spec = json!({"tool": "scan", "name": "good.com", "repeatSeconds": 300});
    create(&checks, "DomainCheck", "watch", spec).await?;
    let object = until_named(checks.clone(), "watch", |object| text(object, "/status/phase") == "Failed").await?;
    assert_eq!(text(&object, "/status/reason"), "NotClaimed");
    tells(text(&object, "/status/message"), "good.com is in no Domain of stalker");
    // However the name is written, and when it is nobody's.
    for (index, name) in ["https://good.com/", "someone@good.com", "."].into_iter().enumerate() {
        let spec = json!({"tool": "trace", "name": name, "repeatSeconds": 300});
        let check = format!("disguised-{index}");
        create(&checks, "DomainCheck", &check, spec).await?;
        let is_done = |object: &DynamicObject| matches!(text(object, "/status/phase"), "Succeeded" | "Failed");
        let object = until_named(checks.clone(), &check, is_done).await?;
        assert_eq!(text(&object, "/status/reason"), "NotClaimed", "{name}");
        checks.delete(&check, &DeleteParams::default()).await?;
    }
    let often = json!({"tool": "scan", "name": "good.com", "repeatSeconds": 10});
    let refused = create(&checks, "DomainCheck", "often", often).await.expect_err("too often").to_string();
    tells(&refused, "should be greater than or equal to 300");
    checks.delete("watch", &DeleteParams::default()).await?;
    Ok(())
}
