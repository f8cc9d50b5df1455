//! Equality, and `in`. Values of different types are unequal, never an error; sets and keyed lists of Kubernetes
//! compare regardless of order.

use std::collections::{HashMap, HashSet};

use serde_json::{Map as JsonMap, Value as Json};

use super::comparison::numbers;
use crate::decl::{DeclKind, DeclType, ListSemantics};
use crate::error::EvalError;
use crate::value::{List, Map, Value};

/// `a == b`
pub fn equals(a: &Value<'_>, b: &Value<'_>) -> Result<bool, EvalError> {
    if let Some(ordering) = numbers(a, b) {
        return Ok(ordering.is_some_and(std::cmp::Ordering::is_eq));
    }
    Ok(match (a, b) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::String(a), Value::String(b)) => **a == **b,
        (Value::Bytes(a), Value::Bytes(b)) => **a == **b,
        (Value::Timestamp(a), Value::Timestamp(b)) => a == b,
        (Value::Duration(a), Value::Duration(b)) => a == b,
        (Value::Type(a), Value::Type(b)) => a.type_name() == b.type_name(),
        (Value::List(a), Value::List(b)) => return lists(a, b),
        (Value::Map(a), Value::Map(b)) => return maps(a, b),
        (Value::Optional(None), Value::Optional(None)) => true,
        (Value::Optional(Some(a)), Value::Optional(Some(b))) => return equals(a, b),
        (Value::Opaque(a), Value::Opaque(b)) => a.type_name() == b.type_name() && a.equals(&**b),
        (Value::Struct(a), Value::Struct(b)) => return a.equals(b),
        (Value::Preserved(a), Value::Preserved(b)) => a == b,
        _ => false,
    })
}

/// `item in collection`
pub fn contains(item: &Value<'_>, collection: &Value<'_>) -> Result<bool, EvalError> {
    match collection {
        Value::List(list) => {
            for element in list.iter() {
                if equals(&element?, item)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Value::Map(map) => Ok(map.get(item)?.is_some()),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn lists(a: &List<'_>, b: &List<'_>) -> Result<bool, EvalError> {
    if a.len() != b.len() {
        return Ok(false);
    }
    match a.decl().map(|decl| &decl.kind) {
        Some(DeclKind::List { semantics: ListSemantics::Set, .. }) => sets(a, b),
        Some(DeclKind::List { semantics: ListSemantics::Map(keys), .. }) => keyed_lists(a, b, keys),
        _ => {
            for (one, other) in a.iter().zip(b.iter()) {
                if !equals(&one?, &other?)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
    }
}

fn sets(a: &List<'_>, b: &List<'_>) -> Result<bool, EvalError> {
    let members = a.iter().map(|item| Ok(scalar_key(&item?))).collect::<Result<HashSet<_>, EvalError>>()?;
    for item in b.iter() {
        if !members.contains(&scalar_key(&item?)) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn keyed_lists(a: &List<'_>, b: &List<'_>, keys: &[Box<str>]) -> Result<bool, EvalError> {
    let mut by_key = HashMap::with_capacity(a.len());
    for item in a.iter() {
        let item = item?;
        by_key.insert(map_key(&item, keys), item);
    }
    for item in b.iter() {
        let item = item?;
        match by_key.get(&map_key(&item, keys)) {
            Some(known) if equals(known, &item)? => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// The identity of a member of a set.
pub(super) fn scalar_key(value: &Value<'_>) -> String {
    match value {
        Value::String(text) => format!("s{}", &**text),
        Value::Bool(flag) => format!("b{flag}"),
        Value::Int(number) => format!("n{number}"),
        Value::Uint(number) => format!("n{number}"),
        Value::Double(number) => format!("n{number}"),
        other => format!("{}{}", other.type_name(), super::to_text(other)),
    }
}

/// The identity of an item of a keyed list.
pub(super) fn map_key(item: &Value<'_>, keys: &[Box<str>]) -> String {
    let Value::Map(Map::Json { members, .. }) = item else { return scalar_key(item) };
    let mut identity = String::new();
    for key in keys {
        match members.get(&**key) {
            Some(json) => identity.push_str(&json.to_string()),
            None => identity.push_str("<absent>"),
        }
        identity.push('\u{0}');
    }
    identity
}

fn maps(a: &Map<'_>, b: &Map<'_>) -> Result<bool, EvalError> {
    if a.len() != b.len() {
        return Ok(false);
    }
    match a {
        Map::Owned(map) => {
            for (key, value) in map.entries() {
                match b.get(&key.to_value())? {
                    Some(other) if equals(value, &other)? => {}
                    _ => return Ok(false),
                }
            }
            Ok(true)
        }
        Map::Json { members, decl } => json_maps(members, decl, b),
    }
}

fn json_maps(members: &JsonMap<String, Json>, decl: &DeclType, other: &Map<'_>) -> Result<bool, EvalError> {
    let is_object = matches!(decl.kind, DeclKind::Object { .. });
    for (name, json) in members {
        if is_object && decl.field(name).is_none() {
            // Fields nobody declared are compared as they are.
            if let Map::Json { members: others, .. } = other
                && others.get(name).is_some_and(|counterpart| counterpart != json)
            {
                return Ok(false);
            }
            continue;
        }
        let mine = if is_object { decl.object_member(members, name)? } else { Some(decl.element().view(json)?) };
        let theirs = match other {
            Map::Json { members: others, decl } if matches!(decl.kind, DeclKind::Object { .. }) => {
                decl.object_member(others, name)?
            }
            _ => other.get_str(name)?,
        };
        match (mine, theirs) {
            (Some(mine), Some(theirs)) if equals(&mine, &theirs)? => {}
            (None, None) => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}
