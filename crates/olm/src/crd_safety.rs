//! Whether a definition may take the place of another without losing or breaking objects: the checks that OLM makes
//! before an upgrade, and the stricter ones of OLM v1.

use bailiwick_catalog::platform::crd_changes;
use bailiwick_schema::field::Path;
use bailiwick_schema::structural::{PruneOptions, Root, UnknownFields, compile, prune, validate};
use serde_json::Value;

use crate::object::{list, text, texts};

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
            let (kind, place) = (text(new, "/spec/names/kind"), place_of(object));
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

/// Whether a definition knows all fields of objects that exist, given in one of its versions: what it does not know would
/// be dropped when they are written next.
pub(crate) fn check_fields(new: &Value, version: &str, objects: &[Value]) -> Result<(), String> {
    let described = list(new, "/spec/versions").iter().find(|described| text(described, "/name") == version);
    let Some(schema) = described.and_then(|described| described.pointer("/schema/openAPIV3Schema")) else {
        return Ok(());
    };
    let schema = compile(schema).map_err(|error| error.to_string())?;
    let options = PruneOptions { root: Root::Resource, unknown_fields: UnknownFields::Report };
    for object in objects {
        let unknown = prune(&mut object.clone(), &schema, options);
        if let Some(first) = unknown.first() {
            let (kind, place) = (text(new, "/spec/names/kind"), place_of(object));
            return Err(format!("{kind} {place:?} would lose {first}"));
        }
    }
    Ok(())
}

/// How messages call an object.
fn place_of(object: &Value) -> String {
    match (text(object, "/metadata/namespace"), text(object, "/metadata/name")) {
        ("", name) => name.to_owned(),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}

/// OLM v1's checks of what changes between two definitions, whether there are objects or not. Everything that could
/// break one, or lose something of it, is a reason.
pub(crate) fn breaking_changes(old: &Value, new: &Value) -> Vec<String> {
    crd_changes(old, new).into_iter().map(|change| format!("{} {}", change.place, change.text)).collect()
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
    fn what_could_break_or_lose_objects_is_named() {
        let old = definition(
            &["v1"],
            &schema(json!({"type": "object", "properties": {
            "a": {"type": "string", "enum": ["x", "y"]}, "b": {"type": "integer"}, "c": {"type": "string"}}})),
        );
        let new = definition(
            &["v1"],
            &schema(json!({"type": "object", "required": ["a"], "properties": {
            "a": {"type": "string", "enum": ["x"], "pattern": "^x"}, "b": {"type": "string"}}})),
        );
        let found = breaking_changes(&old, &new);
        for part in [
            "v1.spec.a becomes required and has no default",
            "v1.spec.a no longer allows \"y\"",
            "v1.spec.a pattern becomes \"^x\"",
            "v1.spec.b changes from integer to string",
            "v1.spec.c is removed",
        ] {
            assert!(found.iter().any(|reason| reason == part), "{part} is not in {found:#?}");
        }
        assert!(breaking_changes(&old, &old).is_empty());
    }
}
