//! OpenAPI with what other servers add: their version 3 documents in the index, their version 2 documents in ours.

use std::sync::Arc;

use bailiwick_aggregation::Table;
use bailiwick_aggregation::openapi::{Merged, Spec, merge};
use bailiwick_machinery::status::{ApiError, ApiResult};
use bailiwick_schema::openapi::{Form, gnostic};
use bytes::Bytes;
use flate2::Decompress;
use jiff::{Span, Timestamp};
use serde_json::{Value, json};
use sha2::{Digest, Sha512};
use tokio::sync::OnceCell;

use super::assemble::{Author, NativePart, assemble};
use super::cache::{Index, Key, OpenApi, Stored, blocking, lock};
use super::document::{Encoding, Sections, entry, put_definition};
use super::piece::{Packer, Rendered};
use super::shared::Shared;
use crate::registry::Registry;

/// What was last merged, to tell whether something has changed.
#[derive(Default)]
pub(super) struct LastMerged {
    index: Option<Index>,
    document: Option<Arc<Stored>>,
    converted: Vec<(String, Arc<Stored>)>,
}

impl OpenApi {
    /// The list of version 3 documents, here and elsewhere.
    pub(super) async fn merged_index(&self, registry: &Arc<Registry>, table: &Table) -> ApiResult<Index> {
        let own = self.index(registry).await?;
        if table.is_local() {
            return Ok(own);
        }
        let mut list: Value = serde_json::from_slice(&own.text).map_err(ApiError::internal)?;
        for route in table.routes() {
            let documents = route.documents();
            for (name, url) in documents.openapi_v3().iter() {
                list["paths"][name] = json!({"serverRelativeURL": url});
            }
            if let Some(converted) = documents.converted_v3() {
                let name = route.service().path().trim_start_matches('/').to_owned();
                list["paths"][&name] = json!({"serverRelativeURL": super::address(&name, &converted.tag)});
            }
        }
        let text = Bytes::from(list.to_string());
        let mut last = lock(&self.merged);
        let index = match last.index.take() {
            Some(index) if index.text == text => index,
            Some(before) => Index { text, modified: Timestamp::now().max(before.modified + Span::new().seconds(1)) },
            None => Index { text, modified: Timestamp::now() },
        };
        last.index = Some(index.clone());
        Ok(index)
    }

    /// The version 2 document with what other servers add; `None` if they add nothing.
    pub(super) async fn merged_v2(&self, registry: &Arc<Registry>, table: &Table) -> ApiResult<Option<MergedV2>> {
        if table.is_local() {
            return Ok(None);
        }
        let others: Vec<Arc<Spec>> = in_order(table).collect();
        if others.is_empty() {
            return Ok(None);
        }
        let Some(own) = self.stored(registry, Key::V2).await? else { return Ok(None) };
        let mut hash = Sha512::new();
        hash.update(own.hash.as_bytes());
        others.iter().for_each(|other| hash.update(other.tag.as_bytes()));
        let stored = Stored::of(format!("{:X}", hash.finalize()));
        let mut last = lock(&self.merged);
        let stored = match last.document.take().filter(|last| last.hash == stored.hash) {
            Some(last) => last,
            None => Arc::new(stored),
        };
        last.document = Some(stored.clone());
        Ok(Some(MergedV2 { stored, own, others }))
    }

    /// The bytes of a merged document.
    pub(super) async fn rendered_v2(
        &self,
        registry: &Arc<Registry>,
        merged: &MergedV2,
        encoding: Encoding,
    ) -> ApiResult<Arc<Rendered>> {
        let build = || async {
            let own = self.rendered(registry, Key::V2, &merged.own, Encoding::Json).await?;
            let others = merged.others.clone();
            blocking(move || {
                let own: Value = serde_json::from_slice(&unpacked(&own)?).map_err(ApiError::internal)?;
                render(merge(own, &others), Form::V2, encoding).map(Arc::new)
            })
            .await
        };
        merged.stored.cell(encoding).get_or_try_init(build).await.cloned()
    }

    /// A version 3 document that we made of version 2, for a server that has none.
    pub(super) fn converted(&self, table: &Table, name: &str) -> Option<Converted> {
        let (group, version) = name.strip_prefix("apis/")?.split_once('/')?;
        let spec = table.route(group, version)?.documents().converted_v3()?;
        let mut last = lock(&self.merged);
        last.converted.retain(|(known, stored)| known != name || *stored.hash == *spec.tag);
        let known = last.converted.iter().find(|(known, _)| known == name).map(|(_, stored)| stored.clone());
        let stored = known.unwrap_or_else(|| {
            let stored = Arc::new(Stored::of(spec.tag.clone()));
            last.converted.push((name.to_owned(), stored.clone()));
            stored
        });
        Some(Converted { stored, spec })
    }
}

/// A merged document before its bytes are made.
pub(super) struct MergedV2 {
    pub stored: Arc<Stored>,
    own: Arc<Stored>,
    others: Vec<Arc<Spec>>,
}

/// A converted document before its bytes are made.
pub(super) struct Converted {
    pub stored: Arc<Stored>,
    spec: Arc<Spec>,
}

impl Converted {
    pub(super) async fn rendered(&self, encoding: Encoding) -> ApiResult<Arc<Rendered>> {
        let spec = self.spec.clone();
        let build = || {
            blocking(move || {
                let section = |value: &Value| value.as_object().cloned().unwrap_or_default();
                let (paths, components) = (&spec.document["paths"], &spec.document["components"]);
                let merged = Merged {
                    paths: section(paths),
                    definitions: section(&components["schemas"]),
                    parameters: section(&components["parameters"]),
                };
                render(merged, Form::V3, encoding).map(Arc::new)
            })
        };
        self.stored.cell(encoding).get_or_try_init(build).await.cloned()
    }
}

/// The documents of other servers in the order in which they are added: groups by priority, then by name.
fn in_order(table: &Table) -> impl Iterator<Item = Arc<Spec>> {
    let priority_of = |group: &str| {
        let records = table.remote_records().filter(|record| record.group == group);
        records.map(|record| record.group_priority).max().unwrap_or_default()
    };
    let mut routes: Vec<_> = table.routes().collect();
    routes.sort_by_cached_key(|route| {
        let service = route.service();
        (std::cmp::Reverse(priority_of(&service.group)), service.name.clone())
    });
    routes.into_iter().filter_map(|route| route.documents().openapi_v2())
}

fn render(merged: Merged, form: Form, encoding: Encoding) -> ApiResult<Rendered> {
    let mut paths = Vec::new();
    for (path, item) in &merged.paths {
        match (encoding, form) {
            (Encoding::Json, _) => entry(&mut paths, path, item).map_err(ApiError::internal)?,
            (Encoding::Protobuf, Form::V2) => {
                gnostic::put_entry(&mut paths, gnostic::v2::document::PATH, &gnostic::v2::PATH_ITEM, path, item);
            }
            (Encoding::Protobuf, Form::V3) => {
                gnostic::put_entry(&mut paths, gnostic::v3::document::PATH, &gnostic::v3::PATH_ITEM, path, item);
            }
        }
    }
    let mut definitions = Vec::new();
    for (name, definition) in &merged.definitions {
        put_definition(&mut definitions, form, encoding, name, definition).map_err(ApiError::internal)?;
    }
    let shared = Shared { parameters: merged.parameters.into_iter().collect(), ..Shared::default() };
    let mut packer = Packer::new();
    let part = NativePart::new(Sections { paths, definitions, shared }, &mut packer)?;
    assemble(form, encoding, Author::Server, &part, &[], Shared::default(), &mut packer)
}

fn unpacked(document: &Rendered) -> ApiResult<Vec<u8>> {
    let mut inflater = Decompress::new(false);
    let mut text = Vec::with_capacity(document.len());
    let mut at = 0;
    while let Some(piece) = document.piece(at) {
        piece.inflate(&mut inflater, &mut text)?;
        at += 1;
    }
    Ok(text)
}

impl Stored {
    /// A document of which nothing is known but what it is made of.
    fn of(hash: String) -> Self {
        let (json, protobuf) = (OnceCell::new(), OnceCell::new());
        Self { hash: hash.into(), modified: Timestamp::now(), json, protobuf }
    }
}
