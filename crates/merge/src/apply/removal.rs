//! Taking fields out of an object by their paths, and the reverse: keeping nothing else.

use serde_json::{Map, Value};

use super::list_key::element_of;
use super::path::PathElement;
use super::set::FieldSet;
use super::types::{ListAtom, ListMerging, MapAtom, Shape, TypeRef};

/// The object without these fields. A list or map of which nothing is left becomes null.
pub fn remove_items(types: TypeRef<'_>, object: &Value, items: &FieldSet<'_>) -> Value {
    node(types, object, items, Mode::Remove)
}

/// The object with nothing but these fields.
pub fn extract_items(types: TypeRef<'_>, object: &Value, items: &FieldSet<'_>) -> Value {
    node(types, object, items, Mode::Extract)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Remove,
    Extract,
}

fn node(types: TypeRef<'_>, value: &Value, items: &FieldSet<'_>, mode: Mode) -> Value {
    let atom = types.resolve();
    match (atom.shape(value), value, &atom.map, &atom.list) {
        (Shape::Map, Value::Object(fields), Some(map), _) if !map.is_atomic && !fields.is_empty() => {
            self::map(map, fields, items, mode)
        }
        (Shape::List, Value::Array(entries), _, Some(list))
            if !matches!(list.merging, ListMerging::Atomic) && !entries.is_empty() =>
        {
            self::list(list, entries, items, mode)
        }
        (Shape::Scalar, ..) => value.clone(),
        // A whole is kept as a whole; something inside it is to go, so it goes.
        _ if mode == Mode::Extract => value.clone(),
        _ => Value::Null,
    }
}

fn map(atom: &MapAtom<'_>, fields: &Map<String, Value>, items: &FieldSet<'_>, mode: Mode) -> Value {
    let mut out = Map::new();
    for (name, value) in fields {
        let found = items.get(&PathElement::Field(name.into()));
        let types = atom.field_or_element(name);
        let below = |items: &FieldSet<'_>| types.map_or(Value::Null, |types| node(types, value, items, mode));
        let kept = match (found, mode) {
            (Some(found), Mode::Remove) if found.is_member => continue,
            (Some(found), Mode::Extract) if found.is_member => below(items),
            (Some(found), _) => below(&found.children),
            (None, Mode::Remove) => value.clone(),
            (None, Mode::Extract) => continue,
        };
        out.insert(name.clone(), kept);
    }
    if out.is_empty() { Value::Null } else { Value::Object(out) }
}

fn list(atom: &ListAtom<'_>, entries: &[Value], items: &FieldSet<'_>, mode: Mode) -> Value {
    let mut out = Vec::with_capacity(entries.len());
    for entry in entries {
        let found = element_of(atom, entry).ok().and_then(|element| items.get(&element));
        let below = |items: &FieldSet<'_>| node(atom.element, entry, items, mode);
        match (found, mode) {
            (Some(found), Mode::Remove) if found.is_member => {}
            (Some(found), _) if !found.children.is_empty() => out.push(below(&found.children)),
            (Some(_), _) | (None, Mode::Remove) => out.push(entry.clone()),
            (None, Mode::Extract) => {}
        }
    }
    if out.is_empty() { Value::Null } else { Value::Array(out) }
}
