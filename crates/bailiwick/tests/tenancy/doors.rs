//! Who gets into a project, and as whom.

use serde_json::{Value, json};

use crate::platform::{GROUP, Platform, Who};

async fn grant(platform: &Platform, user: &str, verb: &str, names: Value) {
    let rules = json!([{
        "apiGroups": ["resourcemanager.miloapis.com"], "resources": ["projects"], "verbs": [verb], "resourceNames": names,
    }]);
    let name = format!("{user}-{verb}");
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    platform.create(&format!("{rbac}/clusterroles"), json!({"metadata": {"name": name}, "rules": rules})).await;
    bind(platform, "", user, &name).await;
}

async fn bind(platform: &Platform, plane: &str, user: &str, role: &str) {
    let binding = json!({
        "metadata": {"name": format!("{user}-{role}")},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    });
    platform.create(&format!("{plane}/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"), binding).await;
}

async fn list(platform: &Platform, who: Who<'_>, project: &str) -> (u16, Value) {
    platform.send(who, "GET", &format!("/projects/{project}/api/v1/namespaces"), Value::Null).await
}

#[tokio::test]
async fn strangers_cannot_tell_whether_a_project_exists() {
    let platform = Platform::with(&["p1"]).await;
    for who in [Who::User("eve"), Who::Nobody] {
        let (status, mut there) = list(&platform, who, "p1").await;
        let (_, mut nowhere) = list(&platform, who, "p2").await;
        assert_eq!(status, 403, "{there}");
        for answer in [&mut there, &mut nowhere] {
            *answer = serde_json::from_str(&answer.to_string().replace("p2", "p1")).expect("JSON");
        }
        assert_eq!(there, nowhere);
        let discovery = platform.send(who, "GET", "/projects/p1/api", Value::Null).await.0;
        assert_eq!(discovery, 403, "not even that there is an API");
    }
    platform.send(Who::Admin, "DELETE", &format!("{GROUP}/projects/p1"), Value::Null).await;
    assert_eq!(list(&platform, Who::User("eve"), "p1").await.0, 403, "nor that it goes");
}

#[tokio::test]
async fn use_opens_the_door_and_the_projects_own_roles_decide() {
    let platform = Platform::with(&["p1", "p2"]).await;
    grant(&platform, "uma", "use", json!(["p1", "gone"])).await;
    let (status, refusal) = list(&platform, Who::User("uma"), "p1").await;
    assert_eq!(status, 403);
    assert!(
        refusal["message"].as_str().unwrap_or_default().contains("cannot list resource \"namespaces\""),
        "{refusal}"
    );
    assert_eq!(platform.send(Who::User("uma"), "GET", "/projects/p1/api", Value::Null).await.0, 200);
    assert_eq!(list(&platform, Who::User("uma"), "gone").await.0, 404, "who may use it may know that there is none");
    assert_eq!(list(&platform, Who::User("uma"), "p2").await.0, 403);
    bind(&platform, "/projects/p1", "uma", "view").await;
    assert_eq!(list(&platform, Who::User("uma"), "p1").await.0, 200);
    assert_eq!(
        platform.send(Who::User("uma"), "GET", "/api/v1/namespaces", Value::Null).await.0,
        403,
        "not in the root"
    );
}

#[tokio::test]
async fn a_projects_own_binding_lets_people_in() {
    let platform = Platform::with(&["p1", "p2"]).await;
    bind(&platform, "/projects/p1", "ben", "view").await;
    assert_eq!(list(&platform, Who::User("ben"), "p1").await.0, 200);
    assert_eq!(list(&platform, Who::User("ben"), "p2").await.0, 403);
    let binding = json!({
        "metadata": {"name": "rob"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "rob"}],
    });
    let bindings = "/projects/p2/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
    platform.create(bindings, binding).await;
    let maps = "/projects/p2/api/v1/namespaces/default/configmaps";
    assert_eq!(platform.send(Who::User("rob"), "GET", maps, Value::Null).await.0, 200, "also one in a namespace");
}

#[tokio::test]
async fn the_roots_administrators_of_a_project_can_be_shut_out_by_it() {
    let platform = Platform::with(&["p1", "p2"]).await;
    grant(&platform, "ada", "admin", json!(["p1"])).await;
    assert_eq!(list(&platform, Who::User("ada"), "p1").await.0, 200);
    assert_eq!(list(&platform, Who::User("ada"), "p2").await.0, 403);
    let trust = "/projects/p1/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/bailiwick:project-admins";
    assert_eq!(platform.send(Who::User("ada"), "DELETE", trust, Value::Null).await.0, 200);
    assert_eq!(list(&platform, Who::User("ada"), "p1").await.0, 403);
}

#[tokio::test]
async fn rights_in_a_project_are_rights_nowhere_else() {
    let platform = Platform::with(&["p1", "p2"]).await;
    bind(&platform, "/projects/p1", "pat", "cluster-admin").await;
    assert_eq!(list(&platform, Who::User("pat"), "p1").await.0, 200);
    for path in ["/api/v1/namespaces", "/projects/p2/api/v1/namespaces", "/projects/*/api/v1/namespaces", "/metrics"] {
        assert_eq!(platform.send(Who::User("pat"), "GET", path, Value::Null).await.0, 403, "{path}");
    }
    let review = |plane: &str| format!("{plane}/apis/authorization.k8s.io/v1/subjectaccessreviews");
    let question = json!({"spec": {"user": "pat", "resourceAttributes": {"verb": "list", "resource": "secrets"}}});
    for (plane, allowed) in [("/projects/p1", true), ("/projects/p2", false), ("", false)] {
        let answer = platform.send(Who::Admin, "POST", &review(plane), question.clone()).await.1;
        assert_eq!(answer["status"]["allowed"], allowed, "{plane}: {answer}");
    }
    assert_eq!(platform.get("/projects/p1/metrics").await.0, 404, "the server's figures are the root's");
}
