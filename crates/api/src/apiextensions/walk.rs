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

/// Whether a schema is of one value that has no parts, says nothing but what that value is, and says it in a type there is:
/// then only its default and its pattern can be wrong. Most schemas of a definition are, and looking for some thirty
/// keywords in each of them would be most of what checking a definition costs.
pub(super) fn is_simple(schema: &Value) -> bool {
    let Some(keywords) = schema.as_object() else { return false };
    let mut typed = false;
    keywords.iter().all(|(name, value)| match name.as_str() {
        "type" => {
            typed = matches!(value.as_str(), Some("string" | "integer" | "number" | "boolean"));
            typed
        }
        "default" | "description" | "enum" | "exclusiveMaximum" | "exclusiveMinimum" | "format" | "maxLength"
        | "maximum" | "minLength" | "minimum" | "multipleOf" | "pattern" | "title" => true,
        _ => false,
    }) && typed
}

/// The schemas directly inside a schema.
fn children(schema: &Value) -> Vec<&Value> {
    let mut children = Vec::new();
    if is_simple(schema) {
        return children;
    }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn schemas_with_parts_extensions_or_no_known_type_are_not_simple() {
        assert!(is_simple(&json!({"type": "string", "enum": ["a"], "default": "a", "description": "…"})));
        for schema in [
            json!({"description": "no type"}),
            json!({"type": "object"}),
            json!({"type": "array", "items": {"type": "string"}}),
            json!({"type": "null"}),
            json!({"type": null}),
            json!({"type": "String"}),
            json!({"type": "string", "x-kubernetes-validations": []}),
            json!({"type": "string", "$ref": "#/x"}),
            json!({"type": "string", "anyOf": []}),
            json!({"type": "string", "uniqueItems": true}),
            json!(true),
        ] {
            assert!(!is_simple(&schema), "{schema}");
        }
    }
}
