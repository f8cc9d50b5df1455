//! The disk as the engine sees it: one directory of named files, positioned reads and writes, explicit syncs.
//!
//! Small on purpose, so that a simulated disk can stand in and lose, tear and reorder whatever was not synced. Nothing
//! is durable before the sync that covers it: [`DiskFile::sync_data`] for contents, [`Disk::sync_dir`] for names.

use std::any::Any;
use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Held for as long as a store has its directory open.
pub type DiskLock = Box<dyn Any + Send + Sync>;

/// A directory of files.
pub trait Disk: Send + Sync + fmt::Debug + 'static {
    /// For messages.
    fn location(&self) -> String;
    /// Takes the single-writer lock; [`io::ErrorKind::WouldBlock`] when somebody else has it.
    fn lock(&self) -> io::Result<DiskLock>;
    /// The names of all files.
    fn list(&self) -> io::Result<Vec<String>>;
    /// A new, empty file; an existing one is emptied.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// An existing file, for reading and, where permitted, writing.
    fn open(&self, name: &str, access: Access) -> io::Result<Box<dyn DiskFile>>;
    /// Gives a file another name, replacing what had it.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes creations, renames and removals durable.
    fn sync_dir(&self) -> io::Result<()>;
}

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    ReadWrite,
}

/// An open file.
pub trait DiskFile: Send + Sync + fmt::Debug {
    /// The file's length in bytes.
    fn byte_len(&self) -> io::Result<u64>;
    /// Fills `buf` from `offset`; an early end is [`io::ErrorKind::UnexpectedEof`].
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;
    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;
    /// Makes sure that writes below `len` will find room, and extends the file to it with zeros.
    fn reserve(&self, len: u64) -> io::Result<()>;
    /// Returns once all contents written so far would survive a power failure.
    fn sync_data(&self) -> io::Result<()>;
}

/// The lock file's name. It stays behind; the lock itself dies with the process.
const LOCK_FILE: &str = "LOCK";

/// A directory of the operating system.
#[derive(Debug)]
pub struct RealDisk {
    dir: PathBuf,
}

impl RealDisk {
    /// A disk over an existing directory.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// Creates the directory, durably, if it is not there.
    pub fn create_dir(dir: &Path) -> io::Result<Self> {
        if !dir.is_dir() {
            fs::create_dir_all(dir)?;
            if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                File::open(parent)?.sync_all()?;
            }
        }
        Ok(Self::new(dir))
    }
}

impl Disk for RealDisk {
    fn location(&self) -> String {
        self.dir.display().to_string()
    }

    fn lock(&self) -> io::Result<DiskLock> {
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(self.dir.join(LOCK_FILE))?;
        match file.try_lock() {
            Ok(()) => Ok(Box::new(file)),
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(self.dir.join(name))?;
        Ok(Box::new(RealFile(file)))
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new().read(true).write(access == Access::ReadWrite).open(self.dir.join(name))?;
        Ok(Box::new(RealFile(file)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.dir.join(from), self.dir.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.dir.join(name))
    }

    fn sync_dir(&self) -> io::Result<()> {
        File::open(&self.dir)?.sync_all()
    }
}

#[derive(Debug)]
struct RealFile(File);

impl DiskFile for RealFile {
    fn byte_len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(buf, offset)
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(buf, offset)
    }

    #[cfg(target_os = "linux")]
    fn reserve(&self, len: u64) -> io::Result<()> {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::Errno;
        let present = self.byte_len()?;
        if len <= present {
            return Ok(());
        }
        match fallocate(&self.0, FallocateFlags::empty(), present, len - present) {
            Ok(()) => Ok(()),
            // File systems without reservations: the file still grows, only the early notice is lost.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.0.set_len(len),
            Err(errno) => Err(errno.into()),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn reserve(&self, len: u64) -> io::Result<()> {
        if len > self.byte_len()? { self.0.set_len(len) } else { Ok(()) }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}
