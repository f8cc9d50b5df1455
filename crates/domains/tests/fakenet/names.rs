//! Names as people paste them: each tool takes them alike, and what it cannot take it answers with what to do.

use anyhow::Result;
use bailiwick_domains::check::{self, Check, CheckError};
use bailiwick_domains::probe::NoRemotePlaces;
use serde_json::{Value, json};

use crate::bed::{Scenario, World};
use bailiwick_fakenet::scenario;

pub fn scenarios() -> Vec<Scenario> {
    vec![
        scenario!(every_tool_takes_a_name_as_it_is_pasted),
        scenario!(what_is_no_name_is_told_with_what_to_give_instead),
        scenario!(nobody_is_told_to_create_records_in_the_registrys_zone),
        scenario!(a_token_that_is_empty_proves_nothing),
    ]
}

const TOOLS: [&str; 7] = ["scan", "verify", "plan", "fqdn", "compare", "zoneCheck", "trace"];

/// What a tool says of a name: its JSON, or why it says nothing.
async fn said(world: &World, tool: &str, name: &str, more: Value) -> Result<Result<Value, CheckError>> {
    let mut request =
        json!({"tool": tool, "name": name, "types": ["A"], "endpoints": "skip", "targets": ["151.101.1.10"]});
    request.as_object_mut().into_iter().for_each(|map| map.extend(more.as_object().cloned().unwrap_or_default()));
    let check: Check = serde_json::from_value(request)?;
    let report = check::run(&check, &world.toolbox()?, &NoRemotePlaces).await;
    Ok(report.map(|report| serde_json::to_value(&report).unwrap_or_default()))
}

async fn every_tool_takes_a_name_as_it_is_pasted(world: &World) -> Result<()> {
    for tool in TOOLS {
        for (pasted, name) in [
            ("https://shop.good.com:8443/cart?x=1#y", "shop.good.com"),
            ("SHOP.good.com.", "shop.good.com"),
            (" bücher.com ", "xn--bcher-kva.com"),
            ("someone@plain.com", "plain.com"),
        ] {
            let told = said(world, tool, pasted, json!({})).await?;
            assert!(told.as_ref().is_ok_and(|told| told.to_string().contains(name)), "{tool} {pasted}: {told:?}");
        }
    }
    Ok(())
}

async fn what_is_no_name_is_told_with_what_to_give_instead(world: &World) -> Result<()> {
    let long = format!("{}.com", "a".repeat(64));
    for tool in TOOLS {
        for (pasted, told) in [
            ("", "there is no name in it; give one such as www.example.com"),
            ("192.0.2.1", "192.0.2.1 is an address; give the name instead"),
            ("2001:db8::1", "2001:db8::1 is an address; give the name instead"),
            ("good..com", "two dots follow each other, or a dot stands in front: take the one too many out"),
            ("good com", "' ' cannot be part of a name; letters, digits, hyphens, underscores and dots can"),
            (long.as_str(), "is longer than 63 characters, which none can be"),
        ] {
            let said = said(world, tool, pasted, json!({})).await?;
            let is_told = matches!(&said, Err(CheckError::Arguments(said)) if said.contains(told));
            assert!(is_told, "{tool} {pasted:?}: {said:?}");
        }
    }
    for (tool, told) in [
        ("fqdn", "*.good.com stands for many names; give one of them, such as www.good.com"),
        ("verify", "*.good.com is proved at good.com: give that name, and the scope wildcard"),
    ] {
        let said = said(world, tool, "*.good.com", json!({})).await?.expect_err("many names");
        assert_eq!(said.to_string(), told);
    }
    let mistyped = said(world, "plan", "new.good.com", json!({"targets": ["300.1.1.1"]})).await?;
    assert!(mistyped.is_err_and(|told| told.to_string().contains("300.1.1.1 is no address")));
    Ok(())
}

async fn nobody_is_told_to_create_records_in_the_registrys_zone(world: &World) -> Result<()> {
    for tool in ["verify", "plan"] {
        let told = said(world, tool, "nodelegation.com", json!({})).await?.expect_err("no zone").to_string();
        assert_eq!(
            told,
            "nodelegation.com: it is not delegated: com has no nameservers for it; register it, or have its registrar enter \
             the nameservers, and ask again"
        );
    }
    let told = said(world, "plan", "com", json!({})).await?.expect_err("a registry's").to_string();
    assert_eq!(told, "com: com is a public suffix: nobody registers it, names are registered below it");
    Ok(())
}

async fn a_token_that_is_empty_proves_nothing(world: &World) -> Result<()> {
    for token in ["", "  "] {
        let told = said(world, "verify", "good.com", json!({"token": token})).await?.expect_err("no token").to_string();
        assert!(told.starts_with("the token is empty"), "{told}");
    }
    Ok(())
}
