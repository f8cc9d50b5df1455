//! From a version's `openAPIV3Schema` to a [`Schema`]. The definition has been validated before it was stored; what is
//! refused here is what such a definition cannot hold, and what would not be safe to walk.

use std::sync::Arc;

use serde_json::{Map, Number, Value};

use super::enumeration::Members;
use super::format::Format;
use super::interner::intern;
use super::pattern::Pattern;
use super::schema::{Additional, Below, Junctors, Kind, ListType, MapType, Rule, Schema, ValueValidation};

/// Deepest nesting of schemas. Bodies nest at most 120 levels of JSON, and a property costs two of them.
pub const MAX_SCHEMA_DEPTH: usize = 128;
/// Most nodes of one schema. The smallest node takes a dozen bytes of a definition of at most 3 MiB.
pub const MAX_SCHEMA_NODES: usize = 300_000;

/// Fields of a JSON schema that definitions may not use.
const UNSUPPORTED: [&str; 7] =
    ["id", "$schema", "$ref", "patternProperties", "dependencies", "additionalItems", "definitions"];

/// Why a schema cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    #[error("schema is nested more than {MAX_SCHEMA_DEPTH} levels deep")]
    TooDeep,
    #[error("schema has more than {MAX_SCHEMA_NODES} nodes")]
    TooLarge,
    #[error("OpenAPIV3Schema '{0}' is not supported")]
    Unsupported(&'static str),
    #[error("OpenAPIV3Schema 'items' must be a schema, but is an array")]
    ItemsIsArray,
    #[error("internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined")]
    PreservesFalse,
    /// A field does not hold what its name asks for.
    #[error("OpenAPIV3Schema '{0}' is malformed")]
    Malformed(&'static str),
}

/// Compiles a schema as definitions store it. Equal parts of all compiled schemas are shared.
pub fn compile(openapi_v3_schema: &Value) -> Result<Arc<Schema>, CompileError> {
    Compiler { nodes: 0 }.schema(openapi_v3_schema, Place::Structure, 0)
}

/// Where a schema stands. Inside junctors nothing is defaulted or preserved.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Structure,
    Junctor,
}

struct Compiler {
    nodes: usize,
}

type Fields = Map<String, Value>;
type Properties = Box<[(Box<str>, Arc<Schema>)]>;

impl Compiler {
    fn schema(&mut self, json: &Value, place: Place, depth: usize) -> Result<Arc<Schema>, CompileError> {
        self.nodes += 1;
        if depth > MAX_SCHEMA_DEPTH {
            return Err(CompileError::TooDeep);
        }
        if self.nodes > MAX_SCHEMA_NODES {
            return Err(CompileError::TooLarge);
        }
        let fields = json.as_object().ok_or(CompileError::Malformed("schema"))?;
        if let Some(name) = UNSUPPORTED.iter().find(|name| is_set(fields.get(**name))) {
            return Err(CompileError::Unsupported(name));
        }
        if fields.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
            return Err(CompileError::PreservesFalse);
        }
        let kind = kind(fields)?;
        let int_or_string = flag(fields, "x-kubernetes-int-or-string");
        let mut schema = Schema {
            kind,
            nullable: flag(fields, "nullable"),
            int_or_string,
            preserve_unknown_fields: flag(fields, "x-kubernetes-preserve-unknown-fields"),
            embedded_resource: flag(fields, "x-kubernetes-embedded-resource"),
            default: fields.get("default").filter(|v| !v.is_null() && place == Place::Structure).map(go_values),
            properties: self.properties(fields, place, depth)?,
            additional_properties: match fields.get("additionalProperties") {
                None | Some(Value::Null) => Additional::Absent,
                Some(Value::Bool(allowed)) => Additional::Allowed(*allowed),
                Some(schema) => Additional::Schema(self.schema(schema, place, depth + 1)?),
            },
            items: match fields.get("items") {
                None | Some(Value::Null) => None,
                Some(Value::Array(_)) => return Err(CompileError::ItemsIsArray),
                Some(schema) => Some(self.schema(schema, place, depth + 1)?),
            },
            list_type: list_type(fields),
            map_type: match text(fields, "x-kubernetes-map-type") {
                "atomic" => Some(MapType::Atomic),
                "granular" => Some(MapType::Granular),
                _ => None,
            },
            validation: self.validation(fields, kind, int_or_string, depth)?,
            rules: rules(fields)?,
            below: Below::default(),
        };
        schema.below = summary(&schema);
        Ok(intern(schema))
    }

    fn properties(&mut self, fields: &Fields, place: Place, depth: usize) -> Result<Properties, CompileError> {
        let properties = match fields.get("properties") {
            None | Some(Value::Null) => return Ok(Box::default()),
            Some(properties) => properties.as_object().ok_or(CompileError::Malformed("properties"))?,
        };
        let mut compiled = Vec::with_capacity(properties.len());
        for (name, json) in properties {
            compiled.push((name.as_str().into(), self.schema(json, place, depth + 1)?));
        }
        compiled.sort_by(|(a, _): &(Box<str>, _), (b, _)| a.cmp(b));
        Ok(compiled.into())
    }

    fn validation(
        &mut self,
        fields: &Fields,
        kind: Option<Kind>,
        int_or_string: bool,
        depth: usize,
    ) -> Result<Option<Box<ValueValidation>>, CompileError> {
        if !fields.keys().any(|name| may_validate(name)) {
            return Ok(None);
        }
        let format = text(fields, "format");
        let junctors = Junctors {
            all_of: self.alternatives(fields, "allOf", depth)?,
            any_of: self.alternatives(fields, "anyOf", depth)?,
            one_of: self.alternatives(fields, "oneOf", depth)?,
            not: match fields.get("not") {
                None | Some(Value::Null) => None,
                Some(schema) => Some(self.schema(schema, Place::Junctor, depth + 1)?),
            },
        };
        let validation = ValueValidation {
            format: format.into(),
            checked_format: Format::of(format, if int_or_string { None } else { kind }),
            maximum: number(fields, "maximum")?,
            exclusive_maximum: flag(fields, "exclusiveMaximum"),
            minimum: number(fields, "minimum")?,
            exclusive_minimum: flag(fields, "exclusiveMinimum"),
            max_length: integer(fields, "maxLength")?,
            min_length: integer(fields, "minLength")?,
            pattern: text(fields, "pattern").into(),
            matcher: Pattern::default(),
            max_items: integer(fields, "maxItems")?,
            min_items: integer(fields, "minItems")?,
            unique_items: flag(fields, "uniqueItems"),
            multiple_of: number(fields, "multipleOf")?,
            enumeration: list(fields, "enum")?.iter().map(go_values).collect(),
            members: Members::default(),
            max_properties: integer(fields, "maxProperties")?,
            min_properties: integer(fields, "minProperties")?,
            required: list(fields, "required")?.iter().filter_map(Value::as_str).map(Into::into).collect(),
            junctors: (junctors != Junctors::default()).then(|| Box::new(junctors)),
        };
        Ok((validation != ValueValidation::default()).then(|| Box::new(validation)))
    }

    fn alternatives(
        &mut self,
        fields: &Fields,
        name: &'static str,
        depth: usize,
    ) -> Result<Box<[Arc<Schema>]>, CompileError> {
        list(fields, name)?.iter().map(|json| self.schema(json, Place::Junctor, depth + 1)).collect()
    }
}

/// What a subtree has, from its children's summaries.
fn summary(schema: &Schema) -> Below {
    let mut below = Below {
        defaults: false,
        embedded_resources: schema.embedded_resource,
        keyed_lists: matches!(schema.list_type, Some(ListType::Set | ListType::Map(_))),
        rules: !schema.rules.is_empty(),
    };
    let children = schema.properties.iter().map(|(_, child)| child).chain(&schema.items).chain(schema.additional());
    for child in children {
        below.defaults |= child.default.is_some() || child.below.defaults;
        below.embedded_resources |= child.below.embedded_resources;
        below.keyed_lists |= child.below.keyed_lists;
        below.rules |= child.below.rules;
    }
    below
}

/// Go reads integers beyond 64 bits as floats.
fn go_values(value: &Value) -> Value {
    match value {
        Value::Number(n) if n.as_i64().is_none() => n.as_f64().map_or(Value::Null, Value::from),
        Value::Array(items) => items.iter().map(go_values).collect(),
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), go_values(value))).collect(),
        other => other.clone(),
    }
}

fn kind(fields: &Fields) -> Result<Option<Kind>, CompileError> {
    Ok(Some(match text(fields, "type") {
        "" => return Ok(None),
        "object" => Kind::Object,
        "array" => Kind::Array,
        "string" => Kind::String,
        "integer" => Kind::Integer,
        "number" => Kind::Number,
        "boolean" => Kind::Boolean,
        _ => return Err(CompileError::Malformed("type")),
    }))
}

fn list_type(fields: &Fields) -> Option<ListType> {
    match text(fields, "x-kubernetes-list-type") {
        "atomic" => Some(ListType::Atomic),
        "set" => Some(ListType::Set),
        "map" => {
            let keys = fields.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
            Some(ListType::Map(keys.into_iter().flatten().filter_map(Value::as_str).map(Into::into).collect()))
        }
        _ => None,
    }
}

fn rules(fields: &Fields) -> Result<Box<[Rule]>, CompileError> {
    let rules = list(fields, "x-kubernetes-validations")?;
    rules
        .iter()
        .map(|json| {
            let fields = json.as_object().ok_or(CompileError::Malformed("x-kubernetes-validations"))?;
            Ok(Rule {
                rule: text(fields, "rule").into(),
                message: text(fields, "message").into(),
                message_expression: text(fields, "messageExpression").into(),
                reason: text(fields, "reason").into(),
                field_path: text(fields, "fieldPath").into(),
                optional_old_self: fields.get("optionalOldSelf").and_then(Value::as_bool),
            })
        })
        .collect()
}

fn is_set(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Object(map)) => !map.is_empty(),
        Some(_) => true,
    }
}

/// Whether a keyword may say which values are valid. Most schemas have none that does, and are not searched for each of
/// twenty.
fn may_validate(keyword: &str) -> bool {
    !matches!(
        keyword,
        "additionalProperties" | "default" | "description" | "items" | "nullable" | "properties" | "title" | "type"
    ) && !keyword.starts_with("x-kubernetes-")
}

fn flag(fields: &Fields, name: &str) -> bool {
    fields.get(name).and_then(Value::as_bool).unwrap_or_default()
}

fn text<'a>(fields: &'a Fields, name: &str) -> &'a str {
    fields.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn integer(fields: &Fields, name: &'static str) -> Result<Option<i64>, CompileError> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value.as_i64().map(Some).ok_or(CompileError::Malformed(name)),
    }
}

fn number(fields: &Fields, name: &'static str) -> Result<Option<Number>, CompileError> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Number(number)) => Ok(Some(number.clone())),
        Some(_) => Err(CompileError::Malformed(name)),
    }
}

fn list<'a>(fields: &'a Fields, name: &'static str) -> Result<&'a [Value], CompileError> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(&[]),
        Some(value) => value.as_array().map(Vec::as_slice).ok_or(CompileError::Malformed(name)),
    }
}
