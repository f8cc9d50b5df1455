//! URLs taken apart by the rules and with the error texts of Go's `net/url`, which CEL users see.
//!
//! Parts are kept unescaped as bytes, since an escape may hide anything; what an expression asks for is text again.

use super::address::parse_address;
use super::go_text::{quoted, quoted_bytes};

/// A parsed URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Url {
    pub scheme: String,
    opaque: String,
    user: Option<(Vec<u8>, Option<Vec<u8>>)>,
    host: Vec<u8>,
    path: Vec<u8>,
    /// How the path was written, where that is not how we would write it.
    raw_path: Option<String>,
    query: String,
    forced_query: bool,
    fragment: Vec<u8>,
    raw_fragment: Option<String>,
    /// `scheme:/path` without an authority.
    omit_host: bool,
}

/// What kind of URL is expected.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// Any reference, relative or not.
    Reference,
    /// What stands in a request: absolute, without a fragment of its own.
    Request,
}

/// Which characters need no escape.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Path,
    UserPassword,
    Host,
    Zone,
    QueryComponent,
    Fragment,
}

/// Whether the text is an absolute URL or path, or why not.
pub(crate) fn check_request_uri(text: &str) -> Result<(), String> {
    parse_parts(text, Wanted::Request).map(drop).map_err(|why| format!("parse {}: {why}", quoted(text)))
}

/// Parses an absolute URL or path, with a fragment if there is one.
pub(crate) fn parse_absolute(text: &str) -> Result<Url, String> {
    check_request_uri(text)?;
    let (url, fragment) = text.split_once('#').unwrap_or((text, ""));
    let mut parsed = parse_parts(url, Wanted::Reference).map_err(|why| format!("parse {}: {why}", quoted(url)))?;
    parsed.fragment = unescape(fragment, Part::Fragment).map_err(|why| format!("parse {}: {why}", quoted(text)))?;
    parsed.raw_fragment = (escape(&parsed.fragment, Part::Fragment) != fragment).then(|| fragment.to_owned());
    Ok(parsed)
}

fn parse_parts(text: &str, wanted: Wanted) -> Result<Url, String> {
    if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".into());
    }
    if text.is_empty() && wanted == Wanted::Request {
        return Err("empty url".into());
    }
    if text == "*" {
        return Ok(Url { path: b"*".to_vec(), ..Url::default() });
    }
    let (scheme, rest) = split_scheme(text)?;
    let mut url = Url { scheme: scheme.to_ascii_lowercase(), ..Url::default() };
    let (mut rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    url.query = query.to_owned();
    url.forced_query = query.is_empty() && text.ends_with('?');
    if !rest.starts_with('/') {
        if !scheme.is_empty() {
            url.opaque = rest.to_owned();
            return Ok(url);
        }
        if wanted == Wanted::Request {
            return Err("invalid URI for request".into());
        }
        if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
            return Err("first path segment in URL cannot contain colon".into());
        }
    }
    let may_have_authority = !scheme.is_empty() || (wanted == Wanted::Reference && !rest.starts_with("///"));
    match rest.strip_prefix("//") {
        Some(after) if may_have_authority => {
            let (authority, path) = after.split_at(after.find('/').unwrap_or(after.len()));
            url.set_authority(authority)?;
            rest = path;
        }
        _ => url.omit_host = !scheme.is_empty() && rest.starts_with('/'),
    }
    url.path = unescape(rest, Part::Path)?;
    url.raw_path = (escape(&url.path, Part::Path) != rest).then(|| rest.to_owned());
    Ok(url)
}

fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))).unwrap_or(text.len());
    let (scheme, rest) = text.split_at(end);
    match rest.strip_prefix(':') {
        Some(_) if scheme.is_empty() => Err("missing protocol scheme".into()),
        Some(after) if scheme.starts_with(|c: char| c.is_ascii_alphabetic()) => Ok((scheme, after)),
        _ => Ok(("", text)),
    }
}

impl Url {
    fn set_authority(&mut self, authority: &str) -> Result<(), String> {
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        self.host = parse_host(&self.scheme, host)?;
        let Some(user) = user else { return Ok(()) };
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
        if !user.chars().all(allowed) {
            return Err("net/url: invalid userinfo".into());
        }
        self.user = Some(match user.split_once(':') {
            Some((name, password)) => {
                (unescape(name, Part::UserPassword)?, Some(unescape(password, Part::UserPassword)?))
            }
            None => (unescape(user, Part::UserPassword)?, None),
        });
        Ok(())
    }

    /// `host` or `host:port`.
    pub fn host(&self) -> String {
        String::from_utf8_lossy(&self.host).into_owned()
    }

    /// The host without brackets.
    pub fn hostname(&self) -> String {
        let host = self.host();
        let name = split_port(&host).0;
        name.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(name).to_owned()
    }

    /// The port; empty when none is written.
    pub fn port(&self) -> String {
        split_port(&self.host()).1.to_owned()
    }

    /// The path as it was written if that is a fair way to write it.
    pub fn escaped_path(&self) -> String {
        written(&self.path, self.raw_path.as_deref(), Part::Path)
    }

    /// The query's parameters in order of their first occurrence. What is malformed is left out.
    pub fn query(&self) -> Vec<(String, Vec<String>)> {
        /// Go reads no more than this many.
        const MAX_PARAMETERS: usize = 10_000;
        let mut all: Vec<(String, Vec<String>)> = Vec::new();
        if self.query.matches('&').count() >= MAX_PARAMETERS {
            return all;
        }
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        for pair in self.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (Ok(key), Ok(value)) = (unescape(key, Part::QueryComponent), unescape(value, Part::QueryComponent))
            else {
                continue;
            };
            let (key, value) = (text(key), text(value));
            match all.iter_mut().find(|(known, _)| *known == key) {
                Some((_, values)) => values.push(value),
                None => all.push((key, vec![value])),
            }
        }
        all
    }
}

fn split_port(host: &str) -> (&str, &str) {
    match host.rfind(':') {
        Some(colon) => {
            let (name, port) = host.split_at(colon);
            match port.strip_prefix(':') {
                Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => (name, digits),
                _ => (host, ""),
            }
        }
        None => (host, ""),
    }
}

fn parse_host(scheme: &str, host: &str) -> Result<Vec<u8>, String> {
    let check_port = |port: &str| {
        let fine = port.is_empty() || port.strip_prefix(':').is_some_and(|p| p.bytes().all(|b| b.is_ascii_digit()));
        if fine { Ok(()) } else { Err(format!("invalid port {} after host", quoted(port))) }
    };
    match host.rfind('[') {
        Some(0) => {
            let end = host.rfind(']').ok_or("missing ']' in host")?;
            let (name, port) = (&host[1..end.max(1)], &host[end + 1..]);
            check_port(port)?;
            let port = unescape(port, Part::Host)?;
            let zone_at = name.find("%25").unwrap_or(name.len());
            let mut name_bytes = unescape(&name[..zone_at], Part::Host)?;
            name_bytes.extend(unescape(&name[zone_at..], Part::Zone)?);
            let address = std::str::from_utf8(&name_bytes)
                .map_err(|_| format!("invalid host: ParseAddr({}): unable to parse IP", quoted_bytes(&name_bytes)))
                .and_then(|text| parse_address(text).map_err(|why| format!("invalid host: {why}")))?;
            if address.ip.is_ipv4() {
                return Err("invalid IP-literal".into());
            }
            Ok([b"[".as_slice(), &name_bytes, b"]", &port].concat())
        }
        Some(_) => Err("invalid IP-literal".into()),
        None => {
            // Only for HTTP does the port begin at the first of several colons.
            let colon = if matches!(scheme, "http" | "https") { host.find(':') } else { host.rfind(':') };
            check_port(colon.map(|at| &host[at..]).unwrap_or_default())?;
            unescape(host, Part::Host)
        }
    }
}

/// A part as it was written if nothing in it needs an escape, else escaped anew.
fn written(bytes: &[u8], raw: Option<&str>, part: Part) -> String {
    let fair = |b: u8| b"!$&'()*+,;=:@[]%".contains(&b) || !needs_escape(b, part);
    match raw {
        Some(raw) if raw.bytes().all(fair) => raw.to_owned(),
        _ if bytes == b"*" && part == Part::Path => "*".to_owned(),
        _ => escape(bytes, part),
    }
}

fn needs_escape(byte: u8, part: Part) -> bool {
    let reserved: &[u8] = match part {
        Part::Path => b"$&+,/:;=@",
        Part::UserPassword => b"$&+,;=",
        Part::Host | Part::Zone => b"!$&'()*+,;=:[]<>\"",
        Part::QueryComponent => b"",
        Part::Fragment => b"$&+,/:;=?@!()*",
    };
    !(byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) || reserved.contains(&byte))
}

fn escape(bytes: &[u8], part: Part) -> String {
    let mut out = String::with_capacity(bytes.len());
    for &byte in bytes {
        if needs_escape(byte, part) {
            out.push_str(&format!("%{byte:02X}"));
        } else {
            out.push(char::from(byte));
        }
    }
    out
}

fn unescape(text: &str, part: Part) -> Result<Vec<u8>, String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if byte == b'%' {
            let escaped = bytes.get(at..bytes.len().min(at + 3)).unwrap_or_default();
            let invalid = || format!("invalid URL escape {}", quoted_bytes(escaped));
            let hex = |digit: u8| char::from(digit).to_digit(16);
            let &[_, high, low] = escaped else { return Err(invalid()) };
            let (Some(high), Some(low)) = (hex(high), hex(low)) else { return Err(invalid()) };
            // Two hexadecimal digits fit a byte.
            let value = (high * 16 + low) as u8;
            let percent = escaped == b"%25";
            if part == Part::Host && high < 8 && !percent {
                return Err(invalid());
            }
            if part == Part::Zone && !percent && value != b' ' && needs_escape(value, Part::Host) {
                return Err(invalid());
            }
            out.push(value);
            at += 3;
            continue;
        }
        if matches!(part, Part::Host | Part::Zone) && byte < 0x80 && needs_escape(byte, part) {
            return Err(format!("invalid character {} in host name", quoted_bytes(&[byte])));
        }
        out.push(if byte == b'+' && part == Part::QueryComponent { b' ' } else { byte });
        at += 1;
    }
    Ok(out)
}

impl std::fmt::Display for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.scheme.is_empty() {
            write!(f, "{}:", self.scheme)?;
        }
        if !self.opaque.is_empty() {
            f.write_str(&self.opaque)?;
        } else {
            let path = self.escaped_path();
            let has_authority = !self.host.is_empty() || self.user.is_some();
            if has_authority || (!self.scheme.is_empty() && !self.omit_host) {
                if has_authority || !self.path.is_empty() {
                    f.write_str("//")?;
                }
                if let Some((name, password)) = &self.user {
                    f.write_str(&escape(name, Part::UserPassword))?;
                    if let Some(password) = password {
                        write!(f, ":{}", escape(password, Part::UserPassword))?;
                    }
                    f.write_str("@")?;
                }
                f.write_str(&escape(&self.host, Part::Host))?;
            }
            f.write_str(&path)?;
        }
        if self.forced_query || !self.query.is_empty() {
            write!(f, "?{}", self.query)?;
        }
        if !self.fragment.is_empty() {
            write!(f, "#{}", written(&self.fragment, self.raw_fragment.as_deref(), Part::Fragment))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parts_are_found() {
        let url = parse_absolute("https://u:p@[::1]:443/x%2Fy?a=1&b=2&a=%203#f").expect("a URL");
        assert_eq!(url.scheme, "https");
        assert_eq!((url.host(), url.hostname(), url.port()), ("[::1]:443".into(), "::1".into(), "443".into()));
        assert_eq!(url.escaped_path(), "/x%2Fy");
        let query = [("a".to_owned(), vec!["1".to_owned(), " 3".to_owned()]), ("b".to_owned(), vec!["2".to_owned()])];
        assert_eq!(url.query(), query);
        assert_eq!(url.to_string(), "https://u:p@[::1]:443/x%2Fy?a=1&b=2&a=%203#f");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".*") {
            let _ = parse_absolute(&text).map(|url| (url.to_string(), url.hostname(), url.query()));
        }

        #[test]
        fn what_is_printed_reads_as_the_same_url(text in "(http|foo)://[a-z:@%0-9]{0,8}/[ -~]{0,12}") {
            if let Ok(url) = parse_absolute(&text) {
                let again = parse_absolute(&url.to_string());
                prop_assert_eq!(again.map(|u| u.to_string()), Ok(url.to_string()));
            }
        }
    }
}
