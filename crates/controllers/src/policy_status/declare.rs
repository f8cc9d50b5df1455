//! From a published OpenAPI schema to the type that expressions are checked against.

use std::sync::Arc;

use bailiwick_cel::{DeclField, DeclKind, DeclType, ListSemantics};
use serde_json::Value;

/// References are followed this deep; published schemas of native types end long before.
const MAX_DEPTH: usize = 64;

/// The type of an object with this schema, or `None` when nothing can be said of it.
pub(super) fn declare(schema: &Value, schemas: &Value) -> Option<Arc<DeclType>> {
    Declaring { schemas, followed: Vec::new() }.node(schema, Place::Resource)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Has `apiVersion`, `kind` and the name in its metadata, declared or not.
    Resource,
    Inside,
}

struct Declaring<'a> {
    schemas: &'a Value,
    /// The references that led here.
    followed: Vec<&'a str>,
}

impl<'a> Declaring<'a> {
    fn node(&mut self, schema: &'a Value, place: Place) -> Option<Arc<DeclType>> {
        let Some(reference) = reference(schema) else { return self.plain(schema, place) };
        if self.followed.contains(&reference) || self.followed.len() > MAX_DEPTH {
            // Types that contain themselves end in an object of which nothing is known.
            return Some(Arc::new(DeclType::object(Vec::new())));
        }
        let name = reference.rsplit('/').next()?;
        self.followed.push(reference);
        let found = self.schemas.get(name).and_then(|schema| self.plain(schema, place));
        self.followed.pop();
        found
    }

    fn plain(&mut self, schema: &'a Value, place: Place) -> Option<Arc<DeclType>> {
        if flag(schema, "x-kubernetes-int-or-string") || schema["format"] == "int-or-string" {
            return Some(scalar(DeclKind::IntOrString));
        }
        let kind = match schema["type"].as_str()? {
            "array" => {
                let element = self.node(schema.get("items")?, Place::of(&schema["items"]))?;
                return Some(Arc::new(DeclType::list(element, ListSemantics::Atomic, 0)));
            }
            "object" => return self.object(schema, place),
            "string" => match schema["format"].as_str().unwrap_or_default() {
                "byte" => DeclKind::Bytes,
                "duration" => DeclKind::Duration,
                "date" => DeclKind::Date,
                "date-time" => DeclKind::DateTime,
                _ => DeclKind::String,
            },
            "boolean" => DeclKind::Bool,
            "number" => DeclKind::Double,
            "integer" => DeclKind::Int,
            _ => return None,
        };
        Some(scalar(kind))
    }

    fn object(&mut self, schema: &'a Value, place: Place) -> Option<Arc<DeclType>> {
        if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
            return Some(Arc::new(DeclType::map(self.node(values, Place::of(values))?, 0)));
        }
        let mut fields = Vec::new();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            // What has no type cannot be named.
            if let Some(decl) = self.node(property, Place::of(property)) {
                fields.push(DeclField { name: name.as_str().into(), decl, required: false });
            }
        }
        if place == Place::Resource && !declares_meta(&fields) {
            fields.retain(|field| !matches!(&*field.name, "apiVersion" | "kind" | "metadata"));
            let text = |name: &str| DeclField { name: name.into(), decl: scalar(DeclKind::String), required: false };
            let metadata = Arc::new(DeclType::object(vec![text("name"), text("generateName")]));
            fields.extend([text("apiVersion"), text("kind")]);
            fields.push(DeclField { name: "metadata".into(), decl: metadata, required: false });
        }
        Some(Arc::new(DeclType::object(fields)))
    }
}

impl Place {
    fn of(schema: &Value) -> Self {
        if flag(schema, "x-kubernetes-embedded-resource") { Self::Resource } else { Self::Inside }
    }
}

fn flag(schema: &Value, name: &str) -> bool {
    schema[name].as_bool().unwrap_or_default()
}

fn scalar(kind: DeclKind) -> Arc<DeclType> {
    Arc::new(DeclType::new(kind))
}

/// A reference may stand in an `allOf`, beside a description.
fn reference(schema: &Value) -> Option<&str> {
    let wrapped = || schema["allOf"].as_array()?.iter().find_map(|part| part["$ref"].as_str());
    schema["$ref"].as_str().or_else(wrapped)
}

fn declares_meta(fields: &[DeclField]) -> bool {
    let find = |fields: &[DeclField], name: &str| fields.iter().find(|f| *f.name == *name).map(|f| f.decl.clone());
    let is_text = |decl: Option<Arc<DeclType>>| decl.is_some_and(|decl| decl.kind == DeclKind::String);
    is_text(find(fields, "apiVersion"))
        && is_text(find(fields, "kind"))
        && find(fields, "metadata").is_some_and(|metadata| {
            ["name", "generateName"]
                .iter()
                .all(|name| metadata.field(name).is_some_and(|f| f.decl.kind == DeclKind::String))
        })
}
