//! The OpenAPI documents of remote servers: the list of version 3 documents, which requests then fetch themselves, and the
//! version 2 document, which becomes a part of ours.

mod convert;
mod merge;
mod references;

pub use merge::{Merged, merge};

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bailiwick_webhook::Backend;
use http::header::{ACCEPT, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH};
use serde::Deserialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha512};

use crate::api_service::ApiService;
use crate::call::{self, SPEC_AGGREGATOR};
use crate::documents::Documents;

/// How long a server may take to make its documents.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The largest document that is read. Kubernetes' own is 4 MB; a thousand custom types have made 25 MB.
const DOCUMENT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The largest list of documents.
const INDEX_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A document that was fetched and cut down to what its server is asked for.
pub struct Spec {
    /// Changes with the document.
    pub tag: String,
    pub document: Value,
}

/// The tag a document was last fetched under, to ask only for what is new.
#[derive(Default)]
pub(crate) struct Memory {
    etag: Option<HeaderValue>,
    /// The whole document, of which a part is used.
    tag: Option<String>,
}

#[derive(Deserialize)]
struct Index {
    #[serde(default)]
    paths: BTreeMap<String, IndexEntry>,
}

#[derive(Deserialize)]
struct IndexEntry {
    #[serde(rename = "serverRelativeURL")]
    server_relative_url: String,
}

/// Fetches what is new of a server's documents about a group version.
pub(crate) async fn refresh(
    backend: &Backend,
    service: &ApiService,
    documents: &Documents,
    memory: &mut Memory,
) -> Result<(), String> {
    let index = fetch_index(backend, service).await?;
    let needs_conversion = index.is_none();
    match needs_conversion {
        false => documents.set_converted_v3(None),
        // What is not known to have been converted is asked for again.
        true if documents.converted_v3().is_none() => *memory = Memory::default(),
        true => {}
    }
    documents.set_openapi_v3(index.unwrap_or_default());
    let fetched = fetch_v2(backend, memory).await?;
    let Some(changed) = fetched else { return Ok(()) };
    let filter = service.clone();
    let work = move || {
        let spec = changed.map(|spec| Arc::new(filtered(spec, &filter)));
        let converted = spec
            .as_ref()
            .filter(|_| needs_conversion)
            .map(|spec| Arc::new(Spec { tag: spec.tag.clone(), document: convert::to_v3(&spec.document) }));
        (spec, converted)
    };
    let (spec, converted) = tokio::task::spawn_blocking(work).await.map_err(|error| error.to_string())?;
    documents.set_openapi_v2(spec);
    documents.set_converted_v3(converted);
    Ok(())
}

/// The version 3 documents about the group version and its group; `None` if the server has no such documents.
async fn fetch_index(backend: &Backend, service: &ApiService) -> Result<Option<BTreeMap<String, String>>, String> {
    let headers = HeaderMap::new();
    let fetched = call::fetch(backend, "/openapi/v3", &SPEC_AGGREGATOR, headers, TIMEOUT, INDEX_BYTES_MAX).await;
    let fetched = fetched.map_err(|error| error.to_string())?;
    match fetched.status.as_u16() {
        404 => Ok(None),
        200 => {
            let index: Index = serde_json::from_slice(&fetched.body).map_err(|error| error.to_string())?;
            // A server speaks for what it is registered for and nothing else.
            let (own, group) = (service.path(), format!("apis/{}", service.group));
            let own = own.trim_start_matches('/');
            let relevant = index.paths.into_iter().filter(|(name, _)| *name == own || *name == group);
            Ok(Some(relevant.map(|(name, entry)| (name, entry.server_relative_url)).collect()))
        }
        status => Err(format!("the list of OpenAPI documents was answered with {status}")),
    }
}

/// The version 2 document if it has changed: `Some(None)` if there is none any more, `None` if nothing is new.
async fn fetch_v2(backend: &Backend, memory: &mut Memory) -> Result<Option<Option<Spec>>, String> {
    let mut headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]);
    if let Some(etag) = &memory.etag {
        headers.insert(IF_NONE_MATCH, etag.clone());
    }
    let fetched = call::fetch(backend, "/openapi/v2", &SPEC_AGGREGATOR, headers, TIMEOUT, DOCUMENT_BYTES_MAX).await;
    let fetched = fetched.map_err(|error| error.to_string())?;
    match fetched.status.as_u16() {
        304 if memory.etag.is_some() => Ok(None),
        404 => {
            *memory = Memory::default();
            Ok(Some(None))
        }
        200 => {
            let etag = fetched.headers.get(ETAG).cloned();
            let tag = format!("{:X}", Sha512::digest(&fetched.body));
            if memory.tag.as_ref() == Some(&tag) {
                memory.etag = etag;
                return Ok(None);
            }
            let body = fetched.body;
            let read = move || serde_json::from_slice::<Value>(&body).map_err(|error| error.to_string());
            let document = tokio::task::spawn_blocking(read).await.map_err(|error| error.to_string())??;
            *memory = Memory { etag, tag: Some(tag.clone()) };
            Ok(Some(Some(Spec { tag, document })))
        }
        status => Err(format!("failed to retrieve openAPI spec, http error: {status}")),
    }
}

/// The part of a document that is about the group version, with the definitions it needs.
fn filtered(mut spec: Spec, service: &ApiService) -> Spec {
    let prefix = format!("{}/", service.path());
    keep_paths(&mut spec.document, |path| path.starts_with(&prefix));
    spec
}

/// Keeps some paths of a document. Definitions that only the others used go with them.
fn keep_paths(document: &mut Value, keep: impl Fn(&str) -> bool) {
    let Some(paths) = document.get("paths").and_then(Value::as_object) else { return };
    let all = references::used_definitions(document, paths.values());
    let kept: Map<String, Value> =
        paths.iter().filter(|(path, _)| keep(path)).map(|(path, item)| (path.clone(), item.clone())).collect();
    let used = references::used_definitions(document, kept.values());
    if let Some(definitions) = document.get_mut("definitions").and_then(Value::as_object_mut) {
        definitions.retain(|name, _| used.contains(name) || !all.contains(name));
    }
    if let Some(paths) = document.get_mut("paths") {
        *paths = Value::Object(kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn definitions_go_with_the_paths_that_used_them() {
        let reference = |name: &str| json!({"get": {"schema": {"$ref": format!("#/definitions/{name}")}}});
        let mut document = json!({
            "paths": {"/apis/g/v1/things": reference("Thing"), "/apis/g/v2/things": reference("Other")},
            "definitions": {
                "Thing": {"properties": {"part": {"$ref": "#/definitions/Part"}}}, "Part": {}, "Other": {}, "Unused": {},
            },
        });
        keep_paths(&mut document, |path| path.starts_with("/apis/g/v1/"));
        let names: Vec<&String> = document["definitions"].as_object().expect("an object").keys().collect();
        assert_eq!(names, ["Part", "Thing", "Unused"]);
        assert_eq!(document["paths"].as_object().map(Map::len), Some(1));
    }

    #[test]
    fn hostile_documents_change_nothing() {
        for document in [json!(null), json!([]), json!({"paths": 1}), json!({"paths": {}, "definitions": []})] {
            let mut changed = document.clone();
            keep_paths(&mut changed, |_| true);
            assert_eq!(changed, document);
        }
    }
}
