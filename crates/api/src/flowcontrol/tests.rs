//! Specifications by example, besides what is recorded.

use serde_json::json;

use super::*;
use crate::testing::{create, now, resource};

#[test]
fn what_a_server_starts_with_is_valid_and_complete() {
    for object in bootstrap_objects() {
        let plural = if object["kind"] == "FlowSchema" { "flowschemas" } else { "prioritylevelconfigurations" };
        let mut stored = create(&*resource(GROUP, plural).strategy, object.clone()).expect("a valid object");
        stored.as_object_mut().expect("an object").remove("status");
        assert_eq!(stored, object, "defaults change nothing");
    }
    assert_eq!((mandatory_objects().len(), suggested_objects().len()), (4, 15));
}

#[test]
fn mandatory_objects_keep_their_spec_but_for_the_exempt_share() {
    let changed = |kind: &str, name: &str, path: &str, value: Value| {
        let mut object = bootstrap::mandatory(kind, name).expect("a mandatory object");
        *object.pointer_mut(path).expect("a field") = value;
        let plural = if kind == "FlowSchema" { "flowschemas" } else { "prioritylevelconfigurations" };
        create(&*resource(GROUP, plural).strategy, object).err().unwrap_or_default().len()
    };
    assert_eq!(changed("FlowSchema", "catch-all", "/spec/matchingPrecedence", json!(9999)), 1);
    assert_eq!(changed("PriorityLevelConfiguration", "catch-all", "/spec/limited/lendablePercent", json!(1)), 1);
    assert_eq!(changed("PriorityLevelConfiguration", "exempt", "/spec/exempt/lendablePercent", json!(1)), 0);
}

#[test]
fn the_tables_show_what_matters() {
    let schema = json!({
        "metadata": {"name": "s"}, "spec": {"priorityLevelConfiguration": {"name": "l"}, "matchingPrecedence": 7},
        "status": {"conditions": [{"type": "Dangling", "status": "True"}]},
    });
    let cells = [json!("s"), json!("l"), json!(7), json!("<none>"), json!("<unknown>"), json!("True")];
    assert_eq!(flow_schema::row(&schema, now()), cells);
    let level = json!({"metadata": {"name": "exempt"}, "spec": {"type": "Exempt", "exempt": {}}});
    assert_eq!(
        priority_level::row(&level, now())[..4],
        [json!("exempt"), json!("Exempt"), json!("<none>"), json!("<none>")]
    );
    let level = json!({
        "metadata": {"name": "l"},
        "spec": {"type": "Limited", "limited": {
            "nominalConcurrencyShares": 3,
            "limitResponse": {"type": "Queue", "queuing": {"queues": 4, "handSize": 5, "queueLengthLimit": 6}},
        }},
    });
    assert_eq!(priority_level::row(&level, now())[2..6], [json!(3), json!(4), json!(5), json!(6)]);
}

#[test]
fn a_status_update_keeps_all_metadata_but_managed_fields() {
    let user = Default::default();
    let cx = Context { now: now(), user: &user, warnings: None };
    let old = json!({"metadata": {"name": "a", "labels": {"a": "b"}, "managedFields": [1]}, "spec": {"x": 1}});
    let mut new = json!({"metadata": {"name": "a", "managedFields": [2]}, "spec": {}, "status": {"conditions": []}});
    Status(FlowControl::FlowSchema).prepare_for_update(&cx, &mut new, &old);
    assert_eq!(
        new,
        json!({
            "metadata": {"name": "a", "labels": {"a": "b"}, "managedFields": [2]},
            "spec": {"x": 1}, "status": {"conditions": []},
        })
    );
}
