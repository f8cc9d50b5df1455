//! Selectors give the same objects whether the list comes in pages or at once.

use serde_json::json;

use crate::{JSON, Plane};

#[tokio::test(flavor = "multi_thread")]
async fn a_page_selects_what_the_whole_list_selects() {
    let plane = Plane::start(|builder| builder).await;
    for namespace in ["n1", "n2"] {
        let object = json!({"metadata": {"name": namespace}});
        assert_eq!(plane.send("POST", "/api/v1/namespaces", JSON, object).await.status, 201);
        for name in ["a", "ab", "b"] {
            plane.config_map(namespace, name).await;
        }
    }
    let (all, n1) = ("/api/v1/configmaps", "/api/v1/namespaces/n1/configmaps");
    for (path, selector, expected) in [
        (n1, "fieldSelector=metadata.name%3Da", &["a"] as &[&str]),
        (n1, "fieldSelector=metadata.name%3Dnone", &[]),
        (n1, "fieldSelector=metadata.name%3D", &[]),
        (n1, "fieldSelector=metadata.name%3Da,metadata.name%3Db", &[]),
        (n1, "fieldSelector=metadata.name%3Da,metadata.namespace%3Dn2", &[]),
        (n1, "fieldSelector=metadata.name%3Da&labelSelector=name%3Da", &["a"]),
        (n1, "fieldSelector=metadata.name%3Da&labelSelector=name%3Db", &[]),
        (n1, "fieldSelector=metadata.name%21%3Da&labelSelector=name", &["ab", "b"]),
        (all, "fieldSelector=metadata.name%3Da", &["a", "a"]),
        (all, "fieldSelector=metadata.name%3Da,metadata.namespace%3Dn2", &["a"]),
        (all, "fieldSelector=metadata.namespace%3Dn2&labelSelector=name", &["a", "ab", "b"]),
        (all, "labelSelector=name%20in%20(a,b)", &["a", "b", "a", "b"]),
        ("/api/v1/namespaces", "fieldSelector=metadata.name%3Dn2", &["n2"]),
    ] {
        assert_eq!(plane.get(&format!("{path}?{selector}")).await.names(), expected, "{path} {selector}");
        for limit in [500, 1] {
            let mut names = Vec::new();
            let mut token = String::new();
            loop {
                let page = plane.get(&format!("{path}?{selector}&limit={limit}&continue={token}")).await;
                names.extend(page.names());
                match page.json()["metadata"]["continue"].as_str() {
                    Some(next) => token = next.to_owned(),
                    None => break,
                }
            }
            assert_eq!(names, expected, "{path} {selector} in pages of {limit}");
        }
    }
    plane.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_behind_the_selected_name_ends_the_list() {
    let plane = Plane::start(|builder| builder).await;
    for name in ["a", "b", "c"] {
        plane.config_map("default", name).await;
    }
    let page = plane.get(&format!("{}?limit=2", crate::MAPS)).await;
    let token = page.json()["metadata"]["continue"].as_str().unwrap().to_owned();
    let list = |name: &str| format!("{}?limit=2&continue={token}&fieldSelector=metadata.name%3D{name}", crate::MAPS);
    assert!(plane.get(&list("a")).await.names().is_empty());
    assert_eq!(plane.get(&list("c")).await.names(), ["c"]);
    plane.running.stop().await;
}
