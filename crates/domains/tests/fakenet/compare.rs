//! What `dns compare` and `dns doctor` tell.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use bailiwick_domains::recursive::{self, Standing, Via};
use bailiwick_domains::report::Style;
use bailiwick_domains::report::compare::CompareReport;
use bailiwick_domains::wire::{Question, RecordType, parse_name};

use crate::bed::{Scenario, World, tells};
use bailiwick_fakenet::scenario;

pub fn scenarios() -> Vec<Scenario> {
    vec![
        scenario!(resolvers_that_agree_are_told_to_agree_by_udp_tls_and_https),
        scenario!(a_filter_is_told_apart_from_a_stale_answer),
        scenario!(a_poisoned_answer_is_told_with_its_end),
        scenario!(a_changed_record_is_stale_until_its_ttl_ends),
        scenario!(a_new_record_is_hidden_by_a_negative_answer),
        scenario!(what_fails_validation_is_told_as_bogus),
        scenario!(the_doctor_knows_the_resolver_of_this_machine),
        scenario!(the_doctor_does_not_make_a_resolver_remember),
    ]
}

/// A time to live goes down every second.
const PATIENCE: Duration = Duration::from_secs(60);

async fn compare(world: &World, name: &str, via: Via) -> Result<CompareReport> {
    let places = [world.engine()];
    let question = Question::new(parse_name(name)?, RecordType::A);
    CompareReport::make(&places, &world.roots.resolvers, &question, via).await.context("no places")
}

fn standing(report: &CompareReport, resolver: &str) -> Standing {
    let found = report.resolvers.iter().find(|found| found.name == resolver);
    found.map_or(Standing::Unknown, |found| found.judged.standing)
}

async fn resolvers_that_agree_are_told_to_agree_by_udp_tls_and_https(world: &World) -> Result<()> {
    for via in [Via::Udp, Via::Tls, Via::Https] {
        let text = compare(world, "good.com", via).await?.text(Style::Plain);
        tells(&text, "All resolvers give what the authoritative servers say.");
        tells(&text, "validated; at unbound-cloudflare");
    }
    Ok(())
}

async fn a_filter_is_told_apart_from_a_stale_answer(world: &World) -> Result<()> {
    let report = compare(world, "malware.com", Via::Udp).await?;
    assert_eq!(standing(&report, "Quad9"), Standing::Filtered);
    assert_eq!(standing(&report, "Google"), Standing::Same);
    tells(&report.text(Style::Plain), "It is filtered by Quad9; waiting will not change that.");
    Ok(())
}

async fn a_poisoned_answer_is_told_with_its_end(world: &World) -> Result<()> {
    let report = compare(world, "poisoned.com", Via::Udp).await?;
    assert_eq!(standing(&report, "OpenDNS"), Standing::Stale);
    tells(&report.text(Style::Plain), "OpenDNS still answers from its cache; it will be right by");
    Ok(())
}

async fn a_changed_record_is_stale_until_its_ttl_ends(world: &World) -> Result<()> {
    compare(world, "www.moving.com", Via::Udp).await?;
    world.bed.edit_zone("moving.com", "www 3600 IN A 151.101.1.10", "www 3600 IN A 203.0.113.77")?;
    let report = compare(world, "www.moving.com", Via::Udp).await?;
    for resolver in &report.resolvers {
        assert_eq!(resolver.judged.standing, Standing::Stale, "{}", resolver.name);
        let left = resolver.judged.ttl_left.context("no time left is told")?;
        assert!((3500..=3600).contains(&left), "{left}");
        let right_at = resolver.judged.right_at.context("no time is told")?;
        let forecast = right_at.duration_since(report.at).as_secs();
        assert!((i64::from(left) - forecast).abs() <= 2, "{left} {forecast}");
    }
    tells(&report.text(Style::Plain), "203.0.113.77");
    let counting = tokio::time::timeout(PATIENCE, counts_down(world, &report));
    counting.await.context("the time that is left does not go down")?
}

/// The time that is left goes down from one look to the next, and the time at which it is over stays.
async fn counts_down(world: &World, first: &CompareReport) -> Result<()> {
    let judged = |report: &CompareReport| report.resolvers.first().map(|resolver| resolver.judged.clone());
    let before = judged(first).context("no resolver")?;
    loop {
        let now = judged(&compare(world, "www.moving.com", Via::Udp).await?).context("no resolver")?;
        let (Some(left), Some(right_at)) = (now.ttl_left, now.right_at) else { bail!("nothing is told: {now:?}") };
        if Some(left) < before.ttl_left {
            let moved = right_at.duration_since(before.right_at.context("no time is told")?).as_secs();
            assert!(moved.abs() <= 30, "{moved}");
            return Ok(());
        }
    }
}

async fn a_new_record_is_hidden_by_a_negative_answer(world: &World) -> Result<()> {
    compare(world, "new.fresh.com", Via::Udp).await?;
    world.bed.edit_zone("fresh.com", "@ IN A 151.101.1.10", "@ IN A 151.101.1.10\nnew 60 IN A 203.0.113.78")?;
    let report = compare(world, "new.fresh.com", Via::Udp).await?;
    assert_eq!(standing(&report, "Cloudflare"), Standing::Negative);
    let left =
        |name: &str| report.resolvers.iter().find(|found| found.name == name).and_then(|found| found.judged.ttl_left);
    assert!(
        left("Cloudflare").is_some_and(|left| (800..=900).contains(&left)),
        "the SOA's minimum is 900: {:?}",
        left("Cloudflare")
    );
    assert!(left("Google").is_some_and(|left| left <= 300), "it caps negative answers at 300: {:?}", left("Google"));
    Ok(())
}

async fn what_fails_validation_is_told_as_bogus(world: &World) -> Result<()> {
    let report = compare(world, "expired.com", Via::Udp).await?;
    assert_eq!(standing(&report, "Cloudflare"), Standing::Bogus);
    tells(&report.text(Style::Plain), "DNSSEC BOGUS");
    tells(&report.text(Style::Plain), "refused as bogus by Cloudflare");
    Ok(())
}

/// What the doctor finds on this machine.
async fn doctor(world: &World, name: &str) -> Result<CompareReport> {
    let places = [world.engine()];
    let resolvers: Vec<_> = recursive::of_this_machine(&places[0])?.into_iter().map(recursive::by_address).collect();
    let question = Question::new(parse_name(name)?, RecordType::A);
    CompareReport::look_at_caches(&places, &resolvers, &question).await.context("no places")
}

async fn the_doctor_knows_the_resolver_of_this_machine(world: &World) -> Result<()> {
    let report = doctor(world, "plain.com").await?;
    let [resolver] = report.resolvers.as_slice() else { anyhow::bail!("one resolver: {report:?}") };
    let outgoing = resolver.outgoing.as_ref().context("where it asks from was not found out")?;
    assert_eq!(outgoing.known_as.as_deref(), Some("OpenDNS"));
    tells(&report.text(Style::Plain), "asks the servers from 208.67.222.222 (OpenDNS)");
    Ok(())
}

async fn the_doctor_does_not_make_a_resolver_remember(world: &World) -> Result<()> {
    for _ in 0..2 {
        let report = doctor(world, "not-there-yet.plain.com").await?;
        assert_eq!(report.resolvers[0].judged.standing, Standing::NotCached);
        tells(&report.text(Style::Plain), "has nothing of it in its cache");
    }
    // Once somebody has asked, it has the news for the time that the SOA allows.
    world.bed.dig(&["@208.67.222.222", "not-there-yet.plain.com", "A"])?;
    let report = doctor(world, "not-there-yet.plain.com").await?;
    assert_eq!(report.resolvers[0].judged.standing, Standing::Same, "both say that there is nothing");
    assert!(report.resolvers[0].judged.ttl_left.is_some_and(|left| left <= 900));
    Ok(())
}
