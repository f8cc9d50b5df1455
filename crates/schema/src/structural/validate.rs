//! Checking values against a schema: everything but CEL, with the reference's errors in its order. Where the reference
//! goes through a map in random order, the order is that of the keys.
//!
//! A valid value is checked without allocating. The number of checks a value passed is counted along the way, because
//! the reference chooses by it which alternative of `anyOf` or `oneOf` to complain about.

mod junctors;
mod numbers;
pub(super) mod ratchet;
mod strings;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use serde_json::{Map, Value};

use self::ratchet::OldItems;
use super::location::Location;
use super::numeric::Numeric;
use super::schema::{Additional, Kind, Schema, ValueValidation};
use crate::decode::go_quote;
use crate::field::{Error, ErrorKind, ErrorList, Path};

/// Most errors that are reported. An object in which everything is wrong would otherwise cost a hundred times its size.
const MAX_ERRORS: usize = 10_000;

/// Most values that are checked, each once per alternative it is held against. A body of the largest size with schemas
/// that people write stays far below; beyond it takes seconds.
const MAX_CHECKS: usize = 20_000_000;

/// What is wrong with a value, or a part of an object found at `path`.
pub fn validate(value: &Value, schema: &Schema, path: &Path) -> ErrorList {
    let mut check = Check::new(path);
    check.node(value, schema, &Location::ROOT, None);
    check.finish()
}

/// As [`validate`], but what was wrong before and has not changed may stay.
pub fn validate_update(new: &Value, old: &Value, schema: &Schema, path: &Path) -> ErrorList {
    let mut check = Check::new(path);
    // Most updates are valid, and then the old value does not matter.
    if check.is_valid(new, schema, &Location::ROOT).is_some() {
        return ErrorList::new();
    }
    if check.stops() {
        return check.finish();
    }
    check.node(new, schema, &Location::ROOT, Some(old));
    check.finish()
}

/// As [`validate`], for a default inside the schema. Upstream then takes int-or-string for any type.
pub fn validate_default(value: &Value, schema: &Schema, path: &Path) -> ErrorList {
    let mut check = Check { int_or_string: IntOrString::Anything, ..Check::new(path) };
    check.node(value, schema, &Location::ROOT, None);
    check.finish()
}

/// What `x-kubernetes-int-or-string` means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IntOrString {
    Typed,
    Anything,
}

/// One validation in progress.
struct Check<'a> {
    base: &'a Path,
    int_or_string: IntOrString,
    errors: ErrorList,
    /// Only whether there is an error matters; the first one ends the walk.
    quiet: bool,
    failed: bool,
    /// Values checked so far.
    checks: usize,
}

/// How many checks a value passed.
type Passed = usize;

impl<'a> Check<'a> {
    fn new(base: &'a Path) -> Self {
        Self {
            base,
            int_or_string: IntOrString::Typed,
            errors: ErrorList::new(),
            quiet: false,
            failed: false,
            checks: 0,
        }
    }

    /// Upstream reports each message once.
    fn finish(self) -> ErrorList {
        let mut errors = self.errors;
        if errors.len() > 1 {
            let mut seen = HashSet::new();
            errors.retain(|error| seen.insert((error.kind.reason(), error.field.clone(), error.detail.clone())));
        }
        errors
    }

    /// The checks passed if the value is valid; nothing is reported.
    fn is_valid(&mut self, value: &Value, schema: &Schema, at: &Location<'_>) -> Option<Passed> {
        let (quiet, failed) = (std::mem::replace(&mut self.quiet, true), std::mem::replace(&mut self.failed, false));
        let passed = self.checks(value, schema, at, None);
        let valid = !self.failed;
        (self.quiet, self.failed) = (quiet, failed);
        valid.then_some(passed)
    }

    /// All checks of a value. Errors of a value that equals its old one are dropped.
    fn node(&mut self, value: &Value, schema: &Schema, at: &Location<'_>, old: Option<&Value>) -> Passed {
        let before = self.errors.len();
        let passed = self.checks(value, schema, at, old);
        if self.errors.len() > before && old.is_some_and(|old| ratchet::unchanged(value, old, schema)) {
            self.errors.truncate(before);
        }
        passed
    }

    fn checks(&mut self, value: &Value, schema: &Schema, at: &Location<'_>, old: Option<&Value>) -> Passed {
        self.checks += 1;
        if self.checks >= MAX_CHECKS {
            self.failed = true;
            if self.checks == MAX_CHECKS {
                // Reported whatever has been reported before, and even if only validity is asked for.
                let detail = "the object has too many values for the alternatives in its schema".to_owned();
                self.errors.push(error(ErrorKind::Invalid, self.base.to_string(), Some("".into()), detail));
            }
            return 0;
        }
        let validation = schema.validation.as_deref();
        if value.is_null() {
            let passed = self.null(schema, at);
            self.enumeration(value, validation, at);
            return passed;
        }
        let mut passed = 1;
        let has_format = validation.is_some_and(|v| v.checked_format.is_some());
        if self.has_types(schema) || has_format {
            passed += 1 + self.type_of(value, schema, validation, at);
        }
        passed += 2;
        if let Some(junctors) = validation.and_then(|v| v.junctors.as_deref()) {
            passed += self.junctors(value, junctors, at);
        }
        if self.stops() {
            return passed;
        }
        match value {
            Value::String(text) => passed += self.string(text, validation, at),
            Value::Number(number) => passed += 2 + self.number(Numeric::of(number), schema, validation, at),
            Value::Array(items) => passed += 2 + self.list(items, schema, at, old),
            _ => {}
        }
        passed += 1;
        self.enumeration(value, validation, at);
        if let Value::Object(map) = value {
            passed += 1 + self.object(map, schema, at, old);
        }
        passed
    }

    fn has_types(&self, schema: &Schema) -> bool {
        schema.kind.is_some() || (schema.int_or_string && self.int_or_string == IntOrString::Typed)
    }

    /// Null is checked for its type and against an enumeration, which it never is in.
    fn null(&mut self, schema: &Schema, at: &Location<'_>) -> Passed {
        if self.has_types(schema) && !schema.nullable {
            self.invalid_type(at, type_names(schema), "null");
            return 0;
        }
        1
    }

    fn type_of(
        &mut self,
        value: &Value,
        schema: &Schema,
        validation: Option<&ValueValidation>,
        at: &Location<'_>,
    ) -> Passed {
        let (found, found_format) = type_of_value(value);
        let fits = has_type(schema, found)
            || match value {
                Value::Number(number) => match Numeric::of(number) {
                    Numeric::Integer(_) => has_type(schema, Kind::Number),
                    Numeric::Float(float) => numbers::is_integral(float) && has_type(schema, Kind::Integer),
                },
                _ => false,
            };
        let format = validation.filter(|v| v.checked_format.is_some()).map(|v| &*v.format);
        let textual = matches!(value, Value::String(_) | Value::Array(_));
        match format {
            Some(format) if !textual && !fits && found_format != format => {
                self.invalid_type(at, format, found_format);
                return 0;
            }
            // Odd, but so it is: a list passes for a string that has a format.
            Some(_) if textual && !has_type(schema, Kind::Number) && !has_type(schema, Kind::Integer) => return 1,
            _ if !fits => {
                self.invalid_type(at, type_names(schema), kind_name(found));
                return 0;
            }
            _ => {}
        }
        1
    }

    fn list(&mut self, items: &[Value], schema: &Schema, at: &Location<'_>, old: Option<&Value>) -> Passed {
        let mut passed = 0;
        if let Some(item_schema) = &schema.items {
            let old = OldItems::new(old, schema);
            for (index, item) in items.iter().enumerate() {
                passed += self.node(item, item_schema, &at.index(index), old.matching(item));
                if self.stops() {
                    return passed;
                }
            }
        }
        let Some(validation) = schema.validation.as_deref() else { return passed };
        let size = i64::try_from(items.len()).unwrap_or(i64::MAX);
        if let Some(min) = validation.min_items.filter(|min| size < *min) {
            self.invalid(at, size, |name| format!("{name} in body should have at least {min} items"));
        }
        if let Some(max) = validation.max_items.filter(|max| size > *max) {
            self.too_many(at, size, max);
        }
        if validation.unique_items && has_duplicates(items) {
            self.invalid(at, "", |name| format!("{name} in body shouldn't contain duplicates"));
        }
        passed
    }

    fn object(&mut self, map: &Map<String, Value>, schema: &Schema, at: &Location<'_>, old: Option<&Value>) -> Passed {
        let validation = schema.validation.as_deref();
        let size = i64::try_from(map.len()).unwrap_or(i64::MAX);
        if let Some(min) = validation.and_then(|v| v.min_properties).filter(|min| size < *min) {
            self.invalid(at, size, |name| format!("{name} in body should have at least {min} properties"));
        }
        if let Some(max) = validation.and_then(|v| v.max_properties).filter(|max| size > *max) {
            self.too_many(at, size, max);
        }
        let mut passed = 0;
        let old = old.and_then(Value::as_object);
        match &schema.additional_properties {
            Additional::Absent | Additional::Allowed(true) => {}
            Additional::Allowed(false) => {
                for key in map.keys().filter(|key| schema.property(key).is_none()) {
                    self.invalid(at, key.as_str(), |name| format!("{name}.{key} in body is a forbidden property"));
                }
            }
            Additional::Schema(additional) => {
                for (key, value) in map.iter().filter(|(key, _)| schema.property(key).is_none()) {
                    passed += self.node(value, additional, &at.key(key), old.and_then(|old| old.get(key)));
                    if self.stops() {
                        return passed;
                    }
                }
            }
        }
        if !schema.properties.is_empty() {
            for (key, value) in map {
                let Some(property) = schema.property(key) else { continue };
                // Both versions have been converted to the same type, so these are never an old fault.
                let type_meta = at.is_root() && matches!(key.as_str(), "apiVersion" | "kind");
                let old = old.and_then(|old| old.get(key)).filter(|_| !type_meta);
                passed += self.node(value, property, &at.field(key), old);
                if self.stops() {
                    return passed;
                }
            }
        }
        for name in validation.map(|v| &*v.required).unwrap_or_default() {
            if !map.contains_key(&**name) {
                self.fail(|check| {
                    let field = check.field_named(&format!("{}.{name}", at.name()));
                    error(ErrorKind::Required, field, None, String::new())
                });
            }
        }
        passed
    }

    /// Whether a quiet walk has found what it looks for, or any walk has taken too long.
    fn stops(&self) -> bool {
        (self.quiet && self.failed) || self.checks >= MAX_CHECKS
    }

    fn fail(&mut self, make: impl FnOnce(&Self) -> Error) {
        if self.quiet {
            self.failed = true;
        } else if self.errors.len() < MAX_ERRORS {
            let error = make(self);
            self.errors.push(error);
        }
    }

    fn invalid(&mut self, at: &Location<'_>, value: impl Into<Value>, detail: impl FnOnce(&str) -> String) {
        self.fail(|check| {
            let name = at.name();
            error(ErrorKind::Invalid, check.field_named(&name), Some(value.into()), detail(&name))
        });
    }

    fn invalid_type(&mut self, at: &Location<'_>, expected: &str, found: &str) {
        self.fail(|check| {
            let name = at.name();
            let detail = format!("{name} in body must be of type {expected}: {}", go_quote(found));
            error(ErrorKind::TypeInvalid, check.field_named(&name), Some(found.into()), detail)
        });
    }

    fn too_many(&mut self, at: &Location<'_>, actual: i64, max: i64) {
        self.fail(|check| {
            let detail = match max {
                1 => "must have at most 1 item".to_owned(),
                max if max < 0 => "has too many items".to_owned(),
                max => format!("must have at most {max} items"),
            };
            error(ErrorKind::TooMany, check.field_named(&at.name()), Some(actual.into()), detail)
        });
    }

    /// An error that upstream reports without saying where.
    fn unplaced(&mut self, detail: impl FnOnce() -> String) {
        self.fail(|check| error(ErrorKind::Invalid, check.base.to_string(), Some("".into()), detail()));
    }

    /// The path of the field that messages call `name`.
    fn field_named(&self, name: &str) -> String {
        match name {
            "" | "." => self.base.to_string(),
            name => self.base.child(name.strip_prefix('.').unwrap_or(name)).to_string(),
        }
    }
}

fn error(kind: ErrorKind, field: String, bad_value: Option<Value>, detail: String) -> Error {
    Error { kind, field, bad_value, detail }
}

fn has_type(schema: &Schema, kind: Kind) -> bool {
    if schema.int_or_string { matches!(kind, Kind::Integer | Kind::String) } else { schema.kind == Some(kind) }
}

fn type_names(schema: &Schema) -> &'static str {
    if schema.int_or_string { "integer,string" } else { schema.kind.map_or("", kind_name) }
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Object => "object",
        Kind::Array => "array",
        Kind::String => "string",
        Kind::Integer => "integer",
        Kind::Number => "number",
        Kind::Boolean => "boolean",
    }
}

/// The type a value has, and the format Go's type for it implies.
fn type_of_value(value: &Value) -> (Kind, &'static str) {
    match value {
        Value::Null | Value::Object(_) => (Kind::Object, ""),
        Value::Bool(_) => (Kind::Boolean, ""),
        Value::String(_) => (Kind::String, ""),
        Value::Array(_) => (Kind::Array, ""),
        Value::Number(number) => match Numeric::of(number) {
            Numeric::Integer(_) => (Kind::Integer, "int64"),
            Numeric::Float(_) => (Kind::Number, "float64"),
        },
    }
}

fn has_duplicates(items: &[Value]) -> bool {
    let mut seen = HashSet::new();
    !items.iter().all(|item| seen.insert(item.to_string()))
}
