//! Maps and objects: built by expressions, or borrowed JSON objects seen through their declared type.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde_json::{Map as JsonMap, Value as Json};

use super::{Str, Value};
use crate::decl::DeclType;
use crate::error::EvalError;

/// A CEL map or object.
#[derive(Clone, Debug)]
pub enum Map<'a> {
    Owned(Arc<OwnedMap<'a>>),
    /// A JSON object; its members become values when they are looked at.
    Json {
        members: &'a JsonMap<String, Json>,
        decl: &'a DeclType,
    },
}

/// A map built by an expression, in order of insertion.
#[derive(Clone, Debug, Default)]
pub struct OwnedMap<'a> {
    entries: Vec<(Key<'a>, Value<'a>)>,
    /// Positions by key, kept from [`INDEX_FROM`] entries on.
    index: HashMap<Key<'a>, usize>,
}

/// From this many entries on a hash index beats looking at all of them.
const INDEX_FROM: usize = 9;

/// A key. Numbers of different types that are equal are the same key.
#[derive(Clone, Debug)]
pub enum Key<'a> {
    Bool(bool),
    Int(i64),
    Uint(u64),
    String(Str<'a>),
}

impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Uint(a), Self::Uint(b)) => a == b,
            (Self::Int(a), Self::Uint(b)) | (Self::Uint(b), Self::Int(a)) => u64::try_from(*a) == Ok(*b),
            (Self::String(a), Self::String(b)) => **a == **b,
            _ => false,
        }
    }
}

impl Eq for Key<'_> {}

impl Hash for Key<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Bool(flag) => flag.hash(state),
            // Equal numbers of both types hash alike.
            Self::Int(number) => (*number as u64).hash(state),
            Self::Uint(number) => number.hash(state),
            Self::String(text) => text.hash(state),
        }
    }
}

impl<'a> Key<'a> {
    /// The key a value stands for: bool, int, uint, string, and doubles that are whole numbers.
    pub fn from_value(value: &Value<'a>) -> Option<Self> {
        match value {
            Value::Bool(flag) => Some(Self::Bool(*flag)),
            Value::Int(number) => Some(Self::Int(*number)),
            Value::Uint(number) => Some(Self::Uint(*number)),
            Value::String(text) => Some(Self::String(text.clone())),
            Value::Double(number) => {
                if number.fract() != 0.0 {
                    None
                } else if *number >= -(2f64.powi(63)) && *number < 2f64.powi(63) {
                    Some(Self::Int(*number as i64))
                } else if *number >= 0.0 && *number < 2f64.powi(64) {
                    Some(Self::Uint(*number as u64))
                } else {
                    None
                }
            }
            _ => None,
        }
    }

    /// The key as a value.
    pub fn to_value(&self) -> Value<'a> {
        match self {
            Self::Bool(flag) => Value::Bool(*flag),
            Self::Int(number) => Value::Int(*number),
            Self::Uint(number) => Value::Uint(*number),
            Self::String(text) => Value::String(text.clone()),
        }
    }
}

impl<'a> OwnedMap<'a> {
    /// Sets a key; gives back the value it replaced.
    pub fn insert(&mut self, key: Key<'a>, value: Value<'a>) -> Option<Value<'a>> {
        if let Some(at) = self.position(&key) {
            return self.entries.get_mut(at).map(|entry| std::mem::replace(&mut entry.1, value));
        }
        self.entries.push((key, value));
        if self.entries.len() >= INDEX_FROM {
            for (at, (key, _)) in self.entries.iter().enumerate().skip(self.index.len()) {
                self.index.insert(key.clone(), at);
            }
        }
        None
    }

    /// The value of a key.
    pub fn get(&self, key: &Key<'_>) -> Option<&Value<'a>> {
        self.position(key).and_then(|at| self.entries.get(at)).map(|(_, value)| value)
    }

    /// All entries in order of insertion.
    pub fn entries(&self) -> &[(Key<'a>, Value<'a>)] {
        &self.entries
    }

    fn position(&self, key: &Key<'_>) -> Option<usize> {
        if self.entries.len() < INDEX_FROM {
            self.entries.iter().position(|(known, _)| known == key)
        } else {
            // The index is keyed by the map's own lifetime; a shorter-lived key compares the same.
            let index: &HashMap<Key<'_>, usize> = &self.index;
            index.get(key).copied()
        }
    }
}

impl<'a> FromIterator<(Key<'a>, Value<'a>)> for OwnedMap<'a> {
    fn from_iter<T: IntoIterator<Item = (Key<'a>, Value<'a>)>>(entries: T) -> Self {
        let mut map = Self::default();
        for (key, value) in entries {
            map.insert(key, value);
        }
        map
    }
}

impl<'a> Map<'a> {
    /// How many entries it has.
    pub fn len(&self) -> usize {
        match self {
            Self::Owned(map) => map.entries.len(),
            Self::Json { members, .. } => members.len(),
        }
    }

    /// Whether it has no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a key; `Ok(None)` when there is none. JSON that contradicts its declared type is an error.
    pub fn get(&self, key: &Value<'_>) -> Result<Option<Value<'a>>, EvalError> {
        match self {
            Self::Owned(map) => Ok(Key::from_value(key).and_then(|key| map.get(&key).cloned())),
            Self::Json { members, decl } => match key {
                Value::String(name) => decl.member(members, name),
                _ => Err(EvalError::no_such_overload()),
            },
        }
    }

    /// The value of a text key or a field.
    pub fn get_str(&self, name: &str) -> Result<Option<Value<'a>>, EvalError> {
        match self {
            Self::Owned(map) => Ok(map.get(&Key::String(Str::Borrowed(name))).cloned()),
            Self::Json { members, decl } => decl.member(members, name),
        }
    }

    /// The keys, as an expression sees them.
    pub fn keys(&self) -> Vec<Value<'a>> {
        match self {
            Self::Owned(map) => map.entries.iter().map(|(key, _)| key.to_value()).collect(),
            Self::Json { members, decl } => decl.visible_keys(members),
        }
    }

    /// A map of these entries.
    pub fn owned(map: OwnedMap<'a>) -> Self {
        Self::Owned(Arc::new(map))
    }
}
