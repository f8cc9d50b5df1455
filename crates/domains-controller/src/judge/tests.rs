use bailiwick_domains::name::Subject;
use bailiwick_domains::registration::{Facts, Moment, Registration, Source, rdap};
use bailiwick_domains::verification::{Challenge, Evidence, Method, Scope};

use super::*;
use crate::status::VerificationStatus;

fn at(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

fn facts() -> Facts {
    let path = format!("{}/../domains/testdata/registration/q7.io.rdap.json", env!("CARGO_MANIFEST_DIR"));
    rdap::parse(&std::fs::read(path).expect("a fixture"), &DomainName::parse("q7.io").expect("a name")).expect("facts")
}

fn scan(facts: Facts, now: Timestamp) -> Scan {
    let subject = Subject::parse("q7.io").expect("a name");
    let registration = Registration::merge(&subject.registered, Source::Rdap, Vec::new(), facts, None, now);
    Scan {
        at: now,
        days_left: registration.days_left(now),
        subject,
        registration: Some(registration),
        registration_problem: None,
        dns: None,
        dns_problem: None,
        findings: Vec::new(),
    }
}

#[test]
fn the_first_crawl_has_the_documents_values() {
    let mut status = DomainStatus::default();
    let notices = take_scan(&mut status, &scan(facts(), at("2026-11-16T10:00:00Z")));
    assert_eq!(notices, []);
    assert_eq!(status.registrar_iana_id, Some(1068));
    assert_eq!(status.registrar_iana_name.as_deref(), Some("NAMECHEAP INC"));
    assert_eq!(status.created_date.as_deref(), Some("2012-07-06T13:58:57.00Z"));
    assert_eq!(status.modified_date.as_deref(), Some("2019-08-17T16:33:24.36Z"));
    assert_eq!(status.expiration_date.as_deref(), Some("2029-07-06T13:58:57.00Z"));
    assert_eq!(status.nameservers, ["ns1.digitalocean.com", "ns2.digitalocean.com", "ns3.digitalocean.com"]);
    assert_eq!(status.dnssec.as_deref(), Some("unsigned"));
    assert_eq!(status.status_flags, ["clientDeleteProhibited", "clientTransferProhibited", "clientUpdateProhibited"]);
    assert_eq!(status.days_until_expiration, Some(963));
}

#[test]
fn the_same_again_is_no_write_but_once_a_day() {
    let first = at("2026-11-16T10:00:00Z");
    let mut status = DomainStatus::default();
    take_scan(&mut status, &scan(facts(), first));
    assert!(worth_writing(&DomainStatus::default(), &mut status, first));
    let later = at("2026-11-16T11:00:00Z");
    let mut again = status.clone();
    assert_eq!(take_scan(&mut again, &scan(facts(), later)), []);
    assert!(!worth_writing(&status, &mut again, later));
    assert_eq!(again, status);
    let tomorrow = at("2026-11-17T10:00:00Z");
    let mut again = status.clone();
    take_scan(&mut again, &scan(facts(), tomorrow));
    assert!(worth_writing(&status, &mut again, tomorrow));
    assert_eq!(again.last_scan, Some(tomorrow));
}

#[test]
fn a_change_is_an_event_and_a_line_of_history_with_both_values() {
    let mut status = DomainStatus::default();
    take_scan(&mut status, &scan(facts(), at("2026-11-16T10:00:00Z")));
    let mut changed = facts();
    changed.modified = Moment::parse("2026-11-16T10:30:00Z");
    let now = at("2026-11-16T11:00:00Z");
    let notices = take_scan(&mut status, &scan(changed, now));
    assert_eq!(
        notices,
        [Notice {
            concern: Concern::Notice,
            reason: "DomainChanged".into(),
            note: "q7.io: modification date changed from 2019-08-17T16:33:24.36Z to 2026-11-16T10:30:00Z".into(),
        }]
    );
    assert_eq!(status.last_change_detected, Some(now));
    assert_eq!(status.history[0].old, "2019-08-17T16:33:24.36Z");
    assert_eq!(status.history[0].at, now);
}

#[test]
fn each_threshold_is_one_event_over_restarts() {
    let mut stored = serde_json::to_value(DomainStatus::default()).expect("json");
    let mut reasons = Vec::new();
    let end = at("2029-07-06T13:58:57Z");
    for hours in (0..40 * 24).rev() {
        let mut status: DomainStatus = serde_json::from_value(stored).expect("json");
        let now = end.checked_sub(SignedDuration::from_hours(hours)).expect("a time");
        reasons.extend(take_scan(&mut status, &scan(facts(), now)).into_iter().map(|notice| notice.reason));
        stored = serde_json::to_value(status).expect("json");
    }
    assert_eq!(
        reasons,
        [
            "DomainExpiresWithin30Days",
            "DomainExpiresWithin15Days",
            "DomainExpiresWithin7Days",
            "DomainExpiresWithin3Days",
            "DomainExpiresWithin1Days",
            "DomainExpired",
        ]
    );
}

fn claimed() -> DomainStatus {
    let domain = DomainName::parse("q7.io").expect("a name");
    let challenge = Challenge::new(&domain, Scope::Domain, "bailiwick", at("2026-11-16T10:00:00Z"), &mut |_| ())
        .expect("a challenge");
    DomainStatus { verification: Some(VerificationStatus::new(challenge)), ..DomainStatus::default() }
}

fn verdict(outcome: Outcome, now: Timestamp) -> Verdict {
    Verdict { outcome, findings: Vec::new(), evidence: Evidence { at: now, token: "t".into(), answers: Vec::new() } }
}

#[test]
fn a_proof_is_told_once_and_seeing_it_again_writes_nothing() {
    let mut status = claimed();
    let now = at("2026-11-16T10:01:00Z");
    let notices = take_verdict(&mut status, &verdict(Outcome::Verified(Method::DnsTxt), now));
    assert_eq!(notices[0].reason, "DomainVerified");
    assert_eq!(status.condition("Verified").map(|condition| condition.status.as_str()), Some("True"));
    let before = status.clone();
    let notices = take_verdict(&mut status, &verdict(Outcome::Verified(Method::DnsTxt), at("2026-11-16T11:01:00Z")));
    assert_eq!(notices, []);
    assert_eq!(status, before);
}

#[test]
fn a_new_registration_ends_the_proof() {
    let mut status = claimed();
    let now = at("2026-11-16T10:01:00Z");
    take_verdict(&mut status, &verdict(Outcome::Verified(Method::DnsTxt), now));
    take_scan(&mut status, &scan(facts(), now));
    let mut anew = facts();
    anew.created = Moment::parse("2026-11-16T10:30:00Z");
    anew.handle = Some("another".into());
    let notices = take_scan(&mut status, &scan(anew, at("2026-11-16T11:00:00Z")));
    assert_eq!(notices[0].concern, Concern::Critical);
    assert!(!status.verification.expect("a claim").standing.holds());
}
