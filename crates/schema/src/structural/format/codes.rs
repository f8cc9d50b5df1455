//! Identifiers, numbers with check digits, colours and base64.

/// Standard base64 with padding; nothing at all is not base64.
pub(super) fn is_base64(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.is_empty() || !bytes.len().is_multiple_of(4) {
        return false;
    }
    let padding = bytes.iter().rev().take(2).take_while(|b| **b == b'=').count();
    bytes.iter().take(bytes.len() - padding).all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/'))
}

pub(super) fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|b| b.is_ascii_hexdigit())
}

/// `rgb(1, 2, 3)`, each up to 255 and without leading zeros.
pub(super) fn is_rgb_color(text: &str) -> bool {
    let Some(inside) = text.strip_prefix("rgb(").and_then(|t| t.strip_suffix(')')) else { return false };
    let mut parts = 0;
    for part in inside.split(',') {
        parts += 1;
        let part = part.trim_matches(|c| matches!(c, '\t' | '\n' | '\u{c}' | '\r' | ' '));
        let digits = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let plain = part == "0" || !part.starts_with('0');
        if !digits || !plain || part.parse::<u8>().is_err() {
            return false;
        }
    }
    parts == 3
}

/// A social security number with both separators: the length is fixed.
pub(super) fn is_ssn(text: &str) -> bool {
    text.len() == 11
        && text.bytes().enumerate().all(|(index, b)| match index {
            3 | 6 => matches!(b, b'-' | b' '),
            _ => b.is_ascii_digit(),
        })
}

/// Groups of hexadecimal digits, each dash optional. Versions 4 and 5 also fix the variant.
pub(super) fn is_uuid(text: &str, version: Option<u8>) -> bool {
    const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];
    let mut rest = text.as_bytes();
    for (group, length) in GROUPS.into_iter().enumerate() {
        if group > 0 && rest.first() == Some(&b'-') {
            rest = rest.get(1..).unwrap_or_default();
        }
        let Some((digits, after)) = rest.split_at_checked(length) else { return false };
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return false;
        }
        let first = digits.first().map(u8::to_ascii_lowercase);
        let fits = match (group, version) {
            (2, Some(version)) => first == Some(version),
            (3, Some(b'4' | b'5')) => matches!(first, Some(b'8' | b'9' | b'a' | b'b')),
            _ => true,
        };
        if !fits {
            return false;
        }
        rest = after;
    }
    rest.is_empty()
}

fn without_spaces_and_dashes(text: &str) -> Vec<u8> {
    text.bytes().filter(|b| !matches!(b, b'\t' | b'\n' | b'\x0c' | b'\r' | b' ' | b'-')).collect()
}

pub(super) fn is_isbn10(text: &str) -> bool {
    let digits = without_spaces_and_dashes(text);
    let Some((last, first)) = digits.split_last() else { return false };
    if first.len() != 9 || !first.iter().all(u8::is_ascii_digit) || !(last.is_ascii_digit() || *last == b'X') {
        return false;
    }
    let sum: u32 = (1..).zip(first).map(|(place, d)| place * u32::from(d - b'0')).sum();
    let check = if *last == b'X' { 10 } else { u32::from(last - b'0') };
    (sum + 10 * check).is_multiple_of(11)
}

pub(super) fn is_isbn13(text: &str) -> bool {
    let digits = without_spaces_and_dashes(text);
    if digits.len() != 13 || !digits.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let weighted = |(index, d): (usize, &u8)| u32::from(d - b'0') * if index % 2 == 0 { 1 } else { 3 };
    let sum: u32 = digits.iter().enumerate().map(weighted).sum();
    sum.is_multiple_of(10)
}

/// The number ranges of known issuers and Luhn's check digit; everything but digits is skipped.
pub(super) fn is_credit_card(text: &str) -> bool {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_digit).collect();
    let number = String::from_utf8_lossy(&digits);
    let prefix = |length: usize| number.get(..length).and_then(|p| p.parse::<u32>().ok()).unwrap_or_default();
    let known = match number.len() {
        13 => prefix(1) == 4,
        14 => (300..=305).contains(&prefix(3)) || matches!(prefix(2), 36 | 38),
        15 => matches!(prefix(2), 34 | 37) || matches!(prefix(4), 2131 | 1800),
        16 => {
            prefix(1) == 4 || (51..=55).contains(&prefix(2)) || prefix(4) == 6011 || prefix(2) == 65 || prefix(2) == 35
        }
        _ => false,
    };
    let luhn: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(index, d)| {
            let digit = u32::from(d - b'0');
            let doubled = digit * 2;
            if index % 2 == 0 { digit } else { doubled / 10 + doubled % 10 }
        })
        .sum();
    known && luhn.is_multiple_of(10)
}
