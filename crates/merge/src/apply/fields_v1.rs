//! `fieldsV1`: a set of fields as JSON.
//!
//! Text is written in the order and with the escapes of upstream. As a [`Value`] the same set is an object, whose keys
//! serde_json keeps in the order of their text; the two differ only in the order of keys that hold numbers.

use serde_json::{Map, Value};

use super::path::{Html, PathElement, write_string};
use super::set::{FieldSet, Node};

/// A `fieldsV1` that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FieldsError(String);

impl FieldsError {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// Nesting beyond what any object of this server can have; a set that deep is refused instead of walked.
const MAX_DEPTH: usize = 512;

impl<'a> FieldSet<'a> {
    /// Reads a set from the value of `fieldsV1`.
    pub fn from_value(value: &'a Value) -> Result<Self, FieldsError> {
        read(value, MAX_DEPTH).map(|found| found.children)
    }

    /// The value of `fieldsV1`.
    pub fn to_value(&self) -> Value {
        self.members_value(false)
    }

    /// The value for a field that this set lies below; `with_self` if the field itself is a member.
    pub(super) fn members_value(&self, with_self: bool) -> Value {
        let own = (with_self && !self.is_empty()).then(|| (".".to_owned(), Value::Object(Map::new())));
        let children = self.nodes.iter().map(|node| {
            let mut name = String::new();
            node.element.write_name(&mut name);
            (name, node.children.members_value(node.is_member))
        });
        Value::Object(own.into_iter().chain(children).collect())
    }

    /// The text of `fieldsV1`, byte for byte as upstream writes it.
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        let mut name = String::new();
        self.write_json(false, &mut out, &mut name);
        out
    }

    fn write_json(&self, with_self: bool, out: &mut String, name: &mut String) {
        out.push('{');
        let mut is_first = true;
        if with_self && !self.is_empty() {
            out.push_str("\".\":{}");
            is_first = false;
        }
        for node in &self.nodes {
            if !is_first {
                out.push(',');
            }
            is_first = false;
            name.clear();
            node.element.write_name(name);
            write_string(out, name, Html::Plain);
            out.push(':');
            node.children.write_json(node.is_member, out, name);
        }
        out.push('}');
    }
}

impl FieldSet<'static> {
    /// Reads a set from the text of `fieldsV1`.
    pub fn from_json(text: &str) -> Result<Self, FieldsError> {
        let value: Value = serde_json::from_str(text).map_err(|error| FieldsError::new(error.to_string()))?;
        FieldSet::from_value(&value).map(FieldSet::into_owned)
    }
}

struct Found<'a> {
    children: FieldSet<'a>,
    is_member: bool,
}

fn read(value: &Value, depth: usize) -> Result<Found<'_>, FieldsError> {
    let map = match value {
        Value::Object(map) => map,
        Value::Null => return Ok(Found { children: FieldSet::default(), is_member: true }),
        _ => return Err(FieldsError::new("ReadMapCB: expect { or n")),
    };
    let Some(depth) = depth.checked_sub(1) else { return Err(FieldsError::new("exceeded max depth")) };
    let mut found = Found { children: FieldSet { nodes: Vec::with_capacity(map.len()) }, is_member: false };
    let mut in_order = true;
    for (name, below) in map {
        if name == "." {
            found.is_member = true;
            continue;
        }
        let Some(element) = PathElement::parse(name)? else { continue };
        let Found { children, is_member } = read(below, depth)?;
        let nodes = &mut found.children.nodes;
        in_order = in_order && nodes.last().is_none_or(|last| last.element < element);
        nodes.push(Node { element, is_member, children });
    }
    if !in_order {
        // Keys are in the order of their text, which is not always that of their elements.
        let nodes = &mut found.children.nodes;
        nodes.sort_by(|a, b| a.element.cmp(&b.element));
        nodes.dedup_by(|later, kept| {
            let same = later.element == kept.element;
            if same {
                kept.is_member |= later.is_member;
                if !later.children.is_empty() {
                    kept.children = std::mem::take(&mut later.children);
                }
            }
            same
        });
    }
    found.is_member |= found.children.is_empty();
    Ok(found)
}
