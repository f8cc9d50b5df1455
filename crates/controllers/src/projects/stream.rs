//! The stream of everything that happens in all projects, followed for ever.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::ApiResource;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::watch;

use super::ProjectControllers;
use crate::discovery::{ResourceType, Scope};
use crate::error::Error;
use crate::header::Header;
use crate::plane::Plane;
use crate::plane::stream::{self, Ended};

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Added,
    Modified,
    Deleted,
}

/// An object in a project.
pub(super) struct Seen {
    pub kind: Kind,
    pub resource: Arc<ResourceType>,
    pub meta: ObjectMeta,
}

impl Seen {
    /// The same without owners and finalizers.
    pub fn without_relations(&self) -> Self {
        let meta = ObjectMeta { owner_references: None, finalizers: None, ..self.meta.clone() };
        Self { kind: self.kind, resource: self.resource.clone(), meta }
    }
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(default)]
    project: &'a str,
    #[serde(default)]
    group: &'a str,
    #[serde(default)]
    resource: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TypeMeta {
    kind: String,
    api_version: String,
}

#[derive(Deserialize)]
struct Bookmark {
    metadata: ObjectMeta,
}

/// How far the stream has come.
#[derive(Default)]
struct Progress {
    /// Everything up to here was told.
    revision: Option<String>,
    /// The project being listed, and what it has.
    listing: Option<(Plane, Vec<Seen>)>,
    types: HashMap<(String, String, String), Arc<ResourceType>>,
}

impl ProjectControllers {
    /// Follows the stream; `listed` becomes true once everything that existed was told.
    pub(super) async fn follow(&self, listed: watch::Sender<bool>) {
        let mut progress = Progress::default();
        loop {
            let ended = self.follow_once(&mut progress, &listed).await;
            stream::rest(ended).await;
        }
    }

    async fn follow_once(&self, progress: &mut Progress, listed: &watch::Sender<bool>) -> Result<Ended, Error> {
        let revision = progress.revision.clone();
        if revision.is_none() {
            self.restart();
            progress.listing = None;
        }
        let ended = stream::read(&self.root, revision.as_deref(), |line| self.line(line, progress, listed)).await;
        match &ended {
            Ok(Ended::NoProjects) => drop(listed.send_replace(true)),
            Ok(Ended::Refused(_)) => progress.revision = None,
            _ => {}
        }
        ended
    }

    fn line(&self, line: &[u8], progress: &mut Progress, listed: &watch::Sender<bool>) -> Result<(), Error> {
        let unreadable = |error: serde_json::Error| Error::Incomplete(format!("unreadable line: {error}"));
        let line: Line<'_> = serde_json::from_slice(line).map_err(unreadable)?;
        let kind = match line.kind {
            "ADDED" => Kind::Added,
            "MODIFIED" => Kind::Modified,
            "DELETED" => Kind::Deleted,
            "BOOKMARK" => {
                let bookmark: Bookmark = serde_json::from_str(line.object.get()).map_err(unreadable)?;
                let ends = bookmark.metadata.annotations.as_ref().and_then(|all| all.get("k8s.io/initial-events-end"));
                if ends.is_some_and(|ends| ends == "true") {
                    self.list_ended(progress);
                    listed.send_replace(true);
                }
                progress.revision = bookmark.metadata.resource_version;
                return Ok(());
            }
            _ => {
                // The place to go on from is gone: everything is told anew.
                progress.revision = None;
                return Err(Error::Incomplete(line.object.get().to_owned()));
            }
        };
        let header: Header = serde_json::from_str(line.object.get()).map_err(unreadable)?;
        let types: TypeMeta = serde_json::from_str(line.object.get()).map_err(unreadable)?;
        let resource = progress.resource(&line, types, &header.metadata);
        let plane = Plane::project(line.project);
        let seen = Seen { kind, resource, meta: header.metadata };
        if progress.revision.is_some() {
            progress.revision = seen.meta.resource_version.clone();
            self.changed(&plane, &seen);
            return Ok(());
        }
        if progress.listing.as_ref().is_some_and(|(listing, _)| *listing != plane) {
            self.list_ended(progress);
        }
        progress.listing.get_or_insert_with(|| (plane, Vec::new())).1.push(seen);
        Ok(())
    }

    fn list_ended(&self, progress: &mut Progress) {
        if let Some((plane, all)) = progress.listing.take() {
            self.listed(&plane, &all);
        }
    }
}

impl Progress {
    fn resource(&mut self, line: &Line<'_>, types: TypeMeta, meta: &ObjectMeta) -> Arc<ResourceType> {
        let key = (line.group.to_owned(), line.resource.to_owned(), types.api_version.clone());
        let scope =
            if meta.namespace.as_deref().unwrap_or_default().is_empty() { Scope::Cluster } else { Scope::Namespaced };
        // Projects may define one name with different scopes.
        if let Some(known) = self.types.get(&key).filter(|known| known.scope == scope) {
            return known.clone();
        }
        let version = types.api_version.rsplit('/').next().unwrap_or_default().to_owned();
        let api = ApiResource {
            group: line.group.to_owned(),
            version,
            api_version: types.api_version,
            kind: types.kind,
            plural: line.resource.to_owned(),
        };
        let made = Arc::new(ResourceType::new(api, scope));
        self.types.insert(key, made.clone());
        made
    }
}
