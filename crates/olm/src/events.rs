//! Events, so that `kubectl describe` and `kubectl get events` tell what happened. One that cannot be written is not
//! worth failing for.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::DynamicObject;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, ResourceExt};

use crate::context::Role;
use crate::kinds::Kind;

/// Longer notes are refused by the API.
const NOTE_CHARS_MAX: usize = 1000;

/// Writes events.
pub(crate) struct Events {
    recorder: Recorder,
    role: Role,
}

impl Events {
    /// Followers keep quiet.
    pub fn new(client: Client, role: Role) -> Self {
        let reporter = Reporter { controller: "bailiwick-olm".to_owned(), instance: None };
        Self { recorder: Recorder::new(client, reporter), role }
    }

    pub async fn normal(&self, kind: &Kind, object: &DynamicObject, reason: &str, note: &str) {
        self.write(kind, object, EventType::Normal, reason, note).await;
    }

    pub async fn warning(&self, kind: &Kind, object: &DynamicObject, reason: &str, note: &str) {
        self.write(kind, object, EventType::Warning, reason, note).await;
    }

    async fn write(&self, kind: &Kind, object: &DynamicObject, type_: EventType, reason: &str, note: &str) {
        if self.role == Role::Follower {
            return;
        }
        let reference = ObjectReference {
            api_version: Some(kind.api_version()),
            kind: Some(kind.kind.to_owned()),
            name: Some(object.name_any()),
            namespace: object.namespace(),
            uid: object.uid(),
            ..ObjectReference::default()
        };
        let event = Event {
            type_,
            reason: reason.to_owned(),
            note: Some(note.chars().take(NOTE_CHARS_MAX).collect()),
            action: reason.to_owned(),
            secondary: None,
        };
        if let Err(error) = self.recorder.publish(&event, &reference).await {
            tracing::debug!(%error, reason, "an event could not be written");
        }
    }
}
