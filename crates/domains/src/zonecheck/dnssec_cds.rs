//! DNSSEC15 to 18: what the zone asks its parent to have as DS (CDS and CDNSKEY, RFC 7344 and RFC 8078).

use std::collections::BTreeSet;

use hickory_proto::dnssec::PublicKey;
use hickory_proto::dnssec::rdata::{CDNSKEY, CDS, DNSSECRData};

use super::dnssec::{Fault, apex_signatures, keys_of, verify_apex};
use super::probe::{Probe, Server};
use super::{Facts, Findings};
use crate::wire::{RData, RecordType, rdata_text};

pub(super) fn check(facts: &Facts, findings: &mut Findings) {
    consistent(facts, findings);
    findings.case("DNSSEC16");
    for server in facts.working() {
        cds(facts, findings, server);
    }
    findings.case("DNSSEC17");
    for server in facts.working() {
        cdnskey(facts, findings, server);
    }
    continuity(facts, findings);
}

fn cds_of<'a>(facts: &Facts, server: &'a Server) -> Vec<&'a CDS> {
    let records = server.apex(Probe::Cds, &facts.zone, RecordType::CDS);
    let data = records.into_iter().filter_map(|record| match &record.data {
        RData::DNSSEC(DNSSECRData::CDS(cds)) => Some(cds),
        _ => None,
    });
    data.collect()
}

fn cdnskey_of<'a>(facts: &Facts, server: &'a Server) -> Vec<&'a CDNSKEY> {
    let records = server.apex(Probe::Cdnskey, &facts.zone, RecordType::CDNSKEY);
    let data = records.into_iter().filter_map(|record| match &record.data {
        RData::DNSSEC(DNSSECRData::CDNSKEY(key)) => Some(key),
        _ => None,
    });
    data.collect()
}

fn consistent(facts: &Facts, findings: &mut Findings) {
    findings.case("DNSSEC15");
    let set = |server: &Server, probe, rtype| -> BTreeSet<String> {
        server.apex(probe, &facts.zone, rtype).into_iter().map(rdata_text).collect()
    };
    let cds: BTreeSet<BTreeSet<String>> =
        facts.working().map(|server| set(server, Probe::Cds, RecordType::CDS)).collect();
    let cdnskey: BTreeSet<BTreeSet<String>> =
        facts.working().map(|server| set(server, Probe::Cdnskey, RecordType::CDNSKEY)).collect();
    if cds.len() > 1 {
        findings.error("DS15_INCONSISTENT_CDS", "the servers differ in CDS");
    }
    if cdnskey.len() > 1 {
        findings.error("DS15_INCONSISTENT_CDNSKEY", "the servers differ in CDNSKEY");
    }
    for server in facts.working() {
        let (cds, cdnskey) = (cds_of(facts, server), cdnskey_of(facts, server));
        match (cds.is_empty(), cdnskey.is_empty()) {
            (false, true) => findings
                .at(server, Probe::Cds)
                .notice("DS15_HAS_CDS_NO_CDNSKEY", format!("{} has CDS but no CDNSKEY", server.label())),
            (true, false) => findings
                .at(server, Probe::Cds)
                .notice("DS15_HAS_CDNSKEY_NO_CDS", format!("{} has CDNSKEY but no CDS", server.label())),
            (true, true) => findings
                .at(server, Probe::Cds)
                .info("DS15_NO_CDS_CDNSKEY", format!("{} has neither CDS nor CDNSKEY", server.label())),
            (false, false) => {
                let tags: BTreeSet<u16> = cds.iter().map(|cds| cds.key_tag()).collect();
                let keys: BTreeSet<u16> = cdnskey.iter().filter_map(|key| key_tag(key)).collect();
                let deletes = cds.iter().any(|cds| cds.is_delete()) && cdnskey.iter().any(|key| key.is_delete());
                match tags == keys || deletes {
                    true => findings
                        .at(server, Probe::Cds)
                        .info("DS15_HAS_CDS_AND_CDNSKEY", format!("{} has CDS and CDNSKEY that match", server.label())),
                    false => findings.at(server, Probe::Cds).error(
                        "DS15_MISMATCH_CDS_CDNSKEY",
                        format!("CDS and CDNSKEY at {} do not match", server.label()),
                    ),
                }
            }
        }
    }
}

fn key_tag(key: &CDNSKEY) -> Option<u16> {
    let public = key.public_key()?;
    hickory_proto::dnssec::rdata::DNSKEY::with_flags(key.flags(), public).calculate_key_tag().ok()
}

fn cds(facts: &Facts, findings: &mut Findings, server: &Server) {
    let cds = cds_of(facts, server);
    if cds.is_empty() {
        return;
    }
    let label = server.label();
    let deletes = cds.iter().filter(|cds| cds.is_delete()).count();
    if deletes > 0 {
        match cds.len() {
            1 => findings
                .at(server, Probe::Cds)
                .info("DS16_DELETE_CDS", format!("{label} asks the parent to remove the DS")),
            _ => findings
                .at(server, Probe::Cds)
                .error("DS16_MIXED_DELETE_CDS", format!("{label} asks the parent to remove the DS and to have others")),
        }
        return;
    }
    let keys = keys_of(facts, server);
    if keys.is_empty() {
        findings.at(server, Probe::Cds).error("DS16_CDS_WITHOUT_DNSKEY", format!("{label} has CDS but no keys"));
        return;
    }
    for cds in &cds {
        let key = keys.iter().find(|key| key.calculate_key_tag().is_ok_and(|tag| tag == cds.key_tag()));
        match key {
            None => findings.at(server, Probe::Cds).warning(
                "DS16_CDS_MATCHES_NO_DNSKEY",
                format!("the CDS for key {} at {label} is for a key that is not there", cds.key_tag()),
            ),
            Some(key) if !key.zone_key() => findings.at(server, Probe::Cds).error(
                "DS16_CDS_MATCHES_NON_ZONE_DNSKEY",
                format!("the CDS at {label} is for key {}, which may not sign", cds.key_tag()),
            ),
            Some(key) if !key.secure_entry_point() => findings.at(server, Probe::Cds).notice(
                "DS16_CDS_MATCHES_NON_SEP_DNSKEY",
                format!("the CDS at {label} is for key {}, which has no entry-point mark", cds.key_tag()),
            ),
            Some(_) => {}
        }
    }
    let tags: BTreeSet<u16> = cds.iter().map(|cds| cds.key_tag()).collect();
    let tags_signing = signed(
        facts,
        findings,
        server,
        Probe::Cds,
        RecordType::CDS,
        ["DS16_CDS_UNSIGNED", "DS16_CDS_INVALID_RRSIG", "DS16_CDS_SIGNED_BY_UNKNOWN_DNSKEY"],
    );
    if !tags_signing.is_empty() && tags.is_disjoint(&tags_signing) {
        findings.at(server, Probe::Cds).notice(
            "DS16_CDS_NOT_SIGNED_BY_CDS",
            format!("the CDS at {label} is not signed by the key that it is for"),
        );
    }
    let signing_keys: BTreeSet<u16> = apex_signatures(facts, server, Probe::Dnskey, RecordType::DNSKEY)
        .iter()
        .map(|signature| signature.input().key_tag)
        .collect();
    if !tags.is_subset(&signing_keys) {
        findings.at(server, Probe::Cds).warning(
            "DS16_DNSKEY_NOT_SIGNED_BY_CDS",
            format!("the keys at {label} are not signed by the key that the CDS is for"),
        );
    }
}

fn cdnskey(facts: &Facts, findings: &mut Findings, server: &Server) {
    let wanted = cdnskey_of(facts, server);
    if wanted.is_empty() {
        return;
    }
    let label = server.label();
    let deletes = wanted.iter().filter(|key| key.is_delete()).count();
    if deletes > 0 {
        match wanted.len() {
            1 => findings
                .at(server, Probe::Cdnskey)
                .info("DS17_DELETE_CDNSKEY", format!("{label} asks the parent to remove the DS")),
            _ => findings.at(server, Probe::Cdnskey).error(
                "DS17_MIXED_DELETE_CDNSKEY",
                format!("{label} asks the parent to remove the DS and to have others"),
            ),
        }
        return;
    }
    let keys = keys_of(facts, server);
    if keys.is_empty() {
        findings
            .at(server, Probe::Cdnskey)
            .error("DS17_CDNSKEY_WITHOUT_DNSKEY", format!("{label} has CDNSKEY but no keys"));
        return;
    }
    for key in &wanted {
        let bytes = key.public_key();
        let same = keys
            .iter()
            .any(|known| bytes.as_ref().is_some_and(|bytes| bytes.public_bytes() == known.public_key().public_bytes()));
        if !key.zone_key() {
            findings
                .at(server, Probe::Cdnskey)
                .error("DS17_CDNSKEY_IS_NON_ZONE", format!("a CDNSKEY at {label} may not sign"));
        } else if !same {
            findings
                .at(server, Probe::Cdnskey)
                .warning("DS17_CDNSKEY_MATCHES_NO_DNSKEY", format!("a CDNSKEY at {label} is a key that is not there"));
        } else if !key.secure_entry_point() {
            findings
                .at(server, Probe::Cdnskey)
                .notice("DS17_CDNSKEY_IS_NON_SEP", format!("a CDNSKEY at {label} has no entry-point mark"));
        }
    }
    let tags: BTreeSet<u16> = wanted.iter().filter_map(|key| key_tag(key)).collect();
    let signing = signed(
        facts,
        findings,
        server,
        Probe::Cdnskey,
        RecordType::CDNSKEY,
        ["DS17_CDNSKEY_UNSIGNED", "DS17_CDNSKEY_INVALID_RRSIG", "DS17_CDNSKEY_SIGNED_BY_UNKNOWN_DNSKEY"],
    );
    if !signing.is_empty() && tags.is_disjoint(&signing) {
        findings.at(server, Probe::Cdnskey).notice(
            "DS17_CDNSKEY_NOT_SIGNED_BY_CDNSKEY",
            format!("the CDNSKEY at {label} is not signed by the key that it is"),
        );
    }
}

/// Judges the signatures over a set; the tags of the keys that signed it.
fn signed(
    facts: &Facts,
    findings: &mut Findings,
    server: &Server,
    probe: Probe,
    rtype: RecordType,
    [unsigned, invalid, unknown]: [&'static str; 3],
) -> BTreeSet<u16> {
    let label = server.label();
    let results = verify_apex(facts, server, probe, rtype);
    if results.is_empty() {
        findings.at(server, probe).error(unsigned, format!("{rtype} at {label} is not signed"));
    }
    for (tag, result) in &results {
        match result {
            Ok(()) => {}
            Err(Fault::NoKey) => findings
                .at(server, probe)
                .error(unknown, format!("{rtype} at {label} is signed with key {tag}, which is not there")),
            Err(_) => findings
                .at(server, probe)
                .error(invalid, format!("the signature over {rtype} by key {tag} at {label} is not valid")),
        }
    }
    results.into_iter().map(|(tag, _)| tag).collect()
}

/// The DS that is there must vouch for the wish to change it.
fn continuity(facts: &Facts, findings: &mut Findings) {
    findings.case("DNSSEC18");
    let ds: BTreeSet<u16> = facts.all_ds().iter().map(|ds| ds.key_tag()).collect();
    if ds.is_empty() {
        return;
    }
    for server in facts.working() {
        let sets = [
            (Probe::Cds, RecordType::CDS, "DS18_NO_MATCH_CDS_RRSIG_DS"),
            (Probe::Cdnskey, RecordType::CDNSKEY, "DS18_NO_MATCH_CDNSKEY_RRSIG_DS"),
        ];
        for (probe, rtype, tag) in sets {
            let signatures = apex_signatures(facts, server, probe, rtype);
            let by_ds = signatures.iter().any(|signature| ds.contains(&signature.input().key_tag));
            if !signatures.is_empty() && !by_ds {
                findings
                    .at(server, probe)
                    .error(tag, format!("{rtype} at {} is not signed by a key that has a DS", server.label()));
            }
        }
    }
}
