//! Seats and queues are the root's: nobody gets out of theirs by what a project says about them.

use serde_json::json;

use crate::platform::{Platform, Who};
use crate::tokens::token_in;

const NAMESPACES: &str = "/projects/p1/api/v1/namespaces";

/// The name of the FlowSchema that decided over a request.
async fn schema(platform: &Platform, who: Who<'_>, request: http::request::Builder) -> String {
    let answer = platform.answer(who, request).await;
    let uid = answer.headers()["x-kubernetes-pf-flowschema-uid"].to_str().expect("text").to_owned();
    let (_, schemas) = platform.get("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas").await;
    let schema = schemas["items"].as_array().expect("a list").iter().find(|s| s["metadata"]["uid"] == *uid);
    schema.expect("a schema of this uid")["metadata"]["name"].as_str().expect("a name").to_owned()
}

#[tokio::test]
async fn an_administrator_of_a_project_who_acts_as_a_master_waits_like_before() {
    let platform = Platform::with(&["p1"]).await;
    let binding = json!({
        "metadata": {"name": "pat"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "pat"}],
    });
    platform.create("/projects/p1/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding).await;
    let get = || http::Request::get(NAMESPACES);
    let pat = Who::User("pat");
    assert_eq!(schema(&platform, pat, get()).await, "global-default");
    let as_master = get().header("impersonate-user", "somebody").header("impersonate-group", "system:masters");
    assert_eq!(platform.send_as("pat", "somebody", "system:masters", NAMESPACES).await, 200, "they may");
    assert_eq!(schema(&platform, pat, as_master).await, "global-default");
    let as_account = get().header("impersonate-user", "system:serviceaccount:kube-system:generic-garbage-collector");
    assert_eq!(schema(&platform, pat, as_account).await, "global-default");
    assert_eq!(schema(&platform, Who::Admin, get()).await, "exempt", "who the root exempts is exempt in projects");
}

#[tokio::test]
async fn a_projects_accounts_are_not_the_roots_of_the_same_names() {
    let platform = Platform::with(&["p1"]).await;
    for namespace in ["default", "kube-system"] {
        let token = token_in(&platform, "/projects/p1", namespace).await;
        let request = http::Request::get(NAMESPACES);
        assert_eq!(schema(&platform, Who::Token(&token), request).await, "service-accounts", "{namespace}");
    }
    platform.until("/api/v1/namespaces/kube-system/serviceaccounts/default", |status, _| status == 200).await;
    let of_root = token_in(&platform, "", "kube-system").await;
    let request = http::Request::get("/api/v1/namespaces");
    assert_eq!(schema(&platform, Who::Token(&of_root), request).await, "kube-system-service-accounts");
}
