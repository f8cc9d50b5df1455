//! A structural schema as documents show it: empty and zero members gone, `x-kubernetes-int-or-string` spelled out, and for
//! version 2 without all that its readers cannot understand.
//!
//! Works in place on the parsed schema, whose depth the JSON parser has limited.

use serde_json::{Map, Value, json};

use super::super::Form;
use super::{embed, number};

pub(super) const PRESERVE_UNKNOWN_FIELDS: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED_RESOURCE: &str = "x-kubernetes-embedded-resource";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";

type Object = Map<String, Value>;

/// Makes a structural schema, with everything below it, what a document of this form shows.
pub(super) fn publish(schema: &mut Value, form: Form) {
    let Value::Object(object) = schema else { return };
    if form == Form::V2 {
        forget_nullable_fields(object);
    }
    tidy(object, form);
    for name in ["items", "additionalProperties"] {
        if let Some(inner) = object.get_mut(name) {
            publish(inner, form);
        }
    }
    if let Some(Value::Object(properties)) = object.get_mut("properties") {
        properties.values_mut().for_each(|property| publish(property, form));
    }
    match form {
        Form::V2 => simplify(object),
        Form::V3 => {
            for name in ["allOf", "anyOf", "oneOf"] {
                if let Some(Value::Array(alternatives)) = object.get_mut(name) {
                    alternatives.iter_mut().for_each(publish_validation);
                }
            }
            object.get_mut("not").into_iter().for_each(publish_validation);
            unfold(object);
        }
    }
    // Clients that read version 2 would take the fields of an open object for the only ones.
    if is_true(object, EMBEDDED_RESOURCE) && (form == Form::V3 || !is_true(object, PRESERVE_UNKNOWN_FIELDS)) {
        embed(object, form);
    }
}

/// A schema inside a logical junctor: it only restricts, so upstream does not publish its `additionalProperties`.
fn publish_validation(schema: &mut Value) {
    let Value::Object(object) = schema else { return };
    tidy(object, Form::V3);
    object.remove("additionalProperties");
    object.get_mut("items").into_iter().for_each(publish_validation);
    if let Some(Value::Object(properties)) = object.get_mut("properties") {
        properties.values_mut().for_each(publish_validation);
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        if let Some(Value::Array(alternatives)) = object.get_mut(name) {
            alternatives.iter_mut().for_each(publish_validation);
        }
    }
    object.get_mut("not").into_iter().for_each(publish_validation);
}

/// Drops members that say nothing, members that this form has no place for, and members nobody knows.
fn tidy(object: &mut Object, form: Form) {
    object.retain(|name, value| match name.as_str() {
        "type" | "description" | "title" | "format" | "pattern" => value.as_str().is_some_and(|text| !text.is_empty()),
        "nullable"
        | "uniqueItems"
        | "exclusiveMinimum"
        | "exclusiveMaximum"
        | PRESERVE_UNKNOWN_FIELDS
        | EMBEDDED_RESOURCE
        | INT_OR_STRING => *value == Value::Bool(true),
        "minimum" | "maximum" | "multipleOf" => {
            number::float(value);
            value.is_number()
        }
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => value.is_number(),
        "default" if form == Form::V2 => false,
        "default" | "example" => {
            number::tidy(value);
            !value.is_null()
        }
        "enum" => {
            number::tidy(value);
            is_filled_list(value)
        }
        "allOf" | "anyOf" | "oneOf" | "not" if form == Form::V2 => false,
        "required" | "allOf" | "anyOf" | "oneOf" | "x-kubernetes-list-map-keys" => is_filled_list(value),
        "x-kubernetes-validations" => {
            let rules = value.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut);
            rules.for_each(|rule| rule.retain(|_, value| !value.is_null() && value != ""));
            is_filled_list(value)
        }
        "properties" => value.as_object().is_some_and(|properties| !properties.is_empty()),
        "externalDocs" | "items" | "not" => value.is_object(),
        "additionalProperties" => value.is_object() || value.is_boolean(),
        "x-kubernetes-list-type" | "x-kubernetes-map-type" => value.is_string(),
        _ => false,
    });
}

fn is_filled_list(value: &Value) -> bool {
    value.as_array().is_some_and(|items| !items.is_empty())
}

fn is_true(object: &Object, name: &str) -> bool {
    object.get(name) == Some(&Value::Bool(true))
}

/// Says in version 3's own words that an integer or a string is meant, unless the schema does.
fn unfold(object: &mut Object) {
    if !is_true(object, INT_OR_STRING) {
        return;
    }
    let either = json!([{"type": "integer"}, {"type": "string"}]);
    let said = object.get("anyOf") == Some(&either)
        || object.get("allOf").and_then(|all| all.get(0)).and_then(|first| first.get("anyOf")) == Some(&either);
    if said {
        return;
    }
    if !object.contains_key("anyOf") {
        object.insert("anyOf".into(), either);
        return;
    }
    let all = object.entry("allOf").or_insert_with(|| json!([]));
    if let Value::Array(all) = all {
        all.insert(0, json!({"anyOf": either}));
    }
}

/// Readers of version 2 have no null, so a field that may be null is not required of anyone. Looked at before the fields
/// themselves are simplified.
fn forget_nullable_fields(object: &mut Object) {
    let may_be_null = |schema: &Value| schema.get("nullable") == Some(&Value::Bool(true));
    let values_may = object.get("additionalProperties").is_some_and(may_be_null);
    let Some(Value::Array(mut required)) = object.remove("required") else { return };
    // Objects that lose their fields keep what they require of them, as upstream has it.
    let loses_fields = is_true(object, "nullable") || is_true(object, PRESERVE_UNKNOWN_FIELDS);
    let properties = object.get("properties").and_then(Value::as_object).filter(|_| !loses_fields);
    required.retain(|name| {
        let property = name.as_str().and_then(|name| properties?.get(name));
        !values_may && !property.is_some_and(may_be_null)
    });
    object.insert("required".into(), Value::Array(required));
}

/// What version 2 cannot say makes its readers refuse good objects, so less is said: values that may be null have no type,
/// open objects no fields, lists without a schema for items no type.
fn simplify(object: &mut Object) {
    let nullable = object.remove("nullable").is_some();
    let open = is_true(object, PRESERVE_UNKNOWN_FIELDS);
    if nullable || open {
        object.remove("items");
        object.remove("properties");
    }
    let ty = object.get("type").and_then(Value::as_str);
    let untyped = nullable || (ty == Some("array") && !object.contains_key("items")) || (ty == Some("object") && open);
    if untyped {
        object.remove("type");
    }
}
