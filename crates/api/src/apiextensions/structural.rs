//! Structural schemas: every value has one type, stated outside of logical junctors, so that objects can be pruned and
//! defaulted. Inside `allOf`, `anyOf`, `oneOf` and `not` schemas may only restrict what is specified outside.

use bailiwick_machinery::field::{Error, ErrorList, Path};
use bailiwick_schema::structural::pattern;
use serde_json::{Value, json};

use super::walk::is_simple;
use crate::fields::{flag, list, map, present, text};

/// Where a schema stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// What is not structural about a schema, sorted as upstream sorts it.
pub(super) fn validate(schema: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    invariants(schema, Level::Root, path, &mut errors);
    junctor_completeness(schema, schema, path, path, &mut errors);
    errors.sort_by_cached_key(ToString::to_string);
    errors
}

/// Why no structural schema can be made of this one at all.
pub(super) fn unsupported(schema: &Value) -> Option<&'static str> {
    if is_simple(schema) {
        return None;
    }
    let nonempty = |name: &str| match schema.get(name) {
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Object(all)) => !all.is_empty(),
        _ => false,
    };
    if nonempty("id") {
        Some("OpenAPIV3Schema 'id' is not supported")
    } else if nonempty("$schema") {
        Some("OpenAPIV3Schema 'schema' is not supported")
    } else if nonempty("$ref") {
        Some("OpenAPIV3Schema '$ref' is not supported")
    } else if nonempty("patternProperties") {
        Some("OpenAPIV3Schema 'patternProperties' is not supported")
    } else if nonempty("dependencies") {
        Some("OpenAPIV3Schema 'dependencies' is not supported")
    } else if present(schema, "additionalItems").is_some() {
        Some("OpenAPIV3Schema 'additionalItems' is not supported")
    } else if nonempty("definitions") {
        Some("OpenAPIV3Schema 'definitions' is not supported")
    } else if schema.get("items").is_some_and(Value::is_array) {
        Some("OpenAPIV3Schema 'items' must be a schema, but is an array")
    } else if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        Some("internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined")
    } else {
        None
    }
}

fn invariants(schema: &Value, level: Level, path: &Path, errors: &mut ErrorList) {
    let kind = text(schema, "type");
    let properties = map(schema, "properties");
    let additional = present(schema, "additionalProperties");
    let embedded = flag(schema, "x-kubernetes-embedded-resource");
    let int_or_string = flag(schema, "x-kubernetes-int-or-string");
    let preserves = flag(schema, "x-kubernetes-preserve-unknown-fields");
    let type_path = || path.child("type");

    match schema.get("items").filter(|items| items.is_object()) {
        Some(items) => invariants(items, Level::Item, &path.child("items"), errors),
        None if kind == "array" => errors.push(Error::required(&path.child("items"), "must be specified")),
        None => {}
    }
    for (name, property) in properties.into_iter().flatten() {
        if is_simple(property) && property.get("pattern").is_none() {
            continue;
        }
        invariants(property, Level::Field, &path.child("properties").key(name), errors);
    }
    if let Some(additional) = additional {
        let path = path.child("additionalProperties");
        if level == Level::Root {
            errors.push(Error::forbidden(&path, "must not be used at the root"));
        }
        if additional.is_object() {
            invariants(additional, Level::Field, &path, errors);
        }
    }
    let exclusive = "must be false if x-kubernetes-int-or-string is true";
    if int_or_string && preserves {
        errors.push(Error::invalid(&path.child("x-kubernetes-preserve-unknown-fields"), true, exclusive));
    }
    if int_or_string && embedded {
        errors.push(Error::invalid(&path.child("x-kubernetes-embedded-resource"), true, exclusive));
    }
    value_validation(schema, &IntOrString::of(schema), path, errors);

    if embedded && kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(if kind.is_empty() {
            Error::required(&type_path(), detail)
        } else {
            Error::invalid(&type_path(), kind, detail)
        });
    } else if kind.is_empty() && !int_or_string && !preserves {
        let place = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(Error::required(&type_path(), place));
    }
    if embedded && additional.is_some() {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(Error::forbidden(&path.child("additionalProperties"), detail));
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        errors.push(Error::invalid(&type_path(), kind, "must be object at the root"));
    }
    if level == Level::Root || embedded {
        resource_fields(schema, path, errors);
    }
    if level == Level::Root
        && let Some(metadata) = properties.and_then(|all| all.get("metadata"))
        && !is_plain_metadata(metadata)
    {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.push(Error::forbidden(&path.child("properties").key("metadata"), detail));
    }
    if embedded && !preserves && properties.is_none_or(|all| all.is_empty()) {
        let detail =
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.push(Error::required(&path.child("properties"), detail));
    }
}

/// In whole resources, the fields all resources have must have their types.
fn resource_fields(schema: &Value, path: &Path, errors: &mut ErrorList) {
    let properties = map(schema, "properties");
    for (name, wanted) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
        if let Some(kind) = properties.and_then(|all| all.get(name)).map(|property| text(property, "type"))
            && kind != wanted
        {
            let path = path.child("properties").key(name).child("type");
            errors.push(Error::invalid(&path, kind, format!("must be {wanted}")));
        }
    }
}

/// Metadata may restrict names and nothing else.
fn is_plain_metadata(metadata: &Value) -> bool {
    let only_names = |all: &serde_json::Map<String, Value>| all.keys().all(|k| k == "name" || k == "generateName");
    metadata.as_object().into_iter().flatten().all(|(key, value)| match key.as_str() {
        "type" | "default" => true,
        "properties" => value.as_object().is_none_or(only_names),
        _ => matches!(value, Value::Null | Value::Bool(false)) || *value == json!([]) || *value == json!(""),
    })
}

/// The two ways a value may be a number or a string, which need types inside junctors.
struct IntOrString {
    any_of: bool,
    first_all_of: bool,
}

impl IntOrString {
    const NONE: Self = Self { any_of: false, first_all_of: false };

    fn of(schema: &Value) -> Self {
        let is_pattern = |schema: &Value| match list(schema, "anyOf") {
            [number, string] => only_type(number, "integer") && only_type(string, "string"),
            _ => false,
        };
        Self { any_of: is_pattern(schema), first_all_of: list(schema, "allOf").first().is_some_and(is_pattern) }
    }
}

/// Whether a schema says this type and nothing else.
fn only_type(schema: &Value, kind: &str) -> bool {
    schema.as_object().is_some_and(|keywords| keywords.len() == 1) && text(schema, "type") == kind
}

fn value_validation(schema: &Value, skip: &IntOrString, path: &Path, errors: &mut ErrorList) {
    if !skip.any_of {
        for (index, nested) in list(schema, "anyOf").iter().enumerate() {
            nested_validation(nested, &IntOrString::NONE, &path.child("anyOf").index(index), errors);
        }
    }
    for (index, nested) in list(schema, "allOf").iter().enumerate() {
        let skip = IntOrString { any_of: skip.first_all_of && index == 0, first_all_of: false };
        nested_validation(nested, &skip, &path.child("allOf").index(index), errors);
    }
    for (index, nested) in list(schema, "oneOf").iter().enumerate() {
        nested_validation(nested, &IntOrString::NONE, &path.child("oneOf").index(index), errors);
    }
    if let Some(nested) = present(schema, "not") {
        nested_validation(nested, &IntOrString::NONE, &path.child("not"), errors);
    }
    let pattern = text(schema, "pattern");
    if let Err(why) = pattern::check(pattern) {
        let detail = format!("must be a valid regular expression, but isn't: {why}");
        errors.push(Error::invalid(&path.child("pattern"), pattern, detail));
    }
}

/// What junctors may not say, with the words for it.
const FORBIDDEN_IN_JUNCTORS: [(&str, &str); 12] = [
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
];

fn nested_validation(schema: &Value, skip: &IntOrString, path: &Path, errors: &mut ErrorList) {
    value_validation(schema, skip, path, errors);
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        nested_validation(items, &IntOrString::NONE, &path.child("items"), errors);
    }
    let properties = map(schema, "properties");
    for (name, property) in properties.into_iter().flatten() {
        nested_validation(property, &IntOrString::NONE, &path.child("properties").key(name), errors);
    }
    for (name, detail) in FORBIDDEN_IN_JUNCTORS {
        let set = match schema.get(name) {
            None | Some(Value::Null | Value::Bool(false)) => false,
            Some(Value::String(text)) => !text.is_empty() || name == "default",
            Some(Value::Array(items)) => !items.is_empty() || name == "default",
            Some(_) => true,
        };
        // A default of false is a default.
        if set || name == "default" && present(schema, name).is_some() {
            errors.push(Error::forbidden(&path.child(name), detail));
        }
    }
    if !list(schema, "x-kubernetes-validations").is_empty() {
        errors.push(Error::forbidden(&path.child("x-kubernetes-validations"), "must be empty to be structural"));
    }
    if properties.is_some_and(|all| all.contains_key("metadata")) {
        let detail = "must not be specified in a nested context";
        errors.push(Error::forbidden(&path.child("properties").key("metadata"), detail));
    }
}

/// Everything a junctor speaks of must be specified outside of it.
fn junctor_completeness(junctors: &Value, outside: &Value, at: &Path, because: &Path, errors: &mut ErrorList) {
    if let Some(nested) = present(junctors, "not") {
        nested_completeness(nested, Some(outside), at, &because.child("not"), errors);
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        for (index, nested) in list(junctors, name).iter().enumerate() {
            nested_completeness(nested, Some(outside), at, &because.child(name).index(index), errors);
        }
    }
}

fn nested_completeness(nested: &Value, outside: Option<&Value>, at: &Path, because: &Path, errors: &mut ErrorList) {
    let Some(outside) = outside else {
        errors.push(Error::required(at, format!("because it is defined in {because}")));
        return;
    };
    junctor_completeness(nested, outside, at, because, errors);
    if let Some(items) = schema_in(nested, "items") {
        let outside = schema_in(outside, "items");
        nested_completeness(items, outside, &at.child("items"), &because.child("items"), errors);
    }
    for (name, property) in map(nested, "properties").into_iter().flatten() {
        let outside = map(outside, "properties").and_then(|all| all.get(name));
        let (at, because) = (at.child("properties").key(name), because.child("properties").key(name));
        nested_completeness(property, outside, &at, &because, errors);
    }
}

fn schema_in<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    schema.get(name).filter(|inner| inner.is_object())
}
