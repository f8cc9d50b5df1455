use serde_json::json;

use crate::testing::{check_create, check_update, now, resource};

const KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
                   'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

#[test]
fn keys_are_file_names_and_unique() {
    check_create("", "configmaps", json!({"data": {"a.b_C-1": ""}, "binaryData": {"c": "AA=="}}), &[]);
    check_create(
        "",
        "configmaps",
        json!({"data": {"..": "", "a b": "", "both": ""}, "binaryData": {"both": "AA==", "x/y": ""}}),
        &[
            "data[..]: Invalid value: \"..\": must not be '..'",
            &format!("data[a b]: Invalid value: \"a b\": {KEY}"),
            "data[both]: Invalid value: \"both\": duplicate of key present in binaryData",
            &format!("binaryData[x/y]: Invalid value: \"x/y\": {KEY}"),
        ],
    );
}

#[test]
fn values_are_limited_together() {
    let half = "x".repeat(super::MAX_DATA_SIZE / 2);
    check_create("", "configmaps", json!({"data": {"a": half, "b": half}}), &[]);
    let too_long = "[]: Too long: may not be more than 1048576 bytes";
    check_create("", "configmaps", json!({"data": {"a": half, "b": half}, "binaryData": {"c": "AA=="}}), &[too_long]);
}

#[test]
fn immutable_freezes_the_data_but_not_the_metadata() {
    let old = json!({"data": {"a": "1"}, "binaryData": {"b": "AA=="}, "immutable": true});
    let relabelled =
        json!({"metadata": {"labels": {"x": "y"}}, "data": {"a": "1"}, "binaryData": {"b": "AA=="}, "immutable": true});
    check_update("", "configmaps", &old, relabelled, &[]);
    check_update(
        "",
        "configmaps",
        &old,
        json!({"data": {"a": "2"}}),
        &[
            "immutable: Forbidden: field is immutable when `immutable` is set",
            "data: Forbidden: field is immutable when `immutable` is set",
            "binaryData: Forbidden: field is immutable when `immutable` is set",
        ],
    );
}

#[test]
fn the_table_counts_keys() {
    let table = resource("", "configmaps").table;
    let created = json!({"name": "x", "creationTimestamp": "2025-12-31T23:58:30Z"});
    let object = json!({"metadata": created, "data": {"a": ""}, "binaryData": {"b": "", "c": ""}});
    assert_eq!(table.cells(&object, now()), [json!("x"), json!(3), json!("90s")]);
    let names: Vec<String> = table.columns().into_iter().map(|column| column.name).collect();
    assert_eq!(names, ["Name", "Data", "Age"]);
    assert!(table.columns()[1].description.starts_with("Data contains the configuration data."));
}
