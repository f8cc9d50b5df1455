//! Follows domains and checks wherever they are: a metadata watch for each type in the root, and one stream for all projects.
//! Only names are taken from it; whoever works on an object reads it then.

use bailiwick_controllers::plane::Plane;
use bailiwick_controllers::plane::stream::{self, Ended};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use http::StatusCode;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ApiResource, DynamicObject};
use kube::core::{GroupVersionKind, PartialObjectMeta};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Api, Client};
use serde::Deserialize;

use crate::Error;
use crate::definition::{GATEWAY_GROUP, GROUP};

/// What is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Followed {
    Domain,
    Check,
    Gateway,
    Route,
}

/// Whether the object is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Present,
    Gone,
}

/// Whoever is told. Called between two reads of a stream, so it must be quick.
pub(crate) trait Observer: Sync {
    fn saw(&self, what: Followed, plane: &Plane, meta: &ObjectMeta, presence: Presence);
}

/// Follows one type in the root, for ever.
pub(crate) async fn root(client: &Client, resource: &ApiResource, what: Followed, observer: &impl Observer) {
    let api: Api<PartialObjectMeta<DynamicObject>> = Api::all_with(client.clone(), resource);
    let mut events = watch(api, watcher::Config::default()).default_backoff().boxed();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Apply(object) | Event::InitApply(object)) => {
                observer.saw(what, &Plane::ROOT, &object.metadata, Presence::Present);
            }
            Ok(Event::Delete(object)) => observer.saw(what, &Plane::ROOT, &object.metadata, Presence::Gone),
            Ok(Event::Init | Event::InitDone) => {}
            Err(error) => tracing::debug!(%error, ?what, "a watch was interrupted"),
        }
    }
}

/// Follows one type in the root for as long as somebody has defined it, for ever.
pub(crate) async fn while_defined(client: &Client, resource: &ApiResource, what: Followed, observer: &impl Observer) {
    let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let definitions = ApiResource::from_gvk_with_plural(&kind, "customresourcedefinitions");
    let api: Api<PartialObjectMeta<DynamicObject>> = Api::all_with(client.clone(), &definitions);
    let name = format!("metadata.name={}.{}", resource.plural, resource.group);
    let mut events = watch(api, watcher::Config::default().fields(&name)).default_backoff().boxed();
    let mut following: Option<BoxFuture<'_, ()>> = None;
    loop {
        let event = match &mut following {
            None => events.next().await,
            Some(at_work) => tokio::select! {
                event = events.next() => event,
                () = at_work => None,
            },
        };
        match event {
            Some(Ok(Event::Apply(_) | Event::InitApply(_))) => {
                following.get_or_insert_with(|| root(client, resource, what, observer).boxed());
            }
            Some(Ok(Event::Delete(_))) => following = None,
            Some(Ok(Event::Init | Event::InitDone)) => {}
            Some(Err(error)) => tracing::debug!(%error, ?what, "definitions cannot be watched"),
            None => return,
        }
    }
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type", borrow)]
    kind: &'a str,
    #[serde(default, borrow)]
    project: &'a str,
    #[serde(default, borrow)]
    group: &'a str,
    #[serde(default, borrow)]
    resource: &'a str,
    object: Object,
}

#[derive(Deserialize)]
struct Object {
    #[serde(default)]
    metadata: ObjectMeta,
}

/// Follows all types in all projects, for ever.
pub(crate) async fn projects(client: &Client, observer: &impl Observer) {
    let mut revision: Option<String> = None;
    loop {
        let from = revision.clone();
        let mut ended = stream::read(client, from.as_deref(), |line| take(line, &mut revision, observer)).await;
        if let Ok(Ended::Refused(status)) = ended {
            revision = None;
            if status == StatusCode::FORBIDDEN {
                // Whoever runs us has given us the root alone.
                ended = Ok(Ended::NoProjects);
            }
        }
        stream::rest(ended).await;
    }
}

/// Whether a line can be about our types, or about the stream itself; most are not, and are not parsed.
fn concerns(line: &[u8]) -> bool {
    let has = |text: &[u8]| line.windows(text.len()).any(|window| window == text);
    let head = line.get(..64).unwrap_or(line);
    let is_object = head.windows(5).any(|window| matches!(window, b"ADDED" | b"ETED\"" | b"MODIF"));
    !is_object || has(GROUP.as_bytes()) || has(GATEWAY_GROUP.as_bytes())
}

fn take(line: &[u8], revision: &mut Option<String>, observer: &impl Observer) -> Result<(), Error> {
    if !concerns(line) {
        return Ok(());
    }
    let line: Line<'_> =
        serde_json::from_slice(line).map_err(|error| Error::Stream(format!("unreadable line: {error}")))?;
    let presence = match line.kind {
        "ADDED" | "MODIFIED" => Presence::Present,
        "DELETED" => Presence::Gone,
        "BOOKMARK" => {
            *revision = line.object.metadata.resource_version;
            return Ok(());
        }
        _ => {
            // The place to go on from is gone: everything is told anew.
            *revision = None;
            return Err(Error::Stream("the stream begins anew".to_owned()));
        }
    };
    let what = match (line.group, line.resource) {
        (GROUP, "domains") => Followed::Domain,
        (GROUP, "domainchecks") => Followed::Check,
        (GATEWAY_GROUP, "gateways") => Followed::Gateway,
        (GATEWAY_GROUP, "httproutes") => Followed::Route,
        _ => return Ok(()),
    };
    observer.saw(what, &Plane::project(line.project), &line.object.metadata, presence);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Default)]
    struct Seen(Mutex<Vec<String>>);

    impl Observer for Seen {
        fn saw(&self, what: Followed, plane: &Plane, meta: &ObjectMeta, presence: Presence) {
            let name = meta.name.clone().unwrap_or_default();
            self.0.lock().expect("no panic").push(format!("{what:?} {plane:?} {name} {presence:?}"));
        }
    }

    #[test]
    fn lines_about_our_types_are_taken_and_others_passed_over() {
        let (seen, mut revision) = (Seen::default(), None);
        let lines = [
            r#"{"type":"ADDED","project":"shop","group":"datumapis.com","resource":"domains","object":{"kind":"Domain","apiVersion":"datumapis.com/v1alpha","metadata":{"name":"a","namespace":"default"}}}"#,
            r#"{"type":"ADDED","project":"shop","group":"","resource":"configmaps","object":{"metadata":{"name":"b"}}}"#,
            r#"{"type":"ADDED","project":"shop","group":"gateway.networking.k8s.io","resource":"gateways","object":{"metadata":{"name":"d"}}}"#,
            r#"{"type":"DELETED","project":"shop","group":"datumapis.com","resource":"domainchecks","object":{"metadata":{"name":"c"}}}"#,
            r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"17"}}}"#,
        ];
        for line in lines {
            take(line.as_bytes(), &mut revision, &seen).expect("a line");
        }
        assert_eq!(
            *seen.0.lock().expect("no panic"),
            ["Domain shop a Present", "Gateway shop d Present", "Check shop c Gone"]
        );
        assert_eq!(revision.as_deref(), Some("17"));
        let gone = r#"{"type":"ERROR","object":{"kind":"Status","code":410}}"#;
        assert!(take(gone.as_bytes(), &mut revision, &seen).is_err() && revision.is_none());
    }
}
