//! A change as watchers see it, encoded once per form and shared by all of them.

use std::sync::{Arc, Mutex, PoisonError};

use bailiwick_store::Revision;
use bytes::Bytes;

use super::Object;

/// What a watch event says happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    Added,
    Modified,
    Deleted,
}

impl EventType {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// Which encoding of an event a frame is: the form number is the negotiated output (see `encode::Form::frame_form`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameKey {
    pub form: u64,
    pub event_type: EventType,
}

/// One change of one object.
#[derive(Debug)]
pub struct Event {
    /// The state after the change, or the last state (at the deletion's revision) when it is gone.
    pub object: Arc<Object>,
    pub previous: Option<Arc<Object>>,
    pub deleted: bool,
    frames: Mutex<Vec<(FrameKey, Bytes)>>,
}

impl Event {
    pub fn new(object: Arc<Object>, previous: Option<Arc<Object>>, deleted: bool) -> Self {
        Self { object, previous, deleted, frames: Mutex::default() }
    }

    pub fn revision(&self) -> Revision {
        self.object.revision
    }

    /// The encoded frame under `key`, made by `encode` the first time anybody asks.
    pub fn frame(&self, key: FrameKey, encode: impl FnOnce() -> Bytes) -> Bytes {
        // Holding the lock while encoding makes the other watchers wait for the bytes instead of making their own.
        let mut frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, bytes)) = frames.iter().find(|(k, _)| *k == key) {
            return bytes.clone();
        }
        let bytes = encode();
        frames.push((key, bytes.clone()));
        bytes
    }
}
