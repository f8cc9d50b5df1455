//! What was known of a domain at a time, by object and by command.

use std::process::Command;

use anyhow::{Context, Result};
use bailiwick_fakenet::scenario;
use bailiwick_fakenet::scenarios::Scenario;
use kube::api::{DeleteParams, DynamicObject};
use serde_json::{Value, json};

use crate::world::{World, create, tells, text, until_named};

pub fn scenarios() -> Vec<Scenario<World>> {
    vec![scenario!(what_was_known_at_a_time_is_told_and_what_was_not_is_unknown)]
}

fn with_flags(world: &World, flags: &[&str]) -> Result<String> {
    let mut registration: Value =
        serde_json::from_str(&world.bed.registration("com", "plain.com").context("a fixture")?)?;
    registration["status"] = json!(flags);
    Ok(registration.to_string())
}

/// Asks by an object, and gives the object when it has an answer.
async fn asked(world: &World, name: &str, spec: Value) -> Result<DynamicObject> {
    let checks = world.checks("past");
    create(&checks, "DomainCheck", name, spec).await?;
    until_named(checks, name, |object| matches!(text(object, "/status/phase"), "Succeeded" | "Failed")).await
}

/// What the command prints, and whether it went well.
fn command(world: &World, arguments: &[&str]) -> Result<(bool, String)> {
    let output = Command::new(env!("CARGO_BIN_EXE_bailiwick"))
        .args(["dns", "history", "--kubeconfig"])
        .arg(&world.plane.kubeconfig)
        .args(arguments)
        .env("BAILIWICK_DNS_ROOTS", world.bed.roots_file())
        .output()?;
    let text = [output.stdout, output.stderr].concat();
    Ok((output.status.success(), String::from_utf8_lossy(&text).into_owned()))
}

async fn what_was_known_at_a_time_is_told_and_what_was_not_is_unknown(world: &World) -> Result<()> {
    world.namespace("past").await?;
    let domains = world.domains("past");
    world.bed.set_registration("com", "plain.com", with_flags(world, &["client transfer prohibited"])?);
    create(&domains, "Domain", "shop", json!({"name": "plain.com"})).await?;
    let is_scanned = |object: &DynamicObject| !text(object, "/status/firstScan").is_empty();
    let before = until_named(domains.clone(), "shop", is_scanned).await?;
    let first = text(&before, "/status/firstScan").to_owned();
    world.bed.set_registration("com", "plain.com", with_flags(world, &["client hold"])?);
    let after = world.rescan(&domains, "shop", 6).await?;
    assert_eq!(after.data.pointer("/status/statusFlags"), Some(&json!(["clientHold"])));
    let spec = |at: &str| json!({"tool": "history", "name": "plain.com", "at": at});
    let then = asked(world, "then", spec(&first)).await?;
    assert_eq!(text(&then, "/status/phase"), "Succeeded", "{}", then.data);
    let report = text(&then, "/status/report");
    tells(report, "plain.com as it was known at ");
    tells(report, "clientTransferProhibited");
    assert!(!report.contains("clientHold"), "{report}");
    let facts = then.data.pointer("/status/result/facts").and_then(Value::as_array).context("facts")?;
    let flags = facts.iter().find(|fact| fact["field"] == "statusFlags").context("flags")?;
    assert_eq!(flags["since"], json!(first));
    assert_eq!(flags["until"], after.data["status"]["lastChangeDetected"]);
    let now = asked(world, "now", spec(text(&after, "/status/lastScan"))).await?;
    tells(text(&now, "/status/report"), "clientHold");
    let early = asked(world, "early", spec("2001-01-01")).await?;
    tells(text(&early, "/status/summary"), "unknown: plain.com was looked at for the first time at ");
    let wrong = asked(world, "wrong", spec("yesterday")).await?;
    assert_eq!(text(&wrong, "/status/reason"), "InvalidRequest");
    tells(text(&wrong, "/status/message"), "write a day such as 2026-11-01");
    let strange = asked(world, "strange", json!({"tool": "history", "name": "good.com"})).await?;
    assert_eq!(text(&strange, "/status/reason"), "NotClaimed");
    tells(text(&strange, "/status/message"), "there is no Domain for good.com in past");
    // The same by command: by the domain's name or the object's.
    for name in ["plain.com", "shop"] {
        let (_, all) = command(world, &["-n", "past", name])?;
        tells(&all, "status flags");
        tells(&all, "clientTransferProhibited");
        tells(&all, "It was looked at for the first time at ");
    }
    let (_, early) = command(world, &["-n", "past", "plain.com", "--at", "2001-01-01", "-o", "json"])?;
    let early: Value = serde_json::from_str(&early)?;
    assert_eq!(early["at"], "2001-01-01T23:59:59Z");
    tells(early["unknown"].as_str().unwrap_or_default(), "nothing is known of before");
    let (went_well, told) = command(world, &["-n", "past", "good.com"])?;
    assert!(!went_well);
    tells(&told, "there is no Domain good.com in the namespace past: `kubectl get domains -A` lists them");
    let (went_well, told) = command(world, &["plain.com", "--at", "last week"])?;
    assert!(!went_well);
    tells(&told, "write a day such as 2026-11-01");
    world.bed.set_registration("com", "plain.com", world.bed.registration("com", "plain.com").context("a fixture")?);
    domains.delete("shop", &DeleteParams::default()).await?;
    Ok(())
}
