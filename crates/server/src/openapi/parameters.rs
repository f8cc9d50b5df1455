//! Query and path parameters of operations. The texts are our own.

use bailiwick_schema::openapi::Form;
use serde_json::{Map, Value, json};

use super::paths::Place;

/// Where a parameter is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Location {
    Path,
    Query,
}

/// What an operation is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Collection,
    Object,
}

/// One parameter of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parameter {
    pub name: &'static str,
    pub location: Location,
    ty: &'static str,
    text: &'static str,
}

impl Parameter {
    /// The parameter of this name, as all operations that have it describe it.
    pub(super) fn named(name: &'static str) -> Self {
        let location = if matches!(name, "name" | "namespace") { Location::Path } else { Location::Query };
        let (ty, text) =
            PARAMETERS.iter().find(|(known, ..)| *known == name).map_or(("string", ""), |(_, ty, text)| (*ty, *text));
        Self { name, location, ty, text }
    }

    /// The parameters of these names, with the object's name and namespace where the path has them, by name.
    pub(super) fn all(names: &[&'static str], place: Place, target: Target) -> Vec<Self> {
        let mut parameters: Vec<Self> = names.iter().map(|name| Self::named(name)).collect();
        if target == Target::Object {
            parameters.push(Self::named("name"));
        }
        if place == Place::Namespaced {
            parameters.push(Self::named("namespace"));
        }
        parameters.sort_by_key(|parameter| parameter.name);
        parameters
    }

    /// The same without a description.
    pub(super) fn without_text(&self) -> Self {
        Self { text: "", ..self.clone() }
    }

    pub(super) fn render(&self, form: Form) -> Value {
        let mut parameter = self.head();
        match form {
            Form::V2 => {
                parameter.insert("type".into(), self.ty.into());
                parameter.insert("uniqueItems".into(), true.into());
            }
            Form::V3 => {
                parameter.insert("schema".into(), json!({"type": self.ty, "uniqueItems": true}));
            }
        }
        Value::Object(parameter)
    }

    fn head(&self) -> Map<String, Value> {
        let mut parameter = Map::new();
        parameter.insert("name".into(), self.name.into());
        parameter.insert("in".into(), if self.location == Location::Path { "path" } else { "query" }.into());
        if !self.text.is_empty() {
            parameter.insert("description".into(), self.text.into());
        }
        if self.location == Location::Path {
            parameter.insert("required".into(), true.into());
        }
        parameter
    }
}

pub(super) const PRETTY: &[&str] = &["pretty"];
pub(super) const LIST: &[&str] = &[
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "pretty",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "shardSelector",
    "timeoutSeconds",
    "watch",
];
pub(super) const WRITE: &[&str] = &["dryRun", "fieldManager", "fieldValidation", "pretty"];
pub(super) const PATCH: &[&str] = &["dryRun", "fieldManager", "fieldValidation", "force", "pretty"];
pub(super) const DELETE: &[&str] = &[
    "dryRun",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "orphanDependents",
    "pretty",
    "propagationPolicy",
];
pub(super) const DELETE_COLLECTION: &[&str] = &[
    "continue",
    "dryRun",
    "fieldSelector",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "labelSelector",
    "limit",
    "orphanDependents",
    "pretty",
    "propagationPolicy",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "shardSelector",
    "timeoutSeconds",
];

/// Name, type and text.
const PARAMETERS: &[(&str, &str, &str)] = &[
    ("allowWatchBookmarks", "boolean", "Ask a watch for BOOKMARK events, which tell how far it has come."),
    (
        "continue",
        "string",
        "Where a list in pages goes on: the token of the page before, with the same other parameters.",
    ),
    ("dryRun", "string", "Do everything but store the outcome. The only value is All."),
    ("fieldManager", "string", "Who is making this change, as managedFields shows it. Apply patches must say so."),
    ("fieldSelector", "string", "Only objects whose fields match."),
    (
        "fieldValidation",
        "string",
        "What unknown and repeated fields do: Strict refuses them, Warn answers with warnings, Ignore drops them silently.",
    ),
    ("force", "boolean", "Let an apply patch take over fields that other managers own."),
    ("gracePeriodSeconds", "integer", "How long the object may take to end before it is removed; 0 is at once."),
    (
        "ignoreStoreReadErrorWithClusterBreakingPotential",
        "boolean",
        "Remove an object that cannot be read from the store, without finalizers and preconditions. Dangerous.",
    ),
    ("labelSelector", "string", "Only objects whose labels match."),
    ("limit", "integer", "The most objects a list answers at once; the rest follows with continue."),
    ("name", "string", "The name of the object."),
    ("namespace", "string", "The namespace of the object."),
    ("orphanDependents", "boolean", "Deprecated, use propagationPolicy: whether dependents stay when the object goes."),
    (
        "pretty",
        "string",
        "Indent the answer if 'true'. Browsers and command line tools such as curl get it indented anyway.",
    ),
    (
        "propagationPolicy",
        "string",
        "What becomes of dependents: Orphan keeps them, Background removes them after, Foreground before the object.",
    ),
    ("resourceVersion", "string", "The version of the data to answer from, or to begin a watch at."),
    ("resourceVersionMatch", "string", "How resourceVersion is meant in a list: Exact or NotOlderThan."),
    (
        "sendInitialEvents",
        "boolean",
        "Begin a watch with ADDED events for what is there, and a bookmark at their end. Needs resourceVersionMatch.",
    ),
    ("shardSelector", "string", "Only the objects of a part of the hash space. Sharded lists are not served."),
    ("timeoutSeconds", "integer", "When a list or watch ends at the latest."),
    ("watch", "boolean", "Answer with the changes as they happen instead of a list."),
];
