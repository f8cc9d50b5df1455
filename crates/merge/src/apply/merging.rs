//! Merging a configuration into a live object. Nothing is removed here; see [`super::prune`] for that.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::error::TypeErrors;
use super::list_key::element_of;
use super::path::PathElement;
use super::types::{Atom, ListAtom, ListMerging, MapAtom, Shape, TypeRef};

/// The live object with everything the configuration says.
pub fn merge_configuration(types: TypeRef<'_>, live: &Value, config: &Value) -> Result<Value, TypeErrors> {
    Ok(node(types, Some(live), Some(config))?.unwrap_or(Value::Null))
}

fn node(types: TypeRef<'_>, live: Option<&Value>, config: Option<&Value>) -> Result<Option<Value>, TypeErrors> {
    let atom = types.resolve();
    // Where the kind of value changes, the configuration decides.
    let Some(shape) = config.or(live).map(|value| atom.shape(value)) else { return Ok(None) };
    shaped(&atom, shape, live, config)
}

fn shaped(
    atom: &Atom<'_>,
    shape: Shape,
    live: Option<&Value>,
    config: Option<&Value>,
) -> Result<Option<Value>, TypeErrors> {
    match (shape, &atom.map, &atom.list) {
        (Shape::Map, Some(map), _) => self::map(map, live, config),
        (Shape::List, _, Some(list)) => self::list(list, live, config),
        (Shape::Scalar, _, _) => Ok(leaf(live, config)),
        _ => Err(TypeErrors::one("schema error: invalid atom: inlined")),
    }
}

fn leaf(live: Option<&Value>, config: Option<&Value>) -> Option<Value> {
    config.or(live).cloned()
}

fn map(atom: &MapAtom<'_>, live: Option<&Value>, config: Option<&Value>) -> Result<Option<Value>, TypeErrors> {
    let (live_fields, config_fields) = (content(live), content(config));
    if atom.is_atomic || (live_fields.is_none() && config_fields.is_none()) {
        return Ok(leaf(live, config));
    }
    let mut out = Map::new();
    for (name, live) in live_fields.into_iter().flatten() {
        let config = config_fields.and_then(|fields| fields.get(name));
        field(atom, name, Some(live), config, &mut out)?;
    }
    for (name, config) in config_fields.into_iter().flatten() {
        if live_fields.is_none_or(|fields| !fields.contains_key(name)) {
            field(atom, name, None, Some(config), &mut out)?;
        }
    }
    Ok((!out.is_empty()).then_some(Value::Object(out)))
}

fn content(value: Option<&Value>) -> Option<&Map<String, Value>> {
    value.and_then(Value::as_object).filter(|fields| !fields.is_empty())
}

fn field(
    atom: &MapAtom<'_>,
    name: &str,
    live: Option<&Value>,
    config: Option<&Value>,
    out: &mut Map<String, Value>,
) -> Result<(), TypeErrors> {
    let element = || PathElement::Field(name.into());
    let Some(types) = atom.field_or_element(name) else {
        return Err(TypeErrors::one("field not declared in schema").below(&element()));
    };
    // What the configuration does not mention stays as it is, whatever its type.
    let merged = match (live, config) {
        (Some(live), None) => Some(live.clone()),
        (live, config) => node(types, live, config).map_err(|errors| errors.below(&element()))?,
    };
    if let Some(value) = merged {
        out.insert(name.to_owned(), value);
    }
    Ok(())
}

fn list(atom: &ListAtom<'_>, live: Option<&Value>, config: Option<&Value>) -> Result<Option<Value>, TypeErrors> {
    let items = |value: Option<&Value>| value.and_then(Value::as_array).map_or(0, Vec::len);
    if matches!(atom.merging, ListMerging::Atomic) || items(live) + items(config) == 0 {
        return Ok(leaf(live, config));
    }
    let live = Indexed::of(atom, live)?;
    let config = Indexed::of(atom, config)?;
    let out = interleave(atom, &live, &config)?;
    Ok((!out.is_empty()).then_some(Value::Array(out)))
}

/// A list whose entries are found by their keys.
struct Indexed<'a> {
    entries: Vec<(PathElement<'a>, &'a Value)>,
    /// By key, the entry; `None` where several have that key.
    by_key: BTreeMap<PathElement<'a>, Option<&'a Value>>,
}

impl<'a> Indexed<'a> {
    fn of(atom: &ListAtom<'a>, list: Option<&'a Value>) -> Result<Self, TypeErrors> {
        let items = list.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let mut indexed = Self { entries: Vec::with_capacity(items.len()), by_key: BTreeMap::new() };
        for (i, item) in items.iter().enumerate() {
            let element = element_of(atom, item).map_err(|why| TypeErrors::one(format!("element {i}: {why}")))?;
            let found = indexed.by_key.entry(element.clone()).and_modify(|known| *known = None);
            found.or_insert(Some(item));
            indexed.entries.push((element, item));
        }
        Ok(indexed)
    }

    fn has(&self, key: &PathElement<'a>) -> bool {
        self.by_key.contains_key(key)
    }
}

/// Brings the entries of both lists into one order: that of the configuration for what it has, with live entries it does
/// not have kept where they stood between those it does.
fn interleave<'a>(atom: &ListAtom<'_>, live: &Indexed<'a>, config: &Indexed<'a>) -> Result<Vec<Value>, TypeErrors> {
    let merged = |key: &PathElement<'a>, config_item: &Value| {
        let both = live.by_key.get(key).map(|item| item.unwrap_or(&Value::Null));
        node(atom.element, both, Some(config_item)).map_err(|errors| errors.below(key))
    };
    let mut shared = config.entries.iter().filter(|(key, _)| live.has(key)).map(|(key, _)| key).peekable();
    let mut taken = BTreeSet::new();
    let mut out = Vec::with_capacity(live.entries.len().max(config.entries.len()));
    let (mut l, mut c) = (0, 0);
    loop {
        let (live_entry, config_entry) = (live.entries.get(l), config.entries.get(c));
        match (live_entry, config_entry) {
            (None, None) => return Ok(out),
            (Some((live_key, _)), Some((config_key, item))) if live_key == config_key => {
                taken.insert(config_key);
                out.extend(merged(config_key, item)?);
                shared.next();
                l += 1;
                c += 1;
                continue;
            }
            // An entry of both lists whose turn in the configuration has not come.
            (Some((live_key, _)), Some(_))
                if config.has(live_key) && shared.peek().is_some_and(|next| **next != *live_key) =>
            {
                l += 1;
                continue;
            }
            _ => {}
        }
        if let Some((live_key, item)) = live_entry {
            if !config.has(live_key) {
                out.push((*item).clone());
                l += 1;
                continue;
            }
            if taken.contains(live_key) {
                l += 1;
            }
        }
        if let Some((config_key, item)) = config_entry {
            taken.insert(config_key);
            out.extend(merged(config_key, item)?);
            c += 1;
            shared.next_if(|next| **next == *config_key);
        }
    }
}
