//! Merging lists: of scalars as sets, of objects by their merge key, keeping the orders both sides know.
//!
//! Lookups go through hash maps, so that a large list patched by a large list costs no more than its size.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::maps::{self, DIRECTIVE, without_directives};
use super::schema::{Rules, unforeseen};
use crate::error::PatchError;
use crate::go_format::{go_format, go_type};

/// Merges `patch` into `original`, a list whose strategy is merge.
pub fn merge(original: Vec<Value>, patch: Vec<Value>, rules: &Rules) -> Result<Vec<Value>, PatchError> {
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    match element_kind(&original, &patch)? {
        ElementKind::Scalars => {
            let mut seen = HashSet::new();
            let all = original.iter().chain(&patch).filter(|item| seen.insert(identity(item))).cloned().collect();
            reorder(all, &patch, &original, None)
        }
        ElementKind::Objects => {
            let key = rules.merge_key.ok_or_else(|| {
                unforeseen(format!("cannot merge lists without merge key for {}", rules.place.kind()))
            })?;
            let (original, patch) = apply_directives(original, patch, key)?;
            let merged = merge_objects(original.clone(), &patch, key, rules)?;
            reorder(merged, &patch, &original, Some(key))
        }
    }
}

/// Takes the elements of `unwanted` out of a list of scalars.
pub fn delete(original: Vec<Value>, unwanted: Vec<Value>, rules: &Rules) -> Result<Vec<Value>, PatchError> {
    if original.is_empty() && unwanted.is_empty() {
        return Ok(original);
    }
    if let ElementKind::Objects = element_kind(&original, &unwanted)? {
        return merge(original, unwanted, rules);
    }
    let unwanted: HashSet<String> = unwanted.iter().map(identity).collect();
    Ok(original.into_iter().filter(|item| !unwanted.contains(&identity(item))).collect())
}

/// What `$setElementOrder` asks for; `None` when neither side has the list.
pub fn merge_in_order(
    original: Option<Vec<Value>>,
    patch: Option<Vec<Value>>,
    order: &[Value],
    rules: &Rules,
) -> Result<Option<Vec<Value>>, PatchError> {
    check_order(patch.as_deref().unwrap_or_default(), order, rules.merge_key)?;
    let live = original.clone().unwrap_or_default();
    let kind = if original.is_some() || patch.is_some() {
        Some(element_kind(&live, patch.as_deref().unwrap_or_default()))
    } else {
        None
    };
    let merged = match (original, patch) {
        (None, None) => return Ok(None),
        (Some(original), None) => original,
        (None, Some(patch)) => patch.into_iter().filter_map(without_directives).collect(),
        (Some(original), Some(patch)) => match rules.strategy {
            super::schema::Strategy::Merge => merge(original, patch, rules)?,
            _ => patch,
        },
    };
    if let Some(Err(error)) = kind {
        return Err(error);
    }
    reorder(merged, order, &live, rules.merge_key).map(Some)
}

pub fn bad_type(expected: &str, actual: &Value) -> PatchError {
    unforeseen(format!("expected a {expected}, but received a {}", go_type(actual)))
}

enum ElementKind {
    Scalars,
    Objects,
}

/// All elements must be of one type, and that must not be a list.
fn element_kind(original: &[Value], patch: &[Value]) -> Result<ElementKind, PatchError> {
    let mut items = original.iter().chain(patch);
    let first = items.next().ok_or_else(|| unforeseen("no elements in any of the given slices"))?;
    if first.is_array() {
        return Err(PatchError::Rejected("lists of lists are not supported".to_owned()));
    }
    if items.any(|item| go_type(item) != go_type(first)) {
        let both = Value::Array(vec![Value::Array(original.to_vec()), Value::Array(patch.to_vec())]);
        return Err(unforeseen(format!("list element types are not identical: {}", go_format(&both))));
    }
    Ok(if first.is_object() { ElementKind::Objects } else { ElementKind::Scalars })
}

/// Elements with `$patch` act on the list as a whole. Gives what is left of both lists.
fn apply_directives(
    original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), PatchError> {
    let mut ordinary = Vec::with_capacity(patch.len());
    let mut deleted = HashSet::new();
    let mut replace = false;
    for item in patch {
        let Some(directive) = item.get(DIRECTIVE) else {
            ordinary.push(item);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                deleted.insert(identity(merge_value(&item, key)?));
            }
            Some("replace") => replace = true,
            Some("merge") => return Err(unforeseen("merging lists cannot yet be specified in the patch")),
            _ => {
                let directive = directive.clone();
                let fields = item.as_object().cloned().unwrap_or_default();
                return Err(maps::unknown_directive(&directive, fields));
            }
        }
    }
    if replace {
        return Ok((ordinary, Vec::new()));
    }
    let kept = |item: &Value| !item.get(key).is_some_and(|value| deleted.contains(&identity(value)));
    let original = if deleted.is_empty() { original } else { original.into_iter().filter(kept).collect() };
    Ok((original, ordinary))
}

fn merge_objects(
    mut original: Vec<Value>,
    patch: &[Value],
    key: &str,
    rules: &Rules,
) -> Result<Vec<Value>, PatchError> {
    let mut places: HashMap<String, usize> = HashMap::new();
    for (i, item) in original.iter().enumerate() {
        if let Some(value) = item.get(key) {
            places.entry(identity(value)).or_insert(i);
        }
    }
    for item in patch {
        let value = identity(merge_value(item, key)?);
        match places.get(&value).and_then(|i| original.get_mut(*i)) {
            Some(place) => {
                let (Value::Object(current), Value::Object(patch)) = (place.take(), item.clone()) else { continue };
                *place = Value::Object(maps::merge(current, patch, rules.place)?);
            }
            None => {
                places.insert(value, original.len());
                original.push(item.clone());
            }
        }
    }
    Ok(original)
}

/// Orders a merged list: elements that `wanted` names in its order, the others in the order of the live list, and both
/// interleaved as the live list has them.
fn reorder(merged: Vec<Value>, wanted: &[Value], live: &[Value], key: Option<&str>) -> Result<Vec<Value>, PatchError> {
    let wanted = positions(wanted, key)?;
    let live = positions(live, key)?;
    let mut named: Vec<(usize, Option<usize>, Value)> = Vec::new();
    let mut others: Vec<(usize, Option<usize>, Value)> = Vec::new();
    for item in merged {
        let id = match key {
            Some(key) => identity(merge_value(&item, key)?),
            None => identity(&item),
        };
        let live_at = live.get(&id).copied();
        match wanted.get(&id) {
            Some(at) => named.push((*at, live_at, item)),
            None => others.push((live_at.unwrap_or(usize::MAX), live_at, item)),
        }
    }
    named.sort_by_key(|(at, ..)| *at);
    others.sort_by_key(|(at, ..)| *at);

    let mut ordered = Vec::with_capacity(named.len() + others.len());
    let mut named = named.into_iter().peekable();
    for (_, live_at, item) in others {
        while let Some((_, next_live_at, _)) = named.peek() {
            if live_at.zip(*next_live_at).is_some_and(|(this, next)| this < next) {
                break;
            }
            ordered.extend(named.next().map(|(.., item)| item));
        }
        ordered.push(item);
    }
    ordered.extend(named.map(|(.., item)| item));
    Ok(ordered)
}

/// Where each element stands first, by merge key or by value.
fn positions(list: &[Value], key: Option<&str>) -> Result<HashMap<String, usize>, PatchError> {
    let mut positions = HashMap::with_capacity(list.len());
    for (i, item) in list.iter().enumerate() {
        let id = match key {
            Some(key) => {
                if !item.is_object() {
                    return Err(unforeseen(format!("value for key {i} is not a map")));
                }
                identity(merge_value(item, key)?)
            }
            None => identity(item),
        };
        positions.entry(id).or_insert(i);
    }
    Ok(positions)
}

/// Every element of the patch that is no directive must occur in the order, and in that order.
fn check_order(patch: &[Value], order: &[Value], key: Option<&str>) -> Result<(), PatchError> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut names = order.iter();
    for item in patch.iter().filter(|item| key.is_none() || item.get(DIRECTIVE).is_none()) {
        let mut found = false;
        for name in names.by_ref() {
            found = match key {
                None => item == name,
                Some(key) => {
                    for side in [item, name] {
                        if !side.is_object() {
                            return Err(bad_type("map[string]interface {}", side));
                        }
                    }
                    merge_value(item, key)? == merge_value(name, key)?
                }
            };
            if found {
                break;
            }
        }
        if !found {
            return Err(unforeseen(format!(
                "The order in patch list:\n{}\n doesn't match $setElementOrder list:\n{}\n",
                go_format(&Value::Array(patch.to_vec())),
                go_format(&Value::Array(order.to_vec()))
            )));
        }
    }
    Ok(())
}

fn merge_value<'a>(item: &'a Value, key: &str) -> Result<&'a Value, PatchError> {
    item.get(key)
        .ok_or_else(|| unforeseen(format!("map: {} does not contain declared merge key: {key}", go_format(item))))
}

/// What makes two scalars the same: their JSON text, which also tells 1 from "1".
fn identity(value: &Value) -> String {
    value.to_string()
}
