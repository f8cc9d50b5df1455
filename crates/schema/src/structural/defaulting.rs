//! Filling in defaults.

use serde_json::Value;

use super::schema::Schema;

/// Fills in the defaults of fields that are absent, or null where null is not allowed, also inside what was filled in.
/// A subtree whose schema has no defaults is not looked at.
pub fn default(value: &mut Value, schema: &Schema) {
    if !schema.below.defaults {
        return;
    }
    match value {
        Value::Object(map) => {
            for (name, property) in &schema.properties {
                let Some(default) = &property.default else { continue };
                match map.get_mut(&**name) {
                    None => {
                        map.insert(name.to_string(), default.clone());
                    }
                    Some(value) if value.is_null() && !property.nullable => value.clone_from(default),
                    Some(_) => {}
                }
            }
            for (key, value) in map.iter_mut() {
                match schema.property(key) {
                    Some(property) => self::default(value, property),
                    None => default_child(value, schema.additional().map(|schema| &**schema)),
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                default_child(item, schema.items.as_deref());
            }
        }
        _ => {}
    }
}

/// An element or additional property, which is there already.
fn default_child(value: &mut Value, schema: Option<&Schema>) {
    let Some(schema) = schema else { return };
    if value.is_null()
        && !schema.nullable
        && let Some(default) = &schema.default
    {
        value.clone_from(default);
    }
    default(value, schema);
}
