//! What `dns fqdn` tells.

use anyhow::{Context, Result};
use bailiwick_domains::report::Style;
use bailiwick_domains::report::fqdn::{Endpoints, FqdnReport};
use bailiwick_domains::wire::{Question, RecordType, parse_name};

use crate::bed::{Scenario, World, tells};
use crate::scenario;

pub fn scenarios() -> Vec<Scenario> {
    vec![
        scenario!(ten_places_see_the_same),
        scenario!(an_answer_by_place_is_told_apart_from_a_stale_one),
        scenario!(a_stale_server_is_named_with_what_it_says),
        scenario!(a_dangling_alias_is_a_warning),
    ]
}

async fn fqdn(world: &World, name: &str) -> Result<String> {
    let places: Vec<_> = (0..world.roots.vantage_points().len()).map(|index| world.engine_at(index)).collect();
    let question = Question::new(parse_name(name)?, RecordType::A);
    Ok(FqdnReport::make(&places, &question, Endpoints::Look).await.context("no places")?.text(Style::Plain))
}

async fn ten_places_see_the_same(world: &World) -> Result<()> {
    let text = fqdn(world, "www.good.com").await?;
    tells(&text, "All 10 places get the same answer: 151.101.1.10 151.101.1.11.");
    tells(&text, "www.good.com is an alias of edge.target.net");
    tells(&text, "A change is seen everywhere within 20 s.");
    tells(&text, "151.101.1.10  TLS ok, HTTP 200");
    tells(&text, "151.101.1.11  the certificate is for somebody-else.example, not for www.good.com");
    tells(&fqdn(world, "down.com").await?, "151.101.1.12  TLS ok, but the service answers 503");
    Ok(())
}

async fn an_answer_by_place_is_told_apart_from_a_stale_one(world: &World) -> Result<()> {
    let text = fqdn(world, "geo.com").await?;
    tells(&text, "203.0.113.1 at fra");
    tells(&text, "the answer depends on the place; nothing is stale");
    Ok(())
}

async fn a_stale_server_is_named_with_what_it_says(world: &World) -> Result<()> {
    let text = fqdn(world, "www.stale.com").await?;
    tells(&text, "The servers do not agree");
    tells(&text, "stale.op-c.net says 203.0.113.9");
    Ok(())
}

async fn a_dangling_alias_is_a_warning(world: &World) -> Result<()> {
    let text = fqdn(world, "status.good.com").await?;
    tells(
        &text,
        "status.good.com leads to gone.target.net, which does not exist: whoever registers it takes the name over.",
    );
    Ok(())
}
