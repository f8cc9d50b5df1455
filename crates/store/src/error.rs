//! What can go wrong in a store, by what the caller can do about it.

use crate::Revision;

/// A failed store operation.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The asked-for history is gone: read anew and watch from there.
    #[error("revision {requested} has been compacted (oldest available is {compacted})")]
    Compacted { requested: Revision, compacted: Revision },
    /// The asked-for revision has not happened yet: wait or ask for less.
    #[error("revision {requested} is in the future (current is {current})")]
    FutureRevision { requested: Revision, current: Revision },
    /// The watcher did not keep up: resume from the last revision it saw.
    #[error("watcher fell behind and was closed")]
    SlowWatcher,
    /// The request itself cannot be served: a duplicate key in a transaction, a value over the limit.
    #[error("invalid request: {0}")]
    InvalidRequest(String),
    /// No room left; reads go on.
    #[error("out of space: {0}")]
    NoSpace(String),
    /// The backend does not answer; the operation may or may not have happened.
    #[error("store unavailable: {0}")]
    Unavailable(String),
    /// The data on disk is damaged, or a write failed in a way that leaves its state unknown. The store refuses everything.
    #[error("store is corrupt or poisoned: {0}")]
    Corrupt(String),
    /// A stored value cannot be decrypted or a new one not encrypted; others can.
    #[error("{0}")]
    Transform(String),
    /// The store has been closed.
    #[error("store is closed")]
    Closed,
}
