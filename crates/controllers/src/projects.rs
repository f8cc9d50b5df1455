//! The generic controllers for all projects at once.
//!
//! One stream ([`stream`]) tells what happens in every project; what it calls for goes into one queue that a few workers
//! share, and each piece of work finds out through the project's own API what is to be done. Nothing is kept of a project
//! in which nothing is under way: of namespaces only those being deleted, of quotas their names, of objects those that own
//! or are owned.

mod gone;
mod initial;
mod stream;
mod work;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use tokio::sync::watch;

use self::gone::Asked;
use self::stream::{Kind, Seen};
use self::work::Work;
use crate::Controller;
use crate::discovery::{Discovery, ResourceType};
use crate::garbage_collector::{GarbageCollector, Uid};
use crate::monitor::{Change, Observer};
use crate::plane::{Plane, PlaneClient};
use crate::work_queue::WorkQueue;

/// Pieces of work done at the same time, for all projects together.
const WORKERS: usize = 16;
/// Between a change and the work it calls for where many changes tend to come at once.
const COALESCE: Duration = Duration::from_millis(50);
/// The name of the map with the server's CA.
const CA_BUNDLE: &str = "kube-root-ca.crt";

/// See the module.
pub(crate) struct ProjectControllers {
    root: Client,
    controllers: HashSet<Controller>,
    root_ca: Option<String>,
    namespace_deletion_grace: Duration,
    queue: WorkQueue<Work>,
    to_delete: Arc<WorkQueue<(Plane, Uid)>>,
    to_orphan: Arc<WorkQueue<(Plane, Uid)>>,
    /// Of projects with objects that own or are owned.
    collectors: Mutex<HashMap<Plane, Arc<GarbageCollector>>>,
    state: Mutex<State>,
}

/// What is under way.
#[derive(Default)]
struct State {
    /// Namespaces being deleted.
    terminating: HashSet<(Plane, String)>,
    /// Projects with a definition that waits for its instances to go.
    emptying: HashSet<Plane>,
    /// The names of the quotas of a namespace.
    quotas: HashMap<(Plane, String), BTreeSet<String>>,
    /// Projects whose API is being asked something.
    asked: HashMap<Plane, Asked>,
}

impl ProjectControllers {
    pub fn new(root: Client, options: &crate::Options) -> Self {
        Self {
            root,
            controllers: options.controllers.iter().copied().collect(),
            root_ca: options.root_ca.clone(),
            namespace_deletion_grace: options.namespace_deletion_grace,
            queue: WorkQueue::new(),
            to_delete: Arc::new(WorkQueue::new()),
            to_orphan: Arc::new(WorkQueue::new()),
            collectors: Mutex::default(),
            state: Mutex::default(),
        }
    }

    /// Works forever.
    pub async fn run(&self) {
        let (listed_sender, mut listed) = watch::channel(false);
        let working = async {
            // Before everything was seen, a dependent may be unknown.
            if listed.wait_for(|listed| *listed).await.is_err() {
                return std::future::pending().await;
            }
            let performing = self.queue.work("projects", WORKERS, |work| async move { self.perform(work).await });
            let deleting = self
                .to_delete
                .work("projects-gc", WORKERS, |(plane, uid)| async move { self.collect(&plane, &uid).await });
            let orphaning = self
                .to_orphan
                .work("projects-gc", WORKERS, |(plane, uid)| async move { self.orphan(&plane, &uid).await });
            tokio::join!(performing, deleting, orphaning);
        };
        tokio::join!(self.follow(listed_sender), working);
    }

    fn runs(&self, controller: Controller) -> bool {
        self.controllers.contains(&controller)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Entries are changed one by one; none is ever half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn collectors(&self) -> MutexGuard<'_, HashMap<Plane, Arc<GarbageCollector>>> {
        self.collectors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything known is forgotten; what exists is about to be told.
    fn restart(&self) {
        *self.state() = State::default();
        self.collectors().clear();
    }

    /// Something happened in a project.
    fn changed(&self, plane: &Plane, seen: &Seen) {
        self.told(plane);
        let (meta, kind) = (&seen.meta, seen.kind);
        let name = meta.name.clone().unwrap_or_default();
        let namespace = meta.namespace.clone().unwrap_or_default();
        match (seen.resource.api.group.as_str(), seen.resource.api.plural.as_str()) {
            ("", "namespaces") => self.namespace_changed(plane, &name, meta, kind),
            ("", "serviceaccounts") if name == "default" && kind == Kind::Deleted => {
                self.want(Controller::ServiceAccount, Work::Account(plane.clone(), namespace.clone()), Duration::ZERO);
            }
            ("", "configmaps") if name == CA_BUNDLE && kind != Kind::Added => {
                self.want(Controller::RootCa, Work::Bundle(plane.clone(), namespace.clone()), Duration::ZERO);
            }
            ("", "resourcequotas") => self.quota_changed(plane, &namespace, &name, kind),
            ("apiextensions.k8s.io", "customresourcedefinitions") => {
                let work = Work::Definitions(plane.clone());
                self.want(Controller::CustomResourceDefinition, work, Duration::ZERO);
                if let Some(collector) = self.collectors().get(plane) {
                    collector.types_changed();
                }
            }
            ("rbac.authorization.k8s.io", "clusterroles") => {
                self.want(Controller::ClusterRoleAggregation, Work::Roles(plane.clone()), COALESCE);
            }
            ("admissionregistration.k8s.io", "validatingadmissionpolicies") if kind != Kind::Deleted => {
                self.want(Controller::PolicyStatus, Work::Policy(plane.clone(), name), Duration::ZERO);
            }
            _ => {}
        }
        if kind == Kind::Deleted && self.state().emptying.contains(plane) {
            let work = Work::Definitions(plane.clone());
            self.want(Controller::CustomResourceDefinition, work, COALESCE);
        }
        if kind == Kind::Deleted && !namespace.is_empty() {
            self.left(plane, namespace);
        }
        self.relate(plane, seen);
    }

    fn want(&self, controller: Controller, work: Work, delay: Duration) {
        if !self.runs(controller) {
            return;
        }
        match delay {
            Duration::ZERO => self.queue.add(work),
            delay => self.queue.add_after(work, delay),
        }
    }

    fn namespace_changed(&self, plane: &Plane, name: &str, meta: &ObjectMeta, kind: Kind) {
        let key = (plane.clone(), name.to_owned());
        if kind == Kind::Deleted {
            self.state().terminating.remove(&key);
        } else if meta.deletion_timestamp.is_some() {
            // Later changes are mostly our own conditions; what matters then is what happens inside.
            if self.state().terminating.insert(key.clone()) {
                self.want(Controller::Namespace, Work::Namespace(key.0, key.1), self.namespace_deletion_grace);
            }
        } else {
            // One of that name may have gone with its project, which is not told.
            self.state().terminating.remove(&key);
            if kind == Kind::Added {
                self.want(Controller::ServiceAccount, Work::Account(key.0.clone(), key.1.clone()), Duration::ZERO);
                self.want(Controller::RootCa, Work::Bundle(key.0, key.1), Duration::ZERO);
            }
        }
    }

    fn quota_changed(&self, plane: &Plane, namespace: &str, name: &str, kind: Kind) {
        let key = (plane.clone(), namespace.to_owned());
        let mut state = self.state();
        if kind == Kind::Deleted {
            if let Some(names) = state.quotas.get_mut(&key) {
                names.remove(name);
                if names.is_empty() {
                    state.quotas.remove(&key);
                }
            }
            return;
        }
        state.quotas.entry(key).or_default().insert(name.to_owned());
        drop(state);
        let work = Work::Quota(plane.clone(), namespace.to_owned(), name.to_owned());
        self.want(Controller::ResourceQuota, work, COALESCE);
    }

    /// Something went from a namespace.
    fn left(&self, plane: &Plane, namespace: String) {
        let key = (plane.clone(), namespace);
        let (terminating, quotas) = {
            let state = self.state();
            (state.terminating.contains(&key), state.quotas.get(&key).cloned().unwrap_or_default())
        };
        for quota in quotas {
            let work = Work::Quota(key.0.clone(), key.1.clone(), quota);
            self.want(Controller::ResourceQuota, work, COALESCE);
        }
        if terminating {
            self.want(Controller::Namespace, Work::Namespace(key.0, key.1), COALESCE);
        }
    }

    /// Tells the project's garbage collector, if it has one or needs one.
    fn relate(&self, plane: &Plane, seen: &Seen) {
        if !self.runs(Controller::GarbageCollector) || is_event(&seen.resource) {
            return;
        }
        let known = self.collectors().get(plane).cloned();
        let collector = match known {
            Some(collector) => collector,
            None if seen.kind != Kind::Deleted && is_related(&seen.meta) => self.collector(plane),
            None => return,
        };
        let change = match seen.kind {
            Kind::Added | Kind::Modified => Change::Present(&seen.meta),
            Kind::Deleted => Change::Deleted(&seen.meta),
        };
        collector.observe(&seen.resource, change);
        if collector.is_idle() {
            self.collectors().remove(plane);
        }
    }

    fn collector(&self, plane: &Plane) -> Arc<GarbageCollector> {
        let make = || {
            let client = PlaneClient::of(&self.root, plane);
            let discovery = Arc::new(Discovery::new(client.clone()));
            Arc::new(GarbageCollector::of_plane(client, discovery, plane, &self.to_delete, &self.to_orphan))
        };
        self.collectors().entry(plane.clone()).or_insert_with(make).clone()
    }
}

/// Whether an object owns or is owned, as far as it shows itself.
fn is_related(meta: &ObjectMeta) -> bool {
    let waits = |finalizer: &String| matches!(finalizer.as_str(), "orphan" | "foregroundDeletion");
    meta.owner_references.as_ref().is_some_and(|owners| !owners.is_empty())
        || meta.deletion_timestamp.is_some() && meta.finalizers.iter().flatten().any(waits)
}

/// Events own nothing, nothing owns them, and there are too many.
fn is_event(resource: &ResourceType) -> bool {
    resource.api.plural == "events" && matches!(resource.api.group.as_str(), "" | "events.k8s.io")
}

#[cfg(test)]
mod tests;
