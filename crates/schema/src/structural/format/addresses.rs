//! Network addresses and host names.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;

/// An address as Go parses it today: no zones, no leading zeros.
pub(super) fn is_ip(text: &str) -> bool {
    if text.contains(':') { is_ipv6(text, Ipv4Addr::parse_strict) } else { Ipv4Addr::parse_strict(text) }
}

/// An address as Go parsed it once: octets may have leading zeros.
pub(super) fn is_ip_sloppy(text: &str) -> bool {
    if text.contains(':') { is_ipv6(text, is_ipv4_sloppy) } else { is_ipv4_sloppy(text) }
}

/// An address, a slash and a length of the prefix, leading zeros allowed throughout.
pub(super) fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    if length.is_empty() || !length.bytes().all(|b| b.is_ascii_digit()) {
        return false;
    }
    let (valid, max) = if address.contains(':') { (is_ip_sloppy(address), 128) } else { (is_ipv4_sloppy(address), 32) };
    valid && length.parse::<u64>().is_ok_and(|bits| bits <= max)
}

trait Strict {
    fn parse_strict(text: &str) -> bool;
}

impl Strict for Ipv4Addr {
    fn parse_strict(text: &str) -> bool {
        text.parse::<Self>().is_ok()
    }
}

fn is_ipv4_sloppy(text: &str) -> bool {
    let mut octets = 0;
    for octet in text.split('.') {
        octets += 1;
        let digits = !octet.is_empty() && octet.bytes().all(|b| b.is_ascii_digit());
        if !digits || !octet.parse::<u64>().is_ok_and(|value| value <= 255) {
            return false;
        }
    }
    octets == 4
}

/// The last 32 bits may be written as an IPv4 address, for which there are two opinions.
fn is_ipv6(text: &str, ipv4: fn(&str) -> bool) -> bool {
    match text.rsplit_once(':') {
        Some((front, last)) if last.contains('.') => ipv4(last) && format!("{front}:0:0").parse::<Ipv6Addr>().is_ok(),
        _ => text.parse::<Ipv6Addr>().is_ok(),
    }
}

/// 6, 8 or 20 octets, in pairs with colons or dashes, in fours with dots, or with nothing between.
pub(super) fn is_mac(text: &str) -> bool {
    let bytes = text.as_bytes();
    let hex = |group: &[u8], length: usize| group.len() == length && group.iter().all(u8::is_ascii_hexdigit);
    let groups_of = |separator: u8, length: usize, octets: usize| {
        let groups: Vec<&[u8]> = bytes.split(|b| *b == separator).collect();
        groups.iter().all(|group| hex(group, length)) && matches!(groups.len() * octets, 6 | 8 | 20)
    };
    match (bytes.get(2), bytes.get(4)) {
        (Some(separator @ (b':' | b'-')), _) => groups_of(*separator, 2, 1),
        (_, Some(b'.')) => groups_of(b'.', 4, 2),
        _ => matches!(bytes.len(), 12 | 16 | 40) && hex(bytes, bytes.len()),
    }
}

/// Longest host name and label in octets.
const HOSTNAME_MAX_LENGTH: usize = 255;
const LABEL_MAX_LENGTH: usize = 63;

/// One label, in which a dash may only come second, or labels with dots and a last one of letters.
pub(super) fn is_hostname(text: &str) -> bool {
    text.len() <= HOSTNAME_MAX_LENGTH
        && text.split('.').all(|label| label.len() <= LABEL_MAX_LENGTH)
        && match text.rsplit_once('.') {
            None => is_single_label(text),
            Some((front, last)) => {
                let letters = last.chars().count();
                (2..=63).contains(&letters) && last.chars().all(is_letter) && front.split('.').all(is_label)
            }
        }
}

fn is_single_label(text: &str) -> bool {
    let mut chars = text.chars();
    let Some(first) = chars.next() else { return false };
    let rest = chars.as_str();
    let rest = rest.strip_prefix('-').unwrap_or(rest);
    is_label_char(first) && rest.chars().count() <= 62 && rest.chars().all(is_label_char)
}

fn is_label(text: &str) -> bool {
    let (first, last) = (text.chars().next(), text.chars().next_back());
    first.is_some_and(is_label_char)
        && last.is_some_and(is_label_char)
        && text.chars().all(|c| c == '-' || is_label_char(c))
        && text.chars().count() <= LABEL_MAX_LENGTH
}

/// Letters, digits and symbols: an emoji may be a host.
fn is_label_char(c: char) -> bool {
    static SYMBOL: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^[\p{S}\p{L}]$").ok());
    c.is_ascii_alphanumeric() || matches_class(&SYMBOL, c)
}

fn is_letter(c: char) -> bool {
    static LETTER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{L}$").ok());
    c.is_ascii_alphabetic() || (!c.is_ascii() && matches_class(&LETTER, c))
}

fn matches_class(class: &LazyLock<Option<Regex>>, c: char) -> bool {
    class.as_ref().is_some_and(|class| class.is_match(c.encode_utf8(&mut [0; 4])))
}
