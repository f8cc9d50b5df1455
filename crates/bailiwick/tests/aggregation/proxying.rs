//! Requests on their way through: nothing gathered, nothing lost, nobody's word taken for who they are.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use bailiwick_testkit::NOBODY_TOKEN;
use futures::TryStreamExt;
use http_body_util::BodyExt;
use hyper::Response;
use hyper::body::Bytes;
use serde_json::json;

use crate::api::{Api, DEADLINE, aggregated};
use crate::backend::{Backend, GROUP, Setup, answering, json_answer, next_text, send, streamed};

const THINGS: &str = "/apis/things.example.com/v1/namespaces/default/things";

/// What is still to come of a body.
async fn rest(stream: impl futures::Stream<Item = reqwest::Result<Bytes>>) -> Result<String> {
    let parts: Vec<Bytes> = stream.try_collect().await?;
    Ok(parts.iter().map(|part| String::from_utf8_lossy(part)).collect())
}

#[tokio::test]
async fn the_other_server_learns_who_asks_and_nothing_of_how_they_proved_it() -> Result<()> {
    let backend = Backend::start(Setup::default())?;
    let (_server, api) = aggregated(&backend).await?;
    let request = api.get(&format!("{THINGS}?labelSelector=a%3Db"));
    let forged = [("x-remote-user", "root"), ("x-remote-group", "evil"), ("x-remote-extra-a", "b"), ("x-mine", "1")];
    let request = forged.into_iter().fold(request, |request, (name, value)| request.header(name, value));
    let response = request.header("audit-id", "the-id").send().await?;
    assert_eq!((response.status().as_u16(), &response.headers()["audit-id"]), (200, &"the-id".parse()?));
    let asked = backend.asked(THINGS).pop().expect("it was asked");
    assert_eq!(asked.uri, format!("{THINGS}?labelSelector=a%3Db"));
    let values = |name: &str| -> Vec<String> {
        asked.headers.get_all(name).iter().map(|value| value.to_str().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(values("x-remote-user"), ["admin"]);
    assert_eq!(values("x-remote-uid"), ["admin-uid"]);
    assert_eq!(values("x-remote-group"), ["system:masters", "system:authenticated"]);
    assert_eq!(values("x-mine"), ["1"]);
    assert_eq!(values("audit-id"), ["the-id"]);
    assert_eq!(values("x-forwarded-for"), ["127.0.0.1"]);
    for absent in ["authorization", "x-remote-extra-a"] {
        assert_eq!(values(absent), [""; 0], "{absent}");
    }
    Ok(())
}

#[tokio::test]
async fn an_impersonated_user_is_who_asks() -> Result<()> {
    let backend = Backend::start(Setup::default())?;
    let (_server, api) = aggregated(&backend).await?;
    let response = api.get(THINGS).header("impersonate-user", "alice").send().await?;
    assert_eq!(response.status(), 403, "alice has no rights");
    let request = api.get(THINGS).header("impersonate-user", "alice").header("impersonate-group", "system:masters");
    assert_eq!(request.send().await?.status(), 200);
    let asked = backend.asked(THINGS);
    assert_eq!(asked.len(), 1, "who may not is not passed on");
    assert_eq!(asked[0].headers["x-remote-user"], "alice");
    assert!(!asked[0].headers.contains_key("impersonate-user"));
    Ok(())
}

#[tokio::test]
async fn our_rules_hold_before_anything_is_passed_on() -> Result<()> {
    let backend = Backend::start(Setup::default())?;
    let (server, _api) = aggregated(&backend).await?;
    let nobody = Api::with_token(&server, NOBODY_TOKEN)?;
    let (status, text) = nobody.text(THINGS).await?;
    assert_eq!(status, 403);
    let expected = format!(
        "things.{GROUP} is forbidden: User \\\"nobody\\\" cannot list resource \\\"things\\\" in API group \\\"{GROUP}\\\" in the namespace \\\"default\\\""
    );
    assert!(text.contains(&expected), "{text}");
    let stranger = Api::with_token(&server, "no-such-token")?;
    assert_eq!(stranger.text(THINGS).await?.0, 401);
    assert!(backend.asked(THINGS).is_empty());
    Ok(())
}

#[tokio::test]
async fn answers_arrive_as_they_are_made() -> Result<()> {
    let (feed, fed) = tokio::sync::mpsc::unbounded_channel::<&'static str>();
    let fed = Arc::new(std::sync::Mutex::new(Some(fed)));
    let backend = Backend::start(Setup {
        behaviour: Arc::new(move |asked, request| {
            let Some(mut fed) = Some(fed.lock().expect("unpoisoned")).filter(|_| asked.uri.contains("watch=true"))
            else {
                return Err(Box::new(request));
            };
            let Some(mut fed) = fed.take() else { return Err(Box::new(request)) };
            let (mut sender, body) = streamed();
            tokio::spawn(async move {
                while let Some(text) = fed.recv().await {
                    send(&mut sender, text).await;
                }
            });
            answering(Response::new(body))
        }),
        ..Setup::default()
    })?;
    let (_server, api) = aggregated(&backend).await?;
    let response = api.get(&format!("{THINGS}?watch=true")).send().await?;
    let mut stream = response.bytes_stream();
    // The other server waits for us before it says more: who gathers would wait for ever.
    for event in ["one\n", "two\n", "three\n"] {
        feed.send(event)?;
        assert_eq!(tokio::time::timeout(DEADLINE, next_text(&mut stream)).await?, event);
    }
    drop(feed);
    assert_eq!(rest(stream).await?, "", "it ends when the other server ends it");
    Ok(())
}

#[tokio::test]
async fn bodies_are_passed_on_while_they_are_written() -> Result<()> {
    let backend = Backend::start(Setup {
        behaviour: Arc::new(|asked, request| {
            if asked.method != "POST" {
                return Err(Box::new(request));
            }
            let (mut sender, body) = streamed();
            tokio::spawn(async move {
                let mut request = request.into_body();
                while let Some(Ok(frame)) = request.frame().await {
                    let text = frame.data_ref().map(|data| String::from_utf8_lossy(data).into_owned());
                    send(&mut sender, &text.unwrap_or_default()).await;
                }
            });
            answering(Response::new(body))
        }),
        ..Setup::default()
    })?;
    let (_server, api) = aggregated(&backend).await?;
    let (parts, body) = tokio::sync::mpsc::unbounded_channel::<Result<&'static str, std::io::Error>>();
    let body = futures::stream::unfold(body, |mut body| async move { Some((body.recv().await?, body)) });
    let request = api.request(reqwest::Method::POST, THINGS).body(reqwest::Body::wrap_stream(body));
    parts.send(Ok("first"))?;
    let mut answer = request.send().await?.bytes_stream();
    // Each part comes back before the next one is written.
    assert_eq!(next_text(&mut answer).await, "first");
    parts.send(Ok("second"))?;
    assert_eq!(next_text(&mut answer).await, "second");
    drop(parts);
    assert_eq!(rest(answer).await?, "");
    Ok(())
}

/// Watches that begin and never end.
fn endless_watches() -> Setup {
    Setup {
        behaviour: Arc::new(|asked, request| match asked.uri.contains("watch=true") {
            false => Err(Box::new(request)),
            true => {
                let (mut sender, body) = streamed();
                tokio::spawn(async move {
                    send(&mut sender, "begun\n").await;
                    std::future::pending::<()>().await;
                });
                answering(Response::new(body))
            }
        }),
        ..Setup::default()
    }
}

#[tokio::test]
async fn more_watches_than_a_connection_carries_do_not_keep_others_waiting() -> Result<()> {
    let backend = Backend::start(endless_watches())?;
    let (_server, api) = aggregated(&backend).await?;
    let mut watches = Vec::new();
    for _ in 0..250 {
        let mut stream = api.get(&format!("{THINGS}?watch=true")).send().await?.bytes_stream();
        assert_eq!(tokio::time::timeout(DEADLINE, next_text(&mut stream)).await?, "begun\n");
        watches.push(stream);
    }
    let (status, _) = tokio::time::timeout(DEADLINE, api.text(THINGS)).await??;
    assert_eq!(status, 200);
    Ok(())
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_not_taken_for_a_whole_one() -> Result<()> {
    let backend = Backend::start(Setup {
        behaviour: Arc::new(|asked, request| match asked.uri.ends_with("/broken") {
            false => Err(Box::new(request)),
            true => {
                let (mut sender, body) = streamed();
                tokio::spawn(async move {
                    send(&mut sender, "half of ").await;
                    let _ = futures::SinkExt::send(&mut sender, Err(std::io::Error::other("broken"))).await;
                });
                answering(Response::new(body))
            }
        }),
        ..Setup::default()
    })?;
    let (_server, api) = aggregated(&backend).await?;
    // The head may not have left when the stream is broken off.
    if let Ok(response) = api.get(&format!("{THINGS}/broken")).send().await {
        assert!(response.text().await.is_err());
    }
    assert_eq!(backend.asked(&format!("{THINGS}/broken")).len(), 1);
    Ok(())
}

#[tokio::test]
async fn redirects_and_headers_of_the_other_server() -> Result<()> {
    let backend = Backend::start(Setup {
        behaviour: Arc::new(|asked, request| {
            let mut response = json_answer(200, &json!({}));
            let headers = response.headers_mut();
            match asked.uri.rsplit('/').next() {
                Some("away") => {
                    headers.insert("location", "https://example.com/".parse().expect("a value"));
                    *response.status_mut() = hyper::StatusCode::FOUND;
                }
                Some("headers") => {
                    for warning in ["299 - \"a\"", "299 - \"b\""] {
                        headers.append("warning", warning.parse().expect("a value"));
                    }
                    headers.insert("access-control-allow-origin", "*".parse().expect("a value"));
                    headers.insert("cache-control", "public".parse().expect("a value"));
                    *response.status_mut() = hyper::StatusCode::IM_A_TEAPOT;
                }
                _ => return Err(Box::new(request)),
            }
            answering(response)
        }),
        ..Setup::default()
    })?;
    let (_server, api) = aggregated(&backend).await?;
    let refused = (502, "the backend attempted to redirect this request, which is not permitted".to_owned());
    assert_eq!(api.text(&format!("{THINGS}/away")).await?, refused);
    let response = api.get(&format!("{THINGS}/headers")).send().await?;
    assert_eq!(response.status(), 418);
    let headers = response.headers();
    assert_eq!(headers.get_all("warning").iter().count(), 2);
    assert_eq!(headers["cache-control"], "public");
    assert!(!headers.contains_key("access-control-allow-origin"));
    Ok(())
}

#[tokio::test]
async fn a_server_without_http2_is_spoken_to_as_it_likes() -> Result<()> {
    let backend = Backend::start(Setup { alpn: &[b"http/1.1"], ..Setup::default() })?;
    let (_server, api) = aggregated(&backend).await?;
    for _ in 0..3 {
        assert_eq!(api.text(THINGS).await?.0, 200);
    }
    Ok(())
}

#[tokio::test]
async fn a_slow_server_is_not_waited_for_longer_than_allowed() -> Result<()> {
    let backend = Backend::start(Setup {
        behaviour: Arc::new(|asked, request| match asked.uri.ends_with("/slow") {
            true => Ok(Box::pin(std::future::pending())),
            false => Err(Box::new(request)),
        }),
        ..Setup::default()
    })?;
    let server = crate::api::start(&["--request-timeout", "2s"])?;
    let api = Api::admin(&server)?;
    api.register(&crate::api::api_service(&backend)).await?;
    api.condition(&format!("v1.{GROUP}"), "Passed").await?;
    let (status, text) = tokio::time::timeout(DEADLINE, api.text(&format!("{THINGS}/slow"))).await??;
    assert_eq!(status, 504, "{text}");
    assert_eq!(api.text(THINGS).await?.0, 200);
    Ok(())
}

#[tokio::test]
async fn a_server_that_stops_does_not_wait_for_watches_of_others() -> Result<()> {
    let backend = Backend::start(endless_watches())?;
    let directory = tempfile::tempdir()?;
    let running = bailiwick::ControlPlane::builder(directory.path()).start().await?;
    let user = bailiwick_machinery::user::UserInfo {
        name: "admin".into(),
        groups: vec!["system:masters".into()],
        ..Default::default()
    };
    let client = kube::Client::new(running.local_service(user), "default");
    let service: kube::api::DynamicObject = serde_json::from_value(crate::api::api_service(&backend))?;
    let services: kube::Api<kube::api::DynamicObject> = kube::Api::all_with(
        client.clone(),
        &kube::core::ApiResource {
            group: "apiregistration.k8s.io".into(),
            version: "v1".into(),
            api_version: "apiregistration.k8s.io/v1".into(),
            kind: "APIService".into(),
            plural: "apiservices".into(),
        },
    );
    services.create(&Default::default(), &service).await?;
    let path = format!("{THINGS}?watch=true");
    let begun = async {
        loop {
            let request = hyper::Request::get(&path).body(Vec::new())?;
            if let Ok(stream) = client.request_stream(request).await {
                return anyhow::Ok(stream);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let _watch = tokio::time::timeout(DEADLINE, begun).await??;
    tokio::time::timeout(DEADLINE, running.stop()).await?;
    Ok(())
}
