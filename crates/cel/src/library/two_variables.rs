//! What comprehensions with two variables need at run time: putting entries into a map that is being built.

use super::{CallContext, Library, Overload};
use crate::error::EvalError;
use crate::parser::Macros;
use crate::types::Type;
use crate::value::{Key, Map, OwnedMap, Value};

/// `all`, `exists`, `existsOne`, `transformList`, `transformMap` and `transformMapEntry` with two variables, as of
/// Kubernetes 1.32.
pub fn two_variables() -> Library {
    let map = || Type::map(Type::param("K"), Type::param("V"));
    Library::new("cel.lib.ext.comprev2")
        .with_macros(Macros::TWO_VARIABLES)
        .overload(
            "cel.@mapInsert",
            Overload::global("@mapInsert_map_key_value", [map(), Type::param("K"), Type::param("V")], map(), insert),
        )
        .overload("cel.@mapInsert", Overload::global("@mapInsert_map_map", [map(), map()], map(), insert))
}

fn insert<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    let (map, added) = match args {
        [Value::Map(map), key, value] => (map, vec![(key.clone(), value.clone())]),
        [Value::Map(map), Value::Map(added)] => (map, entries(added)?),
        _ => return Err(EvalError::no_such_overload()),
    };
    let mut grown: OwnedMap<'a> = match map {
        Map::Owned(map) => (**map).clone(),
        Map::Json { .. } => {
            let mut copy = OwnedMap::default();
            for (key, value) in entries(map)? {
                put(&mut copy, &key, value)?;
            }
            copy
        }
    };
    for (key, value) in added {
        put(&mut grown, &key, value)?;
    }
    Ok(Value::Map(Map::owned(grown)))
}

fn entries<'a>(map: &Map<'a>) -> Result<Vec<(Value<'a>, Value<'a>)>, EvalError> {
    let mut all = Vec::with_capacity(map.len());
    for key in map.keys() {
        if let Some(value) = map.get(&key)? {
            all.push((key, value));
        }
    }
    Ok(all)
}

fn put<'a>(map: &mut OwnedMap<'a>, key: &Value<'a>, value: Value<'a>) -> Result<(), EvalError> {
    let known = Key::from_value(key).ok_or_else(|| EvalError::new("unsupported key type"))?;
    match map.insert(known, value) {
        None => Ok(()),
        Some(_) => Err(EvalError::new(format!("insert failed: key {} already exists", key_text(key)))),
    }
}

fn key_text(key: &Value<'_>) -> String {
    match key {
        Value::String(text) => text.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        other => other.type_name().to_owned(),
    }
}
