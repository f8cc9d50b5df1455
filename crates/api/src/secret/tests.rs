use base64::Engine;
use serde_json::{Value, json};

use super::{BASE64, Secret};
use crate::testing::{check_create, check_update, create};
use bailiwick_machinery::Strategy;

fn encoded(text: &str) -> String {
    BASE64.encode(text)
}

#[test]
fn string_data_is_merged_into_data_and_gone() {
    let object = json!({"stringData": {"a": "hi"}, "data": {"a": "AA==", "b": ""}});
    let created = create(&Secret, object).expect("valid");
    assert_eq!(created, json!({"data": {"a": "aGk=", "b": ""}, "type": "Opaque"}));
}

#[test]
fn types_call_for_their_keys() {
    let redacted =
        |key: &str, complaint: &str| format!("data[{key}]: Invalid value: \"<secret contents redacted>\": {complaint}");
    let none = json!({});
    for (kind, data, expected) in [
        ("example.com/any", none.clone(), vec![]),
        (
            "kubernetes.io/service-account-token",
            none.clone(),
            vec!["metadata.annotations[kubernetes.io/service-account.name]: Required value".to_owned()],
        ),
        ("kubernetes.io/dockercfg", none.clone(), vec!["data[.dockercfg]: Required value".to_owned()]),
        ("kubernetes.io/dockercfg", json!({".dockercfg": encoded("{}")}), vec![]),
        (
            "kubernetes.io/dockerconfigjson",
            json!({".dockerconfigjson": encoded("[]")}),
            vec![redacted(
                ".dockerconfigjson",
                "json: cannot unmarshal array into Go value of type map[string]interface {}",
            )],
        ),
        (
            "kubernetes.io/dockercfg",
            json!({".dockercfg": encoded("{\"a\":1} x")}),
            vec![redacted(".dockercfg", "invalid character 'x' after top-level value")],
        ),
        (
            "kubernetes.io/dockercfg",
            json!({".dockercfg": ""}),
            vec![redacted(".dockercfg", "unexpected end of JSON input")],
        ),
        (
            "kubernetes.io/basic-auth",
            none.clone(),
            vec!["data[username]: Required value".to_owned(), "data[password]: Required value".to_owned()],
        ),
        ("kubernetes.io/basic-auth", json!({"password": ""}), vec![]),
        (
            "kubernetes.io/ssh-auth",
            json!({"ssh-privatekey": ""}),
            vec!["data[ssh-privatekey]: Required value".to_owned()],
        ),
        ("kubernetes.io/tls", json!({"tls.crt": ""}), vec!["data[tls.key]: Required value".to_owned()]),
    ] {
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        check_create("", "secrets", json!({"type": kind, "data": data}), &expected);
    }
}

#[test]
fn values_are_limited_together_by_what_they_decode_to() {
    let object = |size| json!({"stringData": {"a": "x".repeat(size)}});
    check_create("", "secrets", object(1024 * 1024), &[]);
    check_create("", "secrets", object(1024 * 1024 + 1), &["data: Too long: may not be more than 1048576 bytes"]);
}

#[test]
fn the_type_never_changes_and_frozen_data_does_not_either() {
    let old = json!({"type": "a", "data": {"k": "AA=="}, "immutable": true});
    check_update("", "secrets", &old, old.clone(), &[]);
    check_update(
        "",
        "secrets",
        &old,
        json!({"type": "b", "stringData": {"k": "x"}, "immutable": true}),
        &[
            "type: Invalid value: \"b\": field is immutable",
            "data: Forbidden: field is immutable when `immutable` is set",
        ],
    );
}

#[test]
fn tls_secrets_that_are_no_pair_bring_a_warning() {
    let warnings = |kind: &str, data: Value| Secret.warnings_on_create(&json!({"type": kind, "data": data}));
    assert_eq!(
        warnings("kubernetes.io/tls", json!({"tls.crt": "", "tls.key": ""})),
        ["tls: failed to find any PEM data in certificate input"]
    );
    assert!(warnings("Opaque", json!({})).is_empty());
}
