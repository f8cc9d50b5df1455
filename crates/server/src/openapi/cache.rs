//! Documents that were asked for, compressed. They are as small as they can be kept: a document is wanted by many
//! clients once, and then not for long.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bailiwick_machinery::status::{ApiError, ApiResult};
use bailiwick_schema::openapi::Form;
use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use sha2::{Digest, Sha512};

use super::document::{Document, Encoding, names};
use crate::registry::Registry;

/// Built documents.
#[derive(Default)]
pub struct OpenApi {
    cache: Mutex<Cache>,
}

/// The documents of one registry.
#[derive(Default)]
struct Cache {
    registry: Weak<Registry>,
    documents: HashMap<Key, Stored>,
    index: Option<Stored>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Key {
    V2,
    V3(String),
}

/// A document's identity and its bytes in both encodings, once asked for.
#[derive(Clone)]
pub(super) struct Stored {
    /// The hash of the JSON text; the protobuf form has the same, and `Vary` keeps them apart.
    pub hash: Arc<str>,
    pub modified: Timestamp,
    json: Packed,
    protobuf: Option<Packed>,
}

/// Gzipped bytes.
#[derive(Clone)]
pub(super) struct Packed {
    pub gzip: Bytes,
    /// The size unpacked.
    pub len: usize,
}

impl Packed {
    fn new(bytes: &[u8]) -> ApiResult<Self> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).map_err(ApiError::internal)?;
        let mut gzip = encoder.finish().map_err(ApiError::internal)?;
        gzip.shrink_to_fit();
        Ok(Self { gzip: gzip.into(), len: bytes.len() })
    }

    pub(super) fn unpack(&self) -> ApiResult<Vec<u8>> {
        let mut bytes = Vec::with_capacity(self.len);
        GzDecoder::new(self.gzip.as_ref()).read_to_end(&mut bytes).map_err(ApiError::internal)?;
        Ok(bytes)
    }
}

impl Stored {
    fn new(json: &[u8]) -> ApiResult<Self> {
        let hash = format!("{:X}", Sha512::digest(json)).into();
        Ok(Self { hash, modified: Timestamp::now(), json: Packed::new(json)?, protobuf: None })
    }

    pub(super) fn packed(&self, encoding: Encoding) -> &Packed {
        match encoding {
            Encoding::Json => &self.json,
            Encoding::Protobuf => self.protobuf.as_ref().unwrap_or(&self.json),
        }
    }
}

impl OpenApi {
    /// The version 2 document.
    pub(super) fn v2(&self, registry: &Arc<Registry>, encoding: Encoding) -> ApiResult<Stored> {
        let found = self
            .with_cache(registry, |cache| cache.document(Key::V2, encoding, || Some(Document::everything(registry))))?;
        found.ok_or_else(|| ApiError::internal("there is no OpenAPI document"))
    }

    /// The version 3 document of this name; `None` when there is none.
    pub(super) fn v3(&self, registry: &Arc<Registry>, name: &str, encoding: Encoding) -> ApiResult<Option<Stored>> {
        self.with_cache(registry, |cache| {
            cache.document(Key::V3(name.to_owned()), encoding, || Document::named(registry, name))
        })
    }

    /// The list of version 3 documents with the addresses of their present content.
    pub(super) fn index(&self, registry: &Arc<Registry>) -> ApiResult<Stored> {
        self.with_cache(registry, |cache| {
            if let Some(index) = &cache.index {
                return Ok(index.clone());
            }
            let mut paths = serde_json::Map::new();
            for name in names(registry) {
                let document =
                    cache.document(Key::V3(name.clone()), Encoding::Json, || Document::named(registry, &name))?;
                if let Some(document) = document {
                    let url = super::address(&name, &document.hash);
                    paths.insert(name, serde_json::json!({"serverRelativeURL": url}));
                }
            }
            let text = serde_json::json!({"paths": paths}).to_string();
            let index = Stored::new(text.as_bytes())?;
            cache.index = Some(index.clone());
            Ok(index)
        })
    }

    /// Works on the documents of this registry, forgetting those of another.
    fn with_cache<T>(&self, registry: &Arc<Registry>, work: impl FnOnce(&mut Cache) -> T) -> T {
        // A panic while a document was built leaves nothing half done behind: documents are stored when complete.
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.registry.as_ptr() != Arc::as_ptr(registry) {
            *cache = Cache { registry: Arc::downgrade(registry), ..Cache::default() };
        }
        work(&mut cache)
    }
}

impl Cache {
    /// The stored document, built as far as this encoding needs.
    fn document(
        &mut self,
        key: Key,
        encoding: Encoding,
        build: impl FnOnce() -> Option<Document>,
    ) -> ApiResult<Option<Stored>> {
        let form = if key == Key::V2 { Form::V2 } else { Form::V3 };
        let mut stored = match self.documents.get(&key) {
            Some(stored) if encoding == Encoding::Json || stored.protobuf.is_some() => return Ok(Some(stored.clone())),
            stored => stored.cloned(),
        };
        let Some(document) = build() else { return Ok(None) };
        let encode = |encoding| document.encode(form, encoding).map_err(ApiError::internal);
        let mut complete = match stored.take() {
            Some(stored) => stored,
            None => Stored::new(&encode(Encoding::Json)?)?,
        };
        if encoding == Encoding::Protobuf {
            complete.protobuf = Some(Packed::new(&encode(Encoding::Protobuf)?)?);
        }
        self.documents.insert(key, complete.clone());
        Ok(Some(complete))
    }
}
