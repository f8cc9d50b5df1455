//! From a type to its definition: fields, references, defaults, enums and the `x-kubernetes-` extensions.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Descriptions, Form, Leaf};
use crate::types::{Field, FieldType, GroupVersionKind, ListType, Type};

/// Something a document defines by name.
#[derive(Clone, Copy, Debug)]
pub enum Definition {
    Native(&'static Type),
    Leaf(Leaf),
}

/// These definitions and all they refer to, by name.
pub fn closure(roots: impl IntoIterator<Item = Definition>) -> BTreeMap<&'static str, Definition> {
    let mut found = BTreeMap::new();
    let mut waiting: Vec<Definition> = roots.into_iter().collect();
    while let Some(definition) = waiting.pop() {
        if found.insert(definition.name(), definition).is_none() {
            waiting.extend(definition.references());
        }
    }
    found
}

impl Definition {
    /// The name documents define it by.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native(ty) => ty.name,
            Self::Leaf(leaf) => leaf.name(),
        }
    }

    fn references(self) -> Vec<Self> {
        match self {
            Self::Native(ty) => ty.json_fields().filter_map(|field| Self::referenced(field.ty)).collect(),
            Self::Leaf(_) => Vec::new(),
        }
    }

    fn referenced(ty: FieldType) -> Option<Self> {
        match ty {
            FieldType::Struct(ty) => Some(Self::Native(ty)),
            FieldType::List(element) | FieldType::WrappedList(element) | FieldType::Map(element) => {
                Self::referenced(*element)
            }
            other => other.definition_name().map(|_| Self::Leaf(Leaf::Field(other))),
        }
    }

    /// The definition as a document writes it. Kinds that every group version has (`DeleteOptions`, `WatchEvent`) name
    /// `group_versions` besides the core one.
    pub fn render(self, form: Form, descriptions: &Descriptions, group_versions: &[(&str, &str)]) -> Value {
        match self {
            Self::Native(ty) => native(ty, form, descriptions, group_versions),
            Self::Leaf(Leaf::VersionInfo) => version_info(form, descriptions),
            Self::Leaf(leaf) => {
                let mut schema = leaf.shape(form);
                describe(&mut schema, descriptions.ty(leaf.name()));
                Value::Object(schema)
            }
        }
    }
}

fn native(ty: &'static Type, form: Form, descriptions: &Descriptions, group_versions: &[(&str, &str)]) -> Value {
    let mut properties = Map::new();
    for field in ty.json_fields() {
        let text = match ty.is_list() {
            true => list_field_text(ty, field, descriptions),
            false => descriptions.field(ty.name, field.name).map(str::to_owned),
        };
        let text = text.map(|text| text + &possible_values(field));
        properties.insert(field.name.to_owned(), property(field, form, text.as_deref()));
    }
    let mut schema = Map::new();
    match ty.item_type() {
        Some(item) => describe(&mut schema, Some(&format!("A list of {} objects.", item.short_go_name()))),
        None => describe(&mut schema, descriptions.ty(ty.name)),
    }
    schema.insert("type".into(), "object".into());
    let required: Vec<&str> = ty.json_fields().filter(|field| field.is_required()).map(|field| field.name).collect();
    if !required.is_empty() {
        schema.insert("required".into(), json!(required));
    }
    if !properties.is_empty() {
        schema.insert("properties".into(), Value::Object(properties));
    }
    let kinds = kinds(ty, group_versions);
    if !kinds.is_empty() {
        schema.insert("x-kubernetes-group-version-kind".into(), Value::Array(kinds));
    }
    if ty.atomic {
        schema.insert("x-kubernetes-map-type".into(), "atomic".into());
    }
    if let Ok(unions @ Value::Array(_)) = serde_json::from_str(ty.unions) {
        schema.insert("x-kubernetes-unions".into(), unions);
    }
    Value::Object(schema)
}

/// The kinds a type is, in the order of groups.
fn kinds(ty: &'static Type, group_versions: &[(&str, &str)]) -> Vec<Value> {
    let entry = |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    let own = ty.gvks.iter().map(|GroupVersionKind { group, version, kind }| entry(group, version, kind));
    let kind = ty.short_go_name();
    let elsewhere = group_versions
        .iter()
        .filter(|(group, version)| {
            matches!(kind, "DeleteOptions" | "WatchEvent")
                && !ty.gvks.iter().any(|own| own.group == *group && own.version == *version)
        })
        .map(|(group, version)| entry(group, version, kind));
    own.chain(elsewhere).collect()
}

fn list_field_text(ty: &'static Type, field: &Field, descriptions: &Descriptions) -> Option<String> {
    match field.name {
        "items" => ty.item_type().map(|item| format!("The {} objects of this list.", item.short_go_name())),
        "metadata" => descriptions.list_metadata().map(str::to_owned),
        name => descriptions.field(ty.name, name).map(str::to_owned),
    }
}

/// What follows the text of a field that takes certain words only. Upstream adds a text to most of them, which is not
/// published anywhere else.
fn possible_values(field: &Field) -> String {
    let values = if field.ty.list_element().is_some() { &[] } else { field.enum_values() };
    let heading = if values.is_empty() { "" } else { "\n\nPossible enum values:" };
    values.iter().fold(heading.to_owned(), |text, value| format!("{text}\n - `\"{value}\"`"))
}

fn property(field: &Field, form: Form, text: Option<&str>) -> Value {
    let zero = (form == Form::V3 && field.has_zero_default()).then(|| zero(field.ty)).flatten();
    let mut schema = value(field.ty, form, text, zero);
    let values = field.enum_values();
    if !values.is_empty() {
        let place = match field.ty.list_element() {
            Some(_) => schema.get_mut("items").and_then(Value::as_object_mut),
            None => Some(&mut schema),
        };
        if let Some(place) = place {
            place.insert("enum".into(), json!(values));
        }
    }
    match field.list_type() {
        None => {}
        Some(ListType::Atomic) => {
            schema.insert("x-kubernetes-list-type".into(), "atomic".into());
        }
        Some(ListType::Set) => {
            schema.insert("x-kubernetes-list-type".into(), "set".into());
        }
        Some(ListType::Map(keys)) => {
            schema.insert("x-kubernetes-list-map-keys".into(), json!(keys));
            schema.insert("x-kubernetes-list-type".into(), "map".into());
        }
    }
    if let Some(key) = field.patch_merge_key() {
        schema.insert("x-kubernetes-patch-merge-key".into(), key.into());
    }
    if !field.patch_strategies().is_empty() {
        schema.insert("x-kubernetes-patch-strategy".into(), field.patch_strategies().join(",").into());
    }
    Value::Object(schema)
}

/// The schema of a field or element, with its description and default.
fn value(ty: FieldType, form: Form, text: Option<&str>, default: Option<Value>) -> Map<String, Value> {
    let mut schema = match Definition::referenced_directly(ty) {
        Some(definition) => {
            let reference = json!({"$ref": form.reference(definition.name())});
            // Siblings of a reference mean nothing in version 3, so a reference with company goes into an allOf.
            if form == Form::V3 && (text.is_some() || default.is_some()) {
                object(json!({"allOf": [reference]}))
            } else {
                object(reference)
            }
        }
        None => object(match ty {
            FieldType::String => json!({"type": "string"}),
            FieldType::Bool => json!({"type": "boolean"}),
            FieldType::Int32 => json!({"type": "integer", "format": "int32"}),
            FieldType::Int64 => json!({"type": "integer", "format": "int64"}),
            FieldType::Double => json!({"type": "number", "format": "double"}),
            FieldType::Bytes => json!({"type": "string", "format": "byte"}),
            FieldType::List(inner) | FieldType::WrappedList(inner) => {
                json!({"type": "array", "items": element(*inner, form)})
            }
            FieldType::Map(inner) => json!({"type": "object", "additionalProperties": element(*inner, form)}),
            _ => json!({"type": "object"}),
        }),
    };
    describe(&mut schema, text);
    if let Some(default) = default {
        schema.insert("default".into(), default);
    }
    schema
}

fn element(ty: FieldType, form: Form) -> Map<String, Value> {
    let default = (form == Form::V3).then(|| zero(ty)).flatten();
    value(ty, form, None, default)
}

impl Definition {
    /// The definition a value of this type is, not counting elements.
    fn referenced_directly(ty: FieldType) -> Option<Self> {
        match ty {
            FieldType::List(_) | FieldType::WrappedList(_) | FieldType::Map(_) => None,
            other => Self::referenced(other),
        }
    }
}

/// Go's zero value, for types whose zero value is something one can write.
fn zero(ty: FieldType) -> Option<Value> {
    Some(match ty {
        FieldType::String => "".into(),
        FieldType::Bool => false.into(),
        FieldType::Int32 | FieldType::Int64 | FieldType::Double => 0.into(),
        FieldType::Struct(_) => json!({}),
        _ => return None,
    })
}

/// What a server always says about its version, in Go's order.
const VERSION_REQUIRED: &[&str] =
    &["major", "minor", "gitVersion", "gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"];

/// The version's definition; required strings have the empty string as default, as everywhere.
fn version_info(form: Form, descriptions: &Descriptions) -> Value {
    let described = descriptions.schema(Leaf::VersionInfo.name());
    let mut schema = described.cloned().unwrap_or_else(|| json!({"type": "object"}));
    schema["required"] = json!(VERSION_REQUIRED);
    if form == Form::V3 {
        for name in VERSION_REQUIRED {
            if let Some(property) = schema.get_mut("properties").and_then(|properties| properties.get_mut(*name)) {
                property["default"] = "".into();
            }
        }
    }
    schema
}

fn describe(schema: &mut Map<String, Value>, text: Option<&str>) {
    if let Some(text) = text {
        schema.insert("description".into(), text.into());
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
