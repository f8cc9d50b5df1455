//! The append side of the log: one active segment, room reserved ahead of every write, one sync per append.
//!
//! An append either is durable when it returns, or was refused before a byte was written because there is no room
//! ([`AppendError::NoSpace`]), or leaves the disk in an unknown state ([`AppendError::Failed`]), which the caller must
//! treat as the end.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use super::disk::{Access, Disk, DiskFile};
use super::options::Options;
use super::segment::{SEGMENT_HEADER_LEN, SegmentHeader, recycled_name, segment_name, unfinished_name};
use crate::Revision;

/// Why an append did not happen.
#[derive(Debug)]
pub(super) enum AppendError {
    /// Nothing was written; a later try may find room.
    NoSpace(String),
    /// Nobody knows what was written.
    Failed(String),
}

/// A segment on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentInfo {
    pub number: u64,
    /// The newest revision before it.
    pub base: Revision,
}

/// Which segments exist: written by the log, pruned by checkpoints.
#[derive(Debug, Default)]
pub(super) struct Catalog {
    /// In order; the last is the active one.
    pub segments: Vec<SegmentInfo>,
    /// File names that may be reused.
    pub recycled: Vec<String>,
    /// Log written since the last checkpoint.
    pub bytes_since_checkpoint: u64,
}

/// The catalog as the log and the checkpointer share it.
pub(super) type SharedCatalog = Arc<Mutex<Catalog>>;

/// Locks the catalog. It holds plain data that no panic can leave half changed.
pub(super) fn lock_catalog(catalog: &SharedCatalog) -> std::sync::MutexGuard<'_, Catalog> {
    catalog.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where appending goes on after recovery.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tail {
    pub number: u64,
    pub stamp: u64,
    pub offset: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Log {
    disk: Arc<dyn Disk>,
    catalog: SharedCatalog,
    active: Active,
    segment_bytes: u64,
    reserve_step_bytes: u64,
}

#[derive(Debug)]
struct Active {
    file: Box<dyn DiskFile>,
    number: u64,
    stamp: u64,
    offset: u64,
    reserved: u64,
}

impl Log {
    /// Goes on at `tail`, or begins the first segment after `base`.
    pub fn open(
        disk: Arc<dyn Disk>,
        catalog: SharedCatalog,
        tail: Option<Tail>,
        base: Revision,
        options: &Options,
    ) -> Result<Self, AppendError> {
        let active = match tail {
            Some(Tail { number, stamp, offset }) => {
                let name = segment_name(number);
                let file = disk.open(&name, Access::ReadWrite).map_err(|error| failed("open", &name, &error))?;
                let reserved = file.byte_len().map_err(|error| failed("measure", &name, &error))?;
                Active { file, number, stamp, offset, reserved }
            }
            None => begin_segment(&*disk, &catalog, 1, base, options.clock.now_ms(), options.reserve_step_bytes)?,
        };
        Ok(Self {
            disk,
            catalog,
            active,
            segment_bytes: options.segment_bytes,
            reserve_step_bytes: options.reserve_step_bytes.max(1),
        })
    }

    /// Makes sure that a frame of `len` bytes will find room; begins the next segment if the active one is full.
    /// `base` is the newest revision so far. Returns the stamp the frame must carry.
    pub fn prepare(&mut self, len: usize, base: Revision, now_ms: u64) -> Result<u64, AppendError> {
        let is_empty = self.active.offset == SEGMENT_HEADER_LEN as u64;
        if self.active.offset + len as u64 > self.segment_bytes && !is_empty {
            let number = self.active.number + 1;
            self.active = begin_segment(&*self.disk, &self.catalog, number, base, now_ms, self.reserve_step_bytes)?;
        }
        let end = self.active.offset + len as u64;
        if end > self.active.reserved {
            let target = end.next_multiple_of(self.reserve_step_bytes);
            self.active.file.reserve(target).map_err(|error| self.refused("reserve room in", &error))?;
            self.active.reserved = target;
        }
        Ok(self.active.stamp)
    }

    /// Writes a frame for which [`Log::prepare`] made room, and syncs it.
    pub fn append(&mut self, frame: &[u8]) -> Result<(), AppendError> {
        let name = || segment_name(self.active.number);
        self.active.file.write_all_at(frame, self.active.offset).map_err(|error| failed("write", &name(), &error))?;
        self.active.file.sync_data().map_err(|error| failed("sync", &name(), &error))?;
        self.active.offset += frame.len() as u64;
        lock_catalog(&self.catalog).bytes_since_checkpoint += frame.len() as u64;
        Ok(())
    }

    fn refused(&self, doing: &str, error: &io::Error) -> AppendError {
        classify(doing, &segment_name(self.active.number), error)
    }
}

/// Creates a segment, or takes over a recycled file, and makes its name durable before anything is written to it.
fn begin_segment(
    disk: &dyn Disk,
    catalog: &SharedCatalog,
    number: u64,
    base: Revision,
    now_ms: u64,
    reserve_step_bytes: u64,
) -> Result<Active, AppendError> {
    let name = segment_name(number);
    let header = SegmentHeader { number, stamp: rand::random(), base, created_ms: now_ms };
    let recycled = lock_catalog(catalog).recycled.pop();
    let draft = recycled.clone().unwrap_or_else(|| unfinished_name(&name));
    let drafted = draft_segment(disk, &draft, recycled.is_some(), &header, reserve_step_bytes);
    let (file, reserved) = drafted.map_err(|error| {
        match recycled {
            Some(recycled) => lock_catalog(catalog).recycled.push(recycled),
            // Should this fail too, recovery removes the file.
            None => drop(disk.remove(&draft)),
        }
        classify("create", &name, &error)
    })?;
    file.sync_data().map_err(|error| failed("sync", &draft, &error))?;
    disk.rename(&draft, &name).map_err(|error| failed("rename", &draft, &error))?;
    disk.sync_dir().map_err(|error| failed("sync the directory of", &name, &error))?;
    lock_catalog(catalog).segments.push(SegmentInfo { number, base });
    Ok(Active { file, number, stamp: header.stamp, offset: SEGMENT_HEADER_LEN as u64, reserved })
}

fn draft_segment(
    disk: &dyn Disk,
    draft: &str,
    is_recycled: bool,
    header: &SegmentHeader,
    reserve_step_bytes: u64,
) -> io::Result<(Box<dyn DiskFile>, u64)> {
    let file = if is_recycled { disk.open(draft, Access::ReadWrite)? } else { disk.create(draft)? };
    let reserved = file.byte_len()?.max(reserve_step_bytes);
    file.reserve(reserved)?;
    file.write_all_at(&header.encode(), 0)?;
    Ok((file, reserved))
}

/// Removes the log's claim on segments that no snapshot needs: all before the last one whose base is at or below
/// `revision`. Files go to the pool for reuse while it has room.
pub(super) fn release_segments(
    disk: &dyn Disk,
    catalog: &SharedCatalog,
    revision: Revision,
    recycled_max: usize,
) -> io::Result<()> {
    let mut reusable = Vec::new();
    loop {
        let (oldest, pool_has_room) = {
            let mut catalog = lock_catalog(catalog);
            // The segment after it says where the oldest ends.
            if catalog.segments.get(1).is_none_or(|next| next.base > revision) {
                break;
            }
            (catalog.segments.remove(0), catalog.recycled.len() + reusable.len() < recycled_max)
        };
        let name = segment_name(oldest.number);
        if pool_has_room {
            let recycled = recycled_name(oldest.number);
            disk.rename(&name, &recycled)?;
            reusable.push(recycled);
        } else {
            disk.remove(&name)?;
        }
    }
    disk.sync_dir()?;
    // Not sooner: a file must not be written to while a crash could still bring back its old name.
    lock_catalog(catalog).recycled.append(&mut reusable);
    Ok(())
}

fn classify(doing: &str, name: &str, error: &io::Error) -> AppendError {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            AppendError::NoSpace(format!("cannot {doing} {name}: {error}"))
        }
        _ => failed(doing, name, error),
    }
}

fn failed(doing: &str, name: &str, error: &io::Error) -> AppendError {
    AppendError::Failed(format!("cannot {doing} {name}: {error}"))
}
