//! One RRset and its signatures.

use hickory_proto::dnssec::Verifier;
use hickory_proto::dnssec::rdata::{DNSKEY, RRSIG};
use jiff::Timestamp;

use crate::wire::{DNSClass, Name, Record, show_name};

/// Signatures of one RRset that are tried; more is an attack on our time (KeyTrap).
const MAX_SIGNATURES: usize = 8;
/// Keys with the same tag that are tried for one signature.
const MAX_KEYS_WITH_TAG: usize = 4;

/// A signature that is good.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verified {
    /// The records come from a wildcard below the name with this many labels.
    pub(super) wildcard: Option<u8>,
}

/// Seconds since 1970 in the 32-bit arithmetic of signatures.
pub(super) fn serial_time(now: Timestamp) -> u32 {
    // Truncation is the arithmetic of RFC 4034 §3.1.5.
    (now.as_second() & 0xffff_ffff) as u32
}

/// The time that a signature's field means, near `now`.
pub(crate) fn full_time(field: u32, now: Timestamp) -> Timestamp {
    let distance = i64::from(field.wrapping_sub(serial_time(now)).cast_signed());
    Timestamp::from_second(now.as_second() + distance).unwrap_or(now)
}

/// Finds a good signature among those given; the reason of the best failure otherwise. `spent` counts verifications.
pub(super) fn verify(
    records: &[&Record],
    signatures: &[&RRSIG],
    keys: &[DNSKEY],
    zone: &Name,
    now: Timestamp,
    spent: &mut usize,
) -> Result<(Verified, u32), String> {
    let Some(first) = records.first() else { return Err("there are no records to verify".to_owned()) };
    let owner_labels = first.name.num_labels();
    let mut reason = (0, "it is not signed".to_owned());
    let mut fail = |rank: u8, text: String| {
        if rank >= reason.0 {
            reason = (rank, text);
        }
    };
    for signature in signatures.iter().take(MAX_SIGNATURES) {
        let input = signature.input();
        if input.signer_name != *zone || input.num_labels > owner_labels {
            fail(1, format!("its signature is by {}, not by {}", show_name(&input.signer_name), show_name(zone)));
            continue;
        }
        let (begin, end) = (full_time(input.sig_inception.get(), now), full_time(input.sig_expiration.get(), now));
        if end < now {
            fail(4, format!("its signature ended on {}", day(end)));
            continue;
        }
        if begin > now {
            fail(4, format!("its signature begins only on {}", day(begin)));
            continue;
        }
        let fitting = keys.iter().filter(|key| {
            key.zone_key()
                && !key.revoke()
                && hickory_proto::dnssec::PublicKey::algorithm(key.public_key()) == input.algorithm
                && key.calculate_key_tag().is_ok_and(|tag| tag == input.key_tag)
        });
        let mut fitting = fitting.take(MAX_KEYS_WITH_TAG).peekable();
        if fitting.peek().is_none() {
            fail(2, format!("it is signed with key {}, which {} does not have", input.key_tag, show_name(zone)));
            continue;
        }
        for key in fitting {
            *spent += 1;
            if key.verify_rrsig(&first.name, DNSClass::IN, signature, records.iter().copied()).is_ok() {
                let wildcard =
                    (input.num_labels < owner_labels && !first.name.is_wildcard()).then_some(input.num_labels);
                return Ok((Verified { wildcard }, input.sig_expiration.get()));
            }
            fail(3, format!("its signature by key {} is wrong", input.key_tag));
        }
    }
    Err(reason.1)
}

fn day(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M UTC").to_string()
}
