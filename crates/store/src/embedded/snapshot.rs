//! Snapshots: the whole state at one revision in one file, for checkpoints and backups alike.
//!
//! ```text
//! header: magic 8 | kind u32 | revision u64 | created_ms u64 | crc u32
//! block:  payload_len u32 | key_count u32 | crc u32 | payload      (keys in order, about BLOCK_BYTES each)
//! key:    key_len u32 | value_len u32 | create u64 | mod u64 | expires_at_ms u64 (0: never) | key | value
//! footer: magic 8 | block_count u64 | key_count u64 | body_crc u32 (over the blocks' checksums) | crc u32
//! ```
//! Only a file whose every checksum holds is a snapshot. Blocks are decoded in parallel.

use std::io;

use bytes::Bytes;

use super::disk::{Access, Disk, DiskFile};
use super::frame::{Reader, copy_pair};
use super::recovery::{corrupt, io_error};
use super::segment::unfinished_name;
use super::state::StoredKey;
use crate::{KeyValue, Result, Revision};

const HEADER_MAGIC: &[u8; 8] = b"BWKSNP1\n";
const FOOTER_MAGIC: &[u8; 8] = b"BWKEND1\n";
const HEADER_LEN: usize = 32;
const FOOTER_LEN: usize = 32;
const BLOCK_HEADER_LEN: usize = 12;
/// Payload at which a block is closed: big enough to amortise a read, small enough to spread over threads.
const BLOCK_BYTES: usize = 256 << 10;
/// Threads that decode; beyond a few, memory allocation is the limit.
const DECODE_THREADS_MAX: usize = 4;

/// What a snapshot is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotKind {
    /// Part of a data directory; the log after it must be there too.
    Checkpoint,
    /// Complete by itself.
    Backup,
}

/// What a snapshot says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotHeader {
    pub kind: SnapshotKind,
    pub revision: Revision,
    pub created_ms: u64,
}

impl SnapshotHeader {
    fn encode(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        let kind: u32 = match self.kind {
            SnapshotKind::Checkpoint => 1,
            SnapshotKind::Backup => 2,
        };
        bytes[..8].copy_from_slice(HEADER_MAGIC);
        bytes[8..12].copy_from_slice(&kind.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.revision.0.to_le_bytes());
        bytes[20..28].copy_from_slice(&self.created_ms.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..28]);
        bytes[28..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; HEADER_LEN]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let magic = reader.bytes(8)?;
        let kind = match reader.u32()? {
            1 => SnapshotKind::Checkpoint,
            2 => SnapshotKind::Backup,
            _ => return None,
        };
        let header = Self { kind, revision: Revision(reader.u64()?), created_ms: reader.u64()? };
        (magic == HEADER_MAGIC && reader.u32()? == crc32c::crc32c(&bytes[..28])).then_some(header)
    }
}

/// A snapshot in memory.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub header: SnapshotHeader,
    /// All keys in order, in pieces as they were decoded.
    pub keys: Vec<Vec<StoredKey>>,
}

/// Keys fetched at a time while writing; bounds how long the state's lock is held.
pub(super) const PAGE_KEYS: usize = 1024;

/// Writes the file `name` so that it appears whole and durable or not at all. `next_page` is asked for the keys from a
/// given one on, and for where to go on after them; `None` breaks off.
pub(super) fn write(
    disk: &dyn Disk,
    name: &str,
    header: SnapshotHeader,
    mut next_page: impl FnMut(Bytes) -> Option<(Vec<StoredKey>, Option<Bytes>)>,
) -> Result<()> {
    let draft = unfinished_name(name);
    let mut write_draft = || -> io::Result<()> {
        let file = disk.create(&draft)?;
        let mut writer = SnapshotWriter::new(&*file, header)?;
        let mut next = Some(Bytes::new());
        while let Some(start) = next {
            let (keys, resume) = next_page(start).ok_or(io::ErrorKind::Interrupted)?;
            for stored in &keys {
                writer.push(&stored.kv, stored.expires_at_ms)?;
            }
            next = resume;
        }
        writer.finish()
    };
    let written = write_draft().and_then(|()| disk.rename(&draft, name)).and_then(|()| disk.sync_dir());
    written.map_err(|error| {
        // Should this fail too, recovery removes the file.
        let _ = disk.remove(&draft);
        io_error(disk, "write", name, &error)
    })
}

/// Writes a snapshot front to back.
#[derive(Debug)]
struct SnapshotWriter<'a> {
    file: &'a dyn DiskFile,
    offset: u64,
    block: Vec<u8>,
    block_keys: u32,
    block_count: u64,
    key_count: u64,
    body_crc: u32,
}

impl<'a> SnapshotWriter<'a> {
    fn new(file: &'a dyn DiskFile, header: SnapshotHeader) -> io::Result<Self> {
        file.write_all_at(&header.encode(), 0)?;
        Ok(Self {
            file,
            offset: HEADER_LEN as u64,
            block: vec![0; BLOCK_HEADER_LEN],
            block_keys: 0,
            block_count: 0,
            key_count: 0,
            body_crc: 0,
        })
    }

    /// Adds the next key.
    fn push(&mut self, kv: &KeyValue, expires_at_ms: Option<u64>) -> io::Result<()> {
        let len = |part: &[u8]| u32::try_from(part.len()).map_err(io::Error::other);
        self.block.extend_from_slice(&len(&kv.key)?.to_le_bytes());
        self.block.extend_from_slice(&len(&kv.value)?.to_le_bytes());
        self.block.extend_from_slice(&kv.create_revision.0.to_le_bytes());
        self.block.extend_from_slice(&kv.mod_revision.0.to_le_bytes());
        self.block.extend_from_slice(&expires_at_ms.unwrap_or(0).to_le_bytes());
        self.block.extend_from_slice(&kv.key);
        self.block.extend_from_slice(&kv.value);
        self.block_keys += 1;
        self.key_count += 1;
        if self.block.len() >= BLOCK_BYTES { self.end_block() } else { Ok(()) }
    }

    /// Writes what is left and the footer, and syncs.
    fn finish(mut self) -> io::Result<()> {
        if self.block_keys > 0 {
            self.end_block()?;
        }
        let mut footer = [0; FOOTER_LEN];
        footer[..8].copy_from_slice(FOOTER_MAGIC);
        footer[8..16].copy_from_slice(&self.block_count.to_le_bytes());
        footer[16..24].copy_from_slice(&self.key_count.to_le_bytes());
        footer[24..28].copy_from_slice(&self.body_crc.to_le_bytes());
        let crc = crc32c::crc32c(&footer[..28]);
        footer[28..].copy_from_slice(&crc.to_le_bytes());
        self.file.write_all_at(&footer, self.offset)?;
        self.file.sync_data()
    }

    fn end_block(&mut self) -> io::Result<()> {
        let payload = &self.block[BLOCK_HEADER_LEN..];
        let payload_len = u32::try_from(payload.len()).map_err(io::Error::other)?;
        let crc = crc32c::crc32c(payload);
        self.block[..4].copy_from_slice(&payload_len.to_le_bytes());
        self.block[4..8].copy_from_slice(&self.block_keys.to_le_bytes());
        self.block[8..12].copy_from_slice(&crc.to_le_bytes());
        self.body_crc = crc32c::crc32c_append(self.body_crc, &self.block[..BLOCK_HEADER_LEN]);
        self.file.write_all_at(&self.block, self.offset)?;
        self.offset += self.block.len() as u64;
        self.block.truncate(BLOCK_HEADER_LEN);
        self.block_keys = 0;
        self.block_count += 1;
        Ok(())
    }
}

/// Where a block is and what it should contain.
#[derive(Clone, Copy, Debug)]
struct BlockInfo {
    at: u64,
    payload_len: u32,
    key_count: u32,
    crc: u32,
}

/// Reads and verifies a snapshot, keys included.
pub(super) fn load(disk: &dyn Disk, name: &str) -> Result<Snapshot> {
    let (file, layout) = open(disk, name)?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(DECODE_THREADS_MAX);
    let share = layout.blocks.len().div_ceil(threads).max(1);
    let decode_share = |blocks: &[BlockInfo]| -> Result<Vec<Vec<StoredKey>>> {
        blocks.iter().map(|block| decode_block(disk, name, &*file, *block)).collect()
    };
    let decoded: Vec<Result<Vec<Vec<StoredKey>>>> =
        std::thread::scope(|scope| {
            let mut shares = layout.blocks.chunks(share);
            let own = shares.next();
            let others: Vec<_> = shares.map(|blocks| scope.spawn(|| decode_share(blocks))).collect();
            let own = own.map(decode_share);
            own.into_iter()
                .chain(others.into_iter().map(|thread| {
                    thread.join().unwrap_or_else(|_| Err(corrupt(disk, name, "decoding panicked".into())))
                }))
                .collect()
        });
    let mut keys = Vec::with_capacity(layout.blocks.len());
    for share in decoded {
        keys.extend(share?);
    }
    let all = || keys.iter().flatten();
    if !all().zip(all().skip(1)).all(|(a, b)| a.kv.key < b.kv.key) {
        return Err(corrupt(disk, name, "keys are out of order".into()));
    }
    Ok(Snapshot { header: layout.header, keys })
}

/// What is to be known about an intact snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotStatus {
    /// The revision whose state it holds.
    pub revision: Revision,
    pub key_count: u64,
    pub file_bytes: u64,
    pub created_ms: u64,
    /// Over all keys and values; equal for equal contents.
    pub checksum: u32,
}

/// Reads every byte of a snapshot and checks it, keeping nothing.
pub(super) fn verify(disk: &dyn Disk, name: &str) -> Result<SnapshotStatus> {
    let (file, layout) = open(disk, name)?;
    let mut key_count = 0;
    for block in &layout.blocks {
        key_count += decode_block(disk, name, &*file, *block)?.len() as u64;
    }
    Ok(SnapshotStatus {
        revision: layout.header.revision,
        key_count,
        file_bytes: layout.file_bytes,
        created_ms: layout.header.created_ms,
        checksum: layout.checksum,
    })
}

struct Layout {
    header: SnapshotHeader,
    blocks: Vec<BlockInfo>,
    file_bytes: u64,
    checksum: u32,
}

/// Checks everything but the blocks' payloads.
fn open(disk: &dyn Disk, name: &str) -> Result<(Box<dyn DiskFile>, Layout)> {
    let read_error = |error: &io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => corrupt(disk, name, "snapshot is cut off".into()),
        _ => io_error(disk, "read", name, error),
    };
    let file = disk.open(name, Access::Read).map_err(|error| read_error(&error))?;
    let file_bytes = file.byte_len().map_err(|error| read_error(&error))?;
    let mut header = [0; HEADER_LEN];
    file.read_exact_at(&mut header, 0).map_err(|error| read_error(&error))?;
    let header = SnapshotHeader::decode(&header)
        .ok_or_else(|| corrupt(disk, name, "damaged snapshot header at offset 0".into()))?;
    let footer_at = file_bytes.saturating_sub(FOOTER_LEN as u64);
    let mut footer = [0; FOOTER_LEN];
    file.read_exact_at(&mut footer, footer_at).map_err(|error| read_error(&error))?;
    let footer = Footer::decode(&footer)
        .ok_or_else(|| corrupt(disk, name, format!("damaged snapshot footer at offset {footer_at}")))?;

    let mut found = Footer { block_count: 0, key_count: 0, body_crc: 0 };
    let mut blocks = Vec::new();
    let mut at = HEADER_LEN as u64;
    while at < footer_at {
        let mut bytes = [0; BLOCK_HEADER_LEN];
        file.read_exact_at(&mut bytes, at).map_err(|error| read_error(&error))?;
        let mut reader = Reader(&bytes);
        let (Some(payload_len), Some(key_count), Some(crc)) = (reader.u32(), reader.u32(), reader.u32()) else {
            return Err(corrupt(disk, name, format!("damaged block at offset {at}")));
        };
        blocks.push(BlockInfo { at, payload_len, key_count, crc });
        found.block_count += 1;
        found.key_count += u64::from(key_count);
        found.body_crc = crc32c::crc32c_append(found.body_crc, &bytes);
        at += BLOCK_HEADER_LEN as u64 + u64::from(payload_len);
    }
    if at != footer_at || found != footer {
        return Err(corrupt(disk, name, "blocks do not add up to what the footer says".into()));
    }
    Ok((file, Layout { header, blocks, file_bytes, checksum: footer.body_crc }))
}

#[derive(Debug, PartialEq, Eq)]
struct Footer {
    block_count: u64,
    key_count: u64,
    body_crc: u32,
}

impl Footer {
    fn decode(bytes: &[u8; FOOTER_LEN]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let magic = reader.bytes(8)?;
        let footer = Self { block_count: reader.u64()?, key_count: reader.u64()?, body_crc: reader.u32()? };
        (magic == FOOTER_MAGIC && reader.u32()? == crc32c::crc32c(&bytes[..28])).then_some(footer)
    }
}

fn decode_block(disk: &dyn Disk, name: &str, file: &dyn DiskFile, block: BlockInfo) -> Result<Vec<StoredKey>> {
    let mut payload = vec![0; block.payload_len as usize];
    file.read_exact_at(&mut payload, block.at + BLOCK_HEADER_LEN as u64)
        .map_err(|error| io_error(disk, "read", name, &error))?;
    let intact = crc32c::crc32c(&payload) == block.crc;
    let keys = if intact { decode_keys(&payload, block.key_count) } else { None };
    keys.ok_or_else(|| corrupt(disk, name, format!("damaged block at offset {}", block.at)))
}

fn decode_keys(payload: &[u8], key_count: u32) -> Option<Vec<StoredKey>> {
    let mut reader = Reader(payload);
    let mut keys = Vec::with_capacity((key_count as usize).min(payload.len() / 32));
    for _ in 0..key_count {
        let key_len = reader.u32()? as usize;
        let value_len = reader.u32()? as usize;
        let create_revision = Revision(reader.u64()?);
        let mod_revision = Revision(reader.u64()?);
        let expires_at_ms = Some(reader.u64()?).filter(|&at| at != 0);
        let (key, value) = copy_pair(reader.bytes(key_len.checked_add(value_len)?)?, key_len);
        keys.push(StoredKey { kv: KeyValue { key, value, create_revision, mod_revision }, expires_at_ms });
    }
    reader.0.is_empty().then_some(keys)
}
