//! From a data directory back to the committed state.
//!
//! Loads the newest intact snapshot, then replays the log after it. Every acknowledged transaction comes back; a commit
//! that a crash cut off at the very end of the log disappears whole. Anything else that does not fit together (damage
//! in the middle, a missing segment, a log that ends before its snapshot) is corruption, and the answer is to refuse
//! with the file and offset rather than to guess.

use std::io;
use std::sync::mpsc;

use super::disk::{Access, Disk, DiskFile};
use super::frame::{FRAME_ALIGN, Frame, FrameBody, FrameFault, check_frame, decode_frame};
use super::history::Retention;
use super::log::{Catalog, SegmentInfo, Tail};
use super::segment::{FileKind, SEGMENT_HEADER_LEN, SegmentHeader, segment_name, snapshot_name};
use super::snapshot::{self, SnapshotKind};
use super::state::{FIRST_REVISION, State};
use crate::{Error, Result, Revision};

/// Whether recovery may tidy up the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Remove leftovers and a torn tail. Needs the lock.
    Repair,
    /// Look only. Works beside a running store.
    ReadOnly,
}

/// How much of the log to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// What the newest snapshot does not cover.
    Needed,
    /// Every snapshot and every segment, to be sure of all of them.
    Everything,
}

/// What recovery found.
#[derive(Debug)]
pub(super) struct Recovered {
    pub state: State,
    pub catalog: Catalog,
    /// `None` when there is no segment yet.
    pub tail: Option<Tail>,
    /// Newest first.
    pub snapshots: Vec<Revision>,
    /// Where the remains of a cut-off commit begin.
    pub torn: Option<String>,
}

/// Recovers the state in `disk`.
pub(super) fn recover(disk: &dyn Disk, mode: Mode, depth: Depth, retention: &Retention) -> Result<Recovered> {
    let files = Files::list(disk)?;
    if mode == Mode::Repair {
        for name in &files.unfinished {
            disk.remove(name).map_err(|error| io_error(disk, "remove", name, &error))?;
        }
    }
    let segments = contiguous(disk, &files.segments)?;
    let log_is_whole = segments.first().is_some_and(|first| first.base == FIRST_REVISION);
    let Loaded { mut state, kind, intact: snapshots, damaged } =
        load_snapshots(disk, &files.snapshots, depth, log_is_whole)?;
    let base = state.revision();
    let catalog_segments: Vec<_> = segments.iter().map(SegmentInfo::from).collect();
    check_coverage(disk, kind, base, &segments)?;
    let needed = match depth {
        Depth::Everything => &segments[..],
        // A segment is covered when the next one begins at or below the snapshot.
        Depth::Needed => {
            let covered = segments.iter().skip(1).take_while(|next| next.base <= base).count();
            &segments[covered..]
        }
    };
    let replayed = replay_all(disk, needed, &mut state, retention)?;
    if let Some(last) = needed.last()
        && replayed.last_revision < base
    {
        let name = segment_name(last.number);
        let found = replayed.last_revision;
        return Err(corrupt(disk, &name, format!("the log ends at revision {found}, before the snapshot's {base}")));
    }
    if let (Mode::Repair, Some(end)) = (mode, &replayed.end) {
        repair_tail(disk, end)?;
    }
    if mode == Mode::Repair {
        // Out of the way, or it would one day count as the older of two good ones; kept for whoever looks into it.
        for name in damaged.iter().map(|revision| snapshot_name(*revision)) {
            let renamed = disk.rename(&name, &format!("damaged-{name}"));
            renamed.map_err(|error| io_error(disk, "rename", &name, &error))?;
        }
        // The process may have died between giving the last segment its name and making that durable.
        disk.sync_dir().map_err(|error| io_error(disk, "sync", "the directory", &error))?;
    }
    Ok(Recovered {
        state,
        catalog: Catalog {
            segments: catalog_segments,
            recycled: files.recycled,
            bytes_since_checkpoint: replayed.bytes,
        },
        tail: replayed.end.as_ref().map(|end| end.tail),
        torn: replayed.end.and_then(|end| end.torn.map(|_| segment_at(disk, end.tail))),
        snapshots,
    })
}

/// The directory's files by what they are.
#[derive(Debug, Default)]
struct Files {
    segments: Vec<u64>,
    snapshots: Vec<Revision>,
    recycled: Vec<String>,
    unfinished: Vec<String>,
}

impl Files {
    fn list(disk: &dyn Disk) -> Result<Self> {
        let mut files = Self::default();
        for name in disk.list().map_err(|error| io_error(disk, "list", "the directory", &error))? {
            match FileKind::of(&name) {
                FileKind::Segment(number) => files.segments.push(number),
                FileKind::Snapshot(revision) => files.snapshots.push(revision),
                FileKind::Recycled => files.recycled.push(name),
                FileKind::Unfinished => files.unfinished.push(name),
                FileKind::Foreign => {}
            }
        }
        files.segments.sort_unstable();
        files.snapshots.sort_unstable_by(|a, b| b.cmp(a));
        Ok(files)
    }
}

/// What the snapshots say.
struct Loaded {
    state: State,
    kind: Option<SnapshotKind>,
    /// Newest first.
    intact: Vec<Revision>,
    damaged: Vec<Revision>,
}

/// Loads the newest snapshot that is intact. The log reaches back to the one before it, or to the very beginning, so a
/// damaged newest one costs time and no data.
fn load_snapshots(disk: &dyn Disk, snapshots: &[Revision], depth: Depth, log_is_whole: bool) -> Result<Loaded> {
    let mut loaded: Option<snapshot::Snapshot> = None;
    let (mut intact, mut damaged) = (Vec::new(), Vec::new());
    let mut first_error = None;
    for &revision in snapshots {
        if loaded.is_some() && depth == Depth::Needed {
            intact.push(revision);
            continue;
        }
        match snapshot::load(disk, &snapshot_name(revision)) {
            Ok(snapshot) => {
                intact.push(revision);
                loaded.get_or_insert(snapshot);
            }
            Err(error @ Error::Corrupt(_)) if depth == Depth::Needed => {
                tracing::error!(%error, "damaged snapshot; falling back to the one before it");
                damaged.push(revision);
                first_error.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    match (loaded, first_error) {
        (Some(snapshot), _) => {
            let kind = Some(snapshot.header.kind);
            let state = State::from_snapshot(snapshot.header.revision, snapshot.keys.into_iter().flatten());
            Ok(Loaded { state, kind, intact, damaged })
        }
        (None, Some(error)) if !log_is_whole => Err(error),
        (None, _) => Ok(Loaded { state: State::default(), kind: None, intact, damaged }),
    }
}

impl From<&SegmentHeader> for SegmentInfo {
    fn from(header: &SegmentHeader) -> Self {
        Self { number: header.number, base: header.base }
    }
}

/// The headers of the newest segments without a gap between them. What is before a gap was being removed, in
/// whichever order, when the process ended.
fn contiguous(disk: &dyn Disk, numbers: &[u64]) -> Result<Vec<SegmentHeader>> {
    let first = (1..numbers.len()).rev().find(|&i| numbers[i] != numbers[i - 1] + 1).unwrap_or(0);
    let mut headers = Vec::new();
    for &number in numbers.get(first..).unwrap_or_default() {
        let name = segment_name(number);
        let file = disk.open(&name, Access::Read).map_err(|error| io_error(disk, "open", &name, &error))?;
        let mut bytes = [0; SEGMENT_HEADER_LEN];
        match file.read_exact_at(&mut bytes, 0) {
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
                return Err(io_error(disk, "read", &name, &error));
            }
            _ => {}
        }
        match SegmentHeader::decode(&bytes) {
            Some(header) if header.number == number => headers.push(header),
            _ => return Err(corrupt(disk, &name, "damaged segment header at offset 0".into())),
        }
    }
    Ok(headers)
}

/// Snapshot and log must meet.
fn check_coverage(
    disk: &dyn Disk,
    kind: Option<SnapshotKind>,
    base: Revision,
    segments: &[SegmentHeader],
) -> Result<()> {
    let missing = match (segments.first(), kind) {
        (Some(first), _) if first.base > base => Some(format!(
            "the oldest segment begins after revision {}, the newest intact snapshot is at {base}",
            first.base
        )),
        (None, Some(SnapshotKind::Checkpoint)) => {
            Some(format!("the log after the snapshot at revision {base} is missing"))
        }
        _ => None,
    };
    missing.map_or(Ok(()), |reason| Err(Error::Corrupt(format!("{}: {reason}", disk.location()))))
}

#[derive(Debug)]
struct Replayed {
    last_revision: Revision,
    bytes: u64,
    end: Option<LogEnd>,
}

/// How the last segment ends.
#[derive(Debug)]
struct LogEnd {
    tail: Tail,
    /// The last intact frame.
    last_frame: Option<(u64, Vec<u8>)>,
    /// Where the remains of a cut-off commit end.
    torn: Option<u64>,
}

/// A segment's contents, decoded but not yet applied.
struct Decoded {
    frames: Vec<Frame>,
    last_revision: Revision,
    end: LogEnd,
}

/// Decoded segments waiting to be applied. Reading, checking and decoding overlap with applying; more than this would
/// only cost memory.
const DECODE_AHEAD: usize = 1;

fn replay_all(
    disk: &dyn Disk,
    segments: &[SegmentHeader],
    state: &mut State,
    retention: &Retention,
) -> Result<Replayed> {
    let mut replayed = Replayed { last_revision: FIRST_REVISION, bytes: 0, end: None };
    let mut apply = |decoded: Decoded| {
        replayed.bytes += decoded.end.tail.offset;
        replayed.last_revision = decoded.last_revision;
        replayed.end = Some(decoded.end);
        apply_frames(decoded.frames, state, retention);
    };
    if let [only] = segments {
        apply(decode_segment(disk, only, None)?);
        return Ok(replayed);
    }
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::sync_channel(DECODE_AHEAD);
        scope.spawn(move || {
            for (i, header) in segments.iter().enumerate() {
                let decoded = decode_segment(disk, header, segments.get(i + 1));
                let ok = decoded.is_ok();
                if sender.send(decoded).is_err() || !ok {
                    return;
                }
            }
        });
        receiver.into_iter().try_for_each(|decoded| decoded.map(&mut apply))
    })?;
    Ok(replayed)
}

/// Applies frames the way they were committed, forgetting history on the way so that a long log does not fill memory.
fn apply_frames(frames: Vec<Frame>, state: &mut State, retention: &Retention) {
    for frame in frames {
        match frame.body {
            FrameBody::Compact(floor) => state.raise_floor(floor),
            FrameBody::Batch(txns) => {
                for (i, records) in txns.into_iter().enumerate() {
                    let revision = Revision(frame.first_revision.0 + i as u64);
                    if revision > state.revision() {
                        records.into_iter().for_each(|record| state.replay(record, revision));
                        state.settle(revision);
                    }
                }
                state.mark_time(frame.time_ms);
                state.retain(retention, frame.time_ms);
                state.prune(usize::MAX);
            }
        }
    }
}

fn decode_segment(disk: &dyn Disk, header: &SegmentHeader, next: Option<&SegmentHeader>) -> Result<Decoded> {
    let name = segment_name(header.number);
    let file = disk.open(&name, Access::Read).map_err(|error| io_error(disk, "open", &name, &error))?;
    let bytes = read_all(&*file).map_err(|error| io_error(disk, "read", &name, &error))?;
    if SegmentHeader::decode(&bytes).as_ref() != Some(header) {
        return Err(corrupt(disk, &name, "segment changed while it was read".into()));
    }
    let mut frames = Vec::new();
    let mut last_revision = header.base;
    let mut offset = SEGMENT_HEADER_LEN;
    let mut last_frame = None;
    let fault = loop {
        match decode_frame(bytes.get(offset..).unwrap_or_default(), header.stamp) {
            Ok((frame, len)) => {
                last_revision = follow(last_revision, &frame).ok_or_else(|| {
                    let found = frame.first_revision;
                    corrupt(disk, &name, format!("revision {found} after {last_revision} at offset {offset}"))
                })?;
                frames.push(frame);
                last_frame = Some((offset, len));
                offset += len;
            }
            Err(fault) => break fault,
        }
    };
    let torn = match next {
        Some(next) if next.base != last_revision => {
            let expected = next.base;
            return Err(corrupt(
                disk,
                &name,
                format!(
                    "damaged record at offset {offset}: revisions after {last_revision} up to {expected} are missing"
                ),
            ));
        }
        Some(_) => None,
        None => torn_end(&bytes, offset, header.stamp, fault).map_err(|survivor| {
            let reason =
                format!("damaged record at offset {offset}, but an intact record follows at offset {survivor}");
            corrupt(disk, &name, reason)
        })?,
    };
    let last_frame = last_frame.map(|(at, len)| (at as u64, bytes[at..at + len].to_vec()));
    let tail = Tail { number: header.number, stamp: header.stamp, offset: offset as u64 };
    Ok(Decoded { frames, last_revision, end: LogEnd { tail, last_frame, torn: torn.map(|end| end as u64) } })
}

/// The newest revision after `frame`, which must follow on `last`.
fn follow(last: Revision, frame: &Frame) -> Option<Revision> {
    match &frame.body {
        FrameBody::Compact(_) => (frame.first_revision == last).then_some(last),
        FrameBody::Batch(txns) => (frame.first_revision == last.next()).then_some(Revision(last.0 + txns.len() as u64)),
    }
}

/// Where the remains of a cut-off commit beyond `offset` end, if there are any. An intact frame further on means that
/// this is no cut-off end but damage in the middle; its offset is the error.
fn torn_end(bytes: &[u8], offset: usize, stamp: u64, fault: FrameFault) -> Result<Option<usize>, usize> {
    let mut stamped = fault == FrameFault::Damaged;
    let mut at = offset + FRAME_ALIGN;
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        match check_frame(rest, stamp) {
            Ok(_) => return Err(at),
            Err(FrameFault::Damaged) => stamped = true,
            Err(FrameFault::NoFrame) => {}
        }
        at += FRAME_ALIGN;
    }
    let remains = bytes.iter().rposition(|&byte| byte != 0).map_or(offset, |last| last + 1);
    Ok((stamped && remains > offset).then_some(remains))
}

/// Leaves the last segment so that appending can go on.
///
/// The last intact frame is written once more: if its sync failed and only the process (not the machine) died, the
/// frame is readable now and yet not on disk, and the kernel will not write it again by itself.
fn repair_tail(disk: &dyn Disk, end: &LogEnd) -> Result<()> {
    let name = segment_name(end.tail.number);
    let repair = || -> io::Result<()> {
        let file = disk.open(&name, Access::ReadWrite)?;
        if let Some((at, frame)) = &end.last_frame {
            file.write_all_at(frame, *at)?;
        }
        if let Some(torn_end) = end.torn {
            zero(&*file, end.tail.offset, torn_end)?;
        }
        file.sync_data()
    };
    repair().map_err(|error| io_error(disk, "repair", &name, &error))
}

fn zero(file: &dyn DiskFile, from: u64, to: u64) -> io::Result<()> {
    static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
    let mut at = from;
    while at < to {
        let len = (to - at).min(ZEROS.len() as u64);
        file.write_all_at(&ZEROS[..len as usize], at)?;
        at += len;
    }
    Ok(())
}

pub(super) fn read_all(file: &dyn DiskFile) -> io::Result<Vec<u8>> {
    let len = usize::try_from(file.byte_len()?).map_err(io::Error::other)?;
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

fn segment_at(disk: &dyn Disk, tail: Tail) -> String {
    format!("{}/{} at offset {}", disk.location(), segment_name(tail.number), tail.offset)
}

pub(super) fn corrupt(disk: &dyn Disk, name: &str, reason: String) -> Error {
    Error::Corrupt(format!("{}/{name}: {reason}", disk.location()))
}

pub(super) fn io_error(disk: &dyn Disk, doing: &str, name: &str, error: &io::Error) -> Error {
    let message = format!("cannot {doing} {name} in {}: {error}", disk.location());
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::NoSpace(message),
        _ => Error::Unavailable(message),
    }
}
