//! One version 2 document of several: paths are added where there are none yet, definitions of the same name that differ get
//! another name, and those that differ only in the kinds they stand for stand for all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::references::{self, DEFINITIONS, PARAMETERS};
use super::{Spec, keep_paths};

const KINDS: &str = "x-kubernetes-group-version-kind";

/// The sections of a document that grow when others are added.
#[derive(Debug, Default, PartialEq)]
pub struct Merged {
    pub paths: Map<String, Value>,
    pub definitions: Map<String, Value>,
    pub parameters: Map<String, Value>,
}

/// The local document with those of others, in this order.
pub fn merge(local: Value, others: &[Arc<Spec>]) -> Merged {
    let mut merged = Merged::of(local);
    for other in others {
        merged.add(&other.document);
    }
    merged
}

impl Merged {
    fn of(mut document: Value) -> Self {
        let mut section = |name: &str| match document.get_mut(name).map(Value::take) {
            Some(Value::Object(members)) => members,
            _ => Map::new(),
        };
        Self { paths: section("paths"), definitions: section("definitions"), parameters: section("parameters") }
    }

    fn add(&mut self, source: &Value) {
        let Some(paths) = source.get("paths").and_then(Value::as_object) else { return };
        let fresh = paths.keys().filter(|path| !self.paths.contains_key(*path)).count();
        if fresh == 0 {
            return;
        }
        let mut source = source.clone();
        if fresh < paths.len() {
            keep_paths(&mut source, |path| !self.paths.contains_key(path));
        }
        let added = Self::of(source);
        let definitions = renames(&self.definitions, &added.definitions, same_but_kinds);
        let parameters = renames(&self.parameters, &added.parameters, |a, b| a == b);
        let prefixed = |prefix: &'static str, renames: &BTreeMap<String, String>| -> Vec<(String, String)> {
            renames.iter().map(|(from, to)| (format!("{prefix}{from}"), format!("{prefix}{to}"))).collect()
        };
        let mut replacements: BTreeMap<String, String> = BTreeMap::new();
        replacements.extend(prefixed(DEFINITIONS, &definitions));
        replacements.extend(prefixed(PARAMETERS, &parameters));
        let renamed = |members: Map<String, Value>, names: &BTreeMap<String, String>| {
            let replacements = &replacements;
            let renamed = members.into_iter().map(move |(name, mut value)| {
                if !replacements.is_empty() {
                    references::replace(&mut value, replacements);
                }
                (names.get(&name).cloned().unwrap_or(name), value)
            });
            renamed.collect::<Vec<_>>()
        };
        for (name, definition) in renamed(added.definitions, &definitions) {
            match self.definitions.get_mut(&name) {
                Some(known) => join_kinds(known, &definition),
                None => drop(self.definitions.insert(name, definition)),
            }
        }
        for (name, parameter) in renamed(added.parameters, &parameters) {
            self.parameters.entry(name).or_insert(parameter);
        }
        for (path, item) in renamed(added.paths, &BTreeMap::new()) {
            self.paths.entry(path).or_insert(item);
        }
    }
}

/// New names for members of `source` that `known` has under the same name and otherwise: the name with `_v2`, or the next
/// number that is free or means the same already.
fn renames(
    known: &Map<String, Value>,
    source: &Map<String, Value>,
    same: impl Fn(&Value, &Value) -> bool,
) -> BTreeMap<String, String> {
    let mut renames = BTreeMap::new();
    let mut taken = BTreeSet::new();
    for (name, value) in source {
        if known.get(name).is_none_or(|existing| same(existing, value)) {
            continue;
        }
        let mut number = 2_usize;
        let new_name = loop {
            let candidate = format!("{name}_v{number}");
            match known.get(&candidate) {
                Some(existing) if same(existing, value) => break candidate,
                Some(_) => {}
                None if taken.contains(&candidate) || source.contains_key(&candidate) => {}
                None => break candidate,
            }
            number += 1;
        };
        taken.insert(new_name.clone());
        renames.insert(name.clone(), new_name);
    }
    renames
}

/// Whether two definitions say the same of an object, whichever kinds they are registered for.
fn same_but_kinds(a: &Value, b: &Value) -> bool {
    let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else { return a == b };
    let others = |fields: &Map<String, Value>| fields.len() - usize::from(fields.contains_key(KINDS));
    others(a) == others(b)
        && a.iter().filter(|(name, _)| *name != KINDS).all(|(name, value)| b.get(name) == Some(value))
}

/// Adds the kinds that `other` stands for.
fn join_kinds(definition: &mut Value, other: &Value) {
    let Some(added) = other.get(KINDS).and_then(Value::as_array) else { return };
    let Some(fields) = definition.as_object_mut() else { return };
    let Some(kinds) = fields.entry(KINDS).or_insert_with(|| Value::Array(Vec::new())).as_array_mut() else { return };
    let before = kinds.len();
    for kind in added {
        if !kinds.contains(kind) {
            kinds.push(kind.clone());
        }
    }
    if kinds.len() > before {
        let text = |kind: &Value, field: &str| kind.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        kinds.sort_by_key(|kind| format!("{}/{}.{}", text(kind, "group"), text(kind, "version"), text(kind, "kind")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn spec(document: Value) -> Arc<Spec> {
        Arc::new(Spec { tag: String::new(), document })
    }

    fn path(definition: &str) -> Value {
        json!({"get": {"responses": {"200": {"schema": {"$ref": format!("#/definitions/{definition}")}}}}})
    }

    #[test]
    fn a_definition_that_differs_gets_another_name_and_so_do_references() {
        let local = json!({"paths": {"/a": path("Meta")}, "definitions": {"Meta": {"type": "object"}}});
        let other = json!({
            "paths": {"/b": path("Thing")},
            "definitions": {
                "Meta": {"type": "string"},
                "Thing": {"properties": {"metadata": {"$ref": "#/definitions/Meta"}}},
            },
        });
        let merged = merge(
            local.clone(),
            &[
                spec(other.clone()),
                spec(json!({
                    "paths": {"/c": path("Meta")}, "definitions": {"Meta": {"type": "string"}},
                })),
            ],
        );
        let names: Vec<&String> = merged.definitions.keys().collect();
        assert_eq!(names, ["Meta", "Meta_v2", "Thing"]);
        assert_eq!(merged.definitions["Thing"]["properties"]["metadata"]["$ref"], "#/definitions/Meta_v2");
        assert_eq!(merged.paths["/c"], path("Meta_v2"), "a name that means the same is used again");
        assert_eq!(merged.paths["/a"], path("Meta"));
    }

    #[test]
    fn paths_that_are_there_already_stay() {
        let local = json!({"paths": {"/a": path("A")}, "definitions": {"A": {}}});
        let other = json!({"paths": {"/a": path("B"), "/b": path("C")}, "definitions": {"B": {}, "C": {}}});
        let merged = merge(local, &[spec(other)]);
        assert_eq!(merged.paths["/a"], path("A"));
        let names: Vec<&String> = merged.definitions.keys().collect();
        assert_eq!(names, ["A", "C"], "what only the other path needed is not taken");
    }

    #[test]
    fn kinds_of_a_common_definition_are_joined() {
        let kind = |group: &str| json!({"group": group, "version": "v1", "kind": "DeleteOptions"});
        let definition = |kinds: Value| json!({"type": "object", "x-kubernetes-group-version-kind": kinds});
        let local = json!({"paths": {"/a": path("D")}, "definitions": {"D": definition(json!([kind("z")]))}});
        let other = json!({
            "paths": {"/b": path("D")}, "definitions": {"D": definition(json!([kind("a"), kind("z")]))},
        });
        let merged = merge(local, &[spec(other)]);
        assert_eq!(merged.definitions["D"], definition(json!([kind("a"), kind("z")])));
    }

    #[test]
    fn parameters_are_renamed_too() {
        let local = json!({"paths": {"/a": {}}, "parameters": {"p": {"in": "query"}}});
        let other = json!({
            "paths": {"/b": {"parameters": [{"$ref": "#/parameters/p"}]}}, "parameters": {"p": {"in": "path"}},
        });
        let merged = merge(local, &[spec(other)]);
        assert_eq!(merged.paths["/b"]["parameters"][0]["$ref"], "#/parameters/p_v2");
        assert_eq!(merged.parameters["p_v2"], json!({"in": "path"}));
    }
}
