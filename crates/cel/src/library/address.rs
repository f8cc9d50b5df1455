//! IP addresses and prefixes by the rules and with the error texts of Go's `net/netip`: no leading zeros, no bare
//! numbers, prefixes keep their host bits.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::go_text::quoted;

/// An address, perhaps with the zone that was written behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub ip: IpAddr,
    pub zone: Option<String>,
}

/// An address and how many of its leading bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefix {
    pub ip: IpAddr,
    pub bits: u8,
}

/// What is wrong, and the rest of the text from where it is wrong.
struct Wrong<'a> {
    what: &'static str,
    at: &'a str,
}

fn wrong<T>(what: &'static str) -> Result<T, Wrong<'static>> {
    Err(Wrong { what, at: "" })
}

/// Reads an address; says why not as Go does: `ParseAddr("…"): …`.
pub(crate) fn parse_address(text: &str) -> Result<Address, String> {
    let parsed = match text.bytes().find(|b| matches!(b, b'.' | b':' | b'%')) {
        Some(b'.') => parse_v4(text).map(|octets| Address { ip: Ipv4Addr::from(octets).into(), zone: None }),
        Some(b':') => parse_v6_with_zone(text),
        Some(_) => wrong("missing IPv6 address"),
        None => wrong("unable to parse IP"),
    };
    parsed.map_err(|Wrong { what, at }| match at {
        "" => format!("ParseAddr({}): {what}", quoted(text)),
        at => format!("ParseAddr({}): {what} (at {})", quoted(text), quoted(at)),
    })
}

/// Reads `address/bits`.
pub(crate) fn parse_prefix(text: &str) -> Result<Prefix, String> {
    let wrong = |what: &str| format!("netip.ParsePrefix({}): {what}", quoted(text));
    let (address, bits) = text.rsplit_once('/').ok_or_else(|| wrong("no '/'"))?;
    let address = parse_address(address).map_err(|why| wrong(&why))?;
    if address.zone.is_some() {
        return Err(wrong("IPv6 zones cannot be present in a prefix"));
    }
    let bad_bits = || wrong(&format!("bad bits after slash: {}", quoted(bits)));
    if bits.len() > 1 && !bits.starts_with(|c: char| matches!(c, '1'..='9')) {
        return Err(bad_bits());
    }
    let bits: i64 = bits.parse().map_err(|_| bad_bits())?;
    match u8::try_from(bits) {
        Ok(bits) if bits <= width(address.ip) => Ok(Prefix { ip: address.ip, bits }),
        _ => Err(wrong("prefix length out of range")),
    }
}

fn width(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 32 } else { 128 }
}

/// The leading `bits` of an address as a number aligned to its end; comparable within one family.
fn network(ip: IpAddr, bits: u8) -> u128 {
    let number = match ip {
        IpAddr::V4(ip) => u128::from(u32::from(ip)),
        IpAddr::V6(ip) => u128::from(ip),
    };
    number.checked_shr(u32::from(width(ip).saturating_sub(bits))).unwrap_or(0)
}

impl Prefix {
    pub fn contains(&self, ip: IpAddr) -> bool {
        self.ip.is_ipv4() == ip.is_ipv4() && network(self.ip, self.bits) == network(ip, self.bits)
    }

    /// Whether every address of the other prefix lies in this one.
    pub fn contains_prefix(&self, other: &Prefix) -> bool {
        self.bits <= other.bits && self.contains(other.ip)
    }

    /// The prefix with its host bits cleared.
    pub fn masked(&self) -> Self {
        let host_bits = u32::from(width(self.ip).saturating_sub(self.bits));
        let number = network(self.ip, self.bits).checked_shl(host_bits).unwrap_or(0);
        let ip = match self.ip {
            // A v4 network shifted back fits in 32 bits.
            IpAddr::V4(_) => Ipv4Addr::from(number as u32).into(),
            IpAddr::V6(_) => Ipv6Addr::from(number).into(),
        };
        Self { ip, bits: self.bits }
    }
}

impl std::fmt::Display for Prefix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.ip, self.bits)
    }
}

fn parse_v4(text: &str) -> Result<[u8; 4], Wrong<'_>> {
    let mut octets = [0u8; 4];
    let mut position = 0;
    let mut value: Option<u16> = None;
    for (at, byte) in text.bytes().enumerate() {
        let rest = text.get(at..).unwrap_or_default();
        match byte {
            b'0'..=b'9' => {
                if value == Some(0) {
                    return wrong("IPv4 field has octet with leading zero");
                }
                let next = value.unwrap_or(0) * 10 + u16::from(byte - b'0');
                if next > 255 {
                    return wrong("IPv4 field has value >255");
                }
                value = Some(next);
            }
            b'.' => {
                let Some(octet) = value.take().filter(|_| rest.len() > 1) else {
                    return Err(Wrong { what: "IPv4 field must have at least one digit", at: rest });
                };
                let Some(slot) = octets.get_mut(position).filter(|_| position < 3) else {
                    return wrong("IPv4 address too long");
                };
                *slot = octet as u8;
                position += 1;
            }
            _ => return Err(Wrong { what: "unexpected character", at: rest }),
        }
    }
    if position < 3 {
        return wrong("IPv4 address too short");
    }
    octets[3] = value.unwrap_or(0) as u8;
    Ok(octets)
}

fn parse_v6_with_zone(text: &str) -> Result<Address, Wrong<'_>> {
    let (address, zone) = match text.split_once('%') {
        Some((_, "")) => return wrong("zone must be a non-empty string"),
        Some((address, zone)) => (address, Some(zone.to_owned())),
        None => (text, None),
    };
    Ok(Address { ip: Ipv6Addr::from(parse_v6(address)?).into(), zone })
}

/// Groups of 16 bits are collected in order; `gap` remembers how many came before `::`.
fn parse_v6(text: &str) -> Result<[u16; 8], Wrong<'_>> {
    const GROUPS: usize = 8;
    let mut groups: Vec<u16> = Vec::with_capacity(GROUPS);
    let mut gap = None;
    let mut rest = text;
    if let Some(after) = rest.strip_prefix("::") {
        if after.is_empty() {
            return Ok([0; GROUPS]);
        }
        (gap, rest) = (Some(0), after);
    }
    while groups.len() < GROUPS {
        let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        let (group, after) = rest.split_at(digits);
        let failed = |what| Err(Wrong { what, at: rest });
        if digits > 4 {
            return failed("each group must have 4 or less digits");
        }
        if digits == 0 {
            return failed("each colon-separated field must have at least one digit");
        }
        if after.starts_with('.') {
            if gap.is_none() && groups.len() != GROUPS - 2 {
                return failed("embedded IPv4 address must replace the final 2 fields of the address");
            }
            if groups.len() > GROUPS - 2 {
                return failed("too many hex fields to fit an embedded IPv4 at the end of the address");
            }
            let [a, b, c, d] = parse_v4(rest)?;
            groups.extend([u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]);
            rest = "";
            break;
        }
        // Four hexadecimal digits always fit.
        groups.push(u16::from_str_radix(group, 16).unwrap_or_default());
        rest = after;
        if rest.is_empty() {
            break;
        }
        match rest.strip_prefix(':') {
            None => return Err(Wrong { what: "unexpected character, want colon", at: rest }),
            Some("") => return Err(Wrong { what: "colon must be followed by more characters", at: rest }),
            Some(after) => rest = after,
        }
        if let Some(after) = rest.strip_prefix(':') {
            if gap.is_some() {
                return Err(Wrong { what: "multiple :: in address", at: rest });
            }
            gap = Some(groups.len());
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
    }
    if !rest.is_empty() {
        return Err(Wrong { what: "trailing garbage after address", at: rest });
    }
    let missing = GROUPS - groups.len();
    match gap {
        None if missing > 0 => return wrong("address string too short"),
        Some(_) if missing == 0 => return wrong("the :: must expand to at least one field of zeros"),
        Some(at) => {
            groups.splice(at..at, std::iter::repeat_n(0, missing));
        }
        None => {}
    }
    let mut all = [0u16; GROUPS];
    all.copy_from_slice(&groups);
    Ok(all)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_that_rust_reads_are_read_alike() {
        for text in ["1.2.3.4", "::", "::1", "fe80::1", "1:2:3:4:5:6:7:8", "::ffff:1.2.3.4", "1::2:3", "2001:DB8::"] {
            assert_eq!(parse_address(text).map(|a| a.ip), Ok(text.parse::<IpAddr>().expect("an address")));
        }
    }

    #[test]
    fn prefixes_hold_what_shares_their_leading_bits() {
        let prefix = |text: &str| parse_prefix(text).expect("a prefix");
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        assert!(prefix("10.1.2.3/8").contains(ip("10.255.0.1")));
        assert!(!prefix("10.1.2.3/16").contains(ip("10.255.0.1")));
        assert!(prefix("0.0.0.0/0").contains(ip("8.8.8.8")));
        assert!(!prefix("0.0.0.0/0").contains(ip("::1")));
        assert!(prefix("::/0").contains(ip("::1")));
        assert_eq!(prefix("10.1.2.3/8").masked().to_string(), "10.0.0.0/8");
        assert_eq!(prefix("2001:db8:1::5/33").masked().to_string(), "2001:db8::/33");
        assert_eq!(prefix("2001:db8::/0").masked().to_string(), "::/0");
        assert!(prefix("10.0.0.0/8").contains_prefix(&prefix("10.2.0.0/16")));
        assert!(!prefix("10.2.0.0/16").contains_prefix(&prefix("10.0.0.0/8")));
    }

    proptest! {
        #[test]
        fn what_rust_reads_as_an_address_we_read_and_the_reverse(text in "[0-9a-f:.]{0,20}") {
            prop_assert_eq!(parse_address(&text).ok().map(|a| a.ip), text.parse::<IpAddr>().ok());
        }

        #[test]
        fn no_text_panics(text in ".*") {
            let _ = parse_address(&text);
            let _ = parse_prefix(&text);
        }
    }
}
