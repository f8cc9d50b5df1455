//! What is done about one object of the graph: delete it, free it of owners that are gone, or let it go once its
//! dependents are dealt with.

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions, PropagationPolicy};
use serde_json::json;

use super::graph::{Deletion, FOREGROUND_FINALIZER, Identity, Node, ORPHAN_FINALIZER, Owner, Uid};
use super::{GarbageCollector, WORKERS};
use crate::discovery::{ResourceType, Scope};
use crate::error::{Error, is_conflict, is_not_found};
use crate::header::Header;
use crate::monitor::is_watched;
use crate::requests::{ignore_not_found, objects, remove_finalizer};
use crate::work_queue::Outcome;

/// What is known about an owner that a dependent names.
enum OwnerState {
    Exists,
    Absent,
    /// It exists and waits for the dependent to go.
    Waiting,
    /// Nobody can say: its kind is not served now.
    Unknown,
    /// There can be no such owner, whatever the server has; the reference is a mistake that we leave alone.
    Impossible,
}

impl GarbageCollector {
    /// Deletes the object if it lost its owners, or finishes its foreground deletion if its dependents are gone.
    pub(crate) async fn attempt_to_delete(&self, uid: &Uid) -> Result<Outcome, Error> {
        self.report_misplaced(uid).await;
        let Some(node) = self.graph().node(uid).cloned() else { return Ok(Outcome::Done) };
        let Some(resource) = node.resource.clone() else { return self.verify_virtual(&node).await };
        match node.deletion {
            Deletion::Started | Deletion::Orphan => return Ok(Outcome::Done),
            Deletion::Foreground => return self.finish_foreground(&node, &resource).await,
            Deletion::No => {}
        }
        let api = objects(&self.client.get(), &resource, &node.identity.namespace);
        // A node that only owns is here because a list did not show it; one that also has owners finds out below.
        if node.owners.is_empty() {
            let live = api.get_opt(&node.identity.name).await?;
            if live.is_none_or(|live| live.metadata.uid.as_deref() != Some(uid)) {
                self.not_found(&node.identity);
            }
            return Ok(Outcome::Done);
        }
        match self.collect(&api, &node, &node.owners, &node.resource_version).await {
            Err(Error::Request(error)) if is_conflict(&error) => {}
            result => return result,
        }
        // It is not what the watch showed us last: judge it as it is now.
        let live = api.get_opt(&node.identity.name).await?;
        match live.filter(|live| live.metadata.uid.as_deref() == Some(uid)) {
            None => {
                self.not_found(&node.identity);
                Ok(Outcome::Done)
            }
            Some(live) if live.metadata.deletion_timestamp.is_some() => Ok(Outcome::Done),
            Some(live) => {
                let owners: Vec<Owner> = owners(&live.metadata);
                let version = live.metadata.resource_version.unwrap_or_default();
                self.collect(&api, &node, &owners, &version).await
            }
        }
    }

    /// Judges an object by its owners and acts, on condition that it still has `resource_version`.
    async fn collect(
        &self,
        api: &Api<Header>,
        node: &Node,
        owners: &[Owner],
        resource_version: &str,
    ) -> Result<Outcome, Error> {
        let (mut exist, mut absent, mut waiting) = (0, Vec::new(), Vec::new());
        for owner in owners {
            match self.owner_state(owner, &node.identity.namespace).await? {
                OwnerState::Exists => exist += 1,
                OwnerState::Absent => absent.push(&owner.uid),
                OwnerState::Waiting => waiting.push(&owner.uid),
                OwnerState::Unknown => {
                    tracing::debug!(object = ?node.identity, owner = ?owner.uid, "the kind of an owner is not served");
                    return Ok(Outcome::Backoff);
                }
                OwnerState::Impossible => return Ok(Outcome::Done),
            }
        }
        if exist == owners.len() {
            return Ok(Outcome::Done);
        }
        if exist > 0 {
            absent.append(&mut waiting);
            let lost: Vec<&str> = absent.into_iter().map(|uid| &**uid).collect();
            return self.remove_owners(api, &node.identity, &lost).await.map(|()| Outcome::Done);
        }
        // Without a policy the server honours a finalizer that the object carries already.
        let mut policy = None;
        if !waiting.is_empty() && node.has_dependents() {
            self.break_cycle(api, node).await?;
            policy = Some(PropagationPolicy::Foreground);
        }
        let preconditions =
            Preconditions { uid: Some(node.identity.uid.to_string()), resource_version: version(resource_version) };
        let params =
            DeleteParams { propagation_policy: policy, preconditions: Some(preconditions), ..DeleteParams::default() };
        match api.delete(&node.identity.name, &params).await {
            Err(error) if is_not_found(&error) => self.not_found(&node.identity),
            result => drop(result?),
        }
        tracing::debug!(object = ?node.identity, "deleted: its owners are gone");
        Ok(Outcome::Done)
    }

    async fn owner_state(&self, owner: &Owner, namespace: &Arc<str>) -> Result<OwnerState, Error> {
        let mut claimed = owner.identity(namespace);
        if let Some(node) = self.graph().node(&owner.uid)
            && !node.is_virtual()
        {
            claimed.namespace = node.identity.namespace.clone();
            let reachable = claimed.namespace.is_empty() || claimed.namespace == *namespace;
            if reachable && node.identity == claimed {
                let waits = node.deletion == Deletion::Foreground;
                return Ok(if waits { OwnerState::Waiting } else { OwnerState::Exists });
            }
        }
        let Some(resource) = self.discovery.catalog().of_kind(&owner.api_version, &owner.kind).cloned() else {
            return Ok(OwnerState::Unknown);
        };
        claimed.namespace = match resource.scope {
            Scope::Cluster => Arc::from(""),
            Scope::Namespaced if namespace.is_empty() => {
                tracing::warn!(owner = ?claimed, "a cluster-scoped object cannot have an owner in a namespace");
                return Ok(OwnerState::Impossible);
            }
            Scope::Namespaced => namespace.clone(),
        };
        if self.absent.contains(&claimed) {
            return Ok(OwnerState::Absent);
        }
        let live = objects(&self.client.get(), &resource, namespace).get_opt(&owner.name).await?;
        match live.filter(|live| live.metadata.uid.as_deref() == Some(&*owner.uid)) {
            None => {
                self.absent.add(claimed);
                Ok(OwnerState::Absent)
            }
            Some(live) if waits_for_dependents(&live.metadata) => Ok(OwnerState::Waiting),
            Some(_) => Ok(OwnerState::Exists),
        }
    }

    /// Finds out whether an owner that was only named exists.
    async fn verify_virtual(&self, node: &Node) -> Result<Outcome, Error> {
        let identity = &node.identity;
        let Some(resource) = self.discovery.catalog().of_kind(&identity.api_version, &identity.kind).cloned() else {
            return Ok(Outcome::Backoff);
        };
        // An object without a namespace cannot have an owner in one; it is left alone, as upstream does.
        let nowhere = resource.scope == Scope::Namespaced && identity.namespace.is_empty();
        let mut live = None;
        if !nowhere {
            live = objects(&self.client.get(), &resource, &identity.namespace).get_opt(&identity.name).await?;
        }
        live = live.filter(|live| live.metadata.uid.as_deref() == Some(&*identity.uid));
        if live.is_none() && resource.scope == Scope::Namespaced {
            live = self.find_elsewhere(&resource, identity).await?;
        }
        let Some(live) = live else {
            if !nowhere {
                self.not_found(identity);
            }
            return Ok(Outcome::Done);
        };
        let mut tasks = Vec::new();
        {
            let mut graph = self.graph();
            // What the watch has shown meanwhile is newer than what we asked for.
            let still_asked = graph.node(&identity.uid);
            if still_asked.is_some_and(|now| now.is_virtual() && now.generation == node.generation) {
                graph.present(&resource, &live.metadata, &mut tasks);
            }
        }
        self.enqueue(tasks);
        // Its end will be seen if its type is watched; if not, it has to be asked for now and then.
        Ok(if is_watched(&resource) { Outcome::Done } else { Outcome::Backoff })
    }

    /// The object with the owner's name and uid in another namespace than its dependent's: such a reference is a mistake
    /// that people should be told about. Asked only about owners that nobody has seen, which is rare.
    async fn find_elsewhere(&self, resource: &ResourceType, identity: &Identity) -> Result<Option<Header>, Error> {
        let everywhere: Api<Header> = Api::all_with(self.client.get(), &resource.api);
        let named = ListParams::default().fields(&format!("metadata.name={}", identity.name));
        let found = everywhere.list(&named).await?.items;
        Ok(found.into_iter().find(|found| found.metadata.uid.as_deref() == Some(&*identity.uid)))
    }

    async fn finish_foreground(&self, node: &Node, resource: &ResourceType) -> Result<Outcome, Error> {
        let uid = &node.identity.uid;
        let blocking: Vec<(Uid, Deletion)> = {
            let graph = self.graph();
            graph.blocking_dependents(uid).map(|node| (node.identity.uid.clone(), node.deletion)).collect()
        };
        if blocking.is_empty() {
            let api = objects(&self.client.get(), resource, &node.identity.namespace);
            remove_finalizer(&api, &node.identity.name, uid, FOREGROUND_FINALIZER).await?;
            return Ok(Outcome::Done);
        }
        for (dependent, deletion) in blocking {
            if deletion != Deletion::Foreground {
                self.to_delete.add(dependent);
            }
        }
        Ok(Outcome::Done)
    }

    /// Frees the dependents of an object that is to leave them behind, then lets it go.
    pub(crate) async fn orphan(&self, uid: &Uid) -> Result<Outcome, Error> {
        let (node, dependents) = {
            let graph = self.graph();
            let Some(node) = graph.node(uid).cloned() else { return Ok(Outcome::Done) };
            let dependents: Vec<_> = graph
                .dependents(uid)
                .filter_map(|node| node.resource.clone().map(|resource| (node.identity.clone(), resource)))
                .collect();
            (node, dependents)
        };
        let Some(resource) = node.resource.as_ref().filter(|_| node.deletion == Deletion::Orphan) else {
            return Ok(Outcome::Done);
        };
        futures::stream::iter(dependents)
            .map(|(dependent, resource)| async move {
                let api = objects(&self.client.get(), &resource, &dependent.namespace);
                self.remove_owners(&api, &dependent, &[uid]).await
            })
            .buffer_unordered(WORKERS)
            .try_collect::<()>()
            .await?;
        let api = objects(&self.client.get(), resource, &node.identity.namespace);
        remove_finalizer(&api, &node.identity.name, uid, ORPHAN_FINALIZER).await?;
        Ok(Outcome::Done)
    }

    async fn remove_owners(&self, api: &Api<Header>, object: &Identity, lost: &[&str]) -> Result<(), Error> {
        let Some(live) = api.get_opt(&object.name).await? else { return Ok(()) };
        let mut references = live.metadata.owner_references.unwrap_or_default();
        let before = references.len();
        references.retain(|reference| !lost.contains(&reference.uid.as_str()));
        if live.metadata.uid.as_deref() != Some(&*object.uid) || references.len() == before {
            return Ok(());
        }
        let patch = json!({"metadata": {
            "uid": live.metadata.uid,
            "resourceVersion": live.metadata.resource_version,
            "ownerReferences": references,
        }});
        ignore_not_found(api.patch(&object.name, &PatchParams::default(), &Patch::Merge(patch)).await)
    }

    /// An object whose owner and whose dependent both wait for their dependents may be part of a circle. Its references
    /// stop blocking, so that the circle can be taken apart.
    async fn break_cycle(&self, api: &Api<Header>, node: &Node) -> Result<(), Error> {
        let uid = &node.identity.uid;
        let in_circle = self.graph().dependents(uid).any(|dependent| dependent.deletion == Deletion::Foreground);
        let blocks = node.owners.iter().any(|owner| owner.blocks);
        if !in_circle || !blocks {
            return Ok(());
        }
        let Some(live) = api.get_opt(&node.identity.name).await? else { return Ok(()) };
        let mut references = live.metadata.owner_references.unwrap_or_default();
        references.iter_mut().for_each(|reference| reference.block_owner_deletion = Some(false));
        let patch = json!({"metadata": {
            "uid": live.metadata.uid,
            "resourceVersion": live.metadata.resource_version,
            "ownerReferences": references,
        }});
        ignore_not_found(api.patch(&node.identity.name, &PatchParams::default(), &Patch::Merge(patch)).await)?;
        // The delete that follows names the old revision; the next try names the new one.
        Err(Error::Changed(node.identity.name.to_string()))
    }

    fn not_found(&self, identity: &Identity) {
        let mut tasks = Vec::new();
        self.graph().not_found(identity, &mut tasks);
        self.enqueue(tasks);
    }
}

fn version(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

fn waits_for_dependents(meta: &ObjectMeta) -> bool {
    meta.deletion_timestamp.is_some() && meta.finalizers.iter().flatten().any(|found| found == FOREGROUND_FINALIZER)
}

fn owners(meta: &ObjectMeta) -> Vec<Owner> {
    let references = meta.owner_references.iter().flatten();
    let owner = references.map(|reference| Owner {
        api_version: Arc::from(reference.api_version.as_str()),
        kind: Arc::from(reference.kind.as_str()),
        name: Arc::from(reference.name.as_str()),
        uid: Arc::from(reference.uid.as_str()),
        blocks: reference.block_owner_deletion == Some(true),
    });
    owner.collect()
}
