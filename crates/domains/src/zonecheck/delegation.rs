//! DELEGATION01 to 07: enough servers, distinct, authoritative, and the parent's list equals the zone's.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::probe::{Probe, Server};
use super::{Facts, Findings};
use crate::wire::{Ask, Name, Question, RecordType, ResponseCode, show_name};

/// The least that RFC 1034 §4.1 and every registry ask for.
const ENOUGH: usize = 2;
/// What fits into an answer without EDNS.
const PLAIN_BYTES: usize = 512;

pub(super) fn check(facts: &Facts, findings: &mut Findings) {
    enough(facts, findings);
    distinct(facts, findings);
    referral_size(facts, findings);
    authoritative(facts, findings);
    findings.case("DELEGATION05");
    let aliases =
        facts.parent_ns.union(&facts.child_ns).filter(|name| facts.hosts.get(*name).is_some_and(|host| host.is_alias));
    for name in aliases {
        findings
            .by(facts.hosts.get(name).and_then(|host| host.alias_evidence.clone()))
            .error("NS_IS_CNAME", format!("the server {} is an alias (CNAME), which is not allowed", show_name(name)));
    }
    findings.case("DELEGATION06");
    for server in facts.servers.iter().filter(|server| server.answer(Probe::Soa).is_some()) {
        if server.apex(Probe::Soa, &facts.zone, RecordType::SOA).is_empty() {
            findings
                .at(server, Probe::Soa)
                .error("SOA_NOT_EXISTS", format!("{} has no SOA of the zone", server.label()));
        }
    }
    lists(facts, findings);
}

fn enough(facts: &Facts, findings: &mut Findings) {
    findings.case("DELEGATION01");
    let sides: [(&BTreeSet<Name>, [&'static str; 6], &str); 2] = [
        (
            &facts.parent_ns,
            [
                "ENOUGH_NS_DEL",
                "NOT_ENOUGH_NS_DEL",
                "NO_IPV4_NS_DEL",
                "NOT_ENOUGH_IPV4_NS_DEL",
                "NO_IPV6_NS_DEL",
                "NOT_ENOUGH_IPV6_NS_DEL",
            ],
            "the parent",
        ),
        (
            &facts.child_ns,
            [
                "ENOUGH_NS_CHILD",
                "NOT_ENOUGH_NS_CHILD",
                "NO_IPV4_NS_CHILD",
                "NOT_ENOUGH_IPV4_NS_CHILD",
                "NO_IPV6_NS_CHILD",
                "NOT_ENOUGH_IPV6_NS_CHILD",
            ],
            "the zone",
        ),
    ];
    for (names, [fine, few, no_v4, few_v4, no_v6, few_v6], who) in sides {
        if names.is_empty() {
            continue;
        }
        match names.len() {
            count if count >= ENOUGH => findings.info(fine, format!("{who} lists {count} servers")),
            count => findings.error(few, format!("{who} lists only {count} server; {ENOUGH} are the least")),
        }
        let with = |is_v4: bool| {
            let has = |name: &&Name| {
                facts.servers.iter().any(|server| server.name == **name && server.address.is_ipv4() == is_v4)
            };
            names.iter().filter(has).count()
        };
        match with(true) {
            0 => findings.warning(no_v4, format!("no server that {who} lists has an IPv4 address")),
            1 if names.len() >= ENOUGH => {
                findings.error(few_v4, format!("only one server that {who} lists has an IPv4 address"));
            }
            _ => {}
        }
        match with(false) {
            0 => findings.notice(no_v6, format!("no server that {who} lists has an IPv6 address")),
            count if count < ENOUGH => {
                findings.error(few_v6, format!("only one server that {who} lists has an IPv6 address"));
            }
            _ => {}
        }
    }
}

/// Whether a list names a server.
type Listed = fn(&Server) -> bool;

fn distinct(facts: &Facts, findings: &mut Findings) {
    findings.case("DELEGATION02");
    let sides: [(Listed, _, _); 2] = [
        (|server| server.in_parent, "DEL_NS_SAME_IP", "DEL_DISTINCT_NS_IP"),
        (|server| server.in_child, "CHILD_NS_SAME_IP", "CHILD_DISTINCT_NS_IP"),
    ];
    for (listed, same, fine) in sides {
        let mut by_address: BTreeMap<IpAddr, BTreeSet<String>> = BTreeMap::new();
        for server in facts.servers.iter().filter(|server| listed(server)) {
            by_address.entry(server.address).or_default().insert(show_name(&server.name));
        }
        let shared: Vec<_> = by_address.iter().filter(|(_, names)| names.len() > 1).collect();
        for (address, names) in &shared {
            let names: Vec<String> = names.iter().cloned().collect();
            findings.error(same, format!("{} are the same address {address}", names.join(" and ")));
        }
        if shared.is_empty() && !by_address.is_empty() {
            findings.info(fine, "each server has addresses of its own");
        }
    }
}

/// The smallest useful referral for the longest name below the zone, without EDNS.
fn referral_size(facts: &Facts, findings: &mut Findings) {
    findings.case("DELEGATION03");
    let name_bytes = |name: &Name| name.len() + 1;
    // Names are compressed after the first; eleven bytes of type, class, time and length for each record.
    let servers: usize = facts.parent_ns.iter().map(|name| name_bytes(name) + 12).sum();
    let glue: usize = facts
        .glue
        .iter()
        .filter(|(name, _)| facts.zone.zone_of(name))
        .flat_map(|(_, addresses)| addresses.iter())
        .map(|address| if address.is_ipv4() { 16 } else { 28 })
        .sum();
    let question = Ask::authoritative(Question::new(facts.zone.clone(), RecordType::NS)).without_edns();
    let base = question.encode(0).len();
    // The longest name that can be asked for.
    let size = 255_usize.saturating_sub(facts.zone.len()) + base + servers + glue;
    match size > PLAIN_BYTES {
        true => findings.warning(
            "REFERRAL_SIZE_TOO_LARGE",
            format!("a referral for the longest name needs {size} bytes, more than the {PLAIN_BYTES} of plain DNS"),
        ),
        false => findings.info("REFERRAL_SIZE_OK", format!("the longest referral needs {size} bytes")),
    }
}

fn authoritative(facts: &Facts, findings: &mut Findings) {
    findings.case("DELEGATION04");
    let mut all = true;
    for server in &facts.servers {
        for (probe, way) in [(Probe::Soa, "UDP"), (Probe::SoaTcp, "TCP")] {
            if let Some(answer) = server.answer(probe)
                && (answer.rcode() == ResponseCode::NoError)
                && !answer.is_authoritative()
            {
                all = false;
                findings
                    .at(server, probe)
                    .warning("IS_NOT_AUTHORITATIVE", format!("{} answers by {way} without authority", server.label()));
            }
        }
    }
    if all {
        findings.info("ARE_AUTHORITATIVE", "all servers that answer do so with authority");
    }
}

fn lists(facts: &Facts, findings: &mut Findings) {
    findings.case("DELEGATION07");
    if facts.child_ns.is_empty() {
        return;
    }
    let names = |set: Vec<&Name>| set.into_iter().map(show_name).collect::<Vec<_>>().join(", ");
    let parent_only: Vec<&Name> = facts.parent_ns.difference(&facts.child_ns).collect();
    let child_only: Vec<&Name> = facts.child_ns.difference(&facts.parent_ns).collect();
    if facts.parent_ns.is_disjoint(&facts.child_ns) {
        findings.error("TOTAL_NAME_MISMATCH", "the parent and the zone list entirely different servers");
    }
    if !parent_only.is_empty() {
        findings.error("EXTRA_NAME_PARENT", format!("only the parent lists {}", names(parent_only)));
    }
    if !child_only.is_empty() {
        findings.notice("EXTRA_NAME_CHILD", format!("only the zone lists {}", names(child_only)));
    }
    if facts.parent_ns == facts.child_ns {
        findings.info("NAMES_MATCH", "the parent and the zone list the same servers");
    }
}
