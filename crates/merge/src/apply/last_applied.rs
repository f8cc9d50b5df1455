//! The annotation of kubectl's client-side apply, which server-side apply by kubectl honours and keeps up to date.

use serde_json::Value;

use super::compare::compare;
use super::conflict::Conflicts;
use super::field_manager::FieldManager;
use super::member::field_set;
use super::validation::{Duplicates, validate};

/// The only manager this is done for; others do not inherit from client-side apply.
pub(super) const MANAGER: &str = "kubectl";

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// All annotations of an object together may have this many bytes.
const MAX_ANNOTATIONS_BYTES: usize = 256 * 1024;

/// The conflicts that are left when those with the last applied configuration are not counted; `None` if none are.
pub(super) fn without_own_fields(manager: &FieldManager<'_>, live: &Value, conflicts: Conflicts) -> Option<Conflicts> {
    let Some(last) = annotation(live) else { return Some(conflicts) };
    let Ok(last) = serde_json::from_str::<Value>(last) else { return Some(conflicts) };
    if last.get("apiVersion").and_then(Value::as_str) != Some(manager.api_version)
        || validate(manager.types, &last, Duplicates::Refused).is_err()
    {
        return Some(conflicts);
    }
    let Ok(comparison) = compare(manager.types, &last, live) else { return Some(conflicts) };
    let mut unchanged = field_set(manager.types, &last);
    unchanged.subtract(&comparison.modified);
    unchanged.subtract(&comparison.added);
    unchanged.subtract(&comparison.removed);
    let own: std::collections::BTreeSet<_> = unchanged.paths().iter().map(ToString::to_string).collect();
    let left: Vec<_> = conflicts.0.into_iter().filter(|conflict| !own.contains(&conflict.path)).collect();
    (!left.is_empty()).then_some(Conflicts(left))
}

/// Writes the configuration into the annotation of an object that has one.
pub(super) fn refresh(object: &mut Value, config: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let mut config = config.clone();
    if let Some(annotations) = annotations_mut(&mut config) {
        annotations.remove(ANNOTATION);
    }
    // Upstream's encoder ends its output with a line break.
    let text = format!("{}\n", go_json(&config));
    let Some(annotations) = annotations_mut(object) else { return };
    let others = annotations.iter().filter(|(name, _)| *name != ANNOTATION);
    let others: usize = others.map(|(name, value)| name.len() + value.as_str().map_or(0, str::len)).sum();
    if others + ANNOTATION.len() + text.len() > MAX_ANNOTATIONS_BYTES {
        annotations.remove(ANNOTATION);
    } else {
        annotations.insert(ANNOTATION.to_owned(), Value::String(text));
    }
}

/// Go escapes these in JSON text.
fn go_json(value: &Value) -> String {
    let text = value.to_string();
    text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

fn annotation(object: &Value) -> Option<&str> {
    object.get("metadata")?.get("annotations")?.get(ANNOTATION)?.as_str().filter(|text| !text.is_empty())
}

fn annotations_mut(object: &mut Value) -> Option<&mut serde_json::Map<String, Value>> {
    object.get_mut("metadata")?.get_mut("annotations")?.as_object_mut()
}
