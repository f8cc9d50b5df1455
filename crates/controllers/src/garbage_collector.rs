//! Deletes what has lost its last owner, and carries out foreground and orphaning deletion.
//!
//! The [`graph`] is fed by the watches; [`collect`] acts on what it says should be looked at. Nothing is deleted on the
//! word of the graph alone: that an owner is gone is verified by a request first, and each delete names the uid and the
//! revision it is meant for.

mod absent;
mod collect;
mod graph;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::Client;
use tokio::sync::watch;

use self::absent::AbsentOwners;
use self::graph::{Deletion, Graph, Task, Uid};
use crate::discovery::{Discovery, ResourceType};
use crate::monitor::{Change, Observer};
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
    client: Client,
    discovery: Arc<Discovery>,
    graph: Mutex<Graph>,
    absent: AbsentOwners,
    to_delete: WorkQueue<Uid>,
    to_orphan: WorkQueue<Uid>,
}

impl GarbageCollector {
    pub fn new(client: Client, discovery: Arc<Discovery>) -> Self {
        GarbageCollector {
            client,
            discovery,
            graph: Mutex::default(),
            absent: AbsentOwners::default(),
            to_delete: WorkQueue::new(),
            to_orphan: WorkQueue::new(),
        }
    }

    /// Works forever, once every type has been listed: before that, a dependent may be unknown.
    pub async fn run(&self, mut all_listed: watch::Receiver<bool>) {
        let listed = tokio::time::timeout(FIRST_LIST_TIMEOUT, all_listed.wait_for(|listed| *listed));
        if listed.await.is_err() {
            tracing::warn!("some types could not be listed; garbage collection starts without them");
        }
        let deleting =
            self.to_delete.work("garbage-collector", WORKERS, |uid| async move { self.attempt_to_delete(&uid).await });
        let orphaning = self.to_orphan.work("garbage-collector", WORKERS, |uid| async move { self.orphan(&uid).await });
        tokio::join!(deleting, orphaning);
    }

    /// Looks at owners of unknown kind again, now that kinds may be known.
    pub fn types_changed(&self) {
        let unknown: Vec<Uid> = self.graph().virtual_nodes().map(|node| node.identity.uid.clone()).collect();
        unknown.into_iter().for_each(|uid| self.to_delete.add(uid));
    }

    fn graph(&self) -> MutexGuard<'_, Graph> {
        // Every update leaves the graph consistent before anything in it can panic.
        self.graph.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enqueue(&self, tasks: Vec<Task>) {
        for task in tasks {
            match task {
                Task::Delete(uid) => {
                    let waits = self.graph().node(&uid).is_some_and(|node| node.deletion == Deletion::Foreground);
                    if waits { self.to_delete.add_after(uid, SETTLE) } else { self.to_delete.add(uid) }
                }
                Task::Orphan(uid) => self.to_orphan.add_after(uid, SETTLE),
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
