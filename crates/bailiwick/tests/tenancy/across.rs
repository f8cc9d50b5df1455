//! Reads across projects, for those whom the root lets.

use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::platform::{DEADLINE, GROUP, Platform, Who, definition};

#[tokio::test]
async fn one_list_shows_what_all_projects_have() {
    let platform = Platform::with(&["p1", "p2"]).await;
    platform.create(&format!("{GROUP}/organizations"), json!({"metadata": {"name": "other"}})).await;
    let spec = json!({"ownerRef": {"kind": "Organization", "name": "other"}});
    platform.create(&format!("{GROUP}/projects"), json!({"metadata": {"name": "p3"}, "spec": spec})).await;
    for project in ["p1", "p2", "p3"] {
        platform.map(&format!("/projects/{project}"), "shared").await;
    }
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

fn links(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().cloned().unwrap_or_default();
    items.iter().filter_map(|item| item["metadata"]["selfLink"].as_str().map(str::to_owned)).collect()
}

#[tokio::test]
async fn custom_types_are_listed_in_the_projects_that_define_them() {
    let platform = Platform::with(&["p1", "p2", "p3", "p4"]).await;
    platform.create(&format!("{GROUP}/organizations"), json!({"metadata": {"name": "other"}})).await;
    let spec = json!({"ownerRef": {"kind": "Organization", "name": "other"}});
    platform.create(&format!("{GROUP}/projects"), json!({"metadata": {"name": "p5"}, "spec": spec})).await;
    let gears = |project: &str| format!("/projects/{project}/apis/example.com/v1/namespaces/default/gears");
    // One project has not heard of the type, another has nothing of it.
    for (project, names) in [("p1", &["a", "b"][..]), ("p3", &[]), ("p4", &["a"]), ("p5", &["z"])] {
        let definitions = format!("/projects/{project}/apis/apiextensions.k8s.io/v1/customresourcedefinitions");
        platform.create(&definitions, definition("gears", "Gear")).await;
        platform.until(&gears(project), |status, _| status == 200).await;
        for name in names {
            let labels = json!({"size": if *name == "a" { "small" } else { "big" }});
            let gear = json!({
                "apiVersion": "example.com/v1", "kind": "Gear", "metadata": {"name": name, "labels": labels}, "teeth": 7,
            });
            platform.create(&gears(project), gear).await;
        }
    }
    let path = "/projects/*/apis/example.com/v1/gears";
    let (status, all) = platform.get(path).await;
    assert_eq!(
        (status, &all["kind"], &all["apiVersion"]),
        (200, &json!("GearList"), &json!("example.com/v1")),
        "{all}"
    );
    let link = |project: &str, name: &str| format!("{}/{name}", gears(project));
    assert_eq!(links(&all), [link("p1", "a"), link("p1", "b"), link("p4", "a"), link("p5", "z")]);
    assert_eq!(all["items"][0]["teeth"], 7);
    let of_acme = "/organizations/acme/projects/*/apis/example.com/v1/namespaces/default/gears";
    let small = platform.get(&format!("{of_acme}?labelSelector=size%3Dsmall")).await.1;
    assert_eq!(links(&small), [link("p1", "a"), link("p4", "a")]);
    let first = platform.get(&format!("{path}?limit=2")).await.1;
    assert_eq!(links(&first), [link("p1", "a"), link("p1", "b")]);
    let next = first["metadata"]["continue"].as_str().expect("more");
    let second = platform.get(&format!("{path}?limit=2&continue={next}")).await.1;
    assert_eq!(links(&second), [link("p4", "a"), link("p5", "z")]);
    assert_eq!(second["metadata"]["continue"], Value::Null);
    // Defined, and nowhere any of it; not defined, or not in this version.
    let empty = platform.get("/projects/*/apis/example.com/v1/namespaces/elsewhere/gears").await;
    assert_eq!((empty.0, &empty.1["items"]), (200, &json!([])), "{}", empty.1);
    for unknown in ["/projects/*/apis/example.com/v1/cogs", "/projects/*/apis/example.com/v2/gears"] {
        assert_eq!(platform.get(unknown).await.0, 404, "{unknown}");
    }
    assert_eq!(platform.send(Who::User("rita"), "GET", path, Value::Null).await.0, 403);
}

/// The lines of a stream of metadata, until it is dropped.
struct Lines {
    body: bailiwick_server::http::ResponseBody,
    rest: Vec<u8>,
}

impl Lines {
    async fn open(platform: &Platform, path: &str) -> Self {
        let request =
            http::Request::get(path).body(http_body_util::Full::<bytes::Bytes>::default()).expect("a request");
        let answer = platform.running.server.handle(request, std::sync::Arc::new(Who::Admin.connection())).await;
        assert_eq!(answer.status(), 200, "{path}");
        Self { body: answer.into_body(), rest: Vec::new() }
    }

    async fn next(&mut self) -> Value {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return serde_json::from_slice(&line).expect("a line of JSON");
            }
            let frame = tokio::time::timeout(DEADLINE, self.body.frame()).await.expect("in time").expect("no end");
            self.rest.extend_from_slice(&frame.expect("a frame").into_data().expect("data"));
        }
    }

    /// Projects and names of the config maps made by these tests, until the one called `last`.
    async fn maps_until(&mut self, last: &str) -> (Vec<String>, String) {
        let mut seen = Vec::new();
        loop {
            let line = self.next().await;
            let name = line["object"]["metadata"]["name"].as_str().unwrap_or_default();
            if line["resource"] != "configmaps" || name == "kube-root-ca.crt" {
                continue;
            }
            let word = |field: &str| line[field].as_str().unwrap_or_default().to_owned();
            seen.push(format!("{} {}/{name}", word("type"), word("project")));
            if name == last {
                let revision = line["object"]["metadata"]["resourceVersion"].as_str().unwrap_or_default();
                return (seen, revision.to_owned());
            }
        }
    }
}

#[tokio::test]
async fn the_stream_of_an_organization_is_resumed_where_it_was_left() {
    let platform = Platform::with(&["p1", "p2"]).await;
    platform.create(&format!("{GROUP}/organizations"), json!({"metadata": {"name": "other"}})).await;
    let spec = json!({"ownerRef": {"kind": "Organization", "name": "other"}});
    platform.create(&format!("{GROUP}/projects"), json!({"metadata": {"name": "p3"}, "spec": spec})).await;
    let path = "/organizations/acme/projects/*/metadata?watch=true";
    platform.map("/projects/p1", "before").await;
    platform.map("/projects/p3", "foreign").await;
    let mut stream = Lines::open(&platform, path).await;
    let (seen, _) = stream.maps_until("before").await;
    assert_eq!(seen, ["ADDED p1/before"]);
    platform.map("/projects/p3", "foreign-too").await;
    platform.map("/projects/p2", "during").await;
    let (seen, revision) = stream.maps_until("during").await;
    assert_eq!(seen, ["ADDED p2/during"], "of the organization's projects only");
    drop(stream);
    platform.map("/projects/p1", "missed").await;
    platform.map("/projects/p3", "foreign-again").await;
    let gone = "/projects/p1/api/v1/namespaces/default/configmaps/before";
    assert_eq!(platform.send(Who::Admin, "DELETE", gone, Value::Null).await.0, 200);
    platform.map("/projects/p2", "last").await;
    let mut stream = Lines::open(&platform, &format!("{path}&resourceVersion={revision}")).await;
    let (seen, _) = stream.maps_until("last").await;
    assert_eq!(seen, ["ADDED p1/missed", "DELETED p1/before", "ADDED p2/last"], "nothing missed, nothing twice");
}
