//! Whether a definition may take the place of another without losing or breaking objects: the checks that OLM makes
//! before an upgrade, and the stricter ones of OLM v1.

use bailiwick_schema::field::Path;
use bailiwick_schema::structural::{compile, validate};
use serde_json::Value;

use crate::object::{list, text, texts};

/// Schemas deeper than this are not looked into further; the API server refuses them anyway.
const DEPTH_MAX: usize = 64;
/// How many invalid objects are named; one is reason enough.
const NAMED_MAX: usize = 3;

/// Versions that objects may be stored in must not go, and the scope must stay.
pub(crate) fn check_versions(old: &Value, new: &Value) -> Result<(), String> {
    let name = text(old, "/metadata/name");
    let (before, after) = (text(old, "/spec/scope"), text(new, "/spec/scope"));
    if before != after {
        return Err(format!("CRD {name:?}: the scope changes from {before:?} to {after:?}"));
    }
    let versions: Vec<&str> = list(new, "/spec/versions").iter().map(|version| text(version, "/name")).collect();
    for stored in texts(old, "/status/storedVersions") {
        if !versions.contains(&stored.as_str()) {
            return Err(format!(
                "risk of data loss updating {name:?}: new CRD removes version {stored} that is listed as a stored \
                 version on the existing CRD"
            ));
        }
    }
    Ok(())
}

/// Whether objects that exist, given in one of the versions, fit the schemas of the new definition.
pub(crate) fn check_objects(new: &Value, version: &str, objects: &[Value]) -> Result<(), String> {
    let name = text(new, "/metadata/name");
    let wrong =
        |reason: String| format!("error validating existing CRs against new CRD's schema for {name:?}: {reason}");
    let described = list(new, "/spec/versions").iter().find(|described| text(described, "/name") == version);
    let Some(schema) = described.and_then(|described| described.pointer("/schema/openAPIV3Schema")) else {
        return Ok(());
    };
    let schema = compile(schema).map_err(|error| wrong(error.to_string()))?;
    let mut refused = Vec::new();
    for object in objects {
        let mut candidate = object.clone();
        bailiwick_schema::structural::default(&mut candidate, &schema);
        let errors = validate(&candidate, &schema, &Path::root());
        if let Some(first) = errors.first() {
            let (namespace, own) = (text(object, "/metadata/namespace"), text(object, "/metadata/name"));
            let place = if namespace.is_empty() { own.to_owned() } else { format!("{namespace}/{own}") };
            let kind = text(new, "/spec/names/kind");
            refused.push(format!("{kind} {place:?}: updated validation is too restrictive: {first}"));
        }
    }
    if refused.is_empty() {
        return Ok(());
    }
    let more = refused.len().saturating_sub(NAMED_MAX);
    refused.truncate(NAMED_MAX);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    Err(wrong(format!("{}{more}", refused.join("; "))))
}

/// OLM v1's checks of what changes between two definitions, whether there are objects or not. Everything that could
/// break one is a reason.
pub(crate) fn breaking_changes(old: &Value, new: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for version in list(old, "/spec/versions") {
        let name = text(version, "/name");
        let after = list(new, "/spec/versions").iter().find(|after| text(after, "/name") == name);
        let Some(after) = after else { continue };
        let path = format!("version {name}: ^");
        let schema = |version: &Value| version.pointer("/schema/openAPIV3Schema").cloned().unwrap_or_default();
        compare(&schema(version), &schema(after), &path, &mut found, 0);
    }
    found
}

fn compare(old: &Value, new: &Value, path: &str, found: &mut Vec<String>, depth: usize) {
    if depth > DEPTH_MAX {
        return;
    }
    let (before, after) = (text(old, "/type"), text(new, "/type"));
    if before != after {
        found.push(format!("{path}: type changed from {before:?} to {after:?}"));
        return;
    }
    let required = texts(old, "/required");
    for field in texts(new, "/required").iter().filter(|field| !required.contains(field)) {
        found.push(format!("{path}: field {field:?} became required"));
    }
    let allowed = list(new, "/enum");
    match list(old, "/enum") {
        [] if !allowed.is_empty() => found.push(format!("{path}: values were limited where they were not before")),
        values => {
            let gone = values.iter().filter(|value| !allowed.is_empty() && !allowed.contains(value));
            found.extend(gone.map(|value| format!("{path}: value {value} is not allowed any more")));
        }
    }
    for (key, is_upper) in [
        ("maximum", true),
        ("maxLength", true),
        ("maxItems", true),
        ("maxProperties", true),
        ("minimum", false),
        ("minLength", false),
        ("minItems", false),
        ("minProperties", false),
    ] {
        let (before, after) = (old.get(key).and_then(Value::as_f64), new.get(key).and_then(Value::as_f64));
        let tightened = match (before, after) {
            (Some(before), Some(after)) => {
                if is_upper {
                    after < before
                } else {
                    after > before
                }
            }
            (None, Some(after)) => is_upper || after > 0.0,
            _ => false,
        };
        if tightened {
            found.push(format!("{path}: {key} was tightened"));
        }
    }
    let keeps_unknown = new.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
    for (name, before) in old.get("properties").and_then(Value::as_object).into_iter().flatten() {
        match new.get("properties").and_then(|properties| properties.get(name)) {
            Some(after) => compare(before, after, &format!("{path}.{name}"), found, depth + 1),
            None if keeps_unknown => {}
            None => found.push(format!("{path}: field {name:?} was removed")),
        }
    }
    for (key, suffix) in [("items", "[*]"), ("additionalProperties", "[*]")] {
        if let (Some(before), Some(after)) = (old.get(key), new.get(key)) {
            compare(before, after, &format!("{path}{suffix}"), found, depth + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn definition(versions: &[&str], schema: &Value) -> Value {
        let version = |name: &&str| json!({"name": name, "schema": {"openAPIV3Schema": schema}});
        json!({
            "metadata": {"name": "things.example.com"},
            "spec": {"scope": "Namespaced", "names": {"kind": "Thing"},
                "versions": versions.iter().map(version).collect::<Vec<_>>()},
            "status": {"storedVersions": ["v1"]},
        })
    }

    fn schema(spec: Value) -> Value {
        json!({"type": "object", "properties": {"metadata": {"type": "object"}, "spec": spec}})
    }

    #[test]
    fn stored_versions_and_scope_must_stay() {
        let schema = schema(json!({"type": "object"}));
        let old = definition(&["v1"], &schema);
        assert_eq!(check_versions(&old, &definition(&["v1", "v2"], &schema)), Ok(()));
        let error = check_versions(&old, &definition(&["v2"], &schema)).unwrap_err();
        assert_eq!(
            error,
            "risk of data loss updating \"things.example.com\": new CRD removes version v1 that is listed as a stored \
             version on the existing CRD"
        );
        let mut wide = definition(&["v1"], &schema);
        wide["spec"]["scope"] = "Cluster".into();
        assert!(check_versions(&old, &wide).unwrap_err().contains("scope"));
    }

    #[test]
    fn objects_that_exist_must_stay_valid() {
        let strict = schema(
            json!({"type": "object", "required": ["size"], "properties": {"size": {"type": "integer", "maximum": 3}}}),
        );
        let new = definition(&["v1"], &strict);
        let object = |size: Value| json!({"metadata": {"name": "a", "namespace": "n"}, "spec": {"size": size}});
        assert_eq!(check_objects(&new, "v1", &[object(json!(3))]), Ok(()));
        let error = check_objects(&new, "v1", &[object(json!(3)), object(json!(4))]).unwrap_err();
        assert!(error.contains("Thing \"n/a\": updated validation is too restrictive: spec.size"), "{error}");
        assert_eq!(check_objects(&new, "v2", &[object(json!(4))]), Ok(()), "another version is not looked at");
    }

    #[test]
    fn every_tightening_is_named() {
        let old = definition(
            &["v1"],
            &schema(json!({"type": "object", "properties": {
            "a": {"type": "string", "enum": ["x", "y"]}, "b": {"type": "integer"}, "c": {"type": "string"}}})),
        );
        let new = definition(
            &["v1"],
            &schema(json!({"type": "object", "required": ["a"], "properties": {
            "a": {"type": "string", "enum": ["x"]}, "b": {"type": "string"}}})),
        );
        let found = breaking_changes(&old, &new);
        for part in [
            "^.spec: field \"a\" became required",
            "^.spec.a: value \"y\" is not allowed any more",
            "^.spec.b: type changed from \"integer\" to \"string\"",
            "^.spec: field \"c\" was removed",
        ] {
            assert!(found.iter().any(|reason| reason.ends_with(part)), "{part} is not in {found:#?}");
        }
        assert!(breaking_changes(&old, &old).is_empty());
    }
}
