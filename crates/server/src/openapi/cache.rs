//! Documents that were asked for. A document's identity (its hash) comes from what it would be made of, its bytes are made
//! when somebody wants them, and both are kept until one of the resources it is about changes.
//!
//! The lock is held for looking up only; documents are made on threads for blocking work, each once however many wait.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bailiwick_machinery::status::{ApiError, ApiResult};
use bailiwick_schema::openapi::Form;
use bytes::Bytes;
use jiff::{Span, Timestamp};
use serde_json::json;
use sha2::{Digest, Sha512};
use tokio::sync::OnceCell;

use super::assemble::{Author, NativePart, assemble};
use super::custom::{Custom, Part, shape};
use super::custom_paths::{ShapePaths, scale};
use super::document::{Document, Encoding, Subject, has_native, names};
use super::merged::LastMerged;
use super::piece::{Packer, Rendered};
use super::shared::Shared;
use crate::registry::{Registry, Served};

/// Built documents.
#[derive(Clone, Default)]
pub struct OpenApi {
    cache: Arc<Mutex<Cache>>,
    /// What other servers made of them.
    pub(super) merged: Arc<Mutex<LastMerged>>,
}

/// What is known of the documents of one registry.
#[derive(Default)]
struct Cache {
    registry: Weak<Registry>,
    documents: HashMap<Key, Arc<Stored>>,
    /// Documents of an earlier registry, which may still be the same.
    earlier: HashMap<Key, Arc<Stored>>,
    index: Option<Index>,
    earlier_index: Option<Index>,
    /// By the address of the resource, which the reference beside it keeps from being used again.
    customs: HashMap<usize, (Weak<Served>, Arc<Custom>)>,
    natives: Arc<Natives>,
}

/// The native parts of documents, which live as long as the native resources do.
#[derive(Default)]
struct Natives {
    members: Vec<Weak<Served>>,
    parts: Mutex<HashMap<(Source, Encoding), Arc<Native>>>,
}

struct Native {
    part: NativePart,
    digest: [u8; 64],
}

/// A document's name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    V2,
    V3(String),
}

/// Which native part a document has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Source {
    /// `None` for what all documents of custom resources share.
    key: Option<Key>,
    /// With the kind of scale subresources.
    scale: bool,
}

/// A document's identity and its bytes in both encodings, once asked for.
pub(super) struct Stored {
    /// The protobuf form has the same, and `Vary` keeps them apart.
    pub hash: Arc<str>,
    pub modified: Timestamp,
    pub(super) json: OnceCell<Arc<Rendered>>,
    pub(super) protobuf: OnceCell<Arc<Rendered>>,
}

impl Stored {
    /// Where the bytes of an encoding are, once asked for.
    pub(super) fn cell(&self, encoding: Encoding) -> &OnceCell<Arc<Rendered>> {
        match encoding {
            Encoding::Json => &self.json,
            Encoding::Protobuf => &self.protobuf,
        }
    }
}

/// The list of version 3 documents with the addresses of their present content.
#[derive(Clone)]
pub(super) struct Index {
    pub text: Bytes,
    pub modified: Timestamp,
}

impl OpenApi {
    /// What is known of a document; `None` when there is no such document.
    pub(super) async fn stored(&self, registry: &Arc<Registry>, key: Key) -> ApiResult<Option<Arc<Stored>>> {
        if let Some(stored) = self.lock(registry).documents.get(&key) {
            return Ok(Some(stored.clone()));
        }
        let (this, registry) = (self.clone(), registry.clone());
        blocking(move || this.identify(&registry, &key)).await
    }

    /// The bytes of a document.
    pub(super) async fn rendered(
        &self,
        registry: &Arc<Registry>,
        key: Key,
        stored: &Stored,
        encoding: Encoding,
    ) -> ApiResult<Arc<Rendered>> {
        let build = || {
            let (this, registry) = (self.clone(), registry.clone());
            blocking(move || this.render(&registry, &key, encoding).map(Arc::new))
        };
        stored.cell(encoding).get_or_try_init(build).await.cloned()
    }

    /// The list of version 3 documents.
    pub(super) async fn index(&self, registry: &Arc<Registry>) -> ApiResult<Index> {
        if let Some(index) = &self.lock(registry).index {
            return Ok(index.clone());
        }
        let (this, registry) = (self.clone(), registry.clone());
        blocking(move || this.list(&registry)).await
    }

    fn list(&self, registry: &Arc<Registry>) -> ApiResult<Index> {
        let mut paths = serde_json::Map::new();
        for name in names(registry) {
            if let Some(document) = self.identify(registry, &Key::V3(name.clone()))? {
                let url = super::address(&name, &document.hash);
                paths.insert(name, json!({"serverRelativeURL": url}));
            }
        }
        let text = Bytes::from(json!({"paths": paths}).to_string());
        let mut cache = self.lock(registry);
        let index = match cache.earlier_index.take() {
            Some(earlier) if earlier.text == text => earlier,
            // Clients are told the time in whole seconds, and two changes in one second must not look like one.
            Some(earlier) => Index { text, modified: Timestamp::now().max(earlier.modified + Span::new().seconds(1)) },
            None => Index { text, modified: Timestamp::now() },
        };
        cache.index = Some(index.clone());
        Ok(index)
    }

    /// A document's identity, without its bytes unless they are native.
    fn identify(&self, registry: &Arc<Registry>, key: &Key) -> ApiResult<Option<Arc<Stored>>> {
        if let Some(stored) = self.lock(registry).documents.get(key) {
            return Ok(Some(stored.clone()));
        }
        let Some(plan) = Plan::of(registry, key) else { return Ok(None) };
        let Some(native) = self.native(registry, &plan.source, form_of(key), Encoding::Json)? else {
            return Ok(None);
        };
        let mut hash = Sha512::new();
        hash.update(native.digest);
        self.customs(registry, &plan).iter().for_each(|custom| hash.update(custom.fingerprint));
        let hash: Arc<str> = format!("{:X}", hash.finalize()).into();

        let mut cache = self.lock(registry);
        let same = cache.earlier.remove(key).filter(|earlier| earlier.hash == hash);
        let fresh = || {
            let (json, protobuf) = (OnceCell::new(), OnceCell::new());
            Arc::new(Stored { hash, modified: Timestamp::now(), json, protobuf })
        };
        Ok(Some(cache.documents.entry(key.clone()).or_insert_with(|| same.unwrap_or_else(fresh)).clone()))
    }

    pub(super) fn render(&self, registry: &Arc<Registry>, key: &Key, encoding: Encoding) -> ApiResult<Rendered> {
        let gone = || ApiError::internal("the OpenAPI document is gone");
        let form = form_of(key);
        let plan = Plan::of(registry, key).ok_or_else(gone)?;
        let native = self.native(registry, &plan.source, form, encoding)?.ok_or_else(gone)?;
        let customs = self.customs(registry, &plan);
        let mut packer = Packer::new();
        let mut parts: Vec<&Part> = Vec::with_capacity(customs.len());
        let mut shared = Shared::default();
        let mut shapes = Vec::new();
        for (custom, served) in customs.iter().zip(&plan.customs) {
            let Some(ty) = &served.resource.custom else { continue };
            parts.push(custom.part(&served.resource, ty, form, encoding, &mut packer)?);
            let shape = shape(&served.resource);
            if !shapes.contains(&shape) {
                shapes.push(shape);
                shared.extend(&ShapePaths::of(shape, form).shared);
            }
        }
        assemble(form, encoding, plan.author, &native.part, &parts, shared, &mut packer)
    }

    /// What is kept for each custom resource of a document.
    fn customs(&self, registry: &Arc<Registry>, plan: &Plan<'_>) -> Vec<Arc<Custom>> {
        let address = |served: &Arc<Served>| Arc::as_ptr(served) as usize;
        let known: Vec<Option<Arc<Custom>>> = {
            let cache = self.lock(registry);
            plan.customs.iter().map(|s| cache.customs.get(&address(s)).map(|(_, custom)| custom.clone())).collect()
        };
        let all = plan.customs.iter().zip(known).filter_map(|(served, known)| {
            let ty = served.resource.custom.as_deref()?;
            Some((*served, known.unwrap_or_else(|| Arc::new(Custom::new(&served.resource, ty)))))
        });
        let all: Vec<(&Arc<Served>, Arc<Custom>)> = all.collect();
        let mut cache = self.lock(registry);
        all.into_iter()
            .map(|(served, custom)| {
                let kept = cache.customs.entry(address(served)).or_insert_with(|| (Arc::downgrade(served), custom));
                kept.1.clone()
            })
            .collect()
    }

    /// The native part of a document; `None` when there is no such document.
    fn native(
        &self,
        registry: &Arc<Registry>,
        source: &Source,
        form: Form,
        encoding: Encoding,
    ) -> ApiResult<Option<Arc<Native>>> {
        let natives = self.lock(registry).natives.clone();
        let at = (source.clone(), encoding);
        if let Some(native) = lock(&natives.parts).get(&at) {
            return Ok(Some(native.clone()));
        }
        let document = match &source.key {
            None => Some(Document::shared(registry)),
            Some(Key::V2) => Some(Document::everything(registry)),
            Some(Key::V3(name)) => Subject::parse(name).and_then(|subject| Document::about(registry, subject)),
        };
        let Some(document) = document else { return Ok(None) };
        let document = document.with(scale().filter(|_| source.scale));
        let sections = document.sections(form, encoding).map_err(ApiError::internal)?;
        let mut digest = Sha512::new();
        digest.update(&sections.paths);
        digest.update(&sections.definitions);
        for (name, value) in sections.shared.values() {
            digest.update(name);
            digest.update(value.to_string());
        }
        let part = NativePart::new(sections, &mut Packer::new())?;
        let native = Arc::new(Native { part, digest: digest.finalize().into() });
        Ok(Some(lock(&natives.parts).entry(at).or_insert(native).clone()))
    }

    /// What is known of this registry's documents, after putting aside what was known of another's.
    fn lock(&self, registry: &Arc<Registry>) -> MutexGuard<'_, Cache> {
        let mut cache = lock(&self.cache);
        if cache.registry.as_ptr() != Arc::as_ptr(registry) {
            cache.enter(registry);
        }
        cache
    }
}

impl Cache {
    fn enter(&mut self, registry: &Arc<Registry>) {
        self.registry = Arc::downgrade(registry);
        let documents = std::mem::take(&mut self.documents);
        self.earlier.extend(documents);
        self.earlier.retain(|key, _| Plan::of(registry, key).is_some());
        self.earlier_index = self.index.take().or_else(|| self.earlier_index.take());
        self.customs.retain(|_, (served, _)| served.strong_count() > 0);
        let members: Vec<&Arc<Served>> = registry.all().filter(|served| served.resource.custom.is_none()).collect();
        let same = members.len() == self.natives.members.len()
            && members.iter().zip(&self.natives.members).all(|(served, known)| Arc::as_ptr(served) == known.as_ptr());
        if !same {
            let members = members.into_iter().map(Arc::downgrade).collect();
            self.natives = Arc::new(Natives { members, parts: Mutex::default() });
        }
    }
}

/// What a document is made of.
struct Plan<'a> {
    source: Source,
    author: Author,
    customs: Vec<&'a Arc<Served>>,
}

impl<'a> Plan<'a> {
    /// `None` when there is no such document.
    fn of(registry: &'a Registry, key: &Key) -> Option<Self> {
        let (resources, author) = match key {
            Key::V2 => (registry.all().filter(|served| served.is_discoverable()).collect(), Author::Server),
            Key::V3(name) => match Subject::parse(name)? {
                Subject::GroupVersion(group, version) => {
                    let resources = registry.resources_of(group, version);
                    (!resources.is_empty()).then_some(())?;
                    let native = has_native(registry, group, version);
                    (resources, if native { Author::Server } else { Author::Definitions })
                }
                Subject::Group(_) | Subject::General(_) => (Vec::new(), Author::Server),
            },
        };
        let customs: Vec<_> = resources.into_iter().filter(|served| served.resource.custom.is_some()).collect();
        let scale = customs.iter().any(|served| shape(&served.resource).scale);
        let key = (author == Author::Server).then(|| key.clone());
        Some(Self { source: Source { key, scale }, author, customs })
    }
}

fn form_of(key: &Key) -> Form {
    match key {
        Key::V2 => Form::V2,
        Key::V3(_) => Form::V3,
    }
}

/// A panic while a document was made leaves nothing half done behind: what is stored is complete.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does work that takes long where it keeps no request waiting.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> ApiResult<T> + Send + 'static) -> ApiResult<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(ApiError::internal(error)))
}
