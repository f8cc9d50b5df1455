//! Objects that a control plane has without anybody having stored them: its default namespaces, roles and the like.
//!
//! They are *virtual until changed*: reads and watches show them like all others, the first change stores them, and a
//! deletion stores a tombstone in their place. So ten thousand control planes that nobody touches store nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

use bailiwick_store::{Expect, KeyRange, KeyValue, Op, Revision};
use bytes::Bytes;

/// Makes the objects when somebody looks at them.
type Make = Box<dyn Fn() -> Vec<(Bytes, Bytes)> + Send + Sync>;

/// The objects of one resource that are there from the start.
pub struct BaseObjects {
    /// Since when they exist: their resourceVersion until they are stored.
    pub revision: Revision,
    make: Make,
    made: OnceLock<BTreeMap<Bytes, KeyValue>>,
}

impl fmt::Debug for BaseObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BaseObjects").field("revision", &self.revision).finish_non_exhaustive()
    }
}

/// Whether an entry says that a base object was deleted.
pub(super) fn is_tombstone(kv: &KeyValue) -> bool {
    kv.value.is_empty()
}

impl BaseObjects {
    /// `make` tells keys and encoded objects; they have existed since `revision`.
    pub fn new(revision: Revision, make: impl Fn() -> Vec<(Bytes, Bytes)> + Send + Sync + 'static) -> Self {
        Self { revision, make: Box::new(make), made: OnceLock::new() }
    }

    fn entries(&self) -> &BTreeMap<Bytes, KeyValue> {
        self.made.get_or_init(|| {
            let entry = |(key, value): (Bytes, Bytes)| {
                let kv =
                    KeyValue { key: key.clone(), value, create_revision: self.revision, mod_revision: self.revision };
                (key, kv)
            };
            (self.make)().into_iter().map(entry).collect()
        })
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<&KeyValue> {
        self.entries().get(key)
    }

    /// Those that no stored entry, sorted by key, replaces.
    pub(super) fn not_among<'a>(&'a self, stored: &'a [KeyValue]) -> impl Iterator<Item = &'a KeyValue> {
        self.entries().values().filter(|base| stored.binary_search_by(|kv| kv.key.cmp(&base.key)).is_err())
    }

    /// A page of stored entries with the base objects that belong between them. `range` is what was asked for; if there
    /// is `more`, the page ends with its last entry.
    pub fn merged(&self, stored: Vec<KeyValue>, range: &KeyRange, more: bool) -> Vec<KeyValue> {
        let last = stored.last().map(|kv| kv.key.clone()).filter(|_| more);
        let within = |key: &Bytes| {
            *key >= range.start
                && range.end.as_ref().is_none_or(|end| key < end)
                && last.as_ref().is_none_or(|last| key <= last)
        };
        let mut merged: Vec<KeyValue> = self.not_among(&stored).filter(|kv| within(&kv.key)).cloned().collect();
        merged.extend(stored);
        merged.sort_by(|a, b| a.key.cmp(&b.key));
        merged
    }

    /// The expectation of a writer who has seen a base object, as the store understands it: nothing is stored yet.
    pub fn settle(&self, expect: Expect) -> Expect {
        match expect {
            Expect::Modified(revision) if revision == self.revision => Expect::Absent,
            other => other,
        }
    }

    /// Deletes an object: what is there from the start leaves a tombstone, or it would come back.
    pub fn delete(&self, key: Bytes, expect: Expect) -> Op {
        let expect = self.settle(expect);
        if self.get(&key).is_some() {
            Op::Put { key, value: Bytes::new(), expect, ttl: None }
        } else {
            Op::Delete { key, expect }
        }
    }

    /// Whether there is an object under this key from the start.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.get(key).is_some()
    }
}
