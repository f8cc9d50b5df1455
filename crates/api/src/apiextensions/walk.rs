//! Going through all the schemas of a definition.

use serde_json::Value;

use crate::fields::{list, map, present, text};

/// Formats of strings that are checked; dashes do not count.
const STRING_FORMATS: &[&str] = &[
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "datetime",
    "k8sshortname",
    "k8slongname",
];

/// The schema of a version.
pub(super) fn schema_of(version: &Value) -> Option<&Value> {
    present(version, "schema").and_then(|schema| present(schema, "openAPIV3Schema"))
}

/// Whether any schema of any version, at any depth, satisfies `test`.
pub(super) fn any_schema(spec: &Value, test: &mut dyn FnMut(&Value) -> bool) -> bool {
    list(spec, "versions").iter().filter_map(schema_of).any(|schema| any_within(schema, test))
}

/// Whether a schema or one inside it satisfies `test`.
pub(super) fn any_within<'a>(schema: &'a Value, test: &mut dyn FnMut(&'a Value) -> bool) -> bool {
    test(schema) || children(schema).into_iter().any(|child| any_within(child, test))
}

/// The schemas directly inside a schema.
fn children(schema: &Value) -> Vec<&Value> {
    let mut children = Vec::new();
    for name in ["items", "not", "additionalProperties", "additionalItems"] {
        match schema.get(name) {
            Some(one @ Value::Object(_)) => children.push(one),
            Some(Value::Array(many)) => children.extend(many),
            _ => {}
        }
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        children.extend(list(schema, name));
    }
    for name in ["properties", "patternProperties", "definitions", "dependencies"] {
        children.extend(map(schema, name).into_iter().flat_map(|all| all.values()).filter(|value| value.is_object()));
    }
    children
}

/// Formats that nothing checks, which is most likely a mistake.
pub(super) fn unrecognized_formats(object: &Value) -> Vec<&str> {
    let mut formats = Vec::new();
    for schema in list(&object["spec"], "versions").iter().filter_map(schema_of) {
        any_within(schema, &mut |schema| {
            let format = text(schema, "format");
            if !format.is_empty() && !is_recognized(text(schema, "type"), format) && !formats.contains(&format) {
                formats.push(format);
            }
            false
        });
    }
    formats
}

fn is_recognized(kind: &str, format: &str) -> bool {
    match kind {
        "" | "string" => STRING_FORMATS.contains(&format.replace('-', "").as_str()),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}
