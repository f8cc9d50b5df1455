//! CONSISTENCY01 to 06: the servers tell the same story, and so does the parent.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::probe::Probe;
use super::{Facts, Findings};
use crate::wire::{RData, RecordType, show_name};

pub(super) fn check(facts: &Facts, findings: &mut Findings) {
    serials(facts, findings);
    same(
        facts,
        findings,
        "CONSISTENCY02",
        ["ONE_SOA_RNAME", "MULTIPLE_SOA_RNAMES"],
        "mail address of the SOA",
        |soa| show_name(&soa.rname),
    );
    same(
        facts,
        findings,
        "CONSISTENCY03",
        ["ONE_SOA_TIME_PARAMETER_SET", "MULTIPLE_SOA_TIME_PARAMETER_SET"],
        "set of times of the SOA",
        |soa| format!("{}/{}/{}/{}", soa.refresh, soa.retry, soa.expire, soa.minimum),
    );
    name_servers(facts, findings);
    addresses(facts, findings);
    same(
        facts,
        findings,
        "CONSISTENCY06",
        ["ONE_SOA_MNAME", "MULTIPLE_SOA_MNAMES"],
        "primary server of the SOA",
        |soa| show_name(&soa.mname),
    );
}

/// Values and the servers that have them.
fn groups<T: Ord>(pairs: impl IntoIterator<Item = (T, String)>) -> BTreeMap<T, Vec<String>> {
    let mut groups: BTreeMap<T, Vec<String>> = BTreeMap::new();
    for (value, server) in pairs {
        groups.entry(value).or_default().push(server);
    }
    groups
}

fn serials(facts: &Facts, findings: &mut Findings) {
    findings.case("CONSISTENCY01");
    let groups = groups(facts.soas().into_iter().map(|(server, soa, _)| (soa.serial, server.label())));
    match groups.len() {
        0 => {}
        1 => findings.info(
            "ONE_SOA_SERIAL",
            format!("all servers have the serial {}", groups.keys().next().copied().unwrap_or(0)),
        ),
        _ => {
            let list: Vec<String> =
                groups.iter().map(|(serial, servers)| format!("{serial} at {}", servers.join(", "))).collect();
            findings.warning(
                "MULTIPLE_SOA_SERIALS",
                format!("the servers have different versions of the zone: {}", list.join("; ")),
            );
            let (first, last) = (groups.keys().next().copied(), groups.keys().next_back().copied());
            if let (Some(first), Some(last)) = (first, last) {
                findings.notice("SOA_SERIAL_VARIATION", format!("the serials differ by {}", last.wrapping_sub(first)));
            }
        }
    }
}

fn same(
    facts: &Facts,
    findings: &mut Findings,
    case: &'static str,
    [one, several]: [&'static str; 2],
    what: &str,
    value: impl Fn(&hickory_proto::rr::rdata::SOA) -> String,
) {
    findings.case(case);
    let groups = groups(facts.soas().into_iter().map(|(server, soa, _)| (value(soa), server.label())));
    match groups.len() {
        0 => {}
        1 => findings.info(one, format!("all servers have the same {what}")),
        _ => {
            let list: Vec<String> =
                groups.iter().map(|(value, servers)| format!("{value} at {}", servers.join(", "))).collect();
            findings.notice(several, format!("the servers differ in the {what}: {}", list.join("; ")));
        }
    }
}

fn name_servers(facts: &Facts, findings: &mut Findings) {
    findings.case("CONSISTENCY04");
    let sets = facts.working().map(|server| {
        let records = server.apex(Probe::Ns, &facts.zone, RecordType::NS);
        let names: BTreeSet<String> = records
            .iter()
            .filter_map(|record| match &record.data {
                RData::NS(name) => Some(show_name(&name.0)),
                _ => None,
            })
            .collect();
        (names, server.label())
    });
    let groups = groups(sets);
    if groups.len() > 1 {
        let list: Vec<String> = groups
            .iter()
            .map(|(names, servers)| {
                format!("{} at {}", names.iter().cloned().collect::<Vec<_>>().join("+"), servers.join(", "))
            })
            .collect();
        findings.notice("MULTIPLE_NS_SET", format!("the servers list different servers: {}", list.join("; ")));
    } else if groups.len() == 1 {
        findings.info("ONE_NS_SET", "all servers list the same servers");
    }
}

/// Glue against what the zone itself says.
fn addresses(facts: &Facts, findings: &mut Findings) {
    findings.case("CONSISTENCY05");
    let mut all_match = true;
    for (name, glue) in &facts.glue {
        let Some(host) = facts.hosts.get(name) else { continue };
        let zone: BTreeSet<IpAddr> = host.addresses.iter().copied().collect();
        if zone == *glue {
            continue;
        }
        let list = |set: &BTreeSet<IpAddr>| match set.is_empty() {
            true => "nothing".to_owned(),
            false => set.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(", "),
        };
        let in_zone = facts.zone.zone_of(name);
        let text = format!("{}: the parent says {}, the zone says {}", show_name(name), list(glue), list(&zone));
        if glue.is_subset(&zone) {
            findings.notice("EXTRA_ADDRESS_CHILD", text);
        } else {
            let tag = if in_zone { "IN_BAILIWICK_ADDR_MISMATCH" } else { "OUT_OF_BAILIWICK_ADDR_MISMATCH" };
            findings.error(tag, text);
        }
        all_match = false;
    }
    if all_match {
        findings.info("ADDRESSES_MATCH", "the addresses that the parent gives are those that the zone gives");
    }
}
