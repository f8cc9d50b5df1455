//! Bodies on their way into events: copied as they are, but for what must not be seen.
//!
//! Values of Secrets and tokens never get into an event, at no level. Of a Secret only fields known to be harmless are
//! copied, so that a misspelt field does not show what the right one would have hidden. Nothing is parsed deeper than
//! needed: the rest is copied as bytes.

use std::borrow::Cow;
use std::fmt;

use bailiwick_machinery::sensitivity::Sensitivity;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// What stands where a value was.
const REDACTED: &[u8] = br#""REDACTED""#;
/// Where `kubectl apply` keeps the whole object, values included.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What is done to a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cleaning {
    sensitivity: Sensitivity,
    drop_managed_fields: bool,
}

impl Cleaning {
    pub fn of(sensitivity: Sensitivity, drop_managed_fields: bool) -> Self {
        Self { sensitivity, drop_managed_fields }
    }
}

/// Copies a JSON document into `out` on one line, cleaned. `None` when it cannot be read; `out` may then hold a part.
pub(crate) fn splice(body: &[u8], cleaning: Cleaning, out: &mut Vec<u8>) -> Option<()> {
    let body = body.trim_ascii();
    if body.is_empty() {
        return None;
    }
    if cleaning.sensitivity == Sensitivity::Nothing && !cleaning.drop_managed_fields {
        copy_on_one_line(body, out);
        return Some(());
    }
    let raw: &RawValue = serde_json::from_slice(body).ok()?;
    if body.starts_with(b"[") {
        clean_patch(raw, cleaning, out)
    } else {
        clean_object(raw, cleaning, Place::Document, out)
    }
}

/// Line breaks in JSON are outside of strings, where a space does as well.
fn copy_on_one_line(body: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(body);
    if memchr::memchr2(b'\n', b'\r', body).is_some() {
        for byte in out.iter_mut().skip(start).filter(|byte| matches!(byte, b'\n' | b'\r')) {
            *byte = b' ';
        }
    }
}

fn copy(raw: &RawValue, out: &mut Vec<u8>) -> Option<()> {
    copy_on_one_line(raw.get().as_bytes(), out);
    Some(())
}

fn redact(out: &mut Vec<u8>) -> Option<()> {
    out.extend_from_slice(REDACTED);
    Some(())
}

/// Where an object stands. Only a whole document holds others, which bounds how deep this goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Document,
    Item,
}

/// An object, a list of objects, a table of objects, or a merge patch of an object.
fn clean_object(raw: &RawValue, cleaning: Cleaning, place: Place, out: &mut Vec<u8>) -> Option<()> {
    let secret = cleaning.sensitivity == Sensitivity::Secret;
    write_fields(raw, out, |key, value, out| match key {
        "metadata" => clean_metadata(value, cleaning, out),
        "items" if place == Place::Document => {
            write_items(value, out, |item, out| clean_object(item, cleaning, Place::Item, out))
        }
        "rows" if place == Place::Document => write_items(value, out, |row, out| {
            write_fields(row, out, |key, value, out| match key {
                "object" => clean_object(value, cleaning, Place::Item, out),
                _ => copy(value, out),
            })
        }),
        "data" | "stringData" if secret => write_fields(value, out, |_, _, out| redact(out)).or_else(|| redact(out)),
        "spec" | "status" if cleaning.sensitivity == Sensitivity::Token => {
            write_fields(value, out, |key, value, out| if key == "token" { redact(out) } else { copy(value, out) })
        }
        _ if secret && !HARMLESS_IN_SECRETS.contains(&key) => redact(out),
        _ => copy(value, out),
    })
}

/// Fields of Secrets, of their lists and tables and of a Status about them that hold no values of theirs.
const HARMLESS_IN_SECRETS: &[&str] = &[
    "apiVersion",
    "kind",
    "type",
    "immutable",
    "columnDefinitions",
    "status",
    "message",
    "reason",
    "details",
    "code",
    "propagationPolicy",
    "preconditions",
    "gracePeriodSeconds",
    "orphanDependents",
    "dryRun",
];

fn clean_metadata(raw: &RawValue, cleaning: Cleaning, out: &mut Vec<u8>) -> Option<()> {
    write_fields_but(raw, out, cleaning.drop_managed_fields.then_some("managedFields"), |key, value, out| match key {
        "annotations" if cleaning.sensitivity == Sensitivity::Secret => {
            write_fields(value, out, |key, value, out| if key == LAST_APPLIED { redact(out) } else { copy(value, out) })
        }
        _ => copy(value, out),
    })
}

/// A JSON patch: its values may be anything of the object.
fn clean_patch(raw: &RawValue, cleaning: Cleaning, out: &mut Vec<u8>) -> Option<()> {
    if cleaning.sensitivity == Sensitivity::Nothing {
        return copy(raw, out);
    }
    write_items(raw, out, |operation, out| {
        write_fields(operation, out, |key, value, out| match key {
            "op" | "path" | "from" => copy(value, out),
            _ => redact(out),
        })
    })
}

type Write<'w> = &'w mut Vec<u8>;

fn write_fields(
    raw: &RawValue,
    out: &mut Vec<u8>,
    field: impl Fn(&str, &RawValue, Write<'_>) -> Option<()>,
) -> Option<()> {
    write_fields_but(raw, out, None, field)
}

/// Writes an object field by field; a null stays one, and anything else is no object.
fn write_fields_but(
    raw: &RawValue,
    out: &mut Vec<u8>,
    dropped: Option<&str>,
    field: impl Fn(&str, &RawValue, Write<'_>) -> Option<()>,
) -> Option<()> {
    if raw.get() == "null" {
        return copy(raw, out);
    }
    let Fields(fields) = serde_json::from_str(raw.get()).ok()?;
    out.push(b'{');
    let mut first = true;
    for (key, value) in fields.iter().filter(|(key, _)| Some(key.as_ref()) != dropped) {
        if !std::mem::take(&mut first) {
            out.push(b',');
        }
        serde_json::to_writer(&mut *out, key.as_ref()).ok()?;
        out.push(b':');
        field(key, value, out)?;
    }
    out.push(b'}');
    Some(())
}

fn write_items(raw: &RawValue, out: &mut Vec<u8>, item: impl Fn(&RawValue, Write<'_>) -> Option<()>) -> Option<()> {
    if raw.get() == "null" {
        return copy(raw, out);
    }
    let items: Vec<&RawValue> = serde_json::from_str(raw.get()).ok()?;
    out.push(b'[');
    for (index, value) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        item(value, out)?;
    }
    out.push(b']');
    Some(())
}

/// The fields of an object in their order, values unread.
struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
                let mut fields = Vec::new();
                while let Some(Key(key)) = map.next_key()? {
                    fields.push((key, map.next_value()?));
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cleaned(body: &str, sensitivity: Sensitivity, drop_managed_fields: bool) -> Option<String> {
        let mut out = Vec::new();
        splice(body.as_bytes(), Cleaning::of(sensitivity, drop_managed_fields), &mut out)?;
        Some(String::from_utf8(out).expect("text"))
    }

    fn secret(body: &str) -> String {
        cleaned(body, Sensitivity::Secret, false).expect("readable")
    }

    #[test]
    fn harmless_bodies_are_copied_on_one_line() {
        let copied = cleaned("{\n \"a\": \"x\\ny\"\r\n}\n", Sensitivity::Nothing, false);
        assert_eq!(copied.as_deref(), Some("{  \"a\": \"x\\ny\"  }"));
    }

    #[test]
    fn values_of_secrets_are_hidden_wherever_they_are() {
        assert_eq!(
            secret(r#"{"kind":"Secret","data":{"a":"b"},"stringData":{"c":"d"},"type":"Opaque"}"#),
            r#"{"kind":"Secret","data":{"a":"REDACTED"},"stringData":{"c":"REDACTED"},"type":"Opaque"}"#
        );
        assert_eq!(secret(r#"{"items":[{"data":{"a":"b"}}]}"#), r#"{"items":[{"data":{"a":"REDACTED"}}]}"#);
        assert_eq!(
            secret(r#"{"rows":[{"cells":["s"],"object":{"data":{"a":"b"}}}]}"#),
            r#"{"rows":[{"cells":["s"],"object":{"data":{"a":"REDACTED"}}}]}"#
        );
        assert_eq!(
            secret(r#"[{"op":"replace","path":"/data/a","value":"b"}]"#),
            r#"[{"op":"replace","path":"/data/a","value":"REDACTED"}]"#
        );
        let applied = format!(r#"{{"metadata":{{"annotations":{{"{LAST_APPLIED}":"all","x":"y"}}}}}}"#);
        assert_eq!(
            secret(&applied),
            format!(r#"{{"metadata":{{"annotations":{{"{LAST_APPLIED}":"REDACTED","x":"y"}}}}}}"#)
        );
        assert_eq!(secret(r#"{"Data":{"a":"b"},"data":null}"#), r#"{"Data":"REDACTED","data":null}"#);
        assert_eq!(secret(r#"{"data":"b"}"#), r#"{"data":"REDACTED"}"#);
    }

    #[test]
    fn tokens_are_hidden() {
        let body = r#"{"spec":{"token":"t","audiences":["a"]},"status":{"token":"u"}}"#;
        let expected = r#"{"spec":{"token":"REDACTED","audiences":["a"]},"status":{"token":"REDACTED"}}"#;
        assert_eq!(cleaned(body, Sensitivity::Token, false).as_deref(), Some(expected));
    }

    #[test]
    fn managed_fields_are_dropped_from_objects_and_lists() {
        let body = r#"{"metadata":{"name":"n","managedFields":[1]},"items":[{"metadata":{"managedFields":[]}}]}"#;
        let expected = r#"{"metadata":{"name":"n"},"items":[{"metadata":{}}]}"#;
        assert_eq!(cleaned(body, Sensitivity::Nothing, true).as_deref(), Some(expected));
    }

    #[test]
    fn what_cannot_be_read_is_not_shown() {
        assert_eq!(cleaned("{\"data\":", Sensitivity::Secret, false), None);
        assert_eq!(cleaned("  ", Sensitivity::Nothing, false), None);
    }

    proptest! {
        #[test]
        fn no_value_of_a_secret_is_ever_seen(field in "[a-zA-Z]{1,12}", nested in any::<bool>()) {
            let value = if nested { r#"{"k":"hunter2"}"# } else { r#""hunter2""# };
            let harmless = HARMLESS_IN_SECRETS.contains(&field.as_str());
            prop_assume!(!harmless && field != "metadata" && field != "items" && field != "rows");
            let seen = cleaned(&format!("{{\"{field}\":{value}}}"), Sensitivity::Secret, false).unwrap_or_default();
            prop_assert!(!seen.contains("hunter2"));
        }

        #[test]
        fn any_bytes_are_spliced_or_refused(body in proptest::collection::vec(any::<u8>(), 0..100)) {
            let mut out = Vec::new();
            let _ = splice(&body, Cleaning::of(Sensitivity::Secret, true), &mut out);
        }
    }
}
