//! The store contract: the trait both engines implement and the plain data that crosses it.
//!
//! Promises every engine keeps: an acknowledged transaction is durable; revisions only grow and are never reused, not
//! even after a crash; a watch delivers every change after its start revision exactly once, in revision order.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::Result;

/// A point on the store's clock. Every committed transaction that changes something takes the next one.
/// An empty store is at revision 1, like etcd's, so that 0 is free to mean "unset" in the Kubernetes API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Revision {
    /// The revision after this one.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// A key with its value as of some revision. Cloning is cheap: both parts are shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    pub key: Bytes,
    pub value: Bytes,
    /// When the key last came into being.
    pub create_revision: Revision,
    /// When the key was last written.
    pub mod_revision: Revision,
}

/// A half-open span of keys, `start <= key < end`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    pub start: Bytes,
    /// Exclusive; `None` is the end of the key space.
    pub end: Option<Bytes>,
}

impl KeyRange {
    /// All keys that begin with `prefix`.
    pub fn prefix(prefix: impl Into<Bytes>) -> Self {
        let start: Bytes = prefix.into();
        let end = prefix_end(&start);
        Self { start, end }
    }

    /// `key` and no other.
    pub fn single(key: impl Into<Bytes>) -> Self {
        let start: Bytes = key.into();
        Self { end: Some(key_after(&start)), start }
    }

    /// Whether `key` lies in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        key >= self.start.as_ref() && self.end.as_ref().is_none_or(|end| key < end.as_ref())
    }
}

/// The first key after `key`.
pub fn key_after(key: &[u8]) -> Bytes {
    [key, b"\0"].concat().into()
}

/// The first key after all keys that begin with `prefix`; `None` when there is none.
pub fn prefix_end(prefix: &[u8]) -> Option<Bytes> {
    let last = prefix.iter().rposition(|&b| b != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end.into())
}

/// What a range read asks for.
#[derive(Clone, Debug)]
pub struct RangeRequest {
    pub range: KeyRange,
    /// Read the state as of this revision; `None` is the newest, linearizably.
    pub at: Option<Revision>,
    /// At most this many entries; `None` is all.
    pub limit: Option<usize>,
}

/// Entries in key order, all as of one revision.
#[derive(Clone, Debug)]
pub struct RangeResponse {
    /// The revision the entries were read at.
    pub revision: Revision,
    pub entries: Vec<KeyValue>,
    /// How many keys the whole range holds at that revision, regardless of the limit.
    pub count: u64,
}

impl RangeResponse {
    /// Whether the limit cut the answer short.
    pub fn more(&self) -> bool {
        self.count > self.entries.len() as u64
    }
}

/// The condition on a key's present state under which an operation may go ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Whatever is there.
    Any,
    /// Nothing must be there.
    Absent,
    /// The key must have been last written at this revision.
    Modified(Revision),
}

/// One change within a transaction.
#[derive(Clone, Debug)]
pub enum Op {
    Put {
        key: Bytes,
        value: Bytes,
        expect: Expect,
        /// The key deletes itself after this long unless written again.
        ttl: Option<Duration>,
    },
    /// Deleting an absent key under [`Expect::Any`] changes nothing.
    Delete { key: Bytes, expect: Expect },
}

impl Op {
    pub fn key(&self) -> &Bytes {
        match self {
            Op::Put { key, .. } | Op::Delete { key, .. } => key,
        }
    }
}

/// How a transaction ended.
#[derive(Clone, Debug)]
pub enum TxnOutcome {
    /// All operations took effect at `revision` and are durable. When nothing changed it is the current revision.
    Committed { revision: Revision },
    /// An expectation did not hold; nothing took effect. `current` is the state of the first offending key.
    Conflict { key: Bytes, current: Option<KeyValue> },
}

/// What happened to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Put(KeyValue),
    Delete { key: Bytes, revision: Revision },
}

/// One change as a watcher sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub change: Change,
    /// The state before the change, if there was one and it is not compacted away.
    pub previous: Option<KeyValue>,
}

impl Event {
    pub fn key(&self) -> &Bytes {
        match &self.change {
            Change::Put(kv) => &kv.key,
            Change::Delete { key, .. } => key,
        }
    }

    pub fn revision(&self) -> Revision {
        match &self.change {
            Change::Put(kv) => kv.mod_revision,
            Change::Delete { revision, .. } => *revision,
        }
    }
}

/// What a watch stream yields.
#[derive(Clone, Debug)]
pub enum WatchItem {
    /// Changes in revision order; all changes of one revision are in one batch.
    Events(Vec<Event>),
    /// Everything up to and including this revision has been delivered.
    Progress(Revision),
}

/// A running watch. Dropping it ends the watch.
pub type WatchStream = futures::stream::BoxStream<'static, Result<WatchItem>>;

/// An ordered, versioned, watchable key space.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// The newest committed revision, linearizably.
    async fn revision(&self) -> Result<Revision>;

    /// The newest state of one key, with the revision it was read at.
    async fn get(&self, key: &[u8]) -> Result<(Revision, Option<KeyValue>)>;

    /// Entries of a range, now or at a past revision. [`Error::Compacted`] when that revision is gone,
    /// [`Error::FutureRevision`] when it has not happened yet.
    async fn range(&self, request: RangeRequest) -> Result<RangeResponse>;

    /// Applies all operations or none. Returns only after the outcome is durable. A dropped future may or may not
    /// have committed. A transaction may name a key only once.
    async fn txn(&self, ops: Vec<Op>) -> Result<TxnOutcome>;

    /// Follows changes in `range` with revisions `> after`. The stream yields [`Error::Compacted`] and ends when `after` is
    /// older than the compaction floor, and [`Error::SlowWatcher`] when the reader falls too far behind.
    async fn watch(&self, range: KeyRange, after: Revision) -> Result<WatchStream>;

    /// Asks that every open watch soon yields [`WatchItem::Progress`] at or above the current revision (consistent reads from caches).
    async fn request_progress(&self) -> Result<()>;

    /// Forgets history at and below `revision`, except what is current.
    async fn compact(&self, revision: Revision) -> Result<()>;

    /// The highest revision whose history is gone; reads and watches must start at or after it.
    async fn compacted(&self) -> Result<Revision>;
}
