//! A disk in memory that misbehaves the way real ones may: what was not synced can be lost or torn, sector by sector,
//! names that were not synced can be lost in any order, calls can fail, space can run out, and power can go at any call.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::disk::{Access, Disk, DiskFile, DiskLock};

/// What a disk writes at once.
const SECTOR: usize = 64;

/// What is to go wrong, and at which call that changes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A call fails with an I/O error, having done part of its work.
    Io,
    /// From here on nothing works until [`SimDisk::crash`].
    PowerLoss,
}

/// See the module. Handles share one disk.
#[derive(Clone, Debug)]
pub struct SimDisk {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug)]
struct Inner {
    rng: StdRng,
    files: BTreeMap<u64, FileData>,
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    pending_names: Vec<NameOp>,
    next_inode: u64,
    lock: std::sync::Weak<()>,
    /// Handles from before a crash are dead.
    boot: u64,
    is_off: bool,
    armed: Option<(u32, Fault)>,
    capacity: usize,
}

#[derive(Debug, Default)]
struct FileData {
    cached: Vec<u8>,
    durable: Vec<u8>,
    dirty: BTreeSet<usize>,
}

#[derive(Debug)]
enum NameOp {
    Create(String, u64),
    Rename(String, String, u64),
    Remove(String, u64),
}

/// What a call that changes something may do.
enum Permit {
    All,
    /// Fail, after doing a part.
    Part,
}

impl SimDisk {
    pub fn new(seed: u64) -> Self {
        let inner = Inner {
            rng: StdRng::seed_from_u64(seed),
            files: BTreeMap::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            pending_names: Vec::new(),
            next_inode: 1,
            lock: std::sync::Weak::new(),
            boot: 0,
            is_off: false,
            armed: None,
            capacity: usize::MAX,
        };
        Self { inner: Arc::new(Mutex::new(inner)) }
    }

    fn lock_inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets `fault` happen at the call after `calls` more that change something.
    pub fn arm(&self, calls: u32, fault: Fault) {
        self.lock_inner().armed = Some((calls, fault));
    }

    /// Bytes that fit on the disk.
    pub fn set_capacity(&self, bytes: usize) {
        self.lock_inner().capacity = bytes;
    }

    pub fn used(&self) -> usize {
        self.lock_inner().used()
    }

    /// Power fails and comes back: everything synced is there, everything else may or may not be, in part.
    pub fn crash(&self) {
        let mut inner = self.lock_inner();
        let inner = &mut *inner;
        inner.boot += 1;
        inner.is_off = false;
        inner.armed = None;
        inner.lock = std::sync::Weak::new();
        // Whole classes of luck, besides the mixed one: all lost, all kept.
        let survival = *[0.0, 0.3, 0.7, 1.0].get(inner.rng.random_range(0..4)).unwrap_or(&0.5);
        for op in std::mem::take(&mut inner.pending_names) {
            if inner.rng.random_bool(survival) {
                apply_name(&mut inner.durable_names, op);
            }
        }
        inner.names = inner.durable_names.clone();
        for file in inner.files.values_mut() {
            for sector in std::mem::take(&mut file.dirty) {
                if inner.rng.random_bool(survival) {
                    file.persist(sector);
                }
            }
            file.cached = file.durable.clone();
        }
    }

    /// The process dies and the machine stays: the cache is intact.
    pub fn kill_process(&self) {
        let mut inner = self.lock_inner();
        inner.boot += 1;
        inner.armed = None;
        inner.is_off = false;
        inner.lock = std::sync::Weak::new();
    }

    /// Everything cached becomes durable.
    pub fn sync_all(&self) {
        let mut inner = self.lock_inner();
        let inner = &mut *inner;
        inner.pending_names.clear();
        inner.durable_names = inner.names.clone();
        for file in inner.files.values_mut() {
            file.dirty.clear();
            file.durable = file.cached.clone();
        }
    }

    /// Flips a random bit of what is stored in a file chosen by `pick`. False when there is no such file or it is empty.
    pub fn flip_bit(&self, pick: impl Fn(&str) -> bool) -> Option<(String, usize)> {
        let mut inner = self.lock_inner();
        let inner = &mut *inner;
        let names: Vec<_> = inner.durable_names.iter().filter(|(name, _)| pick(name)).collect();
        let (name, inode) = *names.get(inner.rng.random_range(0..names.len().max(1)))?;
        let file = inner.files.get_mut(inode)?;
        // Most of a segment is reserve; aim at what was written.
        let written = file.durable.iter().rposition(|&byte| byte != 0)? + 1;
        let at = inner.rng.random_range(0..written);
        let bit = 1 << inner.rng.random_range(0..8);
        file.durable[at] ^= bit;
        file.cached = file.durable.clone();
        Some((name.clone(), at))
    }

    /// A file's contents, for looking at and for spoiling.
    pub fn edit<T>(&self, name: &str, edit: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let mut inner = self.lock_inner();
        let inode = *inner.names.get(name).expect("the file is there");
        let file = inner.files.get_mut(&inode).expect("a name has a file");
        let result = edit(&mut file.durable);
        file.cached = file.durable.clone();
        result
    }
}

impl FileData {
    /// One sector reaches the platter.
    fn persist(&mut self, sector: usize) {
        let from = sector * SECTOR;
        let to = (from + SECTOR).min(self.cached.len());
        if from < to {
            if self.durable.len() < to {
                self.durable.resize(to, 0);
            }
            self.durable[from..to].copy_from_slice(&self.cached[from..to]);
        }
    }

    fn write(&mut self, bytes: &[u8], at: usize) {
        let end = at + bytes.len();
        if self.cached.len() < end {
            self.cached.resize(end, 0);
        }
        self.cached[at..end].copy_from_slice(bytes);
        self.dirty.extend(at / SECTOR..end.div_ceil(SECTOR));
    }
}

impl Inner {
    fn used(&self) -> usize {
        self.names.values().filter_map(|inode| self.files.get(inode)).map(|file| file.cached.len()).sum()
    }

    /// Every call that changes something asks here first.
    fn permit(&mut self, boot: u64) -> io::Result<Permit> {
        self.check(boot)?;
        let Some((calls, fault)) = &mut self.armed else { return Ok(Permit::All) };
        if *calls > 0 {
            *calls -= 1;
            return Ok(Permit::All);
        }
        self.is_off = *fault == Fault::PowerLoss;
        self.armed = None;
        Ok(Permit::Part)
    }

    fn check(&self, boot: u64) -> io::Result<()> {
        if self.is_off || boot != self.boot { Err(io::Error::other("the power is off")) } else { Ok(()) }
    }

    fn room_for(&self, more: usize) -> io::Result<()> {
        // Writing in place always works, even if lost removals have overfilled the disk.
        if more > 0 && self.used() + more > self.capacity { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn inode(&self, name: &str) -> io::Result<u64> {
        self.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn change_name(&mut self, op: NameOp) -> io::Result<()> {
        let permit = self.permit(self.boot)?;
        if matches!(permit, Permit::Part) && self.rng.random_bool(0.5) {
            return Err(broken());
        }
        let copy = match &op {
            NameOp::Create(name, inode) => NameOp::Create(name.clone(), *inode),
            NameOp::Rename(from, to, inode) => NameOp::Rename(from.clone(), to.clone(), *inode),
            NameOp::Remove(name, inode) => NameOp::Remove(name.clone(), *inode),
        };
        apply_name(&mut self.names, copy);
        self.pending_names.push(op);
        if matches!(permit, Permit::Part) { Err(broken()) } else { Ok(()) }
    }
}

fn broken() -> io::Error {
    io::Error::other("injected I/O error")
}

fn apply_name(names: &mut BTreeMap<String, u64>, op: NameOp) {
    match op {
        NameOp::Create(name, inode) => drop(names.insert(name, inode)),
        NameOp::Rename(from, to, inode) => {
            if names.get(&from) == Some(&inode) {
                names.remove(&from);
            }
            names.insert(to, inode);
        }
        NameOp::Remove(name, inode) => {
            if names.get(&name) == Some(&inode) {
                names.remove(&name);
            }
        }
    }
}

impl Disk for SimDisk {
    fn location(&self) -> String {
        "sim".into()
    }

    fn lock(&self) -> io::Result<DiskLock> {
        let mut inner = self.lock_inner();
        if inner.lock.upgrade().is_some() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let token = Arc::new(());
        inner.lock = Arc::downgrade(&token);
        Ok(Box::new(token))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let inner = self.lock_inner();
        inner.check(inner.boot)?;
        Ok(inner.names.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut inner = self.lock_inner();
        let inode = inner.next_inode;
        inner.next_inode += 1;
        inner.room_for(1)?;
        inner.change_name(NameOp::Create(name.into(), inode))?;
        inner.files.insert(inode, FileData::default());
        Ok(Box::new(SimFile { disk: self.clone(), inode, boot: inner.boot }))
    }

    fn open(&self, name: &str, _access: Access) -> io::Result<Box<dyn DiskFile>> {
        let inner = self.lock_inner();
        inner.check(inner.boot)?;
        Ok(Box::new(SimFile { disk: self.clone(), inode: inner.inode(name)?, boot: inner.boot }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut inner = self.lock_inner();
        let inode = inner.inode(from)?;
        inner.change_name(NameOp::Rename(from.into(), to.into(), inode))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut inner = self.lock_inner();
        let inode = inner.inode(name)?;
        inner.change_name(NameOp::Remove(name.into(), inode))
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut inner = self.lock_inner();
        let boot = inner.boot;
        if let Permit::Part = inner.permit(boot)? {
            return Err(broken());
        }
        inner.pending_names.clear();
        inner.durable_names = inner.names.clone();
        Ok(())
    }
}

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    inode: u64,
    boot: u64,
}

impl SimFile {
    fn change<T>(&self, change: impl FnOnce(&mut Inner, Permit) -> io::Result<T>) -> io::Result<T> {
        let mut inner = self.disk.lock_inner();
        let permit = inner.permit(self.boot)?;
        inner.files.entry(self.inode).or_default();
        change(&mut inner, permit)
    }

    fn read<T>(&self, read: impl FnOnce(&FileData) -> io::Result<T>) -> io::Result<T> {
        let inner = self.disk.lock_inner();
        inner.check(self.boot)?;
        read(inner.files.get(&self.inode).unwrap_or(&FileData::default()))
    }
}

impl DiskFile for SimFile {
    fn byte_len(&self) -> io::Result<u64> {
        self.read(|file| Ok(file.cached.len() as u64))
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.read(|file| {
            let from = usize::try_from(offset).map_err(io::Error::other)?;
            let bytes = file.cached.get(from..from + buf.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
            buf.copy_from_slice(bytes);
            Ok(())
        })
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let at = usize::try_from(offset).map_err(io::Error::other)?;
        self.change(|inner, permit| {
            let len = inner.files.get(&self.inode).map_or(0, |file| file.cached.len());
            inner.room_for((at + buf.len()).saturating_sub(len))?;
            let part = match permit {
                Permit::All => buf.len(),
                Permit::Part => inner.rng.random_range(0..=buf.len()),
            };
            let file = inner.files.entry(self.inode).or_default();
            file.write(&buf[..part], at);
            if matches!(permit, Permit::Part) { Err(broken()) } else { Ok(()) }
        })
    }

    fn reserve(&self, len: u64) -> io::Result<()> {
        let len = usize::try_from(len).map_err(io::Error::other)?;
        self.change(|inner, permit| {
            let present = inner.files.get(&self.inode).map_or(0, |file| file.cached.len());
            inner.room_for(len.saturating_sub(present))?;
            if matches!(permit, Permit::Part) {
                return Err(broken());
            }
            let file = inner.files.entry(self.inode).or_default();
            if len > file.cached.len() {
                file.dirty.extend(file.cached.len() / SECTOR..len.div_ceil(SECTOR));
                file.cached.resize(len, 0);
            }
            Ok(())
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.change(|inner, permit| {
            let is_part = matches!(permit, Permit::Part);
            let file = inner.files.entry(self.inode).or_default();
            for sector in std::mem::take(&mut file.dirty) {
                // A failed sync leaves sectors that are marked clean and yet not written, as Linux does.
                if !is_part || inner.rng.random_bool(0.5) {
                    file.persist(sector);
                }
            }
            if is_part { Err(broken()) } else { Ok(()) }
        })
    }
}
