use super::*;
use crate::authority::{Record, Security};
use crate::plan::{Aim, Host, Wish, ZoneFacts};
use crate::provider::detect;

fn name(text: &str) -> DomainName {
    DomainName::parse(text).expect("a name")
}

fn now() -> Timestamp {
    "2026-11-16T14:17:10Z".parse().expect("a time")
}

fn plan(host: &str, aim: Aim) -> Plan {
    let zone = ZoneFacts {
        zone: name("example.com"),
        provider: detect(&[name("ns1.digitalocean.com")], &[]),
        negative_ttl: 900,
    };
    Plan::new(zone, &[Wish { host: Host::parse(host).expect("a host"), aim }], now())
}

fn to_address(host: &str) -> Plan {
    plan(host, Aim::Addresses(vec!["203.0.113.7".parse().expect("an address")]))
}

fn to_name(host: &str) -> Plan {
    plan(host, Aim::Host { name: name("gw.platform.net"), addresses: Vec::new() })
}

fn address(text: &str) -> RecordValue {
    RecordValue::Address(text.parse().expect("an address"))
}

/// What each server has.
fn seen(asked: &str, kind: RecordKind, servers: &[&[(RecordKind, RecordValue)]]) -> Survey {
    let said = |records: &[(RecordKind, RecordValue)]| {
        let record = |(kind, value): &(RecordKind, RecordValue)| Record {
            name: name(asked),
            kind: *kind,
            ttl: 300,
            value: value.clone(),
        };
        if records.is_empty() { Said::NoSuchName } else { Said::Records(records.iter().map(record).collect()) }
    };
    let answer = |(number, records): (usize, &&[(RecordKind, RecordValue)])| ServerAnswer {
        server: name(&format!("ns{}.example.net", number + 1)),
        address: "192.0.2.1".parse().expect("an address"),
        said: said(records),
        packet_sha256: None,
    };
    Survey {
        vantage_point: "here".into(),
        name: name(asked),
        kind,
        zone: name("example.com"),
        nameservers: Vec::new(),
        delegation_ttl: None,
        soa: None,
        security: Security::Insecure,
        answers: servers.iter().enumerate().map(answer).collect(),
    }
}

fn one(plan: &Plan, surveys: Vec<Survey>, cached: Vec<Cached>) -> (State, Vec<String>) {
    let analysis = analyze(plan, &Live { surveys, cached }, now());
    let report = analysis.records.into_iter().next().expect("one record");
    (report.state, report.notes)
}

#[test]
fn present_missing_and_partial() {
    let plan = to_address("www.example.com");
    let right: &[(RecordKind, RecordValue)] = &[(RecordKind::A, address("203.0.113.7"))];
    assert_eq!(one(&plan, vec![seen("www.example.com", RecordKind::A, &[right, right])], vec![]).0, State::Match);
    assert_eq!(one(&plan, vec![seen("www.example.com", RecordKind::A, &[&[], &[]])], vec![]).0, State::Missing);
    assert_eq!(
        one(&plan, vec![seen("www.example.com", RecordKind::A, &[right, &[]])], vec![]).0,
        State::Partial { with: vec![name("ns1.example.net")], without: vec![name("ns2.example.net")] }
    );
    assert_eq!(one(&plan, vec![], vec![]).0, State::Unknown);
}

#[test]
fn another_value_and_another_type_are_wrong() {
    let plan = to_address("www.example.com");
    let old: &[(RecordKind, RecordValue)] = &[(RecordKind::A, address("198.51.100.1"))];
    let (state, _) = one(&plan, vec![seen("www.example.com", RecordKind::A, &[old])], vec![]);
    assert_eq!(state, State::Wrong { found: "A 198.51.100.1".into() });
    let alias: &[(RecordKind, RecordValue)] = &[(RecordKind::Cname, RecordValue::Name(name("old.host.net")))];
    let (state, notes) = one(&plan, vec![seen("www.example.com", RecordKind::A, &[alias])], vec![]);
    assert_eq!(state, State::Wrong { found: "CNAME old.host.net".into() });
    assert_eq!(notes, ["a CNAME stands at www.example.com: remove it first, nothing can stand beside it"]);
}

#[test]
fn addresses_where_a_cname_is_planned_are_told() {
    let plan = to_name("www.example.com");
    let old: &[(RecordKind, RecordValue)] = &[(RecordKind::A, address("198.51.100.1"))];
    let surveys =
        vec![seen("www.example.com", RecordKind::Cname, &[&[]]), seen("www.example.com", RecordKind::A, &[old])];
    let (state, notes) = one(&plan, surveys, vec![]);
    assert_eq!(state, State::Wrong { found: "A 198.51.100.1".into() });
    assert!(notes[0].starts_with("addresses stand at www.example.com and a CNAME cannot stand beside them"));
}

#[test]
fn a_doubled_zone_in_name_or_target_is_recognised() {
    let plan = to_name("www.example.com");
    let target: &[(RecordKind, RecordValue)] =
        &[(RecordKind::Cname, RecordValue::Name(name("gw.platform.net.example.com")))];
    let (_, notes) = one(&plan, vec![seen("www.example.com", RecordKind::Cname, &[target])], vec![]);
    assert_eq!(notes, ["the zone was appended to the target: type it with a dot at the end, gw.platform.net."]);
    let right: &[(RecordKind, RecordValue)] = &[(RecordKind::Cname, RecordValue::Name(name("gw.platform.net")))];
    let surveys = vec![
        seen("www.example.com", RecordKind::Cname, &[&[]]),
        seen("www.example.com.example.com", RecordKind::Cname, &[right]),
    ];
    let (state, notes) = one(&plan, surveys, vec![]);
    assert_eq!(state, State::Missing);
    assert_eq!(
        notes,
        [
            "the record is at www.example.com.example.com: the form appends example.com by itself; type \"www\" as the name"
        ]
    );
}

#[test]
fn resolvers_that_remember_the_past_block_until_a_time() {
    let plan = to_address("www.example.com");
    let right: &[(RecordKind, RecordValue)] = &[(RecordKind::A, address("203.0.113.7"))];
    let remembers = |resolver: &str, values: Vec<RecordValue>, ttl_left| Cached {
        resolver: resolver.into(),
        name: name("www.example.com"),
        kind: RecordKind::A,
        values,
        ttl_left,
    };
    let surveys = || vec![seen("www.example.com", RecordKind::A, &[right])];
    let cached = vec![
        remembers("Cloudflare", vec![], 900),
        remembers("Google", vec![], 100),
        remembers("Quad9", vec![address("203.0.113.7")], 300),
    ];
    let (state, notes) = one(&plan, surveys(), cached);
    let until = "2026-11-16T14:32:10Z".parse().expect("a time");
    assert_eq!(state, State::BlockedByCache { until, resolvers: vec!["Cloudflare".into(), "Google".into()] });
    assert_eq!(notes, ["Cloudflare, Google still remember that it does not exist, the last until 14:32:10 UTC"]);
    assert_eq!(one(&plan, surveys(), vec![remembers("Quad9", vec![address("203.0.113.7")], 300)]).0, State::Match);
}

#[test]
fn addresses_beside_the_planned_ones_are_extra() {
    let plan = to_address("www.example.com");
    let both: &[(RecordKind, RecordValue)] =
        &[(RecordKind::A, address("203.0.113.7")), (RecordKind::A, address("198.51.100.1"))];
    let live = Live { surveys: vec![seen("www.example.com", RecordKind::A, &[both])], cached: vec![] };
    let analysis = analyze(&plan, &live, now());
    assert_eq!(analysis.records[0].state, State::Match);
    assert_eq!(analysis.extras[0].value, "198.51.100.1");
    assert!(!analysis.is_done());
}

#[test]
fn wildcards_are_asked_for_by_a_name_that_nobody_has() {
    let plan = to_address("*.example.com");
    let asked = questions(&plan);
    assert_eq!(asked[0].0.as_str(), "bailiwick-wildcard-probe.example.com");
}
