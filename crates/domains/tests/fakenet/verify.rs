//! What `dns verify` tells.

use std::sync::Arc;

use anyhow::{Context, Result};
use bailiwick_domains::check::{self, Check};
use bailiwick_domains::name::DomainName;
use bailiwick_domains::probe::{self, NoRemotePlaces, ProbeAnswer, ProbeQuestion};
use bailiwick_domains::report::{Style, verification};
use bailiwick_domains::seams::{SystemClock, VantagePoint};
use bailiwick_domains::verification::decision::Outcome;
use bailiwick_domains::verification::site::File;
use bailiwick_domains::verification::{Challenge, Method, Scope, Verdict, Verifier};
use jiff::Timestamp;
use serde_json::json;

use crate::bed::{Scenario, World, tells};
use bailiwick_fakenet::scenario;

pub fn scenarios() -> Vec<Scenario> {
    vec![
        scenario!(a_record_is_proof_as_soon_as_it_is_live),
        scenario!(a_record_at_the_domain_itself_is_proof_too),
        scenario!(nothing_there_is_told_with_the_time_it_is_remembered),
        scenario!(every_slip_is_told_with_what_was_typed_and_what_is_expected),
        scenario!(a_name_with_the_zone_twice_is_found),
        scenario!(a_record_of_another_type_is_told),
        scenario!(a_delegated_challenge_is_proof),
        scenario!(the_tool_knows_the_zone_of_a_delegated_challenge),
        scenario!(a_delegation_to_the_tokens_nameserver_is_proof),
        scenario!(a_record_on_some_servers_is_told_with_those_that_have_it),
        scenario!(a_place_that_sees_another_zone_is_outvoted_by_two_and_not_by_one),
        scenario!(a_poisoned_cache_proves_nothing),
        scenario!(broken_signatures_prove_nothing),
        scenario!(a_file_on_the_site_is_proof),
        scenario!(a_site_that_repeats_what_it_is_asked_proves_nothing),
        scenario!(a_site_at_a_private_address_is_not_called),
        scenario!(a_site_in_trouble_could_not_be_checked),
        scenario!(looks_for_proofs_know_registries_from_each_other),
    ]
}

const TOKEN: &str = bailiwick_fakenet::PROOF_EXCEPT_IN_FRANKFURT;
/// The line of claims.com that scenarios replace and put back.
const CLAIM: &str = "@ IN TXT \"bailiwick-verification=abc\"";

fn challenge(domain: &str) -> Result<Challenge> {
    let domain = DomainName::parse(domain)?;
    let challenge = Challenge::new(&domain, Scope::Domain, "bailiwick", Timestamp::now(), &mut |_| ())?;
    Ok(Challenge { delegation_zone: Some(DomainName::parse("dcv.target.net")?), ..challenge.with_token(TOKEN) })
}

/// Looks for the proof in DNS alone, from three places.
async fn in_dns(world: &World, domain: &str) -> Result<(Verdict, String)> {
    in_dns_from(world, domain, 3).await
}

async fn in_dns_from(world: &World, domain: &str, places: usize) -> Result<(Verdict, String)> {
    let challenge = challenge(domain)?;
    let places = world.roots.vantage_points().into_iter().take(places).collect();
    let verifier = Verifier::new(world.toolbox()?.surveyor().clone(), Arc::new(SystemClock), places);
    let verdict = verifier.verify(&challenge).await;
    let text = verification::verdict(&challenge, &verdict, Style::Plain);
    Ok((verdict, text))
}

/// The same with these lines in claims.com.
async fn with_lines(world: &World, lines: &str) -> Result<(Verdict, String)> {
    world.bed.edit_zone("claims.com", CLAIM, lines)?;
    let told = in_dns(world, "claims.com").await;
    world.bed.edit_zone("claims.com", lines, CLAIM)?;
    told
}

async fn a_record_is_proof_as_soon_as_it_is_live(world: &World) -> Result<()> {
    let (before, _) = in_dns(world, "claims.com").await?;
    assert_eq!(before.outcome, Outcome::Pending);
    let (verdict, text) = with_lines(world, &format!("_bailiwick-challenge IN TXT \"{TOKEN}\"")).await?;
    assert_eq!(verdict.outcome, Outcome::Verified(Method::DnsTxt));
    tells(&text, "claims.com is verified by a TXT record at the challenge name");
    tells(&text, "the record is on all 3 servers that answered, seen from 3 places");
    tells(&text, "asked from fra, iad, sin");
    assert!(
        verdict.evidence.answers.iter().filter(|answer| answer.has_proof).all(|answer| answer.packet_sha256.is_some())
    );
    Ok(())
}

async fn a_record_at_the_domain_itself_is_proof_too(world: &World) -> Result<()> {
    let (verdict, _) = with_lines(world, &format!("@ IN TXT \"bailiwick-verification={TOKEN}\"")).await?;
    assert_eq!(verdict.outcome, Outcome::Verified(Method::DnsTxtApex));
    Ok(())
}

async fn nothing_there_is_told_with_the_time_it_is_remembered(world: &World) -> Result<()> {
    let (_, text) = in_dns(world, "q7.io").await?;
    tells(&text, "q7.io is not verified yet");
    tells(&text, "there is no record at _bailiwick-challenge.q7.io yet");
    tells(&text, "remember that for up to 30 minutes");
    Ok(())
}

async fn every_slip_is_told_with_what_was_typed_and_what_is_expected(world: &World) -> Result<()> {
    let typo = TOKEN.replace("oi4", "0i4");
    for (value, told) in [
        (format!("\\\"{TOKEN}\\\""), "the quotation marks became part of the value"),
        (format!("{TOKEN} "), "there is a blank before or behind the value"),
        (TOKEN[..20].to_owned(), "only 20 of 32 letters are there: the value was cut off"),
        (TOKEN.to_uppercase(), "capital and small letters were changed"),
        (typo, "[you typed \"0\", we expect \"o\"]"),
    ] {
        let (verdict, text) = with_lines(world, &format!("_bailiwick-challenge IN TXT \"{value}\"")).await?;
        assert_eq!(verdict.outcome, Outcome::Pending);
        tells(&text, told);
        tells(&text, &format!("we expect  {TOKEN}"));
    }
    let halves =
        format!("_bailiwick-challenge IN TXT \"{}\"\n_bailiwick-challenge IN TXT \"{}\"", &TOKEN[..16], &TOKEN[16..]);
    let (_, text) = with_lines(world, &halves).await?;
    tells(&text, "the value is spread over 2 records: it must be whole in one");
    Ok(())
}

async fn a_name_with_the_zone_twice_is_found(world: &World) -> Result<()> {
    let (_, text) = with_lines(world, &format!("_bailiwick-challenge.claims.com IN TXT \"{TOKEN}\"")).await?;
    tells(
        &text,
        "the record is at _bailiwick-challenge.claims.com.claims.com and should be at _bailiwick-challenge.claims.com: the form \
         appends the zone by itself, so it is there twice",
    );
    Ok(())
}

async fn a_record_of_another_type_is_told(world: &World) -> Result<()> {
    let (_, text) = with_lines(world, &format!("_bailiwick-challenge IN CNAME {TOKEN}.example.net.")).await?;
    tells(&text, "_bailiwick-challenge.claims.com has a CNAME record to");
    tells(&text, "and should have a TXT record");
    Ok(())
}

async fn a_delegated_challenge_is_proof(world: &World) -> Result<()> {
    let (verdict, _) = with_lines(world, &format!("_bailiwick-challenge IN CNAME {TOKEN}.dcv.target.net.")).await?;
    assert_eq!(verdict.outcome, Outcome::Verified(Method::DnsDelegation));
    Ok(())
}

async fn the_tool_knows_the_zone_of_a_delegated_challenge(world: &World) -> Result<()> {
    let verify = |token: Option<&str>| Check::Verify {
        name: "claims.com".to_owned(),
        token: token.map(str::to_owned),
        brand: "bailiwick".to_owned(),
        delegation_zone: Some("dcv.target.net".to_owned()),
        nameserver_zone: None,
        scope: Scope::Domain,
        account_label: None,
    };
    let toolbox = world.toolbox()?;
    let told = check::run(&verify(None), &toolbox, &NoRemotePlaces).await?.text(Style::Plain);
    tells(&told, ".dcv.target.net");
    tells(&told, "bailiwick dns verify claims.com --delegation-zone dcv.target.net --token ");
    let line = format!("_bailiwick-challenge IN CNAME {TOKEN}.dcv.target.net.");
    world.bed.edit_zone("claims.com", CLAIM, &line)?;
    let report = check::run(&verify(Some(TOKEN)), &toolbox, &NoRemotePlaces).await;
    world.bed.edit_zone("claims.com", &line, CLAIM)?;
    tells(&report?.text(Style::Plain), "claims.com is verified by a CNAME to our zone");
    Ok(())
}

/// Whether the nameserver serves the domain already does not matter: here nobody has given it an address.
async fn a_delegation_to_the_tokens_nameserver_is_proof(world: &World) -> Result<()> {
    let verify = |token: Option<&str>| {
        let arguments = json!({
            "tool": "verify", "name": "given.claims.com", "token": token, "nameserverZone": "ns.target.net",
            "scope": "host", "accountLabel": "k4ng",
        });
        serde_json::from_value::<Check>(arguments)
    };
    let toolbox = world.toolbox()?;
    let told = check::run(&verify(None)?, &toolbox, &NoRemotePlaces).await?.text(Style::Plain);
    tells(&told, ".ns.target.net among the nameservers that given.claims.com is delegated to");
    tells(&told, "_k4ng._bailiwick-host-challenge.given");
    tells(
        &told,
        "bailiwick dns verify given.claims.com --scope host --account-label k4ng --nameserver-zone ns.target.net --token ",
    );
    for (nameserver, proves) in [(TOKEN, true), ("somebodyelse", false)] {
        let line = format!("given IN NS {nameserver}.ns.target.net.");
        world.bed.edit_zone("claims.com", CLAIM, &line)?;
        let report = check::run(&verify(Some(TOKEN))?, &toolbox, &NoRemotePlaces).await;
        world.bed.edit_zone("claims.com", &line, CLAIM)?;
        let told = report?.text(Style::Plain);
        match proves {
            true => tells(&told, "given.claims.com is verified by its delegation to our nameserver"),
            false => tells(&told, "is delegated to somebodyelse.ns.target.net and should be to"),
        }
    }
    Ok(())
}

async fn a_record_on_some_servers_is_told_with_those_that_have_it(world: &World) -> Result<()> {
    let (before, after) = ("www IN A 151.101.1.10", format!("_bailiwick-challenge IN TXT \"{TOKEN}\""));
    world.bed.edit_zone("stale.com", before, &after)?;
    let told = in_dns(world, "stale.com").await;
    world.bed.edit_zone("stale.com", &after, before)?;
    let (verdict, text) = told?;
    assert_eq!(verdict.outcome, Outcome::Pending, "{text}");
    tells(&text, "ns1.op-a.net has it, stale.op-c.net not yet: wait until the provider has copied the zone");
    Ok(())
}

async fn a_place_that_sees_another_zone_is_outvoted_by_two_and_not_by_one(world: &World) -> Result<()> {
    let (verdict, text) = in_dns_from(world, "geo.com", 3).await?;
    assert_eq!(verdict.outcome, Outcome::Verified(Method::DnsTxt), "{text}");
    for places in [1, 2] {
        let (verdict, text) = in_dns_from(world, "geo.com", places).await?;
        assert_eq!(verdict.outcome, Outcome::Pending, "from {places} places: {text}");
        tells(&text, "fra");
    }
    Ok(())
}

/// A resolver may be told anything; only the zone's own servers count.
async fn a_poisoned_cache_proves_nothing(world: &World) -> Result<()> {
    let poisoned = world.bed.dig(&["@208.67.222.222", "+short", "TXT", "_bailiwick-challenge.poisoned.com"])?;
    assert!(poisoned.contains(TOKEN), "the resolver is not poisoned: {poisoned}");
    let (verdict, text) = in_dns(world, "poisoned.com").await?;
    assert_eq!(verdict.outcome, Outcome::Pending);
    tells(&text, "there is no record at _bailiwick-challenge.poisoned.com yet");
    Ok(())
}

async fn broken_signatures_prove_nothing(world: &World) -> Result<()> {
    let (verdict, text) = in_dns(world, "expired.com").await?;
    assert_eq!(verdict.outcome, Outcome::Pending);
    tells(&text, "the DNSSEC signatures of expired.com do not fit");
    Ok(())
}

async fn a_file_on_the_site_is_proof(world: &World) -> Result<()> {
    let challenge = challenge("plain.com")?;
    let verdict = world.toolbox()?.verify(&challenge).await;
    assert_eq!(verdict.outcome, Outcome::Verified(Method::HttpFile));
    tells(&verification::verdict(&challenge, &verdict, Style::Plain), "the file is at http://plain.com/.well-known/");
    let site = verdict.evidence.site.context("no evidence of the site")?;
    assert_eq!((site.status, site.file), (Some(200), File::Present));
    assert!(site.address.is_some() && site.body_sha256.is_some(), "{site:?}");
    Ok(())
}

async fn a_site_that_repeats_what_it_is_asked_proves_nothing(world: &World) -> Result<()> {
    let challenge = challenge("moving.com")?;
    let verdict = world.toolbox()?.verify(&challenge).await;
    assert_eq!(verdict.outcome, Outcome::Pending);
    tells(&verification::verdict(&challenge, &verdict, Style::Plain), "has something else in it");
    Ok(())
}

/// The site of down.com answers everything with 503.
async fn a_site_in_trouble_could_not_be_checked(world: &World) -> Result<()> {
    let challenge = challenge("down.com")?;
    let verdict = world.toolbox()?.verify(&challenge).await;
    assert_eq!(verdict.outcome, Outcome::Pending);
    assert!(!verdict.evidence.shows_absence(Method::HttpFile), "{:?}", verdict.evidence.site);
    tells(
        &verification::verdict(&challenge, &verdict, Style::Plain),
        "could not be checked: the site answers with status 503",
    );
    Ok(())
}

async fn a_site_at_a_private_address_is_not_called(world: &World) -> Result<()> {
    let address = "private-site IN A 10.0.0.1";
    world.bed.edit_zone("claims.com", CLAIM, address)?;
    let challenge = challenge("private-site.claims.com")?;
    let verdict = world.toolbox()?.verify(&challenge).await;
    // Nor by an agent, which has the same guard wherever it is.
    let (name, token) = (challenge.domain.clone(), challenge.token.clone());
    let question = ProbeQuestion::File { name, brand: challenge.brand.clone(), token };
    let asked = probe::answer(&world.toolbox()?, &VantagePoint::here(), &[question]).await;
    world.bed.edit_zone("claims.com", address, CLAIM)?;
    let [ProbeAnswer::File { site }] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!((site.file, site.status), (File::Unchecked, None));
    tells(site.problem.as_deref().unwrap_or_default(), "leads to 10.0.0.1, which is private and is not called");
    tells(
        &verification::verdict(&challenge, &verdict, Style::Plain),
        "private-site.claims.com leads to 10.0.0.1, which is private and is not called",
    );
    Ok(())
}

/// Somebody who waits has us look every few seconds, and a thousand may wait: the root and the registries are not asked again
/// each time, and what everybody's nameservers are called is looked up once.
async fn looks_for_proofs_know_registries_from_each_other(world: &World) -> Result<()> {
    let toolbox = world.toolbox()?;
    let surveyor = toolbox.surveyor();
    let mut counts = Vec::new();
    for domain in ["claims.com", "plain.com", "claims.com"] {
        let place = world.roots.vantage_points().into_iter().take(1).collect();
        let verifier = Verifier::new(surveyor.clone(), Arc::new(SystemClock), place);
        let before = surveyor.questions_asked();
        assert_eq!(verifier.verify(&challenge(domain)?).await.outcome, Outcome::Pending);
        counts.push(surveyor.questions_asked() - before);
    }
    // Three servers with five names, those of `com` twice, and the zone's start.
    assert!(counts[2] <= 40, "{counts:?}");
    assert!(counts[2] < counts[0], "{counts:?}");
    Ok(())
}
