//! Custom objects through pruning, defaulting and validation, compared with what kube-apiserver answered
//! (`testdata/custom-objects.recorded.json`, made by `record_objects.py`).

use bailiwick_machinery::field::{ErrorList, Path};
use bailiwick_schema::structural::{
    self, MalformedFields, PruneOptions, Root, Schema, UnknownFields, compile, validate, validate_embedded,
    validate_list_types, validate_update,
};
use serde_json::{Value, json};

use super::EMBEDDED_RULES;

/// What came of an object, in the shape of the recording.
fn answer(case: &Value, body: &Value, schema: &Schema, old: Option<&Value>) -> Value {
    let mut object = body.clone();
    object["apiVersion"] = case["apiVersion"].clone();
    object["kind"] = case["kind"].clone();
    object["metadata"]["name"] = "x".into();
    let options = PruneOptions { root: Root::Resource, unknown_fields: UnknownFields::Report };
    let mut unknown = structural::prune(&mut object, schema, options);
    structural::drop_nulls(&mut object, schema);
    match structural::coerce(&mut object, schema, Root::Value, MalformedFields::Refuse) {
        Ok(fields) => unknown.extend(fields),
        Err(error) => {
            let kind = case["kind"].as_str().expect("kind");
            return json!({"refused": format!("{kind} in version \"v1\" cannot be handled as a {kind}: {error}")});
        }
    }
    structural::default(&mut object, schema);
    let errors = faults(&object, schema, old);
    let mut answer = json!({});
    if !unknown.is_empty() && old.is_none() {
        answer["warnings"] = unknown.iter().map(|path| format!("unknown field \"{path}\"")).collect();
    }
    if !errors.is_empty() {
        let mut causes: Vec<String> =
            errors.iter().map(|error| format!("{} {}: {}", error.kind.reason(), error.field, error.body())).collect();
        causes.sort_unstable();
        answer["errors"] = causes.into();
        return answer;
    }
    let fields = object.as_object_mut().expect("object");
    fields.retain(|name, _| name != "apiVersion" && name != "kind");
    fields["metadata"].as_object_mut().expect("metadata").remove("name");
    fields.retain(|name, value| name != "metadata" || *value != json!({}));
    answer["stored"] = object;
    answer
}

fn faults(object: &Value, schema: &Schema, old: Option<&Value>) -> ErrorList {
    let root = Path::root();
    let mut errors = match old {
        None => validate(object, schema, &root),
        Some(old) => validate_update(object, old, schema, &root),
    };
    errors.extend(validate_embedded(object, schema, Root::Value, &root, EMBEDDED_RULES));
    if old.is_none_or(|old| validate_list_types(old, schema, &root).is_empty()) {
        errors.extend(validate_list_types(object, schema, &root));
    }
    errors
}

/// Go prints floats without a fraction as integers.
fn plain_numbers(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(plain_numbers),
        Value::Object(map) => map.values_mut().for_each(plain_numbers),
        Value::Number(number) => {
            if let Some(float) = number.as_f64() {
                *value = format!("{}", float + 0.0).into();
            }
        }
        _ => {}
    }
}

#[test]
fn custom_objects_are_treated_as_the_reference_treats_them() {
    let recorded: Vec<Value> =
        serde_json::from_str(include_str!("../../testdata/custom-objects.recorded.json")).expect("recording");
    let (mut compared, mut differences) = (0, Vec::new());
    for case in &recorded {
        let schema = compile(&case["schema"]).expect("schema");
        let updates = case["updates"].as_array().into_iter().flatten();
        for recorded in case["objects"].as_array().into_iter().flatten().chain(updates) {
            let mut expected = recorded.clone();
            expected
                .as_object_mut()
                .expect("object")
                .retain(|key, _| !matches!(key.as_str(), "object" | "old" | "new"));
            let mut ours = match recorded.get("object") {
                Some(object) => answer(case, object, &schema, None),
                None => answer(case, &recorded["new"], &schema, Some(&recorded["old"])),
            };
            plain_numbers(&mut expected);
            plain_numbers(&mut ours);
            compared += 1;
            if ours != expected {
                differences.push(format!("{} {recorded}\n   ours: {ours}", case["name"]));
            }
        }
    }
    assert!(differences.is_empty(), "{} of {compared} differ:\n{}", differences.len(), differences.join("\n"));
    assert!(compared > 400);
}
