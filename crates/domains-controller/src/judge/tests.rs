use bailiwick_domains::name::Subject;
use bailiwick_domains::registration::{Facts, Moment, Registration, Source, rdap};
use bailiwick_domains::verification::evidence::EvidenceAnswer;
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
        registration_later: None,
        registration_problem: None,
        dns: None,
        dns_problem: None,
        findings: Vec::new(),
    }
}

#[test]
fn the_first_crawl_has_the_documents_values() {
    let mut status = DomainStatus::default();
    let notices = take_scan(&mut status, &scan(facts(), at("2026-11-16T10:00:00Z")), Renewal::Unknown);
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
    take_scan(&mut status, &scan(facts(), first), Renewal::Unknown);
    assert!(worth_writing(&DomainStatus::default(), &status));
    let later = at("2026-11-16T11:00:00Z");
    let mut again = status.clone();
    assert_eq!(take_scan(&mut again, &scan(facts(), later), Renewal::Unknown), []);
    assert!(!worth_writing(&status, &again));
    let tomorrow = at("2026-11-17T10:00:00Z");
    let mut again = status.clone();
    take_scan(&mut again, &scan(facts(), tomorrow), Renewal::Unknown);
    assert!(worth_writing(&status, &again));
    assert_eq!(again.last_scan, Some(tomorrow));
    assert_eq!(again.registration_observed, Some(tomorrow), "when the registry was asked, not when it first was");
}

#[test]
fn a_change_is_an_event_and_a_line_of_history_with_both_values() {
    let mut status = DomainStatus::default();
    take_scan(&mut status, &scan(facts(), at("2026-11-16T10:00:00Z")), Renewal::Unknown);
    let mut changed = facts();
    changed.modified = Moment::parse("2026-11-16T10:30:00Z");
    let now = at("2026-11-16T11:00:00Z");
    let notices = take_scan(&mut status, &scan(changed, now), Renewal::Unknown);
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
        reasons.extend(
            take_scan(&mut status, &scan(facts(), now), Renewal::Unknown).into_iter().map(|notice| notice.reason),
        );
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

#[test]
fn a_threshold_is_told_although_the_registry_does_not_answer_that_day() {
    let mut status = DomainStatus::default();
    take_scan(&mut status, &scan(facts(), at("2029-05-01T00:00:00Z")), Renewal::Unknown);
    let mut unanswered = scan(facts(), at("2029-06-07T00:00:00Z"));
    unanswered.registration = None;
    let notices = take_scan(&mut status, &unanswered, Renewal::Unknown);
    let reasons: Vec<&str> = notices.iter().map(|notice| notice.reason.as_str()).collect();
    assert_eq!(reasons, ["DomainExpiresWithin30Days"]);
    assert_eq!(status.days_until_expiration, Some(29));
    assert_eq!(status.registration_observed, Some(at("2029-05-01T00:00:00Z")), "as old as it is");
}

fn claimed() -> DomainStatus {
    let domain = DomainName::parse("q7.io").expect("a name");
    let challenge = Challenge::new(&domain, Scope::Domain, "bailiwick", at("2026-11-16T10:00:00Z"), &mut |_| ())
        .expect("a challenge");
    DomainStatus { verification: Some(VerificationStatus::new(challenge)), ..DomainStatus::default() }
}

fn verdict(outcome: Outcome, now: Timestamp) -> Verdict {
    Verdict { outcome, findings: Vec::new(), evidence: Evidence { at: now, token: "t".into(), ..Evidence::default() } }
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
fn a_proof_that_goes_away_is_in_the_history_with_both_ends_of_its_grace() {
    let mut status = claimed();
    take_verdict(&mut status, &verdict(Outcome::Verified(Method::DnsTxt), at("2026-11-16T10:01:00Z")));
    let absent = |now: &str| {
        let name = DomainName::parse("q7.io").expect("a name");
        let mut verdict = verdict(Outcome::Pending, at(now));
        verdict.evidence.answers.push(EvidenceAnswer {
            vantage_point: "here".into(),
            name: name.clone(),
            server: name,
            address: "192.0.2.1".parse().expect("an address"),
            has_proof: false,
            silent: false,
            security: bailiwick_domains::authority::Security::Insecure,
            packet_sha256: None,
        });
        verdict
    };
    assert_eq!(take_verdict(&mut status, &absent("2026-11-17T10:00:00Z"))[0].reason, "ProofMissing");
    assert_eq!(take_verdict(&mut status, &absent("2026-11-18T10:00:00Z")), []);
    assert_eq!(take_verdict(&mut status, &absent("2026-11-20T10:00:00Z"))[0].reason, "VerificationLapsed");
    let history: Vec<(&str, &str)> =
        status.history.iter().map(|change| (change.old.as_str(), change.new.as_str())).collect();
    assert_eq!(
        history,
        [
            ("proof missing", "lapsed: the proof was gone for longer than its grace"),
            ("proved by a TXT record", "proof missing"),
            ("not proved", "proved by a TXT record"),
        ]
    );
}

#[test]
fn a_proof_that_cannot_be_checked_still_counts_and_that_is_said() {
    let mut status = claimed();
    take_verdict(&mut status, &verdict(Outcome::Verified(Method::HttpFile), at("2026-11-16T10:01:00Z")));
    let mut silent = verdict(Outcome::Pending, at("2026-12-16T10:01:00Z"));
    silent.findings.push(Finding::Site { problem: "http://q7.io/f could not be checked: no answer".into() });
    assert_eq!(take_verdict(&mut status, &silent), []);
    let verified = status.condition("Verified").expect("a condition");
    assert_eq!(verified.status, "True");
    assert_eq!(
        verified.message,
        "the proof could not be checked and still counts: http://q7.io/f could not be checked: no answer"
    );
}

#[test]
fn a_new_registration_ends_the_proof() {
    let mut status = claimed();
    let now = at("2026-11-16T10:01:00Z");
    take_verdict(&mut status, &verdict(Outcome::Verified(Method::DnsTxt), now));
    take_scan(&mut status, &scan(facts(), now), Renewal::Unknown);
    let mut anew = facts();
    anew.created = Moment::parse("2026-11-16T10:30:00Z");
    anew.handle = Some("another".into());
    let notices = take_scan(&mut status, &scan(anew, at("2026-11-16T11:00:00Z")), Renewal::Unknown);
    let reasons: Vec<&str> = notices.iter().map(|notice| notice.reason.as_str()).collect();
    assert_eq!(reasons, ["DomainChanged", "VerificationLapsed"]);
    assert_eq!(notices[0].concern, Concern::Critical);
    assert_eq!(status.history[0].new, "lapsed: the registration changed hands");
    // The old record is still there, and proves nothing.
    take_verdict(&mut status, &verdict(Outcome::Verified(Method::DnsTxt), at("2026-11-16T11:00:01Z")));
    assert!(!status.verification.expect("a claim").standing.holds());
}
