//! Events as a stream on disk, for subscribers that read at their own pace and may be away for a while.
//!
//! Every event has a sequence number, one more than the last, also across restarts. A subscriber reads from where it
//! acknowledged last, so it gets every event at least once. Segments are removed once every subscriber has acknowledged
//! them, or, oldest first, when the stream outgrows its limit; who then misses events is told so.

mod segment;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::watch;

use crate::batch::Batch;
use crate::sink::{AuditSink, SinkError};
use segment::{Appender, Segments};

/// How the stream is kept.
#[derive(Clone, Debug)]
pub struct StreamOptions {
    pub directory: PathBuf,
    /// The size of one file.
    pub segment_bytes: u64,
    /// The size of the whole stream; beyond it the oldest events are lost to those who have not read them.
    pub bytes_max: u64,
}

impl StreamOptions {
    /// Files of 16 MiB, a stream of up to 1 GiB.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), segment_bytes: 16 << 20, bytes_max: 1 << 30 }
    }
}

/// An event of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub sequence: u64,
    /// The event in `audit.k8s.io/v1`.
    pub json: Bytes,
}

/// Why a stream cannot be read on.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The subscriber was away too long. It may go on with the event numbered `resume`.
    #[error("the events {missed} to {} are gone: the stream outgrew its limit", .resume - 1)]
    Lost { missed: u64, resume: u64 },
    #[error("the stream has ended")]
    Ended,
    #[error("{0:?} is no name for a subscriber: use letters, digits and dashes")]
    Name(String),
}

/// The writing end, a sink of the auditor.
pub struct StreamSink {
    options: StreamOptions,
    appender: Appender,
    last: watch::Sender<u64>,
}

/// The reading end: gives out subscriptions.
#[derive(Clone)]
pub struct Stream {
    directory: Arc<Path>,
    last: watch::Receiver<u64>,
}

/// Opens the stream, making it if need be. What a crash left half written at its end is cut off.
pub fn open(options: StreamOptions) -> io::Result<(StreamSink, Stream)> {
    std::fs::create_dir_all(options.directory.join(CURSORS))?;
    let appender = Appender::open(&options.directory)?;
    let (last, receiver) = watch::channel(appender.next() - 1);
    let stream = Stream { directory: options.directory.clone().into(), last: receiver };
    Ok((StreamSink { options, appender, last }, stream))
}

/// Where subscribers keep how far they are.
const CURSORS: &str = "cursors";

impl AuditSink for StreamSink {
    fn name(&self) -> &'static str {
        "stream"
    }

    fn accept(&mut self, events: &Batch) -> Result<(), SinkError> {
        self.appender.append(events.iter())?;
        self.last.send_replace(self.appender.next() - 1);
        if self.appender.bytes() >= self.options.segment_bytes {
            self.appender.roll(&self.options.directory)?;
            self.forget()?;
        }
        Ok(())
    }
}

impl StreamSink {
    /// Removes segments nobody needs any more, and those there is no room for.
    fn forget(&self) -> io::Result<()> {
        let acknowledged = acknowledged_by_all(&self.options.directory)?;
        let segments = Segments::list(&self.options.directory)?;
        let mut total: u64 = segments.sizes().sum();
        for (segment, next) in segments.pairs() {
            let unread = acknowledged.is_none_or(|acknowledged| acknowledged + 1 < next.first);
            if unread && total <= self.options.bytes_max {
                return Ok(());
            }
            if unread && acknowledged.is_some() {
                tracing::error!(first = segment.first, "audit events are removed unread: the stream outgrew its limit");
            }
            total = total.saturating_sub(segment.bytes);
            std::fs::remove_file(&segment.path)?;
        }
        Ok(())
    }
}

/// How far the slowest subscriber is; `None` when there are none, and then events are kept for one to come.
fn acknowledged_by_all(directory: &Path) -> io::Result<Option<u64>> {
    let mut slowest = None;
    for entry in std::fs::read_dir(directory.join(CURSORS))? {
        let path = entry?.path();
        if path.extension().is_none() {
            let acknowledged = read_cursor(&path)?;
            slowest = Some(slowest.map_or(acknowledged, |slowest: u64| slowest.min(acknowledged)));
        }
    }
    Ok(slowest)
}

fn read_cursor(path: &Path) -> io::Result<u64> {
    match std::fs::read_to_string(path) {
        Ok(text) => text.trim().parse().map_err(|_| {
            io::Error::new(io::ErrorKind::InvalidData, format!("{}: not a sequence number", path.display()))
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    }
}

fn write_cursor(path: &Path, acknowledged: u64) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let mut file = std::fs::File::create(&temporary)?;
    io::Write::write_all(&mut file, acknowledged.to_string().as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)
}

impl Stream {
    /// A subscription that goes on after the last event `name` acknowledged, or with the oldest there is. From now on
    /// events are kept until it acknowledges them.
    pub fn subscribe(&self, name: &str) -> Result<Subscription, StreamError> {
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Err(StreamError::Name(name.to_owned()));
        }
        let cursor = self.directory.join(CURSORS).join(name);
        let fresh = !cursor.exists();
        let mut acknowledged = read_cursor(&cursor)?;
        if fresh {
            let oldest = Segments::list(&self.directory)?.oldest().unwrap_or(1);
            acknowledged = oldest - 1;
            write_cursor(&cursor, acknowledged)?;
        }
        Ok(Subscription {
            directory: self.directory.clone(),
            last: self.last.clone(),
            cursor,
            acknowledged,
            next: acknowledged + 1,
            place: None,
        })
    }

    /// Ends a subscription for good: nothing is kept for it any more.
    pub fn unsubscribe(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.directory.join(CURSORS).join(name))
    }
}

/// One reader of the stream.
pub struct Subscription {
    directory: Arc<Path>,
    last: watch::Receiver<u64>,
    cursor: PathBuf,
    acknowledged: u64,
    next: u64,
    /// The segment being read and the offset of the next event in it.
    place: Option<(PathBuf, u64)>,
}

impl Subscription {
    /// The next events, at most `max`; waits for one if there is none. Not acknowledged events come again after a restart.
    pub async fn next(&mut self, max: usize) -> Result<Vec<Item>, StreamError> {
        let wanted = self.next;
        self.last.wait_for(|last| *last >= wanted).await.map_err(|_| StreamError::Ended)?;
        self.read(max)
    }

    /// The next events there are, without waiting.
    pub fn read(&mut self, max: usize) -> Result<Vec<Item>, StreamError> {
        let last = *self.last.borrow();
        let mut items = Vec::new();
        while items.len() < max && self.next <= last {
            if self.place.is_none() {
                self.place = Some(self.find()?);
            }
            let Some((path, offset)) = &mut self.place else { break };
            let wanted = max.min(items.len() + (last - self.next + 1) as usize) - items.len();
            let read = segment::read(path, *offset, wanted, self.next)?;
            if read.items.is_empty() {
                // The segment is read to its end; the event is in the next one.
                self.place = None;
                if self.find()?.0 == read.path {
                    break;
                }
                continue;
            }
            *offset = read.offset;
            self.next += read.items.len() as u64;
            items.extend(read.items);
        }
        Ok(items)
    }

    /// The segment that holds the next event, and where in it.
    fn find(&self) -> Result<(PathBuf, u64), StreamError> {
        let segments = Segments::list(&self.directory)?;
        match segments.holding(self.next) {
            Some(segment) => Ok((segment.path.clone(), segment.offset_of(self.next)?)),
            None => Err(StreamError::Lost { missed: self.next, resume: segments.oldest().unwrap_or(self.next + 1) }),
        }
    }

    /// Goes on with `sequence`, after events were lost.
    pub fn resume(&mut self, sequence: u64) {
        self.next = sequence;
        self.place = None;
    }

    /// Everything up to `sequence` is dealt with and need not come again. Durable when this returns.
    pub fn acknowledge(&mut self, sequence: u64) -> Result<(), StreamError> {
        if sequence > self.acknowledged {
            write_cursor(&self.cursor, sequence)?;
            self.acknowledged = sequence;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
