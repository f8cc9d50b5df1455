//! Messages and their order, as specification. The recorded answers of the reference are in `tests/`.

use serde_json::json;

use super::*;
use crate::structural::compile;

#[track_caller]
fn check(schema: Value, value: Value, expected: &[&str]) {
    let schema = compile(&schema).expect("schema");
    let errors: Vec<String> = validate(&value, &schema, &Path::root()).iter().map(ToString::to_string).collect();
    assert_eq!(errors, expected);
}

#[test]
fn types_are_named_with_what_was_found() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
    check(schema.clone(), json!({"a": 1}), &[]);
    check(schema.clone(), json!({"a": 1.0}), &[]);
    check(schema, json!({"a": "x"}), &[r#"a: Invalid value: "string": a in body must be of type integer: "string""#]);
}

#[test]
fn every_fault_of_a_value_is_reported_in_order() {
    check(
        json!({"type": "object", "required": ["z"], "properties": {
            "a": {"type": "string", "maxLength": 1, "enum": ["x", "yy"]},
            "b": {"type": "array", "maxItems": 1, "items": {"type": "integer", "minimum": 1}},
        }}),
        json!({"a": "abc", "b": [0, 1]}),
        &[
            "a: Too long: may not be more than 1 byte",
            r#"a: Unsupported value: "abc": supported values: "x", "yy""#,
            "b[0]: Invalid value: 0: b[0] in body should be greater than or equal to 1",
            "b: Too many: 2: must have at most 1 item",
            "z: Required value",
        ],
    );
}

#[test]
fn of_alternatives_the_nearest_is_explained() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string", "oneOf": [
        {"pattern": "^x"}, {"minLength": 2, "maxLength": 3},
    ]}}});
    check(schema.clone(), json!({"a": "yyy"}), &[]);
    check(
        schema.clone(),
        json!({"a": "xx"}),
        &[r#"<nil>: Invalid value: "": "a" must validate one and only one schema (oneOf). Found 2 valid alternatives"#],
    );
    check(
        schema,
        json!({"a": "y"}),
        &[
            r#"<nil>: Invalid value: "": "a" must validate one and only one schema (oneOf). Found none valid"#,
            r#"a: Invalid value: "y": a in body should match '^x'"#,
        ],
    );
}

#[test]
fn unchanged_faults_may_stay() {
    let schema = compile(&json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "a": {"type": "string", "maxLength": 1},
        "b": {"type": "string", "maxLength": 1},
        "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {
            "type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "integer", "maximum": 1}},
        }},
    }}}}))
    .expect("schema");
    let old = json!({"spec": {"a": "long", "b": "ok", "list": [{"k": "1", "v": 5}, {"k": "2", "v": 1}]}});
    let new = json!({"spec": {"a": "long", "b": "longer", "list": [{"k": "2", "v": 7}, {"k": "1", "v": 5}]}});
    let errors: Vec<String> =
        validate_update(&new, &old, &schema, &Path::root()).iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            "spec.b: Too long: may not be more than 1 byte",
            "spec.list[0].v: Invalid value: 7: spec.list[0].v in body should be less than or equal to 1",
        ]
    );
    assert_eq!(validate_update(&old, &old, &schema, &Path::root()), []);
}

#[test]
fn values_against_too_many_alternatives_are_refused() {
    let schema = json!({"type": "array", "items": {"type": "integer", "anyOf": [{"minimum": 1}, {"minimum": 2}]}});
    let schema = compile(&schema).expect("schema");
    let path = Path::root();
    let mut check = Check { checks: MAX_CHECKS - 100, ..Check::new(&path) };
    check.node(&json!(vec![1; 1000]), &schema, &Location::ROOT, None);
    let errors: Vec<String> = check.finish().iter().map(ToString::to_string).collect();
    assert_eq!(
        errors.first().map(String::as_str),
        Some(r#"<nil>: Invalid value: "": the object has too many values for the alternatives in its schema"#)
    );
}
