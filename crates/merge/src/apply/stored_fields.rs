//! Changing `fieldsV1` as it is stored, without reading all of it: the cost is that of what changes.
//!
//! This is the path of almost every write. It is taken only for fields that this server wrote itself, which are in
//! canonical form: a field with nothing below it is `{}`, and `.` stands only beside other names.

use serde_json::{Map, Value};

use super::path::PathElement;
use super::set::FieldSet;
use super::types::{ListMerging, Shape, TypeRef};

type Fields = Map<String, Value>;

const SELF: &str = ".";

/// Removes the fields of a set, but not what lies below them; whether any was there.
pub(super) fn subtract(fields: &mut Fields, set: &FieldSet<'_>) -> bool {
    let mut changed = false;
    let mut name = String::new();
    for node in &set.nodes {
        write_name(&node.element, &mut name);
        let Some(Value::Object(below)) = fields.get_mut(&name) else { continue };
        let was_member = is_member(below);
        let lost = node.is_member && was_member;
        if lost {
            below.remove(SELF);
        }
        let has_changed = subtract(below, &node.children) || lost;
        let is_bare = below.keys().all(|name| name == SELF);
        if has_changed && is_bare {
            if was_member && !lost {
                below.clear();
            } else {
                fields.remove(&name);
            }
        }
        changed |= has_changed;
    }
    changed
}

/// Adds the fields of a set; whether any was new.
pub(super) fn add(fields: &mut Fields, set: &FieldSet<'_>) -> bool {
    let mut changed = false;
    let mut name = String::new();
    for node in &set.nodes {
        write_name(&node.element, &mut name);
        let Some(Value::Object(below)) = fields.get_mut(&name) else {
            fields.insert(name.clone(), node.children.members_value(node.is_member));
            changed = true;
            continue;
        };
        let was_member = is_member(below);
        changed |= add(below, &node.children);
        if (was_member || node.is_member) && !below.is_empty() && !below.contains_key(SELF) {
            below.insert(SELF.to_owned(), Value::Object(Fields::new()));
        }
        changed |= node.is_member && !was_member;
    }
    changed
}

fn is_member(below: &Fields) -> bool {
    below.is_empty() || below.contains_key(SELF)
}

fn write_name(element: &PathElement<'_>, name: &mut String) {
    name.clear();
    element.write_name(name);
}

/// Whether the fields fit the schema, so that [`super::reconcile`] would leave them as they are.
pub(super) fn fit(fields: &Fields, types: TypeRef<'_>) -> bool {
    let atom = types.resolve();
    match (atom.first_shape(), &atom.map, &atom.list) {
        (Shape::Map, Some(map), _) if map.is_deduced() => true,
        (Shape::Map, Some(map), _) if map.is_atomic => fields.is_empty(),
        (Shape::List, _, Some(list)) if matches!(list.merging, ListMerging::Atomic) => fields.is_empty(),
        (Shape::Map, Some(map), _) => fields.iter().all(|(name, below)| {
            let is_leaf = below.as_object().is_none_or(Fields::is_empty);
            if is_leaf || name == SELF {
                return true;
            }
            let types = name.strip_prefix("f:").map_or(map.element, |name| map.field_or_element(name));
            types.zip(below.as_object()).is_none_or(|(types, below)| fit(below, types))
        }),
        (Shape::List, _, Some(list)) => fields
            .values()
            .all(|below| below.as_object().is_none_or(|below| below.is_empty() || fit(below, list.element))),
        _ => true,
    }
}
