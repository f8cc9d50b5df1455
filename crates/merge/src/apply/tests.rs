//! Field management on native types, told as short stories: who writes what, and who owns what afterwards.

use bailiwick_schema::decode::decode_value;
use bailiwick_schema::time::Instant;
use bailiwick_schema::types::Types;
use serde_json::{Value, json};

use super::*;

const NOW: Instant = Instant { unix_seconds: 1_700_000_000, nanoseconds: 0 };

fn at(seconds: i64) -> Instant {
    Instant { unix_seconds: NOW.unix_seconds + seconds, nanoseconds: 0 }
}

static NO_RESET: ResetFields = ResetFields::NONE;

fn config_maps() -> FieldManager<'static> {
    FieldManager {
        types: TypeRef::native(Types::native().by_gvk("", "v1", "ConfigMap").expect("a native type")),
        api_version: "v1",
        kind: "ConfigMap",
        subresource: "",
        reset: &NO_RESET,
        converter: &NoOtherVersions,
    }
}

fn config_map(data: Value) -> Value {
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "d"}, "data": data});
    let ty = Types::native().by_gvk("", "v1", "ConfigMap").expect("a native type");
    decode_value(ty, &object).expect("a config map").value
}

/// What the server sets when an object is created.
fn created(mut object: Value) -> Value {
    object["metadata"]["uid"] = json!("8a2e");
    object["metadata"]["resourceVersion"] = json!("7");
    object
}

/// Managers and their fields, shortened: `Update kubectl {"f:data":…}`.
fn owners(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let line = |entry: &Value| {
        let set = FieldSet::from_value(&entry["fieldsV1"]).expect("a field set");
        let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        format!("{} {} {}", text("operation"), text("manager"), set.to_json())
    };
    entries.iter().map(line).collect()
}

fn applied(manager: &str, live: Option<&Value>, data: Value) -> Result<Applied, ApplyError> {
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": data});
    config_maps().apply(live, &config, manager, Force::No, NOW)
}

#[test]
fn whoever_creates_an_object_owns_what_it_set() {
    let mut object = config_map(json!({"a": "1"}));
    config_maps().create(&mut object, "kubectl-create", NOW).expect("tracked");
    assert_eq!(
        object["metadata"]["managedFields"],
        json!([{
            "manager": "kubectl-create", "operation": "Update", "apiVersion": "v1", "time": "2023-11-14T22:13:20Z",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {".": {}, "f:a": {}}},
        }])
    );
}

#[test]
fn an_update_takes_only_what_it_changes() {
    let mut live = config_map(json!({"a": "1", "b": "1"}));
    config_maps().create(&mut live, "one", NOW).expect("tracked");
    let live = created(live);
    let mut new = live.clone();
    new["data"]["a"] = json!("2");
    new["data"]["c"] = json!("2");
    config_maps().update(&live, &mut new, "two", at(1)).expect("tracked");
    assert_eq!(
        owners(&new),
        [r#"Update one {"f:data":{".":{},"f:b":{}}}"#, r#"Update two {"f:data":{"f:a":{},"f:c":{}}}"#]
    );
}

#[test]
fn an_update_that_changes_nothing_leaves_managers_and_times_alone() {
    let mut live = config_map(json!({"a": "1"}));
    config_maps().create(&mut live, "one", NOW).expect("tracked");
    let live = created(live);
    for managed in [Some(live["metadata"]["managedFields"].clone()), None] {
        let mut new = live.clone();
        match managed {
            Some(managed) => new["metadata"]["managedFields"] = managed,
            None => drop(new["metadata"].as_object_mut().expect("metadata").remove("managedFields")),
        }
        new["metadata"]["resourceVersion"] = json!("8");
        config_maps().update(&live, &mut new, "two", at(1)).expect("tracked");
        assert_eq!(new["metadata"]["managedFields"], live["metadata"]["managedFields"]);
    }
}

#[test]
fn an_empty_list_of_managers_forgets_them_until_the_next_apply() {
    let mut live = config_map(json!({"a": "1"}));
    config_maps().create(&mut live, "one", NOW).expect("tracked");
    let live = created(live);
    for reset in [json!([]), json!([{}])] {
        let mut new = live.clone();
        new["metadata"]["managedFields"] = reset;
        config_maps().update(&live, &mut new, "two", at(1)).expect("tracked");
        assert_eq!(new["metadata"].get("managedFields"), None);
        let mut later = new.clone();
        later["data"]["a"] = json!("2");
        config_maps().update(&new, &mut later, "two", at(2)).expect("tracked");
        assert_eq!(later["metadata"].get("managedFields"), None);
        let again = applied("three", Some(&later), json!({"b": "1"})).expect("applied");
        assert_eq!(
            owners(&again.object),
            [r#"Apply three {"f:data":{"f:b":{}}}"#, r#"Update before-first-apply {"f:data":{".":{},"f:a":{}}}"#]
        );
    }
}

#[test]
fn applying_less_removes_what_nobody_else_owns() {
    let first = created(applied("one", None, json!({"a": "1", "b": "1"})).expect("applied").object);
    let shared = applied("two", Some(&first), json!({"b": "1"})).expect("applied");
    assert!(shared.is_unchanged);
    let less = applied("one", Some(&shared.object), json!({})).expect("applied");
    assert_eq!(less.object["data"], json!({"b": "1"}));
    // Sharing a field without changing it is not an event in time; such entries come first.
    assert_eq!(owners(&less.object), [r#"Apply two {"f:data":{"f:b":{}}}"#, r#"Apply one {"f:data":{}}"#]);
}

#[test]
fn changing_the_field_of_another_is_a_conflict_unless_forced() {
    let mut live = config_map(json!({"a": "1", "b": "1"}));
    config_maps().create(&mut live, "one", NOW).expect("tracked");
    let live = created(live);
    let error = applied("two", Some(&live), json!({"a": "2"})).expect_err("a conflict");
    assert_eq!(error.to_string(), r#"Apply failed with 1 conflict: conflict with "one" using v1: .data.a"#);
    let error = applied("two", Some(&live), json!({"a": "2", "b": "2"})).expect_err("conflicts");
    assert_eq!(
        error.to_string(),
        "Apply failed with 2 conflicts: conflicts with \"one\" using v1:\n- .data.a\n- .data.b"
    );
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "2"}});
    let forced = config_maps().apply(Some(&live), &config, "two", Force::Yes, at(1)).expect("applied");
    assert_eq!(
        owners(&forced.object),
        [r#"Apply two {"f:data":{"f:a":{}}}"#, r#"Update one {"f:data":{".":{},"f:b":{}}}"#]
    );
}

#[test]
fn a_configuration_that_does_not_fit_its_type_is_refused_with_its_path() {
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": 1}});
    let error = config_maps().apply(None, &config, "one", Force::No, NOW).expect_err("no string");
    assert_eq!(
        error,
        ApplyError::Unforeseen(
            "failed to create typed patch object (/x; /v1, Kind=ConfigMap): .data.a: expected string, got &value.valueUnstructured{Value:1}"
                .to_owned()
        )
    );
    let config = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}});
    let error = config_maps().apply(None, &config, "one", Force::No, NOW).expect_err("another kind");
    assert_eq!(error, ApplyError::BadRequest("invalid object type: /v1, Kind=Secret".to_owned()));
}

#[test]
fn the_eleventh_manager_of_updates_merges_the_oldest_two() {
    let mut live = config_map(json!({"z": "1"}));
    config_maps().create(&mut live, "m", NOW).expect("tracked");
    let mut live = created(live);
    for i in 0..10 {
        let mut new = live.clone();
        new["data"][format!("k{i:02}")] = json!("1");
        config_maps().update(&live, &mut new, &format!("m{i:02}"), at(i)).expect("tracked");
        live = new;
    }
    let owners = owners(&live);
    assert_eq!(owners.len(), 10);
    assert!(owners[0].starts_with("Update ancient-changes "), "{owners:?}");
}
