//! The generic controllers look after every project.

use serde_json::{Value, json};

use crate::platform::{Platform, Who, definition};

#[tokio::test]
async fn a_new_namespace_gets_its_account_and_the_ca() {
    let platform = Platform::with(&["p1"]).await;
    platform.create("/projects/p1/api/v1/namespaces", json!({"metadata": {"name": "team"}})).await;
    let team = "/projects/p1/api/v1/namespaces/team";
    platform.until(&format!("{team}/serviceaccounts/default"), |status, _| status == 200).await;
    let published = |status: u16, map: &Value| {
        status == 200 && map["data"]["ca.crt"].as_str().is_some_and(|pem| pem.contains("BEGIN CERTIFICATE"))
    };
    platform.until(&format!("{team}/configmaps/kube-root-ca.crt"), published).await;
    // Also those that were there from the start come back.
    let account = "/projects/p1/api/v1/namespaces/default/serviceaccounts/default";
    let before = platform.get(account).await.1;
    assert_eq!(platform.send(Who::Admin, "DELETE", account, Value::Null).await.0, 200);
    let again = platform.until(account, |status, _| status == 200).await;
    assert_ne!(again["metadata"]["uid"], before["metadata"]["uid"]);
}

#[tokio::test]
async fn a_namespace_is_emptied_and_goes() {
    let platform = Platform::with(&["p1"]).await;
    platform
        .create("/projects/p1/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition("gears", "Gear"))
        .await;
    platform.create("/projects/p1/api/v1/namespaces", json!({"metadata": {"name": "team"}})).await;
    let gears = "/projects/p1/apis/example.com/v1/namespaces/team/gears";
    platform.until(gears, |status, _| status == 200).await;
    platform.create(gears, json!({"apiVersion": "example.com/v1", "kind": "Gear", "metadata": {"name": "g"}})).await;
    platform.create("/projects/p1/api/v1/namespaces/team/configmaps", json!({"metadata": {"name": "m"}})).await;
    assert_eq!(platform.send(Who::Admin, "DELETE", "/projects/p1/api/v1/namespaces/team", Value::Null).await.0, 200);
    platform.until("/projects/p1/api/v1/namespaces/team", |status, _| status == 404).await;
    assert_eq!(platform.names("/projects/p1/apis/example.com/v1/gears").await, Vec::<String>::new());
}

#[tokio::test]
async fn owners_take_their_dependents_with_them_and_definitions_their_objects() {
    let platform = Platform::with(&["p1"]).await;
    let maps = "/projects/p1/api/v1/namespaces/default/configmaps";
    let owner = platform.map("/projects/p1", "owner").await;
    for name in ["a", "b"] {
        let reference = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": true,
        });
        platform.create(maps, json!({"metadata": {"name": name, "ownerReferences": [reference]}})).await;
    }
    let foreground = json!({"propagationPolicy": "Foreground"});
    assert_eq!(platform.send(Who::Admin, "DELETE", &format!("{maps}/owner"), foreground).await.0, 200);
    platform.until(&format!("{maps}/owner"), |status, _| status == 404).await;
    assert_eq!(platform.names(maps).await, ["kube-root-ca.crt"]);
    let definitions = "/projects/p1/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    platform.create(definitions, definition("gears", "Gear")).await;
    let gears = "/projects/p1/apis/example.com/v1/namespaces/default/gears";
    platform.until(gears, |status, _| status == 200).await;
    let held = json!({"name": "g", "finalizers": ["example.com/wait"]});
    platform.create(gears, json!({"apiVersion": "example.com/v1", "kind": "Gear", "metadata": held})).await;
    assert_eq!(
        platform.send(Who::Admin, "DELETE", &format!("{definitions}/gears.example.com"), Value::Null).await.0,
        200
    );
    let gear = format!("{gears}/g");
    platform.until(&gear, |_, gear| gear["metadata"]["deletionTimestamp"].is_string()).await;
    let freed = json!({"metadata": {"finalizers": null}});
    assert_eq!(platform.send(Who::Admin, "PATCH", &gear, freed).await.0, 200);
    platform.until(&format!("{definitions}/gears.example.com"), |status, _| status == 404).await;
}

#[tokio::test]
async fn roles_are_gathered_and_quotas_counted() {
    let platform = Platform::with(&["p1"]).await;
    let roles = "/projects/p1/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let rule = json!({"apiGroups": ["example.com"], "resources": ["gears"], "verbs": ["get"]});
    let labels = json!({"rbac.authorization.k8s.io/aggregate-to-view": "true"});
    platform.create(roles, json!({"metadata": {"name": "gears", "labels": labels}, "rules": [rule]})).await;
    for gathering in ["view", "edit", "admin"] {
        let gathered = |_: u16, role: &Value| role["rules"].to_string().contains("gears");
        platform.until(&format!("{roles}/{gathering}"), gathered).await;
    }
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "10"}}});
    platform.create("/projects/p1/api/v1/namespaces/default/resourcequotas", quota).await;
    platform.map("/projects/p1", "a").await;
    let path = "/projects/p1/api/v1/namespaces/default/resourcequotas/q";
    // The CA is one of them.
    platform.until(path, |_, quota| quota["status"]["used"]["configmaps"] == "2").await;
    platform.send(Who::Admin, "DELETE", "/projects/p1/api/v1/namespaces/default/configmaps/a", Value::Null).await;
    platform.until(path, |_, quota| quota["status"]["used"]["configmaps"] == "1").await;
}

#[tokio::test]
async fn work_that_a_stop_left_behind_is_done_after_the_next_start() {
    let platform = Platform::with(&["p1"]).await;
    let kept = json!({"metadata": {"name": "kept", "finalizers": ["example.com/wait"]}});
    platform.create("/projects/p1/api/v1/namespaces", json!({"metadata": {"name": "team"}})).await;
    platform.create("/projects/p1/api/v1/namespaces/team/configmaps", kept).await;
    platform.send(Who::Admin, "DELETE", "/projects/p1/api/v1/namespaces/team", Value::Null).await;
    let platform = platform.restarted().await;
    let map = "/projects/p1/api/v1/namespaces/team/configmaps/kept";
    platform.until(map, |_, map| map["metadata"]["deletionTimestamp"].is_string()).await;
    let freed = json!({"metadata": {"finalizers": null}});
    assert_eq!(platform.send(Who::Admin, "PATCH", map, freed).await.0, 200);
    platform.until("/projects/p1/api/v1/namespaces/team", |status, _| status == 404).await;
}
