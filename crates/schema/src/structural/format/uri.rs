//! URIs, by the rules of Go's `url.ParseRequestURI`.

use super::addresses::is_ip;

/// An absolute URI or an absolute path.
pub(super) fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|b| b < b' ' || b == 0x7f) {
        return false;
    }
    if text == "*" {
        return true;
    }
    let Some((scheme, rest)) = split_scheme(text) else { return false };
    let rest = rest.split('?').next().unwrap_or_default();
    if !rest.starts_with('/') {
        return !scheme.is_empty();
    }
    match rest.strip_prefix("//").filter(|_| !scheme.is_empty()) {
        Some(authority) => {
            let (authority, path) = authority.split_at(authority.find('/').unwrap_or(authority.len()));
            is_authority(&scheme.to_ascii_lowercase(), authority) && has_valid_escapes(path)
        }
        None => has_valid_escapes(rest),
    }
}

/// The scheme, empty if there is none, and what follows it; `None` for a colon with nothing before it.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if index > 0 => {}
            b':' if index == 0 => return None,
            b':' => return Some((text.get(..index)?, text.get(index + 1..)?)),
            _ => break,
        }
    }
    Some(("", text))
}

fn is_authority(scheme: &str, text: &str) -> bool {
    let (user, host) = match text.rsplit_once('@') {
        Some((user, host)) => (user, host),
        None => ("", text),
    };
    let user_char = |b: u8| b.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&b);
    is_host(scheme, host) && user.bytes().all(user_char) && has_valid_escapes(user)
}

fn is_host(scheme: &str, text: &str) -> bool {
    match text.rfind('[') {
        Some(0) => {
            let Some((address, port)) = text.get(1..).and_then(|t| t.rsplit_once(']')) else { return false };
            // A zone follows an escaped percent sign.
            let (address, zone) = address.split_once("%25").unwrap_or((address, "zone"));
            address.contains(':')
                && is_ip(address)
                && is_optional_port(port)
                && !zone.is_empty()
                && is_escaped_host(zone)
        }
        Some(_) => false,
        None => {
            let (first, last) = (text.find(':'), text.rfind(':'));
            // Other schemes have lists of hosts here.
            let colon = if matches!(scheme, "http" | "https") { first } else { last };
            let port = colon.and_then(|at| text.get(at..)).unwrap_or_default();
            is_optional_port(port) && is_escaped_host(text)
        }
    }
}

fn is_optional_port(text: &str) -> bool {
    text.is_empty() || text.strip_prefix(':').is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()))
}

/// In hosts only bytes beyond ASCII may be escaped, and a percent sign.
fn is_escaped_host(text: &str) -> bool {
    let plain = |b: u8| b >= 0x80 || b.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]<>\"%".contains(&b);
    let mut escapes = text.split('%');
    escapes.next();
    has_valid_escapes(text)
        && text.bytes().all(plain)
        && escapes.all(|after| after.starts_with("25") || after.starts_with(|c: char| c >= '8'))
}

fn has_valid_escapes(text: &str) -> bool {
    let mut parts = text.split('%');
    parts.next();
    parts.all(|after| after.as_bytes().get(..2).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit)))
}
