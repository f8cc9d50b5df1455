use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use super::*;
use crate::work_queue::Outcome;

fn namespace(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}

fn terminating(name: &str) -> ObjectMeta {
    ObjectMeta { deletion_timestamp: Some(Time(jiff::Timestamp::UNIX_EPOCH)), ..namespace(name) }
}

/// The namespaces queued so far, sorted.
async fn queued(tracker: &PerNamespace) -> Vec<String> {
    let seen = Mutex::new(Vec::new());
    let work = tracker.queue.work("test", 1, |name| {
        seen.lock().unwrap().push(name.to_string());
        async { Ok::<_, crate::error::Error>(Outcome::Done) }
    });
    tokio::select! {
        () = work => unreachable!("works forever"),
        () = tokio::time::sleep(Duration::from_secs(1)) => {}
    }
    let mut seen = seen.into_inner().unwrap();
    seen.sort();
    seen
}

fn listed(namespaces: &[ObjectMeta], objects: &[(&str, bool)]) -> PerNamespace {
    let tracker = PerNamespace::new();
    list_namespaces(&tracker, namespaces);
    list_objects(&tracker, objects);
    tracker
}

fn list_namespaces(tracker: &PerNamespace, namespaces: &[ObjectMeta]) {
    tracker.namespace_changed(Change::ListStarted);
    namespaces.iter().for_each(|meta| tracker.namespace_changed(Change::Present(meta)));
    tracker.namespace_changed(Change::Listed);
}

fn list_objects(tracker: &PerNamespace, objects: &[(&str, bool)]) {
    tracker.object_list_started();
    objects.iter().for_each(|(namespace, good)| tracker.object_present(namespace, *good));
    tracker.objects_listed();
}

#[tokio::test(start_paused = true)]
async fn active_namespaces_without_a_good_object_are_queued() {
    let namespaces = [namespace("with"), namespace("without"), namespace("bad"), terminating("leaving")];
    let tracker = listed(&namespaces, &[("with", true), ("bad", false)]);
    assert_eq!(queued(&tracker).await, ["bad", "without"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_queued_before_both_were_listed() {
    let tracker = PerNamespace::new();
    list_namespaces(&tracker, &[namespace("a")]);
    assert!(queued(&tracker).await.is_empty());
    list_objects(&tracker, &[("a", true)]);
    assert!(queued(&tracker).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_loses_its_object_is_queued_unless_it_leaves() {
    let tracker = listed(&[namespace("a"), namespace("b")], &[("a", true), ("b", true)]);
    tracker.object_deleted("a");
    tracker.namespace_changed(Change::Present(&terminating("b")));
    tracker.object_deleted("b");
    assert_eq!(queued(&tracker).await, ["a"]);
    assert!(tracker.is_lacking("a") && !tracker.is_lacking("b"));
}

#[tokio::test(start_paused = true)]
async fn what_a_later_list_does_not_show_is_gone() {
    let tracker = listed(&[namespace("a"), namespace("b")], &[("a", true), ("b", true)]);
    list_namespaces(&tracker, &[namespace("a")]);
    list_objects(&tracker, &[]);
    assert_eq!(queued(&tracker).await, ["a"]);
    tracker.namespace_changed(Change::Deleted(&namespace("a")));
    assert!(tracker.lock().namespaces.is_empty(), "nothing is kept of what is gone");
}
