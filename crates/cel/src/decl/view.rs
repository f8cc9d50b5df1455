//! Looking at borrowed JSON through a declared type. Scalars become values at once, containers become views; the
//! messages for data that contradicts its type are Kubernetes'.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use serde_json::{Map as JsonMap, Value as Json};

use super::{DeclKind, DeclType, escape, unescape};
use crate::error::EvalError;
use crate::value::{Duration, List, Map, Timestamp, Value};

/// The type of JSON nothing is known about.
pub(crate) static DYN: DeclType =
    DeclType { kind: DeclKind::Dyn, nullable: true, max_elements: 0, min_serialized_size: 1 };

impl DeclType {
    /// The value that `json` is to an expression.
    pub fn view<'a>(&'a self, json: &'a Json) -> Result<Value<'a>, EvalError> {
        if json.is_null() {
            return match self.kind {
                DeclKind::Dyn | DeclKind::Claims => Ok(Value::Null),
                _ if self.nullable => Ok(Value::Null),
                _ => Err(EvalError::new("invalid data, got null for schema with nullable=false")),
            };
        }
        match (&self.kind, json) {
            (DeclKind::Dyn, _) => Ok(dynamic(json)),
            (DeclKind::Claims, Json::Number(number)) => Ok(Value::Double(number.as_f64().unwrap_or(f64::NAN))),
            (DeclKind::Claims, Json::Array(items)) => Ok(Value::List(List::Json { items, decl: self })),
            (DeclKind::Claims, Json::Object(members)) => Ok(Value::Map(Map::Json { members, decl: self })),
            (DeclKind::Claims, scalar) => Ok(dynamic(scalar)),
            (DeclKind::IntOrString, Json::String(text)) => Ok(Value::string(text.as_str())),
            (DeclKind::IntOrString, Json::Number(number)) if number.is_i64() => Ok(number_value(number)),
            (DeclKind::IntOrString, _) => {
                Err(EvalError::new("invalid data, expected XIntOrString value to be either a string or integer"))
            }
            (DeclKind::Bool, Json::Bool(flag)) => Ok(Value::Bool(*flag)),
            (DeclKind::Int, Json::Number(number)) => {
                number.as_i64().map(Value::Int).ok_or_else(|| mismatch("int", json))
            }
            (DeclKind::Double, Json::Number(number)) => {
                number.as_f64().map(Value::Double).ok_or_else(|| mismatch("float", json))
            }
            (DeclKind::String, Json::String(text)) => Ok(Value::string(text.as_str())),
            (DeclKind::Bytes, Json::String(text)) => match URL_SAFE.decode(text) {
                Ok(bytes) => Ok(Value::bytes(bytes)),
                Err(error) => Err(EvalError::new(format!("Invalid byte formatted string {text}: {error}"))),
            },
            (DeclKind::Duration, Json::String(text)) => Duration::parse_open_api(text)
                .map(Value::Duration)
                .ok_or_else(|| EvalError::new(format!("Invalid duration {text}: unable to parse {text} as duration"))),
            (DeclKind::Date, Json::String(text)) => Timestamp::parse_date(text)
                .map(Value::Timestamp)
                .ok_or_else(|| EvalError::new(format!("Invalid date formatted string {text}"))),
            (DeclKind::DateTime, Json::String(text)) => Timestamp::parse_open_api(text)
                .map(Value::Timestamp)
                .ok_or_else(|| EvalError::new(format!("Invalid date-time formatted string {text}"))),
            (DeclKind::List { .. }, Json::Array(items)) => Ok(Value::List(List::Json { items, decl: self })),
            (DeclKind::Map { .. } | DeclKind::Object { .. }, Json::Object(members)) => {
                Ok(Value::Map(Map::Json { members, decl: self }))
            }
            (DeclKind::Preserved, _) => Ok(Value::Preserved(json)),
            (DeclKind::List { .. }, _) => {
                Err(EvalError::new("invalid data, expected an array for the provided schema with type=array"))
            }
            (DeclKind::Map { .. } | DeclKind::Object { .. }, _) => {
                Err(EvalError::new("invalid data, expected a map for the provided schema with type=object"))
            }
            (DeclKind::Bool, _) => Err(mismatch("bool", json)),
            (DeclKind::Int, _) => Err(mismatch("int", json)),
            (DeclKind::Double, _) => Err(mismatch("float", json)),
            (_, _) => Err(mismatch("string", json)),
        }
    }

    /// The type of the items of a list, or of the members of a map.
    pub(crate) fn element(&self) -> &DeclType {
        match &self.kind {
            DeclKind::List { element, .. } => element,
            DeclKind::Map { value } => value,
            DeclKind::Claims => self,
            _ => &DYN,
        }
    }

    /// The member an expression calls `key`. Null members of objects are absent, and so is what has no type.
    pub(crate) fn member<'a>(
        &'a self,
        members: &'a JsonMap<String, Json>,
        key: &str,
    ) -> Result<Option<Value<'a>>, EvalError> {
        if matches!(self.kind, DeclKind::Claims)
            && let Some(std::borrow::Cow::Owned(name)) = unescape(key)
        {
            return members.get(&name).map(|json| self.view(json)).transpose();
        }
        if !matches!(self.kind, DeclKind::Object { .. }) {
            return members.get(key).map(|json| self.element().view(json)).transpose();
        }
        let Some(name) = unescape(key) else { return Ok(None) };
        self.object_member(members, &name)
    }

    /// The member of an object by its name in JSON.
    pub(crate) fn object_member<'a>(
        &'a self,
        members: &'a JsonMap<String, Json>,
        name: &str,
    ) -> Result<Option<Value<'a>>, EvalError> {
        match (members.get(name), self.field(name)) {
            (Some(json), Some(field)) if !json.is_null() => field.decl.view(json).map(Some),
            _ => Ok(None),
        }
    }

    /// The keys an expression sees when it iterates.
    pub(crate) fn visible_keys<'a>(&'a self, members: &'a JsonMap<String, Json>) -> Vec<Value<'a>> {
        let is_object = matches!(self.kind, DeclKind::Object { .. });
        let mut keys = Vec::with_capacity(members.len());
        for name in members.keys() {
            if !is_object {
                keys.push(Value::string(name.as_str()));
            } else if self.field(name).is_some() {
                keys.push(match escape(name) {
                    Some(std::borrow::Cow::Owned(escaped)) => Value::string(escaped),
                    _ => Value::string(name.as_str()),
                });
            }
        }
        keys
    }
}

/// JSON as it is.
pub fn dynamic(json: &Json) -> Value<'_> {
    match json {
        Json::Null => Value::Null,
        Json::Bool(flag) => Value::Bool(*flag),
        Json::Number(number) => number_value(number),
        Json::String(text) => Value::string(text.as_str()),
        Json::Array(items) => Value::List(List::Json { items, decl: &DYN }),
        Json::Object(members) => Value::Map(Map::Json { members, decl: &DYN }),
    }
}

fn number_value(number: &serde_json::Number) -> Value<'_> {
    match number.as_i64() {
        Some(whole) => Value::Int(whole),
        None => Value::Double(number.as_f64().unwrap_or(f64::NAN)),
    }
}

/// The message for JSON of another type, with Go's name for what was found.
fn mismatch(expected: &str, json: &Json) -> EvalError {
    let found = match json {
        Json::Null => "<nil>",
        Json::Bool(_) => "bool",
        Json::Number(number) if number.is_i64() => "int64",
        Json::Number(_) => "float64",
        Json::String(_) => "string",
        Json::Array(_) => "[]interface {}",
        Json::Object(_) => "map[string]interface {}",
    };
    EvalError::new(format!("invalid data, expected {expected}, got {found}"))
}
