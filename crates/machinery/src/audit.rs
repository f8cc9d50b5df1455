//! What a request leaves for the audit log while it is served: annotations, who it acted as, what it was about.
//!
//! An [`AuditContext`] accompanies every request. Whoever takes part in serving it may add to it from behind a shared
//! reference. Where nothing is audited it is switched off, and adding costs one atomic load.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use serde_json::Value;

use crate::object;
use crate::user::UserInfo;

/// How much of a request is recorded, from nothing to everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    None,
    Metadata,
    Request,
    RequestResponse,
}

impl Level {
    pub const ALL: [Self; 4] = [Self::None, Self::Metadata, Self::Request, Self::RequestResponse];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Metadata => "Metadata",
            Self::Request => "Request",
            Self::RequestResponse => "RequestResponse",
        }
    }
}

/// What happened to a request so far, for its audit events.
#[derive(Debug)]
pub struct AuditContext {
    /// A [`Level`], or [`UNDECIDED`].
    level: AtomicU8,
    notes: Mutex<AuditNotes>,
}

/// Before the policy has been asked everything is noted, as it may want it.
const UNDECIDED: u8 = u8::MAX;

/// What was noted of a request.
#[derive(Clone, Debug, Default)]
pub struct AuditNotes {
    /// By their keys, in order.
    pub annotations: Vec<(Cow<'static, str>, Cow<'static, str>)>,
    /// The identity the request went on as, and the verb that allowed it where that was a constrained one.
    pub impersonated: Option<(Arc<UserInfo>, &'static str)>,
    /// What the object in the request's body says about itself.
    pub object: Option<AuditedObject>,
    /// The request's object as JSON.
    pub request: Option<Bytes>,
    /// The answer as JSON, where it is sent in another form.
    pub response: Option<Bytes>,
}

impl AuditNotes {
    /// Adds an annotation. The first value of a key stays.
    pub fn annotate(&mut self, key: impl Into<Cow<'static, str>>, value: impl Into<Cow<'static, str>>) {
        let key = key.into();
        if let Err(place) = self.annotations.binary_search_by(|(existing, _)| existing.cmp(&key)) {
            self.annotations.insert(place, (key, value.into()));
        }
    }
}

/// The identity of an object that a request carried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditedObject {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub resource_version: String,
}

impl AuditContext {
    /// A request that is not audited.
    pub fn off() -> Self {
        Self::at(Level::None as u8)
    }

    /// A request the policy has not been asked about yet.
    pub fn undecided() -> Self {
        Self::at(UNDECIDED)
    }

    fn at(level: u8) -> Self {
        Self { level: AtomicU8::new(level), notes: Mutex::default() }
    }

    /// What the policy says.
    pub fn decide(&self, level: Level) {
        self.level.store(level as u8, Ordering::Relaxed);
    }

    /// Whether anything that is noted may be recorded.
    pub fn is_on(&self) -> bool {
        self.level.load(Ordering::Relaxed) != Level::None as u8
    }

    /// Whether the policy asks for `level` or more.
    pub fn wants(&self, level: Level) -> bool {
        let decided = self.level.load(Ordering::Relaxed);
        decided != UNDECIDED && decided >= level as u8
    }

    /// Adds an annotation. The first value of a key stays.
    pub fn annotate(&self, key: impl Into<Cow<'static, str>>, value: impl Into<Cow<'static, str>>) {
        if self.is_on() {
            self.notes().annotate(key, value);
        }
    }

    /// The request goes on as `user`; `constraint` is the verb that allowed it, or empty.
    pub fn impersonated(&self, user: &Arc<UserInfo>, constraint: &'static str) {
        if self.is_on() {
            self.notes().impersonated = Some((user.clone(), constraint));
        }
    }

    /// The request's body was read as `object`. `json` makes its JSON where that is recorded.
    pub fn request_object(&self, object: &Value, json: impl FnOnce() -> Bytes) {
        if !self.is_on() {
            return;
        }
        let about = AuditedObject {
            namespace: object::namespace(object).to_owned(),
            name: object::name(object).to_owned(),
            uid: object::meta_str(object, "uid").to_owned(),
            resource_version: object::meta_str(object, "resourceVersion").to_owned(),
        };
        let request = self.wants(Level::Request).then(json);
        let mut notes = self.notes();
        notes.object = Some(about);
        notes.request = request;
    }

    /// The request's body, where it is no object with an identity of its own: a patch, options.
    pub fn request_body(&self, json: impl FnOnce() -> Bytes) {
        if self.wants(Level::Request) {
            let json = json();
            self.notes().request = Some(json);
        }
    }

    /// The answer as JSON, for answers that are sent in another form.
    pub fn response_object(&self, json: impl FnOnce() -> Option<Bytes>) {
        if self.wants(Level::RequestResponse) {
            let json = json();
            self.notes().response = json;
        }
    }

    /// What was noted so far.
    pub fn notes(&self) -> MutexGuard<'_, AuditNotes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotations(context: &AuditContext) -> Vec<(String, String)> {
        context.notes().annotations.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
    }

    #[test]
    fn notes_nothing_when_off() {
        let context = AuditContext::off();
        context.annotate("a", "1");
        context.request_body(|| unreachable!("nobody wants it"));
        assert!(annotations(&context).is_empty());
    }

    #[test]
    fn the_first_value_of_an_annotation_stays() {
        let context = AuditContext::undecided();
        context.annotate("a", "1");
        context.decide(Level::Metadata);
        context.annotate("a", "2");
        assert_eq!(annotations(&context), [("a".to_owned(), "1".to_owned())]);
    }

    #[test]
    fn annotations_are_in_the_order_of_their_keys() {
        let context = AuditContext::undecided();
        for key in ["b", "c", "a", "b"] {
            context.annotate(key, format!("of {key}"));
        }
        let keys: Vec<String> = annotations(&context).into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["a", "b", "c"]);
    }

    #[test]
    fn bodies_are_made_only_for_levels_that_record_them() {
        let context = AuditContext::undecided();
        context.decide(Level::Metadata);
        let object = serde_json::json!({"metadata": {"name": "n", "namespace": "s", "uid": "u"}});
        context.request_object(&object, || unreachable!("the level has no bodies"));
        let about = context.notes().object.clone().expect("noted");
        assert_eq!((about.namespace.as_str(), about.name.as_str(), about.uid.as_str()), ("s", "n", "u"));
    }
}
