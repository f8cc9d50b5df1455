//! Documents of custom resources, checked in themselves and against what kube-apiserver v1.36 published.

use std::collections::BTreeSet;
use std::sync::Arc;

use bailiwick_machinery::Resource;
use bailiwick_machinery::custom::{CustomType, VersionSchema};
use bailiwick_machinery::resource::{GroupResource, GroupVersion, Scope, SelectableField, Storage, Subresource};
use serde_json::{Value, json};

use super::DocumentBody;
use super::cache::{Key, OpenApi};
use super::document::{Encoding, names};
use super::tests::{
    SHARED, assert_kubectl_finds_what_patch_takes, assert_references_resolve, bytes, canonical, inline_shared, json,
    keys, operations, texts,
};
use crate::registry::{Registry, TenantId, Visibility};

const GROUP: &str = "oa.example.com";

/// What upstream published for `things` and `apples` of this group, without descriptions, and in version 2 with parameters
/// where they are used.
const RECORDED: &str = include_str!("../../testdata/custom-openapi.recorded.json");

/// A custom resource that is served as any other; only documents look at what is set here.
fn custom(group: &str, version: &str, kind: &str, schema: &Value) -> Resource {
    let native = bailiwick_api::native_resources().into_iter().find(|resource| resource.plural == "configmaps");
    let plural = format!("{}s", kind.to_lowercase());
    let storage = GroupVersion::new(group, version);
    Resource {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        storage: Storage::Stored(GroupResource { group: group.to_owned(), resource: plural.clone() }),
        plural,
        native: None,
        custom: Some(Arc::new(CustomType::new(
            Arc::new(VersionSchema::new(Some(schema.to_string().into()))),
            storage,
            1,
        ))),
        selectable_fields: Vec::new(),
        ..native.expect("configmaps are native")
    }
}

fn with_subresources(mut resource: Resource, names: &[&str]) -> Resource {
    resource.subresources = names
        .iter()
        .map(|name| Subresource {
            name: (*name).to_owned(),
            kind: None,
            verbs: vec!["get", "patch", "update"],
            strategy: resource.strategy.clone(),
        })
        .collect();
    resource
}

fn object(properties: Value) -> Value {
    json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}})
}

/// The recorded group: namespaced things with subresources and cluster-wide apples.
fn group() -> Vec<Resource> {
    let mut thing = with_subresources(
        custom(GROUP, "v1", "Thing", &object(json!({"a": {"type": "string"}}))),
        &["status", "scale"],
    );
    thing.selectable_fields = vec![SelectableField::at("spec.color")];
    let apple = custom(GROUP, "v1", "Apple", &object(json!({"n": {"type": "integer"}})));
    vec![thing, Resource { scope: Scope::Cluster, list_kind: "AppleListing".to_owned(), ..apple }]
}

fn registry(customs: Vec<Resource>) -> Arc<Registry> {
    let mut registry = Registry::new(&TenantId::root(), bailiwick_api::native_resources());
    let names: BTreeSet<(String, String)> = customs.iter().map(|r| (r.group.clone(), r.plural.clone())).collect();
    for (group, plural) in names {
        let versions = customs.iter().filter(|r| r.group == group && r.plural == plural).cloned().collect();
        registry.redefine(&group, &plural, versions, Visibility::Discoverable);
    }
    Arc::new(registry)
}

/// The registry after a definition came or changed.
fn redefined(registry: &Arc<Registry>, resource: Resource) -> Arc<Registry> {
    let mut registry = Registry::clone(registry);
    let (group, plural) = (resource.group.clone(), resource.plural.clone());
    registry.redefine(&group, &plural, vec![resource], Visibility::Discoverable);
    Arc::new(registry)
}

fn v3(group: &str, version: &str) -> Key {
    Key::V3(format!("apis/{group}/{version}"))
}

fn recorded() -> Value {
    serde_json::from_str(RECORDED).expect("the recording is JSON")
}

fn assert_same_paths(ours: &Value, expected: &Value) {
    assert_eq!(keys(ours), keys(expected));
    for (path, item) in expected.as_object().expect("paths") {
        assert_eq!(keys(&ours[path]), keys(item), "{path}");
        for (method, operation) in item.as_object().expect("operations") {
            assert_eq!(&canonical(&ours[path][method], ""), operation, "{method} {path}");
        }
    }
}

#[test]
fn version_3_has_upstreams_paths_and_definitions() {
    let mut document = json(&registry(group()), &v3(GROUP, "v1"));
    inline_shared(&mut document);
    let expected = &recorded()["v3"];
    assert_same_paths(&document["paths"], &expected["paths"]);
    assert_eq!(document["info"], expected["info"]);
    assert_eq!(json!(keys(&document["components"])), expected["components"]);
    assert_eq!(json!(keys(&document["components"]["schemas"])), expected["schemas"]);
}

#[test]
fn version_2_has_upstreams_paths_beside_the_native_ones() {
    let mut document = json(&registry(group()), &Key::V2);
    inline_shared(&mut document);
    let mut ours = document["paths"].take();
    let prefix = format!("/apis/{GROUP}/");
    ours.as_object_mut().expect("paths").retain(|path, _| path.starts_with(&prefix));
    assert_same_paths(&ours, &recorded()["v2"]["paths"]);
    assert!(document["definitions"].get("io.k8s.api.core.v1.ConfigMap").is_some());
    assert!(document["definitions"].get("com.example.oa.v1.Thing").is_some());
    assert!(document["definitions"].get("io.k8s.api.autoscaling.v1.Scale").is_some());
}

#[test]
fn every_reference_leads_somewhere_and_ids_are_unique() {
    let registry = registry(group());
    for key in [Key::V2, v3(GROUP, "v1")] {
        let document = json(&registry, &key);
        assert_references_resolve(&format!("{key:?}"), &document);
        let mut seen = BTreeSet::new();
        for (path, operation) in operations(&document) {
            assert!(seen.insert(operation["operationId"].as_str()), "{path}");
        }
    }
}

#[test]
fn kubectl_finds_what_custom_patches_take() {
    let registry = registry(group());
    for key in [Key::V2, v3(GROUP, "v1")] {
        assert_kubectl_finds_what_patch_takes(&json(&registry, &key), false);
    }
}

/// What one more kind may add to the paths and the shared parts of its document. kubectl reads the whole document of a group
/// version to explain one kind, so this times their number is what a cold `kubectl explain` waits for.
const KIND_BYTES_MAX: usize = 9_500;

#[test]
fn a_kind_more_adds_little_to_the_document_of_its_group() {
    let size = |kinds: usize| {
        let customs = (0..kinds)
            .map(|n| with_subresources(custom(GROUP, "v1", &format!("Kind{n:03}"), &object(json!({}))), &["status"]));
        let document = json(&registry(customs.collect()), &v3(GROUP, "v1"));
        let shared = SHARED.map(|section| &document["components"][section]).into_iter();
        shared.chain([&document["paths"]]).map(|section| section.to_string().len()).sum::<usize>()
    };
    let (few, many) = (size(10), size(110));
    let each = (many - few) / 100;
    assert!(each <= KIND_BYTES_MAX, "{each} bytes for each kind");
    assert!(few - 10 * each < KIND_BYTES_MAX, "what all share is written once");
}

#[test]
fn a_group_of_custom_resources_has_documents_for_its_versions_only() {
    let registry = registry(group());
    let listed: Vec<String> = names(&registry).into_iter().filter(|name| name.contains(GROUP)).collect();
    assert_eq!(listed, ["apis/oa.example.com/v1"]);
    assert!(json(&registry, &Key::V2)["paths"].get("/apis/oa.example.com/").is_none());
}

#[test]
fn protobuf_carries_what_json_carries() {
    let registry = registry(group());
    let (key, value) = (v3(GROUP, "v1"), json(&registry, &v3(GROUP, "v1")));
    let protobuf = bytes(&registry, &key, Encoding::Protobuf);
    assert_eq!(texts(&protobuf, &[4, 1, 1]), keys(&value["paths"]));
    for (number, section) in [(1, "schemas"), (2, "responses"), (3, "parameters"), (5, "requestBodies")] {
        assert_eq!(texts(&protobuf, &[5, number, 1, 1]), keys(&value["components"][section]), "{section}");
    }
    let ids: BTreeSet<String> =
        operations(&value).filter_map(|(_, operation)| Some(operation["operationId"].as_str()?.to_owned())).collect();
    let written = [4, 5, 6, 7, 10].iter().flat_map(|method| texts(&protobuf, &[4, 1, 2, *method, 5])).collect();
    assert_eq!(ids, written);

    let value = json(&registry, &Key::V2);
    let protobuf = bytes(&registry, &Key::V2, Encoding::Protobuf);
    assert_eq!(texts(&protobuf, &[8, 2, 1]), keys(&value["paths"]));
    assert_eq!(texts(&protobuf, &[9, 1, 1]), keys(&value["definitions"]));
    assert_eq!(texts(&protobuf, &[10, 1, 1]), keys(&value["parameters"]));
}

#[tokio::test]
async fn a_definition_more_changes_its_own_documents_only() {
    let openapi = OpenApi::default();
    let other = custom("other.example.com", "v1", "Other", &object(json!({})));
    let before = registry(group().into_iter().chain([other]).collect());
    let unrelated = [v3("other.example.com", "v1"), v3("rbac.authorization.k8s.io", "v1"), Key::V3("api".to_owned())];
    let own = [v3(GROUP, "v1"), Key::V2];
    let mut first = Vec::new();
    for key in unrelated.iter().chain(&own) {
        first.push(openapi.stored(&before, key.clone()).await.expect("no failure").expect("a document"));
    }
    let after = redefined(&before, custom(GROUP, "v1", "Pear", &object(json!({}))));
    for (key, known) in unrelated.iter().zip(&first) {
        let now = openapi.stored(&after, key.clone()).await.expect("no failure").expect("a document");
        assert!(Arc::ptr_eq(known, &now), "{key:?} was made again");
    }
    for (key, known) in own.iter().zip(first.iter().skip(unrelated.len())) {
        let now = openapi.stored(&after, key.clone()).await.expect("no failure").expect("a document");
        assert_ne!(known.hash, now.hash, "{key:?}");
    }
}

#[tokio::test]
async fn a_definition_that_says_the_same_again_changes_no_document() {
    let openapi = OpenApi::default();
    let before = registry(group());
    let same = group().swap_remove(0);
    let after = redefined(&before, same.clone());
    let changed = redefined(&after, Resource { list_kind: "Heap".to_owned(), ..same });
    let mut hashes = Vec::new();
    for registry in [&before, &after, &changed] {
        let stored = openapi.stored(registry, v3(GROUP, "v1")).await.expect("no failure").expect("a document");
        hashes.push(stored.hash.clone());
    }
    assert_eq!(hashes[0], hashes[1]);
    assert_ne!(hashes[1], hashes[2]);
}

#[tokio::test]
async fn a_document_goes_with_its_last_resource() {
    let openapi = OpenApi::default();
    let before = registry(vec![custom(GROUP, "v1", "Thing", &object(json!({})))]);
    assert!(openapi.stored(&before, v3(GROUP, "v1")).await.expect("no failure").is_some());
    let mut after = Registry::clone(&before);
    after.redefine(GROUP, "things", Vec::new(), Visibility::Discoverable);
    let after = Arc::new(after);
    assert!(openapi.stored(&after, v3(GROUP, "v1")).await.expect("no failure").is_none());
    assert!(!names(&after).iter().any(|name| name.contains(GROUP)));
}

#[test]
fn gzip_of_many_parts_is_one_stream_that_says_its_size() {
    let customs = (0..40).map(|n| custom(GROUP, "v1", &format!("Kind{n}"), &object(json!({"a": {"type": "string"}}))));
    let registry = registry(customs.collect());
    let document =
        Arc::new(OpenApi::default().render(&registry, &v3(GROUP, "v1"), Encoding::Json).expect("a document"));
    let mut body = DocumentBody::gzip(document);
    let announced = body.bytes_left();
    let packed: Vec<u8> = std::iter::from_fn(|| body.next_chunk()).flatten().collect();
    assert_eq!((announced, body.bytes_left()), (packed.len() as u64, 0));
    let mut unpacked = Vec::new();
    let mut decoder = flate2::read::GzDecoder::new(packed.as_slice());
    std::io::Read::read_to_end(&mut decoder, &mut unpacked).expect("one gzip stream with a right checksum");
    assert_eq!(unpacked, bytes(&registry, &v3(GROUP, "v1"), Encoding::Json));
}

#[test]
fn a_custom_version_of_a_native_group_has_a_document_of_its_own() {
    let registry = registry(vec![custom("rbac.authorization.k8s.io", "v9", "Thing", &object(json!({})))]);
    let document = json(&registry, &v3("rbac.authorization.k8s.io", "v9"));
    assert!(document["paths"].get("/apis/rbac.authorization.k8s.io/v9/").is_none());
    let native = json(&registry, &v3("rbac.authorization.k8s.io", "v1"));
    assert!(native["paths"].get("/apis/rbac.authorization.k8s.io/v1/").is_some());
    assert!(names(&registry).contains(&"apis/rbac.authorization.k8s.io".to_owned()));
}

#[test]
fn what_is_hidden_is_served_and_in_no_document() {
    let bare = registry(Vec::new());
    let mut hidden = Registry::clone(&bare);
    let things = || group().into_iter().filter(|resource| resource.plural == "things").collect::<Vec<_>>();
    hidden.redefine(GROUP, "things", things(), Visibility::Hidden);
    assert!(hidden.get(GROUP, "v1", "things").is_some() && hidden.any_version(GROUP, "things").is_some());
    assert!(!hidden.has_group_version(GROUP, "v1") && hidden.resources_of(GROUP, "v1").is_empty());
    assert_eq!(names(&hidden), names(&bare));
    let hidden = Arc::new(hidden);
    assert_eq!(keys(&json(&hidden, &Key::V2)["paths"]), keys(&json(&bare, &Key::V2)["paths"]));

    let mut shown = Registry::clone(&hidden);
    shown.redefine(GROUP, "things", things(), Visibility::Discoverable);
    assert!(shown.has_group_version(GROUP, "v1"));
    shown.redefine(GROUP, "things", things(), Visibility::Hidden);
    assert_eq!(names(&shown), names(&bare), "hidden again");
    assert!(shown.get(GROUP, "v1", "things").is_some());
}
