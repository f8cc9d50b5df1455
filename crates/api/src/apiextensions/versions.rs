//! What one version of a definition says besides its schema: subresources, printer columns, deprecation.
//!
//! Upstream checks its internal type, in which anything that is the same in all versions stands at the top of the spec;
//! error paths follow that. [`Hoisted`] finds out where a field stands.

use bailiwick_machinery::field::{Error, ErrorList, Path};
use serde_json::Value;

use crate::fields::{flag, list, optional_text, present, same, text};

/// Longer warnings do not fit a header next to others.
const MAX_DEPRECATION_WARNING_BYTES: usize = 256;

const COLUMN_TYPES: &[&str] = &["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: &[&str] = &["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

/// The fields that are the same in all versions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hoisted {
    pub schema: bool,
    pub subresources: bool,
    pub columns: bool,
    pub selectable_fields: bool,
}

impl Hoisted {
    pub fn of(versions: &[Value]) -> Self {
        let Some((first, others)) = versions.split_first() else {
            return Self { schema: true, subresources: true, columns: true, selectable_fields: true };
        };
        let common = |name: &str| others.iter().all(|version| same(version.get(name), first.get(name)));
        // A pointer to an empty struct is not the same as none.
        let all_or_none = |name: &str| {
            let some = versions.iter().filter(|version| present(version, name).is_some()).count();
            some == 0 || some == versions.len()
        };
        Self {
            schema: common("schema") && all_or_none("schema"),
            subresources: common("subresources") && all_or_none("subresources"),
            columns: common("additionalPrinterColumns"),
            selectable_fields: common("selectableFields"),
        }
    }
}

pub(super) fn validate_deprecation(version: &Value, path: &Path) -> ErrorList {
    let Some(warning) = optional_text(version, "deprecationWarning") else { return ErrorList::new() };
    let path = path.child("deprecationWarning");
    let mut errors = ErrorList::new();
    let mut wrong = |detail: String| errors.push(Error::invalid(&path, warning, detail));
    if !flag(version, "deprecated") {
        wrong("can only be set for deprecated versions".into());
        return errors;
    }
    if warning.len() > MAX_DEPRECATION_WARNING_BYTES {
        wrong("must be <= 256 characters long".into());
    }
    if warning.is_empty() {
        wrong("must not be an empty string".into());
    }
    let invisible = |c: char| c.is_control() || (c.is_whitespace() && c != ' ');
    if let Some(index) = warning.find(invisible) {
        wrong(format!("must only contain printable UTF-8 characters; non-printable character found at index {index}"));
    }
    errors
}

pub(super) fn validate_subresources(subresources: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let Some(scale) = present(subresources, "scale") else { return errors };
    for (name, root) in [("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")] {
        let json_path = text(scale, name);
        let path = path.child(&format!("scale.{name}"));
        if json_path.is_empty() {
            errors.push(Error::required(&path, ""));
        } else if let Some(error) = validate_simple_path(json_path, &path) {
            errors.push(error);
        } else if !is_under(json_path, root) {
            errors.push(Error::invalid(&path, json_path, format!("should be a json path under {root}")));
        }
    }
    let selector = text(scale, "labelSelectorPath");
    let path = path.child("scale.labelSelectorPath");
    if selector.is_empty() {
        return errors;
    }
    if let Some(error) = validate_simple_path(selector, &path) {
        errors.push(error);
    } else if !is_under(selector, ".spec") && !is_under(selector, ".status") {
        let detail = "should be a json path under either .spec or .status";
        errors.push(Error::invalid(&path, selector, detail));
    }
    errors
}

fn is_under(json_path: &str, root: &str) -> bool {
    json_path.strip_prefix(root).is_some_and(|rest| rest.starts_with('.'))
}

fn validate_simple_path(json_path: &str, path: &Path) -> Option<Error> {
    let detail = "must be a simple json path starting with .";
    (!json_path.starts_with('.')).then(|| Error::invalid(path, json_path, detail))
}

pub(super) fn validate_columns(version: &Value, path: &Path) -> ErrorList {
    let columns = list(version, "additionalPrinterColumns").iter().enumerate();
    columns
        .flat_map(|(index, column)| validate_column(column, &path.child("additionalPrinterColumns").index(index)))
        .collect()
}

fn validate_column(column: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    if text(column, "name").is_empty() {
        errors.push(Error::required(&path.child("name"), ""));
    }
    let kind = text(column, "type");
    let one_of = |words: &[&str]| format!("must be one of {}", words.join(","));
    if kind.is_empty() {
        errors.push(Error::required(&path.child("type"), one_of(COLUMN_TYPES)));
    } else if !COLUMN_TYPES.contains(&kind) {
        errors.push(Error::invalid(&path.child("type"), kind, one_of(COLUMN_TYPES)));
    }
    let format = text(column, "format");
    if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
        errors.push(Error::invalid(&path.child("format"), format, one_of(COLUMN_FORMATS)));
    }
    match text(column, "jsonPath") {
        "" => errors.push(Error::required(&path.child("JSONPath"), "")),
        json_path => errors.extend(validate_simple_path(json_path, &path.child("JSONPath"))),
    }
    errors
}
