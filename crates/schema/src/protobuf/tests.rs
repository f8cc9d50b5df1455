//! The bytes Kubernetes writes for each object are recorded in `testdata/decode.jsonl`; ours must be the same.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::decode::{self, decode_base64};

fn ty(name: &str) -> &'static Type {
    Types::native().by_name(name).unwrap_or_else(|| panic!("no type {name}"))
}

fn config_map() -> &'static Type {
    ty("io.k8s.api.core.v1.ConfigMap")
}

struct Golden {
    ty: &'static Type,
    value: Value,
    wire: Vec<u8>,
    printed: Value,
}

/// The goldens that have a protobuf form.
static GOLDENS: LazyLock<Vec<Golden>> =
    LazyLock::new(|| include_str!("../../testdata/decode.jsonl").lines().filter_map(golden).collect());

fn golden(line: &str) -> Option<Golden> {
    let line: Value = serde_json::from_str(line).expect("a golden is JSON");
    let wire = decode_base64(line["proto"].as_str()?)?;
    let ty = ty(line["type"].as_str()?);
    let value = decode::decode(ty, line["input"].as_str()?.as_bytes()).ok()?.value;
    Some(Golden { ty, value, wire, printed: serde_json::from_str(line["printed"].as_str()?).ok()? })
}

fn without_type_meta(value: &Value) -> Value {
    let mut value = value.clone();
    if let Value::Object(map) = &mut value {
        map.remove("apiVersion");
        map.remove("kind");
    }
    value
}

#[test]
fn messages_are_those_kubernetes_writes() {
    let mut wrong = Vec::new();
    for golden in GOLDENS.iter() {
        let text = golden.value.to_string();
        // Pointers to what prints as null are set in the golden only.
        let null_pointer = ["\"deletionTimestamp\":null", "\"items\":null"].iter().any(|t| text.contains(t));
        let found = encode(golden.ty, &golden.value).expect("decoded values encode");
        if !null_pointer && found != golden.wire {
            wrong.push(format!("{:?} {text}\n  expected {:x?}\n  found    {found:x?}", golden.ty, golden.wire));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn messages_of_kubernetes_are_read_as_kubernetes_reads_them() {
    for golden in GOLDENS.iter() {
        let found = decode(golden.ty, &golden.wire).expect("upstream's bytes decode");
        assert_eq!(found, without_type_meta(&golden.printed), "{:?}", golden.ty);
    }
}

#[test]
fn lists_can_be_built_from_encoded_items() {
    let list_type = ty("io.k8s.api.core.v1.ConfigMapList");
    let items: Vec<Value> =
        (0..3).map(|i| json!({"metadata": {"name": format!("c{i}")}, "data": {"k": "v".repeat(i * 100)}})).collect();
    let list =
        json!({"apiVersion": "v1", "kind": "ConfigMapList", "metadata": {"resourceVersion": "7"}, "items": items});
    let whole = encode_object(list_type, &list).expect("encodes");
    let encoded: Vec<Vec<u8>> = items.iter().map(|i| encode(config_map(), i).expect("encodes")).collect();
    let spliced =
        encode_list("v1", "ConfigMapList", &list["metadata"], encoded.iter().map(Vec::as_slice)).expect("encodes");
    assert_eq!(spliced, whole);
}

#[test]
fn every_list_has_its_metadata_and_items_where_splicing_puts_them() {
    for list in Types::native().iter().filter(|t| t.is_list() && t.has_protobuf()) {
        assert_eq!(list.field("metadata").map(|f| f.number), Some(METADATA), "{list:?}");
        assert_eq!(list.field("items").map(|f| f.number), Some(ITEMS), "{list:?}");
    }
}

#[test]
fn envelopes_carry_kind_and_version() {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let bytes = encode_object(config_map(), &object).expect("encodes");
    let envelope = unwrap(&bytes).expect("an envelope");
    assert_eq!((envelope.api_version.as_str(), envelope.kind.as_str()), ("v1", "ConfigMap"));
    assert_eq!(decode_object(config_map(), &envelope), Ok(object));
}

#[test]
fn bodies_that_are_no_envelope_say_why() {
    assert_eq!(unwrap(b"").unwrap_err().to_string(), "empty data");
    assert_eq!(unwrap(b"k8s\0").unwrap_err().to_string(), "empty body");
    let no_prefix = "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]";
    assert_eq!(unwrap(b"{}").unwrap_err().to_string(), no_prefix);
    assert_eq!(unwrap(b"k8s\0\x0a\x05a").unwrap_err().to_string(), "unexpected EOF");
}

#[test]
fn malformed_messages_say_why() {
    let error = |bytes: &[u8]| decode(config_map(), bytes).unwrap_err().to_string();
    assert_eq!(error(b"\x0a\x7f"), "unexpected EOF");
    assert_eq!(error(b"\x08\x01"), "proto: wrong wireType = 0 for field Metadata");
    assert_eq!(error(b"\x0c"), "proto: ConfigMap: wiretype end group for non-group");
    assert_eq!(error(b"\x02"), "proto: ConfigMap: illegal tag 0 (wire type 2)");
    assert_eq!(error(&[0xff; 11]), "proto: integer overflow");
}

#[test]
fn unknown_fields_are_skipped() {
    let mut bytes = encode(config_map(), &json!({"metadata": {"name": "a"}})).expect("encodes");
    bytes.extend_from_slice(b"\xa2\x06\x03abc\xa8\x06\x01\xad\x06abcd\xb3\x06\x08\x01\xb4\x06");
    assert_eq!(decode(config_map(), &bytes), Ok(json!({"metadata": {"name": "a"}})));
}

#[test]
fn tables_have_no_protobuf_form() {
    let table = ty("io.k8s.apimachinery.pkg.apis.meta.v1.Table");
    let error = encode(table, &json!({})).unwrap_err().to_string();
    assert!(error.starts_with("object *v1.Table does not implement the protobuf marshalling interface"), "{error}");
}

#[test]
fn deep_schemas_are_refused() {
    let props = Types::native().json_schema_props();
    let mut message = Vec::new();
    for _ in 0..MAX_NESTED {
        let mut outer = Vec::new();
        wire::put_bytes(&mut outer, props.field("not").expect("not").number, &message);
        message = outer;
    }
    assert!(matches!(decode(props, &message), Err(ProtobufError::TooDeep(_))));
}

#[test]
fn the_number_of_objects_is_limited() {
    let role = ty("io.k8s.api.rbac.v1.Role");
    let rules = role.field("rules").expect("rules").number;
    let mut message = Vec::new();
    for _ in 0..crate::decode::MAX_OBJECTS {
        wire::put_bytes(&mut message, rules, b"");
    }
    assert_eq!(decode(role, &message), Err(ProtobufError::TooManyObjects));
}

const MAX_NESTED: usize = 500;

#[test]
fn watch_frames_are_length_delimited_events() {
    let object = encode_object(config_map(), &json!({"apiVersion": "v1", "kind": "ConfigMap"})).expect("encodes");
    let frame = watch_frame("ADDED", &object);
    let (length, event) = frame.split_first_chunk::<4>().expect("a length");
    assert_eq!(u32::from_be_bytes(*length) as usize, event.len());
    let mut reader = Reader::new(event, "WatchEvent");
    let tag = reader.tag().expect("valid").expect("type");
    assert_eq!(reader.bytes(tag, "Type").expect("valid"), b"ADDED");
    let tag = reader.tag().expect("valid").expect("object");
    let mut raw = Reader::new(reader.bytes(tag, "Object").expect("valid"), "RawExtension");
    let tag = raw.tag().expect("valid").expect("raw");
    assert_eq!(raw.bytes(tag, "Raw").expect("valid"), object);
}

/// JSON values as generous as the type's fields, to be brought into shape by decoding.
fn any_config_map() -> impl Strategy<Value = Value> {
    let text = "[a-z\u{e9} ]{0,6}";
    let map = proptest::collection::btree_map(text, text, 0..4);
    let binary = proptest::collection::btree_map(text, proptest::collection::vec(any::<u8>(), 0..40), 0..3);
    (
        text,
        map.clone(),
        map,
        binary,
        proptest::option::of(any::<bool>()),
        any::<i64>(),
        proptest::collection::vec(text, 0..3),
    )
        .prop_map(|(name, labels, data, binary, immutable, generation, finalizers)| {
            let binary: serde_json::Map<_, _> =
                binary.into_iter().map(|(k, v)| (k, Value::String(decode::encode_base64(&v)))).collect();
            json!({
                "metadata": {"name": name, "labels": labels, "generation": generation, "finalizers": finalizers,
                    "creationTimestamp": "2024-01-01T00:00:00Z"},
                "data": data, "binaryData": binary, "immutable": immutable,
            })
        })
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(value in any_config_map()) {
        let value = decode::decode_value(config_map(), &value).expect("fits the type").value;
        let bytes = encode(config_map(), &value).expect("encodes");
        prop_assert_eq!(decode(config_map(), &bytes), Ok(value));
    }

    #[test]
    fn arbitrary_bytes_never_panic(data in proptest::collection::vec(any::<u8>(), 0..200)) {
        for ty in [config_map(), Types::native().json_schema_props(), Types::native().object_meta(), Types::native().status()] {
            if let Ok(value) = decode(ty, &data) {
                let again = encode(ty, &value).expect("decoded values encode");
                prop_assert!(decode(ty, &again).is_ok());
            }
        }
        let _ = unwrap(&data);
        let _ = unwrap(&[PREFIX.as_slice(), &data].concat());
    }

    #[test]
    fn damaged_messages_never_panic(at in 0usize..10_000, byte in any::<u8>(), which in 0usize..1000) {
        let golden = &GOLDENS[which % GOLDENS.len()];
        let mut bytes = golden.wire.clone();
        if !bytes.is_empty() {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        let _ = decode(golden.ty, &bytes);
    }
}
