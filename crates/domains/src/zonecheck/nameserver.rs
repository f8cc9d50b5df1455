//! NAMESERVER01 to 15: how well the servers speak DNS.

use super::probe::{Probe, Server};
use super::{Facts, Findings};
use crate::resolve::classify;
use crate::resolve::{Lame, Says};
use crate::transport::{Failure, Remark};
use crate::wire::{RData, Record, RecordType, ResponseCode, Section, rcode_text, rdata_text, show_name};

/// The option that nobody has defined, as the probe sends it.
const UNKNOWN_OPTION: u16 = 137;

pub(super) fn check(facts: &Facts, findings: &mut Findings) {
    let answering: Vec<&Server> = facts.servers.iter().filter(|server| server.answer(Probe::Soa).is_some()).collect();
    recursion(&answering, findings);
    edns(facts, &answering, findings);
    transfer(facts, &answering, findings);
    source(facts, findings);
    aaaa(&answering, findings);
    names_resolve(facts, findings);
    upward(facts, &answering, findings);
    case(facts, &answering, findings);
    edns_version(&answering, findings);
    edns_option(&answering, findings);
    edns_flags(&answering, findings);
    truncation(&answering, findings);
    version(&answering, findings);
}

fn recursion(servers: &[&Server], findings: &mut Findings) {
    findings.case("NAMESERVER01");
    for server in servers {
        let Some(answer) = server.answer(Probe::Recursion) else { continue };
        let found_out = answer.rcode() == ResponseCode::NXDomain && !answer.is_authoritative();
        if answer.offers_recursion() || found_out {
            findings
                .at(server, Probe::Recursion)
                .error("IS_A_RECURSOR", format!("{} resolves names for everybody", server.label()));
        } else {
            findings
                .at(server, Probe::Recursion)
                .info("NO_RECURSOR", format!("{} answers only for its own zones", server.label()));
        }
    }
}

fn edns(facts: &Facts, servers: &[&Server], findings: &mut Findings) {
    findings.case("NAMESERVER02");
    for server in servers {
        let Some(exchange) = server.exchange(Probe::Soa) else { continue };
        let refuses = exchange.remarks.iter().find_map(|remark| match remark {
            Remark::EdnsDropped => Some(None),
            Remark::EdnsRefused { code } => Some(Some(code.clone())),
            _ => None,
        });
        match (refuses, exchange.answer()) {
            (Some(None), _) => {
                findings
                    .at(server, Probe::Soa)
                    .error("BREAKS_ON_EDNS", format!("{} does not answer questions with EDNS", server.label()));
            }
            (Some(Some(code)), _) => {
                findings
                    .at(server, Probe::Soa)
                    .warning("NO_EDNS_SUPPORT", format!("{} does not support EDNS ({code})", server.label()));
            }
            (None, Some(answer)) if answer.edns().is_none() && answer.rcode() == ResponseCode::NoError => {
                findings.at(server, Probe::Soa).error(
                    "EDNS_RESPONSE_WITHOUT_EDNS",
                    format!("{} answers questions with EDNS as if they had none", server.label()),
                )
            }
            (None, Some(answer)) if answer.edns().is_some_and(|edns| edns.version() != 0) => {
                findings
                    .at(server, Probe::Soa)
                    .error("EDNS_VERSION_ERROR", format!("{} answers with another EDNS version", server.label()));
            }
            (None, Some(answer)) if !answer.rrset(Section::Answer, &facts.zone, RecordType::SOA).any(|_| true) => {
                findings
                    .at(server, Probe::Soa)
                    .warning("NS_ERROR", format!("{} does not answer the question for the SOA", server.label()));
            }
            _ => findings.at(server, Probe::Soa).info("EDNS0_SUPPORT", format!("{} supports EDNS", server.label())),
        }
    }
}

fn transfer(facts: &Facts, servers: &[&Server], findings: &mut Findings) {
    findings.case("NAMESERVER03");
    for server in servers {
        let open = server.answer(Probe::Axfr).is_some_and(|answer| {
            answer.rcode() == ResponseCode::NoError
                && answer.rrset(Section::Answer, &facts.zone, RecordType::SOA).any(|_| true)
        });
        match open {
            true => findings
                .at(server, Probe::Axfr)
                .notice("AXFR_AVAILABLE", format!("{} gives the whole zone to everybody (AXFR)", server.label())),
            false => findings
                .at(server, Probe::Axfr)
                .info("AXFR_FAILURE", format!("{} does not give the whole zone away", server.label())),
        }
    }
}

fn source(facts: &Facts, findings: &mut Findings) {
    findings.case("NAMESERVER04");
    let mut all_same = true;
    for server in &facts.servers {
        let Some(exchange) = server.exchange(Probe::Soa) else { continue };
        let strays = exchange.remarks.iter().filter_map(|remark| match remark {
            Remark::StraySource { from } => Some(*from),
            _ => None,
        });
        let wrong = match &exchange.outcome {
            Err(Failure::WrongSource(from)) => Some(*from),
            _ => None,
        };
        if let Some(from) = strays.chain(wrong).next() {
            all_same = false;
            findings.at(server, Probe::Soa).warning(
                "DIFFERENT_SOURCE_IP",
                format!("{} answers from {}, which resolvers do not accept", server.label(), from.ip()),
            );
        }
    }
    if all_same {
        findings.info("SAME_SOURCE_IP", "all servers answer from the address that was asked");
    }
}

fn aaaa(servers: &[&Server], findings: &mut Findings) {
    findings.case("NAMESERVER05");
    for server in servers {
        match (server.answer(Probe::A), server.answer(Probe::Aaaa)) {
            (Some(a), _) if a.rcode() != ResponseCode::NoError => findings.at(server, Probe::Aaaa).warning(
                "A_UNEXPECTED_RCODE",
                format!("{} answers {} to the question for A", server.label(), rcode_text(a.rcode())),
            ),
            (Some(_), None) => {
                findings
                    .at(server, Probe::Aaaa)
                    .error("AAAA_QUERY_DROPPED", format!("{} does not answer questions for AAAA", server.label()));
            }
            (Some(_), Some(aaaa)) if aaaa.rcode() != ResponseCode::NoError => findings.at(server, Probe::Aaaa).error(
                "AAAA_UNEXPECTED_RCODE",
                format!("{} answers {} to the question for AAAA", server.label(), rcode_text(aaaa.rcode())),
            ),
            (Some(_), Some(_)) => findings
                .at(server, Probe::Aaaa)
                .info("AAAA_WELL_PROCESSED", format!("{} answers for AAAA as it should", server.label())),
            (None, _) => {}
        }
    }
}

fn names_resolve(facts: &Facts, findings: &mut Findings) {
    findings.case("NAMESERVER06");
    let names: Vec<_> = facts.parent_ns.union(&facts.child_ns).collect();
    let fails = |name: &&&crate::wire::Name| {
        let has_glue = facts.glue.contains_key(**name);
        !has_glue && facts.hosts.get(**name).is_none_or(|host| host.addresses.is_empty())
    };
    let failing: Vec<String> = names.iter().filter(fails).map(|name| show_name(name)).collect();
    match failing.len() {
        0 => findings.info("CAN_BE_RESOLVED", "the names of all servers have addresses"),
        count if count == names.len() => findings.error("NO_RESOLUTION", "no name of a server has an address"),
        _ => findings.error("CAN_NOT_BE_RESOLVED", format!("no address can be found for {}", failing.join(", "))),
    }
}

fn upward(facts: &Facts, servers: &[&Server], findings: &mut Findings) {
    findings.case("NAMESERVER07");
    for server in servers {
        let to_root = server.answer(Probe::Upward).is_some_and(|answer| {
            let authority = answer.section(Section::Authority).iter();
            authority.filter(|record| record.record_type() == RecordType::NS).any(|record| record.name.is_root())
        });
        let soa = server.exchange(Probe::Soa);
        let question = soa.map(|exchange| &exchange.ask.question);
        let lame = soa.zip(question).is_some_and(|(exchange, question)| {
            matches!(classify(exchange, &facts.zone, question), Says::Lame(Lame::UpwardReferral { .. }))
        });
        if to_root || lame {
            findings
                .at(server, Probe::Upward)
                .warning("UPWARD_REFERRAL", format!("{} refers upwards for what it does not serve", server.label()));
        } else {
            findings
                .at(server, Probe::Upward)
                .info("NO_UPWARD_REFERRAL", format!("{} does not refer upwards", server.label()));
        }
    }
}

fn case(facts: &Facts, servers: &[&Server], findings: &mut Findings) {
    findings.case("NAMESERVER08");
    for server in servers {
        let Some(exchange) = server.exchange(Probe::MixedCase) else { continue };
        let Some(answer) = exchange.answer() else { continue };
        let kept = answer.echoed_name().is_some_and(|name| name.eq_case(&exchange.ask.question.name));
        match kept {
            true => findings
                .at(server, Probe::MixedCase)
                .info("QNAME_CASE_SENSITIVE", format!("{} keeps the case of names", server.label())),
            false => findings
                .at(server, Probe::MixedCase)
                .warning("QNAME_CASE_INSENSITIVE", format!("{} changes the case of names", server.label())),
        }
    }
    findings.case("NAMESERVER09");
    for server in servers {
        let Some(plain) = server.answer(Probe::NoEdns) else { continue };
        let Some(mixed) = server.answer(Probe::MixedCase) else {
            findings
                .at(server, Probe::MixedCase)
                .warning("CASE_QUERY_NO_ANSWER", format!("{} does not answer names in mixed case", server.label()));
            continue;
        };
        let soa = |answer: &crate::wire::Answer| {
            let mut data: Vec<String> = answer
                .rrset(Section::Answer, &facts.zone, RecordType::SOA)
                .map(|record: &Record| rdata_text(record).to_lowercase())
                .collect();
            data.sort();
            data
        };
        if plain.rcode() != mixed.rcode() {
            findings.at(server, Probe::MixedCase).warning(
                "CASE_QUERY_DIFFERENT_RC",
                format!("{} answers with another code to names in mixed case", server.label()),
            );
        } else if soa(plain) != soa(mixed) {
            findings.at(server, Probe::MixedCase).warning(
                "CASE_QUERY_DIFFERENT_ANSWER",
                format!("{} answers differently to names in mixed case", server.label()),
            );
        } else {
            findings
                .at(server, Probe::MixedCase)
                .info("CASE_QUERY_SAME_ANSWER", format!("{} answers the same whatever the case", server.label()));
        }
    }
}

fn edns_version(servers: &[&Server], findings: &mut Findings) {
    findings.case("NAMESERVER10");
    for server in servers {
        let Some(answer) = server.answer(Probe::EdnsVersion) else {
            findings
                .at(server, Probe::EdnsVersion)
                .warning("N10_NO_RESPONSE_EDNS1_QUERY", format!("{} does not answer EDNS version 1", server.label()));
            continue;
        };
        match answer.rcode() {
            ResponseCode::BADVERS | ResponseCode::BADSIG => {
                if answer.edns().is_none() {
                    findings.at(server, Probe::EdnsVersion).warning(
                        "N10_EDNS_RESPONSE_ERROR",
                        format!("{} answers EDNS version 1 without EDNS", server.label()),
                    );
                }
            }
            code => findings.at(server, Probe::EdnsVersion).warning(
                "N10_UNEXPECTED_RCODE",
                format!("{} answers {} to EDNS version 1 instead of BADVERS", server.label(), rcode_text(code)),
            ),
        }
    }
}

fn edns_option(servers: &[&Server], findings: &mut Findings) {
    findings.case("NAMESERVER11");
    for server in servers {
        let Some(answer) = server.answer(Probe::EdnsOption) else {
            findings.at(server, Probe::EdnsOption).warning(
                "N11_NO_RESPONSE",
                format!("{} does not answer when an EDNS option is unknown to it", server.label()),
            );
            continue;
        };
        let echoed = answer
            .edns()
            .is_some_and(|edns| edns.option(hickory_proto::rr::rdata::opt::EdnsCode::from(UNKNOWN_OPTION)).is_some());
        if answer.rcode() != ResponseCode::NoError {
            let code = rcode_text(answer.rcode());
            findings.at(server, Probe::EdnsOption).warning(
                "N11_UNEXPECTED_RCODE",
                format!("{} answers {code} to an EDNS option that it does not know", server.label()),
            );
        } else if answer.edns().is_none() {
            findings
                .at(server, Probe::EdnsOption)
                .warning("N11_NO_EDNS", format!("{} answers without EDNS to an EDNS option", server.label()));
        } else if echoed {
            findings.at(server, Probe::EdnsOption).warning(
                "N11_RETURNS_UNKNOWN_OPTION_CODE",
                format!("{} sends unknown EDNS options back", server.label()),
            );
        } else if !answer.is_authoritative() {
            findings
                .at(server, Probe::EdnsOption)
                .warning("N11_UNSET_AA", format!("{} answers without authority to an EDNS option", server.label()));
        }
    }
}

fn edns_flags(servers: &[&Server], findings: &mut Findings) {
    findings.case("NAMESERVER12");
    for server in servers {
        let Some(answer) = server.answer(Probe::EdnsFlags) else {
            findings
                .at(server, Probe::EdnsFlags)
                .info("NO_RESPONSE", format!("{} does not answer when an EDNS flag is unknown to it", server.label()));
            continue;
        };
        if answer.edns().is_some_and(|edns| edns.flags().z != 0) {
            findings
                .at(server, Probe::EdnsFlags)
                .warning("Z_FLAGS_NOTCLEAR", format!("{} sends unknown EDNS flags back", server.label()));
        } else if answer.rcode() == ResponseCode::FormErr {
            findings
                .at(server, Probe::EdnsFlags)
                .warning("NO_EDNS_SUPPORT", format!("{} does not support EDNS", server.label()));
        } else if answer.rcode() != ResponseCode::NoError {
            let code = rcode_text(answer.rcode());
            findings.at(server, Probe::EdnsFlags).warning(
                "NS_ERROR",
                format!("{} answers {code} to an EDNS flag that it does not know", server.label()),
            );
        }
    }
}

fn truncation(servers: &[&Server], findings: &mut Findings) {
    findings.case("NAMESERVER13");
    for server in servers {
        if let Some(answer) = server.answer(Probe::Small)
            && answer.is_truncated()
            && answer.edns().is_none()
        {
            findings.at(server, Probe::Small).warning(
                "MISSING_OPT_IN_TRUNCATED",
                format!("{} leaves EDNS out of truncated answers", server.label()),
            );
        }
    }
}

fn version(servers: &[&Server], findings: &mut Findings) {
    findings.case("NAMESERVER15");
    for server in servers {
        let Some(answer) = server.answer(Probe::Version) else { continue };
        let text = answer.section(Section::Answer).iter().find_map(|record| match &record.data {
            RData::TXT(_) => Some(rdata_text(record)),
            _ => None,
        });
        match text {
            Some(text) => findings
                .at(server, Probe::Version)
                .notice("N15_SOFTWARE_VERSION", format!("{} tells everybody its software: {text}", server.label())),
            None => findings
                .at(server, Probe::Version)
                .info("N15_NO_VERSION_REVEALED", format!("{} does not tell its software", server.label())),
        }
    }
}
