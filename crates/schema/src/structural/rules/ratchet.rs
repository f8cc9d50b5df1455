//! Which faults an object had before: a rule that fails on a value that has not changed does not refuse the update.

use std::cell::OnceCell;

use serde_json::Value;

use crate::structural::schema::Schema;
use crate::structural::validate::ratchet::{OldItems, unchanged};

/// A value with the old one that belongs to it.
struct Pair<'a> {
    new: &'a Value,
    old: &'a Value,
    schema: &'a Schema,
    unchanged: OnceCell<bool>,
}

impl<'a> Pair<'a> {
    fn new(new: &'a Value, old: &'a Value, schema: &'a Schema) -> Self {
        Self { new, old, schema, unchanged: OnceCell::new() }
    }

    /// Asked for each failed rule below, so the answer is kept.
    fn unchanged(&self) -> bool {
        *self.unchanged.get_or_init(|| unchanged(self.new, self.old, self.schema))
    }
}

/// The old value of where a walk is, or of the nearest value above that has one.
pub(super) struct Ratchet<'a> {
    current: Option<Pair<'a>>,
    parent: Option<&'a Ratchet<'a>>,
}

impl<'a> Ratchet<'a> {
    /// At the root of an object; without an old one nothing is forgiven.
    pub fn of(new: &'a Value, old: Option<&'a Value>, schema: &'a Schema) -> Self {
        Self { current: old.map(|old| Pair::new(new, old, schema)), parent: None }
    }

    /// Whether the value is what it was; if it has no old value of its own, whether the one around it is.
    pub fn unchanged(&self) -> bool {
        match (&self.current, self.parent) {
            (Some(pair), _) => pair.unchanged(),
            (None, Some(parent)) => parent.current.as_ref().is_some_and(Pair::unchanged),
            (None, None) => false,
        }
    }

    /// For a member of an object or map.
    pub fn key(&'a self, key: &str) -> Ratchet<'a> {
        let Some(pair) = &self.current else { return Self { current: None, parent: self.parent } };
        // Both versions have been converted to the same type, so these are never an old fault.
        if self.parent.is_none() && matches!(key, "apiVersion" | "kind") {
            return Self { current: None, parent: None };
        }
        let schema = pair.schema.property(key).or_else(|| pair.schema.additional());
        let current = match (pair.new.get(key), pair.old.get(key), schema) {
            (Some(new), Some(old), Some(schema)) => Some(Pair::new(new, old, schema)),
            _ => None,
        };
        Self { current, parent: Some(self) }
    }

    /// For the items of a list.
    pub fn items(&'a self) -> Items<'a> {
        let old = self.current.as_ref().map(|pair| (OldItems::new(Some(pair.old), pair.schema), pair.schema));
        Items { list: self, old }
    }
}

/// The items of a list with their old values, where they have keys.
pub(super) struct Items<'a> {
    list: &'a Ratchet<'a>,
    old: Option<(OldItems<'a>, &'a Schema)>,
}

impl<'a> Items<'a> {
    pub fn of(&'a self, item: &'a Value) -> Ratchet<'a> {
        let Some((old, schema)) = &self.old else {
            return Ratchet { current: None, parent: self.list.parent };
        };
        let current = match (old.matching(item), schema.items.as_deref()) {
            (Some(old), Some(schema)) => Some(Pair::new(item, old, schema)),
            _ => None,
        };
        Ratchet { current, parent: Some(self.list) }
    }
}
