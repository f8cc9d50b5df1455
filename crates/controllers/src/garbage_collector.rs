//! Deletes what has lost its last owner, and carries out foreground and orphaning deletion.
//!
//! The [`graph`] is fed by the watches; [`collect`] acts on what it says should be looked at. Nothing is deleted on the
//! word of the graph alone: that an owner is gone is verified by a request first, and each delete names the uid and the
//! revision it is meant for.

mod absent;
mod collect;
mod graph;
mod report;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::Client;
use tokio::sync::watch;

use self::absent::AbsentOwners;
pub(crate) use self::graph::Uid;
use self::graph::{Deletion, Graph, Misplaced, Task};
use crate::discovery::{Discovery, ResourceType};
use crate::error::Error;
use crate::monitor::{Change, Observer};
use crate::plane::{Plane, PlaneClient, PlaneQueue};
use crate::work_queue::WorkQueue;

/// Objects looked at at the same time. Most of the time is spent waiting for the server's disk, which serves many
/// writers with one sync.
const WORKERS: usize = 16;
/// Work starts this long after the start at the latest, even if some type could not be listed.
const FIRST_LIST_TIMEOUT: Duration = Duration::from_secs(30);
/// Between the deletion of an owner with a finalizer of ours and our work on it. Each type is watched on its own, so a
/// dependent made just before the deletion may be seen just after it.
const SETTLE: Duration = Duration::from_millis(100);

/// See the module.
pub(crate) struct GarbageCollector {
    client: PlaneClient,
    discovery: Arc<Discovery>,
    graph: Mutex<Graph>,
    absent: AbsentOwners,
    to_delete: PlaneQueue<Uid>,
    to_orphan: PlaneQueue<Uid>,
    /// Whether tasks are put off until a whole list has been seen.
    held: AtomicBool,
    /// Whether the types of a project may have changed since they were asked for.
    types_stale: AtomicBool,
    /// References to owners in other namespaces that nobody has been told about, by the uid of the dependent.
    misplaced: Mutex<HashMap<Uid, Misplaced>>,
}

impl GarbageCollector {
    pub fn new(client: Client, discovery: Arc<Discovery>) -> Self {
        let (to_delete, to_orphan) = (Arc::new(WorkQueue::new()), Arc::new(WorkQueue::new()));
        Self::of_plane(client.into(), discovery, &Plane::ROOT, &to_delete, &to_orphan)
    }

    /// The collector of one control plane among many, which share their queues. It works when somebody works on these.
    pub fn of_plane(
        client: PlaneClient,
        discovery: Arc<Discovery>,
        plane: &Plane,
        to_delete: &Arc<WorkQueue<(Plane, Uid)>>,
        to_orphan: &Arc<WorkQueue<(Plane, Uid)>>,
    ) -> Self {
        GarbageCollector {
            client,
            discovery,
            graph: Mutex::default(),
            absent: AbsentOwners::default(),
            to_delete: PlaneQueue::new(plane, to_delete),
            to_orphan: PlaneQueue::new(plane, to_orphan),
            held: AtomicBool::new(false),
            types_stale: AtomicBool::new(true),
            misplaced: Mutex::default(),
        }
    }

    /// Puts tasks off: what is seen from now on is part of a list.
    pub fn hold(&self) {
        self.held.store(true, Ordering::Release);
    }

    /// The list was seen: now it is known what is missing and what waits.
    pub fn release(&self) {
        self.held.store(false, Ordering::Release);
        let tasks = self.graph().unsettled();
        self.enqueue(tasks);
    }

    /// Whether nothing owns or is owned.
    pub fn is_idle(&self) -> bool {
        self.graph().is_empty()
    }

    /// Asks for the types if they may have changed. The root's are asked for by its monitor.
    pub async fn learn_types(&self) -> Result<(), Error> {
        if self.types_stale.swap(false, Ordering::AcqRel)
            && let Err(error) = self.discovery.refresh().await
        {
            self.types_stale.store(true, Ordering::Release);
            return Err(error);
        }
        Ok(())
    }

    /// Works forever, once every type has been listed: before that, a dependent may be unknown.
    pub async fn run(&self, mut all_listed: watch::Receiver<bool>) {
        let listed = tokio::time::timeout(FIRST_LIST_TIMEOUT, all_listed.wait_for(|listed| *listed));
        if listed.await.is_err() {
            tracing::warn!("some types could not be listed; garbage collection starts without them");
        }
        let deleting = self
            .to_delete
            .shared
            .work("garbage-collector", WORKERS, |(_, uid)| async move { self.attempt_to_delete(&uid).await });
        let orphaning =
            self.to_orphan.shared.work("garbage-collector", WORKERS, |(_, uid)| async move { self.orphan(&uid).await });
        tokio::join!(deleting, orphaning);
    }

    /// Looks at owners of unknown kind again, now that kinds may be known.
    pub fn types_changed(&self) {
        self.types_stale.store(true, Ordering::Release);
        let unknown: Vec<Uid> = self.graph().virtual_nodes().map(|node| node.identity.uid.clone()).collect();
        unknown.into_iter().for_each(|uid| self.to_delete.add(uid));
    }

    fn graph(&self) -> MutexGuard<'_, Graph> {
        // Every update leaves the graph consistent before anything in it can panic.
        self.graph.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enqueue(&self, tasks: Vec<Task>) {
        if self.held.load(Ordering::Acquire) {
            return;
        }
        for task in tasks {
            match task {
                Task::Delete(uid) => {
                    let waits = self.graph().node(&uid).is_some_and(|node| node.deletion == Deletion::Foreground);
                    if waits { self.to_delete.add_after(uid, SETTLE) } else { self.to_delete.add(uid) }
                }
                Task::Orphan(uid) => self.to_orphan.add_after(uid, SETTLE),
                // Told by whoever works on the dependent, which is looked at next.
                Task::Misplaced(found) => {
                    let mut misplaced = self.misplaced.lock().unwrap_or_else(PoisonError::into_inner);
                    misplaced.insert(found.dependent.uid.clone(), found);
                }
            }
        }
    }
}

impl Observer for GarbageCollector {
    fn observe(&self, resource: &Arc<ResourceType>, change: Change<'_>) {
        let mut tasks = Vec::new();
        {
            let mut graph = self.graph();
            match change {
                Change::ListStarted => graph.list_started(resource),
                Change::Present(meta) => graph.present(resource, meta, &mut tasks),
                Change::Deleted(meta) => graph.gone(meta.uid.as_deref().unwrap_or_default(), &mut tasks),
                Change::Listed => graph.listed(resource, &mut tasks),
                Change::TypeRemoved => graph.type_removed(resource, &mut tasks),
            }
        }
        self.enqueue(tasks);
        if matches!(change, Change::Listed) {
            self.types_changed();
        }
    }
}
