//! References within OpenAPI documents: which definitions are needed, and giving them other names.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// How references to definitions of version 2 documents begin.
pub(super) const DEFINITIONS: &str = "#/definitions/";
/// How references to shared parameters begin.
pub(super) const PARAMETERS: &str = "#/parameters/";

/// The definitions that `roots` need, also by way of others.
pub(super) fn used_definitions<'a>(document: &'a Value, roots: impl Iterator<Item = &'a Value>) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    let mut waiting: Vec<&Value> = roots.collect();
    while let Some(value) = waiting.pop() {
        each_reference(value, &mut |reference| {
            if let Some(name) = reference.strip_prefix(DEFINITIONS)
                && used.insert(name.to_owned())
                && let Some(definition) = document.get("definitions").and_then(|all| all.get(name))
            {
                waiting.push(definition);
            }
        });
    }
    used
}

/// Visits every `$ref`. Documents are no deeper than what was read, for which serde_json has a limit.
fn each_reference<'a>(value: &'a Value, visit: &mut impl FnMut(&'a str)) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match field {
                    Value::String(reference) if name == "$ref" => visit(reference),
                    _ => each_reference(field, visit),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| each_reference(item, visit)),
        _ => {}
    }
}

/// Makes every reference say what `replace` has for it.
pub(super) fn replace(value: &mut Value, replacements: &BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields.iter_mut() {
                match field {
                    Value::String(reference) if name == "$ref" => {
                        if let Some(other) = replacements.get(reference.as_str()) {
                            reference.clone_from(other);
                        }
                    }
                    _ => replace(field, replacements),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, replacements)),
        _ => {}
    }
}
