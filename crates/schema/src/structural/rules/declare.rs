//! From a structural schema to the type that rules see. Sizes that the schema does not bound are bounded by the largest
//! request, so that every rule has an estimate.

use std::sync::Arc;

use bailiwick_cel::decl::limits;
use bailiwick_cel::{DeclField, DeclKind, DeclType, ListSemantics};

use crate::structural::schema::{Kind, ListType, Schema, ValueValidation};

/// A code point takes up to this many bytes, and lengths are counted in code points.
const BYTES_PER_CHARACTER: u64 = 4;

/// The longest string a request can hold, quotation marks aside.
const MAX_STRING: u64 = limits::MAX_REQUEST_SIZE_BYTES - 2;

/// Whether `apiVersion`, `kind` and `metadata` are there without being declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The schema of a whole object, or of one embedded in another.
    Resource,
    Inside,
}

impl Place {
    /// Where a schema below the root stands.
    pub fn of(schema: &Schema) -> Self {
        if schema.embedded_resource { Self::Resource } else { Self::Inside }
    }
}

/// The type of a schema, or `None` when rules cannot use values of it.
pub(super) fn declare(schema: &Schema, place: Place) -> Option<Arc<DeclType>> {
    let validation = schema.validation.as_deref();
    let mut decl = match schema.kind {
        _ if schema.int_or_string => {
            let max = max_length(validation).map_or(MAX_STRING, |max| max.saturating_mul(BYTES_PER_CHARACTER));
            DeclType::new(DeclKind::IntOrString).with_max_elements(max)
        }
        Some(Kind::Array) => list(schema, validation)?,
        Some(Kind::Object) => match schema.additional() {
            Some(values) => {
                let value = declare(values, Place::of(values))?;
                let max = size(validation.and_then(|v| v.max_properties)).unwrap_or_else(|| {
                    // A key is at least `"":` and an entry ends in a comma; upstream counts six bytes.
                    MAX_STRING / value.min_serialized_size.saturating_add(6)
                });
                DeclType::map(value, max)
            }
            None => object(schema, place),
        },
        Some(Kind::String) => string(validation),
        Some(Kind::Boolean) => DeclType::new(DeclKind::Bool),
        Some(Kind::Number) => DeclType::new(DeclKind::Double),
        Some(Kind::Integer) => DeclType::new(DeclKind::Int),
        None => return None,
    };
    decl.nullable = schema.nullable;
    Some(Arc::new(decl))
}

fn size(limit: Option<i64>) -> Option<u64> {
    limit.map(|limit| u64::try_from(limit).unwrap_or(0))
}

fn max_length(validation: Option<&ValueValidation>) -> Option<u64> {
    size(validation.and_then(|validation| validation.max_length))
}

fn list(schema: &Schema, validation: Option<&ValueValidation>) -> Option<DeclType> {
    let items = schema.items.as_deref()?;
    let element = declare(items, Place::of(items))?;
    let max = size(validation.and_then(|v| v.max_items))
        .unwrap_or_else(|| MAX_STRING / element.min_serialized_size.saturating_add(1));
    let semantics = match &schema.list_type {
        None | Some(ListType::Atomic) => ListSemantics::Atomic,
        Some(ListType::Set) => ListSemantics::Set,
        Some(ListType::Map(keys)) => ListSemantics::Map(keys.clone()),
    };
    Some(DeclType::list(element, semantics, max))
}

fn string(validation: Option<&ValueValidation>) -> DeclType {
    let length = max_length(validation);
    match validation.map(|validation| &*validation.format).unwrap_or_default() {
        "byte" => DeclType::new(DeclKind::Bytes).with_max_elements(length.unwrap_or(MAX_STRING)),
        "duration" => DeclType::new(DeclKind::Duration).with_max_elements(limits::MAX_DURATION_SIZE),
        "date" => DeclType::new(DeclKind::Date).with_max_elements(limits::DATE_SIZE),
        "date-time" => DeclType::new(DeclKind::DateTime).with_max_elements(limits::MAX_DATE_TIME_SIZE),
        _ => {
            let choices = validation.map(|validation| &*validation.enumeration).unwrap_or_default();
            let longest = || choices.iter().filter_map(|choice| choice.as_str()).map(str::len).max().unwrap_or(0);
            let max = match length {
                Some(length) => length.saturating_mul(BYTES_PER_CHARACTER),
                None if choices.is_empty() => MAX_STRING,
                None => longest() as u64,
            };
            DeclType::new(DeclKind::String).with_max_elements(max)
        }
    }
}

fn object(schema: &Schema, place: Place) -> DeclType {
    let validation = schema.validation.as_deref();
    let required = validation.map(|validation| &*validation.required).unwrap_or_default();
    let with_meta = place == Place::Resource && !declares_meta(schema);
    let mut fields = Vec::with_capacity(schema.properties.len() + if with_meta { 3 } else { 0 });
    let mut min_size = limits::MIN_CONTAINER_SIZE;
    let mut add = |name: &str, decl: Option<Arc<DeclType>>, has_default: bool| {
        let required = required.iter().any(|known| **known == *name);
        if let (Some(decl), true, false) = (&decl, required, has_default) {
            // Quotation marks, a colon and a comma come with each.
            min_size = min_size.saturating_add(name.len() as u64 + decl.min_serialized_size + 4);
        }
        fields.push(DeclField { name: name.into(), decl: decl.unwrap_or_else(preserved), required });
    };
    for (name, property) in &schema.properties {
        if with_meta && META.contains(&&**name) {
            continue;
        }
        add(name, declare(property, Place::of(property)), property.default.is_some());
    }
    if with_meta {
        let text = || Some(Arc::new(DeclType::new(DeclKind::String).with_max_elements(MAX_STRING)));
        add("apiVersion", text(), false);
        add("kind", text(), false);
        let names = ["generateName", "name"]
            .into_iter()
            .filter_map(|name| Some(DeclField { name: name.into(), decl: text()?, required: false }));
        add("metadata", Some(Arc::new(DeclType::object(names.collect()))), false);
    }
    let mut decl = DeclType::object(fields);
    decl.min_serialized_size = min_size;
    decl
}

/// What every object has.
const META: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Whether the schema itself declares all that every object has.
fn declares_meta(schema: &Schema) -> bool {
    let kind = |schema: &Schema, name: &str| schema.property(name).and_then(|property| property.kind);
    kind(schema, "kind") == Some(Kind::String)
        && kind(schema, "apiVersion") == Some(Kind::String)
        && schema.property("metadata").is_some_and(|metadata| {
            metadata.kind == Some(Kind::Object)
                && kind(metadata, "name") == Some(Kind::String)
                && kind(metadata, "generateName") == Some(Kind::String)
        })
}

/// Rules cannot look inside, but objects that hold it are still compared whole.
fn preserved() -> Arc<DeclType> {
    Arc::new(DeclType { nullable: true, ..DeclType::new(DeclKind::Preserved) })
}
