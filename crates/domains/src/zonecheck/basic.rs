//! BASIC01 to BASIC03: the zone is there at all.

use super::probe::Probe;
use super::{Facts, Findings};
use crate::resolve::{Outcome, Says};
use crate::wire::{RecordType, ResponseCode, rcode_text, show_name};

pub(super) fn check(facts: &Facts, findings: &mut Findings) {
    parent_and_child(facts, findings);
    if !facts.parent_ns.is_empty() {
        working_server(facts, findings);
        if facts.working().next().is_none() {
            broken_but_functional(facts, findings);
        }
    }
}

fn parent_and_child(facts: &Facts, findings: &mut Findings) {
    findings.case("BASIC01");
    let zone = show_name(&facts.zone);
    let Some(parent) = &facts.parent else {
        findings.warning("B01_PARENT_NOT_FOUND", format!("no parent of {zone} was found"));
        return;
    };
    let parent = show_name(parent);
    if facts.parent_ns.is_empty() {
        let what = match &facts.trace.outcome {
            Outcome::NxDomain => format!("{zone} does not exist: {parent} has no such name"),
            Outcome::Broken { reason } => format!("{zone} could not be found: {reason}"),
            _ if !facts.trace.aliases.is_empty() => {
                findings.notice("B01_CHILD_IS_ALIAS", format!("{zone} is an alias, not a zone"));
                format!("{zone} is not a zone of its own; it is part of {parent}: check that one")
            }
            _ => format!("{zone} is not a zone of its own; it is part of {parent}: check that one"),
        };
        findings.error("B01_NO_CHILD", what);
        findings.critical("B02_NO_DELEGATION", format!("{parent} does not delegate {zone} to any server"));
        return;
    }
    findings.info("B01_CHILD_FOUND", format!("{parent} delegates {zone} to {} servers", facts.parent_ns.len()));
    let denies = facts.parent_replies.iter().filter(|reply| matches!(reply.says, Says::NxDomain | Says::NoData));
    for reply in denies {
        findings.error(
            "B01_INCONSISTENT_DELEGATION",
            format!("{} of {parent} does not know {zone}, although others do", reply.exchange.server.ip()),
        );
    }
}

fn working_server(facts: &Facts, findings: &mut Findings) {
    findings.case("BASIC02");
    for name in &facts.parent_ns {
        if !facts.servers.iter().any(|server| server.name == *name) {
            findings.error("B02_NS_NO_IP_ADDR", format!("{} has no address", show_name(name)));
        }
    }
    let mut working = 0;
    for server in facts.servers.iter().filter(|server| server.in_parent) {
        match server.answer(Probe::Soa) {
            None => findings
                .at(server, Probe::Soa)
                .warning("B02_NS_NO_RESPONSE", format!("{} does not answer", server.label())),
            Some(answer) if answer.rcode() != ResponseCode::NoError => findings.at(server, Probe::Soa).error(
                "B02_UNEXPECTED_RCODE",
                format!("{} answers {} instead of the zone's SOA", server.label(), rcode_text(answer.rcode())),
            ),
            Some(answer) if !answer.is_authoritative() => {
                findings
                    .at(server, Probe::Soa)
                    .error("B02_NS_NOT_AUTH", format!("{} is not an authority for the zone", server.label()));
            }
            Some(_) if server.apex(Probe::Soa, &facts.zone, RecordType::SOA).is_empty() => {
                findings
                    .at(server, Probe::Soa)
                    .error("B02_NS_BROKEN", format!("{} answers without the zone's SOA", server.label()));
            }
            Some(_) => working += 1,
        }
    }
    if working == 0 {
        findings.critical("B02_NO_WORKING_NS", format!("no server of {} works", show_name(&facts.zone)));
    } else {
        findings.info("B02_AUTH_RESPONSE_SOA", format!("{working} addresses answer for the zone"));
    }
}

/// Zonemaster asks whether a web site could still be found by accident.
fn broken_but_functional(facts: &Facts, findings: &mut Findings) {
    findings.case("BASIC03");
    let with_address = facts.servers.iter().filter(|server| {
        server.answer(Probe::A).is_some_and(|answer| {
            !answer.section(crate::wire::Section::Answer).is_empty() && answer.rcode() == ResponseCode::NoError
        })
    });
    let names: Vec<String> = with_address.map(super::probe::Server::label).collect();
    match names.is_empty() {
        false => {
            findings.error("HAS_A_RECORDS", format!("{} gives addresses although the zone is broken", names.join(", ")))
        }
        true => findings.info("A_QUERY_NO_RESPONSES", "no server gives addresses"),
    }
}
