//! Tokens of service accounts are good in the control plane that issued them.

use serde_json::{Value, json};

use crate::platform::{GROUP, Platform, Who};

async fn token(platform: &Platform, plane: &str) -> String {
    token_in(platform, plane, "default").await
}

/// A token of a namespace's default account.
pub async fn token_in(platform: &Platform, plane: &str, namespace: &str) -> String {
    let path = format!("{plane}/api/v1/namespaces/{namespace}/serviceaccounts/default/token");
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let issued = platform.create(&path, request).await;
    issued["status"]["token"].as_str().expect("a token").to_owned()
}

async fn who(platform: &Platform, token: &str, plane: &str) -> (u16, String) {
    let path = format!("{plane}/apis/authentication.k8s.io/v1/selfsubjectreviews");
    let (status, review) = platform.send(Who::Token(token), "POST", &path, json!({})).await;
    (status, review["status"]["userInfo"]["username"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn a_projects_token_is_good_there_and_nowhere_else() {
    let platform = Platform::with(&["p1", "p2"]).await;
    let of_p1 = token(&platform, "/projects/p1").await;
    assert_eq!(who(&platform, &of_p1, "/projects/p1").await, (201, "system:serviceaccount:default:default".into()));
    let long = format!("{GROUP}/projects/p1/control-plane");
    assert_eq!(who(&platform, &of_p1, &long).await.0, 201, "under either prefix");
    assert_eq!(who(&platform, &of_p1, "/projects/p2").await.0, 401);
    assert_eq!(who(&platform, &of_p1, "").await.0, 401);
    for (plane, known) in [("/projects/p1", true), ("/projects/p2", false), ("", false)] {
        let path = format!("{plane}/apis/authentication.k8s.io/v1/tokenreviews");
        let review = platform.create(&path, json!({"spec": {"token": of_p1}})).await;
        assert_eq!(review["status"]["authenticated"] == true, known, "{plane}: {review}");
    }
    let platform = platform.restarted().await;
    assert_eq!(who(&platform, &of_p1, "/projects/p1").await.0, 201, "the very first request of a server");
}

#[tokio::test]
async fn an_account_of_the_root_is_not_the_projects_account_of_the_same_name() {
    let platform = Platform::with(&["p1"]).await;
    // Controllers make it a moment after the server has started.
    let account = "/api/v1/namespaces/default/serviceaccounts/default";
    platform.until(account, |status, _| status == 200).await;
    let of_root = token(&platform, "").await;
    let binding = json!({
        "metadata": {"name": "own"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}],
    });
    platform.create("/projects/p1/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding).await;
    let namespaces = "/projects/p1/api/v1/namespaces";
    let of_p1 = token(&platform, "/projects/p1").await;
    assert_eq!(platform.send(Who::Token(&of_p1), "GET", namespaces, Value::Null).await.0, 200);
    assert_eq!(platform.send(Who::Token(&of_root), "GET", namespaces, Value::Null).await.0, 403);
}

#[tokio::test]
async fn a_token_does_not_outlive_its_project() {
    let platform = Platform::with(&["p1"]).await;
    let old = token(&platform, "/projects/p1").await;
    platform.send(Who::Admin, "DELETE", &format!("{GROUP}/projects/p1"), Value::Null).await;
    platform.until(&format!("{GROUP}/projects/p1"), |status, _| status == 404).await;
    assert_eq!(who(&platform, &old, "/projects/p1").await.0, 401);
    platform.project("p1").await;
    assert_eq!(who(&platform, &old, "/projects/p1").await.0, 401, "the account of the new one is another");
    let issuer = platform.get("/projects/p1/.well-known/openid-configuration").await.1;
    assert!(issuer["issuer"].as_str().unwrap_or_default().ends_with("/projects/p1"), "{issuer}");
}
