//! Checkpoints: snapshots that bound how much log recovery must replay, and the release of log they make superfluous.
//!
//! A checkpoint is taken at the compaction floor rather than at the newest revision: the log after it then holds
//! exactly the history that reads and watches may still ask for, and a restart forgets none of it. Two checkpoints are
//! kept, and log is released only up to the older one, only after the newer one was read back and found intact.
//! A checkpoint that fails costs disk space and replay time, never data.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::disk::Disk;
use super::log::{SharedCatalog, lock_catalog, release_segments};
use super::segment::snapshot_name;
use super::shared::Shared;
use super::snapshot::{self, PAGE_KEYS, SnapshotHeader, SnapshotKind};
use crate::{Error, Result, Revision};

/// Snapshots kept, so that damage to one does not lose anything.
const SNAPSHOTS_KEPT: usize = 2;
/// When the log has grown to this many times what a checkpoint is due at, and the floor has not moved because history
/// is young but bulky, the checkpoint is taken at the newest revision: recovery time counts more than old history.
const OVERDUE_FACTOR: u64 = 4;

/// See the module.
#[derive(Debug)]
pub(super) struct Checkpointer {
    shared: Arc<Shared>,
    disk: Arc<dyn Disk>,
    catalog: SharedCatalog,
    /// Newest first. Held while a checkpoint is under way, so there is one at a time.
    snapshots: Mutex<Vec<Revision>>,
    signal: Signal,
}

#[derive(Debug, Default)]
struct Signal {
    is_wanted: Mutex<bool>,
    changed: Condvar,
    is_stopped: AtomicBool,
}

/// What made a checkpoint due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    No,
    AtFloor,
    AtHead,
}

impl Checkpointer {
    pub fn new(
        shared: Arc<Shared>,
        disk: Arc<dyn Disk>,
        catalog: SharedCatalog,
        snapshots: Vec<Revision>,
    ) -> Arc<Self> {
        Arc::new(Self { shared, disk, catalog, snapshots: Mutex::new(snapshots), signal: Signal::default() })
    }

    /// Asks for a checkpoint if the log has grown enough. Called after every batch, so it is quick.
    pub fn poke(&self) {
        if self.log_bytes() >= self.shared.options.checkpoint_log_bytes_min && self.log_is_long() {
            let mut is_wanted = self.signal.is_wanted.lock().unwrap_or_else(PoisonError::into_inner);
            if !std::mem::replace(&mut *is_wanted, true) {
                self.signal.changed.notify_one();
            }
        }
    }

    /// Takes checkpoints when asked to, until stopped.
    pub fn run(&self) {
        loop {
            let is_wanted = self.signal.is_wanted.lock().unwrap_or_else(PoisonError::into_inner);
            let wait = |is_wanted: &mut bool| !*is_wanted && !self.is_stopped();
            let guard = self.signal.changed.wait_while(is_wanted, wait).unwrap_or_else(PoisonError::into_inner);
            drop(guard);
            if self.is_stopped() {
                return;
            }
            if let Err(error) = self.checkpoint_if_due()
                && !self.is_stopped()
            {
                tracing::warn!(%error, "checkpoint failed; the log is kept");
                // Not again before as much log again has been written.
                lock_catalog(&self.catalog).bytes_since_checkpoint = 0;
            }
            *self.signal.is_wanted.lock().unwrap_or_else(PoisonError::into_inner) = false;
        }
    }

    /// Breaks off a checkpoint under way and ends [`Checkpointer::run`].
    pub fn stop(&self) {
        self.signal.is_stopped.store(true, Ordering::SeqCst);
        // With the lock, or the thread could miss it between looking and waiting.
        let _guard = self.signal.is_wanted.lock().unwrap_or_else(PoisonError::into_inner);
        self.signal.changed.notify_all();
    }

    fn is_stopped(&self) -> bool {
        self.signal.is_stopped.load(Ordering::SeqCst)
    }

    fn log_bytes(&self) -> u64 {
        lock_catalog(&self.catalog).bytes_since_checkpoint
    }

    fn due_bytes(&self) -> u64 {
        let options = &self.shared.options;
        let share = self.shared.state().live_bytes() / 100 * options.checkpoint_log_percent_min;
        options.checkpoint_log_bytes_min.max(share)
    }

    fn log_is_long(&self) -> bool {
        self.log_bytes() >= self.due_bytes()
    }

    fn lock_snapshots(&self) -> MutexGuard<'_, Vec<Revision>> {
        self.snapshots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn due(&self, last: Option<Revision>) -> Due {
        let (log_bytes, due_bytes) = (self.log_bytes(), self.due_bytes());
        if log_bytes < due_bytes {
            Due::No
        } else if last.is_none_or(|last| self.shared.state().floor() > last)
            && self.shared.state().floor() > Revision(0)
        {
            Due::AtFloor
        } else if log_bytes >= due_bytes.saturating_mul(OVERDUE_FACTOR) {
            Due::AtHead
        } else {
            Due::No
        }
    }

    fn checkpoint_if_due(&self) -> Result<()> {
        let mut snapshots = self.lock_snapshots();
        let at = match self.due(snapshots.first().copied()) {
            Due::No => return Ok(()),
            Due::AtFloor => self.shared.state().floor(),
            Due::AtHead => self.shared.state().revision(),
        };
        self.write(&mut snapshots, at)
    }

    /// Takes a checkpoint at the floor now, or at the newest revision, whether or not it is due.
    #[cfg(test)]
    pub fn checkpoint_now(&self, at: Revision) -> Result<()> {
        self.write(&mut self.lock_snapshots(), at)
    }

    fn write(&self, snapshots: &mut Vec<Revision>, at: Revision) -> Result<()> {
        if snapshots.first().is_some_and(|last| at <= *last) {
            return Ok(());
        }
        // The floor may have moved on since `at` was read; what a pin protects must still be there.
        let (at, pin) = {
            let state = self.shared.state();
            let at = at.max(state.floor());
            (at, state.pin(at))
        };
        let log_bytes = self.log_bytes();
        let header = SnapshotHeader {
            kind: SnapshotKind::Checkpoint,
            revision: at,
            created_ms: self.shared.options.clock.now_ms(),
        };
        let name = snapshot_name(at);
        let disk = &*self.disk;
        snapshot::write(disk, &name, header, |start| {
            (!self.is_stopped()).then(|| self.shared.state().page(start, at, PAGE_KEYS))
        })?;
        drop(pin);
        snapshot::verify(disk, &name).inspect_err(|_| {
            // Should this fail, recovery finds the damage again.
            let _ = disk.remove(&name);
        })?;
        snapshots.insert(0, at);
        let mut catalog = lock_catalog(&self.catalog);
        catalog.bytes_since_checkpoint = catalog.bytes_since_checkpoint.saturating_sub(log_bytes);
        drop(catalog);
        self.release(snapshots).map_err(|error| {
            Error::Unavailable(format!("cannot remove superseded files in {}: {error}", disk.location()))
        })
    }

    fn release(&self, snapshots: &mut Vec<Revision>) -> std::io::Result<()> {
        let Some(older) = snapshots.get(SNAPSHOTS_KEPT - 1).copied() else { return Ok(()) };
        while snapshots.len() > SNAPSHOTS_KEPT
            && let Some(superseded) = snapshots.last()
        {
            self.disk.remove(&snapshot_name(*superseded))?;
            snapshots.pop();
        }
        release_segments(&*self.disk, &self.catalog, older, self.shared.options.recycled_segments_max)
    }
}
