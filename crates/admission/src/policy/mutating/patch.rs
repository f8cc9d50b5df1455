//! What one mutation makes of an object.

use bailiwick_cel::admission::POLICY_BUDGET;
use bailiwick_cel::{LargeIntegers, Structure, Value as Cel};
use bailiwick_machinery::ApiError;
use bailiwick_merge::{JsonPatch, PatchError};
use serde_json::{Map, Value};

use super::super::compiled::{Compiled, Mutation, PatchForm};
use super::super::evaluation::{Run, Seen};
use crate::attributes::Attributes;
use crate::host::Versioned;
use crate::matching::Matched;

/// Why a mutation made nothing of the object.
pub(super) enum PatchFailure {
    /// By the failure policy; the text is upstream's.
    Refused(String),
    /// Whatever the failure policy says.
    Failed(ApiError),
}

/// The object after the mutation; none if it is not meant for the object.
pub(super) fn apply(
    mutation: &Mutation,
    compiled: &Compiled,
    versioned: &Versioned<'_>,
    seen: &Seen,
    param: Option<&Value>,
    attributes: &Attributes<'_>,
    matched: Matched<'_>,
) -> Result<Option<Value>, PatchFailure> {
    let Some(object) = versioned.object.as_deref() else { return Ok(None) };
    if let Err(why) = &mutation.expression.program {
        return Err(PatchFailure::Refused(why.clone()));
    }
    let bindings = seen.for_rules(versioned, param);
    let mut run = Run::new(&bindings, &compiled.variables, POLICY_BUDGET);
    let value = run.evaluate(&mutation.expression).map_err(|error| PatchFailure::Refused(error.to_string()))?;
    let value = value.map_err(PatchFailure::Refused)?;
    let host = attributes.host;
    let (patched, before) = match mutation.form {
        PatchForm::ApplyConfiguration => (configuration(&value, object, attributes, matched)?, object),
        PatchForm::JsonPatch => {
            let mut patched = object.clone();
            match json_patch(&value)?.apply(&mut patched) {
                Ok(()) => {}
                // The patch is not meant for this object.
                Err(error) if error.is_failed_test() => return Ok(None),
                Err(PatchError::Rejected(text)) => return Err(PatchFailure::Refused(format!("JSON Patch: {text}"))),
                Err(error) => return Err(PatchFailure::Refused(format!("JSON Patch: {error}"))),
            }
            let unknown = host.unknown_fields(&patched, matched.kind);
            if !unknown.is_empty() {
                let error = format!("strict decoding error: {}", unknown.join(", "));
                return Err(PatchFailure::Failed(ApiError::internal(error)));
            }
            (patched, object)
        }
    };
    let settled = host.settle(patched, before, matched.kind);
    settled.map(Some).map_err(|error| PatchFailure::Failed(ApiError::internal(error)))
}

fn configuration(
    value: &Cel<'_>,
    object: &Value,
    attributes: &Attributes<'_>,
    matched: Matched<'_>,
) -> Result<Value, PatchFailure> {
    check_type_names(value)?;
    let refused = |error: String| PatchFailure::Refused(error);
    let mut patch = value.to_json(LargeIntegers::Numbers).map_err(|error| refused(error.to_string()))?;
    if let Some(fields) = patch.as_object_mut() {
        fields.insert("apiVersion".into(), matched.kind.api_version().into());
        fields.insert("kind".into(), matched.kind.kind.into());
    }
    let merged = attributes.host.merge(object, &patch, matched.kind);
    merged.map_err(|error| refused(format!("error applying patch: {error}")))
}

/// Nothing is known of the object when expressions are checked, so that the names of types are all there is to tell a
/// misplaced part by.
fn check_type_names(value: &Cel<'_>) -> Result<(), PatchFailure> {
    let mut errors = Vec::new();
    if let Cel::Struct(structure) = value {
        misplaced(value, structure.name(), &mut errors);
    }
    if errors.is_empty() { Ok(()) } else { Err(PatchFailure::Refused(format!("type mismatch: {}", errors.join("\n")))) }
}

fn misplaced(value: &Cel<'_>, expected: &str, errors: &mut Vec<String>) {
    match value {
        Cel::Struct(structure) => {
            let found = structure.name();
            if found != expected {
                errors.push(format!(
                    "unexpected type name {found:?}, expected {expected:?}, which matches field name path from root Object type"
                ));
            }
            for (name, field) in structure.fields() {
                misplaced(field, &format!("{expected}.{name}"), errors);
            }
        }
        // Only what the expression built can hold constructed objects; documents cannot.
        Cel::List(list) => {
            list.iter().filter_map(Result::ok).for_each(|item| misplaced(&item, expected, errors));
        }
        Cel::Map(map) => {
            let values = map.keys().into_iter().filter_map(|key| map.get(&key).ok().flatten());
            values.for_each(|item| misplaced(&item, expected, errors));
        }
        _ => {}
    }
}

fn json_patch(value: &Cel<'_>) -> Result<JsonPatch, PatchFailure> {
    let refused = |text: String| PatchFailure::Refused(text);
    let Cel::List(list) = value else {
        return Err(refused("type mismatch: JSONPatchType.expression should evaluate to array".to_owned()));
    };
    let mut operations = Vec::with_capacity(list.len());
    for item in list.iter() {
        let item = item.map_err(|error| refused(error.to_string()))?;
        let Cel::Struct(patch) = &item else {
            let text = "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch";
            return Err(refused(text.to_owned()));
        };
        operations.push(operation(patch)?);
    }
    JsonPatch::from_value(Value::Array(operations)).map_err(|error| refused(format!("JSON Patch: {error}")))
}

fn operation(patch: &Structure<'_>) -> Result<Value, PatchFailure> {
    let mut fields = Map::new();
    let text = |name: &str| patch.field(name).and_then(Cel::as_str).unwrap_or_default();
    fields.insert("op".into(), text("op").into());
    fields.insert("path".into(), text("path").into());
    if !text("from").is_empty() {
        fields.insert("from".into(), text("from").into());
    }
    if let Some(value) = patch.field("value") {
        if matches!(value, Cel::Struct(_)) {
            check_type_names(value)?;
        }
        let json = value.to_json(LargeIntegers::Text).map_err(|error| {
            PatchFailure::Refused(format!(
                "JSONPath valueExpression evaluated to a type that could not marshal to JSON: {error}"
            ))
        })?;
        fields.insert("value".into(), json);
    }
    Ok(Value::Object(fields))
}
