//! What clients are told of a revision that the store has forgotten, and how far they have seen when a watch ends.

use bailiwick_store::Revision;
use serde_json::{Value, json};

use crate::{JSON, MAPS, Plane, revision};

const LIST_TOO_OLD: &str = "The resourceVersion for the provided list is too old.";

/// A control plane with three ConfigMaps that has forgotten all but the newest state, and the revision after the second.
async fn forgetful() -> (Plane, u64, String) {
    let plane = Plane::start(|builder| builder).await;
    plane.config_map("default", "a").await;
    let old = revision(&plane.config_map("default", "b").await);
    let page = plane.get(&format!("{MAPS}?limit=1")).await;
    assert_eq!(page.names(), ["a"]);
    let token = page.json()["metadata"]["continue"].as_str().unwrap().to_owned();
    let newest = revision(&plane.config_map("default", "c").await);
    plane.running.store().compact(Revision(newest)).await.unwrap();
    (plane, old, token)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_at_a_forgotten_revision_is_410() {
    let (plane, old, _) = forgetful().await;
    for limit in ["", "&limit=1"] {
        let path = format!("{MAPS}?resourceVersion={old}&resourceVersionMatch=Exact{limit}");
        let answer = plane.get(&path).await;
        let status = answer.json();
        assert_eq!((answer.status, &status["code"], &status["reason"]), (410, &json!(410), &json!("Expired")));
        assert_eq!(status["message"], LIST_TOO_OLD);
        assert_eq!(status["metadata"], json!({}), "there is nowhere to go on");
    }
    plane.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forgotten_page_is_410_with_a_token_that_goes_on_at_the_newest_state() {
    let (plane, old, token) = forgetful().await;
    let answer = plane.get(&format!("{MAPS}?limit=1&continue={token}")).await;
    let status = answer.json();
    assert_eq!((answer.status, &status["reason"]), (410, &json!("Expired")));
    let message = status["message"].as_str().unwrap();
    assert!(
        message.starts_with("The provided continue parameter is too old to display a consistent list"),
        "{message}"
    );
    let inconsistent = status["metadata"]["continue"].as_str().expect("a token to go on with");
    assert_ne!(inconsistent, token);

    let rest = plane.get(&format!("{MAPS}?limit=10&continue={inconsistent}")).await;
    assert_eq!(rest.names(), ["b", "c"]);
    assert!(revision(&rest.json()) > old, "it shows what came after the first page, too");
    plane.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_from_a_forgotten_revision_says_410_in_every_form() {
    let (plane, old, _) = forgetful().await;
    let path = format!("{MAPS}?watch=true&resourceVersion={old}");
    for accept in [
        JSON,
        "application/json;as=Table;g=meta.k8s.io;v=v1",
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    ] {
        let answer = plane.send("GET", &path, accept, Value::Null).await;
        assert_eq!(answer.status, 200, "a watch says what is wrong in the stream");
        let events = answer.events();
        let [event] = events.as_slice() else { panic!("one event: {events:?}") };
        assert_eq!(event["type"], "ERROR", "{accept}");
        let status = &event["object"];
        assert_eq!(
            (&status["kind"], &status["code"], &status["reason"]),
            (&json!("Status"), &json!(410), &json!("Expired"))
        );
        let message = status["message"].as_str().unwrap();
        assert!(message.starts_with(&format!("too old resource version: {old} (")), "{message}");
    }

    let protobuf = "application/vnd.kubernetes.protobuf;stream=watch";
    let answer = plane.send("GET", &path, protobuf, Value::Null).await;
    assert_eq!(answer.status, 200);
    let (length, frame) = answer.body.split_at(4);
    assert_eq!(u32::from_be_bytes(length.try_into().unwrap()) as usize, frame.len(), "one frame");
    let text = String::from_utf8_lossy(frame);
    let parts = ["ERROR", "k8s\0", "Status", "too old resource version", "Expired"];
    let places: Vec<Option<usize>> = parts.iter().map(|part| text.find(part)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?} in {text:?}");
    plane.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_ends_with_a_bookmark_behind_all_that_was_written() {
    let plane = Plane::start(|builder| builder).await;
    let start = revision(&plane.config_map("default", "a").await);
    // What another type writes brings this one forward as well.
    let namespace = json!({"metadata": {"name": "later"}});
    let last = plane.send("POST", "/api/v1/namespaces", JSON, namespace).await;
    let last = revision(&last.json());
    assert!(last > start);

    let path = format!("{MAPS}?watch=true&resourceVersion={start}&timeoutSeconds=1");
    let answer = plane.get(&format!("{path}&allowWatchBookmarks=true")).await;
    let events = answer.events();
    let bookmark = events.last().expect("a bookmark before the end");
    assert_eq!(bookmark["type"], "BOOKMARK");
    assert_eq!(bookmark["object"]["kind"], "ConfigMap");
    assert!(revision(&bookmark["object"]) >= last, "{bookmark}");

    assert!(plane.get(&path).await.events().is_empty(), "nobody gets bookmarks unasked");
    plane.running.stop().await;
}
