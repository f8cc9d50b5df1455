//! DNSSEC01 to 06, 13 and 14: DS digests, keys, algorithms, NSEC3 parameters and signature lifetimes.

use std::collections::{BTreeMap, BTreeSet};

use hickory_proto::dnssec::rdata::{DNSKEY, DNSSECRData, RRSIG};
use hickory_proto::dnssec::{PublicKey, Verifier};
use jiff::SignedDuration;

use super::probe::{Probe, Server};
use super::{Facts, Findings};
use crate::dnssec::{dnskeys, full_time, signatures_of};
use crate::wire::{DNSClass, RData, Record, RecordType, ResponseCode, Section, show_name};

/// Zonemaster's bounds for the time that signatures have left, and for their whole life.
const REMAINING_SHORT: SignedDuration = SignedDuration::from_hours(12);
const REMAINING_LONG: SignedDuration = SignedDuration::from_hours(180 * 24);
const DURATION_LONG: SignedDuration = SignedDuration::from_hours(180 * 24);
/// NSEC3 iterations should be none (RFC 9276 §3.1).
const ITERATIONS_MOST: u16 = 0;

pub(super) fn check(facts: &Facts, findings: &mut Findings) {
    digests(facts, findings);
    if !facts.is_signed() {
        return;
    }
    ds_and_keys(facts, findings);
    nsec3_parameters(facts, findings);
    lifetimes(facts, findings);
    algorithms(facts, findings);
    extra_processing(facts, findings);
    completeness(facts, findings);
    key_sizes(facts, findings);
}

/// The keys of a server's answer.
pub(super) fn keys_of(facts: &Facts, server: &Server) -> Vec<DNSKEY> {
    dnskeys(server.apex(Probe::Dnskey, &facts.zone, RecordType::DNSKEY))
}

/// The signatures over the apex records of a probe.
pub(super) fn apex_signatures<'a>(
    facts: &Facts,
    server: &'a Server,
    probe: Probe,
    rtype: RecordType,
) -> Vec<&'a RRSIG> {
    let answer = server.answer(probe);
    answer.map(|answer| signatures_of(answer.section(Section::Answer), &facts.zone, rtype)).unwrap_or_default()
}

fn digests(facts: &Facts, findings: &mut Findings) {
    findings.case("DNSSEC01");
    let zone = show_name(&facts.zone);
    let answered: Vec<_> = facts.ds.iter().filter_map(|(address, ds)| Some((address, ds.as_ref()?))).collect();
    for (address, _) in facts.ds.iter().filter(|(_, ds)| ds.is_none()) {
        findings.warning(
            "DS01_NO_RESPONSE",
            format!("the parent's server {address} does not answer the question for the DS"),
        );
    }
    let with = answered.iter().filter(|(_, ds)| !ds.is_empty()).count();
    if with == 0 {
        findings.notice("DS01_PARENT_ZONE_NO_DS", format!("the parent has no DS for {zone}"));
        return;
    }
    for (address, _) in answered.iter().filter(|(_, ds)| ds.is_empty()) {
        findings.error(
            "DS01_PARENT_SERVER_NO_DS",
            format!("the parent's server {address} has no DS, although others have"),
        );
    }
    let types: BTreeSet<u8> = facts.all_ds().iter().map(|ds| u8::from(ds.digest_type())).collect();
    for digest in &types {
        match digest {
            0 => findings.error("DS01_DS_ALGO_RESERVED", "a DS has the reserved digest type 0"),
            1 | 3 => findings.error("DS01_DS_ALGO_DEPRECATED", format!("a DS has the deprecated digest type {digest}")),
            2 | 4 => findings.info("DS01_DS_ALGO_OK", format!("a DS has digest type {digest}")),
            5 | 6 => findings.info("DS01_DS_ALGO_OK", format!("a DS has digest type {digest}")),
            128..=252 => findings.error("DS01_DS_ALGO_RESERVED", format!("a DS has the reserved digest type {digest}")),
            253 | 254 => findings.error("DS01_DS_ALGO_PRIVATE", format!("a DS has the private digest type {digest}")),
            _ => findings.error("DS01_DS_ALGO_UNASSIGNED", format!("a DS has the unassigned digest type {digest}")),
        }
    }
    if !types.contains(&2) {
        findings.notice("DS01_DS_ALGO_2_MISSING", "there is no DS with SHA-256, which every resolver knows");
    }
}

fn ds_and_keys(facts: &Facts, findings: &mut Findings) {
    findings.case("DNSSEC02");
    let ds_set = facts.all_ds();
    if ds_set.is_empty() {
        return;
    }
    for server in facts.working() {
        let records = server.apex(Probe::Dnskey, &facts.zone, RecordType::DNSKEY);
        let keys = dnskeys(records.iter().copied());
        if keys.is_empty() {
            continue;
        }
        let signatures = apex_signatures(facts, server, Probe::Dnskey, RecordType::DNSKEY);
        let mut any = false;
        for ds in &ds_set {
            let Some(key) = keys.iter().find(|key| key.calculate_key_tag().is_ok_and(|tag| tag == ds.key_tag())) else {
                findings.at(server, Probe::Dnskey).warning(
                    "DS02_NO_DNSKEY_FOR_DS",
                    format!("{} has no key {} for the DS", server.label(), ds.key_tag()),
                );
                continue;
            };
            if !ds.covers(&facts.zone, key).unwrap_or(false) {
                findings.at(server, Probe::Dnskey).error(
                    "DS02_NO_MATCH_DS_DNSKEY",
                    format!("the DS for key {} is not that of the key at {}", ds.key_tag(), server.label()),
                );
                continue;
            }
            if !key.zone_key() {
                findings
                    .error("DS02_DNSKEY_NOT_FOR_ZONE_SIGNING", format!("key {} may not sign the zone", ds.key_tag()));
            }
            if !key.secure_entry_point() {
                findings
                    .notice("DS02_DNSKEY_NOT_SEP", format!("key {} has a DS but no entry-point mark", ds.key_tag()));
            }
            let by: Vec<&&RRSIG> =
                signatures.iter().filter(|signature| signature.input().key_tag == ds.key_tag()).collect();
            if by.is_empty() {
                findings.at(server, Probe::Dnskey).warning(
                    "DS02_NO_MATCHING_DNSKEY_RRSIG",
                    format!("the keys at {} are not signed with key {}", server.label(), ds.key_tag()),
                );
                continue;
            }
            let valid = by.iter().any(|signature| {
                key.verify_rrsig(&facts.zone, DNSClass::IN, signature, records.iter().copied()).is_ok()
            });
            match valid {
                true => any = true,
                false => findings.at(server, Probe::Dnskey).error(
                    "DS02_RRSIG_NOT_VALID_BY_DNSKEY",
                    format!("the signature of key {} at {} is wrong", ds.key_tag(), server.label()),
                ),
            }
        }
        if !any {
            findings.at(server, Probe::Dnskey).error(
                "DS02_NO_VALID_DNSKEY_FOR_ANY_DS",
                format!("no DS leads to a valid key at {}: validating resolvers cannot use the zone", server.label()),
            );
        }
    }
}

fn nsec3_parameters(facts: &Facts, findings: &mut Findings) {
    findings.case("DNSSEC03");
    let mut seen: BTreeSet<(u16, usize, bool)> = BTreeSet::new();
    for server in facts.working() {
        let Some(answer) = server.answer(Probe::Nsec) else { continue };
        for record in answer.section(Section::Authority) {
            if let RData::DNSSEC(DNSSECRData::NSEC3(nsec3)) = &record.data {
                seen.insert((nsec3.iterations(), nsec3.salt().len(), nsec3.opt_out()));
            }
        }
    }
    if seen.is_empty() {
        findings.info("DS03_NO_NSEC3", "the zone does not use NSEC3");
        return;
    }
    for (iterations, salt, opt_out) in &seen {
        match *iterations > ITERATIONS_MOST {
            true => findings.warning(
                "DS03_ILLEGAL_ITERATION_VALUE",
                format!("NSEC3 uses {iterations} extra iterations; none are advised"),
            ),
            false => findings.info("DS03_LEGAL_ITERATION_VALUE", "NSEC3 uses no extra iterations"),
        }
        match *salt > 0 {
            true => findings
                .warning("DS03_ILLEGAL_SALT_LENGTH", format!("NSEC3 uses a salt of {salt} bytes; none is advised")),
            false => findings.info("DS03_LEGAL_EMPTY_SALT", "NSEC3 uses no salt"),
        }
        if *opt_out && facts.zone.num_labels() > 1 {
            findings.notice("DS03_NSEC3_OPT_OUT_ENABLED_NON_TLD", "NSEC3 leaves unsigned delegations out (opt-out)");
        }
    }
    let distinct = |values: BTreeSet<usize>| values.len() > 1;
    if distinct(seen.iter().map(|(iterations, ..)| usize::from(*iterations)).collect()) {
        findings.error("DS03_INCONSISTENT_ITERATION", "the servers differ in NSEC3 iterations");
    }
    if distinct(seen.iter().map(|(_, salt, _)| *salt).collect()) {
        findings.error("DS03_INCONSISTENT_SALT_LENGTH", "the servers differ in the NSEC3 salt");
    }
}

fn lifetimes(facts: &Facts, findings: &mut Findings) {
    findings.case("DNSSEC04");
    let mut told: BTreeSet<(&'static str, String)> = BTreeSet::new();
    for server in facts.working() {
        for (probe, rtype) in [(Probe::Dnskey, RecordType::DNSKEY), (Probe::Soa, RecordType::SOA)] {
            for signature in apex_signatures(facts, server, probe, rtype) {
                let input = signature.input();
                let (begin, end) =
                    (full_time(input.sig_inception.get(), facts.now), full_time(input.sig_expiration.get(), facts.now));
                let (left, life) = (end.duration_since(facts.now), end.duration_since(begin));
                let (tag, text) = if left.is_negative() {
                    (
                        "RRSIG_EXPIRED",
                        format!(
                            "the signature over {rtype} by key {} ended on {}",
                            input.key_tag,
                            end.strftime("%F %H:%M UTC")
                        ),
                    )
                } else if left < REMAINING_SHORT {
                    (
                        "REMAINING_SHORT",
                        format!("the signature over {rtype} by key {} ends in less than 12 hours", input.key_tag),
                    )
                } else if left > REMAINING_LONG {
                    (
                        "REMAINING_LONG",
                        format!("the signature over {rtype} by key {} is good for more than 180 days", input.key_tag),
                    )
                } else if life > DURATION_LONG {
                    (
                        "DURATION_LONG",
                        format!("the signature over {rtype} by key {} lives for more than 180 days", input.key_tag),
                    )
                } else {
                    (
                        "DURATION_OK",
                        format!("the signature over {rtype} by key {} ends on {}", input.key_tag, end.strftime("%F")),
                    )
                };
                told.insert((tag, text));
            }
        }
    }
    for (tag, text) in told {
        match tag {
            "RRSIG_EXPIRED" => findings.error(tag, text),
            "DURATION_OK" => findings.info(tag, text),
            _ => findings.warning(tag, text),
        }
    }
}

fn algorithms(facts: &Facts, findings: &mut Findings) {
    findings.case("DNSSEC05");
    let mut seen: BTreeMap<u8, BTreeSet<u16>> = BTreeMap::new();
    for server in facts.working() {
        for key in keys_of(facts, server) {
            let tags = seen.entry(u8::from(key.public_key().algorithm())).or_default();
            tags.extend(key.calculate_key_tag().ok());
        }
    }
    for (algorithm, tags) in seen {
        let keys = tags.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
        match algorithm {
            1 | 3 | 6 | 12 => {
                findings.error("DS05_ALGO_DEPRECATED", format!("key {keys} has the deprecated algorithm {algorithm}"))
            }
            5 | 7 | 10 => findings.warning(
                "DS05_ALGO_NOT_RECOMMENDED",
                format!("key {keys} has algorithm {algorithm}, which is not recommended"),
            ),
            8 | 13..=16 => findings.info("DS05_ALGO_OK", format!("key {keys} has algorithm {algorithm}")),
            2 | 252 => findings.error(
                "DS05_ALGO_NOT_ZONE_SIGN",
                format!("key {keys} has algorithm {algorithm}, which is not for zones"),
            ),
            253 | 254 => {
                findings.error("DS05_ALGO_PRIVATE", format!("key {keys} has the private algorithm {algorithm}"))
            }
            0 | 4 | 9 | 11 | 123..=251 | 255 => {
                findings.error("DS05_ALGO_RESERVED", format!("key {keys} has the reserved algorithm {algorithm}"))
            }
            _ => findings.error("DS05_ALGO_UNASSIGNED", format!("key {keys} has the unassigned algorithm {algorithm}")),
        }
    }
}

/// A server that has keys must also send signatures when they are asked for.
fn extra_processing(facts: &Facts, findings: &mut Findings) {
    findings.case("DNSSEC06");
    for server in facts.working() {
        let Some(answer) = server.answer(Probe::Dnskey) else {
            findings
                .at(server, Probe::Dnskey)
                .warning("NO_RESPONSE_DNSKEY", format!("{} does not answer the question for the keys", server.label()));
            continue;
        };
        let keys = server.apex(Probe::Dnskey, &facts.zone, RecordType::DNSKEY).len();
        let signed = !apex_signatures(facts, server, Probe::Dnskey, RecordType::DNSKEY).is_empty();
        if answer.rcode() == ResponseCode::NoError && keys > 0 {
            match signed {
                true => findings
                    .at(server, Probe::Dnskey)
                    .info("EXTRA_PROCESSING_OK", format!("{} sends signatures", server.label())),
                false => findings
                    .at(server, Probe::Dnskey)
                    .error("EXTRA_PROCESSING_BROKEN", format!("{} sends keys without signatures", server.label())),
            }
        }
    }
}

fn completeness(facts: &Facts, findings: &mut Findings) {
    findings.case("DNSSEC13");
    for server in facts.working() {
        let algorithms: BTreeSet<u8> =
            keys_of(facts, server).iter().map(|key| u8::from(key.public_key().algorithm())).collect();
        let sets = [
            (Probe::Dnskey, RecordType::DNSKEY, "DS13_ALGO_NOT_SIGNED_DNSKEY"),
            (Probe::Soa, RecordType::SOA, "DS13_ALGO_NOT_SIGNED_SOA"),
            (Probe::Ns, RecordType::NS, "DS13_ALGO_NOT_SIGNED_NS"),
        ];
        for (probe, rtype, tag) in sets {
            let signatures = apex_signatures(facts, server, probe, rtype);
            if signatures.is_empty() {
                continue;
            }
            for algorithm in &algorithms {
                if !signatures.iter().any(|signature| u8::from(signature.input().algorithm) == *algorithm) {
                    findings.at(server, probe).warning(
                        tag,
                        format!(
                            "{} at {} is not signed with algorithm {algorithm}, although there is a key of it",
                            rtype,
                            server.label()
                        ),
                    );
                }
            }
        }
    }
}

fn key_sizes(facts: &Facts, findings: &mut Findings) {
    findings.case("DNSSEC14");
    let mut told = BTreeSet::new();
    for server in facts.working() {
        for key in keys_of(facts, server) {
            let algorithm = u8::from(key.public_key().algorithm());
            let Some(bits) = rsa_bits(algorithm, key.public_key().public_bytes()) else { continue };
            let tag = key.calculate_key_tag().unwrap_or(0);
            if !told.insert((tag, bits)) {
                continue;
            }
            let least = if algorithm == 10 { 1024 } else { 512 };
            match bits {
                bits if bits < least => findings
                    .error("DNSKEY_TOO_SMALL_FOR_ALGO", format!("key {tag} has {bits} bits; {least} are the least")),
                bits if bits > 4096 => {
                    findings.error("DNSKEY_TOO_LARGE_FOR_ALGO", format!("key {tag} has {bits} bits; 4096 are the most"))
                }
                bits if bits < 2048 => findings
                    .warning("DNSKEY_SMALLER_THAN_REC", format!("key {tag} has {bits} bits; 2048 are recommended")),
                bits => findings.info("KEY_SIZE_OK", format!("key {tag} has {bits} bits")),
            }
        }
    }
}

/// The length of an RSA modulus (RFC 3110 §2).
fn rsa_bits(algorithm: u8, key: &[u8]) -> Option<usize> {
    if !matches!(algorithm, 5 | 7 | 8 | 10) {
        return None;
    }
    let (exponent, rest) = match key.split_first()? {
        (0, rest) => {
            let (length, rest) = rest.split_first_chunk::<2>()?;
            (usize::from(u16::from_be_bytes(*length)), rest)
        }
        (length, rest) => (usize::from(*length), rest),
    };
    let modulus = rest.get(exponent..)?;
    let zeros = modulus.iter().take_while(|byte| **byte == 0).count();
    let first = modulus.get(zeros)?;
    Some((modulus.len() - zeros) * 8 - first.leading_zeros() as usize)
}

/// Records by reference, for signatures.
pub(super) fn verify_apex(
    facts: &Facts,
    server: &Server,
    probe: Probe,
    rtype: RecordType,
) -> Vec<(u16, Result<(), Fault>)> {
    let records: Vec<&Record> = server.apex(probe, &facts.zone, rtype);
    let keys = keys_of(facts, server);
    apex_signatures(facts, server, probe, rtype)
        .into_iter()
        .map(|signature| (signature.input().key_tag, verify(facts, &records, signature, &keys)))
        .collect()
}

/// What is wrong with a signature.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    Expired,
    NotYetValid,
    NoKey,
    Wrong,
}

pub(super) fn verify(facts: &Facts, records: &[&Record], signature: &RRSIG, keys: &[DNSKEY]) -> Result<(), Fault> {
    let input = signature.input();
    if full_time(input.sig_expiration.get(), facts.now) < facts.now {
        return Err(Fault::Expired);
    }
    if full_time(input.sig_inception.get(), facts.now) > facts.now {
        return Err(Fault::NotYetValid);
    }
    let mut fitting =
        keys.iter().filter(|key| key.calculate_key_tag().is_ok_and(|tag| tag == input.key_tag)).peekable();
    if fitting.peek().is_none() {
        return Err(Fault::NoKey);
    }
    let Some(first) = records.first() else { return Err(Fault::Wrong) };
    let good =
        fitting.any(|key| key.verify_rrsig(&first.name, DNSClass::IN, signature, records.iter().copied()).is_ok());
    if good { Ok(()) } else { Err(Fault::Wrong) }
}
