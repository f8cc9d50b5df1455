//! Events, one object for each thing told: changes of a domain are rare, and two of them are never the same.

use bailiwick_domains::registration::Concern;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{DynamicObject, PostParams};
use kube::{Api, Client, ResourceExt};

use crate::definition::{GROUP, VERSION};
use crate::judge::Notice;

const CONTROLLER: &str = "bailiwick.dev/domains";
/// What the API takes.
const NOTE_BYTES_MAX: usize = 1024;

/// Tells notices about an object. What cannot be told is logged: it stands in the status too.
pub(crate) async fn tell(client: &Client, object: &DynamicObject, notices: &[Notice]) {
    let namespace = object.namespace().unwrap_or_else(|| "default".to_owned());
    let events: Api<Event> = Api::namespaced(client.clone(), &namespace);
    for notice in notices {
        if let Err(error) = events.create(&PostParams::default(), &event(object, &namespace, notice)).await {
            tracing::warn!(domain = object.name_any(), reason = notice.reason, %error, "cannot record an event");
        }
    }
}

fn event(object: &DynamicObject, namespace: &str, notice: &Notice) -> Event {
    let now = jiff::Timestamp::now();
    let mut note = notice.note.clone();
    while note.len() > NOTE_BYTES_MAX {
        note.pop();
    }
    Event {
        metadata: ObjectMeta {
            namespace: Some(namespace.to_owned()),
            // As client-go names them: the object, and the time in hexadecimal.
            name: Some(format!("{}.{:x}", object.name_any(), now.as_nanosecond())),
            ..ObjectMeta::default()
        },
        action: Some("Check".to_owned()),
        reason: Some(notice.reason.clone()),
        note: Some(note),
        type_: Some(if notice.concern >= Concern::Warning { "Warning" } else { "Normal" }.to_owned()),
        event_time: Some(MicroTime(now)),
        regarding: Some(ObjectReference {
            api_version: Some(format!("{GROUP}/{VERSION}")),
            kind: Some("Domain".to_owned()),
            name: Some(object.name_any()),
            namespace: Some(namespace.to_owned()),
            uid: object.uid(),
            resource_version: object.resource_version(),
            ..ObjectReference::default()
        }),
        reporting_controller: Some(CONTROLLER.to_owned()),
        reporting_instance: Some(CONTROLLER.to_owned()),
        ..Event::default()
    }
}
