//! What of a request and of its answer is passed on: everything that belongs to the message, nothing that belongs to one
//! connection, none of the sender's credentials, and who we found the sender to be.

use std::net::IpAddr;

use bailiwick_machinery::user::UserInfo;
use http::header::{
    AUTHORIZATION, CONNECTION, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};

const REMOTE_USER: HeaderName = HeaderName::from_static("x-remote-user");
const REMOTE_UID: HeaderName = HeaderName::from_static("x-remote-uid");
const REMOTE_GROUP: HeaderName = HeaderName::from_static("x-remote-group");
const REMOTE_EXTRA_PREFIX: &str = "x-remote-extra-";
const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// What belongs to one connection.
const HOP_BY_HOP: [HeaderName; 10] = [
    CONNECTION,
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("keep-alive"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    // We answered the question whether to go on already.
    EXPECT,
];

/// Browsers are told by us, not by those behind us, who may read answers.
const CROSS_ORIGIN: [HeaderName; 4] = [
    HeaderName::from_static("access-control-allow-credentials"),
    HeaderName::from_static("access-control-allow-headers"),
    HeaderName::from_static("access-control-allow-methods"),
    HeaderName::from_static("access-control-allow-origin"),
];

/// How a request is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    Plain,
    /// Asks for another protocol, which the headers of the connection say.
    Upgrade,
}

/// Whether a request asks for another protocol.
pub fn asks_for_upgrade(headers: &HeaderMap) -> bool {
    let values = headers.get_all(CONNECTION).iter();
    values.filter_map(|value| value.to_str().ok()).any(|value| value.to_ascii_lowercase().contains("upgrade"))
}

/// A request as it is passed on.
pub struct Forwarded<'a> {
    pub headers: &'a HeaderMap,
    pub user: &'a UserInfo,
    pub audit_id: &'a HeaderValue,
    pub peer: Option<IpAddr>,
    /// The path it is about.
    pub path: &'a str,
    /// `host:port` of the server it goes to.
    pub authority: &'a str,
    pub passage: Passage,
}

impl Forwarded<'_> {
    /// The headers to send.
    pub fn to_headers(&self) -> HeaderMap {
        let mut headers = self.headers.clone();
        let upgrade = (headers.get(CONNECTION).cloned(), headers.get(UPGRADE).cloned());
        strip_connection(&mut headers);
        if let (Passage::Upgrade, (Some(connection), Some(upgrade))) = (self.passage, upgrade) {
            headers.insert(CONNECTION, connection);
            headers.insert(UPGRADE, upgrade);
        }
        headers.remove(AUTHORIZATION);
        remove_prefixed(&mut headers, "impersonate-");
        identify(&mut headers, self.user);
        let mut set = |name: HeaderName, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        };
        set(HOST, self.authority);
        set(FORWARDED_URI, self.path);
        set(FORWARDED_HOST, self.authority);
        set(FORWARDED_PROTO, "https");
        if let Some(peer) = self.peer {
            let before = self.headers.get_all(FORWARDED_FOR).iter().filter_map(|value| value.to_str().ok());
            let mut hops: Vec<&str> = before.collect();
            let peer = peer.to_canonical().to_string();
            hops.push(&peer);
            set(FORWARDED_FOR, &hops.join(", "));
        }
        headers.insert(AUDIT_ID, self.audit_id.clone());
        headers
    }
}

/// Says who the user is, whatever was said before.
pub fn identify(headers: &mut HeaderMap, user: &UserInfo) {
    for name in [REMOTE_USER, REMOTE_UID, REMOTE_GROUP] {
        headers.remove(name);
    }
    remove_prefixed(headers, REMOTE_EXTRA_PREFIX);
    // What cannot be said in a header is not said; a name that cannot be is nobody's.
    let value = |text: &str| HeaderValue::from_bytes(text.as_bytes()).ok();
    headers.insert(REMOTE_USER, value(&user.name).unwrap_or_else(|| HeaderValue::from_static("")));
    if let Some(uid) = value(&user.uid).filter(|uid| !uid.is_empty()) {
        headers.insert(REMOTE_UID, uid);
    }
    for group in user.groups.iter().filter_map(|group| value(group)) {
        headers.append(REMOTE_GROUP, group);
    }
    for (key, values) in &user.extra {
        let name = HeaderName::from_bytes(format!("{REMOTE_EXTRA_PREFIX}{}", escaped(key)).as_bytes());
        let Ok(name) = name else { continue };
        for value in values.iter().filter_map(|text| value(text)) {
            headers.append(name.clone(), value);
        }
    }
}

/// The headers of an answer as clients of ours get them.
pub fn of_answer(mut headers: HeaderMap, passage: Passage) -> HeaderMap {
    if passage == Passage::Plain {
        strip_connection(&mut headers);
    }
    for name in CROSS_ORIGIN {
        headers.remove(name);
    }
    headers
}

/// Removes what belongs to one connection, and what the message itself says does.
fn strip_connection(headers: &mut HeaderMap) {
    let values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let named: Vec<HeaderName> =
        values.flat_map(|value| value.split(',')).filter_map(|name| name.trim().parse().ok()).collect();
    for name in named.into_iter().chain(HOP_BY_HOP) {
        headers.remove(name);
    }
}

fn remove_prefixed(headers: &mut HeaderMap, prefix: &str) {
    if !headers.keys().any(|name| name.as_str().starts_with(prefix)) {
        return;
    }
    let names: Vec<HeaderName> = headers.keys().filter(|name| name.as_str().starts_with(prefix)).cloned().collect();
    for name in names {
        headers.remove(name);
    }
}

/// A key as a part of a header's name: what may not stand there is percent-encoded.
fn escaped(key: &str) -> String {
    let mut out = String::with_capacity(key.len());
    for byte in key.bytes() {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => out.push(char::from(byte)),
            b'!' | b'#' | b'$' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forwarded(headers: &[(&'static str, &'static str)], user: &UserInfo, passage: Passage) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        let audit_id = HeaderValue::from_static("id");
        let peer = Some("10.0.0.9".parse().expect("an address"));
        let authority = "backend:443";
        Forwarded { headers: &map, user, audit_id: &audit_id, peer, path: "/apis/g/v1", authority, passage }
            .to_headers()
    }

    fn values<'a>(headers: &'a HeaderMap, name: &str) -> Vec<&'a str> {
        headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect()
    }

    #[test]
    fn nobody_can_say_themselves_who_they_are() {
        let user = UserInfo {
            name: "alice".into(),
            uid: "7".into(),
            groups: vec!["a".into(), "b".into()],
            extra: [("example.com/Scope%".to_owned(), vec!["x".to_owned(), "y".to_owned()])].into_iter().collect(),
        };
        let headers = forwarded(
            &[
                ("x-remote-user", "root"),
                ("x-remote-group", "system:masters"),
                ("x-remote-extra-evil", "1"),
                ("x-remote-uid", "0"),
                ("authorization", "Bearer secret"),
                ("impersonate-user", "root"),
            ],
            &user,
            Passage::Plain,
        );
        assert_eq!(values(&headers, "x-remote-user"), ["alice"]);
        assert_eq!(values(&headers, "x-remote-uid"), ["7"]);
        assert_eq!(values(&headers, "x-remote-group"), ["a", "b"]);
        assert_eq!(values(&headers, "x-remote-extra-example.com%2fscope%25"), ["x", "y"]);
        for gone in ["x-remote-extra-evil", "authorization", "impersonate-user"] {
            assert!(!headers.contains_key(gone), "{gone}");
        }
    }

    #[test]
    fn what_belongs_to_a_connection_stays_there() {
        let sent = [
            ("connection", "keep-alive, x-mine"),
            ("x-mine", "1"),
            ("te", "trailers"),
            ("accept", "a/b"),
            ("x-forwarded-for", "10.0.0.1"),
        ];
        let headers = forwarded(&sent, &UserInfo::default(), Passage::Plain);
        for gone in ["connection", "x-mine", "te"] {
            assert!(!headers.contains_key(gone), "{gone}");
        }
        assert_eq!(values(&headers, "accept"), ["a/b"]);
        assert_eq!(values(&headers, "x-forwarded-for"), ["10.0.0.1, 10.0.0.9"]);
        assert_eq!(values(&headers, "host"), ["backend:443"]);
        assert_eq!(values(&headers, "audit-id"), ["id"]);
    }

    #[test]
    fn an_upgrade_keeps_asking_for_it() {
        let sent = [("connection", "Upgrade"), ("upgrade", "SPDY/3.1")];
        let headers = forwarded(&sent, &UserInfo::default(), Passage::Upgrade);
        assert!(asks_for_upgrade(&headers));
        assert_eq!(values(&headers, "upgrade"), ["SPDY/3.1"]);
        assert!(!asks_for_upgrade(&forwarded(&sent, &UserInfo::default(), Passage::Plain)));
    }
}
