//! ADDRESS01 to ADDRESS03: the addresses of the servers.

use std::net::IpAddr;

use super::probe::Probe;
use super::{Facts, Findings};
use crate::dial::not_public;
use crate::wire::show_name;

pub(super) fn check(facts: &Facts, findings: &mut Findings) {
    findings.case("ADDRESS01");
    let mut reachable = 0;
    for server in &facts.servers {
        let (label, address) = (server.label(), server.address);
        match address {
            address if not_public(address).is_none() => reachable += 1,
            IpAddr::V4(v4) if v4.is_documentation() => {
                findings
                    .at(server, Probe::Soa)
                    .error("A01_DOCUMENTATION_ADDR", format!("{label} has an address that is only for documentation"));
            }
            IpAddr::V4(v4) if v4.is_private() || v4.is_loopback() || v4.is_link_local() => {
                findings
                    .at(server, Probe::Soa)
                    .error("A01_LOCAL_USE_ADDR", format!("{label} has an address that is only for local use"));
            }
            _ => findings.at(server, Probe::Soa).error(
                "A01_ADDR_NOT_GLOBALLY_REACHABLE",
                format!("{label} has an address that cannot be reached from everywhere"),
            ),
        }
    }
    match reachable {
        0 => findings
            .error("A01_NO_GLOBALLY_REACHABLE_ADDR", "no server has an address that can be reached from everywhere"),
        _ => findings
            .info("A01_GLOBALLY_REACHABLE_ADDR", format!("{reachable} addresses can be reached from everywhere")),
    }

    findings.case("ADDRESS02");
    for (address, names) in &facts.ptr {
        match names {
            None => findings.warning("NO_RESPONSE_PTR_QUERY", format!("the name of {address} could not be asked for")),
            Some(names) if names.is_empty() => {
                findings.warning("NAMESERVER_IP_WITHOUT_REVERSE", format!("{address} has no reverse name (PTR)"));
            }
            Some(_) => {}
        }
    }
    findings.case("ADDRESS03");
    for server in &facts.servers {
        if let Some(Some(names)) = facts.ptr.get(&server.address)
            && !names.is_empty()
            && !names.contains(&server.name)
        {
            let names: Vec<String> = names.iter().map(show_name).collect();
            findings.at(server, Probe::Soa).notice(
                "NAMESERVER_IP_PTR_MISMATCH",
                format!("{} has the reverse name {}", server.label(), names.join(", ")),
            );
        }
    }
}
