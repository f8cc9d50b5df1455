//! The extensions of a certificate, and what the API's names of usages mean in them.

use super::SigningError;
use crate::der::{self, element, sequence};

/// DER object identifiers of extensions.
pub(super) const BASIC_CONSTRAINTS: &[u8] = &[0x06, 0x03, 0x55, 0x1d, 0x13];
const KEY_USAGE: &[u8] = &[0x06, 0x03, 0x55, 0x1d, 0x0f];
const EXTENDED_KEY_USAGE: &[u8] = &[0x06, 0x03, 0x55, 0x1d, 0x25];
pub(super) const AUTHORITY_KEY_ID: &[u8] = &[0x06, 0x03, 0x55, 0x1d, 0x23];
pub(super) const SUBJECT_ALT_NAME: &[u8] = &[0x06, 0x03, 0x55, 0x1d, 0x11];

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Critical {
    Yes,
    No,
}

pub(super) fn extension(oid: &[u8], critical: Critical, value: &[u8]) -> Vec<u8> {
    const TRUE: &[u8] = &[0x01, 0x01, 0xff];
    let critical: &[u8] = if critical == Critical::Yes { TRUE } else { &[] };
    sequence(&[oid, critical, &element(der::OCTET_STRING, value)])
}

/// Bits of the key usage extension, by the names of the API.
const KEY_USAGES: [(&str, u8); 10] = [
    ("signing", 0),
    ("digital signature", 0),
    ("content commitment", 1),
    ("key encipherment", 2),
    ("data encipherment", 3),
    ("key agreement", 4),
    ("cert sign", 5),
    ("crl sign", 6),
    ("encipher only", 7),
    ("decipher only", 8),
];

/// Purposes by the names of the API: DER object identifiers.
const EXTENDED_USAGES: [(&str, &[u8]); 13] = [
    ("any", &[0x06, 0x04, 0x55, 0x1d, 0x25, 0x00]),
    ("server auth", &[0x06, 0x08, 0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01]),
    ("client auth", &[0x06, 0x08, 0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x02]),
    ("code signing", &[0x06, 0x08, 0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x03]),
    ("email protection", &[0x06, 0x08, 0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x04]),
    ("s/mime", &[0x06, 0x08, 0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x04]),
    ("ipsec end system", &[0x06, 0x08, 0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x05]),
    ("ipsec tunnel", &[0x06, 0x08, 0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x06]),
    ("ipsec user", &[0x06, 0x08, 0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x07]),
    ("timestamping", &[0x06, 0x08, 0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x08]),
    ("ocsp signing", &[0x06, 0x08, 0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x09]),
    ("microsoft sgc", &[0x06, 0x0a, 0x2b, 0x06, 0x01, 0x04, 0x01, 0x82, 0x37, 0x0a, 0x03, 0x03]),
    ("netscape sgc", &[0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x86, 0xf8, 0x42, 0x04, 0x01]),
];

/// The extensions that say what a certificate may be used for; an error for what nobody knows.
pub(super) fn usage_extensions(usages: &[String]) -> Result<Vec<Vec<u8>>, SigningError> {
    let mut bits: u16 = 0;
    let mut purposes: Vec<&[u8]> = Vec::new();
    let mut unknown = Vec::new();
    for usage in usages {
        if let Some((_, bit)) = KEY_USAGES.iter().find(|(name, _)| name == usage) {
            bits |= 0x8000 >> bit;
        } else if let Some((_, oid)) = EXTENDED_USAGES.iter().find(|(name, _)| name == usage) {
            if !purposes.contains(oid) {
                purposes.push(oid);
            }
        } else {
            unknown.push(usage.clone());
        }
    }
    if !unknown.is_empty() {
        return Err(SigningError::Usages(unknown));
    }
    let mut extensions = Vec::new();
    if bits != 0 {
        let bytes = bits.to_be_bytes();
        let length = if bits & 0xff == 0 { 1 } else { 2 };
        // DER: the bits after the last set one are not there.
        let unused = (bits.trailing_zeros() % 8) as u8;
        let mut content = vec![unused];
        content.extend(bytes.iter().take(length));
        extensions.push(extension(KEY_USAGE, Critical::Yes, &element(der::BIT_STRING, &content)));
    }
    if !purposes.is_empty() {
        extensions.push(extension(EXTENDED_KEY_USAGE, Critical::No, &sequence(&purposes)));
    }
    Ok(extensions)
}
