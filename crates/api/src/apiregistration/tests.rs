//! Specifications by example, besides what is recorded.

use serde_json::json;

use super::*;
use crate::testing::now;

#[test]
fn the_table_says_who_serves_and_whether_it_works() {
    for (spec, status, service, available) in [
        (json!({}), json!({}), "Local", "Unknown"),
        (
            json!({"service": {"namespace": "n", "name": "s"}}),
            json!({"status": "False", "reason": "R"}),
            "n/s",
            "False (R)",
        ),
        (json!({}), json!({"status": "True", "reason": "Local"}), "Local", "True"),
        (json!({}), json!({"status": "False"}), "Local", "False"),
    ] {
        let mut condition = status.clone();
        put(&mut condition, "type", "Available".into());
        let conditions = if status == json!({}) { json!([]) } else { json!([condition]) };
        let object = json!({"metadata": {"name": "v1.a"}, "spec": spec, "status": {"conditions": conditions}});
        assert_eq!(row(&object, now()), [json!("v1.a"), json!(service), json!(available), json!("<unknown>")]);
    }
}

#[test]
fn a_status_update_leaves_labels_and_spec_alone() {
    let user = Default::default();
    let cx = Context { now: now(), user: &user, warnings: None };
    let old = json!({"metadata": {"name": "v1.a", "labels": {"a": "b"}}, "spec": {"group": "a"}});
    let mut new = json!({
        "metadata": {"name": "v1.a", "annotations": {"x": "y"}}, "spec": {"group": "z"}, "status": {"conditions": []},
    });
    ApiServiceStatus.prepare_for_update(&cx, &mut new, &old);
    let mut expected = old.clone();
    expected["status"] = json!({"conditions": []});
    assert_eq!(new, expected);
}
