//! The names a definition claims: plural, singular, kinds, short names and categories.

use bailiwick_machinery::field::{Error, ErrorList, Path};
use bailiwick_machinery::validation::names::dns1035_label;
use serde_json::Value;

use crate::fields::{text, texts};

/// Checks names that are there. Which must be there is for the spec to say; accepted names may be absent.
pub(super) fn validate(names: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    for field in ["plural", "singular"] {
        errors.extend(label(&path.child(field), text(names, field), Presence::Optional));
    }
    for field in ["kind", "listKind"] {
        let name = text(names, field);
        let faults = if name.is_empty() { Vec::new() } else { dns1035_label(&name.to_lowercase()) };
        if !faults.is_empty() {
            let detail = format!("may have mixed case, but should otherwise match: {}", faults.join(","));
            errors.push(Error::invalid(&path.child(field), name, detail));
        }
    }
    for (index, name) in texts(names, "shortNames").iter().enumerate() {
        errors.extend(label(&path.child("shortNames").index(index), name, Presence::Required));
    }
    let (kind, list_kind) = (text(names, "kind"), text(names, "listKind"));
    if !kind.is_empty() && kind == list_kind {
        let detail = "kind and listKind may not be the same";
        errors.push(Error::invalid(&path.child("listKind"), list_kind, detail));
    }
    for (index, name) in texts(names, "categories").iter().enumerate() {
        errors.extend(label(&path.child("categories").index(index), name, Presence::Required));
    }
    errors
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    Optional,
    Required,
}

/// Checks that a name is a DNS label, all complaints in one error.
pub(super) fn label(path: &Path, name: &str, presence: Presence) -> Option<Error> {
    if name.is_empty() && presence == Presence::Optional {
        return None;
    }
    let faults = dns1035_label(name);
    (!faults.is_empty()).then(|| Error::invalid(path, name, faults.join(",")))
}
