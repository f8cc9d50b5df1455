//! DomainChecks: what a user of kubectl reads.

use std::process::Command;

use anyhow::{Context, Result};
use bailiwick_domains_controller::{OPT_OUT, SERVICE_NAMESPACE};
use bailiwick_fakenet::scenario;
use bailiwick_fakenet::scenarios::Scenario;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ObjectMeta, PostParams};
use serde_json::{Value, json};

use crate::gateways::{gateway_api, make};
use crate::world::{CHECKS_PER_MINUTE, CHECKS_PER_TENANT, PATIENCE, World, create, tells, text, until_named};

pub fn scenarios() -> Vec<Scenario<World>> {
    vec![
        scenario!(every_tool_answers_as_an_object_what_the_command_line_prints),
        scenario!(every_way_to_prove_can_be_asked_for_as_an_object),
        scenario!(what_was_found_is_in_the_columns),
        scenario!(a_request_that_makes_no_sense_is_refused_with_the_reason),
        scenario!(a_check_is_removed_when_its_time_is_over),
        scenario!(a_tenant_has_so_many_checks_a_minute_and_the_rest_wait),
        scenario!(a_tenant_keeps_so_many_checks),
        scenario!(a_name_on_the_opt_out_list_is_not_looked_at),
        scenario!(a_plan_for_a_gateway_is_made_of_its_hosts_and_addresses),
        scenario!(a_plan_brings_the_proof_of_the_namespaces_domain),
        scenario!(what_is_done_is_counted),
    ]
}

fn is_finished(object: &DynamicObject) -> bool {
    matches!(text(object, "/status/phase"), "Succeeded" | "Failed")
}

async fn run(world: &World, namespace: &str, name: &str, spec: Value) -> Result<DynamicObject> {
    let api = world.checks(namespace);
    create(&api, "DomainCheck", name, spec).await?;
    until_named(api, name, is_finished).await
}

/// What the command line prints for the same request.
fn command_line(world: &World, arguments: &[&str]) -> Result<Value> {
    let mut roots: Value = serde_json::from_slice(&std::fs::read(world.bed.roots_file())?)?;
    roots["vantagePoints"].as_array_mut().context("places")?.truncate(1);
    let file = world.bed.directory().join("one-place.json");
    std::fs::write(&file, roots.to_string())?;
    let output = Command::new(env!("CARGO_BIN_EXE_bailiwick"))
        .args(["dns", "-o", "json"])
        .args(arguments)
        .env("BAILIWICK_DNS_ROOTS", &file)
        .output()?;
    let printed: Value =
        serde_json::from_slice(&output.stdout).with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    // Scripts learn from the exit status that there is no proof.
    let expected = if printed.get("outcome") == Some(&json!("pending")) { 3 } else { 0 };
    anyhow::ensure!(output.status.code() == Some(expected), "{}: {printed}", output.status);
    Ok(printed)
}

/// A result without its packets, of which no two are the same: each question has a number drawn by chance.
fn without_packets(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(without_packets).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(name, _)| name != "packet" && name != "packetSha256")
            .map(|(name, value)| (name, without_packets(value)))
            .collect(),
        other => other,
    }
}

async fn every_tool_answers_as_an_object_what_the_command_line_prints(world: &World) -> Result<()> {
    world.namespace("tools").await?;
    let cases: [Case; 6] = [
        (
            "scan",
            json!({"tool": "scan", "name": "good.com"}),
            &["scan", "good.com"],
            "/subject/registered",
            "nothing to worry about",
        ),
        (
            "verify",
            json!({"tool": "verify", "name": "claims.com", "token": "nothere"}),
            &["verify", "claims.com", "--token", "nothere"],
            "/outcome",
            "claims.com is not verified yet",
        ),
        (
            "plan",
            json!({"tool": "plan", "name": "good.com", "targets": ["edge.target.net"]}),
            &["plan", "good.com", "--to", "edge.target.net"],
            "/0/refusals/0/reason",
            "a CNAME cannot stand at good.com",
        ),
        (
            "fqdn",
            json!({"tool": "fqdn", "name": "www.good.com", "types": ["A"], "endpoints": "skip"}),
            &["fqdn", "www.good.com", "A", "--no-endpoints"],
            "/0/groups",
            "151.101.1.10 151.101.1.11",
        ),
        (
            "zonecheck",
            json!({"tool": "zoneCheck", "name": "good.com"}),
            &["zone-check", "good.com"],
            "/findings",
            "good.com",
        ),
        (
            "trace",
            json!({"tool": "trace", "name": "good.com", "type": "A"}),
            &["trace", "good.com"],
            "/records",
            "good.com A is 151.101.1.10",
        ),
    ];
    as_printed(world, "tools", &cases).await
}

/// What a proof may be for, and where it may be, are arguments of both.
async fn every_way_to_prove_can_be_asked_for_as_an_object(world: &World) -> Result<()> {
    world.namespace("ways").await?;
    let cases: [Case; 2] = [
        (
            "verify-less",
            json!({"tool": "verify", "name": "claims.com", "token": "nothere", "scope": "host", "accountLabel": "k4ng"}),
            &["verify", "claims.com", "--token", "nothere", "--scope", "host", "--account-label", "k4ng"],
            "/findings/0",
            "there is no record at _k4ng._bailiwick-host-challenge.claims.com yet",
        ),
        (
            "verify-by-zones",
            json!({
                "tool": "verify", "name": "claims.com", "token": "nothere",
                "delegationZone": "dcv.target.net", "nameserverZone": "ns.target.net",
            }),
            &[
                "verify",
                "claims.com",
                "--token",
                "nothere",
                "--delegation-zone",
                "dcv.target.net",
                "--nameserver-zone",
                "ns.target.net",
            ],
            "/evidence/delegations/0",
            "claims.com is not verified yet",
        ),
    ];
    as_printed(world, "ways", &cases).await
}

/// An object's name and spec, the same as arguments, where both must agree, and a part of the summary.
type Case<'a> = (&'a str, Value, &'a [&'a str], &'a str, &'a str);

async fn as_printed(world: &World, namespace: &str, cases: &[Case<'_>]) -> Result<()> {
    for (name, spec, arguments, pointer, summary) in cases {
        let object = run(world, namespace, name, spec.clone()).await?;
        assert_eq!(text(&object, "/status/phase"), "Succeeded", "{name}: {}", object.data);
        tells(text(&object, "/status/summary"), summary);
        let printed = command_line(world, arguments)?;
        let result = object.data.pointer("/status/result").context("a result")?;
        let same = |value: &Value| value.pointer(pointer).cloned().map(without_packets);
        assert_eq!(same(result), same(&printed), "{name}");
        assert!(printed.pointer(pointer).is_some(), "{name}: {printed}");
        assert!(!text(&object, "/status/report").is_empty(), "{name}");
    }
    Ok(())
}

async fn what_was_found_is_in_the_columns(world: &World) -> Result<()> {
    world.namespace("columns").await?;
    run(world, "columns", "look", json!({"tool": "compare", "name": "good.com"})).await?;
    let request = http::Request::get("/apis/datumapis.com/v1alpha/namespaces/columns/domainchecks")
        .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(Vec::new())?;
    let table: Value = world.client.request(request).await?;
    let names: Vec<&str> = table["columnDefinitions"]
        .as_array()
        .context("columns")?
        .iter()
        .filter_map(|one| one["name"].as_str())
        .collect();
    assert_eq!(names, ["Name", "Tool", "Name", "Phase", "Healthy", "Summary", "Age"]);
    let cells = table.pointer("/rows/0/cells").and_then(Value::as_array).context("a row")?;
    assert_eq!(cells.get(1..4), Some(&[json!("compare"), json!("good.com"), json!("Succeeded")][..]));
    tells(
        cells.get(5).and_then(Value::as_str).unwrap_or_default(),
        "All resolvers give what the authoritative servers say.",
    );
    Ok(())
}

async fn a_request_that_makes_no_sense_is_refused_with_the_reason(world: &World) -> Result<()> {
    world.namespace("nonsense").await?;
    let api = world.checks("nonsense");
    let refused = |error: anyhow::Error| error.to_string();
    let told = create(&api, "DomainCheck", "a", json!({"tool": "guess", "name": "x.com"})).await.map_err(refused);
    tells(&told.expect_err("refused"), "Unsupported value: \"guess\"");
    let told = create(&api, "DomainCheck", "b", json!({"tool": "scan"})).await.map_err(refused);
    tells(&told.expect_err("refused"), "name is required");
    let object = run(world, "nonsense", "c", json!({"tool": "scan", "name": "co.uk"})).await?;
    assert_eq!((text(&object, "/status/phase"), text(&object, "/status/reason")), ("Failed", "InvalidRequest"));
    tells(text(&object, "/status/message"), "co.uk is a public suffix");
    let object =
        run(world, "nonsense", "d", json!({"tool": "compare", "name": "good.com", "resolvers": ["10.0.0.53"]})).await?;
    tells(text(&object, "/status/message"), "10.0.0.53 is not a public address and is not asked");
    Ok(())
}

async fn a_check_is_removed_when_its_time_is_over(world: &World) -> Result<()> {
    world.namespace("fleeting").await?;
    let api = world.checks("fleeting");
    let spec = json!({"tool": "trace", "name": "good.com", "ttlSecondsAfterFinished": 0});
    create(&api, "DomainCheck", "short", spec).await?;
    let gone =
        kube::runtime::wait::await_condition(api.clone(), "short", |object: Option<&DynamicObject>| object.is_none());
    tokio::time::timeout(PATIENCE, gone).await.context("it stays")??;
    Ok(())
}

async fn a_tenant_has_so_many_checks_a_minute_and_the_rest_wait(world: &World) -> Result<()> {
    world.namespace("hasty").await?;
    let api = world.checks("hasty");
    // Two more than that, as another one is allowed every ten seconds.
    for index in 0..CHECKS_PER_MINUTE + 2 {
        create(&api, "DomainCheck", &format!("c{index}"), json!({"tool": "trace", "name": "good.com"})).await?;
    }
    let waiting = until_named_any(&api, "Pending").await?;
    assert_eq!(text(&waiting, "/status/reason"), "QuotaExceeded");
    tells(text(&waiting, "/status/message"), "the namespace hasty may have 6 checks run in a minute; this one waits");
    let name = waiting.metadata.name.unwrap_or_default();
    let done = until_named(api, &name, is_finished).await?;
    assert_eq!(text(&done, "/status/phase"), "Succeeded");
    Ok(())
}

async fn until_named_any(api: &Api<DynamicObject>, phase: &str) -> Result<DynamicObject> {
    crate::world::until(api.clone(), |object| text(object, "/status/phase") == phase).await
}

async fn a_tenant_keeps_so_many_checks(world: &World) -> Result<()> {
    world.namespace("hoarder").await?;
    let api = world.checks("hoarder");
    for index in 0..CHECKS_PER_TENANT {
        create(&api, "DomainCheck", &format!("c{index}"), json!({"tool": "trace", "name": "good.com"})).await?;
    }
    // Objects of one second have no order but their names.
    let object = run(world, "hoarder", "z-too-many", json!({"tool": "trace", "name": "good.com"})).await?;
    assert_eq!((text(&object, "/status/phase"), text(&object, "/status/reason")), ("Failed", "QuotaExceeded"));
    tells(text(&object, "/status/message"), "the namespace hoarder has 8 checks already");
    Ok(())
}

/// Puts a line on the opt-out list. It reaches the service by a watch of its own, a moment later.
async fn opt_out(world: &World, line: &str) -> Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), SERVICE_NAMESPACE);
    let data = [("names".to_owned(), format!("{line}\n"))].into();
    let metadata = ObjectMeta { name: Some(OPT_OUT.to_owned()), ..ObjectMeta::default() };
    maps.create(&PostParams::default(), &ConfigMap { metadata, data: Some(data), ..ConfigMap::default() }).await?;
    Ok(())
}

/// Runs a check again and again until it is refused: the list reaches the service a moment after it was written.
async fn until_refused(world: &World, namespace: &str, spec: Value) -> Result<DynamicObject> {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let name = format!("out-{:08x}", rand::random::<u32>());
        let object = run(world, namespace, &name, spec.clone()).await?;
        if text(&object, "/status/phase") == "Failed" || tokio::time::Instant::now() > deadline {
            return Ok(object);
        }
        world.checks(namespace).delete(&name, &DeleteParams::default()).await?;
    }
}

/// Takes the list away.
async fn opt_in(world: &World) -> Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), SERVICE_NAMESPACE);
    maps.delete(OPT_OUT, &DeleteParams::default()).await?;
    Ok(())
}

async fn a_name_on_the_opt_out_list_is_not_looked_at(world: &World) -> Result<()> {
    world.namespace("nosy").await?;
    opt_out(world, "moving.com # asked by mail").await?;
    let told = "moving.com is on the opt-out list: its owner asked not to be looked at";
    let object = until_refused(world, "nosy", json!({"tool": "trace", "name": "www.moving.com"})).await?;
    assert_eq!(text(&object, "/status/reason"), "OptedOut");
    tells(text(&object, "/status/message"), told);
    // However it is written.
    let spec = json!({"tool": "scan", "name": "https://www.moving.com:8443/shop"});
    create(&world.checks("nosy"), "DomainCheck", "pasted", spec).await?;
    let is_done = |object: &DynamicObject| matches!(text(object, "/status/phase"), "Succeeded" | "Failed");
    let object = until_named(world.checks("nosy"), "pasted", is_done).await?;
    assert_eq!(text(&object, "/status/reason"), "OptedOut");
    create(&world.domains("nosy"), "Domain", "moving", json!({"name": "moving.com"})).await?;
    let domain = until_named(world.domains("nosy"), "moving", |object| {
        crate::world::condition(object, "Healthy").1 == "OptedOut"
    });
    let domain = domain.await?;
    assert!(domain.data.pointer("/status/registrarIANAName").is_none(), "nobody was asked");
    opt_in(world).await
}

async fn a_plan_brings_the_proof_of_the_namespaces_domain(world: &World) -> Result<()> {
    for namespace in ["connect", "stranger"] {
        world.namespace(namespace).await?;
    }
    let domains = world.domains("connect");
    create(&domains, "Domain", "claims", json!({"name": "claims.com"})).await?;
    let token = crate::claims::token(&domains, "claims").await?;
    let spec =
        json!({"tool": "plan", "name": "www.claims.com", "targets": ["edge.target.net"], "export": "domainConnect"});
    let object = run(world, "connect", "template", spec.clone()).await?;
    let template: Value = serde_json::from_str(text(&object, "/status/report"))?;
    let proof = json!({"type": "TXT", "host": "_bailiwick-challenge", "data": token, "ttl": 300});
    assert_eq!(template["records"].as_array().and_then(|records| records.last()), Some(&proof), "{template}");
    let object = run(world, "stranger", "template", spec).await?;
    assert!(!text(&object, "/status/report").contains(&token), "a claim of another namespace is its own");
    domains.delete("claims", &DeleteParams::default()).await?;
    Ok(())
}

async fn a_plan_for_a_gateway_is_made_of_its_hosts_and_addresses(world: &World) -> Result<()> {
    world.namespace("web").await?;
    let object = run(world, "web", "early", json!({"tool": "plan", "gateway": "edge"})).await?;
    assert_eq!(text(&object, "/status/phase"), "Failed");
    gateway_api(world).await?;
    let gateway = json!({
        "metadata": {"name": "edge"},
        "spec": {"listeners": [{"name": "https"}]},
        "status": {"addresses": [{"type": "Hostname", "value": "edge.target.net"}]},
    });
    let route = json!({
        "metadata": {"name": "shop"},
        "spec": {"parentRefs": [{"name": "edge"}], "hostnames": ["shop.plain.com"]},
    });
    make(world, "web", "Gateway", gateway).await?;
    make(world, "web", "HTTPRoute", route).await?;
    let object = run(world, "web", "plan", json!({"tool": "plan", "gateway": "edge"})).await?;
    let report = text(&object, "/status/report");
    tells(report, "shop");
    tells(report, "edge.target.net");
    tells(
        report,
        "Registrar Net takes templates (Domain Connect): once it has your template, https://connect.registrar.net/v2/",
    );
    // A name that a Gateway brings is on the list as much as one that is written down.
    opt_out(world, "plain.com").await?;
    let object = until_refused(world, "web", json!({"tool": "plan", "gateway": "edge"})).await?;
    assert_eq!(text(&object, "/status/reason"), "OptedOut");
    tells(text(&object, "/status/message"), "plain.com is on the opt-out list");
    opt_in(world).await?;
    let object =
        run(world, "web", "caa", json!({"tool": "plan", "name": "new.good.com", "targets": ["edge.target.net"]}))
            .await?;
    tells(
        text(&object, "/status/report"),
        "CAA at good.com lets only letsencrypt.org issue certificates for new.good.com",
    );
    let object = run(
        world,
        "web",
        "zone",
        json!({"tool": "plan", "name": "a.plain.com", "targets": ["203.0.113.9"], "export": "zoneFile"}),
    )
    .await?;
    tells(text(&object, "/status/report"), "a\t300\tIN\tA\t203.0.113.9");
    Ok(())
}

async fn what_is_done_is_counted(world: &World) -> Result<()> {
    world.namespace("counted").await?;
    run(world, "counted", "one", json!({"tool": "scan", "name": "q7.io"})).await?;
    let metrics = world.client.request_text(http::Request::get("/metrics").body(Vec::new())?).await?;
    for name in [
        "bailiwick_domains_checks_total{tool=\"scan\",outcome=\"succeeded\"}",
        "bailiwick_domains_check_duration_seconds_count{tool=\"scan\"}",
        "bailiwick_domains_dns_queries_total",
        "bailiwick_domains_known",
        "bailiwick_domains_overdue",
        "bailiwick_domains_agents_alive",
        "bailiwick_domains_queue_age_seconds{lane=\"watched\"}",
        "bailiwick_domains_registry_lookups_total{host=\"rdap.registry.net\",code=\"200\"}",
        "bailiwick_domains_registry_budget_left{host=\"rdap.registry.net\"}",
    ] {
        tells(&metrics, name);
    }
    let queries = metrics
        .lines()
        .find_map(|line| line.strip_prefix("bailiwick_domains_dns_queries_total "))
        .context("queries")?;
    assert!(queries.parse::<u64>()? > 10, "{queries}");
    Ok(())
}
