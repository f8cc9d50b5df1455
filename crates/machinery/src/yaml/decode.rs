//! From YAML text to JSON values.
//!
//! The document becomes a flat list of nodes first, in which an alias is an index; expanding it to values counts what
//! aliases add and refuses bombs before they are built.

use std::borrow::Cow;
use std::collections::HashMap;

use granit_parser::{Event, Options, Parser, ScalarStyle, Tag};
use serde_json::{Map, Value};

use super::scalar::{resolve, resolve_tagged, to_json};

/// Deepest nesting; what JSON bodies may have too.
const MAX_DEPTH: usize = 128;
/// What aliases may add, in bytes and nodes together: about one more body.
const MAX_ALIAS_COST: usize = 4 * 1024 * 1024;
/// What a node counts beside its text.
const NODE_COST: usize = 16;
/// How many badly indented lines a document may have before it is refused: each costs one more look at it.
const MAX_REPAIRS: usize = 1000;
/// The parser's words for such a line.
const QUOTED_INDENT: &str = "invalid indentation in multiline quoted scalar";
const CORE_NAMESPACE: &str = "tag:yaml.org,2002:";

/// A decoded document.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// Null when there was no document.
    pub value: Value,
    /// Keys that occurred twice (the last one won): `line 2: key "a" already set in map`.
    pub duplicates: Vec<String>,
}

impl Decoded {
    /// What strict field validation says about duplicate keys; `None` when there are none.
    pub fn strict_error(&self) -> Option<String> {
        if self.duplicates.is_empty() {
            return None;
        }
        Some(format!("yaml: unmarshal errors:\n  {}", self.duplicates.join("\n  ")))
    }
}

/// Why a text is not a document we can use. The texts begin like upstream's; syntax errors are worded by the parser.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct YamlError(String);

/// Decodes the first document of a stream; what follows it is not looked at.
pub fn decode(text: &str) -> Result<Decoded, YamlError> {
    let Some((mut nodes, root)) = parse_repaired(text)? else {
        return Ok(Decoded { value: Value::Null, duplicates: Vec::new() });
    };
    if !nodes.iter().any(|node| matches!(node, Node::Alias(_))) {
        let mut duplicates = Vec::new();
        let value = moved(&mut nodes, root, &mut duplicates)?;
        return Ok(Decoded { value, duplicates });
    }
    let mut expansion =
        Expansion { nodes: &nodes, active: vec![false; nodes.len()], alias_cost: 0, duplicates: Vec::new() };
    let value = expansion.value(root, 0, Origin::Document)?;
    Ok(Decoded { value, duplicates: expansion.duplicates })
}

enum Node {
    Scalar(Value),
    Sequence(Vec<usize>),
    Mapping(Vec<Entry>),
    Alias(usize),
}

struct Entry {
    key: Key,
    value: usize,
    /// Of the value, from 1.
    line: usize,
}

impl Entry {
    fn key_length(&self) -> usize {
        match &self.key {
            Key::Text(text) | Key::Literal(text) => text.len(),
            Key::Merge => 0,
        }
    }

    /// Its place, if the map has the key already.
    fn duplicate_in(&self, map: &Map<String, Value>) -> Option<String> {
        let shown = match &self.key {
            Key::Text(key) if map.contains_key(key) => format!("{key:?}"),
            Key::Literal(key) if map.contains_key(key) => key.clone(),
            _ => return None,
        };
        Some(format!("line {}: key {shown} already set in map", self.line))
    }
}

enum Key {
    Text(String),
    /// A number or a boolean, which becomes a text but is shown without quotes.
    Literal(String),
    /// `<<`: the fields of the value belong here.
    Merge,
}

/// Collections that are not closed yet.
enum Open {
    Sequence(usize, Vec<usize>),
    Mapping(usize, Vec<Entry>, Option<Key>),
}

type Parsed = Option<(Vec<Node>, usize)>;

/// Why parsing stopped.
enum Stopped {
    /// A line inside quotes, by its number, that is indented less than YAML asks for. Go's library does not mind, and
    /// published manifests have such lines.
    QuotedIndent(usize),
    Refused(YamlError),
}

impl From<YamlError> for Stopped {
    fn from(error: YamlError) -> Self {
        Stopped::Refused(error)
    }
}

/// Parses, indenting lines inside quotes as far as needed: spaces at their beginning mean nothing.
fn parse_repaired(text: &str) -> Result<Parsed, YamlError> {
    let mut repaired: Option<String> = None;
    for _ in 0..MAX_REPAIRS {
        let current = repaired.as_deref().unwrap_or(text);
        match parse(current) {
            Ok(parsed) => return Ok(parsed),
            Err(Stopped::Refused(error)) => return Err(error),
            Err(Stopped::QuotedIndent(line)) => {
                let indent = " ".repeat(4 * MAX_DEPTH);
                let lines = current.split_inclusive('\n').enumerate();
                repaired = Some(
                    lines.flat_map(|(i, text)| [if i + 1 == line { indent.as_str() } else { "" }, text]).collect(),
                );
            }
        }
    }
    Err(yaml_error("too many badly indented lines inside quotes"))
}

fn yaml_error(text: impl std::fmt::Display) -> YamlError {
    YamlError(format!("yaml: {text}"))
}

fn parse(text: &str) -> Result<Parsed, Stopped> {
    let mut options = Options::default();
    options.emit_comments = false;
    let mut nodes = Vec::new();
    let mut anchors: HashMap<usize, usize> = HashMap::new();
    let mut open: Vec<Open> = Vec::new();
    for item in Parser::new_from_str_with_options(text, options) {
        let (event, span) = item.map_err(|error| {
            let (line, info) = (error.marker().line(), error.info());
            if info == QUOTED_INDENT {
                return Stopped::QuotedIndent(line);
            }
            Stopped::Refused(yaml_error(format!("line {line}: {info}")))
        })?;
        let line = span.start.line();
        let mut anchor_here = |id: usize, node: usize| {
            if id > 0 {
                anchors.insert(id, node);
            }
        };
        let finished = match event {
            Event::DocumentStart(_, Some(version)) if (version.major, version.minor) != (1, 1) => {
                return Err(yaml_error("found incompatible YAML document").into());
            }
            Event::Scalar(text, style, anchor, tag) => {
                if is_key_next(&open) && anchor == 0 {
                    let key = read_key(&text, style, tag.as_deref())?;
                    if let Some(Open::Mapping(_, _, slot)) = open.last_mut() {
                        *slot = Some(key);
                    }
                    continue;
                }
                nodes.push(Node::Scalar(read_scalar(&text, style, tag.as_deref())?));
                anchor_here(anchor, nodes.len() - 1);
                nodes.len() - 1
            }
            Event::Alias(anchor) => {
                let target = anchors.get(&anchor).copied().ok_or_else(|| yaml_error("unknown anchor referenced"))?;
                nodes.push(Node::Alias(target));
                nodes.len() - 1
            }
            Event::SequenceStart(_, anchor, _) => {
                nodes.push(Node::Sequence(Vec::new()));
                anchor_here(anchor, nodes.len() - 1);
                push(&mut open, Open::Sequence(nodes.len() - 1, Vec::new()))?;
                continue;
            }
            Event::MappingStart(_, anchor, _) => {
                nodes.push(Node::Mapping(Vec::new()));
                anchor_here(anchor, nodes.len() - 1);
                push(&mut open, Open::Mapping(nodes.len() - 1, Vec::new(), None))?;
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some(Open::Sequence(at, items)) => {
                    if let Some(node) = nodes.get_mut(at) {
                        *node = Node::Sequence(items);
                    }
                    at
                }
                Some(Open::Mapping(at, entries, _)) => {
                    if let Some(node) = nodes.get_mut(at) {
                        *node = Node::Mapping(entries);
                    }
                    at
                }
                None => continue,
            },
            Event::DocumentEnd | Event::StreamEnd => break,
            _ => continue,
        };
        match open.last_mut() {
            None => return Ok(Some((nodes, finished))),
            Some(Open::Sequence(_, items)) => items.push(finished),
            Some(Open::Mapping(_, entries, key)) => match key.take() {
                Some(key) => entries.push(Entry { key, value: finished, line }),
                // The key was an alias, an anchored scalar or a collection.
                None => *key = Some(key_of_node(&nodes, finished)?),
            },
        }
    }
    Ok(None)
}

fn push(open: &mut Vec<Open>, collection: Open) -> Result<(), YamlError> {
    if open.len() >= MAX_DEPTH {
        return Err(yaml_error(format!("exceeded max depth of {MAX_DEPTH}")));
    }
    open.push(collection);
    Ok(())
}

fn is_key_next(open: &[Open]) -> bool {
    matches!(open.last(), Some(Open::Mapping(_, _, None)))
}

fn core_tag(tag: &Tag) -> Option<String> {
    tag.suffix_in_namespace(CORE_NAMESPACE).map(Cow::into_owned)
}

fn read_scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, YamlError> {
    match tag {
        Some(tag) => match core_tag(tag) {
            Some(name) => resolve_tagged(&name, text).map_err(yaml_error),
            // `!` and tags of others say that the text is what it is.
            None => Ok(text.into()),
        },
        None if style == ScalarStyle::Plain => to_json(resolve(text), text).map_err(YamlError),
        None => Ok(text.into()),
    }
}

fn read_key(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Key, YamlError> {
    let plain = tag.is_none() && style == ScalarStyle::Plain;
    if text == "<<" && (plain || tag.and_then(core_tag).as_deref() == Some("merge")) {
        return Ok(Key::Merge);
    }
    key_of_value(&read_scalar(text, style, tag)?)
}

/// Keys of JSON objects are strings; numbers and booleans become ones.
fn key_of_value(value: &Value) -> Result<Key, YamlError> {
    match value {
        Value::String(text) => Ok(Key::Text(text.clone())),
        Value::Number(_) | Value::Bool(_) => Ok(Key::Literal(value.to_string())),
        Value::Null => Err(YamlError("unsupported map key of type: %!s(<nil>), key: <nil>".to_owned())),
        _ => Err(yaml_error("invalid map key")),
    }
}

fn key_of_node(nodes: &[Node], at: usize) -> Result<Key, YamlError> {
    match nodes.get(at) {
        Some(Node::Scalar(value)) => key_of_value(value),
        Some(Node::Alias(target)) => match nodes.get(*target) {
            Some(Node::Scalar(value)) => key_of_value(value),
            _ => Err(yaml_error("invalid map key")),
        },
        _ => Err(yaml_error("invalid map key")),
    }
}

/// A document without aliases: every node is used once, so nothing is copied. Parsing has limited the depth.
fn moved(nodes: &mut [Node], at: usize, duplicates: &mut Vec<String>) -> Result<Value, YamlError> {
    let Some(node) = nodes.get_mut(at) else { return Ok(Value::Null) };
    match std::mem::replace(node, Node::Scalar(Value::Null)) {
        Node::Scalar(value) => Ok(value),
        Node::Alias(_) => Ok(Value::Null),
        Node::Sequence(items) => {
            let items = items.into_iter().map(|item| moved(nodes, item, duplicates));
            Ok(Value::Array(items.collect::<Result<_, _>>()?))
        }
        Node::Mapping(entries) => {
            let mut map = Map::new();
            for entry in entries {
                let value = moved(nodes, entry.value, duplicates)?;
                duplicates.extend(entry.duplicate_in(&map));
                match entry.key {
                    Key::Merge => merge_into(&mut map, value)?,
                    Key::Text(key) | Key::Literal(key) => drop(map.insert(key, value)),
                }
            }
            Ok(Value::Object(map))
        }
    }
}

/// `<<` with a mapping, or with a list of them of which the first wins.
fn merge_into(map: &mut Map<String, Value>, value: Value) -> Result<(), YamlError> {
    let sources = match value {
        Value::Array(items) => items,
        other => vec![other],
    };
    for source in sources.into_iter().rev() {
        let Value::Object(fields) = source else {
            return Err(yaml_error("map merge requires map or sequence of maps as the value"));
        };
        map.extend(fields);
    }
    Ok(())
}

/// Whether a node is built where it stands or once more, for an alias.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    Document,
    Alias,
}

struct Expansion<'a> {
    nodes: &'a [Node],
    /// Nodes being expanded, to find an anchor inside itself.
    active: Vec<bool>,
    alias_cost: usize,
    duplicates: Vec<String>,
}

impl Expansion<'_> {
    fn value(&mut self, at: usize, depth: usize, origin: Origin) -> Result<Value, YamlError> {
        if depth > MAX_DEPTH {
            return Err(yaml_error(format!("exceeded max depth of {MAX_DEPTH}")));
        }
        let nodes = self.nodes;
        let Some(node) = nodes.get(at) else { return Ok(Value::Null) };
        if origin == Origin::Alias {
            self.charge(node)?;
        }
        match node {
            Node::Scalar(value) => Ok(value.clone()),
            Node::Alias(target) => self.value(*target, depth, Origin::Alias),
            Node::Sequence(items) => {
                self.enter(at)?;
                let list = items.iter().map(|item| self.value(*item, depth + 1, origin)).collect::<Result<_, _>>()?;
                self.leave(at);
                Ok(Value::Array(list))
            }
            Node::Mapping(entries) => {
                self.enter(at)?;
                let mut map = Map::new();
                for entry in entries {
                    match &entry.key {
                        Key::Merge => merge_into(&mut map, self.value(entry.value, depth + 1, origin)?)?,
                        Key::Text(key) | Key::Literal(key) => {
                            let value = self.value(entry.value, depth + 1, origin)?;
                            if origin == Origin::Document {
                                self.duplicates.extend(entry.duplicate_in(&map));
                            }
                            map.insert(key.clone(), value);
                        }
                    }
                }
                self.leave(at);
                Ok(Value::Object(map))
            }
        }
    }

    fn charge(&mut self, node: &Node) -> Result<(), YamlError> {
        self.alias_cost += NODE_COST
            + match node {
                Node::Scalar(Value::String(text)) => text.len(),
                Node::Mapping(entries) => entries.iter().map(Entry::key_length).sum(),
                _ => 0,
            };
        if self.alias_cost > MAX_ALIAS_COST { Err(yaml_error("document contains excessive aliasing")) } else { Ok(()) }
    }

    fn enter(&mut self, at: usize) -> Result<(), YamlError> {
        match self.active.get_mut(at) {
            Some(active) if *active => Err(yaml_error("anchor value contains itself")),
            Some(active) => {
                *active = true;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn leave(&mut self, at: usize) {
        if let Some(active) = self.active.get_mut(at) {
            *active = false;
        }
    }
}
