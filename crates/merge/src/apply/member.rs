//! The fields an applied configuration lays claim to.

use std::borrow::Cow;

use serde_json::Value;

use super::list_key::element_of;
use super::path::PathElement;
use super::set::FieldSet;
use super::types::{ListMerging, Shape, TypeRef};

/// Every leaf, every entry of a merged list and every key of a map in an object that fits its type.
pub fn field_set<'a>(types: TypeRef<'a>, object: &'a Value) -> FieldSet<'a> {
    below(types, object).children
}

struct Claim<'a> {
    /// Whether the value itself is claimed, as one whole.
    is_leaf: bool,
    children: FieldSet<'a>,
}

fn below<'a>(types: TypeRef<'a>, value: &'a Value) -> Claim<'a> {
    let atom = types.resolve();
    let mut claim = Claim { is_leaf: false, children: FieldSet::default() };
    match (atom.shape(value), &atom.map, &atom.list) {
        (Shape::Scalar, _, _) => claim.is_leaf = true,
        (Shape::Map, Some(map), _) if map.is_atomic => claim.is_leaf = true,
        (Shape::List, _, Some(list)) if matches!(list.merging, ListMerging::Atomic) => claim.is_leaf = true,
        (Shape::Map, Some(map), _) => {
            claim.children.nodes.reserve(value.as_object().map_or(0, serde_json::Map::len));
            for (name, value) in value.as_object().into_iter().flatten() {
                let declared = map.field(name);
                let Some(types) = declared.or(map.element) else { continue };
                let child = below(types, value);
                let is_empty = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
                let is_member = child.is_leaf || is_empty || declared.is_none();
                claim.children.push(PathElement::Field(Cow::Borrowed(name)), is_member, child.children);
            }
        }
        (Shape::List, _, Some(list)) => {
            let items = value.as_array().map_or(&[][..], Vec::as_slice);
            let mut entries: Vec<_> =
                items.iter().filter_map(|item| Some((element_of(list, item).ok()?, item))).collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            let mut entries = entries.into_iter().peekable();
            while let Some((element, item)) = entries.next() {
                let mut is_duplicated = false;
                while entries.next_if(|(next, _)| *next == element).is_some() {
                    is_duplicated = true;
                }
                // Nobody owns parts of entries that cannot be told apart.
                let children = if is_duplicated { FieldSet::default() } else { below(list.element, item).children };
                claim.children.push(element, true, children);
            }
        }
        _ => {}
    }
    claim
}
