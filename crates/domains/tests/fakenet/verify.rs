//! What `dns verify` tells.

use std::sync::Arc;

use anyhow::Result;
use bailiwick_domains::name::DomainName;
use bailiwick_domains::report::{Style, verification};
use bailiwick_domains::seams::SystemClock;
use bailiwick_domains::verification::decision::Outcome;
use bailiwick_domains::verification::{Challenge, Method, Scope, Verdict, Verifier};
use jiff::Timestamp;

use crate::bed::{Scenario, World, tells};
use crate::scenario;

pub fn scenarios() -> Vec<Scenario> {
    vec![
        scenario!(a_record_is_proof_as_soon_as_it_is_live),
        scenario!(a_record_at_the_domain_itself_is_proof_too),
        scenario!(nothing_there_is_told_with_the_time_it_is_remembered),
        scenario!(every_slip_is_told_with_what_was_typed_and_what_is_expected),
        scenario!(a_name_with_the_zone_twice_is_found),
        scenario!(a_record_of_another_type_is_told),
        scenario!(a_delegated_challenge_is_proof),
        scenario!(broken_signatures_prove_nothing),
        scenario!(a_file_on_the_site_is_proof),
        scenario!(a_site_that_repeats_what_it_is_asked_proves_nothing),
        scenario!(a_site_at_a_private_address_is_not_called),
    ]
}

const TOKEN: &str = "mzxw6ytboi4dsnrzgqytcnbqgezdgnbv";
/// The line of claims.com that scenarios replace and put back.
const CLAIM: &str = "@ IN TXT \"bailiwick-verification=abc\"";

fn challenge(domain: &str) -> Result<Challenge> {
    let domain = DomainName::parse(domain)?;
    let challenge = Challenge::new(&domain, Scope::Domain, "bailiwick", Timestamp::now(), &mut |_| ())?;
    Ok(Challenge { delegation_zone: Some(DomainName::parse("dcv.target.net")?), ..challenge.with_token(TOKEN) })
}

/// Looks for the proof in DNS alone, from three places.
async fn in_dns(world: &World, domain: &str) -> Result<(Verdict, String)> {
    let challenge = challenge(domain)?;
    let places = world.roots.vantage_points().into_iter().take(3).collect();
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

async fn broken_signatures_prove_nothing(world: &World) -> Result<()> {
    let (verdict, text) = in_dns(world, "expired.com").await?;
    assert_eq!(verdict.outcome, Outcome::Pending);
    tells(&text, "the DNSSEC signatures of expired.com do not fit");
    Ok(())
}

async fn a_file_on_the_site_is_proof(world: &World) -> Result<()> {
    let verdict = world.toolbox()?.verify(&challenge("plain.com")?).await;
    assert_eq!(verdict.outcome, Outcome::Verified(Method::HttpFile));
    Ok(())
}

async fn a_site_that_repeats_what_it_is_asked_proves_nothing(world: &World) -> Result<()> {
    let challenge = challenge("moving.com")?;
    let verdict = world.toolbox()?.verify(&challenge).await;
    assert_eq!(verdict.outcome, Outcome::Pending);
    tells(&verification::verdict(&challenge, &verdict, Style::Plain), "has something else in it");
    Ok(())
}

async fn a_site_at_a_private_address_is_not_called(world: &World) -> Result<()> {
    let address = "private-site IN A 10.0.0.1";
    world.bed.edit_zone("claims.com", CLAIM, address)?;
    let challenge = challenge("private-site.claims.com")?;
    let verdict = world.toolbox()?.verify(&challenge).await;
    world.bed.edit_zone("claims.com", address, CLAIM)?;
    tells(
        &verification::verdict(&challenge, &verdict, Style::Plain),
        "private-site.claims.com leads to 10.0.0.1, which is private and is not called",
    );
    Ok(())
}
