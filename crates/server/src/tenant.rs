//! One control plane of those a server has: its registry of resources, its roles, its admission rules, its tokens.
//!
//! What all control planes share (connections, authentication of people, flow control, audit, metrics) is the
//! [`ApiServer`](crate::ApiServer)'s. The root control plane lives as long as the server; those of projects are opened when
//! somebody comes and dropped when nobody has come for a while, see [`Tenants`](crate::tenants::Tenants).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use arc_swap::ArcSwap;
use bailiwick_admission::Chain;
use bailiwick_aggregation::Aggregator;
use bailiwick_auth::authn::RequestAuthenticator;
use bailiwick_auth::authz::Authorizers;
use bailiwick_auth::service_account::TokenIssuer;
use bailiwick_machinery::resource::Resource;
use bailiwick_machinery::status::ApiResult;
use bailiwick_store::{self as store, Revision};

use crate::cache::{Caches, ResourceCache};
use crate::lookup::{Loaded, StoredObjects};
use crate::openapi::OpenApi;
use crate::registry::{Registry, TenantId, Visibility};
use crate::server::store_error;

/// A project, as far as its control plane is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    pub name: String,
    pub uid: String,
    /// When it was created, as its metadata says.
    pub created: String,
    /// The revision by which it certainly existed and had nothing stored yet.
    pub revision: Revision,
}

impl Project {
    pub fn tenant(&self) -> TenantId {
        TenantId::project(&self.uid)
    }
}

/// What a control plane is made of.
pub struct TenantParts {
    pub id: TenantId,
    /// `None` for the root.
    pub project: Option<Project>,
    pub registry: Registry,
    pub lookup: Arc<StoredObjects>,
    pub authorizers: Authorizers,
    pub admission: Chain,
    /// What knows of group versions that other servers serve; without it there are none.
    pub aggregation: Option<Arc<Aggregator>>,
    /// Who signs the tokens of its service accounts.
    pub issuer: Arc<TokenIssuer>,
    /// Who knows them again; the root's are known to the server's authenticator.
    pub accounts: Option<RequestAuthenticator>,
    /// The documents of native types, where several control planes have the same.
    pub shared_openapi: Option<SharedOpenApi>,
}

/// OpenAPI documents that control planes without definitions of their own share.
#[derive(Clone)]
pub struct SharedOpenApi {
    registry: Arc<Registry>,
    documents: Arc<OpenApi>,
}

impl SharedOpenApi {
    /// The documents of exactly these resources, made when first asked for.
    pub fn new(registry: Registry) -> Self {
        Self { registry: Arc::new(registry), documents: Arc::default() }
    }
}

/// A control plane.
pub struct Tenant {
    pub id: TenantId,
    pub project: Option<Project>,
    pub(crate) registry: ArcSwap<Registry>,
    pub(crate) lookup: Arc<StoredObjects>,
    pub(crate) authorizers: Authorizers,
    pub(crate) admission: Chain,
    pub(crate) aggregation: Option<Arc<Aggregator>>,
    pub(crate) issuer: Arc<TokenIssuer>,
    pub(crate) accounts: Option<RequestAuthenticator>,
    openapi: OpenApi,
    shared_openapi: Option<SharedOpenApi>,
    pub(crate) caches: Arc<Caches>,
    opened: Instant,
    /// Milliseconds from `opened` to the last request.
    used_ms: AtomicU64,
}

impl Tenant {
    pub fn new(caches: &Arc<Caches>, parts: TenantParts) -> Arc<Self> {
        Arc::new(Self {
            id: parts.id,
            project: parts.project,
            registry: ArcSwap::from_pointee(parts.registry),
            lookup: parts.lookup,
            authorizers: parts.authorizers,
            admission: parts.admission,
            aggregation: parts.aggregation,
            issuer: parts.issuer,
            accounts: parts.accounts,
            openapi: OpenApi::default(),
            shared_openapi: parts.shared_openapi,
            caches: caches.clone(),
            opened: Instant::now(),
            used_ms: AtomicU64::new(0),
        })
    }

    /// What a path of this control plane begins with on the server.
    pub fn path_prefix(&self) -> String {
        self.project.as_ref().map(|project| format!("/projects/{}", project.name)).unwrap_or_default()
    }

    /// Its roles and bindings.
    pub fn authorizers(&self) -> &Authorizers {
        &self.authorizers
    }

    /// Every group version served but that of the records about them; the core group has the empty name.
    pub fn group_versions(&self) -> Vec<(String, String)> {
        let registry = self.registry.load();
        let pairs = registry.groups().iter().flat_map(|(group, versions)| versions.iter().map(move |v| (group, v)));
        pairs.filter(|(group, _)| *group != "apiregistration.k8s.io").map(|(g, v)| (g.clone(), v.clone())).collect()
    }

    /// The cache of a resource, in whatever version it is served; `None` when it is not.
    pub async fn cache_of(&self, group: &str, plural: &str) -> store::Result<Option<Arc<ResourceCache>>> {
        let spec = self.registry.load().any_version(group, plural).and_then(|served| served.cache.clone());
        match spec {
            Some(spec) => self.caches.resource(&spec).await.map(Some),
            None => Ok(None),
        }
    }

    /// Serves what a definition defines now instead of what it defined before; nothing if `resources` is empty.
    /// Takes effect with the next request.
    pub fn redefine(&self, group: &str, plural: &str, resources: &[Resource], visibility: Visibility) {
        let before = self.registry.load_full();
        self.registry.rcu(|registry| {
            let mut changed = Registry::clone(registry);
            changed.redefine(group, plural, resources.to_vec(), visibility);
            changed
        });
        let old = before.any_version(group, plural).and_then(|served| served.cache.as_ref());
        let after = self.registry.load();
        let new = after.any_version(group, plural).and_then(|served| served.cache.as_ref());
        if let Some(old) = old.filter(|old| new != Some(*old)) {
            self.caches.forget(&old.prefix);
        }
    }

    /// Loads objects that a lookup could not find for want of a cache.
    pub(crate) async fn loaded_missed(&self) -> ApiResult<Loaded> {
        self.lookup.load_missed().await.map_err(|error| store_error(&error))
    }

    /// The OpenAPI documents to answer from, and the resources they describe.
    pub(crate) fn openapi(&self) -> (&OpenApi, Arc<Registry>) {
        let registry = self.registry.load_full();
        match &self.shared_openapi {
            Some(shared) if !registry.has_defined() => (&shared.documents, shared.registry.clone()),
            _ => (&self.openapi, registry),
        }
    }

    /// Somebody came.
    pub(crate) fn touch(&self) {
        self.used_ms.store(elapsed_ms(self.opened), Ordering::Relaxed);
    }

    /// For how long nobody has come.
    pub(crate) fn idle_ms(&self) -> u64 {
        elapsed_ms(self.opened).saturating_sub(self.used_ms.load(Ordering::Relaxed))
    }
}

fn elapsed_ms(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
