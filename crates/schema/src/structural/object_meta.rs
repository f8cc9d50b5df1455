//! `apiVersion`, `kind` and `metadata` of embedded resources, which are typed although the schema says nothing of them.
//!
//! Coercing gives them the form a typed object would have; validating applies the rules of names and labels, which
//! belong to another crate and are passed in.

use serde_json::{Map, Value};

use super::location::Location;
use super::prune::{MAX_UNKNOWN_FIELDS, Root, is_meta_field};
use super::schema::{Additional, Schema};
use crate::decode::{DecodeError, decode_value};
use crate::field::{Error, ErrorList, Path};
use crate::types::Types;

/// What to do with fields of metadata that do not hold what they should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MalformedFields {
    /// From clients: an error.
    Refuse,
    /// From the store: dropped, so that what was stored can always be read.
    Drop,
}

/// Coerces the metadata of embedded resources, and with [`Root::Resource`] that of the object. Returns the paths of
/// fields that metadata does not have, sorted.
pub fn coerce(
    value: &mut Value,
    schema: &Schema,
    root: Root,
    malformed: MalformedFields,
) -> Result<Vec<String>, Error> {
    coerce_at(value, schema, root, malformed, &Path::root())
}

/// As [`coerce`], for a value found at `path`.
pub fn coerce_at(
    value: &mut Value,
    schema: &Schema,
    root: Root,
    malformed: MalformedFields,
    path: &Path,
) -> Result<Vec<String>, Error> {
    let mut coercion = Coercion { malformed, base: path, unknown: Vec::new() };
    coercion.node(value, schema, schema.embedded_resource || root == Root::Resource, &Location::ROOT)?;
    coercion.unknown.sort_unstable();
    Ok(coercion.unknown)
}

/// Coerces the metadata of a whole object. Returns the paths of fields that metadata does not have, sorted.
pub fn coerce_metadata(object: &mut Value, malformed: MalformedFields) -> Result<Vec<String>, DecodeError> {
    let Some(metadata) = object.get_mut("metadata") else { return Ok(Vec::new()) };
    let Some(strict) = decode_metadata(metadata, malformed)? else { return Ok(Vec::new()) };
    let mut unknown: Vec<String> = unknown_fields(&strict).map(|field| format!("metadata.{field}")).collect();
    unknown.sort_unstable();
    unknown.truncate(MAX_UNKNOWN_FIELDS);
    Ok(unknown)
}

struct Coercion<'a> {
    malformed: MalformedFields,
    base: &'a Path,
    unknown: Vec<String>,
}

impl Coercion<'_> {
    fn node(&mut self, value: &mut Value, schema: &Schema, embedded: bool, at: &Location<'_>) -> Result<(), Error> {
        if !embedded && !schema.below.embedded_resources {
            return Ok(());
        }
        match value {
            Value::Object(map) => {
                if embedded {
                    self.type_meta(map, at)?;
                }
                for (key, value) in map.iter_mut() {
                    if embedded && key == "metadata" {
                        self.metadata(value, at)?;
                    }
                    if let Some(property) = schema.property(key) {
                        self.node(value, property, property.embedded_resource, &at.field(key))?;
                    } else if let Additional::Schema(schema) = &schema.additional_properties {
                        self.node(value, schema, schema.embedded_resource, &at.key(key))?;
                    }
                }
            }
            Value::Array(items) => {
                let Some(schema) = &schema.items else { return Ok(()) };
                for (index, item) in items.iter_mut().enumerate() {
                    self.node(item, schema, schema.embedded_resource, &at.index(index))?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn type_meta(&self, map: &mut Map<String, Value>, at: &Location<'_>) -> Result<(), Error> {
        for name in ["apiVersion", "kind"] {
            let Some(value) = map.get(name).filter(|value| !value.is_string()) else { continue };
            if self.malformed == MalformedFields::Refuse {
                return Err(Error::invalid(&at.path(self.base).child(name), value.clone(), "must be a string"));
            }
            map.remove(name);
        }
        Ok(())
    }

    fn metadata(&mut self, value: &mut Value, at: &Location<'_>) -> Result<(), Error> {
        let strict = decode_metadata(value, self.malformed).map_err(|error| {
            let path = at.path(self.base).child("metadata");
            Error::invalid(&path, value.clone(), error.to_string())
        })?;
        let Some(strict) = strict.filter(|strict| !strict.is_empty()) else { return Ok(()) };
        if self.unknown.len() < MAX_UNKNOWN_FIELDS {
            let prefix = at.path(self.base).child("metadata");
            self.unknown.extend(unknown_fields(&strict).map(|field| prefix.child(field).to_string()));
        }
        Ok(())
    }
}

/// Gives metadata its types; returns what strict decoding says of it, or `None` if it is no metadata and may stay.
fn decode_metadata(value: &mut Value, malformed: MalformedFields) -> Result<Option<Vec<String>>, DecodeError> {
    let decoded = match (decode_value(Types::native().object_meta(), value), malformed) {
        (Ok(decoded), _) => decoded,
        (Err(error), MalformedFields::Refuse) => return Err(error),
        (Err(_), MalformedFields::Drop) => {
            if let Some(fields) = value.as_object_mut() {
                drop_malformed(fields);
            }
            match decode_value(Types::native().object_meta(), value) {
                Ok(decoded) => decoded,
                // Not an object: left as it is.
                Err(_) => return Ok(None),
            }
        }
    };
    *value = decoded.value;
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|name, value| !(name == "creationTimestamp" && value.is_null()));
    }
    Ok(Some(decoded.strict))
}

/// The fields that strict decoding complains of.
fn unknown_fields(strict: &[String]) -> impl Iterator<Item = &str> {
    strict.iter().filter_map(|text| text.split('"').nth(1))
}

/// Removes the fields of metadata that do not decode by themselves.
fn drop_malformed(fields: &mut Map<String, Value>) {
    fields.retain(|name, value| {
        let alone = Value::Object(Map::from_iter([(name.clone(), value.clone())]));
        decode_value(Types::native().object_meta(), &alone).is_ok()
    });
}

/// Rules for embedded resources that another crate knows.
#[derive(Clone, Copy, Debug)]
pub struct EmbeddedRules {
    /// What is wrong with the `metadata` of an object that has a name, in paths that begin with `metadata`. It is
    /// namespaced if it has a namespace, and its name must be a path segment.
    pub object_meta: fn(object: &Value) -> ErrorList,
    /// What is wrong with a kind in lower case as a DNS label (RFC 1035).
    pub lower_kind: fn(kind: &str) -> Vec<String>,
}

/// What is wrong with the type and metadata of embedded resources, and with [`Root::Resource`] of the object itself.
pub fn validate_embedded(value: &Value, schema: &Schema, root: Root, path: &Path, rules: EmbeddedRules) -> ErrorList {
    let mut validation = Validation { rules, base: path, errors: ErrorList::new() };
    validation.node(value, schema, schema.embedded_resource || root == Root::Resource, &Location::ROOT);
    validation.errors
}

struct Validation<'a> {
    rules: EmbeddedRules,
    base: &'a Path,
    errors: ErrorList,
}

impl Validation<'_> {
    fn node(&mut self, value: &Value, schema: &Schema, embedded: bool, at: &Location<'_>) {
        if !embedded && !schema.below.embedded_resources {
            return;
        }
        match value {
            Value::Object(map) => {
                if embedded {
                    self.resource(map, &at.path(self.base));
                }
                for (key, value) in map {
                    if let Some(property) = schema.property(key) {
                        self.node(value, property, property.embedded_resource, &at.field(key));
                    } else if let Additional::Schema(schema) = &schema.additional_properties {
                        self.node(value, schema, schema.embedded_resource, &at.key(key));
                    }
                }
            }
            Value::Array(items) => {
                let Some(schema) = &schema.items else { return };
                for (index, item) in items.iter().enumerate() {
                    self.node(item, schema, schema.embedded_resource, &at.index(index));
                }
            }
            _ => {}
        }
    }

    fn resource(&mut self, map: &Map<String, Value>, path: &Path) {
        for name in ["apiVersion", "kind"] {
            if !map.contains_key(name) {
                self.errors.push(Error::required(&path.child(name), ""));
            }
        }
        for (key, value) in map.iter().filter(|(key, _)| is_meta_field(key)) {
            let path = path.child(key);
            match (key.as_str(), value) {
                ("metadata", value) => self.metadata(value, &path),
                (_, Value::String(text)) if text.is_empty() => {
                    self.errors.push(Error::invalid(&path, "", "must not be empty"));
                }
                ("kind", Value::String(kind)) => {
                    let wrong = (self.rules.lower_kind)(&kind.to_lowercase());
                    if !wrong.is_empty() {
                        let detail = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
                        self.errors.push(Error::invalid(&path, kind.as_str(), detail));
                    }
                }
                (_, Value::String(version)) => {
                    if version.matches('/').count() > 1 {
                        let detail = format!("unexpected GroupVersion string: {version}");
                        self.errors.push(Error::invalid(&path, version.as_str(), detail));
                    }
                }
                (_, other) => self.errors.push(Error::invalid(&path, other.clone(), "must be a string")),
            }
        }
    }

    fn metadata(&mut self, value: &Value, path: &Path) {
        let decoded = match decode_value(Types::native().object_meta(), value) {
            Ok(decoded) => decoded.value,
            Err(error) => {
                self.errors.push(Error::invalid(path, value.clone(), error.to_string()));
                return;
            }
        };
        let mut metadata = match decoded {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        let named = metadata.get("name").and_then(Value::as_str).is_some_and(|name| !name.is_empty());
        if !named {
            // Embedded resources need no name, but the rules ask for one.
            metadata.insert("name".to_owned(), "fakename".into());
        }
        let object = Value::Object(Map::from_iter([("metadata".to_owned(), Value::Object(metadata))]));
        for mut error in (self.rules.object_meta)(&object) {
            let below = error.field.strip_prefix("metadata").unwrap_or(&error.field);
            error.field = format!("{path}{below}");
            self.errors.push(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::structural::compile;

    fn embedded() -> std::sync::Arc<Schema> {
        let resource = json!({"type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true});
        compile(&json!({"type": "object", "properties": {"a": resource,
            "l": {"type": "array", "items": resource}, "m": {"type": "object", "additionalProperties": resource}}}))
        .expect("schema")
    }

    #[test]
    fn unknown_fields_of_embedded_metadata_are_dropped_and_named() {
        let mut value = json!({"a": {"metadata": {"name": "x", "foo": 1}}, "m": {"k": {"metadata": {"bar": {}}}}});
        let unknown = coerce(&mut value, &embedded(), Root::Value, MalformedFields::Refuse).expect("well-formed");
        assert_eq!(unknown, ["a.metadata.foo", "m[k].metadata.bar"]);
        assert_eq!(value, json!({"a": {"metadata": {"name": "x"}}, "m": {"k": {"metadata": {}}}}));
    }

    #[test]
    fn malformed_metadata_is_refused_or_dropped() {
        let value = json!({"l": [{"kind": 1, "metadata": {"name": 5, "labels": {"a": "b"}}}]});
        let refuse = coerce(&mut value.clone(), &embedded(), Root::Value, MalformedFields::Refuse);
        assert_eq!(refuse.expect_err("malformed").to_string(), "l[0].kind: Invalid value: 1: must be a string");
        let mut dropped = value;
        coerce(&mut dropped, &embedded(), Root::Value, MalformedFields::Drop).expect("dropped");
        assert_eq!(dropped, json!({"l": [{"metadata": {"labels": {"a": "b"}}}]}));
    }

    #[test]
    fn type_and_metadata_of_embedded_resources_are_checked() {
        let rules = EmbeddedRules {
            object_meta: |object| {
                vec![Error::invalid(&Path::new("metadata").child("name"), object["metadata"]["name"].clone(), "x")]
            },
            lower_kind: |kind| if kind == "ok" { Vec::new() } else { vec!["bad".to_owned()] },
        };
        let value = json!({"a": {"apiVersion": "a/b/c", "kind": "Bad"}, "l": [{"metadata": {}, "kind": "OK"}]});
        let errors = validate_embedded(&value, &embedded(), Root::Value, &Path::root(), rules);
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            errors,
            [
                r#"a.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c"#,
                r#"a.kind: Invalid value: "Bad": may have mixed case, but should otherwise match: bad"#,
                "l[0].apiVersion: Required value",
                r#"l[0].metadata.name: Invalid value: "fakename": x"#,
            ]
        );
    }
}
