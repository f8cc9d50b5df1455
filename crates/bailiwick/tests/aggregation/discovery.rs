//! Discovery of what is served here and elsewhere as one: order, freshness, older servers and hostile ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use anyhow::Result;
use hyper::Response;
use serde_json::{Value, json};

use crate::api::{Api, aggregated, api_service, start};
use crate::backend::{Backend, GROUP, Setup, answering, json_answer};

const NAME: &str = "v1.things.example.com";

fn names(groups: &Value, at: &str) -> Vec<String> {
    let name = |group: &Value| group.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
    groups.as_array().map(|groups| groups.iter().map(name).collect()).unwrap_or_default()
}

fn group<'a>(discovery: &'a Value, name: &str) -> Option<&'a Value> {
    discovery["items"].as_array()?.iter().find(|group| group["metadata"]["name"] == name)
}

#[tokio::test]
async fn groups_rank_by_the_priority_their_records_ask_for() -> Result<()> {
    let backend = Backend::start(Setup::default())?;
    let (_server, api) = aggregated(&backend).await?;
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "as.a.example.com"},
        "spec": {
            "group": "a.example.com", "scope": "Namespaced", "names": {"plural": "as", "kind": "A"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await?;
    let listed = async || anyhow::Ok(names(&api.json("/apis").await?["groups"], "/name"));
    let both = api
        .until("the custom group", async || {
            let listed = listed().await?;
            Ok(listed.contains(&"a.example.com".to_owned()).then_some(listed))
        })
        .await?;
    let place = |groups: &[String], name: &str| groups.iter().position(|group| group == name);
    assert_eq!(both.first().map(String::as_str), Some("apiregistration.k8s.io"));
    assert!(place(&both, "flowcontrol.apiserver.k8s.io") < place(&both, GROUP), "{both:?}");
    assert!(place(&both, GROUP) < place(&both, "a.example.com"), "{both:?}");
    assert_eq!(names(&api.discovery().await?["items"], "/metadata/name"), both);
    api.change(NAME, &json!({"spec": {"groupPriorityMinimum": 20000}})).await?;
    assert_eq!(place(&listed().await?, GROUP), Some(1));
    api.change(NAME, &json!({"spec": {"groupPriorityMinimum": 10}})).await?;
    let last = listed().await?;
    assert_eq!(place(&last, GROUP), Some(last.len() - 1));
    assert_eq!(names(&api.discovery().await?["items"], "/metadata/name"), last);
    Ok(())
}

#[tokio::test]
async fn versions_served_here_and_elsewhere_are_one_group() -> Result<()> {
    let backend = Backend::start(Setup::default())?;
    let (_server, api) = aggregated(&backend).await?;
    let mut other = api_service(&backend);
    other["metadata"]["name"] = format!("v2.{GROUP}").into();
    other["spec"]["version"] = "v2".into();
    other["spec"]["versionPriority"] = 100.into();
    api.register(&other).await?;
    let found = api.json(&format!("/apis/{GROUP}")).await?;
    assert_eq!(names(&found["versions"], "/version"), ["v2", "v1"]);
    assert_eq!(found["preferredVersion"]["version"], "v2");
    assert_eq!((&found["kind"], &found["apiVersion"]), (&json!("APIGroup"), &json!("v1")));
    let list = api.json(&format!("/apis/{GROUP}/v1")).await?;
    assert_eq!(list["resources"][0]["name"], "things", "the document is the other server's own");
    Ok(())
}

#[tokio::test]
async fn a_record_with_a_service_wins_over_what_is_served_here() -> Result<()> {
    let backend = Backend::start(Setup::default())?;
    let (_server, api) = aggregated(&backend).await?;
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("others.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced", "names": {"plural": "others", "kind": "Other"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    let made = api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await?;
    let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/others.{GROUP}");
    assert_eq!(made["metadata"]["name"], format!("others.{GROUP}").as_str());
    api.until("the definition's establishment", async || {
        let conditions = api.json(&path).await?["status"]["conditions"].clone();
        let conditions = conditions.as_array().cloned().unwrap_or_default();
        Ok(conditions.iter().any(|c| c["type"] == "Established" && c["status"] == "True").then_some(()))
    })
    .await?;
    assert_eq!(api.json(&format!("/apis/{GROUP}/v1/others")).await?["kind"], "ThingList", "the other server answers");
    let versions = &group(&api.discovery().await?, GROUP).expect("the group")["versions"].clone();
    assert_eq!(names(&versions[0]["resources"], "/resource"), ["things"]);
    Ok(())
}

#[tokio::test]
async fn a_server_that_speaks_of_itself_at_once_is_not_asked_twice() -> Result<()> {
    const ETAG: &str = "\"one\"";
    let aggregated_form = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let backend = Backend::start(Setup {
        behaviour: Arc::new(move |asked, request| {
            if asked.uri != "/apis" {
                return Err(Box::new(request));
            }
            let mut response = json_answer(
                200,
                &json!({"kind": "APIGroupDiscoveryList", "items": [
                    {"metadata": {"name": GROUP}, "versions": [{"version": "v1", "resources": [
                        {"resource": "things", "scope": "Namespaced", "singularResource": "thing", "verbs": ["list"],
                         "shortNames": ["th"], "subresources": [{"subresource": "status", "verbs": ["get"]}]},
                    ]}]},
                    {"metadata": {"name": "apps"}, "versions": [{"version": "v1", "resources": []}]},
                ]}),
            );
            response.headers_mut().insert("content-type", aggregated_form.parse().expect("a value"));
            response.headers_mut().insert("etag", ETAG.parse().expect("a value"));
            answering(response)
        }),
        ..Setup::default()
    })?;
    let (_server, api) = aggregated(&backend).await?;
    let version = api
        .until("fresh discovery", async || {
            let discovery = api.discovery().await?;
            let version = group(&discovery, GROUP).map(|group| group["versions"][0].clone()).unwrap_or_default();
            Ok((version["freshness"] == "Current").then_some(version))
        })
        .await?;
    let kind = json!({"group": "", "version": "", "kind": ""});
    assert_eq!(
        version["resources"],
        json!([{
            "resource": "things", "responseKind": kind, "scope": "Namespaced", "singularResource": "thing",
            "verbs": ["list"], "shortNames": ["th"],
            "subresources": [{"subresource": "status", "responseKind": kind, "verbs": ["get"]}],
        }])
    );
    assert!(group(&api.discovery().await?, "apps").is_none(), "nobody speaks for what they are not registered for");
    let first = backend.asked("/apis").into_iter().find(|asked| asked.uri == "/apis").expect("it was asked");
    assert_eq!(first.headers["x-remote-user"], "system:kube-aggregator");
    Ok(())
}

#[tokio::test]
async fn hostile_discovery_is_stale_and_hurts_nobody() -> Result<()> {
    let attack = Arc::new(AtomicU8::new(0));
    let current = attack.clone();
    let backend = Backend::start(Setup {
        behaviour: Arc::new(move |asked, request| {
            if asked.uri != "/apis" {
                return Err(Box::new(request));
            }
            let mut response = match current.load(Ordering::SeqCst) {
                0 => json_answer(200, &json!({"items": [{"metadata": {"name": GROUP}, "versions": 7}]})),
                1 => {
                    // Without an end.
                    let (mut sender, body) = crate::backend::streamed();
                    tokio::spawn(async move {
                        let part = " ".repeat(64 * 1024);
                        loop {
                            crate::backend::send(&mut sender, &part).await;
                            if sender.is_closed() {
                                return;
                            }
                        }
                    });
                    Response::new(body)
                }
                _ => {
                    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
                    let (mut sender, body) = crate::backend::streamed();
                    tokio::spawn(async move { crate::backend::send(&mut sender, &deep).await });
                    Response::new(body)
                }
            };
            let form = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
            response.headers_mut().insert("content-type", form.parse().expect("a value"));
            answering(response)
        }),
        ..Setup::default()
    })?;
    let (_server, api) = aggregated(&backend).await?;
    for round in 0..3 {
        attack.store(round, Ordering::SeqCst);
        let before = backend.asked("/apis").iter().filter(|asked| asked.uri == "/apis").count();
        api.until("another look", async || {
            let now = backend.asked("/apis").iter().filter(|asked| asked.uri == "/apis").count();
            Ok((now > before + 1).then_some(()))
        })
        .await?;
        let versions = group(&api.discovery().await?, GROUP).expect("the group")["versions"].clone();
        assert_eq!(versions, json!([{"version": "v1", "freshness": "Stale"}]), "attack {round}");
        assert_eq!(api.text(&format!("/apis/{GROUP}/v1/things")).await?.0, 200, "requests go on");
        assert_eq!(api.text("/api/v1/namespaces").await?.0, 200);
    }
    Ok(())
}

#[tokio::test]
async fn without_a_remote_service_nothing_is_different() -> Result<()> {
    let server = start(&[])?;
    let api = Api::admin(&server)?;
    let legacy = names(&api.json("/apis").await?["groups"], "/name");
    assert_eq!(legacy, names(&api.discovery().await?["items"], "/metadata/name"));
    Ok(())
}

#[tokio::test]
async fn what_others_serve_is_known_again_after_a_restart() -> Result<()> {
    let backend = Backend::start(Setup::default())?;
    let (mut server, _) = aggregated(&backend).await?;
    server.restart()?;
    let api = Api::admin(&server)?;
    let discovery = api.discovery().await?;
    let version = &group(&discovery, GROUP).expect("the group")["versions"][0];
    assert_eq!((&version["freshness"], &version["resources"][0]["resource"]), (&json!("Current"), &json!("things")));
    assert_eq!(api.text(&format!("/apis/{GROUP}/v1/things")).await?.0, 200);
    let metrics = api.text("/metrics").await?.1;
    assert!(metrics.contains(&format!("aggregator_unavailable_apiservice{{name=\"{NAME}\"}} 0\n")), "{metrics}");
    Ok(())
}

#[tokio::test]
async fn switched_off_records_are_nothing_but_records() -> Result<()> {
    let backend = Backend::start(Setup::default())?;
    let directory = tempfile::tempdir()?;
    let builder = bailiwick::ControlPlane::builder(directory.path()).aggregation(bailiwick::Aggregation::Off);
    let running = builder.start().await?;
    let user = bailiwick_machinery::user::UserInfo {
        name: "admin".into(),
        groups: vec!["system:masters".into()],
        ..Default::default()
    };
    let client = kube::Client::new(running.local_service(user), "default");
    let create = hyper::Request::post("/apis/apiregistration.k8s.io/v1/apiservices")
        .header("content-type", "application/json")
        .body(api_service(&backend).to_string().into_bytes())?;
    let made: Value = client.request(create).await?;
    assert_eq!(made["metadata"]["name"], NAME);
    let list = hyper::Request::get(format!("/apis/{GROUP}/v1/things")).body(Vec::new())?;
    let refused = client.request::<Value>(list).await.expect_err("nobody serves it");
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 404), "{refused:?}");
    assert!(backend.asked("/").is_empty());
    assert!(!directory.path().join("pki/front-proxy-ca.crt").exists(), "and nothing is made for it");
    running.stop().await;
    Ok(())
}
