//! An object of a fixed name that every active namespace must have: which namespaces lack it.
//!
//! Fed by what is seen of namespaces and of the objects, it queues each active namespace without a good object, also
//! when an object disappears or is changed for the worse later.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::monitor::Change;
use crate::work_queue::WorkQueue;

/// See the module.
pub(crate) struct PerNamespace {
    state: Mutex<State>,
    pub queue: WorkQueue<Arc<str>>,
}

#[derive(Default)]
struct State {
    namespaces: HashMap<Arc<str>, Entry>,
    namespaces_listed: bool,
    objects_listed: bool,
}

/// What is known of a namespace; each half can be seen first.
#[derive(Default)]
struct Entry {
    active: bool,
    satisfied: bool,
    /// Whether the list under way has shown the namespace, or the object.
    namespace_listed: bool,
    object_listed: bool,
}

impl PerNamespace {
    pub fn new() -> Self {
        PerNamespace { state: Mutex::default(), queue: WorkQueue::new() }
    }

    /// Something was seen on the watch of namespaces.
    pub fn namespace_changed(&self, change: Change<'_>) {
        let mut state = self.lock();
        match change {
            Change::ListStarted => state.namespaces.values_mut().for_each(|entry| entry.namespace_listed = false),
            Change::Present(meta) => {
                let active = meta.deletion_timestamp.is_none();
                let name = meta.name.as_deref().unwrap_or_default();
                state.change(name, |entry| {
                    entry.active = active;
                    entry.namespace_listed = true;
                });
                self.check(&state, name);
            }
            Change::Deleted(meta) => {
                state.change(meta.name.as_deref().unwrap_or_default(), |entry| entry.active = false);
            }
            Change::Listed => {
                let unseen = state.namespaces.values_mut().filter(|entry| !entry.namespace_listed);
                unseen.for_each(|entry| entry.active = false);
                state.namespaces_listed = true;
                self.check_all(&mut state);
            }
            Change::TypeRemoved => {}
        }
    }

    /// A list of the objects begins.
    pub fn object_list_started(&self) {
        self.lock().namespaces.values_mut().for_each(|entry| entry.object_listed = false);
    }

    /// The object in `namespace` exists; `good` says whether it is as it should be.
    pub fn object_present(&self, namespace: &str, good: bool) {
        let mut state = self.lock();
        state.change(namespace, |entry| {
            entry.satisfied = good;
            entry.object_listed = true;
        });
        self.check(&state, namespace);
    }

    /// The object in `namespace` is gone.
    pub fn object_deleted(&self, namespace: &str) {
        let mut state = self.lock();
        state.change(namespace, |entry| entry.satisfied = false);
        self.check(&state, namespace);
    }

    /// The list of the objects has ended.
    pub fn objects_listed(&self) {
        let mut state = self.lock();
        let unseen = state.namespaces.values_mut().filter(|entry| !entry.object_listed);
        unseen.for_each(|entry| entry.satisfied = false);
        state.objects_listed = true;
        self.check_all(&mut state);
    }

    /// Whether the namespace still needs work.
    pub fn is_lacking(&self, namespace: &str) -> bool {
        self.lock().namespaces.get(namespace).is_some_and(|entry| entry.active && !entry.satisfied)
    }

    fn check(&self, state: &State, namespace: &str) {
        // Before both were listed, everything would seem to be lacking.
        if !state.namespaces_listed || !state.objects_listed {
            return;
        }
        if let Some((name, entry)) = state.namespaces.get_key_value(namespace)
            && entry.active
            && !entry.satisfied
        {
            self.queue.add(name.clone());
        }
    }

    fn check_all(&self, state: &mut State) {
        state.namespaces.retain(|_, entry| entry.active || entry.satisfied);
        state.namespaces.keys().for_each(|name| self.check(state, name));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Entries are changed one by one; none is ever half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn change(&mut self, namespace: &str, change: impl FnOnce(&mut Entry)) {
        if !self.namespaces.contains_key(namespace) {
            self.namespaces.insert(Arc::from(namespace), Entry::default());
        }
        let Some(entry) = self.namespaces.get_mut(namespace) else { return };
        change(entry);
        if !entry.active && !entry.satisfied && self.namespaces_listed && self.objects_listed {
            self.namespaces.remove(namespace);
        }
    }
}

#[cfg(test)]
mod tests;
