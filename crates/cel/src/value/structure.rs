//! Values that expressions construct by type name: objects of mutating admission policies and their JSON patches.

use std::sync::Arc;

use super::Value;
use crate::error::EvalError;
use crate::operations;

/// A value made by `Name{field: value}`.
#[derive(Clone, Debug)]
pub struct Structure<'a> {
    name: Arc<str>,
    /// In the order they were written.
    fields: Vec<(&'a str, Value<'a>)>,
}

impl<'a> Structure<'a> {
    /// One operation of a JSON patch.
    pub const JSON_PATCH: &'static str = "JSONPatch";
    /// The object being admitted; its fields are `Object.<name>` and so on.
    pub const OBJECT: &'static str = "Object";

    /// Whether this is the name of the object or of a field in it.
    pub fn is_object_name(name: &str) -> bool {
        name.strip_prefix(Self::OBJECT).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    /// A value of the type `name`. The members of a patch that must be text are checked, as they may have been dynamic.
    pub(crate) fn new(name: &Arc<str>, fields: Vec<(&'a str, Value<'a>)>) -> Result<Self, EvalError> {
        if &**name == Self::JSON_PATCH {
            for (field, value) in &fields {
                if matches!(*field, "op" | "path" | "from") && !matches!(value, Value::String(_)) {
                    let found = go_type(value);
                    return Err(EvalError::new(format!("unexpected type {found} for JSONPatchType '{field}' field")));
                }
            }
        }
        Ok(Self { name: name.clone(), fields })
    }

    /// The name of its type.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The fields in the order they were written.
    pub fn fields(&self) -> impl Iterator<Item = (&'a str, &Value<'a>)> {
        self.fields.iter().map(|(name, value)| (*name, value))
    }

    /// The value of a field.
    pub fn field(&self, name: &str) -> Option<&Value<'a>> {
        self.fields.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// What selecting a field gives: constructed objects cannot be read, patches can.
    pub(crate) fn member(&self, name: &str) -> Option<Value<'a>> {
        (*self.name == *Self::JSON_PATCH).then(|| self.field(name).cloned()).flatten()
    }

    pub(crate) fn equals(&self, other: &Structure<'_>) -> Result<bool, EvalError> {
        if self.name != other.name || self.fields.len() != other.fields.len() {
            return Ok(false);
        }
        for (name, value) in &self.fields {
            match other.field(name) {
                Some(theirs) if operations::equals(value, theirs)? => {}
                _ => return Ok(false),
            }
        }
        Ok(true)
    }
}

/// Go's name for the representation of a value, which messages show.
fn go_type(value: &Value<'_>) -> &'static str {
    match value {
        Value::Null => "structpb.NullValue",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Uint(_) => "uint64",
        Value::Double(_) => "float64",
        Value::String(_) => "string",
        Value::Bytes(_) => "[]uint8",
        Value::List(_) => "[]ref.Val",
        Value::Map(_) => "map[ref.Val]ref.Val",
        Value::Timestamp(_) => "time.Time",
        Value::Duration(_) => "time.Duration",
        _ => "interface {}",
    }
}
