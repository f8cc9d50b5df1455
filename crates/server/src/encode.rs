//! From stored objects to bytes in the form a client asked for: JSON, YAML or protobuf; whole, metadata only or as a Table.
//!
//! The common case, JSON of the stored version, copies bytes and parses nothing. Everything else goes through a JSON
//! value. An [`Encoder`] is made once per request.

pub mod gzip;
mod partial;
mod table;
#[cfg(test)]
pub(crate) mod tests;
mod watch;
mod whole_list;

use std::sync::Arc;

use bailiwick_machinery::media::{MediaType, MetaVersion};
use bailiwick_machinery::status::{ApiError, ApiResult};
use bailiwick_machinery::yaml;
use bailiwick_schema::protobuf;
use bailiwick_schema::types::{Type, Types};
use bailiwick_store::Revision;
use bytes::Bytes;
use serde_json::{Map, Value};

use crate::cache::Object;
use crate::registry::Served;

pub use table::IncludeObject;
pub use watch::Bookmark;

/// Metadata of a list answer.
#[derive(Clone, Debug, Default)]
pub struct ListMeta {
    pub resource_version: Revision,
    /// Empty when this is the last page.
    pub continue_token: String,
    pub remaining: Option<u64>,
}

impl ListMeta {
    fn to_value(&self) -> Value {
        let mut map = Map::new();
        map.insert("resourceVersion".into(), self.resource_version.to_string().into());
        if !self.continue_token.is_empty() {
            map.insert("continue".into(), self.continue_token.clone().into());
        }
        if let Some(remaining) = self.remaining {
            map.insert("remainingItemCount".into(), remaining.into());
        }
        Value::Object(map)
    }
}

/// Whether JSON is indented for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    Compact,
    Pretty,
}

/// How much of an object goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Whole,
    Metadata,
    Table,
}

/// Encodes objects of one resource for one request.
#[derive(Clone)]
pub struct Encoder {
    served: Arc<Served>,
    media: MediaType,
    shape: Shape,
    /// The version of `meta.k8s.io` that tables and metadata are written in.
    meta: MetaVersion,
    layout: Layout,
    include: IncludeObject,
}

impl Encoder {
    pub fn new(
        served: Arc<Served>,
        media: MediaType,
        (shape, meta): (Shape, MetaVersion),
        layout: Layout,
        include: IncludeObject,
    ) -> Self {
        Self { served, media, shape, meta, layout, include }
    }

    /// The resource whose objects are encoded.
    pub fn served(&self) -> &Arc<Served> {
        &self.served
    }

    /// The same answer as compact JSON; `None` if it is JSON already.
    pub fn as_json(&self) -> Option<Self> {
        let other = self.media != MediaType::Json;
        other.then(|| Self { media: MediaType::Json, layout: Layout::Compact, ..self.clone() })
    }

    pub fn content_type(&self) -> &'static str {
        self.media.as_str()
    }

    /// Whether stored bytes can go out as they are.
    fn serves_stored_bytes(&self) -> bool {
        self.media == MediaType::Json
            && self.layout == Layout::Compact
            && self.served.resource.strategy.stored_as_served()
    }

    /// One object.
    pub fn object(&self, object: &Object) -> ApiResult<Bytes> {
        let presented = self.served.present(object)?;
        let object = presented.as_ref().unwrap_or(object);
        if self.serves_stored_bytes() {
            match self.shape {
                Shape::Whole => return Ok(object.to_json().into()),
                Shape::Metadata => return Ok(partial::object_json(object, self.meta).into()),
                _ => {}
            }
        }
        let value = self.to_value(object)?;
        match self.shape {
            Shape::Table => {
                let meta = ListMeta { resource_version: object.revision, ..ListMeta::default() };
                self.value(&self.table_of(&meta, std::slice::from_ref(&value)))
            }
            _ => self.value(&value),
        }
    }

    /// One object as a tree in the served version, cut to metadata if that was asked for.
    fn to_value(&self, object: &Object) -> ApiResult<Value> {
        let value = self.served_value(object)?;
        Ok(if self.shape == Shape::Metadata { partial::of_value(value, self.meta) } else { value })
    }

    fn served_value(&self, object: &Object) -> ApiResult<Value> {
        let mut value = object.to_value().map_err(ApiError::internal)?;
        if !self.served.resource.strategy.stored_as_served() {
            self.served.resource.strategy.from_storage(&mut value);
        }
        Ok(value)
    }

    /// Any API object (a Status, a review, a whole list) in the negotiated media type.
    pub fn value(&self, value: &Value) -> ApiResult<Bytes> {
        encode_value(self.media, self.layout, value)
    }

    /// An object that is made up for its request (a review, a token), in the negotiated form; there is no table of them.
    pub fn made_up(&self, object: Value) -> ApiResult<Bytes> {
        match self.shape {
            Shape::Metadata => self.value(&partial::of_value(object, self.meta)),
            _ => self.value(&object),
        }
    }

    /// The Scale of an object, in the negotiated form.
    pub fn scale(&self, scale: Value) -> ApiResult<Bytes> {
        match self.shape {
            Shape::Whole => self.value(&scale),
            Shape::Metadata => self.value(&partial::of_value(scale, self.meta)),
            Shape::Table => self.value(&self.scale_table(&scale)),
        }
    }

    /// Whether a list can be written piece by piece.
    pub fn streams_lists(&self) -> bool {
        self.media == MediaType::Json && self.layout == Layout::Compact
    }

    /// The list's bytes before the bracket of the first item. Only for encoders that stream.
    pub fn write_list_head(&self, meta: &ListMeta, out: &mut Vec<u8>) {
        match self.shape {
            Shape::Table => self.write_table_head(meta, out),
            _ => {
                let (kind, api_version) = self.list_kind();
                let head = format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":");
                out.extend_from_slice(head.as_bytes());
                write_value(&self.list_meta(meta), out);
                out.extend_from_slice(b",\"items\":");
            }
        }
    }

    /// Appends one object as a list has it; an object that cannot be read is the caller's to leave out.
    pub fn write_list_item(&self, object: &Object, out: &mut Vec<u8>) -> ApiResult<()> {
        let presented = self.served.present(object)?;
        let object = presented.as_ref().unwrap_or(object);
        if self.shape == Shape::Table {
            write_value(&self.row(&self.served_value(object)?), out);
        } else if self.serves_stored_bytes() {
            match self.shape {
                Shape::Metadata => partial::write_object_json(object, self.meta, out),
                _ if self.served.resource.native.is_some() => object.write_list_item(out),
                _ => object.write_json(out),
            }
        } else {
            write_value(&self.item_value(object)?, out);
        }
        Ok(())
    }

    /// The list's bytes after the last item. An empty list of metadata is null, as upstream prints it.
    pub fn write_list_tail(&self, any_items: bool, out: &mut Vec<u8>) {
        out.extend_from_slice(match (any_items, self.shape) {
            (true, _) => b"]".as_slice(),
            (false, Shape::Metadata) => b"null",
            (false, Shape::Table) => self.served.resource.table.no_rows(),
            (false, Shape::Whole) => b"[]",
        });
        out.push(b'}');
    }

    /// An item of a typed list: without kind and apiVersion, which the list implies.
    fn item_value(&self, object: &Object) -> ApiResult<Value> {
        let presented = self.served.present(object)?;
        let object = presented.as_ref().unwrap_or(object);
        let mut value = self.to_value(object)?;
        if self.shape == Shape::Whole
            && self.served.resource.native.is_some()
            && let Some(map) = value.as_object_mut()
        {
            map.remove("kind");
            map.remove("apiVersion");
        }
        Ok(value)
    }

    /// Lists of custom resources, which upstream keeps untyped, always say where they go on.
    fn list_meta(&self, meta: &ListMeta) -> Value {
        let mut value = meta.to_value();
        if let (Shape::Whole, true, Some(map)) =
            (self.shape, self.served.resource.custom.is_some(), value.as_object_mut())
        {
            map.entry("continue").or_insert_with(|| "".into());
        }
        value
    }

    fn list_kind(&self) -> (&str, &str) {
        match self.shape {
            Shape::Metadata => ("PartialObjectMetadataList", self.meta.api_version()),
            _ => (&self.served.resource.list_kind, &self.served.api_version),
        }
    }
}

/// Any API object in a media type. Protobuf needs the object's kind to be a native one.
pub fn encode_value(media: MediaType, layout: Layout, value: &Value) -> ApiResult<Bytes> {
    match (media, layout) {
        (MediaType::Json, Layout::Compact) => Ok(serde_json::to_vec(value).map_err(ApiError::internal)?.into()),
        (MediaType::Json, Layout::Pretty) => {
            let mut text = serde_json::to_vec_pretty(value).map_err(ApiError::internal)?;
            text.push(b'\n');
            Ok(text.into())
        }
        (MediaType::Yaml, _) => Ok(yaml::encode(value).into()),
        (MediaType::Protobuf, _) => encode_protobuf(value),
    }
}

fn encode_protobuf(value: &Value) -> ApiResult<Bytes> {
    let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
    let native = native_type(text("apiVersion"), text("kind"))?;
    protobuf::encode_object(native, value).map(Bytes::from).map_err(ApiError::internal)
}

/// The type behind a protobuf form.
fn native_type(api_version: &str, kind: &str) -> ApiResult<&'static Type> {
    // The core group's list of resources does not say that it is of v1.
    let named = if api_version.is_empty() { "v1" } else { api_version };
    let (group, version) = named.split_once('/').unwrap_or(("", named));
    let native = Types::native().by_gvk(group, version, kind);
    native.ok_or_else(|| ApiError::not_acceptable(format!("{api_version} {kind} has no protobuf form")))
}

/// A JSON value always serializes into memory.
fn write_value(value: &Value, out: &mut Vec<u8>) {
    let _ = serde_json::to_writer(out, value);
}
