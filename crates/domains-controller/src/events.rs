//! Events, one object for each thing told. What is to be told is written into the status together with what it tells of
//! (`unannounced`), then as an Event under a name that was given to it there, and struck off last: whatever fails in between is
//! done again, and a name that is taken shows that it was done.

use bailiwick_domains::quote::cut;
use bailiwick_domains::registration::Concern;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{DynamicObject, PostParams};
use kube::{Api, Client, ResourceExt};

use crate::definition::{GROUP, VERSION};
use crate::judge::Notice;
use crate::status::Announcement;

const CONTROLLER: &str = "bailiwick.dev/domains";
/// What the API takes.
const NOTE_BYTES_MAX: usize = 1024;
/// Letters of an object's name that an Event's has: with the time behind them it must still be a name.
const NAME_LETTERS_MAX: usize = 220;
/// Events of one domain that wait to be written; of more the oldest are given up. A year of trouble fits.
const UNANNOUNCED_MAX: usize = 50;

/// Puts notices where they wait to be told.
pub(crate) fn enqueue(unannounced: &mut Vec<Announcement>, object: &DynamicObject, notices: &[Notice], now: Timestamp) {
    for (index, notice) in (0_i64..).zip(notices) {
        let Notice { concern, reason, note } = notice.clone();
        let at = now.checked_add(SignedDuration::from_nanos(index)).unwrap_or(now);
        unannounced.push(Announcement { name: name(object, at), at, concern, reason, note: cut(note, NOTE_BYTES_MAX) });
    }
    let too_many = unannounced.len().saturating_sub(UNANNOUNCED_MAX);
    for lost in unannounced.drain(..too_many) {
        tracing::warn!(object = object.name_any(), reason = lost.reason, "an event waited too long and is given up");
    }
}

/// As client-go names them: the object, and the time in hexadecimal.
fn name(object: &DynamicObject, at: Timestamp) -> String {
    let object: String = object.name_any().chars().take(NAME_LETTERS_MAX).collect();
    format!("{}.{:x}", object.trim_end_matches(['.', '-']), at.as_nanosecond())
}

/// What an Event is about: an object of ours and, where that speaks for another one, that.
pub(crate) struct About {
    regarding: ObjectReference,
    related: Option<ObjectReference>,
}

impl About {
    /// An object of ours.
    pub fn own(object: &DynamicObject, kind: &str) -> Self {
        let regarding = ObjectReference {
            api_version: Some(format!("{GROUP}/{VERSION}")),
            kind: Some(kind.to_owned()),
            name: Some(object.name_any()),
            namespace: object.namespace(),
            uid: object.uid(),
            ..ObjectReference::default()
        };
        Self { regarding, related: None }
    }

    /// Whose object it is, where it is somebody's: whoever asks after that is told.
    pub fn owner(object: &DynamicObject, kind: &str) -> Self {
        let own = Self::own(object, kind);
        let Some(owner) = object.owner_references().first() else { return own };
        let regarding = ObjectReference {
            api_version: Some(owner.api_version.clone()),
            kind: Some(owner.kind.clone()),
            name: Some(owner.name.clone()),
            namespace: object.namespace(),
            uid: Some(owner.uid.clone()),
            ..ObjectReference::default()
        };
        Self { regarding, related: Some(own.regarding) }
    }
}

/// Writes one as an Event; one that is there already was written before.
pub(crate) async fn announce(client: &Client, about: &About, announcement: &Announcement) -> Result<(), kube::Error> {
    let namespace = about.regarding.namespace.clone().unwrap_or_else(|| "default".to_owned());
    let events: Api<Event> = Api::namespaced(client.clone(), &namespace);
    match events.create(&PostParams::default(), &event(about, &namespace, announcement)).await {
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(()),
        other => other.map(|_| ()),
    }
}

fn event(about: &About, namespace: &str, announcement: &Announcement) -> Event {
    Event {
        metadata: ObjectMeta {
            namespace: Some(namespace.to_owned()),
            name: Some(announcement.name.clone()),
            ..ObjectMeta::default()
        },
        action: Some("Check".to_owned()),
        reason: Some(announcement.reason.clone()),
        note: Some(announcement.note.clone()),
        type_: Some(if announcement.concern >= Concern::Warning { "Warning" } else { "Normal" }.to_owned()),
        event_time: Some(MicroTime(announcement.at)),
        regarding: Some(ObjectReference { namespace: Some(namespace.to_owned()), ..about.regarding.clone() }),
        related: about.related.clone(),
        reporting_controller: Some(CONTROLLER.to_owned()),
        reporting_instance: Some(CONTROLLER.to_owned()),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
    use kube::api::ApiResource;

    use super::*;

    fn object(name: &str) -> DynamicObject {
        DynamicObject::new(name, &ApiResource::erase::<Event>(&()))
    }

    fn notices(count: usize) -> Vec<Notice> {
        let notice = Notice { concern: Concern::Notice, reason: "DomainChanged".into(), note: "é".repeat(600) };
        vec![notice; count]
    }

    #[test]
    fn each_has_a_name_of_its_own_that_is_a_name_and_a_note_that_fits() {
        let mut waiting = Vec::new();
        enqueue(&mut waiting, &object(&format!("{}.example", "a".repeat(219))), &notices(2), Timestamp::UNIX_EPOCH);
        let names: Vec<&str> = waiting.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, [format!("{}.0", "a".repeat(219)), format!("{}.1", "a".repeat(219))]);
        assert!(waiting.iter().all(|one| one.note.len() == NOTE_BYTES_MAX));
    }

    #[test]
    fn what_waits_is_bounded_and_the_latest_stay() {
        let mut waiting = Vec::new();
        enqueue(&mut waiting, &object("a"), &notices(UNANNOUNCED_MAX + 3), Timestamp::UNIX_EPOCH);
        assert_eq!(waiting.len(), UNANNOUNCED_MAX);
        assert_eq!(waiting[0].name, "a.3");
    }

    #[test]
    fn what_belongs_to_another_object_is_told_about_that_one() {
        let mut check = object("gateway-edge");
        let owner = OwnerReference { kind: "Gateway".into(), name: "edge".into(), ..OwnerReference::default() };
        assert_eq!(About::owner(&check, "DomainCheck").regarding.kind.as_deref(), Some("DomainCheck"));
        check.metadata.owner_references = Some(vec![owner]);
        let about = About::owner(&check, "DomainCheck");
        assert_eq!(about.regarding.kind.as_deref(), Some("Gateway"));
        assert_eq!(about.related.and_then(|check| check.name).as_deref(), Some("gateway-edge"));
    }
}
