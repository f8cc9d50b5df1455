//! What `dns plan` and `dns analyze` tell.

use anyhow::{Context, Result};
use bailiwick_domains::plan::{Host, Plan};
use bailiwick_domains::report::{Style, plan};
use bailiwick_domains::toolbox::Target;

use crate::bed::{Scenario, World, tells};
use crate::scenario;

pub fn scenarios() -> Vec<Scenario> {
    vec![
        scenario!(records_are_planned_as_the_provider_wants_them_typed),
        scenario!(a_cname_at_the_root_is_refused_with_the_targets_addresses),
        scenario!(what_is_live_is_told_uncached),
        scenario!(a_zone_that_was_typed_twice_is_found),
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
    Ok(())
}

async fn a_cname_at_the_root_is_refused_with_the_targets_addresses(world: &World) -> Result<()> {
    let planned = planned(world, "q7.io", "shop.good.com").await?;
    let text = plan::plan(&planned, world.toolbox()?.clock().now(), Style::Plain);
    tells(&text, "Not possible: a CNAME cannot stand at q7.io, the root of the zone");
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
