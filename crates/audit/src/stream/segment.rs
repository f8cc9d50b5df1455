//! Files of the stream: events one after the other, each with its length and a checksum. A file is named by the sequence
//! number of its first event.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::Item;

/// Length and checksum.
const HEADER_BYTES: usize = 8;
/// An event longer than this is damage, not an event: bodies are limited far below.
const EVENT_BYTES_MAX: u32 = 256 << 20;
/// How much of a segment is read at once.
const READ_BYTES: u64 = 4 << 20;

pub(super) struct Segment {
    pub first: u64,
    pub path: PathBuf,
    pub bytes: u64,
}

impl Segment {
    /// Where an event begins, or the end if it is not there.
    pub fn offset_of(&self, sequence: u64) -> io::Result<u64> {
        let (mut offset, mut next) = (0, self.first);
        while next < sequence {
            let wanted = usize::try_from(sequence - next).unwrap_or(usize::MAX);
            let found = read(&self.path, offset, wanted, next)?;
            if found.items.is_empty() {
                break;
            }
            (offset, next) = (found.offset, next + found.items.len() as u64);
        }
        Ok(offset)
    }
}

/// The segments of a stream, oldest first.
pub(super) struct Segments(Vec<Segment>);

impl Segments {
    pub fn list(directory: &Path) -> io::Result<Self> {
        let mut segments = Vec::new();
        for entry in std::fs::read_dir(directory)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if let Some(first) = name.strip_suffix(".segment").and_then(|number| number.parse().ok()) {
                segments.push(Segment { first, path: entry.path(), bytes: entry.metadata()?.len() });
            }
        }
        segments.sort_by_key(|segment| segment.first);
        Ok(Self(segments))
    }

    pub fn oldest(&self) -> Option<u64> {
        self.0.first().map(|segment| segment.first)
    }

    pub fn sizes(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|segment| segment.bytes)
    }

    /// Each segment but the last, with the one after it.
    pub fn pairs(&self) -> impl Iterator<Item = (&Segment, &Segment)> {
        self.0.iter().zip(self.0.iter().skip(1))
    }

    /// The segment in which an event would be.
    pub fn holding(&self, sequence: u64) -> Option<&Segment> {
        self.0.iter().rev().find(|segment| segment.first <= sequence)
    }
}

fn path_of(directory: &Path, first: u64) -> PathBuf {
    directory.join(format!("{first:020}.segment"))
}

/// The end of the stream.
pub(super) struct Appender {
    file: File,
    bytes: u64,
    next: u64,
    buffer: Vec<u8>,
}

impl Appender {
    /// Opens the newest segment behind its last whole event, or the first there will be.
    pub fn open(directory: &Path) -> io::Result<Self> {
        let segments = Segments::list(directory)?;
        let (first, path) = match segments.0.last() {
            Some(segment) => (segment.first, segment.path.clone()),
            None => (1, path_of(directory, 1)),
        };
        let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(0o600).open(&path)?;
        let (mut offset, mut next) = (0, first);
        loop {
            let read = read(&path, offset, usize::MAX, next)?;
            if read.items.is_empty() {
                break;
            }
            (offset, next) = (read.offset, next + read.items.len() as u64);
        }
        file.set_len(offset)?;
        let mut file = file;
        file.seek(SeekFrom::End(0))?;
        file.sync_all()?;
        File::open(directory)?.sync_all()?;
        Ok(Self { file, bytes: offset, next, buffer: Vec::new() })
    }

    /// The number of the next event.
    pub fn next(&self) -> u64 {
        self.next
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds events. They are on disk when this returns; after a failure none of them is.
    pub fn append<'a>(&mut self, events: impl Iterator<Item = &'a [u8]>) -> io::Result<()> {
        self.buffer.clear();
        let mut count = 0;
        for event in events {
            let length = u32::try_from(event.len()).ok().filter(|length| *length <= EVENT_BYTES_MAX);
            let Some(length) = length else {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "an event is too large for the stream"));
            };
            self.buffer.extend_from_slice(&length.to_le_bytes());
            self.buffer.extend_from_slice(&crc32c::crc32c(event).to_le_bytes());
            self.buffer.extend_from_slice(event);
            count += 1;
        }
        let written = self.file.write_all(&self.buffer).and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            self.file.set_len(self.bytes)?;
            self.file.seek(SeekFrom::Start(self.bytes))?;
            return Err(error);
        }
        self.bytes += self.buffer.len() as u64;
        self.next += count;
        Ok(())
    }

    /// Goes on in a new file.
    pub fn roll(&mut self, directory: &Path) -> io::Result<()> {
        let path = path_of(directory, self.next);
        self.file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(path)?;
        self.bytes = 0;
        File::open(directory)?.sync_all()
    }
}

/// What was read of a segment.
pub(super) struct Found {
    pub path: PathBuf,
    pub items: Vec<Item>,
    /// Behind the last item.
    pub offset: u64,
}

/// Reads whole, undamaged events from `offset` on; `sequence` is the first one's number.
pub(super) fn read(path: &Path, offset: u64, max: usize, sequence: u64) -> io::Result<Found> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    let mut result = Found { path: path.to_owned(), items: Vec::new(), offset };
    let mut limit = READ_BYTES;
    loop {
        let mut buffer = Vec::new();
        Read::by_ref(&mut file).take(limit).read_to_end(&mut buffer)?;
        let whole = Bytes::from(buffer);
        let mut rest = whole.clone();
        while result.items.len() < max {
            let Some((json, length)) = frame(&rest) else { break };
            result.items.push(Item { sequence: sequence + result.items.len() as u64, json });
            result.offset += length as u64;
            rest = rest.slice(length..);
        }
        // An event larger than what was read at once: read more of it.
        if result.items.is_empty() && whole.len() as u64 == limit && limit < u64::from(EVENT_BYTES_MAX) * 2 {
            limit *= 4;
            file.seek(SeekFrom::Start(offset))?;
            continue;
        }
        return Ok(result);
    }
}

/// The first event of `bytes` and the length of its frame; `None` if it is not whole or damaged.
fn frame(bytes: &Bytes) -> Option<(Bytes, usize)> {
    let number = |range: std::ops::Range<usize>| Some(u32::from_le_bytes(bytes.get(range)?.try_into().ok()?));
    let (length, checksum) = (number(0..4)?, number(4..8)?);
    if length > EVENT_BYTES_MAX {
        return None;
    }
    let end = HEADER_BYTES + length as usize;
    let json = bytes.get(HEADER_BYTES..end)?;
    (crc32c::crc32c(json) == checksum).then(|| (bytes.slice(HEADER_BYTES..end), end))
}
