//! CONNECTIVITY01 to 04: UDP, TCP, and how far apart the servers are.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::probe::{Probe, Server};
use super::{Facts, Findings};
use crate::wire::{RecordType, ResponseCode, rcode_text};

/// The tags of one transport.
struct Tags {
    silent: &'static str,
    no_response: [&'static str; 2],
    code: [&'static str; 2],
    missing: [&'static str; 2],
    not_authoritative: [&'static str; 2],
}

const UDP: Tags = Tags {
    silent: "CN01_NO_RESPONSE_UDP",
    no_response: ["CN01_NO_RESPONSE_SOA_QUERY_UDP", "CN01_NO_RESPONSE_NS_QUERY_UDP"],
    code: ["CN01_UNEXPECTED_RCODE_SOA_QUERY_UDP", "CN01_UNEXPECTED_RCODE_NS_QUERY_UDP"],
    missing: ["CN01_MISSING_SOA_RECORD_UDP", "CN01_MISSING_NS_RECORD_UDP"],
    not_authoritative: ["CN01_SOA_RECORD_NOT_AA_UDP", "CN01_NS_RECORD_NOT_AA_UDP"],
};
const TCP: Tags = Tags {
    silent: "CN02_NO_RESPONSE_TCP",
    no_response: ["CN02_NO_RESPONSE_SOA_QUERY_TCP", "CN02_NO_RESPONSE_NS_QUERY_TCP"],
    code: ["CN02_UNEXPECTED_RCODE_SOA_QUERY_TCP", "CN02_UNEXPECTED_RCODE_NS_QUERY_TCP"],
    missing: ["CN02_MISSING_SOA_RECORD_TCP", "CN02_MISSING_NS_RECORD_TCP"],
    not_authoritative: ["CN02_SOA_RECORD_NOT_AA_TCP", "CN02_NS_RECORD_NOT_AA_TCP"],
};

pub(super) fn check(facts: &Facts, findings: &mut Findings) {
    findings.case("CONNECTIVITY01");
    for server in &facts.servers {
        transport(facts, findings, server, [Probe::Soa, Probe::Ns], &UDP, "UDP");
    }
    findings.case("CONNECTIVITY02");
    for server in &facts.servers {
        transport(facts, findings, server, [Probe::SoaTcp, Probe::NsTcp], &TCP, "TCP");
    }
    autonomous_systems(facts, findings);
    prefixes(facts, findings);
}

fn transport(facts: &Facts, findings: &mut Findings, server: &Server, probes: [Probe; 2], tags: &Tags, way: &str) {
    let label = server.label();
    if probes.iter().all(|probe| server.answer(*probe).is_none()) {
        let why = server.exchange(probes[0]).and_then(|exchange| exchange.outcome.as_ref().err());
        let why = why.map_or_else(String::new, |failure| format!(": {failure}"));
        findings.at(server, probes[0]).warning(tags.silent, format!("{label} does not answer by {way}{why}"));
        return;
    }
    for (index, (probe, rtype)) in probes.into_iter().zip([RecordType::SOA, RecordType::NS]).enumerate() {
        let Some(answer) = server.answer(probe) else {
            findings
                .at(server, probe)
                .warning(tags.no_response[index], format!("{label} does not answer the question for {rtype} by {way}"));
            continue;
        };
        if answer.rcode() != ResponseCode::NoError {
            let code = rcode_text(answer.rcode());
            findings
                .at(server, probe)
                .warning(tags.code[index], format!("{label} answers {code} to the question for {rtype} by {way}"));
        } else if answer.rrset(crate::wire::Section::Answer, &facts.zone, rtype).next().is_none() {
            findings
                .at(server, probe)
                .warning(tags.missing[index], format!("{label} has no {rtype} in its answer by {way}"));
        } else if !answer.is_authoritative() {
            findings.at(server, probe).warning(
                tags.not_authoritative[index],
                format!("{label} answers for {rtype} without authority by {way}"),
            );
        }
    }
}

fn addresses(facts: &Facts, is_v4: bool) -> Vec<IpAddr> {
    let all: BTreeSet<IpAddr> =
        facts.servers.iter().map(|server| server.address).filter(|address| address.is_ipv4() == is_v4).collect();
    all.into_iter().collect()
}

fn autonomous_systems(facts: &Facts, findings: &mut Findings) {
    findings.case("CONNECTIVITY03");
    for (is_v4, same, one, different) in [
        (true, "IPV4_SAME_ASN", "IPV4_ONE_ASN", "IPV4_DIFFERENT_ASN"),
        (false, "IPV6_SAME_ASN", "IPV6_ONE_ASN", "IPV6_DIFFERENT_ASN"),
    ] {
        let addresses = addresses(facts, is_v4);
        if addresses.is_empty() {
            continue;
        }
        let family = if is_v4 { "IPv4" } else { "IPv6" };
        let sets: Vec<Vec<u32>> = addresses
            .iter()
            .filter_map(|address| facts.origins.get(address).and_then(|origin| origin.as_ref()))
            .map(|origin| origin.asns.clone())
            .collect();
        let all: BTreeSet<u32> = sets.iter().flatten().copied().collect();
        let list = all.iter().map(|asn| format!("AS{asn}")).collect::<Vec<_>>().join(", ");
        if sets.len() < addresses.len() || all.is_empty() {
            findings.notice(
                "EMPTY_ASN_SET",
                format!("not every {family} address of the servers is known to belong to a network"),
            );
        } else if all.len() == 1 {
            findings.warning(one, format!("all {family} addresses of the servers are in one network ({list})"));
        } else if sets.iter().all(|set| sets.first() == Some(set)) {
            findings.notice(same, format!("all {family} addresses of the servers are in the same networks ({list})"));
        } else {
            findings.info(different, format!("the {family} addresses of the servers are in {list}"));
        }
    }
}

fn prefixes(facts: &Facts, findings: &mut Findings) {
    findings.case("CONNECTIVITY04");
    for (is_v4, same, single) in [
        (true, "CN04_IPV4_SAME_PREFIX", "CN04_IPV4_SINGLE_PREFIX"),
        (false, "CN04_IPV6_SAME_PREFIX", "CN04_IPV6_SINGLE_PREFIX"),
    ] {
        let family = if is_v4 { "IPv4" } else { "IPv6" };
        let addresses = addresses(facts, is_v4);
        let known = addresses.iter().filter_map(|address| Some((address, facts.origins.get(address)?.as_ref()?)));
        let mut by_prefix: std::collections::BTreeMap<&str, Vec<String>> = std::collections::BTreeMap::new();
        for (address, origin) in known {
            by_prefix.entry(origin.prefix.as_str()).or_default().push(address.to_string());
        }
        if addresses.len() > 1 && by_prefix.len() == 1 {
            findings.warning(single, format!("all {family} addresses of the servers are in one announced prefix"));
            continue;
        }
        for (prefix, members) in by_prefix.iter().filter(|(_, members)| members.len() > 1) {
            findings.notice(same, format!("{} are in the same prefix {prefix}", members.join(", ")));
        }
    }
}
