//! An object as the server holds it: the stored bytes plus the few parsed facts that reads and selectors need.
//!
//! Bytes travel, trees do not: a GET, LIST or WATCH of the stored version sends these bytes with the resourceVersion
//! spliced in. The bytes are shared with the store, so an object costs its encoded size once.

use std::borrow::Cow;

use bailiwick_machinery::resource::SelectableField;
use bailiwick_store::{KeyValue, Revision};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// The longest text `splice` inserts: the field, a 20-digit revision and the comma.
pub const SPLICE_LEN_MAX: usize = "\"resourceVersion\":\"\",".len() + 20;

/// One stored object at one revision.
#[derive(Debug)]
pub struct Object {
    /// The stored JSON, which holds no resourceVersion.
    json: Bytes,
    /// Where in `json` the resourceVersion belongs.
    splice_at: u32,
    /// Where the value of `metadata` starts and ends in `json`.
    metadata: (u32, u32),
    /// Whether a deletion has been asked for.
    pub deleting: bool,
    pub revision: Revision,
    key: Bytes,
    /// Where the name starts in `key`.
    name_at: u32,
    /// Where the namespace starts in `key`; equal to `name_at` for cluster-scoped objects.
    namespace_at: u32,
    labels: Box<[(Box<str>, Box<str>)]>,
    /// Values of the resource's selectable fields, in the descriptor's order.
    fields: Box<[Box<str>]>,
}

/// Stored bytes that do not parse as an object with metadata: damage, or another program's writes.
#[derive(Debug, thiserror::Error)]
#[error("stored object {key} cannot be read: {source}")]
pub struct UnreadableObject {
    key: String,
    source: serde_json::Error,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    metadata: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow, default)]
    uid: Option<BorrowedText<'a>>,
    #[serde(borrow, default)]
    labels: Option<LabelPairs<'a>>,
    #[serde(default)]
    deletion_timestamp: Option<serde::de::IgnoredAny>,
}

/// Labels as pairs: a map type would sort and hash what is only searched linearly.
struct LabelPairs<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'de: 'a, 'a> Deserialize<'de> for LabelPairs<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Vec<(Cow<'de, str>, Cow<'de, str>)>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a map of strings")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::with_capacity(map.size_hint().unwrap_or(4));
                while let Some(pair) = map.next_entry::<BorrowedText<'de>, BorrowedText<'de>>()? {
                    pairs.push((pair.0.0, pair.1.0));
                }
                Ok(pairs)
            }
        }
        deserializer.deserialize_map(Visitor).map(LabelPairs)
    }
}

/// `Cow` inside containers deserializes owned unless asked to borrow.
#[derive(Deserialize)]
struct BorrowedText<'a>(#[serde(borrow)] Cow<'a, str>);

/// Where an object lives within the key space: `…/<namespace>/<name>` or `…/<name>` after the resource prefix.
#[derive(Clone, Copy, Debug)]
pub struct KeyLayout {
    /// Length of the resource's prefix, slash included.
    pub prefix_len: usize,
    pub namespaced: bool,
}

impl Object {
    /// Reads the facts from stored bytes.
    pub fn parse(kv: &KeyValue, layout: KeyLayout, selectable: &[SelectableField]) -> Result<Self, UnreadableObject> {
        let unreadable = |source| UnreadableObject { key: String::from_utf8_lossy(&kv.key).into_owned(), source };
        let text = std::str::from_utf8(&kv.value)
            .map_err(|e| unreadable(serde::de::Error::custom(format_args!("not UTF-8: {e}"))))?;
        let envelope: Envelope<'_> = serde_json::from_str(text).map_err(unreadable)?;
        let raw = envelope.metadata.get();
        let metadata: Metadata<'_> = serde_json::from_str(raw).map_err(unreadable)?;
        let start = raw.as_ptr() as usize - text.as_ptr() as usize;
        let fields = if selectable.is_empty() {
            Box::default()
        } else {
            let value: Value = serde_json::from_str(text).map_err(unreadable)?;
            selectable.iter().map(|field| field.value(&value).into()).collect()
        };
        let after_prefix = &kv.key[layout.prefix_len.min(kv.key.len())..];
        let slash = if layout.namespaced { memchr::memchr(b'/', after_prefix) } else { None };
        let labels = metadata.labels.map(|l| l.0).unwrap_or_default();
        Ok(Self {
            splice_at: splice_point(text, start, metadata.uid.as_ref().map(|uid| &*uid.0)) as u32,
            metadata: (start as u32, (start + raw.len()) as u32),
            deleting: metadata.deletion_timestamp.is_some(),
            revision: kv.mod_revision,
            name_at: (layout.prefix_len + slash.map_or(0, |at| at + 1)) as u32,
            namespace_at: layout.prefix_len as u32,
            labels: labels.into_iter().map(|(k, v)| (Box::from(&*k), Box::from(&*v))).collect(),
            fields,
            key: kv.key.clone(),
            json: kv.value.clone(),
        })
    }

    /// The same object as it is last seen: a deletion has a revision of its own.
    pub fn at_revision(&self, revision: Revision) -> Self {
        Self {
            json: self.json.clone(),
            splice_at: self.splice_at,
            metadata: self.metadata,
            deleting: self.deleting,
            revision,
            key: self.key.clone(),
            name_at: self.name_at,
            namespace_at: self.namespace_at,
            labels: self.labels.clone(),
            fields: self.fields.clone(),
        }
    }

    pub fn key(&self) -> &Bytes {
        &self.key
    }

    pub fn name(&self) -> &str {
        str_of(&self.key[self.name_at as usize..])
    }

    /// Empty for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        let (start, end) = (self.namespace_at as usize, self.name_at as usize);
        if start == end { "" } else { str_of(&self.key[start..end - 1]) }
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.iter().find(|(k, _)| &**k == key).map(|(_, v)| &**v)
    }

    /// The value of the `index`-th selectable field of the resource.
    pub fn field(&self, index: usize) -> &str {
        self.fields.get(index).map_or("", |f| f)
    }

    /// The stored bytes, without resourceVersion.
    pub fn stored_json(&self) -> &Bytes {
        &self.json
    }

    /// The length `write_json` writes, at most.
    pub fn json_len_max(&self) -> usize {
        self.json.len() + SPLICE_LEN_MAX
    }

    /// Appends the object as clients see it.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        self.write_span(out, 0, self.json.len());
    }

    /// Appends the object as an item of a typed list, whose items carry no kind and apiVersion of their own.
    pub fn write_list_item(&self, out: &mut Vec<u8>) {
        const KEY: &[u8] = b"\"metadata\":";
        let key_at = (self.metadata.0 as usize).saturating_sub(KEY.len());
        if self.json[key_at..].starts_with(KEY) && self.json.starts_with(b"{\"kind\":") {
            out.push(b'{');
            self.write_span(out, key_at, self.json.len());
        } else {
            self.write_json(out);
        }
    }

    /// Appends just the metadata.
    pub fn write_metadata(&self, out: &mut Vec<u8>) {
        self.write_span(out, self.metadata.0 as usize, self.metadata.1 as usize);
    }

    fn write_span(&self, out: &mut Vec<u8>, start: usize, end: usize) {
        let at = self.splice_at as usize;
        out.extend_from_slice(&self.json[start..at]);
        // A dry run has no revision to show.
        if self.revision != Revision::default() {
            write_resource_version(out, self.revision);
        }
        out.extend_from_slice(&self.json[at..end]);
    }

    /// The object as clients see it.
    pub fn to_json(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.json_len_max());
        self.write_json(&mut out);
        out
    }

    /// The object as a tree, resourceVersion included.
    pub fn to_value(&self) -> Result<Value, serde_json::Error> {
        let mut value: Value = serde_json::from_slice(&self.json)?;
        if self.revision != Revision::default() {
            value["metadata"]["resourceVersion"] = self.revision.to_string().into();
        }
        Ok(value)
    }
}

fn str_of(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

fn write_resource_version(out: &mut Vec<u8>, revision: Revision) {
    use std::io::Write;
    // Writing to a Vec cannot fail.
    let _ = write!(out, "\"resourceVersion\":\"{}\",", revision.0);
}

/// After the uid, where upstream has it; else right after the opening brace of metadata. Both are followed by another
/// field, because every stored object has at least a name and a creation timestamp.
fn splice_point(text: &str, metadata_at: usize, uid: Option<&str>) -> usize {
    if let Some(uid) = uid {
        let offset = (uid.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize);
        let end = offset.wrapping_add(uid.len());
        if offset < text.len() && text.as_bytes().get(end..end + 2) == Some(b"\",") {
            return end + 2;
        }
    }
    metadata_at + 1
}

/// The metadata fields that come first in stored bytes, in upstream's order; the rest follows sorted.
const METADATA_ORDER: &[&str] = &[
    "name",
    "generateName",
    "namespace",
    "uid",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

/// Encodes an object for storage: no resourceVersion, kind and apiVersion and metadata in front where a reader looks first.
pub fn encode_for_storage(object: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    out.push(b'{');
    for field in ["kind", "apiVersion"] {
        if let Some(value) = object.get(field) {
            write_field(&mut out, field, value);
        }
    }
    separate(&mut out);
    out.extend_from_slice(b"\"metadata\":{");
    if let Some(metadata) = object.get("metadata").and_then(Value::as_object) {
        for field in METADATA_ORDER {
            if let Some(value) = metadata.get(*field) {
                write_field(&mut out, field, value);
            }
        }
        for (field, value) in metadata {
            if field != "resourceVersion" && !METADATA_ORDER.contains(&field.as_str()) {
                write_field(&mut out, field, value);
            }
        }
    }
    out.push(b'}');
    for (field, value) in object.as_object().into_iter().flatten() {
        if !matches!(field.as_str(), "kind" | "apiVersion" | "metadata") {
            write_field(&mut out, field, value);
        }
    }
    out.push(b'}');
    out
}

fn separate(out: &mut Vec<u8>) {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
}

fn write_field(out: &mut Vec<u8>, name: &str, value: &Value) {
    separate(out);
    // A JSON value always serializes into memory.
    let _ = serde_json::to_writer(&mut *out, name);
    out.push(b':');
    let _ = serde_json::to_writer(&mut *out, value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn stored(object: &Value, key: &str, namespaced: bool) -> Object {
        let kv = KeyValue {
            key: Bytes::copy_from_slice(key.as_bytes()),
            value: encode_for_storage(object).into(),
            create_revision: Revision(7),
            mod_revision: Revision(42),
        };
        let layout = KeyLayout { prefix_len: "r/core/things/".len(), namespaced };
        Object::parse(&kv, layout, &[SelectableField::at("spec.size")]).expect("parses")
    }

    #[test]
    fn resource_version_is_spliced_into_stored_bytes() {
        let object = json!({
            "apiVersion": "v1", "kind": "Thing", "spec": {"size": 3},
            "metadata": {"name": "a", "namespace": "n", "uid": "u-1", "resourceVersion": "9",
                         "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"x\"y": "z"}},
        });
        let stored = stored(&object, "r/core/things/n/a", true);
        let text = String::from_utf8(stored.to_json()).expect("utf-8");
        assert_eq!(
            text,
            r#"{"kind":"Thing","apiVersion":"v1","metadata":{"name":"a","namespace":"n","uid":"u-1","resourceVersion":"42","creationTimestamp":"2026-01-01T00:00:00Z","labels":{"x\"y":"z"}},"spec":{"size":3}}"#
        );
        assert_eq!((stored.namespace(), stored.name(), stored.label("x\"y")), ("n", "a", Some("z")));
        assert_eq!(stored.field(0), "3");
        assert_eq!(stored.to_value().expect("value")["metadata"]["resourceVersion"], "42");
    }

    #[test]
    fn an_odd_uid_still_gives_valid_json() {
        let object = json!({"metadata": {"name": "a", "uid": "u\n1", "creationTimestamp": null}});
        let stored = stored(&object, "r/core/things/a", false);
        let value: Value = serde_json::from_slice(&stored.to_json()).expect("valid JSON");
        assert_eq!(value["metadata"]["resourceVersion"], "42");
        assert_eq!((stored.namespace(), stored.name()), ("", "a"));
    }

    #[test]
    fn unreadable_bytes_are_an_error_that_names_the_key() {
        let kv = KeyValue {
            key: Bytes::from_static(b"r/core/things/a"),
            value: Bytes::from_static(b"{\"kind\":"),
            create_revision: Revision(1),
            mod_revision: Revision(1),
        };
        let error = Object::parse(&kv, KeyLayout { prefix_len: 0, namespaced: false }, &[]).expect_err("damaged");
        assert!(error.to_string().contains("r/core/things/a"));
    }
}
