//! The control planes of projects: found by name, opened when somebody comes, dropped when nobody has come for a while.
//!
//! A project that nobody uses costs its Project object and nothing else: no task, no cache, no connection. What is open
//! follows the store through the one feed that everything follows.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bailiwick_machinery::object;
use bailiwick_machinery::resource::GroupResource;
use bailiwick_machinery::status::{ApiError, ApiResult, Cause};
use bailiwick_store::{self as store, KeyRange, RangeRequest};
use futures::future::BoxFuture;
use tokio::sync::OnceCell;

use crate::cache::{Caches, Object};
use crate::registry::TenantId;
use crate::server::store_error;
use crate::tenant::{Project, Tenant};

/// The API group of projects.
pub const GROUP: &str = "resourcemanager.miloapis.com";
/// The resource that projects are.
pub const PROJECTS: &str = "projects";

/// Makes the control planes of projects.
pub trait TenantSource: Send + Sync {
    /// Puts together the control plane of a project from what is stored.
    fn open<'a>(&'a self, project: Project) -> BoxFuture<'a, store::Result<Arc<Tenant>>>;
}

/// What is known of a name.
pub(crate) enum Found {
    Unknown,
    /// It is being deleted.
    Terminating,
    Active(Arc<Object>),
}

struct Open {
    /// The project as it was when the control plane was opened, or a later state of the same one.
    project: Arc<Object>,
    uid: String,
    tenant: Arc<OnceCell<Arc<Tenant>>>,
}

/// What is known of a project while nobody uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectIdentity {
    pub name: Arc<str>,
    /// The name of the organization that owns it.
    pub organization: Arc<str>,
}

/// See the module.
pub struct Tenants {
    source: Box<dyn TenantSource>,
    /// Every project there is.
    known: RwLock<HashMap<TenantId, ProjectIdentity>>,
    /// By the name of the project.
    open: RwLock<HashMap<Box<str>, Open>>,
}

impl Tenants {
    pub fn new(source: Box<dyn TenantSource>) -> Self {
        Self { source, known: RwLock::default(), open: RwLock::default() }
    }

    /// What is known of a project, from the root's objects.
    pub(crate) fn find(&self, root: &Tenant, caches: &Caches, name: &str) -> Found {
        let registry = root.registry.load();
        let Some(served) = registry.any_version(GROUP, PROJECTS) else { return Found::Unknown };
        let cache = served.cache.as_ref().and_then(|spec| caches.loaded(&spec.prefix));
        match cache.and_then(|cache| cache.get(&served.key("", name))) {
            None => Found::Unknown,
            Some(project) if project.deleting => Found::Terminating,
            Some(project) => Found::Active(project),
        }
    }

    /// The control plane of a project.
    pub(crate) async fn open(&self, caches: &Caches, object: &Arc<Object>) -> ApiResult<Arc<Tenant>> {
        let name = object.name();
        let cell = {
            let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
            open.get(name).filter(|open| Arc::ptr_eq(&open.project, object)).map(|open| open.tenant.clone())
        };
        let cell = match cell {
            Some(cell) => cell,
            None => self.enlist(object)?,
        };
        if let Some(tenant) = cell.get() {
            tenant.touch();
            return Ok(tenant.clone());
        }
        let opening = async || {
            let project = described(caches, object).await?;
            self.source.open(project).await
        };
        cell.get_or_try_init(opening).await.cloned().map_err(|error| store_error(&error))
    }

    /// The place of a project among the open ones; a new one if this is the first use, or another project of that name.
    fn enlist(&self, object: &Arc<Object>) -> ApiResult<Arc<OnceCell<Arc<Tenant>>>> {
        let uid = object::uid(&object.to_value().map_err(ApiError::internal)?).to_owned();
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = open.get_mut(object.name()).filter(|known| known.uid == uid) {
            known.project = object.clone();
            return Ok(known.tenant.clone());
        }
        let tenant = Arc::new(OnceCell::new());
        open.insert(object.name().into(), Open { project: object.clone(), uid, tenant: tenant.clone() });
        Ok(tenant)
    }

    /// Drops what has not been used for `idle`, and of more than `open_max` those that have not been used for longest; how
    /// many were dropped. What is watched or being used stays.
    pub(crate) fn drop_idle(&self, caches: &Caches, idle: Duration, open_max: usize) -> usize {
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        if open.is_empty() {
            return 0;
        }
        let watched = caches.watched_tenants();
        // A request holds the control plane it is for; one count is ours.
        let unused = |open: &Open| {
            let tenant = open.tenant.get().filter(|tenant| Arc::strong_count(tenant) == 1)?;
            (!watched.contains(tenant.id.as_str())).then(|| (tenant.idle_ms(), tenant.id.clone()))
        };
        let mut idle_ms = u64::try_from(idle.as_millis()).unwrap_or(u64::MAX);
        if open.len() > open_max {
            let mut idle_times: Vec<u64> = open.values().filter_map(unused).map(|(idle_ms, _)| idle_ms).collect();
            idle_times.sort_unstable_by(|a, b| b.cmp(a));
            let last = (open.len() - open_max).min(idle_times.len());
            idle_ms = last.checked_sub(1).map_or(idle_ms, |last| idle_times[last].min(idle_ms));
        }
        let mut dropped = HashSet::new();
        open.retain(|_, open| match unused(open).filter(|(unused_ms, _)| *unused_ms >= idle_ms) {
            Some((_, tenant)) => !dropped.insert(tenant),
            None => true,
        });
        drop(open);
        if !dropped.is_empty() {
            caches.forget_tenants(&dropped);
        }
        dropped.len()
    }

    /// Closes the control plane of a project that is going away: its watches end.
    pub(crate) fn close(&self, caches: &Caches, name: &str, uid: &str) {
        {
            let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
            if open.get(name).is_some_and(|open| open.uid == uid) {
                open.remove(name);
            }
        }
        caches.forget_tenants(&HashSet::from([TenantId::project(uid)]));
    }

    /// A project exists.
    pub fn seen(&self, uid: &str, identity: ProjectIdentity) {
        self.known.write().unwrap_or_else(PoisonError::into_inner).insert(TenantId::project(uid), identity);
    }

    /// A project is gone.
    pub fn gone(&self, uid: &str) {
        self.known.write().unwrap_or_else(PoisonError::into_inner).remove(&TenantId::project(uid));
    }

    /// The project whose keys begin with this.
    pub(crate) fn project_of(&self, tenant: &str) -> Option<ProjectIdentity> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).get(tenant).cloned()
    }

    /// All projects.
    pub(crate) fn projects(&self) -> Vec<(TenantId, ProjectIdentity)> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.iter().map(|(tenant, identity)| (tenant.clone(), identity.clone())).collect()
    }

    /// How many are open.
    pub(crate) fn len(&self) -> usize {
        self.open.read().unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// What a control plane must know of its project.
async fn described(caches: &Caches, object: &Object) -> store::Result<Project> {
    let value = object.to_value().map_err(|error| store::Error::InvalidRequest(error.to_string()))?;
    // The cache does not keep when an object was first stored.
    let request = RangeRequest { range: KeyRange::single(object.key().clone()), at: None, limit: None };
    let stored = caches.store().range(request).await?;
    let created = stored.entries.first().map_or(object.revision, |kv| kv.create_revision);
    Ok(Project {
        name: object.name().to_owned(),
        uid: object::uid(&value).to_owned(),
        created: object::meta_str(&value, "creationTimestamp").to_owned(),
        revision: created,
    })
}

fn resource() -> GroupResource {
    GroupResource { group: GROUP.to_owned(), resource: PROJECTS.to_owned() }
}

/// The answer to those who may know: there is no such project.
pub(crate) fn unknown_project(name: &str) -> ApiError {
    ApiError::not_found(&resource(), name)
}

/// The answer to those who may know: it is on its way out.
pub(crate) fn terminating_project(name: &str) -> ApiError {
    let mut error = ApiError::forbidden(&resource(), name, "the project is being terminated");
    if let Some(details) = &mut error.details {
        details.causes.push(Cause {
            reason: "ProjectTerminating".into(),
            message: format!("project {name} is being terminated"),
            field: "metadata.name".into(),
        });
    }
    error
}
