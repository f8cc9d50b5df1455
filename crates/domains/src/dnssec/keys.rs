//! DS records and the keys they stand for.

use hickory_proto::dnssec::rdata::{DNSKEY, DNSSECRData, DS};
use hickory_proto::dnssec::{Algorithm, DigestType};

use crate::seams::Anchor;
use crate::wire::{Name, RData, Record, show_name};

/// Keys of one zone that are looked at; more is an attack on our time.
const MAX_KEYS: usize = 32;

/// The keys among records.
pub(crate) fn dnskeys<'a>(records: impl IntoIterator<Item = &'a Record>) -> Vec<DNSKEY> {
    let keys = records.into_iter().filter_map(|record| match &record.data {
        RData::DNSSEC(DNSSECRData::DNSKEY(key)) => Some(key.clone()),
        _ => None,
    });
    keys.take(MAX_KEYS).collect()
}

/// The DS records among records.
pub(crate) fn ds_records<'a>(records: impl IntoIterator<Item = &'a Record>) -> Vec<DS> {
    let all = records.into_iter().filter_map(|record| match &record.data {
        RData::DNSSEC(DNSSECRData::DS(ds)) => Some(ds.clone()),
        _ => None,
    });
    all.take(MAX_KEYS).collect()
}

/// The configured anchors as DS records; those that are not well formed are left out.
pub(super) fn anchors(anchors: &[Anchor]) -> Vec<DS> {
    let decode = |text: &str| -> Option<Vec<u8>> {
        let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        digits.chunks(2).map(pair).collect()
    };
    let ds = anchors.iter().filter_map(|anchor| {
        let digest = decode(&anchor.digest)?;
        Some(DS::new(
            anchor.key_tag,
            Algorithm::from_u8(anchor.algorithm),
            DigestType::from(anchor.digest_type),
            digest,
        ))
    });
    ds.collect()
}

/// Whether we can judge a key that this DS stands for.
pub(crate) fn is_supported(ds: &DS) -> bool {
    ds.algorithm().is_supported() && ds.digest_type().is_supported()
}

/// The keys that a DS set vouches for; a reason when there are none.
pub(super) fn vouched(zone: &Name, ds_set: &[DS], keys: &[DNSKEY]) -> Result<Vec<DNSKEY>, String> {
    let vouches = |key: &&DNSKEY| {
        let usable = ds_set.iter().filter(|ds| is_supported(ds));
        key.zone_key() && usable.into_iter().any(|ds| ds.covers(zone, key).unwrap_or(false))
    };
    let vouched: Vec<DNSKEY> = keys.iter().filter(vouches).cloned().collect();
    if !vouched.is_empty() {
        return Ok(vouched);
    }
    let wanted: Vec<String> = ds_set.iter().map(|ds| ds.key_tag().to_string()).collect();
    let present: Vec<String> =
        keys.iter().filter_map(|key| key.calculate_key_tag().ok()).map(|tag| tag.to_string()).collect();
    Err(match present.is_empty() {
        true => format!(
            "the parent of {} has a DS for key {}, but the zone has no keys",
            show_name(zone),
            wanted.join(", ")
        ),
        false => format!(
            "the parent of {} has a DS for key {}, but the zone has only key {}",
            show_name(zone),
            wanted.join(", "),
            present.join(", ")
        ),
    })
}
