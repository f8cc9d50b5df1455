//! Which parts of a configuration are atomic: merging them would replace more than what they say.

use serde_json::Value;

use super::path::PathElement;
use super::types::{ListMerging, TypeRef};

/// The paths of all lists, maps and structs of a value that merge as a whole.
pub fn atomics(types: TypeRef<'_>, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    visit(types, value, &mut String::new(), &mut found);
    found
}

fn visit(types: TypeRef<'_>, value: &Value, path: &mut String, found: &mut Vec<String>) {
    let atom = types.resolve();
    let length = path.len();
    let at = path.clone();
    let mut below = |types, value: &Value, element: PathElement<'_>, found: &mut Vec<String>| {
        path.push_str(&element.to_string());
        visit(types, value, path, found);
        path.truncate(length);
    };
    match value {
        Value::Object(fields) => {
            let Some(map) = &atom.map else { return };
            if map.is_atomic {
                found.push(at.clone());
            }
            for (name, value) in fields {
                if let Some(types) = map.field(name) {
                    below(types, value, PathElement::Field(name.into()), found);
                }
            }
        }
        Value::Array(items) => {
            let Some(list) = &atom.list else { return };
            if matches!(list.merging, ListMerging::Atomic) {
                found.push(at.clone());
            }
            for (index, item) in (0..).zip(items) {
                below(list.element, item, PathElement::Index(index), found);
            }
        }
        _ => {}
    }
}
