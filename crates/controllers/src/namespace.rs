//! Empties a namespace that is being deleted and then lets it go.
//!
//! Work on a namespace begins when its deletion is seen, and goes on whenever something in it disappears; until it is
//! empty, its status conditions say what is left and why.

mod conditions;
mod deletion;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::Client;

use crate::discovery::{Discovery, ResourceType};
use crate::monitor::{Change, Observer};
use crate::work_queue::WorkQueue;

/// Namespaces worked on at the same time.
const WORKERS: usize = 8;
/// Between something disappearing from a namespace and the next look at it, so that many at once cost one look.
const COALESCE: Duration = Duration::from_millis(50);

/// See the module.
pub(crate) struct Namespaces {
    client: Client,
    discovery: Arc<Discovery>,
    /// Between the deletion of a namespace and our work on it; see [`crate::Options::namespace_deletion_grace`].
    grace: Duration,
    /// Namespaces being deleted.
    terminating: Mutex<HashSet<Arc<str>>>,
    queue: WorkQueue<Arc<str>>,
}

impl Namespaces {
    pub fn new(client: Client, discovery: Arc<Discovery>, grace: Duration) -> Self {
        Namespaces { client, discovery, grace, terminating: Mutex::default(), queue: WorkQueue::new() }
    }

    /// Works forever.
    pub async fn run(&self) {
        self.queue.work("namespace", WORKERS, |name| async move { self.delete(&name).await }).await;
    }

    fn namespace_changed(&self, change: Change<'_>) {
        let mut terminating = self.terminating.lock().unwrap_or_else(PoisonError::into_inner);
        match change {
            Change::Present(meta) if meta.deletion_timestamp.is_some() => {
                let name: Arc<str> = Arc::from(meta.name.as_deref().unwrap_or_default());
                // Later changes are mostly our own conditions; what matters then is what happens inside.
                if terminating.insert(name.clone()) {
                    self.queue.add_after(name, self.grace);
                }
            }
            Change::Present(meta) | Change::Deleted(meta) => {
                terminating.remove(meta.name.as_deref().unwrap_or_default());
            }
            Change::ListStarted => terminating.clear(),
            Change::Listed | Change::TypeRemoved => {}
        }
    }
}

impl Observer for Namespaces {
    fn observe(&self, resource: &Arc<ResourceType>, change: Change<'_>) {
        if resource.is("", "namespaces") {
            return self.namespace_changed(change);
        }
        let terminating = self.terminating.lock().unwrap_or_else(PoisonError::into_inner);
        match change {
            Change::Deleted(meta) => {
                let name = terminating.get(meta.namespace.as_deref().unwrap_or_default());
                name.into_iter().for_each(|name| self.queue.add_after(name.clone(), COALESCE));
            }
            // Something may have disappeared unseen.
            Change::Listed | Change::TypeRemoved => {
                terminating.iter().for_each(|name| self.queue.add_after(name.clone(), COALESCE));
            }
            Change::ListStarted | Change::Present(_) => {}
        }
    }
}
