//! Documents of the native resources, checked in themselves and against what kube-apiserver v1.36 published.

use std::collections::{BTreeMap, BTreeSet};

use std::sync::Arc;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::DocumentBody;
use super::cache::{Key, OpenApi};
use super::document::{Encoding, names};
use crate::registry::{Registry, TenantId};

pub(super) fn registry() -> Arc<Registry> {
    Arc::new(Registry::new(&TenantId::root(), bailiwick_api::native_resources()))
}

pub(super) fn bytes(registry: &Arc<Registry>, key: &Key, encoding: Encoding) -> Vec<u8> {
    let document = OpenApi::default().render(registry, key, encoding).expect("a document can be written");
    let mut body = DocumentBody::identity(Arc::new(document));
    std::iter::from_fn(|| body.next_chunk()).flatten().collect()
}

pub(super) fn json(registry: &Arc<Registry>, key: &Key) -> Value {
    serde_json::from_slice(&bytes(registry, key, Encoding::Json)).expect("a document is JSON")
}

fn all_v3(registry: &Arc<Registry>) -> Vec<(String, Value)> {
    let documents = names(registry).into_iter().map(|name| (name.clone(), json(registry, &Key::V3(name))));
    documents.collect()
}

fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(entries) => {
            // A property may be called $ref; a reference is a string.
            if let Some(Value::String(reference)) = entries.get("$ref") {
                found.insert(reference.clone());
            }
            entries.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

pub(super) fn assert_references_resolve(name: &str, document: &Value) {
    let mut found = BTreeSet::new();
    references(document, &mut found);
    assert!(!found.is_empty() || !document.to_string().contains("$ref"));
    for reference in found {
        let pointer = reference.strip_prefix('#').expect("references are local");
        assert!(document.pointer(pointer).is_some(), "{name}: {reference} leads nowhere");
    }
}

#[test]
fn every_reference_leads_somewhere() {
    let registry = registry();
    for (name, document) in all_v3(&registry) {
        assert_references_resolve(&name, &document);
    }
    assert_references_resolve("v2", &json(&registry, &Key::V2));
}

/// The verbs of a resource by the action that documents them.
fn action(verb: &str) -> &'static str {
    match verb {
        "create" => "post",
        "update" => "put",
        "delete" => "delete",
        "deletecollection" => "deletecollection",
        "get" => "get",
        "list" => "list",
        "patch" => "patch",
        "watch" => "watchlist",
        other => panic!("unknown verb {other}"),
    }
}

#[test]
fn every_verb_of_every_resource_has_an_operation() {
    let registry = registry();
    let everything = json(&registry, &Key::V2);
    let operations: BTreeSet<(String, String)> = operations(&everything)
        .filter_map(|(path, operation)| {
            Some((path.to_owned(), operation.get("x-kubernetes-action")?.as_str()?.to_owned()))
        })
        .collect();
    for served in registry.all() {
        let resource = &served.resource;
        let base = super::paths::base_path(&resource.group, &resource.version);
        let scope = if resource.namespaced() { "/namespaces/{namespace}" } else { "" };
        let collection = format!("{scope}/{}", resource.plural);
        for verb in &resource.verbs {
            let path = match *verb {
                "watch" => format!("{base}/watch{collection}"),
                "create" | "list" | "deletecollection" => format!("{base}{collection}"),
                _ => format!("{base}{collection}/{{name}}"),
            };
            assert!(operations.contains(&(path.clone(), action(verb).to_owned())), "{verb} at {path}");
        }
        for subresource in &resource.subresources {
            for verb in &subresource.verbs {
                let path = format!("{base}{collection}/{{name}}/{}", subresource.name);
                assert!(operations.contains(&(path.clone(), action(verb).to_owned())), "{verb} at {path}");
            }
        }
    }
}

pub(super) fn operations(document: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let paths = document["paths"].as_object().expect("paths");
    paths.iter().flat_map(|(path, item)| {
        let methods = item.as_object().into_iter().flatten().filter(|(name, _)| *name != "parameters");
        methods.map(|(_, operation)| (path.as_str(), operation))
    })
}

#[test]
fn operation_ids_are_unique() {
    let everything = json(&registry(), &Key::V2);
    let mut seen = BTreeSet::new();
    for (path, operation) in operations(&everything) {
        let id = operation["operationId"].as_str().expect("an id");
        assert!(seen.insert(id), "{id} again at {path}");
    }
}

#[test]
fn explain_finds_a_text_for_every_kind_and_field() {
    let registry = registry();
    for (name, document) in all_v3(&registry) {
        let schemas = document.pointer("/components/schemas").and_then(Value::as_object);
        for (schema_name, schema) in schemas.into_iter().flatten() {
            assert!(schema.get("description").is_some(), "{name}: {schema_name}");
            let kind = schema_name.rsplit('.').next().unwrap_or_default();
            for (field, property) in schema["properties"].as_object().into_iter().flatten() {
                // Upstream says nothing of these either.
                let silent = matches!(kind, "JSONSchemaProps" | "ExternalDocumentation" | "Info")
                    || [("WatchEvent", "type"), ("CertificateSigningRequest", "metadata")].contains(&(kind, field));
                assert!(silent || property.get("description").is_some(), "{name}: {schema_name}.{field}");
            }
        }
    }
}

/// What kube-apiserver v1.36.4 published for the paths and definitions we have: the first bytes of the SHA-256 of each,
/// without descriptions and with sorted keys.
const RECORDED: &str = include_str!("../../testdata/openapi.recorded.json");

#[test]
fn documents_say_what_upstream_says() {
    let recorded: BTreeMap<String, BTreeMap<String, String>> =
        serde_json::from_str(RECORDED).expect("the recording is JSON");
    let registry = registry();
    let mut ours = BTreeMap::new();
    for (name, mut document) in all_v3(&registry) {
        inline_shared(&mut document);
        ours.insert(format!("v3 {name}"), digests(&document["paths"]));
        ours.entry(format!("v3 {name}"))
            .or_default()
            .extend(digests(document.pointer("/components/schemas").unwrap_or(&Value::Null)));
    }
    let mut v2 = json(&registry, &Key::V2);
    inline_shared(&mut v2);
    let mut entries = digests(&v2["paths"]);
    entries.extend(digests(&v2["definitions"]));
    ours.insert("v2".to_owned(), entries);
    for (document, entries) in &ours {
        let recorded = recorded.get(document).unwrap_or_else(|| panic!("{document} was not recorded"));
        for (name, digest) in entries {
            // Upstream lists kinds of all group versions it knows; we list those we serve.
            if document == "v2" && (name.ends_with(".DeleteOptions") || name.ends_with(".WatchEvent")) {
                continue;
            }
            assert_eq!(Some(digest), recorded.get(name), "{document}: {name}");
        }
        let missing: Vec<_> = recorded.keys().filter(|name| !entries.contains_key(*name)).collect();
        assert!(missing.is_empty(), "{document} lacks {missing:?}");
    }
}

fn digests(entries: &Value) -> BTreeMap<String, String> {
    let entries = entries.as_object().into_iter().flatten();
    entries
        .map(|(name, value)| {
            let text = canonical(value, "").to_string();
            let digest = Sha256::digest(text.as_bytes());
            (name.clone(), digest.iter().take(5).map(|byte| format!("{byte:02x}")).collect())
        })
        .collect()
}

/// Without descriptions, keys sorted.
pub(super) fn canonical(value: &Value, parent: &str) -> Value {
    match value {
        Value::Object(entries) => {
            let kept: BTreeMap<&String, &Value> = entries
                .iter()
                .filter(|(key, value)| *key != "description" || !value.is_string() || parent == "properties")
                .collect();
            kept.into_iter().map(|(key, value)| (key.clone(), canonical(value, key))).collect::<Map<_, _>>().into()
        }
        Value::Array(items) => items.iter().map(|item| canonical(item, "")).collect(),
        other => other.clone(),
    }
}

/// What is shared has names of its own, so it is compared where it is used.
pub(super) fn inline_shared(document: &mut Value) {
    let mut shared = Vec::from([("#/parameters/".to_owned(), document["parameters"].take())]);
    let components = document.get_mut("components").and_then(Value::as_object_mut);
    for section in components.into_iter().flat_map(|components| SHARED.map(|name| (name, components.remove(name)))) {
        shared.push((format!("#/components/{}/", section.0), section.1.unwrap_or_default()));
    }
    inline(&mut document["paths"], &shared);
}

/// The sections of a version 3 document that upstream does not have.
pub(super) const SHARED: [&str; 3] = ["parameters", "requestBodies", "responses"];

fn inline(value: &mut Value, shared: &[(String, Value)]) {
    let reference = value.get("$ref").and_then(Value::as_str);
    let member = reference.and_then(|reference| {
        shared.iter().find_map(|(place, members)| members.get(reference.strip_prefix(place.as_str())?))
    });
    if let Some(member) = member {
        *value = member.clone();
        return;
    }
    match value {
        Value::Object(entries) => entries.values_mut().for_each(|value| inline(value, shared)),
        Value::Array(items) => items.iter_mut().for_each(|item| inline(item, shared)),
        _ => {}
    }
}

/// kubectl does not follow references where it looks for what a server can do: whether PATCH takes `dryRun` and
/// `fieldValidation`, and a strategic merge patch.
pub(super) fn assert_kubectl_finds_what_patch_takes(document: &Value, strategic: bool) {
    let mut patches = 0;
    for (path, operation) in operations(document).filter(|(_, o)| o["x-kubernetes-action"] == "patch") {
        patches += 1;
        for name in ["dryRun", "fieldValidation"] {
            let parameters = operation["parameters"].as_array().expect("parameters");
            let found = parameters.iter().any(|one| one["name"] == name && one["in"] == "query");
            assert!(found, "{path}: {name} in {parameters:?}");
        }
        if document.get("openapi").is_some() && strategic {
            let content = &operation["requestBody"]["content"];
            assert!(content.get("application/strategic-merge-patch+json").is_some(), "{path}: {content}");
        }
    }
    assert!(patches > 0, "nothing can be patched");
}

#[test]
fn kubectl_finds_what_native_patches_take() {
    let registry = registry();
    assert_kubectl_finds_what_patch_takes(&json(&registry, &Key::V2), true);
    for name in ["api/v1", "apis/rbac.authorization.k8s.io/v1"] {
        assert_kubectl_finds_what_patch_takes(&json(&registry, &Key::V3(name.to_owned())), true);
    }
}

/// The length-delimited fields of a protobuf message by number.
fn fields(mut bytes: &[u8]) -> Vec<(u64, &[u8])> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let (byte, rest) = bytes.split_first().expect("a varint ends");
            *bytes = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        value
    }
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let len = match tag & 7 {
            0 => {
                varint(&mut bytes);
                continue;
            }
            1 => 8,
            2 => varint(&mut bytes) as usize,
            other => panic!("wire type {other}"),
        };
        let (field, rest) = bytes.split_at(len);
        bytes = rest;
        found.push((tag >> 3, field));
    }
    found
}

fn nested<'a>(bytes: &'a [u8], path: &[u64]) -> Vec<&'a [u8]> {
    path.iter().fold(vec![bytes], |messages, number| {
        let inner = messages.into_iter().flat_map(fields);
        inner.filter(|(found, _)| found == number).map(|(_, field)| field).collect()
    })
}

pub(super) fn texts(bytes: &[u8], path: &[u64]) -> BTreeSet<String> {
    nested(bytes, path).into_iter().map(|text| String::from_utf8(text.to_vec()).expect("UTF-8")).collect()
}

pub(super) fn keys(value: &Value) -> BTreeSet<String> {
    value.as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect()
}

#[test]
fn protobuf_carries_what_json_carries() {
    let registry = registry();
    let key = Key::V3("apis/rbac.authorization.k8s.io/v1".to_owned());
    let value = json(&registry, &key);
    let bytes = super::tests::bytes(&registry, &key, Encoding::Protobuf);
    assert_eq!(texts(&bytes, &[4, 1, 1]), keys(&value["paths"]));
    for (number, section) in [(1, "schemas"), (2, "responses"), (3, "parameters"), (5, "requestBodies")] {
        assert_eq!(texts(&bytes, &[5, number, 1, 1]), keys(&value["components"][section]), "{section}");
    }
    let ids = |method: &str| -> BTreeSet<String> {
        let items = value["paths"].as_object().into_iter().flatten();
        items.filter_map(|(_, item)| Some(item[method]["operationId"].as_str()?.to_owned())).collect()
    };
    for (number, method) in [(4, "get"), (5, "put"), (6, "post"), (7, "delete"), (10, "patch")] {
        assert_eq!(texts(&bytes, &[4, 1, 2, number, 5]), ids(method), "{method}");
    }

    let value = json(&registry, &Key::V2);
    let bytes = super::tests::bytes(&registry, &Key::V2, Encoding::Protobuf);
    assert_eq!(texts(&bytes, &[8, 2, 1]), keys(&value["paths"]));
    assert_eq!(texts(&bytes, &[9, 1, 1]), keys(&value["definitions"]));
    assert_eq!(texts(&bytes, &[10, 1, 1]), keys(&value["parameters"]));
    assert_eq!(texts(&bytes, &[13, 1, 1]), BTreeSet::from(["BearerToken".to_owned()]));
}
