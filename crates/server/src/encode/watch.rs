//! Watch frames: one line of JSON or one length-prefixed protobuf message per event.

use bailiwick_machinery::media::{MediaType, MetaVersion};
use bailiwick_machinery::status::{ApiError, ApiResult};
use bailiwick_schema::protobuf;
use bailiwick_store::Revision;
use bytes::Bytes;
use serde_json::{Value, json};

use super::{Encoder, Layout, ListMeta, Shape, encode_value, partial, write_value};
use crate::cache::{Event, EventType, Object};

/// What a bookmark says besides the revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bookmark {
    Progress,
    /// All objects that existed at the start have been sent.
    InitialEventsEnd,
}

impl Encoder {
    pub fn stream_content_type(&self) -> &'static str {
        self.media.stream_content_type()
    }

    /// Tells apart encodings of one shared event.
    pub fn frame_form(&self) -> u64 {
        let media = match self.media {
            MediaType::Json => 0,
            MediaType::Yaml => 1,
            MediaType::Protobuf => 2,
        };
        let shape = match self.shape {
            Shape::Whole => 0,
            Shape::Metadata => 1,
            Shape::Table => 2 + self.include as u64,
        };
        let meta = (self.meta == MetaVersion::V1beta1) as u64;
        (u64::from(self.served.id) << 8) | (meta << 7) | (shape << 4) | media
    }

    /// A Table tells its columns on the first event only.
    pub fn first_event_differs(&self) -> bool {
        self.shape == Shape::Table
    }

    /// The frame of a change that is not the first of its watch.
    pub fn event_frame(&self, event_type: EventType, event: &Event) -> Bytes {
        let mut out = Vec::with_capacity(event.object.json_len_max() + 64);
        self.write_change(event_type, event, false, &mut out);
        out.into()
    }

    /// Appends the frame of a change. An object that left the selection is shown as it last matched, at the revision of the change.
    pub fn write_change(&self, event_type: EventType, event: &Event, first: bool, out: &mut Vec<u8>) {
        match &event.previous {
            Some(previous) if event_type == EventType::Deleted && !event.deleted => {
                self.write_event(event_type, &previous.at_revision(event.revision()), first, out);
            }
            _ => self.write_event(event_type, &event.object, first, out),
        }
    }

    /// Appends the frame of an event about `object`.
    pub fn write_event(&self, event_type: EventType, object: &Object, first: bool, out: &mut Vec<u8>) {
        let presented = match self.served.present(object) {
            Ok(presented) => presented,
            Err(error) => return self.write_frame("ERROR", &error.to_status(), out),
        };
        let object = presented.as_ref().unwrap_or(object);
        if self.serves_stored_bytes() && self.shape != Shape::Table {
            out.extend_from_slice(b"{\"type\":\"");
            out.extend_from_slice(event_type.as_str().as_bytes());
            out.extend_from_slice(b"\",\"object\":");
            match self.shape {
                Shape::Metadata => partial::write_object_json(object, self.meta, out),
                _ => object.write_json(out),
            }
            out.extend_from_slice(b"}\n");
            return;
        }
        match self.event_value(object, first) {
            Ok(value) => self.write_frame(event_type.as_str(), &value, out),
            Err(error) => self.write_frame("ERROR", &error.to_status(), out),
        }
    }

    fn event_value(&self, object: &Object, first: bool) -> ApiResult<Value> {
        let value = self.to_value(object)?;
        if self.shape != Shape::Table {
            return Ok(value);
        }
        let meta = ListMeta { resource_version: object.revision, ..ListMeta::default() };
        let mut table = self.table_of(&meta, std::slice::from_ref(&value));
        if !first {
            table["columnDefinitions"] = Value::Null;
        }
        Ok(table)
    }

    /// A frame that tells the client how far it has seen.
    pub fn bookmark_frame(&self, bookmark: Bookmark, revision: Revision) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if bookmark == Bookmark::InitialEventsEnd {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let value = match self.shape {
            Shape::Whole => self.empty_object(metadata),
            Shape::Metadata => partial::of_value(json!({"metadata": metadata}), self.meta),
            Shape::Table => {
                let object = self.empty_object(metadata.clone());
                let mut table =
                    self.table_of(&ListMeta { resource_version: revision, ..ListMeta::default() }, &[object]);
                table["columnDefinitions"] = Value::Null;
                table
            }
        };
        let mut out = Vec::new();
        self.write_frame("BOOKMARK", &value, &mut out);
        out.into()
    }

    /// An object of this type with nothing in it but metadata, normalised as the type prints itself.
    fn empty_object(&self, metadata: Value) -> Value {
        let resource = &self.served.resource;
        let bare = json!({"kind": resource.kind, "apiVersion": self.served.api_version, "metadata": metadata});
        match resource.native {
            Some(native) => bailiwick_schema::decode::decode_value(native, &bare).map_or(bare, |d| d.value),
            None => bare,
        }
    }

    /// A frame that ends the watch with a reason.
    pub fn error_frame(&self, error: &ApiError) -> Bytes {
        let mut out = Vec::new();
        self.write_frame("ERROR", &error.to_status(), &mut out);
        out.into()
    }

    fn write_frame(&self, event_type: &str, object: &Value, out: &mut Vec<u8>) {
        match self.media {
            MediaType::Protobuf => match encode_value(MediaType::Protobuf, Layout::Compact, object) {
                Ok(raw) => out.extend_from_slice(&protobuf::watch_frame(event_type, &raw)),
                Err(error) => tracing::error!(%error, "event left out of a watch"),
            },
            _ => {
                write_value(&json!({"type": event_type, "object": object}), out);
                out.push(b'\n');
            }
        }
    }
}
