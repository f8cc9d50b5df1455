//! What all events of a request say alike, encoded once when it arrives: who asks for what, from where and when.

use std::io::Write;
use std::net::IpAddr;

use bailiwick_machinery::audit::{AuditedObject, Level};
use bailiwick_machinery::user::UserInfo;
use jiff::Timestamp;
use serde::Serialize;

use crate::Sensitivity;
use crate::event::Stage;

/// What is known of a request when it arrives.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub level: Level,
    pub audit_id: &'a str,
    pub uri: &'a str,
    pub verb: &'static str,
    /// Nobody when authentication failed.
    pub user: Option<&'a UserInfo>,
    pub source_ips: &'a [IpAddr],
    pub user_agent: &'a str,
    /// `None` for paths that are no resources.
    pub object: Option<ObjectRef<'a>>,
    pub received: Timestamp,
    pub omit_managed_fields: bool,
    pub sensitivity: Sensitivity,
}

/// What a request is about. What does not apply is empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct ObjectRef<'a> {
    pub resource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    pub group: &'a str,
    pub version: &'a str,
    pub subresource: &'a str,
}

/// See the module.
#[derive(Debug)]
pub struct Heading {
    pub(crate) level: Level,
    pub(crate) verb: &'static str,
    pub(crate) received: Timestamp,
    pub(crate) omit_managed_fields: bool,
    pub(crate) sensitivity: Sensitivity,
    is_resource: bool,
    /// The pieces of JSON, one behind the other.
    text: Vec<u8>,
    ends: [usize; Piece::COUNT],
}

/// The pieces of an event that are known from the start, between which others come.
#[derive(Clone, Copy)]
enum Piece {
    /// From the beginning to the stage.
    Id,
    /// What is asked for, and by whom.
    Sender,
    /// The program that asks, and where it runs.
    Client,
    /// The fields of the reference to the object, each with a comma behind it.
    Resource,
    Namespace,
    Name,
    GroupVersion,
    Subresource,
    Received,
}

impl Piece {
    const COUNT: usize = Self::Received as usize + 1;
}

/// About what a heading takes; more is made room for when it is needed.
const HEADING_BYTES: usize = 768;

impl Heading {
    pub fn new(request: &Request<'_>) -> Self {
        let object = request.object.unwrap_or_default();
        let mut heading = Self {
            level: request.level,
            verb: request.verb,
            received: request.received,
            omit_managed_fields: request.omit_managed_fields,
            sensitivity: request.sensitivity,
            is_resource: request.object.is_some(),
            text: Vec::with_capacity(HEADING_BYTES),
            ends: [0; Piece::COUNT],
        };
        heading.write(Piece::Id, |out| {
            out.extend_from_slice(br#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":""#);
            out.extend_from_slice(request.level.as_str().as_bytes());
            out.extend_from_slice(br#"","auditID":"#);
            text(out, request.audit_id);
            out.extend_from_slice(br#","stage":""#);
        });
        heading.write(Piece::Sender, |out| {
            out.extend_from_slice(br#"","requestURI":"#);
            text(out, request.uri);
            out.extend_from_slice(br#","verb":"#);
            text(out, request.verb);
            out.extend_from_slice(br#","user":"#);
            match request.user {
                Some(user) => write_user(out, user),
                None => out.extend_from_slice(b"{}"),
            }
        });
        heading.write(Piece::Client, |out| {
            for (index, ip) in request.source_ips.iter().enumerate() {
                out.extend_from_slice(if index == 0 { br#","sourceIPs":[""# } else { br#"",""# });
                let _ = write!(out, "{ip}");
            }
            if !request.source_ips.is_empty() {
                out.extend_from_slice(br#""]"#);
            }
            if !request.user_agent.is_empty() {
                out.extend_from_slice(br#","userAgent":"#);
                text(out, request.user_agent);
            }
        });
        heading.write(Piece::Resource, |out| field(out, "resource", object.resource));
        heading.write(Piece::Namespace, |out| field(out, "namespace", object.namespace));
        heading.write(Piece::Name, |out| field(out, "name", object.name));
        heading.write(Piece::GroupVersion, |out| {
            field(out, "apiGroup", object.group);
            field(out, "apiVersion", object.version);
        });
        heading.write(Piece::Subresource, |out| field(out, "subresource", object.subresource));
        heading.write(Piece::Received, |out| {
            out.extend_from_slice(br#","requestReceivedTimestamp":"#);
            write_time(out, request.received);
        });
        heading
    }

    /// Pieces are written in their order.
    fn write(&mut self, piece: Piece, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.text);
        if let Some(end) = self.ends.get_mut(piece as usize) {
            *end = self.text.len();
        }
    }

    fn piece(&self, piece: Piece) -> &[u8] {
        let end = |piece: usize| self.ends.get(piece).copied().unwrap_or_default();
        let start = (piece as usize).checked_sub(1).map_or(0, end);
        self.text.get(start..end(piece as usize)).unwrap_or_default()
    }

    pub fn level(&self) -> Level {
        self.level
    }

    pub fn verb(&self) -> &'static str {
        self.verb
    }

    /// Whether the request is about a resource.
    pub fn is_resource(&self) -> bool {
        self.is_resource
    }

    pub(crate) fn write_start(&self, stage: Stage, out: &mut Vec<u8>) {
        out.extend_from_slice(self.piece(Piece::Id));
        out.extend_from_slice(stage.as_str().as_bytes());
        out.extend_from_slice(self.piece(Piece::Sender));
    }

    pub(crate) fn write_client(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.piece(Piece::Client));
    }

    /// The reference to the object, with what the object has told of itself where the request did not.
    pub(crate) fn write_object_ref(&self, told: Option<&AuditedObject>, out: &mut Vec<u8>) {
        if !self.is_resource {
            return;
        }
        let known_or_told = |out: &mut Vec<u8>, piece, name, told: Option<&String>| match (self.piece(piece), told) {
            (b"", Some(told)) => field(out, name, told),
            (known, _) => out.extend_from_slice(known),
        };
        out.extend_from_slice(br#","objectRef":{"#);
        out.extend_from_slice(self.piece(Piece::Resource));
        known_or_told(out, Piece::Namespace, "namespace", told.map(|told| &told.namespace));
        known_or_told(out, Piece::Name, "name", told.map(|told| &told.name));
        field(out, "uid", told.map_or("", |told| &told.uid));
        out.extend_from_slice(self.piece(Piece::GroupVersion));
        field(out, "resourceVersion", told.map_or("", |told| &told.resource_version));
        out.extend_from_slice(self.piece(Piece::Subresource));
        // The comma behind the last field.
        out.pop_if(|last| *last == b',');
        out.push(b'}');
    }

    pub(crate) fn write_times(&self, at: Timestamp, out: &mut Vec<u8>) {
        out.extend_from_slice(self.piece(Piece::Received));
        out.extend_from_slice(br#","stageTimestamp":"#);
        write_time(out, at);
    }
}

/// A field with a comma behind it, unless it is empty.
fn field(out: &mut Vec<u8>, name: &str, value: &str) {
    if !value.is_empty() {
        text(out, name);
        out.push(b':');
        text(out, value);
        out.push(b',');
    }
}

/// A user, what is empty left out.
pub(crate) fn write_user(out: &mut Vec<u8>, user: &UserInfo) {
    out.push(b'{');
    field(out, "username", &user.name);
    field(out, "uid", &user.uid);
    for (index, group) in user.groups.iter().enumerate() {
        out.extend_from_slice(if index == 0 { br#""groups":["# } else { b"," });
        text(out, group);
    }
    if !user.groups.is_empty() {
        out.extend_from_slice(b"],");
    }
    if !user.extra.is_empty() {
        out.extend_from_slice(br#""extra":"#);
        json(out, &user.extra);
    }
    out.pop_if(|last| *last == b',');
    out.push(b'}');
}

/// RFC 3339 with microseconds. By hand, because every request has three of them.
fn write_time(out: &mut Vec<u8>, time: Timestamp) {
    let time = jiff::tz::Offset::UTC.to_datetime(time);
    let mut text = *b"\"0000-00-00T00:00:00.000000Z\"";
    let mut put = |end: usize, digits: usize, number: i32| {
        let mut rest = number.unsigned_abs();
        for place in text.iter_mut().take(end).rev().take(digits) {
            *place = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
    };
    put(5, 4, time.year().into());
    put(8, 2, time.month().into());
    put(11, 2, time.day().into());
    put(14, 2, time.hour().into());
    put(17, 2, time.minute().into());
    put(20, 2, time.second().into());
    put(27, 6, time.subsec_nanosecond() / 1000);
    out.extend_from_slice(&text);
}

/// A string as JSON. Whether it needs escapes, which few do, is found out many bytes at a time.
pub(crate) fn text(out: &mut Vec<u8>, value: &str) {
    let plain = |byte: u8| (byte >= b' ') & (byte != b'"') & (byte != b'\\');
    if value.bytes().fold(true, |so_far, byte| so_far & plain(byte)) {
        out.reserve(value.len() + 2);
        out.push(b'"');
        out.extend_from_slice(value.as_bytes());
        out.push(b'"');
    } else {
        json(out, value);
    }
}

pub(crate) fn json<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(out, value).expect("invariant: strings, maps of strings and JSON values serialize");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heading(object: Option<ObjectRef<'_>>) -> Heading {
        Heading::new(&Request {
            level: Level::Metadata,
            audit_id: "id",
            uri: "/",
            verb: "get",
            user: None,
            source_ips: &["10.0.0.1".parse().expect("an address"), "::1".parse().expect("an address")],
            user_agent: "kube\"ctl",
            object,
            received: Timestamp::UNIX_EPOCH,
            omit_managed_fields: false,
            sensitivity: Sensitivity::Nothing,
        })
    }

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).expect("text")
    }

    fn object_ref(object: ObjectRef<'_>, told: Option<&AuditedObject>) -> String {
        written(|out| heading(Some(object)).write_object_ref(told, out))
    }

    #[test]
    fn the_client_is_its_addresses_and_its_program() {
        let client = written(|out| heading(None).write_client(out));
        assert_eq!(client, r#","sourceIPs":["10.0.0.1","::1"],"userAgent":"kube\"ctl""#);
    }

    #[test]
    fn of_a_user_what_is_empty_is_left_out() {
        let mut user = UserInfo::default();
        assert_eq!(written(|out| write_user(out, &user)), "{}");
        (user.name, user.groups) = ("jane".into(), vec!["a".into(), "b\"".into()]);
        assert_eq!(written(|out| write_user(out, &user)), r#"{"username":"jane","groups":["a","b\""]}"#);
        user.extra.insert("k".into(), vec!["v".into()]);
        user.uid = "7".into();
        let all = r#"{"username":"jane","uid":"7","groups":["a","b\""],"extra":{"k":["v"]}}"#;
        assert_eq!(written(|out| write_user(out, &user)), all);
    }

    #[test]
    fn a_reference_has_what_the_request_says_before_what_the_object_says() {
        let object = ObjectRef {
            resource: "leases",
            namespace: "a",
            name: "",
            group: "coordination.k8s.io",
            version: "v1",
            subresource: "status",
        };
        assert_eq!(
            object_ref(object, None),
            concat!(
                r#","objectRef":{"resource":"leases","namespace":"a","apiGroup":"coordination.k8s.io","#,
                r#""apiVersion":"v1","subresource":"status"}"#
            )
        );
        let told =
            AuditedObject { namespace: "b".into(), name: "n".into(), uid: "u".into(), resource_version: "7".into() };
        assert_eq!(
            object_ref(object, Some(&told)),
            concat!(
                r#","objectRef":{"resource":"leases","namespace":"a","name":"n","uid":"u","apiGroup":"coordination.k8s.io","#,
                r#""apiVersion":"v1","resourceVersion":"7","subresource":"status"}"#
            )
        );
        assert_eq!(object_ref(ObjectRef::default(), None), r#","objectRef":{}"#);
        assert_eq!(written(|out| heading(None).write_object_ref(Some(&told), out)), "", "it is no resource");
    }

    proptest::proptest! {
        #[test]
        fn times_are_written_as_they_are_printed(second in 0_i64..253_402_300_799, nanosecond in 0_i32..1_000_000_000) {
            let time = Timestamp::new(second, nanosecond).expect("in range");
            // Printing rounds; what has not happened yet is not told.
            let whole = Timestamp::new(second, nanosecond / 1000 * 1000).expect("in range");
            proptest::prop_assert_eq!(written(|out| write_time(out, time)), format!("\"{whole:.6}\""));
        }

        #[test]
        fn strings_are_written_as_by_serde(value in "(\\PC|[\\x00-\\x7f]){0,40}") {
            let expected = serde_json::to_string(&value).expect("a string");
            proptest::prop_assert_eq!(written(|out| text(out, &value)), expected);
        }
    }
}
