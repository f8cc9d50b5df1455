//! Sets of fields, as a tree of path elements in order.
//!
//! A node says whether the field itself belongs to the set and which fields below it do. Operations walk both trees side
//! by side; those that change a set in place report whether they did, so that untouched sets need not be written again.

use std::cmp::Ordering;

use super::path::{Path, PathElement};
use super::types::TypeRef;

/// A set of fields of an object. A field does not stand for the fields below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet<'a> {
    /// Sorted by element, each element once; every node is a member or has members below it.
    pub(super) nodes: Vec<Node<'a>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node<'a> {
    pub(super) element: PathElement<'a>,
    pub(super) is_member: bool,
    pub(super) children: FieldSet<'a>,
}

impl<'a> FieldSet<'a> {
    /// The set with nothing in it.
    pub const EMPTY: FieldSet<'static> = FieldSet { nodes: Vec::new() };

    /// A set of paths.
    pub fn of(paths: impl IntoIterator<Item = Path<'a>>) -> Self {
        let mut set = Self::default();
        for path in paths {
            set.insert(path);
        }
        set
    }

    /// Adds one field. The whole object, which is the empty path, belongs to nobody.
    pub fn insert(&mut self, path: Path<'a>) {
        let mut elements = path.0.into_iter().peekable();
        let mut set = self;
        while let Some(element) = elements.next() {
            let node = set.node_mut(element);
            if elements.peek().is_none() {
                node.is_member = true;
                return;
            }
            set = &mut node.children;
        }
    }

    pub(super) fn node_mut(&mut self, element: PathElement<'a>) -> &mut Node<'a> {
        let at = match self.position(&element) {
            Ok(at) => at,
            Err(at) => {
                self.nodes.insert(at, Node { element, is_member: false, children: FieldSet::default() });
                at
            }
        };
        &mut self.nodes[at]
    }

    /// Appends a node if it holds anything; nodes must come in the order of their elements.
    pub(super) fn push(&mut self, element: PathElement<'a>, is_member: bool, children: FieldSet<'a>) {
        if is_member || !children.is_empty() {
            debug_assert!(self.nodes.last().is_none_or(|last| last.element < element), "nodes come in order");
            self.nodes.push(Node { element, is_member, children });
        }
    }

    fn position(&self, element: &PathElement<'_>) -> Result<usize, usize> {
        self.nodes.binary_search_by(|node| node.element.cmp(element))
    }

    pub(super) fn get(&self, element: &PathElement<'_>) -> Option<&Node<'a>> {
        self.position(element).ok().and_then(|at| self.nodes.get(at))
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// How many fields belong to the set.
    pub fn len(&self) -> usize {
        self.nodes.iter().map(|node| usize::from(node.is_member) + node.children.len()).sum()
    }

    /// Whether a field belongs to the set.
    pub fn has(&self, path: &Path<'_>) -> bool {
        let Some((last, parents)) = path.0.split_last() else { return false };
        let set = parents.iter().try_fold(self, |set, element| set.get(element).map(|node| &node.children));
        set.and_then(|set| set.get(last)).is_some_and(|node| node.is_member)
    }

    /// Every field: those of one level first, then what lies below them.
    pub fn paths(&self) -> Vec<Path<'a>> {
        fn walk<'a>(set: &FieldSet<'a>, prefix: &mut Vec<PathElement<'a>>, out: &mut Vec<Path<'a>>) {
            for node in set.nodes.iter().filter(|node| node.is_member) {
                let mut path = prefix.clone();
                path.push(node.element.clone());
                out.push(Path(path));
            }
            for node in &set.nodes {
                prefix.push(node.element.clone());
                walk(&node.children, prefix, out);
                prefix.pop();
            }
        }
        let mut out = Vec::new();
        walk(self, &mut Vec::new(), &mut out);
        out
    }

    /// Adds all fields of the other set; whether any was new.
    pub fn add(&mut self, other: FieldSet<'a>) -> bool {
        if self.is_empty() {
            *self = other;
            return !self.is_empty();
        }
        let mut changed = false;
        for node in other.nodes {
            match self.position(&node.element) {
                Ok(at) => {
                    let own = &mut self.nodes[at];
                    changed |= node.is_member && !own.is_member;
                    own.is_member |= node.is_member;
                    changed |= own.children.add(node.children);
                }
                Err(at) => {
                    changed = true;
                    self.nodes.insert(at, node);
                }
            }
        }
        changed
    }

    /// Removes the fields of the other set, but not what lies below them; whether any was there.
    pub fn subtract(&mut self, other: &FieldSet<'_>) -> bool {
        self.subtract_by(other, &mut |own, other| {
            let mut changed = own.is_member && other.is_member;
            own.is_member &= !other.is_member;
            changed |= own.children.subtract(&other.children);
            changed
        })
    }

    /// Removes the fields of the other set and all that lies below them; whether any was there.
    pub fn subtract_with_children(&mut self, other: &FieldSet<'_>) -> bool {
        self.subtract_by(other, &mut |own, other| {
            if other.is_member {
                own.is_member = false;
                own.children = FieldSet::default();
                true
            } else {
                own.children.subtract_with_children(&other.children)
            }
        })
    }

    fn subtract_by(&mut self, other: &FieldSet<'_>, shrink: &mut dyn FnMut(&mut Node<'a>, &Node<'_>) -> bool) -> bool {
        let mut changed = false;
        if other.nodes.len() * FEW < self.nodes.len() {
            for theirs in &other.nodes {
                if let Ok(at) = self.position(&theirs.element) {
                    changed |= shrink(&mut self.nodes[at], theirs);
                }
            }
        } else {
            let mut theirs = other.nodes.iter().peekable();
            for own in &mut self.nodes {
                while theirs.next_if(|node| node.element < own.element).is_some() {}
                if let Some(node) = theirs.next_if(|node| node.element == own.element) {
                    changed |= shrink(own, node);
                }
            }
        }
        if changed {
            self.nodes.retain(|node| node.is_member || !node.children.is_empty());
        }
        changed
    }

    /// The fields of either set.
    pub fn union(&self, other: &FieldSet<'a>) -> FieldSet<'a> {
        let mut out = self.clone();
        out.add(other.clone());
        out
    }

    /// The fields of this set that are not in the other.
    pub fn difference(&self, other: &FieldSet<'_>) -> FieldSet<'a> {
        let mut out = self.clone();
        out.subtract(other);
        out
    }

    /// The fields of this set that are neither in the other nor below a field of it.
    pub fn recursive_difference(&self, other: &FieldSet<'_>) -> FieldSet<'a> {
        let mut out = self.clone();
        out.subtract_with_children(other);
        out
    }

    /// The fields of both sets.
    pub fn intersection(&self, other: &FieldSet<'_>) -> FieldSet<'a> {
        let mut out = FieldSet::default();
        let mut theirs = other.nodes.iter().peekable();
        for own in &self.nodes {
            while theirs.next_if(|node| node.element < own.element).is_some() {}
            if let Some(node) = theirs.next_if(|node| node.element == own.element) {
                let children = own.children.intersection(&node.children);
                out.push(own.element.clone(), own.is_member && node.is_member, children);
            }
        }
        out
    }

    /// Whether every field of this set is in the other.
    pub fn is_subset(&self, other: &FieldSet<'_>) -> bool {
        self.nodes.iter().all(|own| {
            other
                .get(&own.element)
                .is_some_and(|node| (node.is_member || !own.is_member) && own.children.is_subset(&node.children))
        })
    }

    /// Whether a field is in both sets.
    pub fn intersects(&self, other: &FieldSet<'_>) -> bool {
        let mut theirs = other.nodes.iter().peekable();
        self.nodes.iter().any(|own| {
            while theirs.next_if(|node| node.element < own.element).is_some() {}
            let Some(node) = theirs.next_if(|node| node.element.cmp(&own.element) == Ordering::Equal) else {
                return false;
            };
            (own.is_member && node.is_member) || own.children.intersects(&node.children)
        })
    }

    /// The fields with nothing below them.
    pub fn leaves(&self) -> FieldSet<'a> {
        let mut out = FieldSet::default();
        for node in &self.nodes {
            out.push(node.element.clone(), node.children.is_empty(), node.children.leaves());
        }
        out
    }

    /// The set with the declared fields that lead to its members. Removing by path needs them: a struct of which every
    /// field goes must go itself.
    pub fn with_named_parents(&self, types: TypeRef<'_>) -> FieldSet<'a> {
        self.naming_parents(Some(types))
    }

    fn naming_parents(&self, types: Option<TypeRef<'_>>) -> FieldSet<'a> {
        let atom = types.map(TypeRef::resolve);
        let map = atom.as_ref().and_then(|atom| atom.map.as_ref());
        let list = atom.as_ref().and_then(|atom| atom.list.as_ref());
        let mut out = FieldSet { nodes: Vec::with_capacity(self.nodes.len()) };
        for node in &self.nodes {
            let mut is_member = node.is_member;
            let below = match &node.element {
                PathElement::Field(name) => {
                    let declared = map.and_then(|map| map.field(name));
                    is_member |= declared.is_some();
                    declared.or_else(|| map.and_then(|map| map.element))
                }
                PathElement::Key(_) => list.map(|list| list.element),
                PathElement::Value(_) | PathElement::Index(_) => None,
            };
            let children = node.children.naming_parents(below);
            out.nodes.push(Node { element: node.element.clone(), is_member, children });
        }
        out
    }

    /// The set with nothing borrowed.
    pub fn into_owned(self) -> FieldSet<'static> {
        let own = |node: Node<'_>| Node {
            element: node.element.into_owned(),
            is_member: node.is_member,
            children: node.children.into_owned(),
        };
        FieldSet { nodes: self.nodes.into_iter().map(own).collect() }
    }
}

/// How many times fewer nodes the other set must have for a search of each to beat a walk over both.
const FEW: usize = 4;
