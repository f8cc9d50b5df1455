//! Field management where schemas change, versions differ, or an object is seen through its scale.

use bailiwick_schema::structural::{self, Schema};
use bailiwick_schema::time::Instant;
use serde_json::{Value, json};
use std::sync::Arc;

use super::*;

const NOW: Instant = Instant { unix_seconds: 1_700_000_000, nanoseconds: 0 };

static NO_RESET: ResetFields = ResetFields::NONE;

fn schema(spec: Value) -> Arc<Schema> {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}});
    structural::compile(&schema).expect("a structural schema")
}

fn manager<'a>(schema: &'a Schema, api_version: &'a str, converter: &'a dyn VersionConverter) -> FieldManager<'a> {
    let types = TypeRef::custom(schema);
    FieldManager { types, api_version, kind: "Widget", subresource: "", reset: &NO_RESET, converter }
}

fn widget(api_version: &str, spec: Value) -> Value {
    json!({"apiVersion": api_version, "kind": "Widget", "metadata": {"name": "x"}, "spec": spec})
}

fn existing(mut object: Value) -> Value {
    object["metadata"]["uid"] = json!("8a2e");
    object
}

fn fields(object: &Value, at: usize) -> &Value {
    &object["metadata"]["managedFields"][at]["fieldsV1"]
}

fn entry(manager: &str, operation: &str, api_version: &str, fields: Value) -> Value {
    json!({"manager": manager, "operation": operation, "apiVersion": api_version, "time": "2020-01-01T00:00:00Z",
           "fieldsType": "FieldsV1", "fieldsV1": fields})
}

#[test]
fn owners_of_parts_own_the_whole_once_a_list_or_map_is_atomic() {
    let text = json!({"type": "string"});
    let granular = schema(json!({
        "list": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
        "map": {"type": "object", "additionalProperties": text},
        "other": text,
    }));
    let atomic = schema(json!({
        "list": {"type": "array", "x-kubernetes-list-type": "atomic", "items": text},
        "map": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": text},
        "other": text,
    }));
    let config = widget("x.test/v1", json!({"list": ["a"], "map": {"k": "v"}, "other": "1"}));
    let applied = manager(&granular, "x.test/v1", &NoOtherVersions).apply(None, &config, "one", Force::No, NOW);
    let live = existing(applied.expect("applied").object);
    assert_eq!(fields(&live, 0), &json!({"f:spec": {"f:list": {"v:\"a\"": {}}, "f:map": {"f:k": {}}, "f:other": {}}}));
    for other in ["1", "2"] {
        let mut new = live.clone();
        new["spec"]["other"] = json!(other);
        manager(&atomic, "x.test/v1", &NoOtherVersions).update(&live, &mut new, "two", NOW).expect("tracked");
        let mut expected = json!({"f:spec": {"f:list": {}, "f:map": {}, "f:other": {}}});
        if other == "2" {
            expected["f:spec"].as_object_mut().expect("spec").remove("f:other");
        }
        assert_eq!(fields(&new, 0), &expected);
    }
}

/// Two versions in which one field has two names.
struct Renaming {
    old: Arc<Schema>,
    new: Arc<Schema>,
}

impl VersionConverter for Renaming {
    fn types(&self, api_version: &str) -> Option<TypeRef<'_>> {
        match api_version {
            "x.test/v1" => Some(TypeRef::custom(&self.old)),
            "x.test/v2" => Some(TypeRef::custom(&self.new)),
            _ => None,
        }
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String> {
        let (from, to) = if api_version == "x.test/v1" { ("size", "replicas") } else { ("replicas", "size") };
        let mut object = object.clone();
        object["apiVersion"] = json!(api_version);
        if let Some(spec) = object["spec"].as_object_mut()
            && let Some(value) = spec.remove(from)
        {
            spec.insert(to.to_owned(), value);
        }
        Ok(object)
    }
}

#[test]
fn fields_recorded_in_another_version_are_found_there() {
    let versions = Renaming {
        old: schema(json!({"replicas": {"type": "integer"}, "text": {"type": "string"}})),
        new: schema(json!({"size": {"type": "integer"}, "text": {"type": "string"}})),
    };
    let v1 = manager(&versions.old, "x.test/v1", &versions);
    let v2 = manager(&versions.new, "x.test/v2", &versions);
    let config = widget("x.test/v1", json!({"replicas": 1, "text": "a"}));
    let live = existing(v1.apply(None, &config, "one", Force::No, NOW).expect("applied").object);
    let live = versions.convert(&live, "x.test/v2").expect("converted");

    let config = widget("x.test/v2", json!({"size": 2}));
    let error = v2.apply(Some(&live), &config, "two", Force::No, NOW).expect_err("a conflict");
    assert_eq!(error.to_string(), r#"Apply failed with 1 conflict: conflict with "one": .spec.replicas"#);

    let mut new = live.clone();
    new["spec"]["size"] = json!(3);
    v2.update(&live, &mut new, "two", NOW).expect("tracked");
    assert_eq!(fields(&new, 0), &json!({"f:spec": {"f:text": {}}}));
    assert_eq!(fields(&new, 1), &json!({"f:spec": {"f:size": {}}}));

    let less = v2.apply(Some(&live), &widget("x.test/v2", json!({"text": "a"})), "one", Force::No, NOW);
    let less = less.expect("applied").object;
    assert_eq!(less["spec"], json!({"text": "a"}), "what it owned under another name is removed");
    assert_eq!(less["metadata"]["managedFields"][0]["apiVersion"], "x.test/v2");
}

#[test]
fn managers_of_versions_that_are_gone_are_forgotten() {
    let versions = Renaming {
        old: schema(json!({"replicas": {"type": "integer"}})),
        new: schema(json!({"size": {"type": "integer"}})),
    };
    let mut live = existing(widget("x.test/v1", json!({"replicas": 1})));
    let gone = entry("old", "Update", "x.test/v0", json!({"f:spec": {"f:count": {}}}));
    let here = entry("new", "Update", "x.test/v1", json!({"f:spec": {"f:replicas": {}}}));
    live["metadata"]["managedFields"] = json!([gone, here]);
    let mut new = live.clone();
    manager(&versions.old, "x.test/v1", &versions).update(&live, &mut new, "two", NOW).expect("tracked");
    assert_eq!(new["metadata"]["managedFields"], json!([here]));
}

#[test]
fn an_object_that_does_not_fit_its_schema_loses_its_managers() {
    let schema = schema(json!({"text": {"type": "string"}}));
    let mut new = widget("x.test/v1", json!({"unknown": 1}));
    new["metadata"]["managedFields"] = json!([entry("a", "Update", "x.test/v1", json!({"f:spec": {}}))]);
    let error =
        manager(&schema, "x.test/v1", &NoOtherVersions).create(&mut new, "one", NOW).expect_err("no such field");
    assert_eq!(error.to_string(), "object does not fit its type: .spec.unknown: field not declared in schema");
    assert_eq!(new["metadata"].get("managedFields"), None);
}

#[test]
fn only_a_change_beyond_times_is_a_change() {
    let mut live = existing(widget("x.test/v1", json!({"text": "a"})));
    live["metadata"]["managedFields"] = json!([entry("one", "Apply", "x.test/v1", json!({"f:spec": {"f:text": {}}}))]);
    let mut new = live.clone();
    assert!(!revert_managed_times(&mut new, &live), "nothing to put back");
    new["metadata"]["managedFields"][0]["time"] = json!("2021-01-01T00:00:00Z");
    assert!(equal_ignoring_managed_times(&new, &live));
    assert!(revert_managed_times(&mut new, &live));
    assert_eq!(new, live);
    for (pointer, value) in [
        ("/spec/text", json!("b")),
        ("/metadata/managedFields/0/manager", json!("two")),
        ("/metadata/managedFields/0/fieldsV1", json!({"f:spec": {}})),
        ("/metadata/name", json!("y")),
    ] {
        let mut new = live.clone();
        new["metadata"]["managedFields"][0]["time"] = json!("2021-01-01T00:00:00Z");
        *new.pointer_mut(pointer).expect(pointer) = value;
        assert!(!revert_managed_times(&mut new, &live), "{pointer}");
        assert!(!equal_ignoring_managed_times(&new, &live), "{pointer}");
    }
}

#[test]
fn the_scale_of_an_object_shows_who_owns_its_replicas() {
    let paths = [("x.test/v1", Some(Path::fields(&["spec", "size"]))), ("x.test/v2", None)];
    let parent = json!([
        entry("one", "Apply", "x.test/v1", json!({"f:spec": {"f:size": {}, "f:text": {}}})),
        entry("three", "Update", "x.test/v2", json!({"f:spec": {"f:size": {}}})),
        entry("two", "Update", "x.test/v1", json!({"f:spec": {"f:text": {}}})),
    ]);
    let scale = entries_of_scale(Some(&parent), &paths).expect("entries");
    let replicas = json!({"f:spec": {"f:replicas": {}}});
    assert_eq!(scale, Some(json!([entry("one", "Apply", "autoscaling/v1", replicas.clone())])));

    // Nothing changed: everybody keeps what they had.
    let same = entries_of_scaled_object(Some(&parent), scale.as_ref(), "x.test/v1", &paths).expect("entries");
    assert_eq!(same, Some(parent.clone()));

    // Somebody scaled: the replicas are theirs, and the entry has no time, as with the reference.
    let scaled = json!([{"manager": "hpa", "operation": "Update", "apiVersion": "autoscaling/v1", "subresource": "scale",
        "time": "2022-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": replicas}]);
    let after = entries_of_scaled_object(Some(&parent), Some(&scaled), "x.test/v1", &paths).expect("entries");
    assert_eq!(
        after.expect("entries"),
        json!([
            entry("one", "Apply", "x.test/v1", json!({"f:spec": {"f:text": {}}})),
            {"manager": "hpa", "operation": "Update", "apiVersion": "x.test/v1", "subresource": "scale",
             "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:size": {}}}},
            entry("three", "Update", "x.test/v2", json!({"f:spec": {"f:size": {}}})),
            entry("two", "Update", "x.test/v1", json!({"f:spec": {"f:text": {}}})),
        ])
    );
}

#[test]
fn a_manager_without_a_name_is_named_after_its_user_agent() {
    assert_eq!(manager_of_user_agent("kubectl/v1.36 (linux)"), "kubectl");
    assert_eq!(manager_of_user_agent("a\u{7}b\u{a0}c d/1"), "abc d");
    assert_eq!(manager_of_user_agent(&"ü".repeat(100)), "ü".repeat(64));
    assert_eq!(manager_of_user_agent(""), "");
    let schema = schema(json!({"text": {"type": "string"}}));
    let mut new = widget("x.test/v1", json!({"text": "a"}));
    manager(&schema, "x.test/v1", &NoOtherVersions).create(&mut new, "", NOW).expect("tracked");
    assert_eq!(new["metadata"]["managedFields"][0]["manager"], "unknown");
}

#[test]
fn managed_fields_spoiled_by_admission_are_found_out() {
    let good = json!([entry("one", "Apply", "v1", json!({"f:data": {}}))]);
    assert_eq!(validate_managed_fields(&good), Ok(()));
    assert_eq!(validate_managed_fields(&Value::Null), Ok(()));
    for (name, value, reason) in [
        ("operation", json!("Delete"), "operation must be `Apply` or `Update`"),
        ("apiVersion", json!(""), "apiVersion must not be empty"),
        ("fieldsType", json!(""), "missing fieldsType in managed fields entry 0"),
        ("fieldsType", json!("V2"), "invalid fieldsType \"V2\" in managed fields entry 0"),
        ("fieldsV1", json!({"x": {}}), "error decoding set: key must be 2 characters long:"),
    ] {
        let mut bad = good.clone();
        bad[0][name] = value;
        assert_eq!(validate_managed_fields(&bad), Err(reason.to_owned()));
    }
}

#[test]
fn extracting_fields_keeps_nothing_else() {
    let schema = schema(json!({
        "text": {"type": "string"},
        "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port"],
                  "items": {"type": "object", "properties": {"port": {"type": "integer"}, "name": {"type": "string"}}}},
    }));
    let object =
        widget("x.test/v1", json!({"text": "a", "ports": [{"port": 1, "name": "x"}, {"port": 2, "name": "y"}]}));
    let set = FieldSet::from_json(r#"{"f:spec":{"f:ports":{"k:{\"port\":2}":{"f:name":{}}}}}"#).expect("a set");
    let types = TypeRef::custom(&schema);
    assert_eq!(extract_items(types, &object, &set), json!({"spec": {"ports": [{"name": "y"}]}}));
    let rest = remove_items(types, &object, &set);
    assert_eq!(rest["spec"], json!({"text": "a", "ports": [{"port": 1, "name": "x"}, {"port": 2}]}));
}
