//! Taking URLs apart with the rules and error texts of Go's `net/url`, which users see in validation messages.

/// The parts of a URL that validation looks at.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Url<'a> {
    pub scheme: String,
    /// What stands before `@`, when there is an `@`.
    pub user: Option<&'a str>,
    pub host: &'a str,
    pub query: &'a str,
    pub fragment: &'a str,
}

/// Takes a URL apart, or says why not as Go does: `parse "…": …`.
pub(crate) fn parse(raw: &str) -> Result<Url<'_>, String> {
    let (url, fragment) = raw.split_once('#').unwrap_or((raw, ""));
    parse_without_fragment(url)
        .and_then(|parsed| {
            check_escapes(fragment)?;
            Ok(Url { fragment, ..parsed })
        })
        .map_err(|why| format!("parse {url:?}: {why}"))
}

fn parse_without_fragment(url: &str) -> Result<Url<'_>, String> {
    if url.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".into());
    }
    let (scheme, rest) = split_scheme(url)?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut parsed = Url { scheme: scheme.to_ascii_lowercase(), query, ..Url::default() };
    if !rest.starts_with('/') {
        if !scheme.is_empty() {
            return Ok(parsed);
        }
        if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
            return Err("first path segment in URL cannot contain colon".into());
        }
    }
    let path = match rest.strip_prefix("//") {
        Some(after) if !scheme.is_empty() || !after.starts_with('/') => {
            let end = after.find('/').unwrap_or(after.len());
            let (authority, path) = after.split_at(end);
            match authority.rsplit_once('@') {
                Some((user, host)) => {
                    check_user(user)?;
                    parsed.user = Some(user);
                    parsed.host = host;
                }
                None => parsed.host = authority,
            }
            check_host(parsed.host)?;
            path
        }
        _ => rest,
    };
    check_escapes(path)?;
    Ok(parsed)
}

fn split_scheme(url: &str) -> Result<(&str, &str), String> {
    for (index, c) in url.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if index > 0 => {}
            ':' if index == 0 => return Err("missing protocol scheme".into()),
            ':' => return Ok((&url[..index], &url[index + 1..])),
            _ => break,
        }
    }
    Ok(("", url))
}

fn check_user(user: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
    if user.chars().all(allowed) { check_escapes(user) } else { Err("net/url: invalid userinfo".into()) }
}

fn check_host(host: &str) -> Result<(), String> {
    let port = if host.starts_with('[') {
        let end = host.rfind(']').ok_or("missing ']' in host")?;
        &host[end + 1..]
    } else {
        host.rfind(':').map(|colon| &host[colon..]).unwrap_or_default()
    };
    let valid_port = port.is_empty() || port.strip_prefix(':').is_some_and(|p| p.bytes().all(|b| b.is_ascii_digit()));
    if !valid_port {
        return Err(format!("invalid port {port:?} after host"));
    }
    match host.chars().find(|c| c.is_ascii() && !c.is_ascii_alphanumeric() && !"-._~!$&'()*+,;=:[]<>\"%".contains(*c)) {
        Some(c) => Err(format!("invalid character {:?} in host name", c.to_string())),
        None => check_escapes(host),
    }
}

/// Every `%` must be followed by two hexadecimal digits.
fn check_escapes(part: &str) -> Result<(), String> {
    let bytes = part.as_bytes();
    let bad = bytes.iter().enumerate().find(|(index, byte)| {
        **byte == b'%' && !bytes.get(index + 1..index + 3).is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit))
    });
    match bad {
        Some((index, _)) => {
            let end = part.char_indices().map(|(i, _)| i).find(|i| *i >= index + 3).unwrap_or(part.len());
            Err(format!("invalid URL escape {:?}", &part[index..end]))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parts_are_found() {
        let url = parse("https://u:p@example.com:443/x?y=1#f").expect("a good URL");
        assert_eq!(
            url,
            Url { scheme: "https".into(), user: Some("u:p"), host: "example.com:443", query: "y=1", fragment: "f" }
        );
        assert_eq!(parse("HTTPS:opaque").map(|u| (u.scheme, u.host.len())), Ok(("https".into(), 0)));
    }

    #[test]
    fn errors_read_like_gos() {
        for (raw, error) in [
            (":foo", r#"parse ":foo": missing protocol scheme"#),
            ("a b:c", r#"parse "a b:c": first path segment in URL cannot contain colon"#),
            ("https://h:x/", r#"parse "https://h:x/": invalid port ":x" after host"#),
            ("https://a b/", r#"parse "https://a b/": invalid character " " in host name"#),
            ("https://a/%zz", r#"parse "https://a/%zz": invalid URL escape "%zz""#),
            ("https://a/\u{7f}", r#"parse "https://a/\u{7f}": net/url: invalid control character in URL"#),
        ] {
            assert_eq!(parse(raw), Err(error.to_owned()));
        }
    }

    proptest! {
        #[test]
        fn no_input_panics(raw in ".*") {
            let _ = parse(&raw);
        }
    }
}
