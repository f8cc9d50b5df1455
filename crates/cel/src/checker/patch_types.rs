//! The types that mutating admission policies construct: `Object` and its fields by path, without a schema, and
//! `JSONPatch`.

use crate::env::Messages;
use crate::types::Type;
use crate::value::Structure;

/// Whether a type of this name can be constructed.
pub(super) fn is_constructible(messages: Messages, name: &str) -> bool {
    messages == Messages::Patches && (name == Structure::JSON_PATCH || Structure::is_object_name(name))
}

/// The type of a field of a constructible type.
pub(super) fn field(messages: Messages, name: &str, field: &str) -> Option<Type> {
    if !is_constructible(messages, name) {
        return None;
    }
    if name != Structure::JSON_PATCH {
        // Nothing is known of the object: any field may be there and hold anything.
        return Some(Type::Dyn);
    }
    match field {
        "op" | "path" | "from" => Some(Type::String),
        "value" => Some(Type::Dyn),
        _ => None,
    }
}
