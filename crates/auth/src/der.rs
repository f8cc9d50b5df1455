//! The little of DER that certificates and keys are written in.

pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const SEQUENCE: u8 = 0x30;

/// An element with this tag.
pub(crate) fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len() + 6);
    out.push(tag);
    length(&mut out, content.len());
    out.extend_from_slice(content);
    out
}

/// A sequence of elements.
pub(crate) fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    element(SEQUENCE, &parts.concat())
}

/// A number that is not negative, given in big-endian bytes.
pub(crate) fn unsigned(bytes: &[u8]) -> Vec<u8> {
    /// The sign bit of the first byte: a zero byte goes before it.
    const SIGN: u8 = 0x80;
    let mut content = without_leading_zeros(bytes).to_vec();
    if content.first().is_none_or(|first| first & SIGN != 0) {
        content.insert(0, 0);
    }
    element(INTEGER, &content)
}

/// A bit string of whole bytes.
pub(crate) fn bit_string(bytes: &[u8]) -> Vec<u8> {
    let mut content = vec![0];
    content.extend_from_slice(bytes);
    element(BIT_STRING, &content)
}

pub(crate) fn without_leading_zeros(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes.get(zeros..).unwrap_or_default()
}

fn length(out: &mut Vec<u8>, length: usize) {
    const LONG_FORM: u8 = 0x80;
    let bytes = length.to_be_bytes();
    let significant = without_leading_zeros(&bytes);
    match u8::try_from(length) {
        Ok(short) if short < LONG_FORM => out.push(short),
        _ => {
            // At most eight bytes of a usize.
            out.push(LONG_FORM | significant.len() as u8);
            out.extend_from_slice(significant);
        }
    }
}
