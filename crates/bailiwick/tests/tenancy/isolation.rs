//! Nothing of one project is seen or reached from another, or from the root.

use serde_json::{Value, json};

use crate::platform::{GROUP, Platform, Who, definition};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test]
async fn objects_lists_and_watches_are_a_projects_own() {
    let platform = Platform::with(&["p1", "p2"]).await;
    let start = platform.get(MAPS).await.1["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
    let of_p1 = platform.map("/projects/p1", "secret-plan").await;
    for plane in ["", "/projects/p2"] {
        assert_eq!(platform.get(&format!("{plane}{MAPS}/secret-plan")).await.0, 404);
        for query in
            ["", "?limit=500", "?labelSelector=", "?fieldSelector=metadata.name%3Dsecret-plan", "?resourceVersion=0"]
        {
            let names = platform.names(&format!("{plane}{MAPS}{query}")).await;
            assert!(!names.contains(&"secret-plan".to_owned()), "{plane} {query}");
        }
        let watch = format!("{plane}/api/v1/configmaps?watch=1&resourceVersion={start}&timeoutSeconds=1");
        let events = platform.get(&watch).await.1.to_string();
        assert!(!events.contains("secret-plan"), "{plane}: {events}");
        let version = &of_p1["metadata"]["resourceVersion"];
        let exact = format!(
            "{plane}{MAPS}?resourceVersion={}&resourceVersionMatch=Exact&limit=10",
            version.as_str().unwrap_or_default()
        );
        assert!(!platform.names(&exact).await.contains(&"secret-plan".to_owned()));
    }
    // The same name is another object.
    let twin = platform.map("/projects/p2", "secret-plan").await;
    assert_ne!(twin["metadata"]["uid"], of_p1["metadata"]["uid"]);
    assert_eq!(
        platform.send(Who::Admin, "DELETE", &format!("/projects/p2{MAPS}/secret-plan"), Value::Null).await.0,
        200
    );
    assert_eq!(platform.get(&format!("/projects/p1{MAPS}/secret-plan")).await.0, 200);
}

#[tokio::test]
async fn no_spelling_of_a_path_leads_elsewhere() {
    let platform = Platform::with(&["p1", "p2"]).await;
    platform.map("/projects/p1", "secret-plan").await;
    platform.map("", "of-the-root").await;
    for path in [
        "/projects/p2/../p1/api/v1/configmaps",
        "/projects/p2/%2e%2e/p1/api/v1/configmaps",
        "/projects/p2%2f..%2fp1/api/v1/configmaps",
        "/projects/p2/projects/p1/api/v1/configmaps",
        "/projects/p2//projects/p1/api/v1/configmaps",
        "/projects/p2/apis/resourcemanager.miloapis.com/v1alpha1/projects/p1/control-plane/api/v1/configmaps",
        "/projects//api/v1/configmaps",
        "/projects/./api/v1/configmaps",
        "/projects/../api/v1/configmaps",
        "/projects/p2/../../api/v1/configmaps",
        "//projects/p1/api/v1/configmaps",
        "/%70rojects/p1/api/v1/configmaps",
        "/projects/P1/api/v1/configmaps",
        "/projects/p1%00/api/v1/configmaps",
        "/projects/p2/api/v1/namespaces/..%2f..%2f..%2fp1/configmaps",
        "/apis/resourcemanager.miloapis.com/v1alpha1/projects/p1%2fcontrol-plane/api/v1/configmaps",
        "/apis/resourcemanager.miloapis.com/v1alpha1/projects//control-plane/api/v1/configmaps",
        "/apis/resourcemanager.miloapis.com/v1alpha1/namespaces/x/projects/p1/control-plane/api/v1/configmaps",
    ] {
        let (status, answer) = platform.get(path).await;
        let text = answer.to_string();
        assert!(!text.contains("secret-plan") && !text.contains("of-the-root"), "{path}: {status} {text}");
    }
}

#[tokio::test]
async fn the_place_in_a_list_is_good_in_that_list_only() {
    let platform = Platform::with(&["p1", "p2"]).await;
    for plane in ["", "/projects/p1", "/projects/p2"] {
        for name in ["a", "b", "c"] {
            platform.map(plane, name).await;
        }
    }
    for from in ["", "/projects/p1"] {
        let first = platform.get(&format!("{from}{MAPS}?limit=1")).await.1;
        let token = first["metadata"]["continue"].as_str().expect("more pages").to_owned();
        for to in ["", "/projects/p1", "/projects/p2"] {
            let (status, answer) = platform.get(&format!("{to}{MAPS}?limit=1&continue={token}")).await;
            let expected = if from == to { 200 } else { 400 };
            assert_eq!(status, expected, "{from:?} in {to:?}: {answer}");
        }
    }
}

#[tokio::test]
async fn definitions_are_a_projects_own() {
    let platform = Platform::with(&["p1", "p2"]).await;
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    platform.create(&format!("/projects/p1{path}"), definition("gears", "Gear")).await;
    let gears = "/apis/example.com/v1/namespaces/default/gears";
    platform.until(&format!("/projects/p1{gears}"), |status, _| status == 200).await;
    platform
        .create(
            &format!("/projects/p1{gears}"),
            json!({"apiVersion": "example.com/v1", "kind": "Gear", "metadata": {"name": "g"}}),
        )
        .await;
    for plane in ["", "/projects/p2"] {
        assert_eq!(platform.get(&format!("{plane}{gears}")).await.0, 404);
        assert_eq!(platform.get(&format!("{plane}{path}/gears.example.com")).await.0, 404);
        assert!(!platform.get(&format!("{plane}/apis")).await.1.to_string().contains("example.com\""));
        assert!(!platform.get(&format!("{plane}/openapi/v3")).await.1.to_string().contains("apis/example.com"));
    }
    assert!(platform.get("/projects/p1/openapi/v3").await.1.to_string().contains("apis/example.com"));
    // Another project may mean something else by the name.
    let mut other = definition("gears", "Gear");
    other["spec"]["scope"] = "Cluster".into();
    platform.create(&format!("/projects/p2{path}"), other).await;
    platform.until("/projects/p2/apis/example.com/v1/gears", |status, _| status == 200).await;
    assert_eq!(platform.names("/projects/p2/apis/example.com/v1/gears").await, Vec::<String>::new());
    assert_eq!(platform.names(&format!("/projects/p1{gears}")).await, ["g"]);
}

#[tokio::test]
async fn quotas_policies_and_webhooks_hold_in_their_own_project() {
    let platform = Platform::with(&["p1", "p2"]).await;
    let quota = json!({"metadata": {"name": "few"}, "spec": {"hard": {"count/secrets": "1"}}});
    platform.create("/projects/p1/api/v1/namespaces/default/resourcequotas", quota).await;
    let counted = |_: u16, quota: &Value| quota["status"]["used"]["count/secrets"] == "0";
    platform.until("/projects/p1/api/v1/namespaces/default/resourcequotas/few", counted).await;
    let secrets = "/api/v1/namespaces/default/secrets";
    let secret = |name: &str| json!({"metadata": {"name": name}});
    for name in ["a", "b", "c"] {
        platform.create(&format!("/projects/p2{secrets}"), secret(name)).await;
    }
    platform.create(&format!("/projects/p1{secrets}"), secret("a")).await;
    let over = platform.send(Who::Admin, "POST", &format!("/projects/p1{secrets}"), secret("b")).await;
    assert_eq!(over.0, 403, "{}", over.1);
    let policies = "/projects/p1/apis/admissionregistration.k8s.io/v1";
    let policy = json!({
        "metadata": {"name": "never"},
        "spec": {
            "failurePolicy": "Fail", "validations": [{"expression": "false"}],
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"],
            }]},
        },
    });
    platform.create(&format!("{policies}/validatingadmissionpolicies"), policy).await;
    let binding =
        json!({"metadata": {"name": "never"}, "spec": {"policyName": "never", "validationActions": ["Deny"]}});
    platform.create(&format!("{policies}/validatingadmissionpolicybindings"), binding).await;
    let hook = json!({
        "metadata": {"name": "nowhere"},
        "webhooks": [{
            "name": "nowhere.example.com", "failurePolicy": "Fail", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 1, "clientConfig": {"url": "https://127.0.0.1:1/nowhere"},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["serviceaccounts"]}],
        }],
    });
    platform.create(&format!("{policies}/validatingwebhookconfigurations"), hook).await;
    let refused = |path: &str| format!("/projects/p1/api/v1/namespaces/default/{path}");
    let new = json!({"metadata": {"name": "new"}});
    assert_eq!(platform.send(Who::Admin, "POST", &refused("configmaps"), new.clone()).await.0, 422);
    assert_eq!(platform.send(Who::Admin, "POST", &refused("serviceaccounts"), new.clone()).await.0, 500);
    for plane in ["", "/projects/p2"] {
        for plural in ["configmaps", "serviceaccounts"] {
            platform.create(&format!("{plane}/api/v1/namespaces/default/{plural}"), new.clone()).await;
        }
    }
}

#[tokio::test]
async fn owners_are_looked_for_in_the_same_project() {
    let platform = Platform::with(&["p1", "p2"]).await;
    let owner = platform.map("/projects/p1", "owner").await;
    let reference =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}]);
    let owned = json!({"metadata": {"name": "owned", "ownerReferences": reference}});
    platform.create(&format!("/projects/p1{MAPS}"), owned.clone()).await;
    platform.create(&format!("/projects/p2{MAPS}"), owned).await;
    // An owner elsewhere is none: what claims it is collected, and the true one stays.
    platform.until(&format!("/projects/p2{MAPS}/owned"), |status, _| status == 404).await;
    assert_eq!(platform.get(&format!("/projects/p1{MAPS}/owned")).await.0, 200);
    assert_eq!(platform.get(&format!("/projects/p1{MAPS}/owner")).await.0, 200);
}

#[tokio::test]
async fn nobody_becomes_more_than_a_guest_by_impersonation() {
    let platform = Platform::with(&["p1", "p2"]).await;
    let binding = json!({
        "metadata": {"name": "pat"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "pat"}],
    });
    platform.create("/projects/p1/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding).await;
    for (path, expected) in [
        ("/projects/p1/api/v1/namespaces", 200),
        ("/projects/p2/api/v1/namespaces", 403),
        ("/api/v1/namespaces", 403),
        (&*format!("{GROUP}/projects"), 403),
    ] {
        let status = platform.send_as("pat", "root-admin", "system:masters", path).await;
        assert_eq!(status, expected, "{path}");
    }
}
