//! Specifications by example, besides what is recorded.

use bailiwick_machinery::UserInfo;
use serde_json::json;

use super::*;
use crate::testing::{NOW, now};

fn prepared(via: Via, mut object: Value, old: &Value) -> Value {
    let user = UserInfo::default();
    SigningRequest(via).prepare_for_update(&Context { now: now(), user: &user, warnings: None }, &mut object, old);
    object
}

#[test]
fn the_server_says_who_asks() {
    let user = UserInfo {
        name: "bob".into(),
        groups: vec!["dev".into()],
        extra: [("k".to_owned(), vec!["v".to_owned()])].into(),
        ..UserInfo::default()
    };
    let mut object = json!({"spec": {"username": "eve", "uid": "7", "groups": ["system:masters"]}, "status": {"x": 1}});
    SigningRequest(Via::Main).prepare_for_create(&Context { now: now(), user: &user, warnings: None }, &mut object);
    assert_eq!(object, json!({"spec": {"username": "bob", "groups": ["dev"], "extra": {"k": ["v"]}}, "status": {}}));
}

#[test]
fn approval_changes_conditions_only_and_dates_them() {
    let old = json!({"spec": {"a": 1}, "status": {"certificate": "Yw==", "conditions": []}});
    let new =
        json!({"spec": {}, "status": {"certificate": "eA==", "conditions": [{"type": "Approved", "status": "True"}]}});
    assert_eq!(
        prepared(Via::Approval, new, &old),
        json!({"spec": {"a": 1}, "status": {"certificate": "Yw==", "conditions": [
            {"type": "Approved", "status": "True", "lastUpdateTime": NOW, "lastTransitionTime": NOW},
        ]}})
    );
}

#[test]
fn status_updates_keep_the_approval_and_the_time_of_transitions() {
    let then = "2020-01-01T00:00:00Z";
    let approved = json!({"type": "Approved", "status": "True", "lastUpdateTime": then, "lastTransitionTime": then});
    let failed = json!({"type": "Failed", "status": "True", "lastUpdateTime": then, "lastTransitionTime": then});
    let old = json!({"status": {"conditions": [approved, failed]}});
    let new = json!({"status": {"conditions": [
        {"type": "Failed", "status": "True", "message": "again"},
        {"type": "Approved", "status": "True", "message": "changed"},
    ]}});
    assert_eq!(
        prepared(Via::Status, new, &old)["status"]["conditions"],
        json!([
            {"type": "Failed", "status": "True", "message": "again", "lastUpdateTime": NOW, "lastTransitionTime": then},
            approved,
        ])
    );
}

#[test]
fn the_table_sums_up_the_state() {
    for (status, cell) in [
        (json!({}), "Pending"),
        (json!({"conditions": [{"type": "Approved"}], "certificate": "eA=="}), "Approved,Issued"),
        (json!({"conditions": [{"type": "Approved"}, {"type": "Denied"}, {"type": "Failed"}]}), "Denied,Failed"),
    ] {
        assert_eq!(condition_cell(&status), cell);
    }
    let object = json!({"metadata": {"name": "a"}, "spec": {"expirationSeconds": 86400, "username": "bob"}});
    let cells = [json!("a"), json!("<unknown>"), json!("<none>"), json!("bob"), json!("24h"), json!("Pending")];
    assert_eq!(row(&object, now()), cells);
}
