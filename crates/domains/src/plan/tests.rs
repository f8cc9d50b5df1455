use super::*;
use crate::provider::detect;

fn name(text: &str) -> DomainName {
    DomainName::parse(text).expect("a name")
}

fn now() -> Timestamp {
    "2026-11-16T10:00:00Z".parse().expect("a time")
}

fn zone(nameserver: &str) -> ZoneFacts {
    ZoneFacts { zone: name("example.com"), provider: detect(&[name(nameserver)], &[]), negative_ttl: 900 }
}

fn to_host(host: &str) -> Wish {
    let aim = Aim::Host { name: name("gw.platform.net"), addresses: vec!["203.0.113.7".parse().expect("an address")] };
    Wish { host: Host::parse(host).expect("a host"), aim }
}

fn typed(plan: &Plan) -> Vec<String> {
    plan.records
        .iter()
        .map(|record| format!("{} {} {}", record.typed.name, record.kind.as_str(), record.typed.value))
        .collect()
}

#[test]
fn names_are_typed_as_the_provider_wants_them() {
    let wishes = [to_host("www.example.com"), to_host("*.shop.example.com")];
    assert_eq!(
        typed(&Plan::new(zone("ns1.digitalocean.com"), &wishes, now())),
        ["www CNAME gw.platform.net.", "*.shop CNAME gw.platform.net."]
    );
    assert_eq!(typed(&Plan::new(zone("ns1.he.net"), &wishes, now()))[0], "www.example.com CNAME gw.platform.net");
}

#[test]
fn addresses_become_a_and_aaaa() {
    let aim = Aim::Addresses(vec!["203.0.113.7".parse().expect("v4"), "2001:db8::7".parse().expect("v6")]);
    let plan = Plan::new(
        zone("ns1.digitalocean.com"),
        &[Wish { host: Host::parse("example.com").expect("a host"), aim }],
        now(),
    );
    assert_eq!(typed(&plan), ["@ A 203.0.113.7", "@ AAAA 2001:db8::7"]);
    assert!(plan.refusals.is_empty());
}

#[test]
fn a_cname_at_the_root_is_refused_with_alternatives() {
    let plan = Plan::new(zone("ns1.digitalocean.com"), &[to_host("example.com")], now());
    assert!(plan.records.is_empty());
    assert_eq!(
        plan.refusals[0].reason,
        "a CNAME cannot stand at example.com, the root of the zone: SOA and NS records stand there already, and it would hide the \
         domain's mail"
    );
    assert_eq!(
        plan.refusals[0].alternatives[..2],
        [
            "A and AAAA records with the addresses that gw.platform.net has now (203.0.113.7); you must change them when they change",
            "a CNAME at www.example.com to gw.platform.net, and a redirect from example.com to www.example.com",
        ]
    );
}

#[test]
fn providers_that_can_do_it_are_told_how() {
    let plan = Plan::new(zone("ada.ns.cloudflare.com"), &[to_host("example.com")], now());
    assert_eq!(typed(&plan), ["@ CNAME gw.platform.net"]);
    let plan = Plan::new(zone("ns1.dnsimple.com"), &[to_host("example.com")], now());
    assert_eq!(typed(&plan), [" ALIAS gw.platform.net"]);
    let plan = Plan::new(zone("ns-2.awsdns-00.com"), &[to_host("example.com")], now());
    assert!(
        plan.refusals[0].alternatives[0].starts_with("Amazon Route 53's alias record leads only to its own services")
    );
}

#[test]
fn ttls_keep_the_providers_minimum_and_the_schedule_has_dates() {
    let plan = Plan::new(zone("ns01.domaincontrol.com"), &[to_host("www.example.com")], now());
    assert_eq!(plan.records[0].ttl, 600);
    assert_eq!(plan.schedule.steps[1].at.to_string(), "2026-11-16T10:15:00Z");
}

#[test]
fn what_is_elsewhere_or_leads_to_itself_is_refused() {
    let plan =
        Plan::new(zone("ns1.digitalocean.com"), &[to_host("www.example.org"), to_host("gw.platform.net")], now());
    assert_eq!(plan.refusals[0].reason, "www.example.org is not in the zone example.com");
    assert!(plan.records.is_empty());
}

#[test]
fn two_providers_are_both_to_be_changed() {
    let both = ZoneFacts {
        provider: detect(&[name("ns1.digitalocean.com"), name("ada.ns.cloudflare.com")], &[]),
        ..zone("ns1.digitalocean.com")
    };
    let plan = Plan::new(both, &[to_host("www.example.com")], now());
    assert!(
        plan.notes
            .iter()
            .any(|note| note == "the zone is served by DigitalOcean and Cloudflare: make every record at each of them")
    );
}
