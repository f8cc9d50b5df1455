//! Files that are there whole or not at all, and private where they must be.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::PkiError;

const OWNER_ONLY: u32 = 0o600;
const WORLD_READABLE: u32 = 0o644;
const OWNER_ONLY_DIRECTORY: u32 = 0o700;

pub(super) fn ensure_directory(path: &Path) -> Result<(), PkiError> {
    DirBuilder::new().recursive(true).mode(OWNER_ONLY_DIRECTORY).create(path).map_err(|source| io(path, source))
}

/// Held while files of a directory are looked at and made: servers that share it must not each make a CA of their own.
pub(super) struct DirectoryLock(File);

impl DirectoryLock {
    /// Waits until nobody else has it. A directory that cannot be written to is not locked: nothing can be made in it.
    pub(super) fn take(directory: &Path) -> Result<Option<Self>, PkiError> {
        let path = directory.join(".lock");
        let file = match OpenOptions::new().write(true).create(true).truncate(false).mode(OWNER_ONLY).open(&path) {
            Ok(file) => file,
            Err(error) if matches!(error.kind(), ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied) => {
                return Ok(None);
            }
            Err(source) => return Err(io(&path, source)),
        };
        file.lock().map_err(|source| io(&path, source))?;
        Ok(Some(Self(file)))
    }
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // Closing the file lets go of it in any case.
        let _ = self.0.unlock();
    }
}

/// The text of a file; `None` when there is none.
pub(super) fn read(path: &Path) -> Result<Option<String>, PkiError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(io(path, source)),
    }
}

pub(super) fn write_secret(path: &Path, content: &str) -> Result<(), PkiError> {
    write(path, content, OWNER_ONLY)
}

pub(super) fn write_public(path: &Path, content: &str) -> Result<(), PkiError> {
    write(path, content, WORLD_READABLE)
}

/// Writes beside the target, makes it durable, then renames: a crash leaves the old file or the new one.
fn write(path: &Path, content: &str, mode: u32) -> Result<(), PkiError> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    let temporary = directory.join(format!(".{name}.{}.tmp", std::process::id()));
    let attempt = || {
        // What a crashed predecessor left may have another mode.
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary)?;
        file.write_all(content.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        File::open(&directory)?.sync_all()
    };
    attempt().map_err(|source| {
        let _ = fs::remove_file(&temporary);
        io(path, source)
    })
}

fn io(path: &Path, source: std::io::Error) -> PkiError {
    PkiError::Io { path: path.to_owned(), source }
}
