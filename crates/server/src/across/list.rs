//! Lists of a native type's objects in all projects, by pages and with selectors, as lists in one project are.

use std::sync::Arc;

use bailiwick_machinery::continue_token::{ContinueToken, ContinueTokenError};
use bailiwick_machinery::list_options::{ListAt, ListOptions};
use bailiwick_machinery::query::Query;
use bailiwick_machinery::resource::Storage;
use bailiwick_machinery::status::ApiResult;
use bailiwick_store::{KeyRange, RangeRequest, Revision};
use http::Method;
use serde_json::{Value, json};

use super::{Key, PAGE_LEN, Scope};
use crate::cache::{Filter, Object};
use crate::http::ResponseBody;
use crate::request_info::RequestInfo;
use crate::server::{Answer, ApiServer, store_error};

/// What the places in these tokens begin with. No name begins like this.
const TOKEN_MARK: char = '*';

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

/// Lists a collection in all projects of `scope`, in the order of their names.
pub(super) async fn list(server: &Arc<ApiServer>, scope: &Scope, rest: &str, query: &Query) -> ApiResult<Answer> {
    let info = RequestInfo::parse(&Method::GET, &format!("/{rest}"), query);
    let registry = server.root().registry.load();
    let served = registry.get(&info.group, &info.version, &info.resource);
    let served = served.filter(|served| info.verb == "list" && served.resource.native.is_some());
    let Some(served) = served else { return Ok(Answer::page_not_found()) };
    let Storage::Stored(stored) = &served.resource.storage else { return Ok(Answer::page_not_found()) };
    let indexed = served.cache.as_ref().map(|cache| cache.selectable_fields.clone()).unwrap_or_default();
    let options = ListOptions::parse(query)?;
    let filter = Filter::of(served, &info.namespace, &options)?;
    let (first, mut at) = match options.list_at()? {
        ListAt::Continue(token) => (Place::of(&token)?, u64::try_from(token.resource_version).ok().map(Revision)),
        ListAt::Exact(revision) => (Place::FIRST, Some(Revision(revision))),
        ListAt::Latest | ListAt::Any | ListAt::NotOlderThan(_) => (Place::FIRST, None),
    };
    let limit = options.limit.unwrap_or(usize::MAX);
    let mut projects = server.tenants().map(|tenants| tenants.projects()).unwrap_or_default();
    projects.retain(|(_, project)| scope.has(project) && *project.name >= *first.project);
    projects.sort_by(|a, b| a.1.name.cmp(&b.1.name));
    let group = if stored.group.is_empty() { "core" } else { &stored.group };
    let mut items: Vec<Value> = Vec::new();
    let (mut last_place, mut more) = (Place::FIRST, false);
    'projects: for (tenant, project) in &projects {
        let prefix = format!("{}/{group}/{}/", tenant.as_str(), stored.resource);
        let scoped = match served.resource.namespaced() && !info.namespace.is_empty() {
            true => format!("{prefix}{}/", info.namespace),
            false => prefix.clone(),
        };
        let mut range = KeyRange::prefix(scoped);
        if *project.name == *first.project && !first.after.is_empty() {
            range.start = range.start.max(format!("{prefix}{}\0", first.after).into());
        }
        loop {
            let request = RangeRequest { range: range.clone(), at, limit: Some(PAGE_LEN) };
            let read = server.caches().store().range(request).await.map_err(|error| store_error(&error))?;
            at.get_or_insert(read.revision);
            for kv in read.entries.iter().filter(|kv| !kv.value.is_empty()) {
                let Some(key) = Key::parse(&kv.key) else { continue };
                let Ok(object) = Object::parse(kv, key.layout(), &indexed) else { continue };
                if !filter.matches(&object) {
                    continue;
                }
                if items.len() == limit {
                    more = true;
                    break 'projects;
                }
                let mut value = served.present_value(&Arc::new(object)).await?;
                value["metadata"]["selfLink"] = self_link(&info, &project.name, &value).into();
                items.push(value);
                last_place = Place { project: (*project.name).to_owned(), after: key.place.to_owned() };
            }
            match read.entries.last().filter(|_| read.more()) {
                Some(last) => range.start = [&last.key, &b"\0"[..]].concat().into(),
                None => continue 'projects,
            }
        }
    }
    let at = match at {
        Some(at) => at,
        None => server.caches().store().revision().await.map_err(|error| store_error(&error))?,
    };
    let mut metadata = json!({"resourceVersion": at.to_string()});
    if more {
        metadata["continue"] = last_place.token(at).into();
    }
    let list = json!({
        "kind": served.resource.list_kind, "apiVersion": served.api_version, "metadata": metadata, "items": items,
    });
    Ok(Answer::new(200, "application/json", ResponseBody::full(list.to_string())))
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
