//! What every project has from the start: there for every reader, stored for nobody until somebody changes it.

use bailiwick_store::Revision;
use serde_json::{Value, json};

use crate::platform::{GROUP, Platform, Who};

const ROLES: &str = "/projects/p1/apis/rbac.authorization.k8s.io/v1/clusterroles";

#[tokio::test]
async fn a_project_that_nobody_changed_stores_nothing() {
    let platform = Platform::with(&["p1"]).await;
    let project = platform.get(&format!("{GROUP}/projects/p1")).await.1;
    assert!(platform.names(ROLES).await.contains(&"cluster-admin".to_owned()));
    assert_eq!(platform.get("/projects/p1/api/v1/namespaces/kube-system/serviceaccounts/default").await.0, 200);
    assert_eq!(platform.stored_of(&project).await, 0);
}

#[tokio::test]
async fn a_change_stores_the_object_and_a_deletion_lasts() {
    let platform = Platform::with(&["p1"]).await;
    let path = format!("{ROLES}/view");
    let before = platform.get(&path).await.1;
    let (status, changed) =
        platform.send(Who::Admin, "PATCH", &path, json!({"metadata": {"labels": {"x": "y"}}})).await;
    assert_eq!(status, 200, "{changed}");
    assert_eq!(changed["metadata"]["uid"], before["metadata"]["uid"]);
    assert_ne!(changed["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
    assert_eq!(platform.get(&path).await.1["metadata"]["labels"]["x"], "y");
    let mut stale = before.clone();
    stale["metadata"]["labels"]["z"] = "z".into();
    assert_eq!(platform.send(Who::Admin, "PUT", &path, stale).await.0, 409, "it is no longer what it was");
    // One that was changed and one that never was.
    for name in ["view", "edit"] {
        let path = format!("{ROLES}/{name}");
        assert_eq!(platform.send(Who::Admin, "DELETE", &path, Value::Null).await.0, 200);
        assert_eq!(platform.get(&path).await.0, 404);
        assert_eq!(platform.send(Who::Admin, "DELETE", &path, Value::Null).await.0, 404);
    }
    let platform = platform.restarted().await;
    assert_eq!(platform.get(&path).await.0, 404, "deleted is deleted");
    let again = json!({"metadata": {"name": "view"}, "rules": []});
    let created = platform.create(ROLES, again).await;
    assert_ne!(created["metadata"]["uid"], before["metadata"]["uid"]);
    let taken = json!({"metadata": {"name": "cluster-admin"}, "rules": []});
    assert_eq!(platform.send(Who::Admin, "POST", ROLES, taken).await.0, 409, "there is one from the start");
}

#[tokio::test]
async fn pages_show_the_same_as_the_whole() {
    let platform = Platform::with(&["p1"]).await;
    for name in ["aaa", "system:zzz", "zzz"] {
        platform.create(ROLES, json!({"metadata": {"name": name}, "rules": []})).await;
    }
    platform.send(Who::Admin, "DELETE", &format!("{ROLES}/admin"), Value::Null).await;
    let whole = platform.names(ROLES).await;
    assert!(whole.contains(&"zzz".to_owned()) && !whole.contains(&"admin".to_owned()));
    for limit in [1, 7, 1000] {
        let (mut paged, mut token) = (Vec::new(), String::new());
        loop {
            let path = format!("{ROLES}?limit={limit}&continue={token}");
            let (status, page) = platform.get(&path).await;
            assert_eq!(status, 200, "{page}");
            let items = page["items"].as_array().cloned().unwrap_or_default();
            assert!(items.len() <= limit);
            paged.extend(items.iter().filter_map(|item| item["metadata"]["name"].as_str().map(str::to_owned)));
            token = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
            if token.is_empty() {
                break;
            }
        }
        assert_eq!(paged, whole, "in pages of {limit}");
    }
}

#[tokio::test]
async fn watches_tell_changes_of_what_was_never_stored() {
    let platform = Platform::with(&["p1"]).await;
    let start = platform.get(ROLES).await.1["metadata"]["resourceVersion"].clone();
    platform.send(Who::Admin, "PATCH", &format!("{ROLES}/view"), json!({"metadata": {"labels": {"x": "y"}}})).await;
    platform.send(Who::Admin, "DELETE", &format!("{ROLES}/edit"), Value::Null).await;
    platform.create(ROLES, json!({"metadata": {"name": "new"}, "rules": []})).await;
    let at = start.as_str().and_then(|text| text.parse().ok()).map(Revision).expect("a revision");
    let path = format!("{ROLES}?watch=1&resourceVersion={at}&timeoutSeconds=1");
    let lines = platform.get(&path).await.1;
    let events: Vec<Value> =
        lines.as_str().unwrap_or_default().lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let seen = |kind: &str, name: &str| {
        events.iter().any(|event| event["type"] == kind && event["object"]["metadata"]["name"] == name)
    };
    assert!(seen("MODIFIED", "view") && seen("DELETED", "edit") && seen("ADDED", "new"), "{lines}");
}
