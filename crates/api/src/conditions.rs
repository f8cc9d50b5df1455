//! Rules that status subresources share: well-formed conditions, and metadata that a status update leaves alone.

use bailiwick_machinery::field::{Error, ErrorList, Path};
use bailiwick_machinery::object::metadata_mut;
use bailiwick_machinery::validation::names::qualified_name;
use jiff::Timestamp;
use serde_json::Value;

use crate::field_errors::invalid_each;
use crate::fields::{integer, optional_text, text};

/// Reasons are words for programs; long ones are mistakes.
const MAX_REASON_BYTES: usize = 1024;
/// Messages are shown to people; longer ones nobody reads.
const MAX_MESSAGE_BYTES: usize = 32 * 1024;

const STATUSES: &[&str] = &["False", "True", "Unknown"];

/// Checks a list of `meta/v1` conditions.
pub(crate) fn validate_conditions(conditions: &[Value], path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    for (index, condition) in conditions.iter().enumerate() {
        let path = path.index(index);
        let kind = text(condition, "type");
        if conditions[..index].iter().any(|earlier| text(earlier, "type") == kind) {
            errors.push(Error::duplicate(&path.child("type"), kind));
        }
        errors.extend(validate_condition(condition, &path));
    }
    errors
}

fn validate_condition(condition: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let kind = text(condition, "type");
    let type_path = path.child("type");
    errors.extend(invalid_each(&type_path, kind, qualified_name(kind)));
    let status = text(condition, "status");
    if !STATUSES.contains(&status) {
        errors.push(Error::not_supported(&path.child("status"), status, STATUSES));
    }
    let generation = integer(condition, "observedGeneration");
    if generation < 0 {
        let detail = "must be greater than or equal to zero";
        errors.push(Error::invalid(&path.child("observedGeneration"), generation, detail));
    }
    if optional_text(condition, "lastTransitionTime").is_none() {
        errors.push(Error::required(&path.child("lastTransitionTime"), ""));
    }
    let reason = text(condition, "reason");
    let reason_path = path.child("reason");
    if reason.is_empty() {
        errors.push(Error::required(&reason_path, ""));
    } else {
        if !is_reason(reason) {
            let detail = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";
            errors.push(Error::invalid(&reason_path, reason, detail));
        }
        if reason.len() > MAX_REASON_BYTES {
            errors.push(Error::too_long(&reason_path, MAX_REASON_BYTES));
        }
    }
    if text(condition, "message").len() > MAX_MESSAGE_BYTES {
        errors.push(Error::too_long(&path.child("message"), MAX_MESSAGE_BYTES));
    }
    errors
}

fn is_reason(reason: &str) -> bool {
    reason.starts_with(|c: char| c.is_ascii_alphabetic())
        && reason.ends_with(|c: char| c == '_' || c.is_ascii_alphanumeric())
        && reason.chars().all(|c| c.is_ascii_alphanumeric() || "_,:".contains(c))
}

/// Takes back what a status update may not change in the metadata.
pub(crate) fn keep_metadata_for_status(object: &mut Value, old: &Value) {
    let Some(metadata) = metadata_mut(object) else { return };
    for name in
        ["deletionTimestamp", "generation", "selfLink", "labels", "annotations", "finalizers", "ownerReferences"]
    {
        match old.get("metadata").and_then(|metadata| metadata.get(name)) {
            Some(value) => metadata.insert(name.to_owned(), value.clone()),
            None => metadata.remove(name),
        };
    }
}

/// A moment as objects carry it: to the second, in UTC.
pub(crate) fn timestamp(moment: Timestamp) -> String {
    moment.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
