//! One allocation for equal schemas, whatever definition they come from: a thousand definitions made by the same
//! generator mostly repeat each other.
//!
//! The table holds weak references only. Entries of schemas that are gone are swept when the table has doubled.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use serde_json::Value;

use super::schema::{Additional, Junctors, ListType, Schema, ValueValidation};

/// The table is not swept below this size.
const SWEEP_FROM: usize = 4096;

#[derive(Default)]
struct Table {
    by_hash: HashMap<u64, Vec<Weak<Schema>>>,
    entries: usize,
    live_at_last_sweep: usize,
}

fn table() -> &'static Mutex<Table> {
    static TABLE: OnceLock<Mutex<Table>> = OnceLock::new();
    TABLE.get_or_init(Mutex::default)
}

/// The one allocation that equals `schema`, whose children must have come from here too.
pub(super) fn intern(schema: Schema) -> Arc<Schema> {
    let mut hasher = DefaultHasher::new();
    hash_schema(&schema, &mut hasher);
    let hash = hasher.finish();
    // Declared before the lock so that whatever is dropped with it is dropped after the lock is released.
    let mut looked_at = Vec::new();
    let mut guard = table().lock().unwrap_or_else(PoisonError::into_inner);
    let table = &mut *guard;
    let bucket = table.by_hash.entry(hash).or_default();
    for known in bucket.iter().filter_map(Weak::upgrade) {
        if same(&known, &schema) {
            return known;
        }
        looked_at.push(known);
    }
    let new = Arc::new(schema);
    bucket.push(Arc::downgrade(&new));
    table.entries += 1;
    if table.entries > SWEEP_FROM.max(table.live_at_last_sweep * 2) {
        table.sweep();
    }
    new
}

/// Forgets schemas that nobody holds any more. Compiling does this by itself now and then.
pub fn release_unused() {
    table().lock().unwrap_or_else(PoisonError::into_inner).sweep();
}

/// How many different schemas the table knows, dead entries included.
pub fn interned_count() -> usize {
    table().lock().unwrap_or_else(PoisonError::into_inner).entries
}

impl Table {
    fn sweep(&mut self) {
        self.by_hash.retain(|_, bucket| {
            bucket.retain(|entry| entry.strong_count() > 0);
            !bucket.is_empty()
        });
        self.entries = self.by_hash.values().map(Vec::len).sum();
        self.live_at_last_sweep = self.entries;
        self.by_hash.shrink_to_fit();
    }
}

/// Equality that looks at children by address: they have been interned before.
fn same(a: &Schema, b: &Schema) -> bool {
    let names = |s: &Schema| s.properties.len();
    names(a) == names(b)
        && a.properties.iter().zip(&b.properties).all(|(a, b)| a.0 == b.0 && Arc::ptr_eq(&a.1, &b.1))
        && same_child(a.items.as_ref(), b.items.as_ref())
        && match (&a.additional_properties, &b.additional_properties) {
            (Additional::Schema(a), Additional::Schema(b)) => Arc::ptr_eq(a, b),
            (a, b) => mem::discriminant(a) == mem::discriminant(b) && a == b,
        }
        && a.kind == b.kind
        && a.nullable == b.nullable
        && a.int_or_string == b.int_or_string
        && a.preserve_unknown_fields == b.preserve_unknown_fields
        && a.embedded_resource == b.embedded_resource
        && a.default == b.default
        && a.list_type == b.list_type
        && a.map_type == b.map_type
        && a.rules == b.rules
        && match (&a.validation, &b.validation) {
            (Some(a), Some(b)) => same_validation(a, b),
            (None, None) => true,
            _ => false,
        }
}

fn same_child(a: Option<&Arc<Schema>>, b: Option<&Arc<Schema>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        (None, None) => true,
        _ => false,
    }
}

fn same_validation(a: &ValueValidation, b: &ValueValidation) -> bool {
    let same_junctors = match (&a.junctors, &b.junctors) {
        (Some(a), Some(b)) => same_junctors(a, b),
        (None, None) => true,
        _ => false,
    };
    same_junctors
        && a.format == b.format
        && a.checked_format == b.checked_format
        && a.maximum == b.maximum
        && a.exclusive_maximum == b.exclusive_maximum
        && a.minimum == b.minimum
        && a.exclusive_minimum == b.exclusive_minimum
        && a.max_length == b.max_length
        && a.min_length == b.min_length
        && a.pattern == b.pattern
        && a.max_items == b.max_items
        && a.min_items == b.min_items
        && a.unique_items == b.unique_items
        && a.multiple_of == b.multiple_of
        && a.enumeration == b.enumeration
        && a.max_properties == b.max_properties
        && a.min_properties == b.min_properties
        && a.required == b.required
}

fn same_junctors(a: &Junctors, b: &Junctors) -> bool {
    let same_list =
        |a: &[Arc<Schema>], b: &[Arc<Schema>]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Arc::ptr_eq(a, b));
    same_list(&a.all_of, &b.all_of)
        && same_list(&a.any_of, &b.any_of)
        && same_list(&a.one_of, &b.one_of)
        && same_child(a.not.as_ref(), b.not.as_ref())
}

fn hash_schema(schema: &Schema, hasher: &mut impl Hasher) {
    schema.kind.hash(hasher);
    (schema.nullable, schema.int_or_string, schema.preserve_unknown_fields, schema.embedded_resource).hash(hasher);
    hash_value(schema.default.as_ref(), hasher);
    for (name, property) in &schema.properties {
        name.hash(hasher);
        Arc::as_ptr(property).hash(hasher);
    }
    match &schema.additional_properties {
        Additional::Absent => {}
        Additional::Allowed(allowed) => allowed.hash(hasher),
        Additional::Schema(schema) => Arc::as_ptr(schema).hash(hasher),
    }
    schema.items.as_ref().map(Arc::as_ptr).hash(hasher);
    if let Some(ListType::Map(keys)) = &schema.list_type {
        keys.hash(hasher);
    }
    for rule in &schema.rules {
        rule.rule.hash(hasher);
    }
    let Some(validation) = &schema.validation else { return };
    // Enough to tell most schemas apart; equality looks at the rest.
    (&validation.format, &validation.pattern, &validation.required).hash(hasher);
    (validation.max_length, validation.min_length, validation.max_items, validation.min_items).hash(hasher);
    (&validation.maximum, &validation.minimum, &validation.multiple_of).hash(hasher);
    for value in &validation.enumeration {
        hash_value(Some(value), hasher);
    }
    if let Some(junctors) = &validation.junctors {
        let all = junctors.all_of.iter().chain(&junctors.any_of).chain(&junctors.one_of).chain(&junctors.not);
        for schema in all {
            Arc::as_ptr(schema).hash(hasher);
        }
    }
}

fn hash_value(value: Option<&Value>, hasher: &mut impl Hasher) {
    match value {
        None => {}
        Some(Value::String(text)) => text.hash(hasher),
        Some(value) => value.to_string().hash(hasher),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::compile;
    use super::*;

    #[test]
    fn equal_parts_of_different_definitions_are_one_allocation() {
        let schema = |other: &str| {
            let text = json!({"type": "string", "pattern": "^interner-test$", "maxLength": 7});
            let schema = json!({"type": "object", "properties": {"a": text, "b": text, other: {"type": "integer"}}});
            compile(&schema).expect("valid")
        };
        let (one, two) = (schema("x"), schema("y"));
        let a = one.property("a").expect("declared");
        assert!(Arc::ptr_eq(a, one.property("b").expect("declared")));
        assert!(Arc::ptr_eq(a, two.property("a").expect("declared")));
        assert!(!Arc::ptr_eq(&one, &two));
        let weak = Arc::downgrade(a);
        drop((one, two));
        assert!(weak.upgrade().is_none(), "the table must not keep schemas alive");
    }
}
