//! Defaults inside schemas must themselves be valid: nothing the schema would prune, metadata in order, values it allows.

use std::sync::Arc;

use bailiwick_machinery::field::{Error, ErrorList, Path};
use bailiwick_schema::structural::rules::{self, OBJECT_COST_BUDGET};
use bailiwick_schema::structural::{
    MalformedFields, PruneOptions, Root, Schema, UnknownFields, coerce, coerce_at, prune, validate_default,
    validate_embedded,
};
use serde_json::{Map, Value, json};

use super::EMBEDDED_RULES;

/// Whether defaults may hold what their schema would prune, because a stored definition has such.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unpruned {
    Refused,
    Tolerated,
}

/// What is wrong with the defaults of a schema.
pub(super) fn validate(schema: &Arc<Schema>, unpruned: Unpruned, path: &Path) -> ErrorList {
    let mut validation = Validation { unpruned, errors: ErrorList::new(), budget: OBJECT_COST_BUDGET };
    if schema.default.is_some() || schema.below.defaults {
        validation.node(schema, path, &Resource { schema, steps: Steps::Top, is_meta: false }, Root::Resource);
    }
    validation.errors
}

/// Whether a default of the schema holds what would be pruned.
pub(super) fn has_unpruned(schema: &Schema) -> bool {
    schema.default.as_ref().is_some_and(|default| is_unpruned(default, schema, root_of(schema)))
        || children(schema).any(has_unpruned)
}

fn children(schema: &Schema) -> impl Iterator<Item = &Schema> {
    let all = schema.properties.iter().map(|(_, child)| child).chain(&schema.items).chain(schema.additional());
    all.map(|child| &**child).filter(|child| child.default.is_some() || child.below.defaults)
}

/// The resource, embedded or not, that a schema is part of, and the way to it from there.
struct Resource<'a> {
    schema: &'a Schema,
    steps: Steps<'a>,
    /// Within `apiVersion`, `kind` or `metadata`.
    is_meta: bool,
}

#[derive(Clone, Copy)]
enum Steps<'a> {
    Top,
    Field(&'a Steps<'a>, &'a str),
    Item(&'a Steps<'a>),
}

impl Steps<'_> {
    /// An object that has nothing but the value at the end of the way.
    fn around(&self, value: Value) -> Value {
        match self {
            Steps::Top => value,
            Steps::Field(parent, name) => parent.around(Value::Object(Map::from_iter([((*name).to_owned(), value)]))),
            Steps::Item(parent) => parent.around(Value::Array(vec![value])),
        }
    }
}

struct Validation {
    unpruned: Unpruned,
    errors: ErrorList,
    /// What rules may still cost; negative when they have to stop.
    budget: i64,
}

impl Validation {
    fn node(&mut self, schema: &Arc<Schema>, path: &Path, within: &Resource<'_>, root: Root) {
        let own = Resource { schema, steps: Steps::Top, is_meta: false };
        let is_resource = schema.embedded_resource || root == Root::Resource;
        let within = if is_resource { &own } else { within };
        if self.budget < 0 {
            return;
        }
        if let Some(default) = &schema.default {
            let path = path.child("default");
            if within.is_meta {
                self.inside_metadata(default, schema, within, &path);
            } else {
                self.plain(default, schema, root, &path);
            }
        }
        if !schema.below.defaults {
            return;
        }
        if let Some(items) = &schema.items {
            let steps = Steps::Item(&within.steps);
            let within = Resource { steps, ..*within };
            self.node(items, &path.child("items"), &within, Root::Value);
        }
        for (name, property) in &schema.properties {
            let is_meta = within.is_meta || (is_resource && matches!(&**name, "metadata" | "apiVersion" | "kind"));
            let within = Resource { steps: Steps::Field(&within.steps, name), is_meta, schema: within.schema };
            self.node(property, &path.child("properties").key(name), &within, Root::Value);
        }
    }

    fn plain(&mut self, default: &Value, schema: &Arc<Schema>, root: Root, path: &Path) {
        let root = if root == Root::Resource { root } else { root_of(schema) };
        if self.unpruned == Unpruned::Refused && is_unpruned(default, schema, root) {
            self.errors.push(Error::invalid(path, default.clone(), "must not have unknown fields"));
        }
        let mut coerced = default.clone();
        if let Err(error) = coerce_at(&mut coerced, schema, root, MalformedFields::Refuse, path) {
            self.errors.push(error);
            return;
        }
        let mut errors = validate_embedded(&coerced, schema, root, path, EMBEDDED_RULES);
        if errors.is_empty() {
            errors = self.value(&coerced, schema, path);
        }
        self.errors.extend(errors);
    }

    /// Metadata is judged as part of an object that has nothing else.
    fn inside_metadata(&mut self, default: &Value, schema: &Arc<Schema>, within: &Resource<'_>, path: &Path) {
        let mut object = within.steps.around(default.clone());
        if let Some(fields) = object.as_object_mut() {
            fields.entry("kind").or_insert_with(|| json!("Validation"));
            fields.entry("apiVersion").or_insert_with(|| json!("validation/v1"));
        }
        let coerced = coerce(&mut object, within.schema, Root::Resource, MalformedFields::Refuse);
        let fault = match coerced {
            Err(error) => Some(error.to_string()),
            Ok(_) => {
                aggregate(&validate_embedded(&object, within.schema, Root::Resource, &Path::root(), EMBEDDED_RULES))
            }
        };
        match fault {
            Some(fault) => {
                let detail = format!("must result in valid metadata: {fault}");
                self.errors.push(Error::invalid(path, default.clone(), detail));
            }
            None => {
                let errors = self.value(default, schema, path);
                self.errors.extend(errors);
            }
        }
    }

    /// What the schema says of a default, and if it is content what the rules say.
    fn value(&mut self, default: &Value, schema: &Arc<Schema>, path: &Path) -> ErrorList {
        let errors = validate_default(default, schema, path);
        if errors.is_empty() { rules::validate_default(schema, path, default, &mut self.budget) } else { errors }
    }
}

fn root_of(schema: &Schema) -> Root {
    if schema.embedded_resource { Root::Resource } else { Root::Value }
}

fn is_unpruned(default: &Value, schema: &Schema, root: Root) -> bool {
    let mut pruned = default.clone();
    prune(&mut pruned, schema, PruneOptions { root, unknown_fields: UnknownFields::Ignore });
    pruned != *default
}

/// Errors as one text: each once, in brackets if there are several.
pub(super) fn aggregate(errors: &[Error]) -> Option<String> {
    let mut texts: Vec<String> = Vec::new();
    for error in errors {
        let text = error.to_string();
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match texts.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        many => Some(format!("[{}]", many.join(", "))),
    }
}
