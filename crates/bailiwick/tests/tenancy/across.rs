//! Reads across projects, for those whom the root lets.

use serde_json::{Value, json};

use crate::platform::{GROUP, Platform, Who};

#[tokio::test]
async fn one_list_shows_what_all_projects_have() {
    let platform = Platform::with(&["p1", "p2"]).await;
    platform.create(&format!("{GROUP}/organizations"), json!({"metadata": {"name": "other"}})).await;
    let spec = json!({"ownerRef": {"kind": "Organization", "name": "other"}});
    platform.create(&format!("{GROUP}/projects"), json!({"metadata": {"name": "p3"}, "spec": spec})).await;
    for project in ["p1", "p2", "p3"] {
        platform.map(&format!("/projects/{project}"), "shared").await;
    }
    let links = |list: &Value| -> Vec<String> {
        let items = list["items"].as_array().cloned().unwrap_or_default();
        items.iter().filter_map(|item| item["metadata"]["selfLink"].as_str().map(str::to_owned)).collect()
    };
    let all = platform.get("/projects/*/api/v1/configmaps").await.1;
    let link = |project: &str| format!("/projects/{project}/api/v1/namespaces/default/configmaps/shared");
    assert_eq!(links(&all), [link("p1"), link("p2"), link("p3")]);
    let of_acme = platform.get("/organizations/acme/projects/*/api/v1/namespaces/default/configmaps").await.1;
    assert_eq!(links(&of_acme), [link("p1"), link("p2")]);
}

#[tokio::test]
async fn the_roots_roles_say_who_may_read_across() {
    let platform = Platform::with(&["p1"]).await;
    platform.map("/projects/p1", "shared").await;
    let path = "/organizations/acme/projects/*/api/v1/configmaps";
    assert_eq!(platform.send(Who::User("rita"), "GET", path, Value::Null).await.0, 403);
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let rules = json!([{"nonResourceURLs": ["/organizations/acme/*"], "verbs": ["get"]}]);
    platform
        .create(&format!("{rbac}/clusterroles"), json!({"metadata": {"name": "acme-reader"}, "rules": rules}))
        .await;
    let binding = json!({
        "metadata": {"name": "acme-reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "acme-reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "rita"}],
    });
    platform.create(&format!("{rbac}/clusterrolebindings"), binding).await;
    assert_eq!(platform.send(Who::User("rita"), "GET", path, Value::Null).await.0, 200);
    for other in ["/projects/*/api/v1/configmaps", "/organizations/other/projects/*/api/v1/configmaps"] {
        assert_eq!(platform.send(Who::User("rita"), "GET", other, Value::Null).await.0, 403, "{other}");
    }
    assert_eq!(platform.send(Who::Admin, "DELETE", path, Value::Null).await.0, 405);
}

#[tokio::test]
async fn lists_across_projects_have_pages_and_selectors() {
    let platform = Platform::with(&["p1", "p2"]).await;
    for (project, names) in [("p1", ["a", "b"]), ("p2", ["a", "c"])] {
        for name in names {
            platform.map(&format!("/projects/{project}"), name).await;
        }
    }
    let path = "/projects/*/api/v1/namespaces/default/configmaps";
    assert_eq!(platform.names(&format!("{path}?fieldSelector=metadata.name%3Da")).await, ["a", "a"]);
    assert_eq!(platform.names(&format!("{path}?labelSelector=tier%3Dgold")).await, [""; 0]);
    let (mut pages, mut next) = (Vec::new(), String::new());
    loop {
        let query = if next.is_empty() { String::new() } else { format!("&continue={next}") };
        let page = platform.get(&format!("{path}?limit=3{query}")).await.1;
        let names = page["items"].as_array().expect("items").iter().map(|item| item["metadata"]["name"].clone());
        pages.push(Value::Array(names.collect()));
        match page["metadata"]["continue"].as_str() {
            Some(token) => next = token.to_owned(),
            None => break,
        }
    }
    assert_eq!(pages, [json!(["a", "b", "a"]), json!(["c"])]);
    let (status, refusal) = platform.get(&format!("{path}?continue=nonsense")).await;
    assert_eq!((status, &refusal["reason"]), (400, &json!("BadRequest")));
    let foreign = platform.get("/projects/p1/api/v1/namespaces/default/configmaps?limit=1").await.1;
    let foreign = foreign["metadata"]["continue"].as_str().expect("more").to_owned();
    assert_eq!(platform.get(&format!("{path}?continue={foreign}")).await.0, 400, "a token of one project");
}
