//! The embedded engine: an append-only log with group commit, an ordered index in memory, and verified snapshots.
//!
//! All data is in memory; the disk is for durability. A transaction goes through [`queue`] to the one [`committer`]
//! thread, which checks it against the [`state`], writes it with its neighbours as one [`frame`] of the [`log`], syncs
//! once, applies it and wakes the [`watch`]es. [`recovery`] is the way back, from the newest [`snapshot`] and the log
//! after it; [`checkpoint`] writes those snapshots and lets go of the log they cover.
//!
//! What happens when the disk misbehaves: no room is noticed while reserving it, before anything is written, and only
//! refuses the transaction at hand ([`Error::NoSpace`]). Any failed write or sync poisons the store: it refuses
//! everything from then on, [`EmbeddedStore::failed`] returns, and the process should end and recover.

mod backup;
mod checkpoint;
mod clock;
mod committer;
mod disk;
mod expiry;
mod fault;
mod frame;
mod history;
mod index;
mod log;
mod options;
mod queue;
mod recovery;
mod segment;
mod shared;
mod snapshot;
mod state;
mod watch;

#[cfg(test)]
mod sim_disk;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use tokio::sync::oneshot;

pub use backup::{DirStatus, restore, save_from_dir, status, verify};
pub use clock::{Clock, SystemClock};
pub use disk::{Access, Disk, DiskFile, DiskLock, RealDisk};
pub use options::Options;
pub use snapshot::SnapshotStatus;

use checkpoint::Checkpointer;
use committer::Committer;
use history::Retention;
use log::{AppendError, Log};
use queue::Request;
use recovery::{Depth, Mode};
use shared::Shared;
use watch::Watch;

use crate::{
    Error, KeyRange, KeyValue, Op, RangeRequest, RangeResponse, Result, Revision, Store, TxnOutcome, WatchStream,
};

/// A store in a directory of its own. Dropping it finishes what was submitted and gives up the directory.
#[derive(Debug)]
pub struct EmbeddedStore {
    shared: Arc<Shared>,
    checkpointer: Arc<Checkpointer>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Given up last, after the threads have ended.
    lock: Mutex<Option<DiskLock>>,
}

/// What a store holds at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    pub revision: Revision,
    /// The oldest revision that can still be read.
    pub compacted: Revision,
    pub key_count: u64,
    /// Bytes of live keys and values.
    pub live_bytes: u64,
    /// Changes kept as history.
    pub history_changes: usize,
    /// Bytes of superseded keys and values kept as history.
    pub history_bytes: u64,
}

/// The parts of a store before its threads run.
#[derive(Debug)]
struct Engine {
    shared: Arc<Shared>,
    committer: Committer,
    checkpointer: Arc<Checkpointer>,
    lock: DiskLock,
}

impl Engine {
    fn open(disk: Arc<dyn Disk>, options: Options) -> Result<Self> {
        let lock = disk.lock().map_err(|error| lock_error(&*disk, &error))?;
        let recovered = recovery::recover(&*disk, Mode::Repair, Depth::Needed, &Retention::new(&options))?;
        if let Some(at) = &recovered.torn {
            tracing::warn!(at, "removed the remains of a commit that was cut off by a crash");
        }
        let catalog = Arc::new(Mutex::new(recovered.catalog));
        let base = recovered.state.revision();
        let log = Log::open(Arc::clone(&disk), Arc::clone(&catalog), recovered.tail, base, &options);
        let log = log.map_err(|error| match error {
            AppendError::NoSpace(reason) => Error::NoSpace(reason),
            AppendError::Failed(reason) => Error::Unavailable(reason),
        })?;
        let shared = Shared::new(recovered.state, options);
        let committer = Committer::new(Arc::clone(&shared), log);
        let checkpointer = Checkpointer::new(Arc::clone(&shared), disk, catalog, recovered.snapshots);
        Ok(Self { shared, committer, checkpointer, lock })
    }
}

impl EmbeddedStore {
    /// Opens the store in `dir`, creating it if there is none. Blocks while it reads the data.
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Arc<Self>> {
        let dir = dir.as_ref();
        let disk = RealDisk::create_dir(dir)
            .map_err(|error| Error::Unavailable(format!("cannot create {}: {error}", dir.display())))?;
        Self::open_disk(Arc::new(disk), options)
    }

    /// Opens the store on any [`Disk`].
    pub fn open_disk(disk: Arc<dyn Disk>, options: Options) -> Result<Arc<Self>> {
        let Engine { shared, committer, checkpointer, lock } = Engine::open(disk, options)?;
        let store = Self {
            shared,
            checkpointer: Arc::clone(&checkpointer),
            threads: Mutex::default(),
            lock: Mutex::new(Some(lock)),
        };
        let poked = Arc::clone(&checkpointer);
        store.spawn("store-commit", move || committer.run(|| poked.poke()))?;
        store.spawn("store-checkpoint", move || checkpointer.run())?;
        Ok(Arc::new(store))
    }

    fn spawn(&self, name: &str, body: impl FnOnce() + Send + 'static) -> Result<()> {
        let thread = std::thread::Builder::new().name(name.into()).spawn(body);
        let thread = thread.map_err(|error| Error::Unavailable(format!("cannot start a thread: {error}")))?;
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        Ok(())
    }

    /// Finishes what was submitted, refuses everything after, and gives up the directory. Blocks until done.
    pub fn close(&self) {
        self.shared.queue.close();
        self.checkpointer.stop();
        for thread in self.threads.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // A panic in there has already been reported by the panic hook.
            let _ = thread.join();
        }
        self.lock.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Returns once the store has become unusable, with the reason. The process should then end.
    pub async fn failed(&self) -> Error {
        self.shared.fault.wait().await
    }

    /// Sizes, for metrics and curiosity.
    pub fn stats(&self) -> Stats {
        let state = self.shared.state();
        let everything = KeyRange { start: Bytes::new(), end: None };
        Stats {
            revision: state.revision(),
            compacted: state.floor(),
            key_count: state.count(&everything, state.revision()),
            live_bytes: state.live_bytes(),
            history_changes: state.history().len(),
            history_bytes: state.history().superseded_bytes(),
        }
    }

    async fn submit<T>(&self, request: Request, reply: oneshot::Receiver<Result<T>>) -> Result<T> {
        self.shared.fault.check()?;
        self.shared.queue.push(request)?;
        match reply.await {
            Ok(result) => result,
            // The committer went without an answer.
            Err(_) => Err(self.shared.fault.check().err().unwrap_or(Error::Closed)),
        }
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        self.close();
    }
}

#[async_trait]
impl Store for EmbeddedStore {
    async fn revision(&self) -> Result<Revision> {
        self.shared.fault.check()?;
        Ok(self.shared.head())
    }

    async fn get(&self, key: &[u8]) -> Result<(Revision, Option<KeyValue>)> {
        self.shared.fault.check()?;
        let state = self.shared.state();
        Ok((state.revision(), state.get(key)))
    }

    async fn range(&self, request: RangeRequest) -> Result<RangeResponse> {
        self.shared.fault.check()?;
        self.shared.range(request).await
    }

    async fn txn(&self, ops: Vec<Op>) -> Result<TxnOutcome> {
        check_ops(&ops, self.shared.options.txn_bytes_max)?;
        let (sender, reply) = oneshot::channel();
        self.submit(Request::Txn { ops, reply: Some(sender) }, reply).await
    }

    async fn watch(&self, range: KeyRange, after: Revision) -> Result<WatchStream> {
        self.shared.fault.check()?;
        Ok(Watch::new(Arc::clone(&self.shared), range, after).boxed())
    }

    async fn request_progress(&self) -> Result<()> {
        self.shared.fault.check()?;
        self.shared.request_progress();
        Ok(())
    }

    async fn compact(&self, revision: Revision) -> Result<()> {
        let (sender, reply) = oneshot::channel();
        self.submit(Request::Compact { revision, reply: sender }, reply).await
    }

    async fn compacted(&self) -> Result<Revision> {
        self.shared.fault.check()?;
        Ok(self.shared.state().floor())
    }
}

/// Refuses what no store could serve.
fn check_ops(ops: &[Op], bytes_max: usize) -> Result<()> {
    let op_bytes = |op: &Op| match op {
        Op::Put { key, value, .. } => key.len() + value.len(),
        Op::Delete { key, .. } => key.len(),
    };
    let bytes: usize = ops.iter().map(op_bytes).sum();
    if bytes > bytes_max {
        return Err(Error::InvalidRequest(format!("transaction of {bytes} bytes is over the limit of {bytes_max}")));
    }
    let mut seen = HashSet::new();
    if ops.len() > 1
        && let Some(op) = ops.iter().find(|op| !seen.insert(op.key()))
    {
        let key = String::from_utf8_lossy(op.key()).into_owned();
        return Err(Error::InvalidRequest(format!("transaction names key {key:?} more than once")));
    }
    Ok(())
}

fn lock_error(disk: &dyn Disk, error: &std::io::Error) -> Error {
    let dir = disk.location();
    if error.kind() == std::io::ErrorKind::WouldBlock {
        return Error::Unavailable(format!("data directory {dir} is in use by another process"));
    }
    Error::Unavailable(format!("cannot lock data directory {dir}: {error}"))
}
