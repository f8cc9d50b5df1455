//! What the condition of an APIService says, and what clients get while it says that the service is not there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use serde_json::json;

use crate::api::{Api, aggregated, api_service, start};
use crate::backend::{Backend, GROUP, Setup, answering, json_answer};

const NAME: &str = "v1.things.example.com";

#[tokio::test]
async fn a_service_that_nobody_mapped_is_not_found() -> Result<()> {
    let server = start(&[])?;
    let api = Api::admin(&server)?;
    let mut service = api_service(&Backend::start(Setup::default())?);
    service["metadata"]["annotations"] = json!({});
    api.register(&service).await?;
    let condition = api.condition(NAME, "ServiceNotFound").await?;
    assert_eq!(
        (&condition["status"], &condition["message"]),
        (&json!("False"), &json!("service/api in \"things\" is not present"),)
    );
    let response = api.get(&format!("/apis/{GROUP}/v1/things")).send().await?;
    assert_eq!(response.status(), 503);
    assert_eq!(response.headers()["content-type"], "text/plain; charset=utf-8");
    assert_eq!(response.text().await?, "service unavailable\n");
    let discovery = api.discovery().await?;
    let groups = discovery["items"].as_array().expect("items");
    let group = groups.iter().find(|group| group["metadata"]["name"] == GROUP).expect("the group is listed");
    assert_eq!(group["versions"], json!([{"version": "v1", "freshness": "Stale"}]));
    Ok(())
}

#[tokio::test]
async fn a_server_that_is_not_there_fails_the_discovery_check_until_it_is() -> Result<()> {
    let down = Arc::new(AtomicBool::new(true));
    let state = down.clone();
    let backend = Backend::start(Setup {
        behaviour: Arc::new(move |_, request| match state.load(Ordering::SeqCst) {
            true => answering(json_answer(500, &json!({}))),
            false => Err(Box::new(request)),
        }),
        ..Setup::default()
    })?;
    let server = start(&[])?;
    let api = Api::admin(&server)?;
    api.register(&api_service(&backend)).await?;
    let condition = api.condition(NAME, "FailedDiscoveryCheck").await?;
    let url = format!("{}/apis/{GROUP}/v1", backend.url());
    let expected = format!("failing or missing response from {url}: bad status from {url}: 500");
    assert_eq!(condition["message"], expected.as_str());
    down.store(false, Ordering::SeqCst);
    let condition = api.condition(NAME, "Passed").await?;
    assert_eq!((&condition["status"], &condition["message"]), (&json!("True"), &json!("all checks passed")));
    assert_eq!(api.text(&format!("/apis/{GROUP}/v1/things")).await?.0, 200);

    // Its address changes to one where nobody listens.
    let gone = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let annotations = json!({"metadata": {"annotations": {"bailiwick.dev/service-url": format!("https://{gone}")}}});
    api.change(NAME, &annotations).await?;
    let condition = api.condition(NAME, "FailedDiscoveryCheck").await?;
    let url = format!("https://{gone}/apis/{GROUP}/v1");
    let refused = format!("Get \"{url}\": dial tcp {gone}: connect: connection refused");
    assert_eq!(condition["message"], format!("failing or missing response from {url}: {refused}").as_str());
    let metrics = api.text("/metrics").await?.1;
    let counted =
        format!("aggregator_unavailable_apiservice_total{{name=\"{NAME}\",reason=\"FailedDiscoveryCheck\"}} 1\n");
    assert!(metrics.contains(&format!("aggregator_unavailable_apiservice{{name=\"{NAME}\"}} 1\n")), "{metrics}");
    assert!(metrics.contains("aggregator_unavailable_apiservice{name=\"v1.\"} 0\n"), "{metrics}");
    // It became unavailable once; that it was not there in the beginning does not count.
    assert!(metrics.contains(&counted), "{metrics}");
    Ok(())
}

#[tokio::test]
async fn who_vouches_for_a_server_matters() -> Result<()> {
    let (backend, other) = (Backend::start(Setup::default())?, Backend::start(Setup::default())?);
    let misnamed = Backend::start(Setup { name: "other.things.svc", ..Setup::default() })?;
    let server = start(&[])?;
    let api = Api::admin(&server)?;
    let mut service = api_service(&backend);
    service["spec"]["caBundle"] = api_service(&other)["spec"]["caBundle"].clone();
    api.register(&service).await?;
    let condition = api.condition(NAME, "FailedDiscoveryCheck").await?;
    let message = condition["message"].as_str().unwrap_or_default();
    let unknown = "tls: failed to verify certificate: x509: certificate signed by unknown authority";
    assert!(message.ends_with(unknown), "{message}");
    api.change(NAME, &json!({"spec": {"caBundle": null, "insecureSkipTLSVerify": true}})).await?;
    api.condition(NAME, "Passed").await?;

    // The certificate must be the service's, whatever the address.
    let service = api_service(&misnamed);
    let patch = json!({
        "metadata": {"annotations": service["metadata"]["annotations"]},
        "spec": {"caBundle": service["spec"]["caBundle"], "insecureSkipTLSVerify": false},
    });
    api.change(NAME, &patch).await?;
    let condition = api.condition(NAME, "FailedDiscoveryCheck").await?;
    let message = condition["message"].as_str().unwrap_or_default();
    let expected =
        "tls: failed to verify certificate: x509: certificate is valid for other.things.svc, not api.things.svc";
    assert!(message.ends_with(expected), "{message}");
    Ok(())
}

#[tokio::test]
async fn kubectl_shows_where_a_group_is_served_and_whether_it_can_be_used() -> Result<()> {
    let (_server, api) = aggregated(&Backend::start(Setup::default())?).await?;
    let accept = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let table: serde_json::Value = api
        .get(&format!("/apis/apiregistration.k8s.io/v1/apiservices/{NAME}"))
        .header("accept", accept)
        .send()
        .await?
        .json()
        .await?;
    let cells = &table["rows"][0]["cells"];
    assert_eq!((&cells[1], &cells[2]), (&json!("things/api"), &json!("True")));
    Ok(())
}

#[tokio::test]
async fn what_is_no_longer_registered_is_no_longer_served() -> Result<()> {
    let (_server, api) = aggregated(&Backend::start(Setup::default())?).await?;
    let path = format!("/apis/apiregistration.k8s.io/v1/apiservices/{NAME}");
    assert!(api.request(reqwest::Method::DELETE, &path).send().await?.status().is_success());
    assert_eq!(api.text(&format!("/apis/{GROUP}/v1/things")).await?.0, 404);
    assert_eq!(api.text(&format!("/apis/{GROUP}")).await?.0, 404);
    Ok(())
}
