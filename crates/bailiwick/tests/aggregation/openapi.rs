//! OpenAPI of what is served here and elsewhere: version 2 as one document, version 3 by the server it is about.

use std::sync::Arc;

use anyhow::Result;
use serde_json::json;

use crate::api::aggregated;
use crate::backend::{Backend, GROUP, Setup, answering, json_answer};

const THING: &str = "com.example.things.v1.Thing";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

#[tokio::test]
async fn the_version_2_document_has_what_the_other_server_adds() -> Result<()> {
    let backend = Backend::start(Setup::default())?;
    let (_server, api) = aggregated(&backend).await?;
    let document = api
        .until("the merged document", async || {
            let document = api.json("/openapi/v2").await?;
            Ok(document["definitions"].get(THING).is_some().then_some(document))
        })
        .await?;
    let paths = document["paths"].as_object().expect("paths");
    assert!(paths.contains_key(&format!("/apis/{GROUP}/v1/things")));
    assert!(paths.contains_key("/api/v1/namespaces"));
    assert!(!paths.contains_key("/apis/other.example.com/v1/secrets"), "it is not registered for that");
    // Its ObjectMeta is not ours, so it goes by another name.
    let renamed = format!("{OBJECT_META}_v2");
    assert_eq!(document["definitions"][&renamed]["description"], "Of another kind.");
    let reference = &document["definitions"][THING]["properties"]["metadata"]["$ref"];
    assert_eq!(*reference, json!(format!("#/definitions/{renamed}")));
    assert_ne!(document["definitions"][OBJECT_META]["description"], "Of another kind.");
    // Known again by its tag, and told in the other encoding too.
    let response = api.get("/openapi/v2").send().await?;
    let tag = response.headers()["etag"].clone();
    assert_eq!(api.get("/openapi/v2").header("if-none-match", tag).send().await?.status(), 304);
    let accept = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    let bytes = api.get("/openapi/v2").header("accept", accept).send().await?.bytes().await?;
    assert!(bytes.windows(THING.len()).any(|window| window == THING.as_bytes()));
    Ok(())
}

#[tokio::test]
async fn a_server_without_version_3_gets_one_made_of_version_2() -> Result<()> {
    let backend = Backend::start(Setup::default())?;
    let (_server, api) = aggregated(&backend).await?;
    let name = format!("apis/{GROUP}/v1");
    let url = api
        .until("the document's address", async || {
            let index = api.json("/openapi/v3").await?;
            Ok(index["paths"][&name]["serverRelativeURL"].as_str().map(str::to_owned))
        })
        .await?;
    let document = api.json(&url).await?;
    assert_eq!(document["openapi"], "3.0.0");
    assert_eq!(document["components"]["schemas"][THING]["description"], "A thing.");
    let answer = &document["paths"][format!("/apis/{GROUP}/v1/things")]["get"]["responses"]["200"];
    assert_eq!(answer["content"]["application/json"]["schema"]["$ref"], format!("#/components/schemas/{THING}"));
    Ok(())
}

#[tokio::test]
async fn version_3_documents_come_from_the_server_they_are_about() -> Result<()> {
    let name = format!("apis/{GROUP}/v1");
    let url = format!("/openapi/v3/{name}?hash=ABC");
    let (listed, asked_for) = (name.clone(), url.clone());
    let backend = Backend::start(Setup {
        behaviour: Arc::new(move |asked, request| match asked.uri.as_str() {
            "/openapi/v3" => answering(json_answer(
                200,
                &json!({"paths": {
                    &listed: {"serverRelativeURL": &asked_for},
                    "api/v1": {"serverRelativeURL": "/openapi/v3/api/v1?hash=EVIL"},
                }}),
            )),
            uri if uri == asked_for => answering(json_answer(200, &json!({"openapi": "3.0.0", "its": "own"}))),
            _ => Err(Box::new(request)),
        }),
        ..Setup::default()
    })?;
    let (_server, api) = aggregated(&backend).await?;
    let index = api
        .until("the other server's documents", async || {
            let index = api.json("/openapi/v3").await?;
            Ok(index["paths"].get(&name).is_some().then_some(index))
        })
        .await?;
    assert_eq!(index["paths"][&name]["serverRelativeURL"], url.as_str());
    let own = index["paths"]["api/v1"]["serverRelativeURL"].as_str().unwrap_or_default();
    assert!(!own.ends_with("EVIL"), "nobody speaks for what they are not registered for");
    assert_eq!(api.json(&url).await?["its"], "own");
    Ok(())
}
