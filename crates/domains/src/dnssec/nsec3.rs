//! Proofs by hashed names (RFC 5155 §8).

use hickory_proto::dnssec::Nsec3HashAlgorithm;
use hickory_proto::dnssec::rdata::NSEC3;

use super::denial::{Proof, lacks};
use crate::wire::{Name, RecordType, show_name};

/// Iterations beyond which nobody should compute (RFC 9276 §3.2 allows to treat such zones as unsigned).
const MAX_ITERATIONS: u16 = 150;
/// The alphabet of hashed owner names (RFC 4648 §7).
const BASE32HEX: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";

type Records<'a> = [(&'a Name, &'a NSEC3)];

pub(super) fn prove_nxdomain(records: &Records<'_>, zone: &Name, name: &Name) -> Result<Proof, String> {
    let (encloser, opt_out) = closest_encloser(records, zone, name)?;
    let wildcard = encloser.prepend_label("*").map_err(|error| error.to_string())?;
    if covering(records, &wildcard)?.is_none() {
        return Err(format!("no NSEC3 record covers {}", show_name(&wildcard)));
    }
    Ok(if opt_out { Proof::OptOut } else { Proof::Complete })
}

pub(super) fn prove_nodata(
    records: &Records<'_>,
    zone: &Name,
    name: &Name,
    rtype: RecordType,
) -> Result<Proof, String> {
    if let Some(nsec3) = matching(records, name)? {
        return if lacks_type(nsec3, rtype) {
            Ok(Proof::Complete)
        } else {
            Err(format!("the NSEC3 record of {} says that the type exists", show_name(name)))
        };
    }
    let (encloser, opt_out) = closest_encloser(records, zone, name)?;
    let wildcard = encloser.prepend_label("*").map_err(|error| error.to_string())?;
    if let Some(nsec3) = matching(records, &wildcard)? {
        return if lacks_type(nsec3, rtype) {
            // An unsigned delegation may hide in the gap; then the wildcard does not speak for the name.
            Ok(if opt_out { Proof::OptOut } else { Proof::Complete })
        } else {
            Err(format!("the NSEC3 record of {} says that the type exists", show_name(&wildcard)))
        };
    }
    if opt_out {
        return Ok(Proof::OptOut);
    }
    Err(format!("no NSEC3 record is about {}", show_name(name)))
}

/// Proves that a name does not exist.
pub(super) fn prove_covered(records: &Records<'_>, name: &Name) -> Result<Proof, String> {
    match covering(records, name)? {
        Some(nsec3) if nsec3.opt_out() => Ok(Proof::OptOut),
        Some(_) => Ok(Proof::Complete),
        None => Err(format!("no NSEC3 record proves that {} does not exist", show_name(name))),
    }
}

/// The longest name above `name` that is proven to exist while the one below it is proven not to; and whether that proof
/// has the opt-out mark.
fn closest_encloser(records: &Records<'_>, zone: &Name, name: &Name) -> Result<(Name, bool), String> {
    let mut next_closer = name.to_lowercase();
    while next_closer != *zone && !next_closer.is_root() {
        let candidate = next_closer.base_name();
        if let Some(nsec3) = matching(records, &candidate)? {
            let types: Vec<RecordType> = nsec3.type_bit_maps().collect();
            let is_cut = types.contains(&RecordType::NS) && !types.contains(&RecordType::SOA);
            if is_cut || types.contains(&RecordType::DNAME) {
                return Err(format!("the NSEC3 record of {} says nothing about names below it", show_name(&candidate)));
            }
            return match covering(records, &next_closer)? {
                Some(nsec3) => Ok((candidate, nsec3.opt_out())),
                None => Err(format!("no NSEC3 record covers {}", show_name(&next_closer))),
            };
        }
        next_closer = candidate;
    }
    Err(format!("no NSEC3 record is about a name above {}", show_name(name)))
}

fn lacks_type(nsec3: &NSEC3, rtype: RecordType) -> bool {
    let types: Vec<RecordType> = nsec3.type_bit_maps().collect();
    lacks(&types, rtype)
}

fn matching<'a>(records: &Records<'a>, name: &Name) -> Result<Option<&'a NSEC3>, String> {
    for (owner, nsec3) in records {
        if first_label(owner) == hash(nsec3, name)? {
            return Ok(Some(nsec3));
        }
    }
    Ok(None)
}

fn covering<'a>(records: &Records<'a>, name: &Name) -> Result<Option<&'a NSEC3>, String> {
    for (owner, nsec3) in records {
        let (hashed, owner, next) = (hash(nsec3, name)?, first_label(owner), base32hex(nsec3.next_hashed_owner_name()));
        let covers = if owner < next { owner < hashed && hashed < next } else { hashed > owner || hashed < next };
        if covers {
            return Ok(Some(nsec3));
        }
    }
    Ok(None)
}

fn hash(nsec3: &NSEC3, name: &Name) -> Result<String, String> {
    if nsec3.iterations() > MAX_ITERATIONS {
        return Err(format!(
            "the zone asks for {} NSEC3 iterations, more than anybody should compute",
            nsec3.iterations()
        ));
    }
    let digest = Nsec3HashAlgorithm::SHA1.hash(nsec3.salt(), name, nsec3.iterations());
    Ok(base32hex(digest.map_err(|error| error.to_string())?.as_ref()))
}

fn first_label(name: &Name) -> String {
    name.iter().next().map(|label| String::from_utf8_lossy(label).to_lowercase()).unwrap_or_default()
}

/// Digits whose order is the order of the bytes.
fn base32hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 8 / 5 + 1);
    let (mut buffer, mut bits) = (0_u32, 0);
    for byte in bytes {
        buffer = (buffer << 8) | u32::from(*byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            text.push(char::from(BASE32HEX[((buffer >> bits) & 31) as usize]));
        }
        buffer &= (1 << bits) - 1;
    }
    if bits > 0 {
        text.push(char::from(BASE32HEX[((buffer << (5 - bits)) & 31) as usize]));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_written_as_in_the_examples_of_rfc_4648() {
        assert_eq!(base32hex(b"foobar"), "cpnmuoj1e8");
        assert_eq!(base32hex(b"foob"), "cpnmuog");
        assert_eq!(base32hex(b""), "");
    }
}
