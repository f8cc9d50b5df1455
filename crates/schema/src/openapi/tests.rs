//! Definitions and their protobuf form on small examples; whole documents are compared with upstream's by the server.

use serde_json::{Value, json};

use super::gnostic::{self, v2, v3};
use super::{Definition, Descriptions, Form, closure};
use crate::types::Types;

fn definition(group: &str, kind: &str, form: Form) -> Value {
    let ty = Types::native().by_gvk(group, "v1", kind).expect("a native kind");
    let descriptions = Descriptions::of([ty.name]);
    Definition::Native(ty).render(form, &descriptions, &[("rbac.authorization.k8s.io", "v1")])
}

#[test]
fn a_reference_with_a_default_is_wrapped_in_version_3_only() {
    let v3 = definition("rbac.authorization.k8s.io", "ClusterRole", Form::V3);
    let name = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    assert_eq!(v3["properties"]["metadata"]["allOf"], json!([{"$ref": format!("#/components/schemas/{name}")}]));
    assert_eq!(v3["properties"]["metadata"]["default"], json!({}));
    let v2 = definition("rbac.authorization.k8s.io", "ClusterRole", Form::V2);
    assert_eq!(v2["properties"]["metadata"]["$ref"], json!(format!("#/definitions/{name}")));
    assert_eq!(v2["properties"]["metadata"].get("default"), None);
}

#[test]
fn lists_say_how_they_merge() {
    let account = definition("", "ServiceAccount", Form::V3);
    let secrets = &account["properties"]["secrets"];
    assert_eq!(secrets["x-kubernetes-list-map-keys"], json!(["name"]));
    assert_eq!(secrets["x-kubernetes-list-type"], "map");
    assert_eq!(secrets["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(secrets["x-kubernetes-patch-strategy"], "merge");
}

#[test]
fn options_are_kinds_of_the_documents_group_version_too() {
    let options = definition("", "DeleteOptions", Form::V3);
    let groups: Vec<&Value> = options["x-kubernetes-group-version-kind"]
        .as_array()
        .expect("kinds")
        .iter()
        .map(|kind| &kind["group"])
        .collect();
    assert_eq!(groups, ["", "rbac.authorization.k8s.io"]);
    let status = definition("", "Status", Form::V3);
    assert_eq!(status["x-kubernetes-group-version-kind"].as_array().map(Vec::len), Some(1));
}

#[test]
fn the_closure_of_a_recursive_type_ends() {
    let crd = Types::native().by_gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition").expect("a native kind");
    let names = closure([Definition::Native(crd)]);
    assert!(names.contains_key("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"));
    assert!(names.contains_key("io.k8s.apimachinery.pkg.apis.meta.v1.Time"));
}

/// Bytes as kube-apiserver v1.36 wrote them for the same schema.
#[test]
fn schemas_have_upstreams_bytes() {
    let schema = json!({
        "type": "array",
        "items": {"allOf": [{"$ref": "#/components/schemas/io.k8s.api.rbac.v1.PolicyRule"}], "default": {}},
        "x-kubernetes-list-type": "atomic",
    });
    let mut out = Vec::new();
    gnostic::put(&mut out, 1, &v3::SCHEMA_OR_REFERENCE, &schema);
    let expected =
        b"\xca\x01\x05array\xf2\x01@\n>\n<\xd2\x016\x124\n2#/components/schemas/io.k8s.api.rbac.v1.PolicyRule\
        \x8a\x02\x00\xa2\x02#\n\x16x-kubernetes-list-type\x12\t\x12\x07atomic\n";
    assert!(out.ends_with(expected), "{}", out.escape_ascii());

    let schema = json!({"type": "string", "default": ""});
    let mut out = Vec::new();
    gnostic::put(&mut out, 1, &v3::SCHEMA_OR_REFERENCE, &schema);
    assert_eq!(out, b"\n\x10\n\x0e\xca\x01\x06string\x8a\x02\x02\x1a\x00");

    let mut out = Vec::new();
    gnostic::put(&mut out, 12, &v2::SECURITY, &json!([{"BearerToken": []}]));
    assert_eq!(out, b"b\x11\n\x0f\n\x0bBearerToken\x12\x00");
}

#[test]
fn extensions_are_yaml() {
    let schema = json!({"x-kubernetes-group-version-kind": [{"group": "", "kind": "ServiceAccount", "version": "v1"}]});
    let mut out = Vec::new();
    gnostic::put(&mut out, 1, &v2::SCHEMA, &schema);
    let text = b"- group: \"\"\n  kind: ServiceAccount\n  version: v1\n";
    assert!(out.ends_with(text), "{}", out.escape_ascii());

    let values = json!({"enum": ["*", "digital signature", "true", "it's", "1"]});
    let mut out = Vec::new();
    gnostic::put(&mut out, 1, &v2::SCHEMA, &values);
    for text in ["'*'", "digital signature", "\"true\"", "it's", "\"1\""] {
        assert!(out.escape_ascii().to_string().contains(&format!("{}\\n", text.escape_default())), "{text}");
    }

    let unions = json!({"x-u": [{"discriminator": "type", "fields-to-discriminateBy": {"queuing": "Queuing"}}]});
    let mut out = Vec::new();
    gnostic::put(&mut out, 1, &v2::SCHEMA, &unions);
    let text = b"- discriminator: type\n  fields-to-discriminateBy:\n    queuing: Queuing\n";
    assert!(out.ends_with(text), "{}", out.escape_ascii());
}
