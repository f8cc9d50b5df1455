//! What `dns trace` tells.

use anyhow::Result;
use bailiwick_domains::wire::RecordType;

use crate::bed::{Scenario, World, tells};
use bailiwick_fakenet::scenario;

pub fn scenarios() -> Vec<Scenario> {
    vec![
        scenario!(a_signed_name_is_followed_from_the_root_and_is_secure),
        scenario!(an_alias_is_followed_over_two_operators),
        scenario!(a_dname_is_followed),
        scenario!(a_name_that_does_not_exist_is_proven_not_to),
        scenario!(a_wildcard_and_an_empty_name_are_told_apart),
        scenario!(lame_silent_closed_and_crooked_servers_are_named),
        scenario!(servers_that_refer_upwards_or_offer_recursion_are_named),
        scenario!(servers_that_dislike_edns_are_named),
        scenario!(a_long_answer_comes_by_tcp),
        scenario!(a_long_answer_without_tcp_is_told),
        scenario!(a_stale_server_is_a_disagreement),
        scenario!(expired_signatures_are_told_with_their_date),
        scenario!(a_ds_for_another_key_is_told),
        scenario!(an_unsigned_zone_with_a_ds_is_bogus),
        scenario!(signed_without_ds_is_insecure),
        scenario!(alias_loops_end),
        scenario!(servers_whose_names_depend_on_each_other_are_told),
        scenario!(private_addresses_are_not_asked),
    ]
}

async fn a_signed_name_is_followed_from_the_root_and_is_secure(world: &World) -> Result<()> {
    let text = world.trace("good.com", RecordType::A).await?;
    tells(&text, "the root");
    tells(&text, "com is delegated to a.gtld-servers.net, b.gtld-servers.net");
    tells(&text, "good.com is delegated to ns1.op-a.net, ns2.op-b.org");
    tells(&text, "151.101.1.10");
    tells(&text, "DNSSEC secure");
    // Both internets.
    tells(&text, "2001:503:ba3e::2:30");
    tells(&text, "198.41.0.4");
    Ok(())
}

async fn an_alias_is_followed_over_two_operators(world: &World) -> Result<()> {
    let text = world.trace("www.good.com", RecordType::A).await?;
    tells(&text, "www.good.com is an alias of edge.target.net");
    tells(&text, "edge.target.net is an alias of pop.target.net");
    tells(&text, "pop.target.net  20  A  151.101.1.11");
    tells(&text, "DNSSEC secure");
    Ok(())
}

async fn a_dname_is_followed(world: &World) -> Result<()> {
    let text = world.trace("a.legacy.good.com", RecordType::A).await?;
    tells(&text, "all names below legacy.good.com are aliases; this one of a.new.target.net");
    tells(&text, "a.new.target.net  300  A  151.101.1.10");
    tells(&text, "DNSSEC secure");
    Ok(())
}

async fn a_name_that_does_not_exist_is_proven_not_to(world: &World) -> Result<()> {
    let nsec = world.trace("nope.good.com", RecordType::A).await?;
    tells(&nsec, "nope.good.com does not exist.");
    tells(&nsec, "DNSSEC secure: it is proven that nope.good.com does not exist");
    let nsec3 = world.trace("nope.target.net", RecordType::A).await?;
    tells(&nsec3, "DNSSEC secure: it is proven that nope.target.net does not exist");
    let dangling = world.trace("status.good.com", RecordType::A).await?;
    tells(&dangling, "gone.target.net does not exist.");
    Ok(())
}

async fn a_wildcard_and_an_empty_name_are_told_apart(world: &World) -> Result<()> {
    let wildcard = world.trace("anything.apps.good.com", RecordType::A).await?;
    tells(&wildcard, "anything.apps.good.com  300  A");
    tells(&wildcard, "is made from a signed wildcard");
    let empty = world.trace("empty.good.com", RecordType::A).await?;
    tells(&empty, "empty.good.com exists but has no A records.");
    tells(&empty, "DNSSEC secure: it is proven that empty.good.com has no A");
    Ok(())
}

async fn lame_silent_closed_and_crooked_servers_are_named(world: &World) -> Result<()> {
    let lame = world.trace("lame.com", RecordType::A).await?;
    tells(&lame, "does not serve the zone: refuses to answer (REFUSED)");
    tells(&lame, "lame.com  300  A  151.101.1.10");
    let silent = world.trace("silent.com", RecordType::A).await?;
    tells(&silent, "silent.op-c.net  45.54.64.6");
    tells(&silent, "does not answer");
    let closed = world.trace("closed.com", RecordType::A).await?;
    tells(&closed, "port 53 is closed");
    let crooked = world.trace("crooked.com", RecordType::A).await?;
    tells(&crooked, "answers from another address (45.54.64.9)");
    let broken = world.trace("broken.com", RecordType::A).await?;
    tells(&broken, "No answer: no server of broken.com gave a usable answer.");
    Ok(())
}

async fn servers_that_refer_upwards_or_offer_recursion_are_named(world: &World) -> Result<()> {
    let upward = world.trace("upward.com", RecordType::A).await?;
    tells(&upward, "refers back up to com");
    let open = world.trace("open.com", RecordType::A).await?;
    tells(&open, "offers recursion to everybody");
    Ok(())
}

async fn servers_that_dislike_edns_are_named(world: &World) -> Result<()> {
    tells(&world.trace("noedns.com", RecordType::A).await?, "answers only without EDNS");
    tells(&world.trace("formerr.com", RecordType::A).await?, "refuses EDNS (FORMERR)");
    Ok(())
}

async fn a_long_answer_comes_by_tcp(world: &World) -> Result<()> {
    let text = world.trace("big.com", RecordType::TXT).await?;
    tells(&text, "too long for UDP, fine by TCP");
    tells(&text, "part-13-xxx");
    Ok(())
}

async fn a_long_answer_without_tcp_is_told(world: &World) -> Result<()> {
    tells(&world.trace("notcp.com", RecordType::TXT).await?, "too long for UDP, and TCP fails: port closed");
    Ok(())
}

async fn a_stale_server_is_a_disagreement(world: &World) -> Result<()> {
    tells(&world.trace("www.stale.com", RecordType::A).await?, "the servers do not agree");
    Ok(())
}

async fn expired_signatures_are_told_with_their_date(world: &World) -> Result<()> {
    let text = world.trace("expired.com", RecordType::A).await?;
    tells(&text, "DNSSEC BOGUS");
    let ended = jiff::Timestamp::now().checked_sub(jiff::SignedDuration::from_hours(30 * 24))?;
    tells(&text, &format!("its signature ended on {}", ended.strftime("%Y-%m-%d")));
    Ok(())
}

async fn a_ds_for_another_key_is_told(world: &World) -> Result<()> {
    let text = world.trace("wrongds.com", RecordType::A).await?;
    tells(&text, "DNSSEC BOGUS: the parent of wrongds.com has a DS for key 4711, but the zone has only key");
    Ok(())
}

async fn an_unsigned_zone_with_a_ds_is_bogus(world: &World) -> Result<()> {
    let text = world.trace("unsigned-ds.com", RecordType::A).await?;
    tells(&text, "DNSSEC BOGUS: the parent of unsigned-ds.com has a DS for key 4711, but the zone has no keys");
    Ok(())
}

async fn signed_without_ds_is_insecure(world: &World) -> Result<()> {
    let text = world.trace("island.com", RecordType::A).await?;
    tells(&text, "DNSSEC insecure: com proves that island.com has no DS, so it is not signed");
    tells(&world.trace("plain.com", RecordType::A).await?, "DNSSEC insecure");
    Ok(())
}

async fn alias_loops_end(world: &World) -> Result<()> {
    tells(&world.trace("a.loop.com", RecordType::A).await?, "No answer: the aliases form a loop at a.loop.com.");
    tells(&world.trace("self.loop.com", RecordType::A).await?, "the aliases form a loop at self.loop.com");
    Ok(())
}

async fn servers_whose_names_depend_on_each_other_are_told(world: &World) -> Result<()> {
    let text = world.trace("circle.com", RecordType::A).await?;
    tells(&text, "ns1.circle.net  has no address");
    tells(&text, "No answer: no server of circle.com has an address.");
    Ok(())
}

async fn private_addresses_are_not_asked(world: &World) -> Result<()> {
    tells(&world.trace("private.com", RecordType::A).await?, "not asked: 127.0.0.1 is not a public address");
    Ok(())
}
