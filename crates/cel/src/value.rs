//! Values of the language. They borrow from the JSON documents, the declared types and the program they were made
//! from; only what an expression builds itself is allocated, and cloning a value never copies a container.

mod json;
mod list;
mod map;
mod opaque;
mod structure;
mod time;

use std::ops::Deref;
use std::sync::Arc;

use crate::types::Type;

pub use json::LargeIntegers;
pub use list::List;
pub use map::{Key, Map, OwnedMap};
pub use opaque::Opaque;
pub use structure::Structure;
pub use time::{Duration, Timestamp, ZoneError};

/// A CEL value.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Str<'a>),
    Bytes(Bytes<'a>),
    Timestamp(Timestamp),
    Duration(Duration),
    List(List<'a>),
    /// A map or an object: the language does not tell them apart at run time.
    Map(Map<'a>),
    Type(Arc<Type>),
    Optional(Option<Arc<Value<'a>>>),
    /// A value of a library's own type.
    Opaque(Arc<dyn Opaque>),
    /// What `Object.spec{…}` makes; only environments with patch types have it.
    Struct(Arc<Structure<'a>>),
    /// JSON kept by `x-kubernetes-preserve-unknown-fields` without a type: it can only be compared.
    Preserved(&'a serde_json::Value),
}

/// A string, borrowed or shared.
#[derive(Clone, Debug)]
pub enum Str<'a> {
    Borrowed(&'a str),
    Shared(Arc<str>),
}

/// A byte string, borrowed or shared.
#[derive(Clone, Debug)]
pub enum Bytes<'a> {
    Borrowed(&'a [u8]),
    Shared(Arc<[u8]>),
}

impl Deref for Str<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl Deref for Bytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}

impl<'a> From<&'a str> for Str<'a> {
    fn from(text: &'a str) -> Self {
        Self::Borrowed(text)
    }
}

impl From<String> for Str<'_> {
    fn from(text: String) -> Self {
        Self::Shared(Arc::from(text))
    }
}

impl<'a> From<&'a [u8]> for Bytes<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Borrowed(bytes)
    }
}

impl From<Vec<u8>> for Bytes<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Shared(Arc::from(bytes))
    }
}

impl<'a> Value<'a> {
    /// A string value.
    pub fn string(text: impl Into<Str<'a>>) -> Self {
        Self::String(text.into())
    }

    /// A bytes value.
    pub fn bytes(bytes: impl Into<Bytes<'a>>) -> Self {
        Self::Bytes(bytes.into())
    }

    /// A list of these values.
    pub fn list(items: Vec<Value<'a>>) -> Self {
        Self::List(List::owned(items))
    }

    /// `optional.of(value)`
    pub fn some(value: Value<'a>) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    /// `optional.none()`
    pub fn none() -> Self {
        Self::Optional(None)
    }

    /// A value of a library's own type.
    pub fn opaque(value: impl Opaque) -> Self {
        Self::Opaque(Arc::new(value))
    }

    /// The text, if this is a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The number, if this is an int.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            _ => None,
        }
    }

    /// The list, if this is one.
    pub fn as_list(&self) -> Option<&List<'a>> {
        match self {
            Self::List(list) => Some(list),
            _ => None,
        }
    }

    /// The map, if this is one.
    pub fn as_map(&self) -> Option<&Map<'a>> {
        match self {
            Self::Map(map) => Some(map),
            _ => None,
        }
    }

    /// The library value of Rust type `T`, if this is one.
    pub fn as_opaque<T: Opaque>(&self) -> Option<&T> {
        match self {
            Self::Opaque(value) => (&**value as &dyn std::any::Any).downcast_ref(),
            _ => None,
        }
    }

    /// The size that cost accounting uses: code points, bytes, items or entries; 1 for everything else.
    pub fn cost_size(&self) -> u64 {
        match self {
            Self::String(text) => text.chars().count() as u64,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::List(list) => list.len() as u64,
            Self::Map(map) => map.len() as u64,
            Self::Optional(Some(inner)) => inner.cost_size(),
            Self::Opaque(value) => value.size().unwrap_or(1),
            _ => 1,
        }
    }

    /// The name `type(x)` would show, for messages.
    pub fn type_name(&self) -> &str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Type(_) => "type",
            Self::Optional(_) => crate::types::OPTIONAL_TYPE,
            Self::Opaque(value) => value.type_name(),
            Self::Struct(value) => value.name(),
            Self::Preserved(_) => "unknown",
        }
    }
}
