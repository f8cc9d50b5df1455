//! Requests that are passed on leave the same traces here as those that are served here.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use hyper::Response;
use serde_json::{Value, json};

use crate::api::{Api, api_service, start};
use crate::backend::{Backend, GROUP, Setup, answering, json_answer, next_text, send, streamed};

const THINGS: &str = "/apis/things.example.com/v1/namespaces/default/things";
const POLICY: &str = "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: RequestResponse}]}";

/// A server that writes its audit log into a directory, with the backend behind it.
async fn audited(backend: &Backend, directory: &Path) -> Result<(bailiwick_testkit::Server, Api)> {
    let policy = directory.join("policy.yaml");
    std::fs::write(&policy, POLICY)?;
    let log = directory.join("audit.log").display().to_string();
    let server = start(&["--audit-policy-file", &policy.display().to_string(), "--audit-log-path", &log])?;
    let api = Api::admin(&server)?;
    api.register(&api_service(backend)).await?;
    api.condition(&format!("v1.{GROUP}"), "Passed").await?;
    Ok((server, api))
}

/// The events of a request so far, once the last of them is written.
async fn events(api: &Api, directory: &Path, id: &str) -> Result<Vec<Value>> {
    api.until("the end of the request", async || {
        let text = std::fs::read_to_string(directory.join("audit.log"))?;
        let events: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let events: Vec<Value> = events.into_iter().filter(|event| event["auditID"] == id).collect();
        let done = events.iter().any(|event| event["stage"] == "ResponseComplete");
        Ok(done.then_some(events))
    })
    .await
}

fn stages(events: &[Value]) -> Vec<&str> {
    events.iter().filter_map(|event| event["stage"].as_str()).collect()
}

#[tokio::test]
async fn a_request_that_is_passed_on_is_recorded_with_who_asked_and_what_was_answered() -> Result<()> {
    let backend = Backend::start(Setup {
        behaviour: Arc::new(|asked, request| match asked.uri.ends_with("/teapot") {
            true => answering(json_answer(418, &json!({"kind": "Status", "code": 418, "secret": "of the other"}))),
            false => Err(Box::new(request)),
        }),
        ..Setup::default()
    })?;
    let directory = tempfile::tempdir()?;
    let (_server, api) = audited(&backend, directory.path()).await?;
    let request = api.get(&format!("{THINGS}/teapot")).header("audit-id", "passed-on");
    let request = request.header("impersonate-user", "alice").header("impersonate-group", "system:masters");
    assert_eq!(request.send().await?.status(), 418);
    let events = events(&api, directory.path(), "passed-on").await?;
    assert_eq!(stages(&events), ["RequestReceived", "ResponseComplete"]);
    let done = &events[1];
    assert_eq!((&done["verb"], &done["requestURI"]), (&json!("get"), &json!(format!("{THINGS}/teapot"))));
    assert_eq!(done["user"]["username"], "admin");
    assert_eq!(done["impersonatedUser"]["username"], "alice");
    assert_eq!(
        done["objectRef"],
        json!({"resource": "things", "namespace": "default", "name": "teapot", "apiGroup": GROUP, "apiVersion": "v1"})
    );
    assert_eq!(done["responseStatus"]["code"], 418);
    assert_eq!(done["annotations"]["authorization.k8s.io/decision"], "allow");
    // What goes through is not gathered, so that there is nothing to record of it.
    assert!(done["responseObject"].is_null() && done["requestObject"].is_null(), "{done}");
    Ok(())
}

#[tokio::test]
async fn who_may_not_is_recorded_though_nothing_was_passed_on() -> Result<()> {
    let backend = Backend::start(Setup::default())?;
    let directory = tempfile::tempdir()?;
    let (server, api) = audited(&backend, directory.path()).await?;
    let nobody = Api::with_token(&server, bailiwick_testkit::NOBODY_TOKEN)?;
    assert_eq!(nobody.get(THINGS).header("audit-id", "refused").send().await?.status(), 403);
    let events = events(&api, directory.path(), "refused").await?;
    let done = events.last().expect("an event");
    assert_eq!((&done["user"]["username"], &done["responseStatus"]["code"]), (&json!("nobody"), &json!(403)));
    assert_eq!(done["annotations"]["authorization.k8s.io/decision"], "forbid");
    assert!(backend.asked(THINGS).is_empty());
    Ok(())
}

#[tokio::test]
async fn a_watch_that_is_passed_on_is_recorded_when_it_begins_and_when_it_ends() -> Result<()> {
    let (end, ended) = tokio::sync::watch::channel(false);
    let backend = Backend::start(Setup {
        behaviour: Arc::new(move |asked, request| match asked.uri.contains("watch=true") {
            false => Err(Box::new(request)),
            true => {
                let (mut sender, body) = streamed();
                let mut ended = ended.clone();
                tokio::spawn(async move {
                    send(&mut sender, "begun\n").await;
                    let _ = ended.wait_for(|ended| *ended).await;
                });
                answering(Response::new(body))
            }
        }),
        ..Setup::default()
    })?;
    let directory = tempfile::tempdir()?;
    let (_server, api) = audited(&backend, directory.path()).await?;
    let response = api.get(&format!("{THINGS}?watch=true")).header("audit-id", "a-watch").send().await?;
    let mut stream = response.bytes_stream();
    assert_eq!(next_text(&mut stream).await, "begun\n");
    let text = std::fs::read_to_string(directory.path().join("audit.log"))?;
    let begun: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let begun: Vec<Value> = begun.into_iter().filter(|event: &Value| event["auditID"] == "a-watch").collect();
    assert_eq!(stages(&begun), ["RequestReceived", "ResponseStarted"]);
    end.send(true)?;
    while let Some(rest) = futures::StreamExt::next(&mut stream).await {
        assert_eq!(rest?, "");
    }
    let events = events(&api, directory.path(), "a-watch").await?;
    assert_eq!(stages(&events), ["RequestReceived", "ResponseStarted", "ResponseComplete"]);
    for event in &events {
        assert_eq!((&event["verb"], &event["user"]["username"]), (&json!("watch"), &json!("admin")));
    }
    assert_eq!(events[2]["responseStatus"]["code"], 200);
    Ok(())
}
