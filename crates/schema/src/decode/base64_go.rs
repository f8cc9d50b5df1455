//! Base64 as Go's standard decoder takes it: line breaks are skipped, left-over bits ignored, and errors name the byte.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Text that is not base64, in Go's words.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("illegal base64 data at input byte {0}")]
pub(crate) struct CorruptInput(usize);

/// The text as Go would print it back.
pub(super) fn canonical(text: Cow<'_, str>) -> Result<Cow<'_, str>, CorruptInput> {
    // The strict decoder accepts exactly the canonical texts, so those need no second look.
    if STANDARD.decode(text.as_bytes()).is_ok() {
        return Ok(text);
    }
    decode(text.as_bytes()).map(|bytes| Cow::Owned(encode(&bytes)))
}

pub(crate) fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Decodes the way Go does.
pub(crate) fn decode(text: &[u8]) -> Result<Vec<u8>, CorruptInput> {
    if let Ok(bytes) = STANDARD.decode(text) {
        return Ok(bytes);
    }
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 3);
    let mut at = 0;
    loop {
        let mut quantum = [0u8; 4];
        let mut filled = 0;
        let mut padded = false;
        while filled < 4 {
            let Some(&c) = text.get(at) else {
                return if filled == 0 { Ok(out) } else { Err(CorruptInput(at - filled)) };
            };
            at += 1;
            if let Some(value) = sextet(c) {
                if let Some(slot) = quantum.get_mut(filled) {
                    *slot = value;
                }
                filled += 1;
            } else if c == b'\n' || c == b'\r' {
                continue;
            } else if c != b'=' || filled < 2 {
                return Err(CorruptInput(at - 1));
            } else {
                if filled == 2 {
                    at = skip_newlines(text, at);
                    match text.get(at) {
                        None => return Err(CorruptInput(text.len())),
                        Some(b'=') => at += 1,
                        Some(_) => return Err(CorruptInput(at - 1)),
                    }
                }
                at = skip_newlines(text, at);
                if at < text.len() {
                    return Err(CorruptInput(at));
                }
                padded = true;
                break;
            }
        }
        let [a, b, c, d] = quantum;
        let bytes = [a << 2 | b >> 4, b << 4 | c >> 2, c << 6 | d];
        let count = if padded { filled - 1 } else { 3 };
        out.extend(bytes.iter().take(count));
    }
}

fn skip_newlines(text: &[u8], mut at: usize) -> usize {
    while matches!(text.get(at), Some(b'\n' | b'\r')) {
        at += 1;
    }
    at
}

fn sextet(c: u8) -> Option<u8> {
    match c {
        b'A'..=b'Z' => Some(c - b'A'),
        b'a'..=b'z' => Some(c - b'a' + 26),
        b'0'..=b'9' => Some(c - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}
