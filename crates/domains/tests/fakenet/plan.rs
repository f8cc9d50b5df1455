//! What `dns plan` and `dns analyze` tell.

use anyhow::{Context, Result};
use bailiwick_domains::check::{self, Check};
use bailiwick_domains::plan::{Host, Plan};
use bailiwick_domains::probe::NoRemotePlaces;
use bailiwick_domains::report::{Style, plan};
use bailiwick_domains::toolbox::Target;
use serde_json::json;

use crate::bed::{Scenario, World, tells};
use bailiwick_fakenet::scenario;

pub fn scenarios() -> Vec<Scenario> {
    vec![
        scenario!(records_are_planned_as_the_provider_wants_them_typed),
        scenario!(a_cname_at_the_root_is_refused_with_the_targets_addresses),
        scenario!(a_gateway_with_a_host_name_offers_that_hosts_addresses_at_the_root),
        scenario!(what_is_live_is_told_uncached),
        scenario!(a_zone_that_was_typed_twice_is_found),
        scenario!(a_target_without_its_dot_is_told),
        scenario!(a_record_that_exists_is_changed_by_a_schedule),
        scenario!(a_record_that_is_there_already_is_told),
        scenario!(a_cname_beside_mail_or_texts_is_refused),
        scenario!(a_record_behind_a_proxy_is_told_for_what_it_is),
        scenario!(every_step_of_an_analysis_is_shown),
        scenario!(a_resolver_that_remembers_the_old_value_blocks_until_then),
        scenario!(some_servers_and_some_visitors_are_told),
    ]
}

async fn planned(world: &World, host: &str, to: &str) -> Result<Plan> {
    let toolbox = world.toolbox()?;
    let wish = toolbox.wish(Host::parse(host)?, &[to.parse::<Target>()?]).await;
    let plans = toolbox.plan(vec![wish]).await.map_err(anyhow::Error::msg)?;
    plans.into_iter().next().context("one plan")
}

async fn analyzed(world: &World, host: &str, to: &str) -> Result<String> {
    let planned = planned(world, host, to).await?;
    Ok(plan::analysis(&world.toolbox()?.analyze(&planned, Vec::new()).await, Style::Plain))
}

async fn records_are_planned_as_the_provider_wants_them_typed(world: &World) -> Result<()> {
    let planned = planned(world, "www.q7.io", "edge.target.net").await?;
    let text = plan::plan(&planned, world.toolbox()?.clock().now(), Style::Plain);
    tells(&text, "Create in q7.io at DigitalOcean");
    tells(&text, "CNAME  www       edge.target.net.  300");
    tells(&text, "DigitalOcean appends .q7.io by itself: typing it doubles it");
    tells(&text, "who asked just before it existed remembers that for 30 minutes");
    tells(&text, "to go back, delete what you created: 5 minutes later nobody sees it any more");
    Ok(())
}

async fn a_cname_at_the_root_is_refused_with_the_targets_addresses(world: &World) -> Result<()> {
    let planned = planned(world, "q7.io", "shop.good.com").await?;
    let text = plan::plan(&planned, world.toolbox()?.clock().now(), Style::Plain);
    tells(&text, "Not possible: a CNAME cannot stand at q7.io, the root of the zone");
    tells(&text, "instead: A and AAAA records with the addresses that shop.good.com has now (151.101.1.10)");
    Ok(())
}

async fn a_gateway_with_a_host_name_offers_that_hosts_addresses_at_the_root(world: &World) -> Result<()> {
    let gateway = json!({
        "kind": "Gateway",
        "metadata": {"name": "edge"},
        "spec": {"listeners": [{"name": "https", "hostname": "q7.io"}]},
        "status": {"addresses": [{"type": "Hostname", "value": "shop.good.com"}]},
    });
    let check: Check = serde_json::from_value(json!({"tool": "plan", "objects": [gateway]}))?;
    let text = check::run(&check, &world.toolbox()?, &NoRemotePlaces).await?.text(Style::Plain);
    tells(&text, "instead: A and AAAA records with the addresses that shop.good.com has now (151.101.1.10)");
    Ok(())
}

async fn what_is_live_is_told_uncached(world: &World) -> Result<()> {
    let text = analyzed(world, "www.plain.com", "151.101.1.10").await?;
    tells(&text, "Match");
    tells(&text, "everything is as planned, for everybody");
    let text = analyzed(world, "www.plain.com", "151.101.1.12").await?;
    tells(&text, "Wrong  found A 151.101.1.10");
    let text = analyzed(world, "new.plain.com", "151.101.1.12").await?;
    tells(&text, "Missing");
    let text = analyzed(world, "www.plain.com", "edge.target.net").await?;
    tells(&text, "addresses stand at www.plain.com and a CNAME cannot stand beside them");
    let text = analyzed(world, "x.apps.good.com", "151.101.1.10").await?;
    tells(&text, "Match");
    Ok(())
}

async fn a_zone_that_was_typed_twice_is_found(world: &World) -> Result<()> {
    let (claim, doubled) = ("@ IN TXT \"bailiwick-verification=abc\"", "www.claims.com IN CNAME edge.target.net.");
    world.bed.edit_zone("claims.com", claim, doubled)?;
    let text = analyzed(world, "www.claims.com", "edge.target.net").await;
    world.bed.edit_zone("claims.com", doubled, claim)?;
    tells(
        &text?,
        "the record is at www.claims.com.claims.com: the form appends claims.com by itself; type \"www\" as the name",
    );
    Ok(())
}

async fn a_target_without_its_dot_is_told(world: &World) -> Result<()> {
    let slip = "www 300 IN CNAME edge.target.net";
    world.bed.edit_zone("claims.com", CLAIM, slip)?;
    let text = analyzed(world, "www.claims.com", "edge.target.net").await;
    world.bed.edit_zone("claims.com", slip, CLAIM)?;
    let text = text?;
    tells(&text, "Wrong  found CNAME edge.target.net.claims.com");
    tells(&text, "the zone was appended to the target: type it with a dot at the end, edge.target.net.");
    Ok(())
}

/// The line of claims.com that scenarios replace and put back.
const CLAIM: &str = "@ IN TXT \"bailiwick-verification=abc\"";

async fn plan_text(world: &World, host: &str, to: &str) -> Result<String> {
    let planned = planned(world, host, to).await?;
    Ok(plan::plan(&planned, world.toolbox()?.clock().now(), Style::Plain))
}

async fn a_record_that_exists_is_changed_by_a_schedule(world: &World) -> Result<()> {
    let planned = planned(world, "www.plain.com", "151.101.1.12").await?;
    let text = plan::plan(&planned, world.toolbox()?.clock().now(), Style::Plain);
    tells(&text, "When www.plain.com changes from A 151.101.1.10 (TTL 3600) to A 151.101.1.12");
    tells(&text, "lower the TTL from 3600 to 300 seconds and change nothing else");
    tells(&text, "wait 1 hour: by then nobody remembers the long TTL");
    tells(&text, "who asked just before the change keeps the old value for its TTL of 1 hour");
    assert!(!text.contains("create the record"), "nothing is new here:\n{text}");
    let json = serde_json::to_value(&planned)?;
    assert_eq!(json["changes"][0]["ttl"], 3600);
    assert_eq!(json["changes"][0]["schedule"]["steps"][0]["action"], "lower");
    tells(&text, "to go back, put A 151.101.1.10 there again: everybody has it back within 5 minutes");
    // A record of another type is as much in the way.
    let text = plan_text(world, "www.plain.com", "edge.target.net").await?;
    tells(&text, "When www.plain.com changes from A 151.101.1.10 (TTL 3600) to CNAME edge.target.net");
    Ok(())
}

async fn a_record_that_is_there_already_is_told(world: &World) -> Result<()> {
    let text = plan_text(world, "www.plain.com", "151.101.1.10").await?;
    tells(&text, "www.plain.com A: as planned already");
    assert!(!text.contains("\nWhen"), "there is nothing to do:\n{text}");
    Ok(())
}

async fn a_cname_beside_mail_or_texts_is_refused(world: &World) -> Result<()> {
    for (line, told) in [
        ("post IN MX 10 mail.target.net.", "Not possible: MX 10 mail.target.net. stands at post.claims.com"),
        ("post IN TXT \"v=spf1 -all\"", "Not possible: TXT \"v=spf1 -all\" stands at post.claims.com"),
    ] {
        world.bed.edit_zone("claims.com", CLAIM, line)?;
        let planned = plan_text(world, "post.claims.com", "edge.target.net").await;
        let analyzed = analyzed(world, "post.claims.com", "edge.target.net").await;
        world.bed.edit_zone("claims.com", line, CLAIM)?;
        let planned = planned?;
        tells(&planned, told);
        tells(&planned, "and nothing can stand beside a CNAME: it would hide it");
        tells(&planned, "instead: A and AAAA records with the addresses that edge.target.net has now (151.101.1.1");
        assert!(!planned.contains("Create in"), "{planned}");
        tells(&analyzed?, told);
    }
    Ok(())
}

async fn a_record_behind_a_proxy_is_told_for_what_it_is(world: &World) -> Result<()> {
    let masked = "www 300 IN A 104.16.1.1";
    world.bed.edit_zone("claims.com", CLAIM, masked)?;
    let text = analyzed(world, "www.claims.com", "edge.target.net").await;
    world.bed.edit_zone("claims.com", masked, CLAIM)?;
    let text = text?;
    tells(&text, "Masked  by Cloudflare: found A 104.16.1.1");
    tells(
        &text,
        "www.claims.com leads to Cloudflare, which answers in its place: where it leads from there cannot be seen",
    );
    Ok(())
}

async fn every_step_of_an_analysis_is_shown(world: &World) -> Result<()> {
    let text = analyzed(world, "www.plain.com", "151.101.1.10").await?;
    tells(&text, "www.plain.com A, asked from the root without any cache");
    tells(&text, "com is delegated to a.gtld-servers.net, b.gtld-servers.net");
    tells(&text, "plain.com is delegated to ns1.op-a.net, ns2.op-a.net");
    let planned = planned(world, "www.plain.com", "151.101.1.10").await?;
    let json = serde_json::to_value(world.toolbox()?.analyze(&planned, Vec::new()).await)?;
    let zones: Vec<_> = json["ways"][0]["steps"]
        .as_array()
        .context("no steps")?
        .iter()
        .filter_map(|step| step["zone"].as_str())
        .collect();
    assert_eq!(zones, [".", "com", "plain.com"]);
    Ok(())
}

async fn a_resolver_that_remembers_the_old_value_blocks_until_then(world: &World) -> Result<()> {
    let (old, new) = ("remembered 3600 IN A 151.101.1.10", "remembered 3600 IN A 151.101.1.12");
    world.bed.edit_zone("claims.com", CLAIM, old)?;
    let cached = world.bed.dig(&["@1.1.1.1", "+short", "A", "remembered.claims.com"]);
    world.bed.edit_zone("claims.com", old, new)?;
    let planned = planned(world, "remembered.claims.com", "151.101.1.12").await?;
    let analysis = world.toolbox()?.analyze_with_caches(&planned).await;
    world.bed.edit_zone("claims.com", new, CLAIM)?;
    assert!(cached?.contains("151.101.1.10"), "the resolver did not see the old value");
    let text = plan::analysis(&analysis, Style::Plain);
    tells(&text, "Blocked by cache  until ");
    tells(&text, "remembered.claims.com: Cloudflare still remember an old value, the last until ");
    assert!(!analysis.is_done());
    Ok(())
}

async fn some_servers_and_some_visitors_are_told(world: &World) -> Result<()> {
    let text = analyzed(world, "www.stale.com", "151.101.1.10").await?;
    tells(&text, "Partial  on ns1.op-a.net, not on stale.op-c.net");
    let two = "two IN A 151.101.1.10\ntwo IN A 151.101.1.12";
    world.bed.edit_zone("claims.com", CLAIM, two)?;
    let text = analyzed(world, "two.claims.com", "151.101.1.10").await;
    world.bed.edit_zone("claims.com", two, CLAIM)?;
    tells(&text?, "Extra  found 151.101.1.12: part of the visitors is sent there: remove it unless it is yours too");
    Ok(())
}
