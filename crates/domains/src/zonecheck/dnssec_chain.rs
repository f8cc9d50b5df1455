//! DNSSEC07 to 11: signed and delegated as signed, signatures over keys and SOA, and proofs of absence.

use std::collections::BTreeSet;

use hickory_proto::dnssec::rdata::DNSSECRData;

use super::dnssec::{Fault, apex_signatures, keys_of, verify, verify_apex};
use super::probe::{Probe, Server};
use super::{Facts, Findings};
use crate::dnssec::signatures_of;
use crate::wire::{RData, Record, RecordType, ResponseCode, Section, show_name};

pub(super) fn check(facts: &Facts, findings: &mut Findings) {
    signed_and_delegated(facts, findings);
    if facts.is_signed() {
        signatures(
            facts,
            findings,
            ("DNSSEC08", Probe::Dnskey, RecordType::DNSKEY),
            [
                "DS08_MISSING_RRSIG_IN_RESPONSE",
                "DS08_DNSKEY_RRSIG_EXPIRED",
                "DS08_DNSKEY_RRSIG_NOT_YET_VALID",
                "DS08_NO_MATCHING_DNSKEY",
                "DS08_RRSIG_NOT_VALID_BY_DNSKEY",
            ],
        );
        signatures(
            facts,
            findings,
            ("DNSSEC09", Probe::Soa, RecordType::SOA),
            [
                "DS09_MISSING_RRSIG_IN_RESPONSE",
                "DS09_SOA_RRSIG_EXPIRED",
                "DS09_SOA_RRSIG_NOT_YET_VALID",
                "DS09_NO_MATCHING_DNSKEY",
                "DS09_RRSIG_NOT_VALID_BY_DNSKEY",
            ],
        );
        proofs(facts, findings);
    }
    ds_but_unsigned(facts, findings);
}

fn signed_and_delegated(facts: &Facts, findings: &mut Findings) {
    findings.case("DNSSEC07");
    let zone = show_name(&facts.zone);
    let has_keys = |server: &&Server| !server.apex(Probe::Dnskey, &facts.zone, RecordType::DNSKEY).is_empty();
    let working: Vec<&Server> = facts.working().collect();
    let unsigned: Vec<String> =
        working.iter().filter(|server| !has_keys(server)).map(|server| server.label()).collect();
    let has_ds = !facts.all_ds().is_empty();
    match (facts.is_signed(), unsigned.is_empty()) {
        (false, _) => findings.warning("DS07_NOT_SIGNED", format!("{zone} is not signed with DNSSEC")),
        (true, false) => {
            findings.error("DS07_INCONSISTENT_SIGNED", "some servers have the zone signed and some unsigned");
            findings.warning("DS07_NOT_SIGNED_ON_SERVER", format!("the zone is not signed at {}", unsigned.join(", ")));
        }
        (true, true) => findings.info("DS07_SIGNED", format!("{zone} is signed with DNSSEC")),
    }
    if facts.is_signed() {
        match has_ds {
            true => findings.info("DS07_DS_FOR_SIGNED_ZONE", "the zone is signed and the parent has a DS"),
            false => findings.warning(
                "DS07_NO_DS_FOR_SIGNED_ZONE",
                "the zone is signed, but the parent has no DS, so nobody validates it",
            ),
        }
    }
    let by_server: BTreeSet<bool> =
        facts.ds.iter().filter_map(|(_, ds)| ds.as_ref().map(|ds| !ds.is_empty())).collect();
    if by_server.len() > 1 {
        findings.error("DS07_INCONSISTENT_DS", "some servers of the parent have a DS and some have not");
    }
}

fn signatures(
    facts: &Facts,
    findings: &mut Findings,
    (case, probe, rtype): (&'static str, Probe, RecordType),
    [missing, expired, early, no_key, wrong]: [&'static str; 5],
) {
    findings.case(case);
    for server in facts.working() {
        if keys_of(facts, server).is_empty() || server.apex(probe, &facts.zone, rtype).is_empty() {
            continue;
        }
        if apex_signatures(facts, server, probe, rtype).is_empty() {
            findings.at(server, probe).error(missing, format!("{} sends {rtype} without a signature", server.label()));
        }
        for (tag, result) in verify_apex(facts, server, probe, rtype) {
            let label = server.label();
            match result {
                Ok(()) => {}
                Err(Fault::Expired) => findings
                    .at(server, probe)
                    .error(expired, format!("the signature over {rtype} by key {tag} at {label} has expired")),
                Err(Fault::NotYetValid) => findings
                    .at(server, probe)
                    .error(early, format!("the signature over {rtype} by key {tag} at {label} is not valid yet")),
                Err(Fault::NoKey) => findings
                    .at(server, probe)
                    .error(no_key, format!("{rtype} at {label} is signed with key {tag}, which is not there")),
                Err(Fault::Wrong) => findings
                    .at(server, probe)
                    .error(wrong, format!("the signature over {rtype} by key {tag} at {label} is wrong")),
            }
        }
    }
}

/// Which kind of proof a server gives, and whether it is signed.
fn proofs(facts: &Facts, findings: &mut Findings) {
    findings.case("DNSSEC10");
    let (mut nsec_servers, mut nsec3_servers) = (Vec::new(), Vec::new());
    for server in facts.working().filter(|server| !keys_of(facts, server).is_empty()) {
        let label = server.label();
        let records = apex_proofs(facts, server);
        let has_nsec = records.iter().any(|record| record.record_type() == RecordType::NSEC);
        let has_nsec3 = records.iter().any(|record| record.record_type() == RecordType::NSEC3)
            || !server.apex(Probe::Nsec3Param, &facts.zone, RecordType::NSEC3PARAM).is_empty();
        match (has_nsec, has_nsec3) {
            (true, true) => findings
                .at(server, Probe::Nsec)
                .error("DS10_MIXED_NSEC_NSEC3", format!("{label} uses both NSEC and NSEC3")),
            (true, false) => nsec_servers.push(label.clone()),
            (false, true) => nsec3_servers.push(label.clone()),
            (false, false) => findings.at(server, Probe::Nsec).error(
                "DS10_EXPECTED_NSEC_NSEC3_MISSING",
                format!("{label} gives no proof that something does not exist"),
            ),
        }
        for record in &records {
            proof_signature(facts, findings, server, record);
        }
        if let Some(answer) = server.answer(Probe::Nsec3Param)
            && answer.rcode() != ResponseCode::NoError
        {
            findings
                .at(server, Probe::Nsec3Param)
                .error("DS10_NSEC3PARAM_QUERY_RESPONSE_ERR", format!("{label} fails on the question for NSEC3PARAM"));
        }
        if let Some(answer) = server.answer(Probe::Nsec)
            && answer.rcode() != ResponseCode::NoError
        {
            findings
                .at(server, Probe::Nsec)
                .error("DS10_NSEC_QUERY_RESPONSE_ERR", format!("{label} fails on the question for NSEC"));
        }
    }
    match (nsec_servers.is_empty(), nsec3_servers.is_empty()) {
        (false, false) => findings.error(
            "DS10_INCONSISTENT_NSEC_NSEC3",
            format!("{} use NSEC, {} use NSEC3", nsec_servers.join(", "), nsec3_servers.join(", ")),
        ),
        (false, true) => findings.info("DS10_HAS_NSEC", "the zone uses NSEC"),
        (true, false) => findings.info("DS10_HAS_NSEC3", "the zone uses NSEC3"),
        (true, true) => {}
    }
}

/// The NSEC and NSEC3 records that are about the apex.
fn apex_proofs<'a>(_facts: &Facts, server: &'a Server) -> Vec<&'a Record> {
    let sections =
        [(Probe::Nsec, Section::Answer), (Probe::Nsec, Section::Authority), (Probe::Nsec3Param, Section::Authority)];
    let records =
        sections.into_iter().filter_map(|(probe, section)| Some(server.answer(probe)?.section(section).iter()));
    let is_proof =
        |record: &&Record| matches!(&record.data, RData::DNSSEC(DNSSECRData::NSEC(_) | DNSSECRData::NSEC3(_)));
    let mut proofs: Vec<&Record> = records.flatten().filter(is_proof).collect();
    proofs.dedup_by(|a, b| a.name == b.name && a.data == b.data);
    proofs
}

fn proof_signature(facts: &Facts, findings: &mut Findings, server: &Server, record: &Record) {
    let rtype = record.record_type();
    let label = server.label();
    let is_nsec3 = rtype == RecordType::NSEC3;
    let pick = |nsec: &'static str, nsec3: &'static str| if is_nsec3 { nsec3 } else { nsec };
    let found =
        [Probe::Nsec, Probe::Nsec3Param].into_iter().filter_map(|probe| server.answer(probe)).find_map(|answer| {
            let sections = [Section::Answer, Section::Authority];
            sections.into_iter().find_map(|section| {
                let signatures = signatures_of(answer.section(section), &record.name, rtype);
                (!signatures.is_empty()).then_some(signatures)
            })
        });
    let Some(found) = found else {
        findings.at(server, Probe::Nsec).error(
            pick("DS10_NSEC_MISSING_SIGNATURE", "DS10_NSEC3_MISSING_SIGNATURE"),
            format!("the {rtype} record at {label} is not signed"),
        );
        return;
    };
    let keys = keys_of(facts, server);
    let results: Vec<Result<(), Fault>> =
        found.iter().map(|signature| verify(facts, &[record], signature, &keys)).collect();
    if results.iter().any(Result::is_ok) {
        return;
    }
    for fault in results.into_iter().filter_map(Result::err) {
        match fault {
            Fault::Expired => findings.at(server, Probe::Nsec).error(
                pick("DS10_NSEC_RRSIG_EXPIRED", "DS10_NSEC3_RRSIG_EXPIRED"),
                format!("the signature of the {rtype} record at {label} has expired"),
            ),
            Fault::NotYetValid => findings.at(server, Probe::Nsec).error(
                pick("DS10_NSEC_RRSIG_NOT_YET_VALID", "DS10_NSEC3_RRSIG_NOT_YET_VALID"),
                format!("the signature of the {rtype} record at {label} is not valid yet"),
            ),
            Fault::NoKey => findings.at(server, Probe::Nsec).warning(
                pick("DS10_NSEC_RRSIG_NO_DNSKEY", "DS10_NSEC3_RRSIG_NO_DNSKEY"),
                format!("the {rtype} record at {label} is signed with a key that is not there"),
            ),
            Fault::Wrong => findings.at(server, Probe::Nsec).error(
                pick("DS10_NSEC_RRSIG_VERIFY_ERROR", "DS10_NSEC3_RRSIG_VERIFY_ERROR"),
                format!("the signature of the {rtype} record at {label} is wrong"),
            ),
        }
    }
}

fn ds_but_unsigned(facts: &Facts, findings: &mut Findings) {
    findings.case("DNSSEC11");
    let sides: BTreeSet<bool> = facts.ds.iter().filter_map(|(_, ds)| ds.as_ref().map(|ds| !ds.is_empty())).collect();
    match (sides.contains(&true), sides.contains(&false)) {
        (false, false) if !facts.ds.is_empty() => {
            findings.error("DS11_UNDETERMINED_DS", "it could not be found out whether the parent has a DS");
        }
        (true, true) => {
            findings.warning("DS11_INCONSISTENT_DS", "some servers of the parent have a DS and some have not");
        }
        _ => {}
    }
    if !sides.contains(&true) {
        return;
    }
    let unsigned: Vec<String> =
        facts.working().filter(|server| keys_of(facts, server).is_empty()).map(Server::label).collect();
    let working = facts.working().count();
    if working > 0 && unsigned.len() == working {
        findings.error(
            "DS11_DS_BUT_UNSIGNED_ZONE",
            "the parent has a DS, but the zone is not signed: validating resolvers refuse it",
        );
    } else if !unsigned.is_empty() {
        findings
            .error("DS11_INCONSISTENT_SIGNED_ZONE", "the parent has a DS, but only some servers have the zone signed");
        findings.warning("DS11_NS_WITH_UNSIGNED_ZONE", format!("the zone is not signed at {}", unsigned.join(", ")));
    }
}
