//! Fields of custom resources that field selectors may name: simple paths to scalars in the schema.

use bailiwick_machinery::field::{Error, ErrorList, Path};
use serde_json::Value;

use super::field_path::{Brackets, find};
use crate::fields::{same, text};

/// Every selectable field is kept in memory for every object.
const MAX_SELECTABLE_FIELDS: usize = 8;

/// Checks the selectable fields of a version against its schema. `old` are those of the stored definition.
pub(super) fn validate(fields: &[Value], schema: &Value, old: Option<&Value>, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let mut seen: Vec<&str> = Vec::new();
    for (index, field) in fields.iter().enumerate() {
        let path = path.index(index).child("jsonPath");
        let json_path = text(field, "jsonPath");
        if json_path.is_empty() {
            errors.push(Error::required(&path, ""));
            continue;
        }
        let found = match find(json_path, schema, Brackets::Forbidden) {
            Ok(found) => found,
            Err(why) => {
                errors.push(Error::invalid(&path, json_path, format!("is an invalid path: {why}")));
                continue;
            }
        };
        if json_path == ".metadata" || json_path.starts_with(".metadata.") {
            errors.push(Error::invalid(&path, json_path, "must not point to fields in metadata"));
        }
        if !matches!(text(found, "type"), "string" | "boolean" | "integer") {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            errors.push(Error::invalid(&path, json_path, detail));
        }
        if seen.contains(&json_path) {
            errors.push(Error::duplicate(&path, json_path));
        } else {
            seen.push(json_path);
        }
    }
    let unchanged = old.is_some_and(|old| {
        old.as_array().is_some_and(|old| old.len() > MAX_SELECTABLE_FIELDS)
            && same(Some(old), Some(&Value::from(fields)))
    });
    if seen.len() > MAX_SELECTABLE_FIELDS && !unchanged {
        errors.push(Error::too_many(path, seen.len(), MAX_SELECTABLE_FIELDS));
    }
    errors
}
