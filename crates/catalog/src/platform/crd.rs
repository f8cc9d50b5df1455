//! CustomResourceDefinitions: whether one is sound, and whether objects that were stored under an old one are still good
//! under a new one.

use std::collections::BTreeSet;

use bailiwick_schema::structural;
use serde_json::Value;

use crate::fbc::Fields;

/// What a change does to those who have objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Objects may lose data, such as a field that is no longer known.
    Loses,
    /// Objects that were valid may be refused, or cannot be read any more.
    Breaks,
}

/// A change that is not safe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrdChange {
    pub severity: Severity,
    /// The version of the API and the field.
    pub place: String,
    pub text: String,
}

/// What is wrong with a definition by itself.
pub(super) fn check_definition(crd: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    // An old form is a matter of the Kubernetes version.
    if crd.get("apiVersion").and_then(Value::as_str) != Some("apiextensions.k8s.io/v1") {
        return faults;
    }
    let spec = Fields::of(crd.get("spec").unwrap_or(&Value::Null));
    let plural = Fields::of(spec.get("names")).text("plural");
    let expected = format!("{plural}.{}", spec.text("group"));
    let name = crd.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    if name != expected {
        faults.push(format!("metadata.name must be {expected}"));
    }
    let versions = spec.list("versions");
    let stored = versions.iter().filter(|it| it.get("storage") == Some(&Value::Bool(true))).count();
    if stored != 1 {
        faults.push(format!("spec.versions: exactly one must have storage: true, {stored} have"));
    }
    for version in versions {
        let name = Fields::of(version).text("name");
        match version.pointer("/schema/openAPIV3Schema") {
            None => faults.push(format!("version {name} has no schema")),
            Some(schema) => {
                if let Err(error) = structural::compile(schema) {
                    faults.push(format!("version {name}: {error}"));
                }
            }
        }
    }
    faults
}

/// The schemas of a definition, by version.
pub(super) fn schemas(crd: &Value) -> Vec<(String, &Value)> {
    let versions = crd.pointer("/spec/versions").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let schema = |it| Some((Fields::of(it).text("name"), it.pointer("/schema/openAPIV3Schema")?));
    versions.iter().filter_map(schema).collect()
}

/// What is not safe in going from one definition to another.
pub fn crd_changes(old: &Value, new: &Value) -> Vec<CrdChange> {
    let mut changes = Vec::new();
    let mut push = |place: &str, text: String| {
        changes.push(CrdChange { severity: Severity::Breaks, place: place.to_owned(), text });
    };
    let scope = |crd: &Value| crd.pointer("/spec/scope").and_then(Value::as_str).unwrap_or_default().to_owned();
    if scope(old) != scope(new) {
        push("spec.scope", format!("changes from {} to {}", scope(old), scope(new)));
    }
    let versions = |crd: &Value| -> Vec<(String, bool, bool)> {
        let list = crd.pointer("/spec/versions").and_then(Value::as_array).cloned().unwrap_or_default();
        let is = |it: &Value, key: &str| it.get(key) == Some(&Value::Bool(true));
        list.iter().map(|it| (Fields::of(it).text("name"), is(it, "storage"), is(it, "served"))).collect()
    };
    let after = versions(new);
    for (name, stored, served) in versions(old) {
        match after.iter().find(|(other, ..)| *other == name) {
            None if stored => push(&name, "is removed, but objects are stored in it".to_owned()),
            None if served => push(&name, "is removed, but clients use it".to_owned()),
            Some((_, _, false)) if served => push(&name, "is no longer served, but clients use it".to_owned()),
            _ => {}
        }
    }
    let new_schemas = schemas(new);
    for (name, schema) in schemas(old) {
        if let Some((_, other)) = new_schemas.iter().find(|(other, _)| *other == name) {
            let mut comparison = Comparison { changes: &mut changes };
            comparison.node(&name, schema, other, structural::MAX_SCHEMA_DEPTH);
        }
    }
    changes
}

struct Comparison<'c> {
    changes: &'c mut Vec<CrdChange>,
}

impl Comparison<'_> {
    fn push(&mut self, severity: Severity, place: &str, text: String) {
        self.changes.push(CrdChange { severity, place: place.to_owned(), text });
    }

    fn breaks(&mut self, place: &str, text: String) {
        self.push(Severity::Breaks, place, text);
    }

    fn node(&mut self, place: &str, old: &Value, new: &Value, depth: usize) {
        // Deeper schemas are refused before they get here.
        let Some(depth) = depth.checked_sub(1) else { return };
        if old == new {
            return;
        }
        self.kind(place, old, new);
        self.limits(place, old, new);
        self.values(place, old, new);
        self.properties(place, old, new, depth);
        for part in ["items", "additionalProperties"] {
            match (old.get(part), new.get(part)) {
                (Some(before @ Value::Object(_)), Some(after @ Value::Object(_))) => {
                    let suffix = if part == "items" { "[]" } else { ".*" };
                    self.node(&format!("{place}{suffix}"), before, after, depth);
                }
                (Some(Value::Object(_)), None) if part == "additionalProperties" && !keeps_unknown(new) => {
                    self.push(Severity::Loses, place, "no longer keeps keys of its own".to_owned());
                }
                _ => {}
            }
        }
    }

    fn kind(&mut self, place: &str, old: &Value, new: &Value) {
        let of = |schema: &Value| schema.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        let (before, after) = (of(old), of(new));
        let either = |schema: &Value| schema.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true));
        let widened =
            after.is_empty() && (keeps_unknown(new) || either(new)) || before == "integer" && after == "number";
        if before != after && !widened {
            let name = |kind: &str| if kind.is_empty() { "any type".to_owned() } else { kind.to_owned() };
            self.breaks(place, format!("changes from {} to {}", name(&before), name(&after)));
        }
        if old.get("nullable") == Some(&Value::Bool(true)) && new.get("nullable") != Some(&Value::Bool(true)) {
            self.breaks(place, "may no longer be null".to_owned());
        }
    }

    fn limits(&mut self, place: &str, old: &Value, new: &Value) {
        for (least, key) in [
            (true, "minimum"),
            (true, "minLength"),
            (true, "minItems"),
            (true, "minProperties"),
            (false, "maximum"),
            (false, "maxLength"),
            (false, "maxItems"),
            (false, "maxProperties"),
        ] {
            let Some(after) = new.get(key).and_then(Value::as_f64) else { continue };
            let before = old.get(key).and_then(Value::as_f64);
            // At least nothing is no limit.
            let narrower = before.map_or(!(least && after <= 0.0 && key != "minimum"), |before| {
                if least { after > before } else { after < before }
            });
            if narrower {
                let before = before.map_or("no limit".to_owned(), |it| it.to_string());
                self.breaks(place, format!("{key} is narrowed from {before} to {after}"));
            }
        }
        for key in ["pattern", "format"] {
            let text = |schema: &Value| schema.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            let (before, after) = (text(old), text(new));
            if after != before && !after.is_empty() && !(key == "format" && is_size(&before) && is_size(&after)) {
                self.breaks(place, format!("{key} becomes {after:?}"));
            }
        }
    }

    fn values(&mut self, place: &str, old: &Value, new: &Value) {
        let list = |schema: &Value| schema.get("enum").and_then(Value::as_array).cloned();
        match (list(old), list(new)) {
            (None, Some(_)) => self.breaks(place, "is restricted to certain values".to_owned()),
            (Some(before), Some(after)) => {
                for value in before.iter().filter(|it| !after.contains(it)) {
                    self.breaks(place, format!("no longer allows {value}"));
                }
            }
            _ => {}
        }
        let rules = |schema: &Value| -> BTreeSet<String> {
            let list = schema.get("x-kubernetes-validations").and_then(Value::as_array).cloned().unwrap_or_default();
            list.iter().map(|it| Fields::of(it).text("rule")).collect()
        };
        for rule in rules(new).difference(&rules(old)) {
            // Rules about changes cannot refuse an object that does not change.
            if !rule.contains("oldSelf") {
                self.breaks(place, format!("has a new rule: {rule}"));
            }
        }
    }

    fn properties(&mut self, place: &str, old: &Value, new: &Value, depth: usize) {
        let of = |schema: &Value| schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
        let (before, after) = (of(old), of(new));
        for (name, schema) in &before {
            let place = format!("{place}.{name}");
            match after.get(name) {
                Some(other) => self.node(&place, schema, other, depth),
                None if keeps_unknown(new) => {}
                None => self.push(Severity::Loses, &place, "is removed".to_owned()),
            }
        }
        let required = |schema: &Value| -> BTreeSet<String> {
            let list = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
            list.iter().filter_map(|it| it.as_str().map(str::to_owned)).collect()
        };
        for name in required(new).difference(&required(old)) {
            if after.get(name).is_none_or(|schema| schema.get("default").is_none()) {
                self.breaks(&format!("{place}.{name}"), "becomes required and has no default".to_owned());
            }
        }
    }
}

fn keeps_unknown(schema: &Value) -> bool {
    schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true))
        || schema.get("additionalProperties").is_some_and(|it| it != &Value::Bool(false))
}

/// Formats that only tell the size of a number.
fn is_size(format: &str) -> bool {
    matches!(format, "" | "int32" | "int64" | "float" | "double")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn crd(schema: Value) -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "things.g"},
            "spec": {
                "group": "g", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
            },
        })
    }

    fn schema(spec: Value) -> Value {
        json!({"type": "object", "properties": {"spec": spec}})
    }

    fn told(old: Value, new: Value) -> Vec<String> {
        crd_changes(&crd(schema(old)), &crd(schema(new)))
            .into_iter()
            .map(|it| format!("{} {}", it.place, it.text))
            .collect()
    }

    #[test]
    fn changes_that_refuse_or_lose_objects_are_found() {
        let object = |inner: Value| json!({"type": "object", "properties": {"a": inner}});
        for (old, new, expected) in [
            (
                object(json!({"type": "string"})),
                object(json!({"type": "integer"})),
                "v1.spec.a changes from string to integer",
            ),
            (object(json!({"type": "string"})), json!({"type": "object"}), "v1.spec.a is removed"),
            (
                object(json!({"type": "string", "enum": ["x", "y"]})),
                object(json!({"type": "string", "enum": ["x"]})),
                "v1.spec.a no longer allows \"y\"",
            ),
            (
                object(json!({"type": "string"})),
                object(json!({"type": "string", "enum": ["x"]})),
                "v1.spec.a is restricted to certain values",
            ),
            (
                object(json!({"type": "integer", "maximum": 5})),
                object(json!({"type": "integer", "maximum": 4})),
                "v1.spec.a maximum is narrowed from 5 to 4",
            ),
            (
                object(json!({"type": "string"})),
                object(json!({"type": "string", "pattern": "^a"})),
                "v1.spec.a pattern becomes \"^a\"",
            ),
            (
                object(json!({"type": "string", "nullable": true})),
                object(json!({"type": "string"})),
                "v1.spec.a may no longer be null",
            ),
        ] {
            assert_eq!(told(old, new), [expected]);
        }
        let mut stricter = object(json!({"type": "string"}));
        stricter["required"] = json!(["a"]);
        assert_eq!(
            told(object(json!({"type": "string"})), stricter),
            ["v1.spec.a becomes required and has no default"]
        );
    }

    #[test]
    fn additions_and_relaxations_are_safe() {
        let old = json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "integer", "format": "int32", "maximum": 5}}});
        let new = json!({"type": "object", "required": ["b"], "properties": {
            "a": {"type": "integer", "format": "int64", "maximum": 6, "description": "new"},
            "b": {"type": "string", "default": "x", "minLength": 0},
        }});
        assert_eq!(told(old, new), Vec::<String>::new());
    }

    #[test]
    fn versions_in_use_may_not_go() {
        let old = crd(schema(json!({"type": "object"})));
        let mut new = old.clone();
        new["spec"]["versions"][0]["name"] = json!("v2");
        new["spec"]["scope"] = json!("Cluster");
        let texts: Vec<String> = crd_changes(&old, &new).into_iter().map(|it| it.text).collect();
        assert_eq!(texts, ["changes from Namespaced to Cluster", "is removed, but objects are stored in it"]);
    }

    #[test]
    fn a_definition_is_checked_by_itself() {
        assert_eq!(check_definition(&crd(schema(json!({"type": "object"})))), Vec::<String>::new());
        let mut wrong = crd(schema(json!({"type": "object"})));
        wrong["metadata"]["name"] = json!("thing.g");
        wrong["spec"]["versions"][0]["storage"] = json!(false);
        wrong["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = json!({"$ref": "#/x"});
        assert_eq!(check_definition(&wrong).len(), 3, "{:?}", check_definition(&wrong));
    }
}
