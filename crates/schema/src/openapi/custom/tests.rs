use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{CustomDefinition, custom_name};
use crate::openapi::{Form, gnostic};

/// A definition's versions and what kube-apiserver v1.36.4 published for each, in both forms.
const RECORDED: &str = include_str!("../../../testdata/custom-definitions.recorded.json");

fn definition(schema: Option<Value>) -> CustomDefinition<'static> {
    CustomDefinition {
        group: "oa.example.com",
        version: "v1",
        kind: "Thing",
        list_kind: "ThingList",
        plural: "things",
        preserve_unknown_fields: false,
        selectable_fields: Vec::new(),
        schema,
    }
}

fn object(schema: Value, form: Form) -> Value {
    definition(Some(schema)).render(form).object.1
}

/// What a document says about a field `a` of this schema.
fn field(schema: Value, form: Form) -> Value {
    object(json!({"type": "object", "properties": {"a": schema}}), form)["properties"]["a"].clone()
}

#[test]
fn definitions_are_what_upstream_publishes() {
    let recorded: Vec<Value> = serde_json::from_str(RECORDED).expect("the recording is JSON");
    for version in &recorded {
        for (form, name) in [(Form::V2, "v2"), (Form::V3, "v3")] {
            let text = |name: &str| version[name].as_str().unwrap_or_default();
            let fields = version["selectableFields"].as_array().into_iter().flatten();
            let definitions = CustomDefinition {
                group: text("group"),
                version: text("version"),
                kind: text("kind"),
                list_kind: text("listKind"),
                plural: text("plural"),
                preserve_unknown_fields: false,
                selectable_fields: fields.filter_map(Value::as_str).collect(),
                schema: Some(version["schema"].clone()),
            }
            .render(form);
            for (name_in_document, definition) in [definitions.object, definitions.list] {
                let expected = &version[name][&name_in_document];
                assert!(!expected.is_null(), "{name}: {name_in_document} was not recorded");
                assert_same(&format!("{name} {name_in_document}"), &definition, expected);
            }
        }
    }
}

#[test]
fn definitions_have_upstreams_bytes_in_protobuf() {
    let recorded: Vec<Value> = serde_json::from_str(RECORDED).expect("the recording is JSON");
    for version in &recorded {
        for (form, kind, definitions, bytes) in [
            (Form::V2, &gnostic::v2::SCHEMA, "v2", "v2Protobuf"),
            (Form::V3, &gnostic::v3::SCHEMA_OR_REFERENCE, "v3", "v3Protobuf"),
        ] {
            for (name, definition) in version[definitions].as_object().expect("definitions by name") {
                let mut ours = Vec::new();
                gnostic::put_entry(&mut ours, 1, kind, name, definition);
                // Not recorded where upstream orders the members of rules by the Go type, which we do not.
                let Some(expected) = version[bytes][name].as_str() else { continue };
                let expected = STANDARD.decode(expected).expect("base64");
                let at = ours.len().saturating_sub(expected.len());
                let same = ours[at..].iter().zip(&expected).take_while(|(a, b)| a == b).count();
                let around = |bytes: &[u8]| {
                    bytes[same.saturating_sub(80)..(same + 80).min(bytes.len())].escape_ascii().to_string()
                };
                assert!(
                    ours.ends_with(&expected),
                    "{form:?} {name} at {same}:\n{}\n{}",
                    around(&ours[at..]),
                    around(&expected)
                );
            }
        }
    }
}

/// Compares member by member, so that a failure names the place.
fn assert_same(at: &str, ours: &Value, expected: &Value) {
    if let (Value::Object(a), Value::Object(b)) = (ours, expected) {
        for (name, value) in a {
            let expected = b.get(name).unwrap_or_else(|| panic!("{at}.{name} is not upstream: {value}"));
            assert_same(&format!("{at}.{name}"), value, expected);
        }
        let missing: Vec<_> = b.keys().filter(|name| !a.contains_key(*name)).collect();
        assert!(missing.is_empty(), "{at} lacks {missing:?}");
    } else {
        assert_eq!(ours, expected, "{at}");
    }
}

#[test]
fn names_begin_with_the_group_backwards() {
    assert_eq!(custom_name("oa.example.com", "v1", "Thing"), "com.example.oa.v1.Thing");
    assert_eq!(custom_name("single", "v1beta1", "Thing"), "single.v1beta1.Thing");
}

#[test]
fn a_version_without_schema_is_an_object_of_unknown_fields() {
    for form in [Form::V2, Form::V3] {
        let kind = json!([{"group": "oa.example.com", "kind": "Thing", "version": "v1"}]);
        let expected = json!({"type": "object", "x-kubernetes-group-version-kind": kind});
        assert_eq!(definition(None).render(form).object.1, expected);
    }
}

#[test]
fn version_2_does_not_name_fields_of_open_objects() {
    let old = CustomDefinition { preserve_unknown_fields: true, ..definition(Some(json!({"type": "object"}))) };
    assert_eq!(old.render(Form::V2).object.1.get("properties"), None);
    let old = CustomDefinition { preserve_unknown_fields: true, ..definition(Some(json!({"type": "object"}))) };
    assert!(old.render(Form::V3).object.1["properties"].get("metadata").is_some());
}

#[test]
fn a_name_that_a_native_definition_has_gets_a_suffix_in_version_2() {
    let pod = || CustomDefinition { group: "core.api.k8s.io", kind: "ConfigMap", ..definition(None) };
    let definitions = pod().render(Form::V2);
    assert_eq!(definitions.object.0, "io.k8s.api.core.v1.ConfigMap_v2");
    let items = &definitions.list.1["properties"]["items"]["items"];
    assert_eq!(items["$ref"], "#/definitions/io.k8s.api.core.v1.ConfigMap_v2");
    assert_eq!(pod().render(Form::V3).object.0, "io.k8s.api.core.v1.ConfigMap");
}

#[test]
fn numbers_are_written_as_go_writes_them() {
    for (given, expected) in [
        (json!(1.0), json!(1)),
        (json!(0.5), json!(0.5)),
        (json!(12345678901234567_i64), json!(12345678901234568_i64)),
        (json!(-3.0), json!(-3)),
        (json!(1e30), json!(1e30)),
    ] {
        assert_eq!(field(json!({"type": "number", "maximum": given}), Form::V3)["maximum"], expected);
    }
    // Only limits are floats: a default stays the integer it is.
    let exact = field(json!({"type": "integer", "default": 12345678901234567_i64}), Form::V3);
    assert_eq!(exact["default"], json!(12345678901234567_i64));
    assert_eq!(field(json!({"enum": [1.0, {"a": [2.0]}]}), Form::V2)["enum"], json!([1, {"a": [2]}]));
}

#[test]
fn members_without_meaning_are_left_out() {
    let schema = json!({
        "type": "object", "description": "", "title": "", "nullable": false, "properties": {}, "required": [],
        "enum": [], "default": null, "uniqueItems": false, "x-kubernetes-embedded-resource": false, "unknown": 1,
        "x-kubernetes-validations": [{"rule": "true", "message": "", "optionalOldSelf": null}],
    });
    let expected = json!({"type": "object", "x-kubernetes-validations": [{"rule": "true"}]});
    assert_eq!(field(schema, Form::V3), expected);
}

#[test]
fn version_2_requires_no_field_that_may_be_null() {
    let schema = |extra: Value| {
        let mut schema = json!({
            "type": "object", "required": ["x", "y"],
            "properties": {"x": {"type": "string", "nullable": true}, "y": {"type": "string"}},
        });
        schema.as_object_mut().expect("an object").extend(extra.as_object().expect("an object").clone());
        schema
    };
    assert_eq!(field(schema(json!({})), Form::V2)["required"], json!(["y"]));
    assert_eq!(field(schema(json!({})), Form::V3)["required"], json!(["x", "y"]));
    assert_eq!(field(schema(json!({"nullable": true})), Form::V2), json!({"required": ["x", "y"]}));
    let values =
        json!({"type": "object", "required": ["x"], "additionalProperties": {"type": "string", "nullable": true}});
    assert_eq!(field(values, Form::V2), json!({"type": "object", "additionalProperties": {}}));
}

#[test]
fn junctors_restrict_and_do_not_describe() {
    let schema = json!({
        "type": "object", "additionalProperties": {"type": "integer"},
        "anyOf": [{"additionalProperties": {"minimum": 1.0}, "properties": {"x": {"minimum": 2.0}}}],
    });
    assert_eq!(field(schema.clone(), Form::V3)["anyOf"], json!([{"properties": {"x": {"minimum": 2}}}]));
    assert_eq!(field(schema, Form::V2).get("anyOf"), None);
}
