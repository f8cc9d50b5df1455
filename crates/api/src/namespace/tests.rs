use bailiwick_machinery::UserInfo;
use serde_json::json;

use super::*;
use crate::testing::{check_create, check_update, create, now, resource, update};

#[test]
fn a_new_namespace_is_active_labelled_and_held_by_the_controller() {
    let object =
        json!({"metadata": {"name": "a"}, "spec": {"finalizers": ["x/y"]}, "status": {"phase": "Terminating"}});
    let created = create(&Namespace, object).expect("valid");
    assert_eq!(created["metadata"]["labels"], json!({NAME_LABEL: "a"}));
    assert_eq!(created["spec"], json!({"finalizers": ["x/y", "kubernetes"]}));
    assert_eq!(created["status"], json!({"phase": "Active"}));
}

#[test]
fn the_name_label_cannot_be_changed() {
    let old = json!({"metadata": {"name": "a"}, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
    let object =
        json!({"metadata": {"name": "a", "labels": {NAME_LABEL: "b", "k": "v"}}, "spec": {"finalizers": ["q"]}});
    let updated = update(&Namespace, object, &old).expect("valid");
    assert_eq!(updated["metadata"]["labels"], json!({NAME_LABEL: "a", "k": "v"}));
    assert_eq!(updated["spec"], old["spec"]);
    assert_eq!(updated["status"], old["status"]);
}

#[test]
fn finalizers_have_a_domain_or_are_standard() {
    let complaint = |path: &str| {
        format!("{path}: Invalid value: \"bad\": name is neither a standard finalizer name nor is it fully qualified")
    };
    let object = json!({"metadata": {"name": "a", "finalizers": ["bad"]}, "spec": {"finalizers": ["x.y/z", "bad"]}});
    check_create("", "namespaces", object, &[&complaint("metadata.finalizers[0]"), &complaint("spec.finalizers")]);

    let old = json!({"metadata": {"name": "a"}, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
    let object = json!({"metadata": {"name": "a"}, "spec": {"finalizers": ["orphan", "bad"]}});
    check_update("", "namespaces/finalize", &old, object, &[&complaint("spec.finalizers[1]")]);
}

#[test]
fn the_phase_agrees_with_the_deletion_mark() {
    let old = json!({"metadata": {"name": "a"}, "spec": {"finalizers": ["kubernetes"]}});
    let status = |phase: &str, metadata: Value| json!({"metadata": metadata, "status": {"phase": phase}});
    let living = json!({"name": "a"});
    let dying = json!({"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"});
    for (phase, metadata, expected) in [
        ("Active", &living, None),
        ("Terminating", &dying, None),
        ("Terminating", &living, Some("\"Terminating\": may only be 'Active' if `deletionTimestamp` is empty")),
        ("Active", &dying, Some("\"Active\": may only be 'Terminating' if `deletionTimestamp` is not empty")),
    ] {
        let expected: Vec<String> =
            expected.map(|text| format!("status.Phase: Invalid value: {text}")).into_iter().collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        check_update("", "namespaces/status", &old, status(phase, metadata.clone()), &expected);
    }
}

#[test]
fn deletion_turns_it_terminating_and_waits_for_its_finalizers() {
    let user = UserInfo::default();
    let mut object =
        json!({"metadata": {"name": "a"}, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
    Namespace.mark_deleting(&Context { now: now(), user: &user, warnings: None }, &mut object);
    assert_eq!(object["status"]["phase"], "Terminating");
    let namespaces = resource("", "namespaces");
    let finalize = namespaces.subresource("finalize").expect("a subresource");
    assert!(!finalize.strategy.removable(&object));
    object["spec"] = json!({});
    assert!(finalize.strategy.removable(&object));
    assert_eq!(namespaces.table.cells(&object, now()), [json!("a"), json!("Terminating"), json!("<unknown>")]);
}
