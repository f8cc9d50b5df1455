//! The OpenAPI schema of a version: which keywords may be used, where, and in which combination.

use std::collections::HashSet;
use std::sync::Arc;

use bailiwick_machinery::field::{Error, ErrorList, Path};
use bailiwick_schema::structural::rules::{ExpressionCost, check_definition};
use bailiwick_schema::structural::{CompileError, Schema, compile, pattern};
use serde_json::Value;

use super::defaults::{self, Unpruned};
use super::field_path::{Brackets, find};
use super::shown::shown_schema;
use super::structural;
use super::walk::{any_schema, any_within, is_simple, schema_of};
use crate::field_errors::invalid_shown;
use crate::fields::{flag, list, map, optional_text, present, text, texts};

const TYPES: &[&str] = &["array", "boolean", "integer", "number", "object", "string"];
const REASONS: &[&str] = &["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// Keywords that a schema with a status subresource may not have at its root, because the status is validated alone.
const NOT_AT_ROOT: [&str; 22] = [
    "id",
    "$schema",
    "$ref",
    "nullable",
    "default",
    "enum",
    "maxProperties",
    "minProperties",
    "allOf",
    "oneOf",
    "anyOf",
    "not",
    "additionalProperties",
    "patternProperties",
    "dependencies",
    "additionalItems",
    "definitions",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
];

/// Faults of stored definitions, made before there were rules against them, that an update may keep.
#[derive(Debug, Default)]
pub(super) struct Tolerance {
    non_structural: bool,
    unknown_types: bool,
    non_atomic_sets: bool,
    list_map_keys: bool,
    unpruned_defaults: bool,
    /// Names of versions whose schema stays what it was; rules that were accepted there once stay accepted.
    unchanged_versions: HashSet<String>,
}

impl Tolerance {
    /// What the old spec, if there is one, forces us to tolerate. Pruning, defaults and our extensions need structural
    /// schemas whatever was there before.
    pub fn of(new: &Value, old: Option<&Value>) -> Self {
        let Some(old) = old else { return Self::default() };
        let root = Path::root();
        let needs_structure = !flag(new, "preserveUnknownFields")
            || any_schema(new, &mut |schema| present(schema, "default").is_some() || has_extensions(schema));
        Self {
            non_structural: !needs_structure && is_non_structural(old),
            unpruned_defaults: has_unpruned_defaults(old),
            unknown_types: any_schema(old, &mut |schema| unknown_type(schema).is_some()),
            non_atomic_sets: any_schema(old, &mut |schema| validate_set(schema, &root).is_some()),
            list_map_keys: any_schema(old, &mut |schema| !validate_key_presence(schema, &root).is_empty()),
            unchanged_versions: unchanged_versions(new, old),
        }
    }
}

fn has_extensions(schema: &Value) -> bool {
    ["x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"].iter().any(|name| flag(schema, name))
        || ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-list-type"]
            .iter()
            .any(|name| present(schema, name).is_some())
        || ["x-kubernetes-list-map-keys", "x-kubernetes-validations"].iter().any(|name| !list(schema, name).is_empty())
}

fn unchanged_versions(new: &Value, old: &Value) -> HashSet<String> {
    let stored = list(old, "versions");
    let same = |version: &&Value| {
        let stored = stored.iter().find(|stored| text(stored, "name") == text(version, "name"));
        stored.is_some_and(|stored| schema_of(stored) == schema_of(version))
    };
    list(new, "versions").iter().filter(same).map(|version| text(version, "name").to_owned()).collect()
}

fn schemas(spec: &Value) -> impl Iterator<Item = &Value> {
    list(spec, "versions").iter().filter_map(schema_of)
}

fn is_non_structural(spec: &Value) -> bool {
    schemas(spec).any(|schema| unsupported(schema).is_some() || !structural::validate(schema, &Path::root()).is_empty())
}

fn has_unpruned_defaults(spec: &Value) -> bool {
    schemas(spec).filter_map(|schema| compile(schema).ok()).any(|schema| defaults::has_unpruned(&schema))
}

/// Why no structural schema can be made of this one.
pub(super) fn unsupported(schema: &Value) -> Option<&'static str> {
    let mut why = None;
    any_within(schema, &mut |schema| {
        why = structural::unsupported(schema);
        why.is_some()
    });
    why
}

/// Checks the schema of the named version; `has_status` when the version has a status subresource.
pub(super) fn validate(
    schema: &Value,
    version: &str,
    has_status: bool,
    tolerance: &Tolerance,
    path: &Path,
) -> ErrorList {
    let mut errors = ErrorList::new();
    if has_status {
        errors.extend(validate_root_keywords(schema, path));
    }
    if flag(schema, "nullable") {
        errors.push(Error::forbidden(&path.child("nullable"), "nullable cannot be true at the root"));
    }
    let unsupported = unsupported(schema);
    let mut compiled = None;
    if !tolerance.non_structural && unsupported.is_none() {
        match validate_structure(schema, tolerance, path) {
            Ok(structural) => compiled = structural,
            Err(structure) => errors.extend(structure),
        }
    }
    let place = Place { is_root: true, defaults: None, inside_metadata: false };
    let mut keyword_errors = ErrorList::new();
    validate_keywords(schema, &place, tolerance, path, &mut keyword_errors);
    let rule_errors = compiled.map_or_else(ErrorList::new, |compiled| {
        let accepted = tolerance.unchanged_versions.contains(version);
        let cost = if accepted { ExpressionCost::Accepted } else { ExpressionCost::Limited };
        check_definition(&compiled, path, &keyword_errors, cost)
    });
    errors.extend(keyword_errors);
    errors.extend(rule_errors);
    if let (true, false, Some(why)) = (errors.is_empty(), tolerance.non_structural, unsupported) {
        errors.push(Error::invalid(path, "", why));
    }
    errors
}

/// Largest sum of what the different patterns of a schema weigh. Compiling that much takes about a second, and nobody's
/// patterns come near it.
const MAX_PATTERN_WEIGHT: u64 = 4_000_000;

fn weight_of_patterns(schema: &Value) -> u64 {
    let mut patterns = HashSet::new();
    any_within(schema, &mut |schema| {
        patterns.insert(text(schema, "pattern"));
        false
    });
    patterns.into_iter().map(pattern::weight).fold(0, u64::saturating_add)
}

/// The structure and, if that is sound, the defaults. What was found to be sound is compiled, unless a type is none.
fn validate_structure(schema: &Value, tolerance: &Tolerance, path: &Path) -> Result<Option<Arc<Schema>>, ErrorList> {
    let all_of = |errors: ErrorList| if errors.is_empty() { Ok(()) } else { Err(errors) };
    if weight_of_patterns(schema) > MAX_PATTERN_WEIGHT {
        return Err(vec![Error::forbidden(path, "patterns are too large to be compiled")]);
    }
    all_of(structural::validate(schema, path))?;
    let unpruned = if tolerance.unpruned_defaults { Unpruned::Tolerated } else { Unpruned::Refused };
    match compile(schema) {
        Ok(compiled) => {
            all_of(defaults::validate(&compiled, unpruned, path))?;
            Ok(Some(compiled))
        }
        // Types that are none are reported with the keywords.
        Err(CompileError::Malformed(_)) => Ok(None),
        Err(error) => Err(vec![Error::invalid(path, "", error.to_string())]),
    }
}

fn validate_root_keywords(schema: &Value, path: &Path) -> Option<Error> {
    let is_set = |name: &&&str| match schema.get(**name) {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::Array(items)) => !items.is_empty(),
        Some(Value::Object(all)) => !all.is_empty() || matches!(**name, "not" | "additionalProperties"),
        Some(_) => true,
    };
    // Upstream looks at its fields in order, and the type is the fourth of them.
    let mut found = NOT_AT_ROOT.iter().filter(is_set);
    let first = found.next();
    let kind = text(schema, "type");
    if !kind.is_empty() && kind != "object" && !first.is_some_and(|name| matches!(*name, "id" | "$schema" | "$ref")) {
        let detail =
            "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        return Some(Error::invalid(&path.child("type"), kind, detail));
    }
    let detail = "only [Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations] fields are allowed at the root of the schema if the status subresource is enabled";
    first.map(|_| invalid_shown(path, &shown_schema(schema), detail))
}

/// What holds where a schema stands.
#[derive(Clone)]
struct Place {
    is_root: bool,
    /// Why there may be no defaults, when there may not.
    defaults: Option<String>,
    inside_metadata: bool,
}

fn validate_keywords(schema: &Value, place: &Place, tolerance: &Tolerance, path: &Path, errors: &mut ErrorList) {
    validate_supported(schema, place, tolerance, path, errors);
    if flag(schema, "uniqueItems") {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(Error::forbidden(&path.child("uniqueItems"), detail));
    }
    validate_children(schema, place, tolerance, path, errors);
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let path = path.child("x-kubernetes-preserve-unknown-fields");
        errors.push(Error::invalid(&path, false, "must be true or undefined"));
    }
    validate_map_type(schema, path, errors);
    validate_list_type(schema, tolerance, path, errors);
    for (index, rule) in list(schema, "x-kubernetes-validations").iter().enumerate() {
        validate_rule(rule, schema, &path.child("x-kubernetes-validations").index(index), errors);
    }
}

fn unknown_type(schema: &Value) -> Option<&str> {
    optional_text(schema, "type").filter(|kind| !kind.is_empty() && !TYPES.contains(kind))
}

fn validate_supported(schema: &Value, place: &Place, tolerance: &Tolerance, path: &Path, errors: &mut ErrorList) {
    if let (Some(kind), false) = (unknown_type(schema), tolerance.unknown_types) {
        errors.push(Error::not_supported(&path.child("type"), kind, TYPES));
    }
    if let (Some(reason), Some(_)) = (&place.defaults, present(schema, "default")) {
        errors.push(Error::forbidden(&path.child("default"), format!("must not be set {reason}")));
    }
    let mut forbid = |name: &str, detail: &str| errors.push(Error::forbidden(&path.child(name), detail));
    if !text(schema, "id").is_empty() {
        forbid("id", "id is not supported");
    }
    if present(schema, "additionalItems").is_some() {
        forbid("additionalItems", "additionalItems is not supported");
    }
    for (name, detail) in [
        ("patternProperties", "patternProperties is not supported"),
        ("definitions", "definitions is not supported"),
        ("dependencies", "dependencies is not supported"),
    ] {
        if map(schema, name).is_some_and(|all| !all.is_empty()) {
            forbid(name, detail);
        }
    }
    if present(schema, "$ref").is_some() {
        forbid("$ref", "$ref is not supported");
    }
    if text(schema, "type") == "null" {
        forbid("type", "type cannot be set to null, use nullable as an alternative");
    }
    if !list(schema, "items").is_empty() {
        forbid("items", "items must be a schema object and not an array");
    }
    if place.inside_metadata && flag(schema, "x-kubernetes-embedded-resource") {
        forbid("x-kubernetes-embedded-resource", "must not be used inside of resource meta");
    }
}

fn validate_children(schema: &Value, place: &Place, tolerance: &Tolerance, path: &Path, errors: &mut ErrorList) {
    let inner = Place { is_root: false, ..place.clone() };
    let properties = map(schema, "properties").filter(|all| !all.is_empty());
    if let Some(additional) = present(schema, "additionalProperties") {
        let path = path.child("additionalProperties");
        if properties.is_some() && *additional != Value::Bool(true) {
            let detail = "additionalProperties and properties are mutual exclusive";
            errors.push(Error::forbidden(&path, detail));
        }
        if additional.is_object() {
            let mut inner = inner.clone();
            if place.inside_metadata {
                inner.defaults = Some("inside additionalProperties applying to object metadata".to_owned());
            }
            validate_keywords(additional, &inner, tolerance, &path, errors);
        }
    }
    let is_resource = place.is_root || flag(schema, "x-kubernetes-embedded-resource");
    for (name, property) in properties.into_iter().flatten() {
        let is_common = is_resource && matches!(name.as_str(), "metadata" | "kind" | "apiVersion");
        if !is_common && inner.defaults.is_none() && is_simple(property) {
            continue;
        }
        let mut inner = inner.clone();
        if is_common {
            inner.inside_metadata = true;
            if place.is_root {
                inner.defaults = Some(format!("in top-level {name}"));
            }
        }
        validate_keywords(property, &inner, tolerance, &path.child("properties").key(name), errors);
    }
    if let Some(not) = present(schema, "not") {
        validate_keywords(not, &inner, tolerance, &path.child("not"), errors);
    }
    for name in ["allOf", "oneOf", "anyOf"] {
        for (index, nested) in list(schema, name).iter().enumerate() {
            validate_keywords(nested, &inner, tolerance, &path.child(name).index(index), errors);
        }
    }
    for (name, definition) in map(schema, "definitions").into_iter().flatten() {
        validate_keywords(definition, &inner, tolerance, &path.child("definitions").key(name), errors);
    }
    match schema.get("items") {
        Some(Value::Array(several)) => {
            for (index, items) in several.iter().enumerate() {
                validate_keywords(items, &inner, tolerance, &path.child("items").index(index), errors);
            }
        }
        Some(items) if items.is_object() => validate_keywords(items, &inner, tolerance, &path.child("items"), errors),
        _ => {}
    }
    for (name, dependency) in map(schema, "dependencies").into_iter().flatten().filter(|(_, schema)| schema.is_object())
    {
        validate_keywords(dependency, &inner, tolerance, &path.child("dependencies").key(name), errors);
    }
}

/// Says that a schema must have another type than it has.
fn wrong_type(schema: &Value, detail: &str, path: &Path) -> Error {
    match text(schema, "type") {
        "" => Error::required(&path.child("type"), detail),
        kind => Error::invalid(&path.child("type"), kind, detail),
    }
}

fn validate_map_type(schema: &Value, path: &Path, errors: &mut ErrorList) {
    let Some(kind) = optional_text(schema, "x-kubernetes-map-type") else { return };
    if text(schema, "type") != "object" {
        errors.push(wrong_type(schema, "must be object if x-kubernetes-map-type is specified", path));
    }
    let supported = ["atomic", "granular"];
    if !supported.contains(&kind) {
        errors.push(Error::not_supported(&path.child("x-kubernetes-map-type"), kind, &supported));
    }
}

fn validate_list_type(schema: &Value, tolerance: &Tolerance, path: &Path, errors: &mut ErrorList) {
    let kind = optional_text(schema, "x-kubernetes-list-type");
    let type_path = path.child("x-kubernetes-list-type");
    if kind.is_some() && text(schema, "type") != "array" {
        errors.push(wrong_type(schema, "must be array if x-kubernetes-list-type is specified", path));
    } else if !tolerance.non_atomic_sets {
        errors.extend(validate_set(schema, path));
    }
    let supported = ["atomic", "set", "map"];
    if let Some(kind) = kind.filter(|kind| !supported.contains(kind)) {
        errors.push(Error::not_supported(&type_path, kind, &supported));
    }
    if !list(schema, "x-kubernetes-list-map-keys").is_empty() {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        match kind {
            None => errors.push(Error::required(&type_path, detail)),
            Some("map") => {}
            Some(kind) => errors.push(Error::invalid(&type_path, kind, detail)),
        }
    }
    if kind == Some("map") {
        validate_list_map(schema, path, errors);
    }
    if !tolerance.list_map_keys {
        errors.extend(validate_key_presence(schema, path));
    }
}

/// Items of sets are compared whole.
fn validate_set(schema: &Value, path: &Path) -> Option<Error> {
    let items = schema.get("items").filter(|items| items.is_object())?;
    if text(schema, "x-kubernetes-list-type") != "set" {
        return None;
    }
    let field = match (text(items, "type"), optional_text(items, "x-kubernetes-list-type")) {
        ("array", Some(kind)) if kind != "atomic" => "x-kubernetes-list-type",
        ("object", _) if text(items, "x-kubernetes-map-type") != "atomic" => "x-kubernetes-map-type",
        _ => return None,
    };
    let shown = items.get("x-kubernetes-list-type").cloned().unwrap_or_default();
    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
    Some(Error::invalid(&path.child("items").child(field), shown, detail))
}

fn validate_list_map(schema: &Value, path: &Path, errors: &mut ErrorList) {
    let keys = texts(schema, "x-kubernetes-list-map-keys");
    let keys_path = path.child("x-kubernetes-list-map-keys");
    let items_path = path.child("items");
    if keys.is_empty() {
        errors.push(Error::required(&keys_path, "must not be empty if x-kubernetes-list-type is map"));
    }
    let items = match present(schema, "items") {
        None => {
            errors.push(Error::required(&items_path, "must have a schema if x-kubernetes-list-type is map"));
            return;
        }
        Some(items @ Value::Array(_)) => {
            let detail = "must only have a single schema if x-kubernetes-list-type is map";
            errors.push(Error::invalid(&items_path, items.clone(), detail));
            return;
        }
        Some(items) => items,
    };
    let kind = text(items, "type");
    if kind != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(Error::invalid(&items_path.child("type"), kind, detail));
        return;
    }
    for (index, key) in keys.iter().enumerate() {
        let shown = || Value::from(list(schema, "x-kubernetes-list-map-keys"));
        match map(items, "properties").and_then(|all| all.get(*key)) {
            None => errors.push(Error::invalid(&keys_path, shown(), "entries must all be names of item properties")),
            Some(property) if matches!(text(property, "type"), "array" | "object") => {
                let path = items_path.child("properties").key(key).child("type");
                let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.push(Error::invalid(&path, kind, detail));
            }
            Some(_) => {}
        }
        if keys[..index].contains(key) {
            errors.push(Error::invalid(&keys_path, shown(), "must not contain duplicate entries"));
        }
    }
}

/// Items of sets and maps, and the keys of maps, are always there.
fn validate_key_presence(schema: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let kind = text(schema, "x-kubernetes-list-type");
    let Some(items) = schema.get("items").filter(|items| items.is_object() && matches!(kind, "set" | "map")) else {
        return errors;
    };
    let path = path.child("items");
    if flag(items, "nullable") {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {kind}");
        errors.push(Error::forbidden(&path.child("nullable"), detail));
    }
    if kind == "set" {
        return errors;
    }
    for key in texts(schema, "x-kubernetes-list-map-keys") {
        let Some(property) = map(items, "properties").and_then(|all| all.get(key)) else { continue };
        let path = path.child("properties").key(key);
        let member = "this property is in x-kubernetes-list-map-keys, so it";
        if !texts(items, "required").contains(&key) && present(property, "default").is_none() {
            let detail = format!("{member} must have a default or be a required property");
            errors.push(Error::required(&path.child("default"), detail));
        }
        if flag(property, "nullable") {
            errors.push(Error::forbidden(&path.child("nullable"), format!("{member} cannot be nullable")));
        }
    }
    errors
}

/// Checks the shape of a validation rule; its expressions are compiled elsewhere.
fn validate_rule(rule: &Value, schema: &Value, path: &Path, errors: &mut ErrorList) {
    let has_newline = |text: &str| text.contains(['\n', '\r']);
    let (expression, message) = (text(rule, "rule"), text(rule, "message"));
    let message_path = path.child("message");
    if expression.trim().is_empty() {
        errors.push(Error::required(&path.child("rule"), "rule is not specified"));
    } else if !message.is_empty() && message.trim().is_empty() {
        errors.push(Error::invalid(&message_path, message, "must be non-empty if specified"));
    } else if has_newline(message.trim()) {
        errors.push(Error::invalid(&message_path, message, "must not contain line breaks"));
    } else if has_newline(expression.trim()) && message.trim().is_empty() {
        errors.push(Error::required(&message_path, "message must be specified if rule contains line breaks"));
    }
    let message_expression = text(rule, "messageExpression");
    if !message_expression.is_empty() && message_expression.trim().is_empty() {
        let detail = "messageExpression must be non-empty if specified";
        errors.push(Error::required(&path.child("messageExpression"), detail));
    }
    if let Some(reason) = optional_text(rule, "reason").filter(|reason| !REASONS.contains(reason)) {
        errors.push(Error::not_supported(&path.child("reason"), reason, REASONS));
    }
    let field_path = text(rule, "fieldPath");
    if !field_path.is_empty() && field_path.trim().is_empty() {
        errors.push(Error::invalid(&path.child("fieldPath"), field_path, "must be non-empty if specified"));
    }
    if has_newline(field_path) {
        errors.push(Error::invalid(&path.child("fieldPath"), field_path, "must not contain line breaks"));
    }
    if !field_path.is_empty() && find(field_path, schema, Brackets::Allowed).is_err() {
        errors.push(Error::invalid(&path.child("fieldPath"), field_path, "must be a valid path"));
    }
}
