//! What `dns fqdn` tells.

use anyhow::{Context, Result};
use bailiwick_domains::report::Style;
use bailiwick_domains::report::fqdn::{Endpoints, FqdnReport};
use bailiwick_domains::wire::{Question, RecordType, parse_name};

use crate::bed::{Scenario, World, tells};
use bailiwick_fakenet::scenario;

pub fn scenarios() -> Vec<Scenario> {
    vec![
        scenario!(ten_places_see_the_same),
        scenario!(a_service_that_is_not_the_same_from_everywhere_is_told_by_place),
        scenario!(an_answer_by_place_is_told_apart_from_a_stale_one),
        scenario!(a_stale_server_is_named_with_what_it_says),
        scenario!(a_dangling_alias_is_a_warning),
        scenario!(each_record_of_a_chain_has_its_own_time_and_schedule),
        scenario!(a_name_that_is_missing_is_told_with_the_time_of_its_absence),
        scenario!(every_link_tells_its_provider_and_its_security),
        scenario!(servers_tell_who_they_are_and_how_near),
        scenario!(the_weakest_link_is_named),
        scenario!(the_weakest_link_may_be_in_any_zone_of_the_chain),
        scenario!(who_may_issue_certificates_is_told),
        scenario!(a_certificate_that_its_issuer_may_not_renew_is_told),
    ]
}

async fn report(world: &World, name: &str) -> Result<FqdnReport> {
    let places: Vec<_> = (0..world.roots.vantage_points().len()).map(|index| world.engine_at(index)).collect();
    let question = Question::new(parse_name(name)?, RecordType::A);
    FqdnReport::make(&places, &question, Endpoints::Look).await.context("no places")
}

async fn fqdn(world: &World, name: &str) -> Result<String> {
    Ok(report(world, name).await?.text(Style::Plain))
}

/// What is remembered is each record, for its own time: 600, 30 and 20 seconds here.
async fn each_record_of_a_chain_has_its_own_time_and_schedule(world: &World) -> Result<()> {
    let report = report(world, "www.good.com").await?;
    let text = report.text(Style::Plain);
    tells(
        &text,
        "Everybody sees a change of www.good.com CNAME (TTL 600) within 10 minutes, of edge.target.net CNAME (TTL 30) within 30 \
         seconds, of pop.target.net A (TTL 20) within 20 seconds: whatever is changed on the way, within 10 minutes.",
    );
    tells(&text, "To change www.good.com CNAME (TTL 600)");
    tells(&text, "lower the TTL from 600 to 300 seconds and change nothing else");
    tells(&text, "wait 10 minutes: by then nobody remembers the long TTL");
    tells(&text, "everybody sees the new value: the last old answer lived 5 minutes");
    tells(&text, "raise the TTL to 3600 seconds, once it has worked for a day");
    let json = serde_json::to_value(&report)?;
    let changes = json["changes"].as_array().context("no changes")?;
    let lives: Vec<_> = changes.iter().map(|change| (change["type"].as_str(), change["ttl"].as_u64())).collect();
    assert_eq!(lives, [(Some("CNAME"), Some(600)), (Some("CNAME"), Some(30)), (Some("A"), Some(20))]);
    for (change, seconds) in changes.iter().zip([600, 30, 20]) {
        let by: jiff::Timestamp = change["seen"]["by"].as_str().context("no time")?.parse()?;
        assert_eq!(by.duration_since(report.at).as_secs(), seconds);
        assert!(!change["schedule"]["steps"].as_array().context("no steps")?.is_empty());
    }
    Ok(())
}

async fn a_name_that_is_missing_is_told_with_the_time_of_its_absence(world: &World) -> Result<()> {
    tells(
        &fqdn(world, "new.plain.com").await?,
        "Once new.plain.com A is created, everybody sees it within 15 minutes: its absence is remembered for 900 seconds.",
    );
    Ok(())
}

async fn every_link_tells_its_provider_and_its_security(world: &World) -> Result<()> {
    let text = fqdn(world, "blog.q7.io").await?;
    tells(
        &text,
        "blog.q7.io is an alias of edge.target.net (CNAME in q7.io at DigitalOcean, 5 minutes, DNSSEC insecure)",
    );
    tells(&text, "edge.target.net is an alias of pop.target.net (CNAME in target.net, 30 seconds, DNSSEC secure)");
    Ok(())
}

async fn servers_tell_who_they_are_and_how_near(world: &World) -> Result<()> {
    let report = report(world, "www.good.com").await?;
    let told: Vec<_> = report
        .nameservers
        .iter()
        .map(|server| (server.zone.as_str(), server.server.as_str(), server.identities.join(" ")))
        .collect();
    for wanted in [("good.com", "ns1.op-a.net", "nsd-opa"), ("target.net", "ns2.op-b.org", "knot")] {
        assert!(told.contains(&(wanted.0, wanted.1, wanted.2.to_owned())), "{wanted:?} is missing in {told:?}");
    }
    let text = report.text(Style::Plain);
    tells(&text, "NAMESERVER");
    tells(&text, "nsd-opa");
    Ok(())
}

async fn the_weakest_link_may_be_in_any_zone_of_the_chain(world: &World) -> Result<()> {
    let (address, alias) = ("www IN A 151.101.1.10", "www IN CNAME shop.good.com.");
    world.bed.edit_zone("slow.com", address, alias)?;
    let text = fqdn(world, "www.slow.com").await;
    world.bed.edit_zone("slow.com", alias, address)?;
    tells(&text?, "The slowest server is slow.op-c.net (45.54.64.16) of slow.com:");
    Ok(())
}

async fn ten_places_see_the_same(world: &World) -> Result<()> {
    let text = fqdn(world, "www.good.com").await?;
    tells(&text, "All 10 places get the same answer: 151.101.1.10 151.101.1.11.");
    tells(&text, "www.good.com is an alias of edge.target.net (CNAME in good.com, 10 minutes, DNSSEC secure)");
    tells(&text, "151.101.1.10  TLS ok, HTTP 200");
    tells(&text, "certificate for good.com, *.good.com");
    tells(&text, " until 4096-01-01, by Fakenet CA");
    tells(&text, "151.101.1.11  the certificate is for somebody-else.example, not for www.good.com");
    tells(&fqdn(world, "down.com").await?, "151.101.1.12  TLS ok, but the service answers 503");
    Ok(())
}

/// One address, ten places: eight are served, one gets the certificate of yesterday, one gets nothing.
async fn a_service_that_is_not_the_same_from_everywhere_is_told_by_place(world: &World) -> Result<()> {
    let report = report(world, "pops.plain.com").await?;
    let text = report.text(Style::Plain);
    tells(&text, "All 10 places get the same answer: 151.101.1.15.");
    tells(&text, "at sin: the certificate is for former.plain.com, not for pops.plain.com");
    tells(&text, "at gru: TLS fails: ");
    tells(&report.summary, "151.101.1.15 is not the same from everywhere: TLS ok, HTTP 200 at fra, iad, lhr, ");
    let [endpoint] = report.endpoints.as_slice() else { anyhow::bail!("one address: {:?}", report.endpoints) };
    let places: usize = endpoint.views.iter().map(|view| view.places.len()).sum();
    assert_eq!((endpoint.views.len(), places, endpoint.is_ready), (3, 10, false));
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

async fn the_weakest_link_is_named(world: &World) -> Result<()> {
    tells(&fqdn(world, "slow.com").await?, "The slowest server is slow.op-c.net (45.54.64.16) of slow.com:");
    Ok(())
}

/// The certificate of bank.good.com is good, but CAA at good.com names another authority.
async fn a_certificate_that_its_issuer_may_not_renew_is_told(world: &World) -> Result<()> {
    let text = fqdn(world, "bank.good.com").await?;
    tells(&text, "by DigiCert of the fake internet");
    tells(&text, "CAA at good.com does not let DigiCert of the fake internet issue it: it cannot be renewed there");
    assert!(!fqdn(world, "shop.good.com").await?.contains("cannot be renewed"), "an unknown authority is not judged");
    Ok(())
}

async fn who_may_issue_certificates_is_told(world: &World) -> Result<()> {
    tells(
        &fqdn(world, "shop.good.com").await?,
        "CAA at good.com lets only letsencrypt.org issue certificates for shop.good.com",
    );
    Ok(())
}
