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
    plan_at("ns1.digitalocean.com", &[wish(host, aim)])
}

fn plan_at(nameserver: &str, wishes: &[Wish]) -> Plan {
    let provider = detect(&[name(nameserver)], &[]);
    Plan::new(ZoneFacts { zone: name("example.com"), provider, negative_ttl: 900 }, wishes, now())
}

fn wish(host: &str, aim: Aim) -> Wish {
    Wish { host: Host::parse(host).expect("a host"), aim }
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
        serial: None,
        packet_sha256: None,
    };
    Survey {
        vantage_point: "here".into(),
        name: name(asked),
        kind,
        zone: name("example.com"),
        nameservers: Vec::new(),
        delegation_ttl: None,
        delegation_signers: None,
        soa: None,
        wrong_glue: Vec::new(),
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

/// Providers that serve the target's addresses at the root of a zone: by a type of their own, and for a CNAME.
const ALIAS: &str = "ns1.dnsimple.com";
const FLATTENING: &str = "ada.ns.cloudflare.com";

/// The root of the zone to a host with an IPv4 and an IPv6 address.
fn root_to_host() -> Wish {
    let addresses = ["203.0.113.7", "2001:db8::7"].map(|text| text.parse().expect("an address")).to_vec();
    wish("example.com", Aim::Host { name: name("gw.platform.net"), addresses })
}

/// What the one server has at the root, with the zone's own mail.
fn root_with(addresses: &[&str]) -> Vec<Survey> {
    let kind_of = |text: &str| if text.contains(':') { RecordKind::Aaaa } else { RecordKind::A };
    let of = |kind: RecordKind| {
        let here = addresses.iter().filter(|text| kind_of(text) == kind);
        let records: Vec<(RecordKind, RecordValue)> = here.map(|text| (kind, address(text))).collect();
        seen("example.com", kind, &[records.as_slice()])
    };
    let mail: &[(RecordKind, RecordValue)] = &[(RecordKind::Mx, RecordValue::Other("10 mail.example.com.".into()))];
    let texts: &[(RecordKind, RecordValue)] = &[(RecordKind::Txt, RecordValue::Text(vec!["v=spf1 -all".into()]))];
    vec![
        seen("example.com", RecordKind::Cname, &[&[]]),
        of(RecordKind::A),
        of(RecordKind::Aaaa),
        seen("example.com", RecordKind::Mx, &[mail]),
        seen("example.com", RecordKind::Txt, &[texts]),
    ]
}

#[test]
fn the_root_matches_when_the_targets_addresses_are_served_there() {
    for provider in [ALIAS, FLATTENING] {
        let plan = plan_at(provider, &[root_to_host()]);
        for served in [&["203.0.113.7", "2001:db8::7"][..], &["203.0.113.7"], &["2001:db8::7"]] {
            let live = Live { surveys: root_with(served), cached: vec![] };
            let analysis = analyze(&plan, &live, now());
            assert_eq!(analysis.records[0].state, State::Match, "{provider}: {served:?}");
            assert!(analysis.is_done(), "{provider}: {:?}", analysis.extras);
        }
    }
}

#[test]
fn an_old_address_at_the_root_is_wrong_and_beside_a_right_one_extra() {
    for (provider, kind) in [(ALIAS, "ALIAS"), (FLATTENING, "CNAME")] {
        let plan = plan_at(provider, &[root_to_host()]);
        let (state, notes) = one(&plan, root_with(&["198.51.100.1"]), vec![]);
        assert_eq!(state, State::Wrong { found: "A 198.51.100.1".into() }, "{provider}");
        assert_eq!(
            notes,
            [format!(
                "gw.platform.net has 203.0.113.7, 2001:db8::7 now: make the {kind} record, and remove what stands there"
            )]
        );
        for parked in ["198.51.100.1", "2001:db8::99"] {
            let live = Live { surveys: root_with(&["203.0.113.7", parked]), cached: vec![] };
            let analysis = analyze(&plan, &live, now());
            assert_eq!(analysis.records[0].state, State::Match, "{provider}");
            assert_eq!(analysis.extras.iter().map(|extra| extra.value.as_str()).collect::<Vec<_>>(), [parked]);
        }
        assert_eq!(one(&plan, root_with(&[]), vec![]).0, State::Missing, "{provider}: its mail is not in the way");
    }
}

#[test]
fn nothing_is_said_of_the_root_when_the_targets_addresses_are_not_known() {
    let lost = wish("example.com", Aim::Host { name: name("gw.platform.net"), addresses: Vec::new() });
    for provider in [ALIAS, FLATTENING] {
        let mut plan = plan_at(provider, std::slice::from_ref(&lost));
        let surveys = root_with(&["198.51.100.1"]);
        plan.meet(std::slice::from_ref(&lost), &surveys, now());
        assert!(plan.changes.is_empty() && plan.notes.iter().any(|note| note.contains("cannot be told")), "{plan:?}");
        let (state, notes) = one(&plan, surveys, vec![]);
        assert_eq!(state, State::Unknown);
        assert_eq!(
            notes,
            ["gw.platform.net has no addresses that could be found: those of example.com cannot be compared"]
        );
    }
}

#[test]
fn a_root_that_is_done_gets_no_schedule_and_an_old_one_gets_its_own() {
    for provider in [ALIAS, FLATTENING] {
        let wishes = [root_to_host()];
        let mut done = plan_at(provider, &wishes);
        done.meet(&wishes, &root_with(&["203.0.113.7", "2001:db8::7"]), now());
        assert!(done.changes.is_empty() && done.schedule.steps.is_empty(), "{provider}: {done:?}");
        assert!(done.notes.iter().any(|note| note.ends_with("as planned already")), "{provider}: {:?}", done.notes);
        let mut old = plan_at(provider, &wishes);
        old.meet(&wishes, &root_with(&["198.51.100.1"]), now());
        assert_eq!(old.changes[0].found, ["A 198.51.100.1"], "{provider}");
        assert!(old.refusals.is_empty(), "{provider}: mail stays where it is: {:?}", old.refusals);
    }
}

#[test]
fn resolvers_are_asked_for_the_addresses_that_the_root_serves() {
    let plan = plan_at(FLATTENING, &[root_to_host()]);
    let surveys = || root_with(&["203.0.113.7", "2001:db8::7"]);
    let live = Live { surveys: surveys(), cached: vec![] };
    let asked = live_now(&analyze(&plan, &live, now()));
    assert_eq!(asked, [(name("example.com"), RecordKind::A), (name("example.com"), RecordKind::Aaaa)]);
    let old = Cached {
        resolver: "Google".into(),
        name: name("example.com"),
        kind: RecordKind::A,
        values: vec![address("198.51.100.1")],
        ttl_left: 60,
    };
    assert!(matches!(one(&plan, surveys(), vec![old]).0, State::BlockedByCache { .. }));
}
