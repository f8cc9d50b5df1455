//! Specifications by example, besides what is recorded.

use serde_json::json;

use super::*;

fn with_formats(formats: &[(&str, &str)]) -> Value {
    let properties: Map<String, Value> =
        formats.iter().map(|(kind, format)| ((*format).to_owned(), json!({"type": kind, "format": format}))).collect();
    json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": {"type": "object", "properties": properties}}}]}})
}

#[test]
fn formats_that_nothing_checks_bring_a_warning_once() {
    let known = with_formats(&[("string", "date-time"), ("integer", "int64"), ("number", "double"), ("", "uuid")]);
    assert_eq!(Definition.warnings_on_create(&known), [""; 0]);
    let unknown = with_formats(&[("string", "foo"), ("integer", "double"), ("object", "uuid")]);
    assert_eq!(Definition.warnings_on_create(&unknown).len(), 3);
    let more = with_formats(&[("string", "foo"), ("string", "bar")]);
    assert_eq!(Definition.warnings_on_update(&more, &unknown), ["unrecognized format \"bar\""]);
}

#[test]
fn a_new_storage_version_joins_the_stored_ones() {
    let mut object = json!({
        "spec": {"versions": [{"name": "v1"}, {"name": "v2", "storage": true}]}, "status": {"storedVersions": ["v1"]},
    });
    store_in_status(&mut object, |_| true);
    store_in_status(&mut object, |_| true);
    assert_eq!(object["status"]["storedVersions"], json!(["v1", "v2"]));
}

#[test]
fn the_status_subresource_leaves_the_spec_alone() {
    let user = Default::default();
    let cx = Context { now: crate::testing::now(), user: &user, warnings: None };
    let mut new = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"scope": "x"}, "status": {}});
    DefinitionStatus.prepare_for_update(&cx, &mut new, &json!({"metadata": {}, "spec": {"scope": "Cluster"}}));
    assert_eq!(new, json!({"metadata": {"labels": {"a": "b"}}, "spec": {"scope": "Cluster"}, "status": {}}));
}

#[test]
fn patterns_that_would_take_long_to_compile_are_refused_at_once() {
    let properties: Map<String, Value> = (0..20)
        .map(|n| (format!("p{n}"), json!({"type": "string", "pattern": format!("\\pL{{{}}}", 980 + n)})))
        .collect();
    let definition = json!({
        "metadata": {"name": "as.b.c"},
        "spec": {"group": "b.c", "scope": "Cluster",
            "names": {"plural": "as", "singular": "a", "kind": "A", "listKind": "AList"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}}}]},
        "status": {"storedVersions": ["v1"]},
    });
    let errors = spec::validate(&definition, None);
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["spec.validation.openAPIV3Schema: Forbidden: patterns are too large to be compiled"]);
}

#[test]
fn the_first_deletion_keeps_a_definition_for_its_instances() {
    let user = bailiwick_machinery::UserInfo::default();
    let cx = Context { now: crate::testing::now(), user: &user, warnings: None };
    let mut definition = json!({"metadata": {"name": "as.b.c", "generation": 2, "deletionGracePeriodSeconds": 0}});
    assert!(!Definition.removable(&definition), "the first request only marks it");
    assert!(!Definition.follows_propagation_policy(&definition), "and asks nothing of the garbage collector");
    Definition.mark_deleting(&cx, &mut definition);
    assert_eq!(definition["metadata"], json!({"name": "as.b.c", "generation": 1, "finalizers": [CLEANUP_FINALIZER]}));
    assert_eq!(definition["status"]["conditions"][0]["type"], "Terminating");
    assert_eq!(definition["status"]["conditions"][0]["lastTransitionTime"], crate::testing::NOW);
}
