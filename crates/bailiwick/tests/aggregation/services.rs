//! Services, of which there are none: mapped by flag and by ConfigMap, for APIServices and webhooks alike.

use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::sync::Arc;

use crate::api::{Api, api_service, start};
use crate::backend::{Backend, Setup, answering, json_answer};

const NAME: &str = "v1.things.example.com";

/// The APIService without an address of its own.
fn unplaced(backend: &Backend) -> Value {
    let mut service = api_service(backend);
    service["metadata"]["annotations"] = json!({});
    service
}

#[tokio::test]
async fn a_flag_says_where_a_service_is() -> Result<()> {
    let backend = Backend::start(Setup::default())?;
    let server = start(&["--service-endpoint", &format!("things/api:443={}", backend.url())])?;
    let api = Api::admin(&server)?;
    api.register(&unplaced(&backend)).await?;
    api.condition(NAME, "Passed").await?;
    api.change(NAME, &json!({"spec": {"service": {"port": 8443}}})).await?;
    let condition = api.condition(NAME, "ServicePortError").await?;
    assert_eq!(condition["message"], "service/api in \"things\" is not listening on port 8443");
    Ok(())
}

#[tokio::test]
async fn several_addresses_share_the_requests_and_those_that_are_gone_are_passed_over() -> Result<()> {
    let (one, two) = (Backend::start(Setup::default())?, Backend::start(Setup::default())?);
    let gone = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let server = start(&["--service-endpoint", &format!("things/api={},https://{gone},{}", one.url(), two.url())])?;
    let api = Api::admin(&server)?;
    let mut service = unplaced(&one);
    service["spec"]["caBundle"] = STANDARD.encode(format!("{}{}", one.ca_pem, two.ca_pem)).into();
    api.register(&service).await?;
    api.condition(NAME, "Passed").await?;
    let things = "/apis/things.example.com/v1/namespaces/default/things";
    for _ in 0..30 {
        assert_eq!(api.text(things).await?.0, 200);
    }
    let (first, second) = (one.asked(things).len(), two.asked(things).len());
    assert_eq!(first + second, 30, "each was asked once");
    assert!(first >= 10 && second >= 10, "{first} and {second}");
    Ok(())
}

#[tokio::test]
async fn a_namespace_says_where_its_services_are() -> Result<()> {
    let backend = Backend::start(Setup::default())?;
    let server = start(&[])?;
    let api = Api::admin(&server)?;
    api.register(&unplaced(&backend)).await?;
    api.condition(NAME, "ServiceNotFound").await?;
    api.post("/api/v1/namespaces", &json!({"metadata": {"name": "things"}})).await?;
    let map = json!({"metadata": {"name": "bailiwick-service-endpoints"}, "data": {"api.443": ""}});
    api.post("/api/v1/namespaces/things/configmaps", &map).await?;
    let condition = api.condition(NAME, "EndpointsNotFound").await?;
    assert_eq!(condition["message"], "cannot find endpointslices for service/api in \"things\"");
    let path = "/api/v1/namespaces/things/configmaps/bailiwick-service-endpoints";
    let moved = json!({"data": {"api.443": backend.url()}}).to_string();
    let request = api.request(reqwest::Method::PATCH, path).header("content-type", "application/merge-patch+json");
    assert!(request.body(moved).send().await?.status().is_success());
    api.condition(NAME, "Passed").await?;
    Ok(())
}

#[tokio::test]
async fn where_the_server_must_not_call_no_mapping_leads() -> Result<()> {
    let backend = Backend::start(Setup::default())?;
    let server = start(&["--webhook-deny-cidrs", "127.0.0.0/8"])?;
    let api = Api::admin(&server)?;
    api.register(&api_service(&backend)).await?;
    let condition = api.condition(NAME, "FailedDiscoveryCheck").await?;
    let message = condition["message"].as_str().unwrap_or_default();
    assert!(message.contains("its address must not be called: denied by flag"), "{message}");
    assert!(backend.asked("/").is_empty());
    Ok(())
}

#[tokio::test]
async fn admission_webhooks_find_services_the_same_way() -> Result<()> {
    let backend = Backend::start(Setup {
        behaviour: Arc::new(|asked, request| match asked.uri.starts_with("/validate") {
            false => Err(Box::new(request)),
            true => answering(json_answer(
                200,
                &json!({
                    "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
                    "response": {"uid": "another", "allowed": false},
                }),
            )),
        }),
        ..Setup::default()
    })?;
    let server = start(&[])?;
    let api = Api::admin(&server)?;
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "hook"},
        "webhooks": [{
            "name": "hook.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "clientConfig": {"service": {"namespace": "things", "name": "api", "path": "/validate"},
                             "caBundle": STANDARD.encode(&backend.ca_pem)},
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["secrets"]}],
        }],
    });
    api.post("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", &configuration).await?;
    let refusal = async || -> Result<String> {
        let secret = json!({"metadata": {"name": "s"}});
        let request = api.request(reqwest::Method::POST, "/api/v1/namespaces/default/secrets").json(&secret);
        Ok(request.send().await?.json::<Value>().await?["message"].as_str().unwrap_or_default().to_owned())
    };
    let url = "https://api.things.svc:443/validate?timeout=10s";
    assert_eq!(
        refusal().await?,
        format!(
            "Internal error occurred: failed calling webhook \"hook.example.com\": failed to call webhook: Post \"{url}\": service \"api\" not found"
        )
    );
    api.post("/api/v1/namespaces", &json!({"metadata": {"name": "things"}})).await?;
    let map = json!({"metadata": {"name": "bailiwick-service-endpoints"}, "data": {"api": backend.url()}});
    api.post("/api/v1/namespaces/things/configmaps", &map).await?;
    let heard = refusal().await?;
    assert!(heard.contains("received invalid webhook response: expected response.uid="), "{heard}");
    assert_eq!(backend.asked("/validate").pop().expect("it was asked").headers["host"], "api.things.svc");
    Ok(())
}
