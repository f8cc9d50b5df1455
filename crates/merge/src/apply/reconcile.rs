//! Fitting recorded fields to a schema that changed since: where a list or map has become atomic, whoever owned parts of
//! it now owns the whole.

use super::path::PathElement;
use super::set::{FieldSet, Node};
use super::types::{ListMerging, Shape, TypeRef};

/// Brings a set in line with the schema; whether it had to change.
pub(super) fn reconcile(set: &mut FieldSet<'_>, types: TypeRef<'_>) -> bool {
    children(set, types)
}

fn children(set: &mut FieldSet<'_>, types: TypeRef<'_>) -> bool {
    let atom = types.resolve();
    let mut changed = false;
    for node in &mut set.nodes {
        let below = match (atom.first_shape(), &atom.map, &atom.list) {
            (Shape::Map, Some(map), _) if map.is_deduced() => return false,
            (Shape::Map, Some(map), _) => match &node.element {
                PathElement::Field(name) => map.field_or_element(name),
                _ => map.element,
            },
            (Shape::List, _, Some(list)) => Some(list.element),
            _ => None,
        };
        if let Some(types) = below {
            changed |= self::node(node, types);
        }
    }
    changed
}

fn node(node: &mut Node<'_>, types: TypeRef<'_>) -> bool {
    let atom = types.resolve();
    let is_whole = node.is_member && node.children.is_empty();
    let became_atomic = match (atom.first_shape(), &atom.map, &atom.list) {
        (Shape::Map, Some(map), _) => !map.is_deduced() && map.is_atomic && !node.children.is_empty(),
        (Shape::List, _, Some(list)) => matches!(list.merging, ListMerging::Atomic),
        _ => false,
    };
    if became_atomic && !is_whole {
        node.is_member = true;
        node.children = FieldSet::default();
        return true;
    }
    children(&mut node.children, types)
}
