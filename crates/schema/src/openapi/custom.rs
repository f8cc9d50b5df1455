//! Definitions of custom resources: the kind and its list, made of what a CustomResourceDefinition says about one version.
//!
//! The schema is published as given where the form can say it; [`publish`] drops what it cannot. What every object has
//! (`apiVersion`, `kind`, `metadata`) is described as for native kinds, whatever the definition says about it.

mod number;
mod publish;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::{Descriptions, Form};
use crate::types::Types;
use publish::publish;

/// One version of a custom resource, as far as its definitions go.
pub struct CustomDefinition<'a> {
    pub group: &'a str,
    pub version: &'a str,
    pub kind: &'a str,
    pub list_kind: &'a str,
    pub plural: &'a str,
    /// `spec.preserveUnknownFields` of the definition.
    pub preserve_unknown_fields: bool,
    /// The fields selectors may name, as paths without the first dot.
    pub selectable_fields: Vec<&'a str>,
    /// The version's `openAPIV3Schema`; `None` when it has none.
    pub schema: Option<Value>,
}

/// The name of a custom kind in documents: the group's words backwards, version and kind.
pub fn custom_name(group: &str, version: &str, kind: &str) -> String {
    let mut name: String = group.rsplit('.').flat_map(|word| [word, "."]).collect();
    name.extend([version, ".", kind]);
    name
}

/// A kind's definition and its list's, each with its name.
pub struct CustomDefinitions {
    pub object: (String, Value),
    pub list: (String, Value),
}

impl CustomDefinition<'_> {
    /// The definitions of the kind and of its list. Version 2 has one name space for all groups, in which native
    /// definitions come first: a custom one of the same name gets another.
    pub fn render(self, form: Form) -> CustomDefinitions {
        let name = |kind: &str| unique(form, custom_name(self.group, self.version, kind));
        let (object_name, list_name) = (name(self.kind), name(self.list_kind));
        let list = self.list(form, &object_name);
        CustomDefinitions { list: (list_name, list), object: (object_name, self.object(form)) }
    }

    fn object(self, form: Form) -> Value {
        let open = |schema: &Value| {
            self.preserve_unknown_fields || schema.get(publish::PRESERVE_UNKNOWN_FIELDS) == Some(&Value::Bool(true))
        };
        let kind = self.group_version_kind(self.kind);
        let mut object = match self.schema {
            // Clients that read version 2 take properties for the only ones there are.
            Some(schema) if form == Form::V3 || !open(&schema) => published(schema, form),
            _ => Map::from_iter([("type".to_owned(), "object".into())]),
        };
        object.insert(GROUP_VERSION_KIND.into(), kind);
        select(&mut object, &self.selectable_fields);
        Value::Object(object)
    }

    fn list(&self, form: Form, object_name: &str) -> Value {
        let (kind, list_kind, plural) = (self.kind, self.list_kind, self.plural);
        let items = json!({
            "description": format!("List of {plural}. More info: {CONVENTIONS}"),
            "type": "array",
            "items": {"$ref": form.reference(object_name)},
        });
        let texts = &*TEXTS;
        let mut list = Map::new();
        list.insert("description".into(), format!("{list_kind} is a list of {kind}").into());
        list.insert("type".into(), "object".into());
        list.insert("required".into(), json!(["items"]));
        list.insert(
            "properties".into(),
            json!({
                "apiVersion": text_field(&texts.api_version),
                "items": items,
                "kind": text_field(&texts.kind),
                "metadata": metadata(form, Types::native().list_meta().name, &texts.list_metadata),
            }),
        );
        list.insert(GROUP_VERSION_KIND.into(), self.group_version_kind(list_kind));
        select(&mut list, &self.selectable_fields);
        Value::Object(list)
    }

    fn group_version_kind(&self, kind: &str) -> Value {
        json!([{"group": self.group, "kind": kind, "version": self.version}])
    }
}

const GROUP_VERSION_KIND: &str = "x-kubernetes-group-version-kind";
const CONVENTIONS: &str = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";

/// What `kubectl explain` says about the fields every object has.
struct Texts {
    api_version: String,
    kind: String,
    metadata: String,
    list_metadata: String,
}

static TEXTS: LazyLock<Texts> = LazyLock::new(|| {
    const CONFIG_MAP: &str = "io.k8s.api.core.v1.ConfigMap";
    let descriptions = Descriptions::of([CONFIG_MAP]);
    let field = |name| descriptions.field(CONFIG_MAP, name).unwrap_or_default().to_owned();
    Texts {
        api_version: field("apiVersion"),
        kind: field("kind"),
        metadata: field("metadata"),
        list_metadata: descriptions.list_metadata().unwrap_or_default().to_owned(),
    }
});

/// A schema with the fields every object has.
fn published(mut schema: Value, form: Form) -> Map<String, Value> {
    publish(&mut schema, form);
    let Value::Object(mut object) = schema else { return Map::new() };
    let texts = &*TEXTS;
    if let Some(properties) = properties(&mut object) {
        properties.insert("metadata".into(), metadata(form, Types::native().object_meta().name, &texts.metadata));
        properties.insert("apiVersion".into(), text_field(&texts.api_version));
        properties.insert("kind".into(), text_field(&texts.kind));
    }
    object
}

/// The fields of an embedded object, which no schema has to name.
fn embed(object: &mut Map<String, Value>, form: Form) {
    if let Some(properties) = properties(object) {
        let api_version = format!(
            "apiVersion defines the versioned schema of this representation of an object. \
             More info: {CONVENTIONS}#resources"
        );
        let kind = format!(
            "kind is a string value representing the type of this object. In CamelCase. \
             More info: {CONVENTIONS}#types-kinds"
        );
        properties.insert("apiVersion".into(), text_field(&api_version));
        properties.insert("kind".into(), text_field(&kind));
        properties.insert("metadata".into(), metadata(form, Types::native().object_meta().name, &TEXTS.metadata));
    }
    let required = object.entry("required").or_insert_with(|| json!([]));
    if let Value::Array(required) = required {
        for name in ["kind", "apiVersion"] {
            if !required.iter().any(|present| present == name) {
                required.push(name.into());
            }
        }
    }
}

fn properties(object: &mut Map<String, Value>) -> Option<&mut Map<String, Value>> {
    object.entry("properties").or_insert_with(|| Value::Object(Map::new())).as_object_mut()
}

fn text_field(description: &str) -> Value {
    json!({"description": description, "type": "string"})
}

fn metadata(form: Form, name: &str, description: &str) -> Value {
    let reference = form.reference(name);
    match form {
        Form::V2 => json!({"description": description, "$ref": reference}),
        Form::V3 => json!({"description": description, "allOf": [{"$ref": reference}]}),
    }
}

fn select(object: &mut Map<String, Value>, fields: &[&str]) {
    if !fields.is_empty() {
        let fields = fields.iter().map(|path| json!({"fieldPath": path})).collect();
        object.insert("x-kubernetes-selectable-fields".into(), Value::Array(fields));
    }
}

fn unique(form: Form, name: String) -> String {
    match form == Form::V2 && Types::native().by_name(&name).is_some() {
        true => format!("{name}_v2"),
        false => name,
    }
}
