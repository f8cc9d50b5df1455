//! Backups: one file with the whole state at one revision, taken while the store runs or from its directory, and back.
//!
//! Every function that reads a file checks all of it; an `Ok` means that all checksums held.

use std::path::Path;
use std::time::Duration;

use super::clock::{Clock, SystemClock};
use super::disk::{Disk, RealDisk};
use super::history::Retention;
use super::recovery::{self, Depth, Mode};
use super::segment::{FileKind, snapshot_name};
use super::snapshot::{self, PAGE_KEYS, SnapshotHeader, SnapshotKind, SnapshotStatus};
use super::state::State;
use super::{EmbeddedStore, lock_error};
use crate::{Error, Result, Revision};

/// How often a directory that changes under our eyes is read again.
const READ_ATTEMPTS_MAX: u32 = 5;
/// Pause before reading it again, long enough for a segment switch to be over.
const READ_RETRY_PAUSE: Duration = Duration::from_millis(100);

/// What a data directory holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirStatus {
    /// The newest committed revision.
    pub revision: Revision,
    pub key_count: u64,
    pub snapshot_count: usize,
    pub segment_count: usize,
    /// Where a commit was cut off by a crash; opening the store removes the remains. Never an acknowledged one.
    pub torn_tail: Option<String>,
}

impl EmbeddedStore {
    /// Writes a consistent backup of the newest state to `path` while the store goes on working. Blocks until it is
    /// durable and verified.
    pub fn save_snapshot(&self, path: impl AsRef<Path>) -> Result<SnapshotStatus> {
        let shared = &self.shared;
        shared.fault.check()?;
        let (at, _pin) = {
            let state = shared.state();
            (state.revision(), state.pin(state.revision()))
        };
        save(path.as_ref(), at, shared.options.clock.now_ms(), |start| shared.state().page(start, at, PAGE_KEYS))
    }
}

/// Writes a backup of the store in `dir` to `path`. Needs no lock, so the store may be running: the backup then holds
/// everything acknowledged before the call, and perhaps some of what came during it.
pub fn save_from_dir(dir: impl AsRef<Path>, path: impl AsRef<Path>) -> Result<SnapshotStatus> {
    let state = read_dir(dir.as_ref(), Depth::Needed)?.state;
    let at = state.revision();
    save(path.as_ref(), at, SystemClock.now_ms(), |start| state.page(start, at, PAGE_KEYS))
}

/// Makes a data directory from a backup. The directory must not hold a store yet.
pub fn restore(snapshot_path: impl AsRef<Path>, dir: impl AsRef<Path>) -> Result<SnapshotStatus> {
    let (source, name) = split(snapshot_path.as_ref())?;
    let snapshot = snapshot::load(&source, &name)?;
    let dir = dir.as_ref();
    let disk = RealDisk::create_dir(dir)
        .map_err(|error| Error::Unavailable(format!("cannot create {}: {error}", dir.display())))?;
    let _lock = disk.lock().map_err(|error| lock_error(&disk, &error))?;
    let names = disk.list().map_err(|error| recovery::io_error(&disk, "list", "the directory", &error))?;
    if let Some(name) =
        names.iter().find(|name| !matches!(FileKind::of(name), FileKind::Foreign | FileKind::Unfinished))
    {
        let dir = dir.display();
        return Err(Error::InvalidRequest(format!(
            "{dir} already holds a store ({name}); restore into an empty directory"
        )));
    }
    let header = SnapshotHeader { kind: SnapshotKind::Backup, ..snapshot.header };
    let name = snapshot_name(header.revision);
    let state = State::from_snapshot(header.revision, snapshot.keys.into_iter().flatten());
    snapshot::write(&disk, &name, header, |start| Some(state.page(start, header.revision, PAGE_KEYS)))?;
    snapshot::verify(&disk, &name)
}

/// Checks a backup completely and says what it holds.
pub fn status(snapshot_path: impl AsRef<Path>) -> Result<SnapshotStatus> {
    let (disk, name) = split(snapshot_path.as_ref())?;
    snapshot::verify(&disk, &name)
}

/// Checks every snapshot and every log segment in `dir` and says what they hold. Changes nothing; the store may be
/// running.
pub fn verify(dir: impl AsRef<Path>) -> Result<DirStatus> {
    let recovered = read_dir(dir.as_ref(), Depth::Everything)?;
    let state = &recovered.state;
    let everything = crate::KeyRange { start: bytes::Bytes::new(), end: None };
    Ok(DirStatus {
        revision: state.revision(),
        key_count: state.count(&everything, state.revision()),
        snapshot_count: recovered.snapshots.len(),
        segment_count: recovered.catalog.segments.len(),
        torn_tail: recovered.torn,
    })
}

fn read_dir(dir: &Path, depth: Depth) -> Result<recovery::Recovered> {
    let disk = RealDisk::new(dir);
    let mut attempt = 1;
    let recovered = loop {
        match recovery::recover(&disk, Mode::ReadOnly, depth, &Retention::NOTHING) {
            Ok(recovered) => break recovered,
            // A running store renames and reuses files; what looks missing or damaged may be neither a moment later.
            Err(_) if attempt < READ_ATTEMPTS_MAX => {
                attempt += 1;
                std::thread::sleep(READ_RETRY_PAUSE);
            }
            Err(error) => return Err(error),
        }
    };
    if recovered.snapshots.is_empty() && recovered.tail.is_none() {
        return Err(Error::InvalidRequest(format!("{} holds no store", dir.display())));
    }
    Ok(recovered)
}

fn save(
    path: &Path,
    revision: Revision,
    created_ms: u64,
    mut page: impl FnMut(bytes::Bytes) -> (Vec<super::state::StoredKey>, Option<bytes::Bytes>),
) -> Result<SnapshotStatus> {
    let (disk, name) = split(path)?;
    let header = SnapshotHeader { kind: SnapshotKind::Backup, revision, created_ms };
    snapshot::write(&disk, &name, header, |start| Some(page(start)))?;
    snapshot::verify(&disk, &name)
}

/// A file's directory as a disk, and its name there.
fn split(path: &Path) -> Result<(RealDisk, String)> {
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| Error::InvalidRequest(format!("{} is not a file name", path.display())))?;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok((RealDisk::new(dir), name.to_owned()))
}
