//! Definitions that are being deleted while finalizers hold some of their instances: one metadata watch each tells when
//! the last has gone. Nothing is asked for in between, however long that takes.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::StreamExt;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt};
use tokio::task::JoinSet;

use crate::discovery::ResourceType;
use crate::header::Header;
use crate::monitor::is_type_gone;
use crate::work_queue::WorkQueue;

/// Instances per page of a watch's first list.
const PAGE_SIZE: u32 = 500;

/// See the module. Its watches end with it.
pub(super) struct Emptying {
    client: Client,
    /// Takes definitions that may be empty now.
    queue: Arc<WorkQueue<String>>,
    /// The definitions that are followed.
    followed: Arc<Mutex<HashSet<String>>>,
    watches: Mutex<JoinSet<()>>,
}

impl Emptying {
    pub fn new(client: Client, queue: Arc<WorkQueue<String>>) -> Self {
        Self { client, queue, followed: Arc::default(), watches: Mutex::default() }
    }

    /// Queues the definition `name` again when its instances have gone.
    pub fn follow(&self, name: String, instances: ResourceType) {
        if !lock(&self.followed).insert(name.clone()) {
            return;
        }
        let (client, queue, followed) = (self.client.clone(), self.queue.clone(), self.followed.clone());
        let mut watches = lock(&self.watches);
        while watches.try_join_next().is_some() {}
        watches.spawn(async move {
            emptied(client, &instances).await;
            lock(&followed).remove(&name);
            queue.add(name);
        });
    }
}

fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    // Both sets are changed in one call each, never half.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends when there are no instances, when there is one that nobody has asked to go, or when they are no longer served.
async fn emptied(client: Client, instances: &ResourceType) {
    let api: Api<Header> = Api::all_with(client, &instances.api);
    let config = watcher::Config::default().page_size(PAGE_SIZE);
    let mut events = watcher::watcher(api, config).default_backoff().boxed();
    let mut left: HashSet<String> = HashSet::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => left.clear(),
            Ok(Event::InitApply(instance) | Event::Apply(instance)) => {
                if instance.metadata.deletion_timestamp.is_none() {
                    return;
                }
                left.insert(instance.uid().unwrap_or_default());
            }
            Ok(Event::InitDone) if left.is_empty() => return,
            Ok(Event::InitDone) => {}
            Ok(Event::Delete(instance)) => {
                left.remove(&instance.uid().unwrap_or_default());
                if left.is_empty() {
                    return;
                }
            }
            Err(error) if is_type_gone(&error) => return,
            Err(error) => {
                tracing::debug!(resource = instances.group_resource(), %error, "watch of instances interrupted");
            }
        }
    }
}

#[cfg(test)]
mod tests;
