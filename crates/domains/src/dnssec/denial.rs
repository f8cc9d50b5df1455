//! Proofs that something does not exist, by NSEC (RFC 4035 §5.4) or NSEC3 (see `nsec3`).

use hickory_proto::dnssec::rdata::{DNSKEY, DNSSECRData, NSEC};

use super::zones::Zones;
use super::{nsec3, signatures_of};
use crate::wire::{Name, RData, Record, RecordType, label_count, show_name};

/// How much is proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// Everything.
    Complete,
    /// Names without signatures may have been left out.
    OptOut,
}

/// The verified NSEC and NSEC3 records of an answer.
pub(super) struct Denials<'a> {
    pub(super) nsec: Vec<(&'a Name, &'a NSEC)>,
    pub(super) nsec3: Vec<(&'a Name, &'a hickory_proto::dnssec::rdata::NSEC3)>,
}

/// Collects the records of an authority section whose signatures are good; the reason of the first that is not.
fn verified<'a>(
    zones: &mut Zones<'_, '_>,
    authority: &'a [Record],
    keys: &[DNSKEY],
    zone: &Name,
) -> Result<Denials<'a>, String> {
    let mut found = Denials { nsec: Vec::new(), nsec3: Vec::new() };
    for record in authority {
        let RData::DNSSEC(data) = &record.data else { continue };
        let rtype = record.record_type();
        if !matches!(rtype, RecordType::NSEC | RecordType::NSEC3) || !zone.zone_of(&record.name) {
            continue;
        }
        let same = |other: &&Record| other.record_type() == rtype && other.name == record.name;
        let records: Vec<&Record> = authority.iter().filter(same).collect();
        let signatures = signatures_of(authority, &record.name, rtype);
        let good = zones.verify(&records, &signatures, keys, zone);
        good.map_err(|reason| format!("the {rtype} record of {}: {reason}", show_name(&record.name)))?;
        match data {
            DNSSECRData::NSEC(nsec) => found.nsec.push((&record.name, nsec)),
            DNSSECRData::NSEC3(nsec3) => found.nsec3.push((&record.name, nsec3)),
            _ => {}
        }
    }
    if found.nsec.is_empty() && found.nsec3.is_empty() {
        return Err("there is no NSEC or NSEC3 record".to_owned());
    }
    Ok(found)
}

/// Proves that a name does not exist and that no wildcard stands in for it.
pub(super) fn prove_nxdomain(
    zones: &mut Zones<'_, '_>,
    authority: &[Record],
    keys: &[DNSKEY],
    zone: &Name,
    name: &Name,
) -> Result<Proof, String> {
    let denials = verified(zones, authority, keys, zone)?;
    if !denials.nsec3.is_empty() {
        return nsec3::prove_nxdomain(&denials.nsec3, zone, name);
    }
    let (owner, nsec) =
        covering(&denials.nsec, zone, name).ok_or_else(|| format!("no NSEC record covers {}", show_name(name)))?;
    let wildcard = closest_encloser(name, owner, nsec).prepend_label("*").map_err(|error| error.to_string())?;
    covering(&denials.nsec, zone, &wildcard)
        .map(|_| Proof::Complete)
        .ok_or_else(|| format!("no NSEC record covers {}", show_name(&wildcard)))
}

/// Proves that a name has no records of a type.
pub(super) fn prove_nodata(
    zones: &mut Zones<'_, '_>,
    authority: &[Record],
    keys: &[DNSKEY],
    zone: &Name,
    name: &Name,
    rtype: RecordType,
) -> Result<Proof, String> {
    let denials = verified(zones, authority, keys, zone)?;
    if !denials.nsec3.is_empty() {
        return nsec3::prove_nodata(&denials.nsec3, zone, name, rtype);
    }
    let lacks = |nsec: &NSEC| {
        let types: Vec<RecordType> = nsec.type_bit_maps().collect();
        lacks(&types, rtype)
    };
    if let Some((_, nsec)) = denials.nsec.iter().find(|(owner, _)| *owner == name) {
        return if lacks(nsec) {
            Ok(Proof::Complete)
        } else {
            Err(format!("the NSEC record of {} says that the type exists", show_name(name)))
        };
    }
    let (owner, nsec) =
        covering(&denials.nsec, zone, name).ok_or_else(|| format!("no NSEC record is about {}", show_name(name)))?;
    // An empty name has names below it, and so is before the next one.
    if name.zone_of(nsec.next_domain_name()) {
        return Ok(Proof::Complete);
    }
    let wildcard = closest_encloser(name, owner, nsec).prepend_label("*").map_err(|error| error.to_string())?;
    match denials.nsec.iter().find(|(owner, _)| **owner == wildcard) {
        Some((_, nsec)) if lacks(nsec) => Ok(Proof::Complete),
        _ => Err(format!("no NSEC record says what {} has", show_name(&wildcard))),
    }
}

/// Proves that a wildcard may stand in for a name: that nothing closer exists.
pub(super) fn prove_no_closer_match(
    zones: &mut Zones<'_, '_>,
    authority: &[Record],
    keys: &[DNSKEY],
    zone: &Name,
    name: &Name,
    wildcard_labels: u8,
) -> Result<Proof, String> {
    let denials = verified(zones, authority, keys, zone)?;
    if !denials.nsec3.is_empty() {
        let next_closer = name.trim_to(usize::from(wildcard_labels) + 1);
        return nsec3::prove_covered(&denials.nsec3, &next_closer);
    }
    covering(&denials.nsec, zone, name)
        .map(|_| Proof::Complete)
        .ok_or_else(|| format!("no NSEC record proves that {} itself does not exist", show_name(name)))
}

/// Whether a type and what could stand in for it are absent from a bitmap.
pub(super) fn lacks(types: &[RecordType], rtype: RecordType) -> bool {
    let has = |wanted| types.contains(&wanted);
    if has(rtype) || (has(RecordType::CNAME) && rtype != RecordType::CNAME) {
        return false;
    }
    match rtype {
        // The parent's side of a cut says what there is about the DS, the child's side about everything else.
        RecordType::DS => !has(RecordType::SOA),
        _ => !has(RecordType::NS) || has(RecordType::SOA),
    }
}

/// The NSEC record in whose gap a name is. A record of a delegation or a DNAME says nothing about names below it.
fn covering<'a>(nsec: &[(&'a Name, &'a NSEC)], zone: &Name, name: &Name) -> Option<(&'a Name, &'a NSEC)> {
    let covers = |(owner, nsec): &&(&Name, &NSEC)| {
        let next = nsec.next_domain_name();
        let in_gap = if next == zone { *owner < name } else { *owner < name && name < next };
        let types: Vec<RecordType> = nsec.type_bit_maps().collect();
        let is_cut = types.contains(&RecordType::NS) && !types.contains(&RecordType::SOA);
        let hides_below = owner.zone_of(name) && (is_cut || types.contains(&RecordType::DNAME));
        in_gap && !hides_below
    };
    nsec.iter().find(covers).copied()
}

/// The longest name above `name` that exists, by the ends of the gap.
fn closest_encloser(name: &Name, owner: &Name, nsec: &NSEC) -> Name {
    let common = |other: &Name| {
        let (mut ours, mut theirs) = (name.to_lowercase(), other.to_lowercase());
        while label_count(&ours) > label_count(&theirs) {
            ours = ours.base_name();
        }
        while label_count(&theirs) > label_count(&ours) {
            theirs = theirs.base_name();
        }
        while ours != theirs && !ours.is_root() {
            (ours, theirs) = (ours.base_name(), theirs.base_name());
        }
        ours
    };
    let (by_owner, by_next) = (common(owner), common(nsec.next_domain_name()));
    if label_count(&by_owner) >= label_count(&by_next) { by_owner } else { by_next }
}
