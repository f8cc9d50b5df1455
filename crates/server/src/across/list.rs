//! Lists of a type's objects in all projects, by pages and with selectors, as lists in one project are.

use std::sync::Arc;

use bailiwick_machinery::continue_token::{ContinueToken, ContinueTokenError};
use bailiwick_machinery::list_options::{ListAt, ListOptions};
use bailiwick_machinery::query::Query;
use bailiwick_machinery::resource::Storage;
use bailiwick_machinery::status::{ApiError, ApiResult};
use bailiwick_store::{KeyRange, RangeRequest, Revision, key_after};
use http::Method;
use serde_json::{Value, json};

use super::{Key, PAGE_LEN, Scope};
use crate::cache::{Filter, Object};
use crate::http::ResponseBody;
use crate::registry::{Registry, Served, TenantId};
use crate::request_info::RequestInfo;
use crate::server::{Answer, ApiServer, store_error};
use crate::tenant::Tenant;
use crate::tenants::{Found, ProjectIdentity};

/// What the places in these tokens begin with. No name begins like this.
const TOKEN_MARK: char = '*';
/// Where the definitions of custom types are, below what a project has.
const DEFINITIONS: &str = "apiextensions.k8s.io/customresourcedefinitions";

/// Where a list goes on: after this object of this project.
struct Place {
    project: String,
    /// Below the prefix of the resource; empty to begin with the first.
    after: String,
}

impl Place {
    const FIRST: Place = Place { project: String::new(), after: String::new() };

    fn of(token: &ContinueToken) -> ApiResult<Self> {
        let invalid = || ContinueTokenError::Invalid("it is not of a list across projects".to_owned());
        let start = token.start.strip_prefix(TOKEN_MARK).ok_or_else(invalid)?;
        let (project, after) = start.split_once('/').ok_or_else(invalid)?;
        Ok(Self { project: project.to_owned(), after: after.to_owned() })
    }

    fn token(&self, revision: Revision) -> String {
        let start = format!("{TOKEN_MARK}{}/{}", self.project, self.after);
        ContinueToken { resource_version: i64::try_from(revision.0).unwrap_or_default(), start }.encode()
    }
}

/// Lists a collection in all projects of `scope`, in the order of their names. A custom type is listed where a project has
/// defined it, as the project defines it.
pub(super) async fn list(server: &Arc<ApiServer>, scope: &Scope, rest: &str, query: &Query) -> ApiResult<Answer> {
    let info = RequestInfo::parse(&Method::GET, &format!("/{rest}"), query);
    if info.verb != "list" {
        return Ok(Answer::page_not_found());
    }
    let options = ListOptions::parse(query)?;
    let (first, at) = match options.list_at()? {
        ListAt::Continue(token) => (Place::of(&token)?, u64::try_from(token.resource_version).ok().map(Revision)),
        ListAt::Exact(revision) => (Place::FIRST, Some(Revision(revision))),
        ListAt::Latest | ListAt::Any | ListAt::NotOlderThan(_) => (Place::FIRST, None),
    };
    let mut projects = server.tenants().map(|tenants| tenants.projects()).unwrap_or_default();
    projects.retain(|(_, project)| scope.has(project));
    projects.sort_by(|a, b| a.1.name.cmp(&b.1.name));
    let listing = Listing {
        server,
        info: &info,
        options: &options,
        first,
        at,
        items: Vec::new(),
        last: Place::FIRST,
        more: false,
    };
    let registry = server.root().registry.load();
    match registry.get(&info.group, &info.version, &info.resource).filter(|served| served.resource.native.is_some()) {
        Some(served) => listing.native(served, &projects).await,
        None if registry.is_native_group(&info.group) => Ok(Answer::page_not_found()),
        None => listing.custom(&projects).await,
    }
}

/// A list on its way through the projects.
struct Listing<'a> {
    server: &'a Arc<ApiServer>,
    info: &'a RequestInfo,
    options: &'a ListOptions,
    first: Place,
    /// Once known, everything is read as of it.
    at: Option<Revision>,
    items: Vec<Value>,
    /// The place of the last of them.
    last: Place,
    /// Whether there are more, for the next page.
    more: bool,
}

impl Listing<'_> {
    async fn native(mut self, served: &Arc<Served>, projects: &[(TenantId, ProjectIdentity)]) -> ApiResult<Answer> {
        if !matches!(served.resource.storage, Storage::Stored(_)) {
            return Ok(Answer::page_not_found());
        }
        let filter = Filter::of(served, &self.info.namespace, self.options)?;
        for (tenant, project) in projects {
            self.add(served, &filter, tenant, project).await?;
        }
        self.answer(&served.resource.list_kind, &served.api_version).await
    }

    /// Only projects that have something of the type are opened: there may be very many that have not heard of it.
    async fn custom(mut self, projects: &[(TenantId, ProjectIdentity)]) -> ApiResult<Answer> {
        let mut described: Option<(String, String)> = None;
        for (tenant, project) in projects {
            if self.more {
                break;
            }
            if *project.name < *self.first.project {
                continue;
            }
            if !self.has_any(&format!("{}/{}/{}/", tenant.as_str(), self.info.group, self.info.resource)).await? {
                continue;
            }
            let Some(plane) = self.open(project).await? else { continue };
            let registry = plane.registry.load();
            let Some(served) = self.served(&registry) else { continue };
            let filter = Filter::of(served, &self.info.namespace, self.options)?;
            self.add(served, &filter, tenant, project).await?;
            described.get_or_insert_with(|| (served.resource.list_kind.clone(), served.api_version.clone()));
        }
        if described.is_none() {
            described = self.defined(projects).await?;
        }
        match described {
            Some((kind, api_version)) => self.answer(&kind, &api_version).await,
            None => Ok(Answer::page_not_found()),
        }
    }

    /// What lists of the type are called in the first project that has defined it.
    async fn defined(&self, projects: &[(TenantId, ProjectIdentity)]) -> ApiResult<Option<(String, String)>> {
        let name = format!("{}.{}", self.info.resource, self.info.group);
        for (tenant, project) in projects {
            let key = format!("{}/{DEFINITIONS}/{name}", tenant.as_str());
            let (_, definition) =
                self.server.caches().store().get(key.as_bytes()).await.map_err(|error| store_error(&error))?;
            if definition.is_none_or(|definition| definition.value.is_empty()) {
                continue;
            }
            let Some(plane) = self.open(project).await? else { continue };
            let registry = plane.registry.load();
            if let Some(served) = self.served(&registry) {
                return Ok(Some((served.resource.list_kind.clone(), served.api_version.clone())));
            }
        }
        Ok(None)
    }

    /// The type as a project serves it, where it has the scope that the path is for.
    fn served<'r>(&self, registry: &'r Registry) -> Option<&'r Arc<Served>> {
        let info = self.info;
        let served = registry.get(&info.group, &info.version, &info.resource)?;
        (served.resource.custom.is_some() && (served.resource.namespaced() || info.namespace.is_empty()))
            .then_some(served)
    }

    /// The control plane of a project, unless it is going away.
    async fn open(&self, project: &ProjectIdentity) -> ApiResult<Option<Arc<Tenant>>> {
        let Some(tenants) = self.server.tenants() else { return Ok(None) };
        match tenants.find(self.server.root(), self.server.caches(), &project.name) {
            Found::Active(object) => tenants.open(self.server.caches(), &object).await.map(Some),
            Found::Terminating | Found::Unknown => Ok(None),
        }
    }

    async fn has_any(&mut self, prefix: &str) -> ApiResult<bool> {
        let range = KeyRange::prefix(prefix.to_owned());
        let request = RangeRequest { range, at: self.at, limit: Some(1) };
        let read = self.server.caches().store().range(request).await.map_err(|error| store_error(&error))?;
        self.at.get_or_insert(read.revision);
        Ok(!read.entries.is_empty())
    }

    /// Appends the objects of one project, as far as the page goes.
    async fn add(
        &mut self,
        served: &Served,
        filter: &Filter,
        tenant: &TenantId,
        project: &ProjectIdentity,
    ) -> ApiResult<()> {
        let (info, first) = (self.info, &self.first);
        let Storage::Stored(stored) = &served.resource.storage else { return Ok(()) };
        if self.more || *project.name < *first.project {
            return Ok(());
        }
        let indexed = served.cache.as_ref().map(|cache| cache.selectable_fields.clone()).unwrap_or_default();
        let group = if stored.group.is_empty() { "core" } else { &stored.group };
        let prefix = format!("{}/{group}/{}/", tenant.as_str(), stored.resource);
        let scoped = match served.resource.namespaced() && !info.namespace.is_empty() {
            true => format!("{prefix}{}/", info.namespace),
            false => prefix.clone(),
        };
        let mut range = KeyRange::prefix(scoped);
        if *project.name == *first.project && !first.after.is_empty() {
            range.start = range.start.max(key_after(format!("{prefix}{}", first.after).as_bytes()));
        }
        let limit = self.options.limit.unwrap_or(usize::MAX);
        loop {
            let request = RangeRequest { range: range.clone(), at: self.at, limit: Some(PAGE_LEN) };
            let read = self.server.caches().store().range(request).await.map_err(|error| store_error(&error))?;
            self.at.get_or_insert(read.revision);
            for kv in read.entries.iter().filter(|kv| !kv.value.is_empty()) {
                let Some(key) = Key::parse(&kv.key) else { continue };
                let Ok(object) = Object::parse(kv, key.layout(), &indexed) else { continue };
                if !filter.matches(&object) {
                    continue;
                }
                let mut object = Arc::new(object);
                if filter.looks_inside() && served.needs_webhook(&object) {
                    let mut converted = served.present_all(vec![object]).await?;
                    object = converted.pop().ok_or_else(|| ApiError::internal("nothing was converted"))?;
                    if !filter.matches(&object) {
                        continue;
                    }
                }
                if self.items.len() == limit {
                    self.more = true;
                    return Ok(());
                }
                let mut value = served.present_value(&object).await?;
                value["metadata"]["selfLink"] = self_link(info, &project.name, &value).into();
                self.items.push(value);
                self.last = Place { project: (*project.name).to_owned(), after: key.place.to_owned() };
            }
            match read.entries.last().filter(|_| read.more()) {
                Some(last) => range.start = key_after(&last.key),
                None => return Ok(()),
            }
        }
    }

    async fn answer(self, list_kind: &str, api_version: &str) -> ApiResult<Answer> {
        let at = match self.at {
            Some(at) => at,
            None => self.server.caches().store().revision().await.map_err(|error| store_error(&error))?,
        };
        let mut metadata = json!({"resourceVersion": at.to_string()});
        if self.more {
            metadata["continue"] = self.last.token(at).into();
        }
        let list = json!({"kind": list_kind, "apiVersion": api_version, "metadata": metadata, "items": self.items});
        Ok(Answer::new(200, "application/json", ResponseBody::full(list.to_string())))
    }
}

/// Where an object is: this is how a reader tells which project it belongs to.
fn self_link(info: &RequestInfo, project: &str, object: &Value) -> String {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    let base = if info.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", info.group) };
    let namespace = match text("namespace").as_str() {
        "" => String::new(),
        namespace => format!("/namespaces/{namespace}"),
    };
    format!("/projects/{project}{base}/{}{namespace}/{}/{}", info.version, info.resource, text("name"))
}
