//! From creation to the end.

use std::time::Duration;

use serde_json::{Value, json};

use crate::platform::{GROUP, Platform, Who, definition, typed};

#[tokio::test]
async fn a_project_is_a_complete_api_as_soon_as_it_exists() {
    let platform = Platform::with(&["p1"]).await;
    assert_eq!(platform.names("/projects/p1/api/v1/namespaces").await, ["default", "kube-public", "kube-system"]);
    platform.create("/projects/p1/api/v1/namespaces", json!({"metadata": {"name": "team"}})).await;
    platform.map("/projects/p1", "a").await;
    let long = format!("{GROUP}/projects/p1/control-plane");
    assert_eq!(
        platform.names(&format!("{long}/api/v1/namespaces/default/configmaps")).await,
        ["a", "kube-root-ca.crt"]
    );
    for path in ["/api", "/apis", "/apis/apps", "/openapi/v2", "/openapi/v3", "/version", "/healthz", "/readyz"] {
        let status = platform.get(&format!("/projects/p1{path}")).await.0;
        assert_eq!(status, if path == "/apis/apps" { 404 } else { 200 }, "{path}");
    }
    let (_, groups) = platform.get("/projects/p1/apis").await;
    let names: Vec<&str> =
        groups["groups"].as_array().into_iter().flatten().filter_map(|g| g["name"].as_str()).collect();
    assert!(names.contains(&"rbac.authorization.k8s.io") && names.contains(&"apiextensions.k8s.io"), "{names:?}");
    for root_only in ["resourcemanager.miloapis.com", "apiregistration.k8s.io", "certificates.k8s.io"] {
        assert!(!names.contains(&root_only), "{root_only} is the root's");
    }
}

#[tokio::test]
async fn a_project_becomes_ready_and_belongs_to_its_organization() {
    let platform = Platform::with(&["p1"]).await;
    let path = format!("{GROUP}/projects/p1");
    let ready = |_: u16, project: &Value| project["status"]["conditions"][0]["status"] == "True";
    let project = platform.until(&path, ready).await;
    assert_eq!(project["metadata"]["ownerReferences"][0]["kind"], "Organization");
    let moved = json!({"spec": {"ownerRef": {"name": "other"}}});
    let (status, refusal) = platform.send(Who::Admin, "PATCH", &path, moved).await;
    assert_eq!(status, 422, "{refusal}");
    assert!(refusal["message"].as_str().unwrap_or_default().contains("ownerRef is immutable"), "{refusal}");
    let orphan = json!({"metadata": {"name": "p2"}, "spec": {"ownerRef": {"kind": "Organization", "name": "none"}}});
    let collection = format!("{GROUP}/projects");
    let (status, refusal) = platform.send(Who::Admin, "POST", &collection, typed(&collection, orphan)).await;
    assert_eq!((status, &refusal["reason"]), (403, &json!("Forbidden")), "{refusal}");
    let freed = json!({"metadata": {"finalizers": null}});
    assert_eq!(platform.send(Who::Admin, "PATCH", &path, freed).await.0, 403, "the server lets a project go");
}

#[tokio::test]
async fn deletion_leaves_nothing_and_a_new_project_of_the_name_starts_empty() {
    let platform = Platform::with(&["p1", "p2"]).await;
    let project = platform.get(&format!("{GROUP}/projects/p1")).await.1;
    platform
        .create("/projects/p1/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition("gears", "Gear"))
        .await;
    let kept = json!({"metadata": {"name": "kept", "finalizers": ["example.com/never"]}});
    platform.create("/projects/p1/api/v1/namespaces/default/configmaps", kept).await;
    platform.map("/projects/p2", "other").await;
    assert!(platform.stored_of(&project).await >= 2);
    let (status, _) = platform.send(Who::Admin, "DELETE", &format!("{GROUP}/projects/p1"), Value::Null).await;
    assert_eq!(status, 200);
    let (status, refusal) = platform.get("/projects/p1/api/v1/namespaces").await;
    assert!(matches!(status, 403 | 404), "{refusal}");
    platform.until(&format!("{GROUP}/projects/p1"), |status, _| status == 404).await;
    assert_eq!(platform.stored_of(&project).await, 0, "nothing is left, finalizers or not");
    let (status, refusal) = platform.get("/projects/p1/api/v1/namespaces").await;
    assert_eq!((status, &refusal["reason"]), (404, &json!("NotFound")));
    assert_eq!(refusal["message"], "projects.resourcemanager.miloapis.com \"p1\" not found");
    platform.project("p1").await;
    assert_eq!(platform.names("/projects/p1/api/v1/namespaces/default/configmaps").await, ["kube-root-ca.crt"]);
    assert_eq!(platform.get("/projects/p1/apis/example.com/v1/namespaces/default/gears").await.0, 404);
    let maps = platform.names("/projects/p2/api/v1/namespaces/default/configmaps").await;
    assert_eq!(maps, ["kube-root-ca.crt", "other"], "its neighbour has lost nothing");
}

#[tokio::test]
async fn an_organization_takes_its_projects_with_it() {
    let platform = Platform::with(&["p1"]).await;
    platform.map("/projects/p1", "a").await;
    assert_eq!(platform.send(Who::Admin, "DELETE", &format!("{GROUP}/organizations/acme"), Value::Null).await.0, 200);
    platform.until(&format!("{GROUP}/projects/p1"), |status, _| status == 404).await;
    assert_eq!(platform.stored("p-").await, 0);
}

#[tokio::test]
async fn a_restart_finds_everything_again_and_an_idle_project_is_let_go() {
    let platform = Platform::with(&["p1"]).await;
    let map = platform.map("/projects/p1", "a").await;
    let namespaces = platform.get("/projects/p1/api/v1/namespaces").await.1;
    let platform = platform.restarted().await;
    assert_eq!(platform.get("/projects/p1/api/v1/namespaces/default/configmaps/a").await.1, map);
    assert_eq!(
        platform.get("/projects/p1/api/v1/namespaces").await.1["items"],
        namespaces["items"],
        "same uids and versions"
    );
    let drop_idle = || platform.running.server.drop_idle_tenants(Duration::ZERO, usize::MAX);
    assert_eq!(drop_idle(), 1);
    assert_eq!(drop_idle(), 0);
    assert_eq!(platform.get("/projects/p1/api/v1/namespaces/default/configmaps/a").await.1, map);
}

#[tokio::test]
async fn of_too_many_open_projects_the_least_recently_used_is_let_go() {
    let platform = Platform::with(&["p1", "p2", "p3"]).await;
    for project in ["p2", "p1", "p3"] {
        let maps = format!("/projects/{project}/api/v1/namespaces/default/configmaps");
        assert_eq!(platform.get(&maps).await.0, 200);
        // Idleness is counted in milliseconds.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let drop_beyond = |open_max| platform.running.server.drop_idle_tenants(Duration::from_secs(3600), open_max);
    assert_eq!(drop_beyond(3), 0);
    assert_eq!(drop_beyond(2), 1);
    assert_eq!(drop_beyond(2), 0, "the rest may stay");
    assert_eq!(platform.get("/projects/p2/api/v1/namespaces/default").await.0, 200, "it opens again");
}
