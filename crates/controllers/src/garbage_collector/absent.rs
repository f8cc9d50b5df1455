//! Owners that a request has shown not to exist. Uids are never used again, so what is absent stays absent; the memory
//! is bounded, and what falls out of it is asked for again.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};

use super::graph::Identity;

/// Owners remembered: enough for every dependent of a few hundred owners deleted together.
const CAPACITY: usize = 512;

/// See the module.
#[derive(Default)]
pub(crate) struct AbsentOwners(Mutex<Memory>);

#[derive(Default)]
struct Memory {
    known: HashSet<Identity>,
    oldest_first: VecDeque<Identity>,
}

impl AbsentOwners {
    pub fn contains(&self, identity: &Identity) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).known.contains(identity)
    }

    pub fn add(&self, identity: Identity) {
        let mut memory = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !memory.known.insert(identity.clone()) {
            return;
        }
        memory.oldest_first.push_back(identity);
        if memory.oldest_first.len() > CAPACITY
            && let Some(oldest) = memory.oldest_first.pop_front()
        {
            memory.known.remove(&oldest);
        }
    }
}
