//! Removing what a schema does not specify, and the nulls that stand for nothing.

use serde_json::{Map, Value};

use super::location::Location;
use super::schema::{Additional, Schema};

/// What the value at the top of a walk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// A whole object: it keeps `apiVersion`, `kind` and `metadata` whatever the schema says.
    Resource,
    /// A part of an object, such as a default.
    Value,
}

/// Whether a walk collects the paths of fields that the schema does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownFields {
    Report,
    Ignore,
}

/// How to prune.
#[derive(Clone, Copy, Debug)]
pub struct PruneOptions {
    pub root: Root,
    pub unknown_fields: UnknownFields,
}

/// Most paths that are reported; the rest of a body of unknown fields adds nothing to the message.
pub(super) const MAX_UNKNOWN_FIELDS: usize = 10_000;

/// Fields every resource has without its schema saying so.
pub(super) fn is_meta_field(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

/// Removes fields that are not specified; returns their paths (`spec.list[0].x`), sorted, if they are asked for.
pub fn prune(value: &mut Value, schema: &Schema, options: PruneOptions) -> Vec<String> {
    let mut pruner = Pruner { report: options.unknown_fields == UnknownFields::Report, unknown: Vec::new() };
    let embedded = schema.embedded_resource || options.root == Root::Resource;
    pruner.node(value, schema, embedded, &Location::ROOT);
    pruner.unknown.sort_unstable();
    pruner.unknown
}

struct Pruner {
    report: bool,
    unknown: Vec<String>,
}

impl Pruner {
    fn node(&mut self, value: &mut Value, schema: &Schema, embedded: bool, at: &Location<'_>) {
        match value {
            Value::Object(map) => {
                for (key, value) in map.iter_mut() {
                    if embedded && is_meta_field(key) {
                        continue;
                    }
                    self.child(key, value, schema, at);
                }
                if !schema.preserve_unknown_fields && matches!(schema.additional_properties, Additional::Absent) {
                    self.drop_unspecified(map, schema, embedded, at);
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    let at = at.index(index);
                    match &schema.items {
                        Some(schema_of_items) if schema.preserve_unknown_fields => {
                            self.preserved_item(item, schema_of_items, &at);
                        }
                        Some(schema) => self.node(item, schema, schema.embedded_resource, &at),
                        None if schema.preserve_unknown_fields => {}
                        None => self.unspecified(item, &at),
                    }
                }
            }
            _ => {}
        }
    }

    fn child(&mut self, key: &str, value: &mut Value, schema: &Schema, at: &Location<'_>) {
        if let Some(property) = schema.property(key) {
            self.node(value, property, property.embedded_resource, &at.field(key));
            return;
        }
        match &schema.additional_properties {
            Additional::Schema(schema) => self.node(value, schema, schema.embedded_resource, &at.key(key)),
            // Whatever the key, nothing below it is specified.
            Additional::Allowed(_) => self.unspecified(value, &at.key(key)),
            Additional::Absent => {}
        }
    }

    /// Items of a list that is preserved are themselves preserved.
    fn preserved_item(&mut self, value: &mut Value, schema: &Schema, at: &Location<'_>) {
        match value {
            Value::Object(map) => {
                for (key, value) in map.iter_mut() {
                    if !(schema.embedded_resource && is_meta_field(key)) {
                        self.child(key, value, schema, at);
                    }
                }
            }
            Value::Array(items) => {
                let Some(schema) = &schema.items else { return };
                for (index, item) in items.iter_mut().enumerate() {
                    self.preserved_item(item, schema, &at.index(index));
                }
            }
            _ => {}
        }
    }

    fn drop_unspecified(&mut self, map: &mut Map<String, Value>, schema: &Schema, embedded: bool, at: &Location<'_>) {
        let specified = |key: &str| schema.property(key).is_some() || (embedded && is_meta_field(key));
        if map.keys().all(|key| specified(key)) {
            return;
        }
        map.retain(|key, _| {
            let keep = specified(key);
            let is_implied = at.is_root() && is_meta_field(key);
            if !keep && !is_implied {
                self.report(&at.field(key));
            }
            keep
        });
    }

    /// A value without a schema: objects lose all fields, lists are looked through for objects.
    fn unspecified(&mut self, value: &mut Value, at: &Location<'_>) {
        match value {
            Value::Object(map) => {
                for key in map.keys() {
                    self.report(&at.field(key));
                }
                map.clear();
            }
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.unspecified(item, &at.index(index));
                }
            }
            _ => {}
        }
    }

    fn report(&mut self, at: &Location<'_>) {
        if self.report && self.unknown.len() < MAX_UNKNOWN_FIELDS {
            self.unknown.push(at.dotted());
        }
    }
}

/// Removes nulls where the schema neither allows null nor has a default to put in its place. Elements of lists stay.
pub fn drop_nulls(value: &mut Value, schema: &Schema) {
    match value {
        Value::Object(map) => {
            let mut any = false;
            for (key, value) in map.iter_mut() {
                let Some(schema) = schema.property(key).or_else(|| schema.additional()) else { continue };
                if value.is_null() {
                    any |= !schema.nullable && schema.default.is_none();
                } else {
                    drop_nulls(value, schema);
                }
            }
            if any {
                map.retain(|key, value| {
                    let schema = schema.property(key).or_else(|| schema.additional());
                    !(value.is_null() && schema.is_some_and(|schema| !schema.nullable && schema.default.is_none()))
                });
            }
        }
        Value::Array(items) => {
            let Some(schema) = &schema.items else { return };
            for item in items {
                drop_nulls(item, schema);
            }
        }
        _ => {}
    }
}
