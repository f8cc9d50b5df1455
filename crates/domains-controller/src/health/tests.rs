use bailiwick_domains::name::{DomainName, Subject};
use bailiwick_domains::registration::status::flags;
use bailiwick_domains::registration::{Moment, Source, rdap};
use jiff::SignedDuration;

use super::*;
use crate::judge::take_scan;

fn at(hours: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + hours * 3600).expect("in range")
}

fn registration(days_left: i64, codes: &[&str]) -> Registration {
    let domain = DomainName::parse("q7.io").expect("a name");
    let path = format!("{}/../domains/testdata/registration/q7.io.rdap.json", env!("CARGO_MANIFEST_DIR"));
    let mut facts = rdap::parse(&std::fs::read(path).expect("a fixture"), &domain).expect("facts");
    facts.statuses = flags(codes.iter().copied());
    let end = at(0) + SignedDuration::from_hours(24 * days_left + 1);
    facts.expires = Moment::parse(&end.to_string());
    Registration::merge(&domain, Source::Rdap, Vec::new(), facts, None, at(0))
}

/// A look that found these troubles, `None` when the way to the domain was broken.
fn scan(hours: i64, found: Option<&[(&str, Concern, &str)]>) -> Scan {
    let finding = |(topic, concern, text): &(&str, Concern, &str)| ScanFinding {
        concern: *concern,
        topic: (*topic).to_owned(),
        text: (*text).to_owned(),
        evidence: Vec::new(),
    };
    let way: &[(&str, Concern, &str)] = &[(WAY, Concern::Critical, "no server of com answers")];
    Scan {
        at: at(hours),
        subject: Subject::parse("q7.io").expect("a name"),
        registration: Some(registration(400, &["client transfer prohibited"])),
        registration_problem: None,
        registration_later: None,
        days_left: Some(400),
        dns: found.map(|_| dns()),
        dns_problem: found.is_none().then(|| "no server of com answers".to_owned()),
        findings: found.unwrap_or(way).iter().map(finding).collect(),
    }
}

fn dns() -> bailiwick_domains::scan::DnsScan {
    bailiwick_domains::scan::DnsScan {
        zone: DomainName::parse("q7.io").expect("a name"),
        provider: "unknown".into(),
        delegated_to: Vec::new(),
        delegation_ttl: None,
        delegation_signers: None,
        listed: Vec::new(),
        security: bailiwick_domains::authority::Security::Insecure,
        soa: None,
        negative_caching: None,
        negative_caching_explained: Vec::new(),
        nameserver_change: None,
        servers: Vec::new(),
        wrong_glue: Vec::new(),
    }
}

fn look(status: &mut DomainStatus, scan: &Scan) -> Vec<(String, String)> {
    let notices = take_scan(status, scan, Renewal::Unknown);
    notices.into_iter().map(|notice| (notice.reason, notice.note)).collect()
}

fn healthy(status: &DomainStatus) -> (&str, &str) {
    status.condition("Healthy").map_or(("", ""), |condition| (&condition.status, &condition.reason))
}

const SILENT: (&str, Concern, &str) =
    ("server ns1.q7.io 192.0.2.1", Concern::Warning, "ns1.q7.io (192.0.2.1) does not answer within 2 s");
const REFUSING: (&str, Concern, &str) =
    ("server ns1.q7.io 192.0.2.1", Concern::Warning, "ns1.q7.io (192.0.2.1) answers REFUSED");
const BOGUS: (&str, Concern, &str) = ("signatures", Concern::Critical, "the DNSSEC signatures do not fit");

#[test]
fn trouble_is_told_when_it_begins_and_when_it_has_ended_and_not_in_between() {
    let mut status = DomainStatus::default();
    assert_eq!(look(&mut status, &scan(0, Some(&[]))), []);
    let told = look(&mut status, &scan(1, Some(&[SILENT])));
    let note = "q7.io: ns1.q7.io (192.0.2.1) does not answer within 2 s";
    assert_eq!(told, [("TroubleBegan".to_owned(), note.to_owned())]);
    // In other words it is still the same.
    assert_eq!(look(&mut status, &scan(2, Some(&[REFUSING]))), []);
    assert_eq!(status.troubles[0].since, at(1));
    let told = look(&mut status, &scan(3, Some(&[REFUSING, BOGUS])));
    assert_eq!(told, [("TroubleBegan".to_owned(), "q7.io: the DNSSEC signatures do not fit".to_owned())]);
    assert_eq!(healthy(&status), ("False", "Critical"));
    let told = look(&mut status, &scan(4, Some(&[])));
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].0, "TroubleEnded");
    assert!(told[0].1.starts_with("q7.io: mended, after it was so since 2027-01-15T09:00:00Z: "), "{}", told[0].1);
    assert_eq!(status.troubles, []);
    let history: Vec<(Field, bool, bool)> =
        status.history.iter().map(|change| (change.field, change.old.is_empty(), change.new.is_empty())).collect();
    assert_eq!(
        history,
        [
            (Field::Health, false, true),
            (Field::Health, false, true),
            (Field::Health, true, false),
            (Field::Health, true, false)
        ],
        "one line for each"
    );
    let since: Vec<_> = status.history.iter().map(|change| change.since).collect();
    assert_eq!(since, [Some(at(3)), Some(at(1)), None, None], "what has ended says since when it was so");
}

#[test]
fn a_look_that_could_not_be_made_begins_no_trouble_and_ends_none() {
    let mut status = DomainStatus::default();
    look(&mut status, &scan(0, Some(&[BOGUS])));
    assert_eq!(look(&mut status, &scan(1, None)), []);
    assert_eq!(healthy(&status), ("Unknown", "NotObserved"));
    assert_eq!(status.troubles.len(), 1);
    assert_eq!(look(&mut status, &scan(2, Some(&[BOGUS]))), [], "it never went away");
}

#[test]
fn what_has_events_of_its_own_is_no_trouble() {
    let mut status = DomainStatus::default();
    let found = [
        (EXPIRATION, Concern::Critical, "the registration expires in 3 days: renew it now"),
        ("flag serverHold", Concern::Critical, "serverHold (the registry took the name out of DNS)"),
        (LOOKALIKE, Concern::Warning, "looks like another name"),
    ];
    assert_eq!(look(&mut status, &scan(0, Some(&found))), []);
    assert_eq!(healthy(&status), ("False", "Critical"));
}

/// What is told of renewal, for what the owner says and the registry shows.
fn renewed(declared: Renewal, days_left: i64, codes: &[&str]) -> (RenewalStatus, Vec<String>) {
    let mut status = DomainStatus::default();
    let mut one = scan(0, Some(&[]));
    one.registration = Some(registration(days_left, codes));
    let notices = take_scan(&mut status, &one, declared);
    let told = notices.into_iter().filter(|notice| notice.reason == "TroubleBegan").map(|notice| notice.note);
    (status.auto_renewal.expect("it is shown"), told.collect())
}

#[test]
fn what_the_owner_says_of_renewal_is_shown_beside_what_the_registry_shows() {
    let (shown, told) = renewed(Renewal::Unknown, 3, &["ok"]);
    assert_eq!(shown, RenewalStatus { declared: Renewal::Unknown, observed: "unknown".into() });
    assert_eq!(told, [] as [String; 0]);
    let (shown, told) = renewed(Renewal::Enabled, 380, &["auto renew period"]);
    assert_eq!(shown, RenewalStatus { declared: Renewal::Enabled, observed: "autoRenewPeriod".into() });
    assert_eq!(told, [] as [String; 0]);
}

#[test]
fn a_contradiction_is_told() {
    assert_eq!(renewed(Renewal::Enabled, 7, &["ok"]).1, [] as [String; 0], "seven days are enough");
    let told = renewed(Renewal::Enabled, 6, &["ok"]).1;
    let note =
        "q7.io: spec.autoRenewal says Enabled, but the registration expires in 6 days: see whether the payment failed";
    assert_eq!(told, [note]);
    let told = renewed(Renewal::Enabled, 20, &["pending delete"]).1;
    assert_eq!(told, ["q7.io: spec.autoRenewal says Enabled, but the registry says pendingDelete: it was not renewed"]);
    let told = renewed(Renewal::Disabled, 380, &["auto renew period"]).1;
    assert!(told[0].starts_with("q7.io: spec.autoRenewal says Disabled, but the registry renewed it"), "{told:?}");
}
