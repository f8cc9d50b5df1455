//! Reads across projects: what platform controllers live on, and what an organization's people may see of its projects.
//!
//! `GET /projects/*/metadata?watch=true` is one stream of everything that happens in all projects: a line of JSON for each
//! change, with the project, the resource and the object's metadata. It begins with what exists, unless it is told to go
//! on after a `resourceVersion`. One such stream, and so one watch of the store, serves every controller for every
//! project and type. `GET /projects/*/<path of a collection>` lists the objects of a type in all projects, of a
//! custom one in those that define it;
//! `/organizations/<name>/projects/*/…` does so for the projects of one organization. These are paths of the root, so its
//! roles say who may `get` which of them. Objects that exist without being stored, such as the default roles nobody
//! changed, are not among them.

mod list;

use std::sync::Arc;
use std::time::Duration;

use bailiwick_machinery::query::Query;
use bailiwick_machinery::status::{ApiError, ApiResult};
use bailiwick_store::{self as store, Change, KeyRange, KeyValue, RangeRequest, Revision, WatchItem, key_after};
use bytes::Bytes;
use futures::StreamExt;
use http::Method;
use serde::Deserialize;
use serde_json::json;

use crate::cache::{KeyLayout, Object};
use crate::http::ResponseBody;
use crate::registry::TenantId;
use crate::server::{Answer, ApiServer, store_error};
use crate::tenants::ProjectIdentity;

const PROJECTS: &str = "/projects/*/";
const ORGANIZATIONS: &str = "/organizations/";
/// Entries read from the store at once.
const PAGE_LEN: usize = 1000;
/// How often a stream looks whether the server is about to stop.
const LIVENESS: Duration = Duration::from_secs(1);
/// Slashes before the name of an object, or its namespace, in a key.
const KEY_SEGMENTS: usize = 3;

/// Which projects are read.
enum Scope {
    All,
    Organization(String),
}

impl Scope {
    fn has(&self, project: &ProjectIdentity) -> bool {
        match self {
            Self::All => true,
            Self::Organization(name) => *project.organization == **name,
        }
    }
}

/// The answer to a path across projects; `None` for other paths.
pub(crate) async fn answer(
    server: &Arc<ApiServer>,
    method: &Method,
    path: &str,
    query: &Query,
) -> Option<ApiResult<Answer>> {
    let (scope, rest) = match path.strip_prefix(ORGANIZATIONS) {
        Some(rest) => {
            let (organization, rest) = rest.split_once('/')?;
            (Scope::Organization(organization.to_owned()), rest.strip_prefix("projects/*/")?)
        }
        None => (Scope::All, path.strip_prefix(PROJECTS)?),
    };
    server.tenants()?;
    if method != Method::GET {
        return Some(Err(ApiError::new(405, "MethodNotAllowed", "reads across projects are GET requests")));
    }
    Some(match rest {
        "metadata" => stream(server, scope, query),
        _ => list::list(server, &scope, rest, query).await,
    })
}

fn stream(server: &Arc<ApiServer>, scope: Scope, query: &Query) -> ApiResult<Answer> {
    let after = match query.get("resourceVersion").unwrap_or_default() {
        "" | "0" => None,
        text => {
            let parsed = text.parse().map_err(|_| ApiError::bad_request("resourceVersion is not a number"))?;
            Some(Revision(parsed))
        }
    };
    if query.flag("watch") != Some(true) {
        return Err(ApiError::bad_request("the metadata of all projects can only be watched"));
    }
    let phase = match after {
        None => Phase::Initial { at: None, start: Bytes::from_static(TenantId::PROJECTS.as_bytes()) },
        Some(revision) => Phase::Resuming(revision),
    };
    let reader = Reader { server: server.clone(), scope, phase };
    let chunks = futures::stream::unfold(reader, |mut reader| async {
        let chunk = reader.next().await?;
        Some((chunk, reader))
    });
    Ok(Answer::new(200, "application/json;stream=watch", ResponseBody::Stream(chunks.boxed())))
}

enum Phase {
    /// What exists is read page by page.
    Initial {
        at: Option<Revision>,
        start: Bytes,
    },
    Resuming(Revision),
    Live(store::WatchStream),
    Ended,
}

struct Reader {
    server: Arc<ApiServer>,
    scope: Scope,
    phase: Phase,
}

impl Reader {
    /// The next lines; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let lines = match self.advance().await {
                Ok(lines) => lines?,
                Err(error) => {
                    self.phase = Phase::Ended;
                    let status = json!({"type": "ERROR", "object": store_error(&error).to_status()});
                    return Some(format!("{status}\n").into());
                }
            };
            if !lines.is_empty() {
                return Some(lines.into());
            }
        }
    }

    async fn advance(&mut self) -> store::Result<Option<Vec<u8>>> {
        let all = KeyRange::prefix(TenantId::PROJECTS);
        let store = self.server.caches().store().clone();
        match std::mem::replace(&mut self.phase, Phase::Ended) {
            Phase::Initial { at, start } => {
                let range = KeyRange { start, end: all.end };
                let read = store.range(RangeRequest { range, at, limit: Some(PAGE_LEN) }).await?;
                let at = at.unwrap_or(read.revision);
                let mut lines = Vec::new();
                read.entries.iter().for_each(|kv| self.write("ADDED", kv, kv.mod_revision, &mut lines));
                match read.entries.last().filter(|_| read.more()) {
                    Some(last) => {
                        let start = key_after(&last.key);
                        self.phase = Phase::Initial { at: Some(at), start };
                    }
                    None => {
                        write_bookmark(at, "true", &mut lines);
                        self.phase = Phase::Resuming(at);
                    }
                }
                Ok(Some(lines))
            }
            Phase::Resuming(after) => {
                self.phase = Phase::Live(store.watch(all, after).await?);
                Ok(Some(Vec::new()))
            }
            Phase::Live(mut stream) => {
                let item = loop {
                    match tokio::time::timeout(LIVENESS, stream.next()).await {
                        Ok(item) => break item,
                        Err(_) if self.server.is_shutting_down() => break None,
                        Err(_) => {}
                    }
                };
                let mut lines = Vec::new();
                match item {
                    None => return Ok(None),
                    Some(item) => match item? {
                        WatchItem::Progress(revision) => write_bookmark(revision, "false", &mut lines),
                        WatchItem::Events(events) => {
                            // Whoever acts on an event must find its project known.
                            if let Some(last) = events.last() {
                                self.server.caches().wait_for(last.revision()).await?;
                            }
                            events.iter().for_each(|event| self.write_event(event, &mut lines));
                        }
                    },
                }
                self.phase = Phase::Live(stream);
                Ok(Some(lines))
            }
            Phase::Ended => Ok(None),
        }
    }

    fn write_event(&self, event: &store::Event, out: &mut Vec<u8>) {
        match &event.change {
            Change::Put(kv) if kv.value.is_empty() => match &event.previous {
                Some(previous) => self.write("DELETED", previous, kv.mod_revision, out),
                None => self.write("DELETED", kv, kv.mod_revision, out),
            },
            Change::Put(kv) => {
                let is_new = event.previous.as_ref().is_none_or(|previous| previous.value.is_empty());
                self.write(if is_new { "ADDED" } else { "MODIFIED" }, kv, kv.mod_revision, out);
            }
            Change::Delete { revision, .. } => {
                if let Some(previous) = event.previous.as_ref().filter(|previous| !previous.value.is_empty()) {
                    self.write("DELETED", previous, *revision, out);
                }
            }
        }
    }

    /// Appends the line of one object. What cannot be read, or is of a project that is gone, is left out.
    fn write(&self, event_type: &str, kv: &KeyValue, revision: Revision, out: &mut Vec<u8>) {
        let Some(key) = Key::parse(&kv.key) else { return };
        let Some(project) = self.server.tenants().and_then(|tenants| tenants.project_of(key.tenant)) else { return };
        if !self.scope.has(&project) || kv.value.is_empty() && event_type != "DELETED" {
            return;
        }
        let object = match metadata(kv, &key, revision) {
            Some(object) => object,
            None => return tracing::error!(key = %String::from_utf8_lossy(&kv.key), "object left out"),
        };
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(event_type.as_bytes());
        out.extend_from_slice(b"\",\"project\":\"");
        out.extend_from_slice(project.name.as_bytes());
        out.extend_from_slice(b"\",\"group\":\"");
        out.extend_from_slice(if key.group == "core" { b"" } else { key.group.as_bytes() });
        out.extend_from_slice(b"\",\"resource\":\"");
        out.extend_from_slice(key.resource.as_bytes());
        out.extend_from_slice(b"\",\"object\":");
        out.extend_from_slice(&object);
        out.extend_from_slice(b"}\n");
    }
}

fn write_bookmark(revision: Revision, initial_end: &str, out: &mut Vec<u8>) {
    let line = json!({"type": "BOOKMARK", "object": {"metadata": {
        "resourceVersion": revision.to_string(), "annotations": {"k8s.io/initial-events-end": initial_end},
    }}});
    out.extend_from_slice(line.to_string().as_bytes());
    out.push(b'\n');
}

/// A key of the store, divided.
struct Key<'a> {
    tenant: &'a str,
    group: &'a str,
    resource: &'a str,
    place: &'a str,
    prefix_len: usize,
}

impl<'a> Key<'a> {
    fn parse(key: &'a [u8]) -> Option<Self> {
        let text = std::str::from_utf8(key).ok()?;
        let mut parts = text.splitn(KEY_SEGMENTS + 1, '/');
        let (tenant, group, resource, place) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        Some(Self { tenant, group, resource, place, prefix_len: text.len() - place.len() })
    }

    fn layout(&self) -> KeyLayout {
        KeyLayout { prefix_len: self.prefix_len, namespaced: self.place.contains('/') }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TypeMeta<'a> {
    #[serde(default)]
    kind: &'a str,
    #[serde(default)]
    api_version: &'a str,
}

/// Type and metadata of an object, as JSON.
fn metadata(kv: &KeyValue, key: &Key<'_>, revision: Revision) -> Option<Vec<u8>> {
    if kv.value.is_empty() {
        let (namespace, name) = key.place.split_once('/').unwrap_or(("", key.place));
        let metadata = json!({"name": name, "namespace": namespace, "resourceVersion": revision.to_string()});
        return Some(json!({"metadata": metadata}).to_string().into_bytes());
    }
    let types: TypeMeta<'_> = serde_json::from_slice(&kv.value).ok()?;
    let object = Object::parse(kv, key.layout(), &[]).ok()?.at_revision(revision);
    let mut out =
        format!("{{\"kind\":\"{}\",\"apiVersion\":\"{}\",\"metadata\":", types.kind, types.api_version).into_bytes();
    object.write_metadata(&mut out);
    out.push(b'}');
    Some(out)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn entry(key: &'static str, value: &'static str) -> KeyValue {
        KeyValue {
            key: Bytes::from_static(key.as_bytes()),
            value: Bytes::from_static(value.as_bytes()),
            create_revision: Revision(5),
            mod_revision: Revision(6),
        }
    }

    #[test]
    fn a_line_has_type_and_metadata_and_nothing_else() {
        let stored = r#"{"kind":"Secret","apiVersion":"v1","metadata":{"name":"s","namespace":"n","uid":"u","creationTimestamp":"t"},"data":{"k":"dg=="}}"#;
        let kv = entry("p-1/core/secrets/n/s", stored);
        let key = Key::parse(&kv.key).expect("a key");
        assert_eq!((key.tenant, key.resource), ("p-1", "secrets"));
        let line: Value = serde_json::from_slice(&metadata(&kv, &key, Revision(6)).expect("readable")).expect("JSON");
        assert_eq!(line["metadata"]["resourceVersion"], "6");
        assert!(line.get("data").is_none() && line["kind"] == "Secret");
    }

    #[test]
    fn a_tombstone_is_known_by_its_place() {
        let kv = entry("p-1/core/serviceaccounts/default/default", "");
        let key = Key::parse(&kv.key).expect("a key");
        let line: Value = serde_json::from_slice(&metadata(&kv, &key, Revision(6)).expect("readable")).expect("JSON");
        assert_eq!(line["metadata"], json!({"name": "default", "namespace": "default", "resourceVersion": "6"}));
    }
}
