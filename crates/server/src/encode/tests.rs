//! Lists put together object by object are, byte for byte, the lists encoded whole.

use std::sync::Arc;

use bailiwick_machinery::media::{MediaType, MetaVersion};
use bailiwick_store::{KeyValue, Revision};
use serde_json::{Value, json};

use super::{Encoder, IncludeObject, Layout, ListMeta, Shape};
use crate::cache::{Object, encode_for_storage};
use crate::registry::{Registry, Served, TenantId};

/// An encoder of a resource of the core group, or of RBAC's.
pub(crate) fn encoder(plural: &str, media: MediaType, shape: Shape, layout: Layout) -> Encoder {
    let registry = Registry::new(&TenantId::root(), bailiwick_api::native_resources());
    let group = if plural == "roles" { "rbac.authorization.k8s.io" } else { "" };
    let served = registry.get(group, "v1", plural).expect("a native resource").clone();
    Encoder::new(served, media, (shape, MetaVersion::V1), layout, IncludeObject::Object)
}

/// An object as it comes from the store.
pub(crate) fn stored(served: &Served, name: &str, value: impl Into<Vec<u8>>) -> Arc<Object> {
    let kv = KeyValue {
        key: served.key("default", name),
        value: value.into().into(),
        create_revision: Revision(7),
        mod_revision: Revision(42),
    };
    let spec = served.cache.as_ref().expect("a stored resource");
    spec.parse(&kv).expect("an object")
}

/// Objects with all that indentation and quoting could stumble over.
fn objects(served: &Served) -> Vec<Arc<Object>> {
    let contents = match served.resource.plural.as_str() {
        "roles" => [
            json!({"rules": [{"apiGroups": [""], "resources": ["configmaps", "secrets"], "verbs": ["get"]}]}),
            json!({"rules": null}),
            json!({"rules": [{"verbs": ["*"], "nonResourceURLs": ["/"]}, {"apiGroups": ["*"], "verbs": []}]}),
        ],
        _ => [
            json!({"data": {"lines": "a: 1\n\"items\": []\n\nitems: []\n", "empty": "", "yes": "no", "é": "\u{1f600}"}}),
            json!({}),
            json!({"data": {"long": "word ".repeat(60), "tab": "\t", "#": "- x"}, "binaryData": {"b": "AAEC"}}),
        ],
    };
    let named = |(index, mut object): (usize, Value)| {
        let name = format!("o{index}");
        object["kind"] = served.resource.kind.as_str().into();
        object["apiVersion"] = served.api_version.as_str().into();
        object["metadata"] = json!({
            "name": name, "namespace": "default", "uid": "u", "creationTimestamp": null,
            "labels": {"a": "b"}, "annotations": {"text": "{\n  \"rows\": []\n}"}, "finalizers": ["x/y", "z/z"],
        });
        stored(served, &name, encode_for_storage(&object))
    };
    contents.into_iter().enumerate().map(named).collect()
}

/// The list as a tree, encoded as trees are.
fn encoded_at_once(encoder: &Encoder, meta: &ListMeta, objects: &[Arc<Object>]) -> Vec<u8> {
    let items: Vec<Value> = objects.iter().map(|object| encoder.item_value(object).expect("readable")).collect();
    let list = match encoder.shape {
        Shape::Table => encoder.table_of(meta, &items),
        _ => {
            let (kind, api_version) = encoder.list_kind();
            json!({"kind": kind, "apiVersion": api_version, "metadata": encoder.list_meta(meta), "items": items})
        }
    };
    encoder.value(&list).expect("encodes").into()
}

#[tokio::test]
async fn lists_made_object_by_object_are_those_made_at_once() {
    let meta = ListMeta { resource_version: Revision(42), continue_token: "dG9rZW4".into(), remaining: Some(3) };
    let forms = [
        (MediaType::Json, Layout::Compact),
        (MediaType::Json, Layout::Pretty),
        (MediaType::Yaml, Layout::Compact),
        (MediaType::Protobuf, Layout::Compact),
    ];
    for plural in ["configmaps", "roles"] {
        for (media, layout) in forms {
            for shape in [Shape::Whole, Shape::Metadata, Shape::Table] {
                let encoder = encoder(plural, media, shape, layout);
                let all = objects(encoder.served());
                if (media, shape) == (MediaType::Protobuf, Shape::Table) {
                    encoder.whole_list(&meta, &all).expect_err("tables have no protobuf form");
                    continue;
                }
                for count in 0..=all.len() {
                    let chosen = &all[..count];
                    let expected = encoded_at_once(&encoder, &meta, chosen);
                    let readable = || String::from_utf8_lossy(&expected).into_owned();
                    let list = encoder.whole_list(&meta, chosen).expect("encodes");
                    assert_eq!(String::from_utf8_lossy(&list), readable(), "{plural} {media:?} {layout:?} {shape:?}");
                    assert_eq!(list, expected);
                    let in_turns = encoder.whole_list_in_turns(&meta, chosen.to_vec()).await.expect("encodes");
                    assert_eq!(in_turns, expected);
                }
            }
        }
    }
}

#[test]
fn a_list_that_lacks_an_object_is_an_error() {
    let encoder = encoder("configmaps", MediaType::Yaml, Shape::Whole, Layout::Compact);
    let damaged = stored(encoder.served(), "damaged", r#"{"metadata":{"name":"damaged"},"data":{"x":1e999}}"#);
    encoder.whole_list(&ListMeta::default(), &[damaged]).expect_err("it cannot be read");
}
