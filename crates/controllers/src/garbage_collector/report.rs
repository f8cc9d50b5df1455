//! Tells people about owner references that cannot be right, with upstream's event.

use std::sync::PoisonError;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};

use super::GarbageCollector;
use super::graph::{Misplaced, Uid};

/// The component that the event names, as upstream.
const COMPONENT: &str = "garbage-collector-controller";
/// Where events about objects without a namespace are.
const DEFAULT_NAMESPACE: &str = "default";

impl GarbageCollector {
    /// Records an event about the object with this uid, if there is something to be told. It is for people to read, so one
    /// that cannot be written is not worth another try.
    pub(super) async fn report_misplaced(&self, dependent: &Uid) {
        let found = self.misplaced.lock().unwrap_or_else(PoisonError::into_inner).remove(dependent);
        let Some(found) = found else { return };
        let event = event(&found, Timestamp::now());
        let namespace = event.metadata.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
        let events: Api<Event> = Api::namespaced(self.client.get(), namespace);
        if let Err(error) = events.create(&PostParams::default(), &event).await {
            tracing::debug!(object = ?found.dependent, %error, "an event could not be recorded");
        }
    }
}

fn event(Misplaced { dependent, owner }: &Misplaced, now: Timestamp) -> Event {
    let text = |value: &str| Some(value.to_owned()).filter(|value| !value.is_empty());
    let namespace = text(&dependent.namespace).unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned());
    let message = format!(
        "ownerRef [{}/{}, namespace: {space}, name: {}, uid: {}] does not exist in namespace {space:?}",
        owner.api_version,
        owner.kind,
        owner.name,
        owner.uid,
        space = dependent.namespace,
    );
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{}.{:x}", dependent.name, now.as_nanosecond())),
            namespace: Some(namespace),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: text(&dependent.api_version),
            kind: text(&dependent.kind),
            namespace: text(&dependent.namespace),
            name: text(&dependent.name),
            uid: text(&dependent.uid),
            ..ObjectReference::default()
        },
        reason: text("OwnerRefInvalidNamespace"),
        message: Some(message),
        type_: text("Warning"),
        source: Some(EventSource { component: text(COMPONENT), host: None }),
        reporting_component: text(COMPONENT),
        reporting_instance: Some(String::new()),
        count: Some(1),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        ..Event::default()
    }
}
