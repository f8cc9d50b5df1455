use super::*;
use crate::authority::{Record, Soa};
use crate::verification::Scope;

const TOKEN: &str = "mzxw6ytboi4dsnrzgqytcnbqgezdgnbv";

fn name(text: &str) -> DomainName {
    DomainName::parse(text).expect("a name")
}

fn now() -> Timestamp {
    "2026-11-16T10:00:00Z".parse().expect("a time")
}

fn challenge() -> Challenge {
    let challenge =
        Challenge::new(&name("example.com"), Scope::Domain, "bailiwick", now(), &mut |_| ()).expect("a challenge");
    Challenge { delegation_zone: Some(name("dcv.bailiwick.example")), ..challenge.with_token(TOKEN) }
}

fn txt(value: &str) -> Said {
    txts(&[&[value]])
}

fn txts(values: &[&[&str]]) -> Said {
    let record = |strings: &&[&str]| Record {
        name: name("_bailiwick-challenge.example.com"),
        kind: RecordKind::Txt,
        ttl: 300,
        value: RecordValue::Text(strings.iter().map(|text| (*text).to_owned()).collect()),
    };
    Said::Records(values.iter().map(record).collect())
}

fn cname(target: &str) -> Said {
    Said::Records(vec![Record {
        name: name("_bailiwick-challenge.example.com"),
        kind: RecordKind::Cname,
        ttl: 300,
        value: RecordValue::Name(name(target)),
    }])
}

/// What `ns1`, `ns2`, … said, seen from a place.
fn look(from: &str, place: Place, said: &[Said]) -> Look {
    let asked = place.name(&challenge(), &name("example.com")).expect("a name");
    let answer = |(number, said): (usize, &Said)| ServerAnswer {
        server: name(&format!("ns{}.example.net", number + 1)),
        address: format!("192.0.2.{}", number + 1).parse().expect("an address"),
        said: said.clone(),
        serial: None,
        packet_sha256: Some(format!("{number}")),
    };
    let soa = Soa {
        zone: name("example.com"),
        ttl: 3600,
        primary: name("ns1.example.net"),
        mailbox: "hostmaster.example.com".into(),
        serial: 7,
        refresh: 1,
        retry: 1,
        expire: 1,
        minimum: 900,
    };
    let survey = Survey {
        vantage_point: from.to_owned(),
        name: asked,
        kind: RecordKind::Txt,
        zone: name("example.com"),
        nameservers: Vec::new(),
        delegation_ttl: None,
        delegation_signers: None,
        soa: Some(soa),
        wrong_glue: Vec::new(),
        security: Security::Insecure,
        answers: said.iter().enumerate().map(answer).collect(),
    };
    Look { vantage_point: from.to_owned(), place, seen: Ok(survey) }
}

/// Outcome and sentences.
fn told(looks: &[Look]) -> (Outcome, Vec<String>) {
    let verdict = decide(&challenge(), looks, now());
    (verdict.outcome, verdict.findings.iter().map(Finding::sentence).collect())
}

#[test]
fn proved_when_every_server_has_it_from_every_place() {
    let looks = ["fra", "iad", "sin"].map(|from| look(from, Place::Challenge, &[txt(TOKEN), txt(TOKEN)]));
    let (outcome, sentences) = told(&looks);
    assert_eq!(outcome, Outcome::Verified(Method::DnsTxt));
    assert_eq!(
        sentences,
        ["_bailiwick-challenge.example.com: the record is on all 2 servers that answered, seen from 3 places"]
    );
}

#[test]
fn the_domain_itself_delegation_and_split_strings_count_too() {
    let apex = look("here", Place::Apex, &[txts(&[&["v=spf1 -all"], &[&format!("bailiwick-verification={TOKEN}")]])]);
    let nothing = look("here", Place::Challenge, &[Said::NoSuchName]);
    assert_eq!(told(&[nothing, apex]).0, Outcome::Verified(Method::DnsTxtApex));
    let delegated = look("here", Place::Challenge, &[cname(&format!("{TOKEN}.dcv.bailiwick.example"))]);
    assert_eq!(told(&[delegated]).0, Outcome::Verified(Method::DnsDelegation));
    let strings = look("here", Place::Challenge, &[txts(&[&[&TOKEN[..16], &TOKEN[16..]]])]);
    assert_eq!(told(&[strings]).0, Outcome::Verified(Method::DnsTxt));
}

#[test]
fn a_delegation_to_another_accounts_token_is_none() {
    let other = look("here", Place::Challenge, &[cname("someoneelse.dcv.bailiwick.example")]);
    let (outcome, sentences) = told(&[other]);
    assert_eq!(outcome, Outcome::Pending);
    assert_eq!(
        sentences,
        [
            "_bailiwick-challenge.example.com has a CNAME record to someoneelse.dcv.bailiwick.example and should have a TXT record: \
          delete it and make a TXT record"
        ]
    );
}

/// The domain as its parent delegates it, seen from a place; its own servers say this.
fn delegated_to(from: &str, nameservers: &[&str], said: &[Said]) -> Look {
    let mut look = look(from, Place::Apex, said);
    if let Ok(survey) = &mut look.seen {
        survey.nameservers = nameservers.iter().map(|server| name(server)).collect();
    }
    look
}

fn with_nameservers(looks: &[Look]) -> Verdict {
    let challenge = Challenge { nameserver_zone: Some(name("ns.bailiwick.example")), ..challenge() };
    decide(&challenge, looks, now())
}

#[test]
fn a_delegation_to_the_tokens_nameserver_is_proof_whether_that_answers_or_not() {
    let ours = format!("{TOKEN}.ns.bailiwick.example");
    let silent = Said::Nothing("no answer within 2 seconds".into());
    let looks =
        ["fra", "iad"].map(|from| delegated_to(from, &["ns1.example.net", &ours], std::slice::from_ref(&silent)));
    let verdict = with_nameservers(&looks);
    assert_eq!(verdict.outcome, Outcome::Verified(Method::DnsNameserver));
    assert_eq!(verdict.findings[0].sentence(), format!("example.com is delegated to {ours}, seen from 2 places"));
    assert_eq!(verdict.evidence.delegations.iter().filter(|seen| seen.has_proof).count(), 2);
    // Where no such zone is run, it is nothing.
    assert_eq!(told(&looks).0, Outcome::Pending);
}

#[test]
fn a_delegation_that_proves_nothing_is_told() {
    let another = with_nameservers(&[delegated_to("here", &["someoneelse.ns.bailiwick.example"], &[Said::NoData])]);
    assert_eq!(another.outcome, Outcome::Pending);
    assert_eq!(
        another.findings[0].sentence(),
        format!(
            "example.com is delegated to someoneelse.ns.bailiwick.example and should be to {TOKEN}.ns.bailiwick.example: that is \
             the nameserver of another token"
        )
    );
    let ours = format!("{TOKEN}.ns.bailiwick.example");
    let with = delegated_to("fra", &[&ours], &[Said::NoData]);
    let without = delegated_to("iad", &["ns1.example.net"], &[Said::NoData]);
    let partial = with_nameservers(&[with, without]);
    assert_eq!(partial.outcome, Outcome::Pending);
    assert_eq!(
        partial.findings[0].sentence(),
        "seen from fra, not from iad: the servers answer differently depending on who asks"
    );
    let mut bogus = delegated_to("here", &[&ours], &[Said::NoData]);
    if let Ok(survey) = &mut bogus.seen {
        survey.security = Security::Bogus;
    }
    assert_eq!(with_nameservers(&[bogus]).outcome, Outcome::Pending);
}

#[test]
fn a_name_inside_its_parents_zone_is_not_delegated_and_a_silent_parent_says_nothing() {
    let above = |said: Said| {
        let mut look = delegated_to("here", &["ns1.example.net"], &[said]);
        if let Ok(survey) = &mut look.seen {
            survey.zone = name("com");
        }
        with_nameservers(&[look]).evidence.shows_absence(Method::DnsNameserver)
    };
    assert!(above(Said::NoSuchName));
    assert!(!above(Said::Nothing("no answer within 2 seconds".into())));
}

#[test]
fn one_server_without_it_is_named() {
    let (outcome, sentences) = told(&[look("here", Place::Challenge, &[txt(TOKEN), Said::NoSuchName])]);
    assert_eq!(outcome, Outcome::Pending);
    assert_eq!(
        sentences,
        ["ns1.example.net has it, ns2.example.net not yet: wait until the provider has copied the zone"]
    );
}

#[test]
fn one_of_three_places_may_disagree_and_two_may_not() {
    let with = || look("fra", Place::Challenge, &[txt(TOKEN)]);
    let without = |from| look(from, Place::Challenge, &[Said::NoSuchName]);
    let iad = look("iad", Place::Challenge, &[txt(TOKEN)]);
    assert!(matches!(told(&[with(), iad, without("sin")]).0, Outcome::Verified(_)));
    let (outcome, sentences) = told(&[with(), without("iad"), without("sin")]);
    assert_eq!(outcome, Outcome::Pending);
    assert_eq!(sentences, ["seen from fra, not from iad, sin: the servers answer differently depending on who asks"]);
    // Of two places both must see it.
    assert_eq!(told(&[with(), without("iad")]).0, Outcome::Pending);
}

#[test]
fn a_silent_server_is_told_and_a_silent_majority_proves_nothing() {
    let silent = || Said::Nothing("no answer within 2 seconds".into());
    let (outcome, sentences) = told(&[look("here", Place::Challenge, &[txt(TOKEN), txt(TOKEN), silent()])]);
    assert!(matches!(outcome, Outcome::Verified(_)));
    assert_eq!(sentences[1], "ns3.example.net (192.0.2.3) does not answer: no answer within 2 seconds");
    assert_eq!(told(&[look("here", Place::Challenge, &[txt(TOKEN), silent(), silent()])]).0, Outcome::Pending);
}

#[test]
fn slips_in_the_value_are_told_with_both_values() {
    let (outcome, sentences) = told(&[look("here", Place::Challenge, &[txt(&format!("\"{TOKEN}\""))])]);
    assert_eq!(outcome, Outcome::Pending);
    assert_eq!(
        sentences,
        [format!(
            "_bailiwick-challenge.example.com has \"\\\"{TOKEN}\\\"\" and should have \"{TOKEN}\": the quotation marks became part \
             of the value: type it without them"
        )]
    );
    let halves = look("here", Place::Challenge, &[txts(&[&[&TOKEN[..16]], &[&TOKEN[16..]]])]);
    let (_, sentences) = told(&[halves]);
    assert!(
        sentences.len() == 1 && sentences[0].ends_with("the value is spread over 2 records: it must be whole in one"),
        "{sentences:?}"
    );
}

#[test]
fn names_that_are_nearly_right_are_told_with_the_reason() {
    let nothing = || look("here", Place::Challenge, &[Said::NoSuchName]);
    let told = |place| told(&[nothing(), look("here", place, &[txt(TOKEN)])]).1;
    assert_eq!(
        told(Place::DoubledZone),
        [
            "the record is at _bailiwick-challenge.example.com.example.com and should be at _bailiwick-challenge.example.com: the form \
          appends the zone by itself, so it is there twice"
        ]
    );
    assert_eq!(
        told(Place::NoUnderscore),
        [
            "the record is at bailiwick-challenge.example.com and should be at _bailiwick-challenge.example.com: the underscore in front \
          is missing"
        ]
    );
    assert_eq!(
        told(Place::BelowWww),
        [
            "the record is at _bailiwick-challenge.www.example.com and should be at _bailiwick-challenge.example.com: it stands below www"
        ]
    );
}

#[test]
fn nothing_there_says_how_long_resolvers_will_remember_that() {
    let (_, sentences) = told(&[look("here", Place::Challenge, &[Said::NoSuchName])]);
    assert_eq!(
        sentences,
        [
            "there is no record at _bailiwick-challenge.example.com yet; we ask the zone's own servers, so nothing is cached here, but \
          resolvers that ask before it exists remember that for up to 15 minutes"
        ]
    );
}

#[test]
fn broken_signatures_prove_nothing() {
    let mut bogus = look("here", Place::Challenge, &[txt(TOKEN)]);
    if let Ok(survey) = &mut bogus.seen {
        survey.security = Security::Bogus;
    }
    let (outcome, sentences) = told(&[bogus]);
    assert_eq!(outcome, Outcome::Pending);
    assert!(
        sentences.iter().any(|sentence| sentence.starts_with("the DNSSEC signatures of example.com do not fit")),
        "{sentences:?}"
    );
}

#[test]
fn an_old_token_proves_nothing_however_right_it_is() {
    let looks = [look("here", Place::Challenge, &[txt(TOKEN)])];
    let later = now().checked_add(crate::verification::challenge::TOKEN_LIFE).expect("a time");
    assert_eq!(decide(&challenge(), &looks, later).outcome, Outcome::Expired);
}

#[test]
fn a_held_proof_stands_for_as_long_as_its_record_does() {
    let looks = [look("here", Place::Challenge, &[txt(TOKEN)])];
    for days in [7, 30, 400] {
        let later = now().checked_add(jiff::SignedDuration::from_hours(days * 24)).expect("a time");
        let verdict = decide(&challenge().of_held_proof(), &looks, later);
        assert_eq!(verdict.outcome, Outcome::Verified(Method::DnsTxt), "day {days}");
    }
    let gone = [look("here", Place::Challenge, &[Said::NoSuchName])];
    assert_eq!(decide(&challenge().of_held_proof(), &gone, now()).outcome, Outcome::Pending);
}

#[test]
fn absence_is_what_servers_say_at_each_name_and_silence_is_none() {
    let silent = || Said::Nothing("no answer within 2 seconds".into());
    let shows = |at_challenge: &[Said], at_apex: &[Said]| {
        let looks = [look("here", Place::Challenge, at_challenge), look("here", Place::Apex, at_apex)];
        decide(&challenge(), &looks, now()).evidence.shows_absence(Method::DnsTxt)
    };
    assert!(shows(&[Said::NoSuchName, silent()], &[Said::NoData, Said::NoData]));
    assert!(!shows(&[silent(), silent()], &[silent(), silent()]));
    assert!(!shows(&[silent(), silent()], &[Said::NoData, silent()]), "it may still be where nobody answered");
    assert!(
        !shows(&[txt(TOKEN), silent(), silent()], &[Said::NoData, silent(), silent()]),
        "one has it, none denies it"
    );
}

#[test]
fn evidence_names_every_server_and_its_packet() {
    let verdict = decide(&challenge(), &[look("fra", Place::Challenge, &[txt(TOKEN), Said::NoData])], now());
    let answers: Vec<(String, bool, Option<String>)> = verdict
        .evidence
        .answers
        .iter()
        .map(|answer| (answer.server.to_string(), answer.has_proof, answer.packet_sha256.clone()))
        .collect();
    assert_eq!(
        answers,
        [("ns1.example.net".into(), true, Some("0".into())), ("ns2.example.net".into(), false, Some("1".into()))]
    );
}

#[test]
fn a_giant_record_is_repeated_by_its_beginning() {
    let giant = format!("{TOKEN} {}", "x".repeat(60_000));
    let verdict = decide(&challenge(), &[look("here", Place::Challenge, &[txt(&giant)])], now());
    let Some(Finding::NearlyRight { seen, .. }) = verdict.findings.first() else {
        panic!("{:?}", verdict.findings);
    };
    assert!(seen.len() <= crate::quote::QUOTED_BYTES_MAX && seen.starts_with(TOKEN), "{}", seen.len());
}
