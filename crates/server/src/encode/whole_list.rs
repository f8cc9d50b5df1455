//! Lists that cannot be streamed: YAML, indented JSON, protobuf.
//!
//! They are put together object by object: only one is a tree at any time, and the bytes are those that encoding the
//! whole list at once would give.

use std::sync::Arc;

use bailiwick_machinery::media::MediaType;
use bailiwick_machinery::status::{ApiError, ApiResult};
use bailiwick_machinery::yaml;
use bailiwick_schema::protobuf;
use bailiwick_schema::types::Type;
use bytes::Bytes;
use serde_json::{Value, json};

use super::{Encoder, Layout, ListMeta, Shape, native_type, write_value};
use crate::cache::Object;

/// How much is encoded before others have their turn.
const TURN_BYTES: usize = 64 * 1024;

impl Encoder {
    /// A list in one go, for those that cannot wait.
    pub fn whole_list(&self, meta: &ListMeta, objects: &[Arc<Object>]) -> ApiResult<Bytes> {
        let mut list = WholeList::begin(self, meta)?;
        for object in objects {
            list.push(object)?;
        }
        list.finish()
    }

    /// A list made a stretch at a time: a long one does not keep a core from everybody else.
    pub async fn whole_list_in_turns(&self, meta: &ListMeta, objects: Vec<Arc<Object>>) -> ApiResult<Bytes> {
        let mut list = WholeList::begin(self, meta)?;
        let mut since_turn_bytes = 0;
        for object in objects {
            since_turn_bytes += list.push(&object)?;
            if since_turn_bytes >= TURN_BYTES {
                since_turn_bytes = 0;
                tokio::task::yield_now().await;
            }
        }
        list.finish()
    }

    /// The list with nothing in it.
    fn empty_list(&self, meta: &ListMeta) -> Value {
        if self.shape == Shape::Table {
            return self.table_of(meta, &[]);
        }
        let (kind, api_version) = self.list_kind();
        json!({"kind": kind, "apiVersion": api_version, "metadata": self.list_meta(meta), "items": []})
    }
}

/// A list that grows.
struct WholeList<'a> {
    encoder: &'a Encoder,
    form: Form,
}

enum Form {
    /// What is there so far, and what comes after the last item.
    Text { notation: Notation, out: Vec<u8>, any: bool, tail: Vec<u8> },
    /// Messages of the items, which are all of one type.
    Protobuf { item_type: &'static Type, items: Vec<Vec<u8>>, meta: Value },
}

#[derive(Clone, Copy)]
enum Notation {
    CompactJson,
    PrettyJson,
    Yaml,
}

impl<'a> WholeList<'a> {
    fn begin(encoder: &'a Encoder, meta: &ListMeta) -> ApiResult<Self> {
        let form = match (encoder.media, encoder.layout) {
            (MediaType::Json, Layout::Compact) => Form::text(encoder, meta, Notation::CompactJson)?,
            (MediaType::Json, Layout::Pretty) => Form::text(encoder, meta, Notation::PrettyJson)?,
            (MediaType::Yaml, _) => Form::text(encoder, meta, Notation::Yaml)?,
            (MediaType::Protobuf, _) => Form::protobuf(encoder, meta)?,
        };
        Ok(Self { encoder, form })
    }

    /// Appends an object; how many bytes it took.
    fn push(&mut self, object: &Object) -> ApiResult<usize> {
        let mut value = self.encoder.item_value(object)?;
        if self.encoder.shape == Shape::Table {
            value = self.encoder.row(&value);
        }
        match &mut self.form {
            Form::Text { notation, out, any, .. } => {
                let before = out.len();
                notation.write_item(value, std::mem::replace(any, true), out)?;
                Ok(out.len() - before)
            }
            Form::Protobuf { item_type, items, .. } => {
                let item = protobuf::encode(item_type, &value).map_err(ApiError::internal)?;
                let bytes = item.len();
                items.push(item);
                Ok(bytes)
            }
        }
    }

    fn finish(self) -> ApiResult<Bytes> {
        match self.form {
            Form::Text { notation, mut out, any, tail } => {
                out.extend_from_slice(notation.end(any));
                out.extend_from_slice(&tail);
                Ok(out.into())
            }
            Form::Protobuf { items, meta, .. } => {
                let (kind, api_version) = self.encoder.list_kind();
                let items = items.iter().map(Vec::as_slice);
                let list = protobuf::encode_list(api_version, kind, &meta, items);
                list.map(Bytes::from).map_err(ApiError::internal)
            }
        }
    }
}

impl Form {
    /// The empty list, taken apart where the items go.
    fn text(encoder: &Encoder, meta: &ListMeta, notation: Notation) -> ApiResult<Self> {
        let empty = encoder.value(&encoder.empty_list(meta))?;
        let items = notation.no_items(if encoder.shape == Shape::Table { "rows" } else { "items" });
        let at = memchr::memmem::find(&empty, items.as_bytes());
        let at = at.ok_or_else(|| ApiError::internal("an empty list says nowhere that it is empty"))?;
        // The field stays, its empty value goes.
        let (out, tail) = (at + items.len() - notation.end(false).len(), at + items.len());
        Ok(Self::Text { notation, out: empty.slice(..out).into(), any: false, tail: empty.slice(tail..).into() })
    }

    fn protobuf(encoder: &Encoder, meta: &ListMeta) -> ApiResult<Self> {
        let (kind, api_version) = encoder.list_kind();
        if encoder.shape == Shape::Table {
            // Says that there is no such thing.
            encoder.value(&encoder.empty_list(meta))?;
        }
        // A list without a protobuf form is refused as a list, not as what is in it.
        native_type(api_version, kind)?;
        let item_type = match encoder.shape {
            Shape::Metadata => native_type(api_version, "PartialObjectMetadata")?,
            _ => native_type(api_version, &encoder.served.resource.kind)?,
        };
        Ok(Self::Protobuf { item_type, items: Vec::new(), meta: encoder.list_meta(meta) })
    }
}

impl Notation {
    /// How a list without items has the field of the items. Nothing else in it reads like this: quotes within texts are
    /// escaped, and lines within them and below are indented further.
    fn no_items(self, field: &str) -> String {
        match self {
            Self::CompactJson => format!("\"{field}\":[]"),
            Self::PrettyJson => format!("\n  \"{field}\": []"),
            Self::Yaml => format!("\n{field}: []\n"),
        }
    }

    /// What ends the items, or stands for them if there are none.
    fn end(self, any: bool) -> &'static [u8] {
        match (self, any) {
            (Self::CompactJson, true) => b"]",
            (Self::PrettyJson, true) => b"\n  ]",
            (Self::CompactJson | Self::PrettyJson, false) => b"[]",
            (Self::Yaml, true) => b"",
            (Self::Yaml, false) => b" []\n",
        }
    }

    fn write_item(self, item: Value, follows: bool, out: &mut Vec<u8>) -> ApiResult<()> {
        match self {
            Self::CompactJson => {
                out.push(if follows { b',' } else { b'[' });
                write_value(&item, out);
            }
            Self::PrettyJson => {
                out.push(if follows { b',' } else { b'[' });
                let text = serde_json::to_vec_pretty(&item).map_err(ApiError::internal)?;
                for line in text.split(|byte| *byte == b'\n') {
                    out.extend_from_slice(b"\n    ");
                    out.extend_from_slice(line);
                }
            }
            Self::Yaml => {
                if !follows {
                    out.push(b'\n');
                }
                // A list of its own is written as one below a key of the outermost object.
                out.extend_from_slice(yaml::encode(&Value::Array(vec![item])).as_bytes());
            }
        }
        Ok(())
    }
}
