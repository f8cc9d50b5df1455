//! Gathers what the streams of one connection send, and writes it out once when the connection has nothing more to say
//! for now: one TLS record and one system call for fifty events instead of fifty each.
//!
//! The HTTP side writes into [`Corked`], whose flush is only a wish; the connection's task ends each of its turns with
//! [`Cork::poll_pull`], which fulfils it. Memory is bounded: a full buffer is written through at once.
//! Bytes are handed to TLS in small slices, because it copies each of them and large copies are slow on some machines.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What is gathered before it is written without waiting for the end of the turn: a small event for each of a hundred
/// streams. TLS should take as much at once.
pub const GATHERED_BYTES_MAX: usize = 128 * 1024;
/// What is worth a write of its own: parts of a long list, which gathering would only copy once more.
const WRITTEN_ALONE_BYTES: usize = 8 * 1024;
/// The largest slice that TLS is given to copy. From 4 KiB on glibc copies with `rep movsb`, which on AMD's Zen 3 takes three
/// times as long as the encryption that follows it; lists cost 40 % less CPU in slices.
const SLICE_BYTES_MAX: usize = 2 * 1024;
/// Slices handed over at once: as much as is gathered.
const SLICES_MAX: usize = GATHERED_BYTES_MAX / SLICE_BYTES_MAX;
/// What an idle connection may keep allocated; ten thousand of them should cost megabytes.
const IDLE_BYTES_MAX: usize = 2 * 1024;

/// The side that HTTP reads and writes.
pub struct Corked<S>(Arc<Mutex<Gathered<S>>>);

/// The side that decides when gathered bytes leave. When it is dropped, flushes work at once again.
pub struct Cork<S>(Arc<Mutex<Gathered<S>>>);

struct Gathered<S> {
    stream: S,
    bytes: Vec<u8>,
    /// How much of `bytes` the stream has taken.
    taken: usize,
    /// Whether something was written that is not known to have left: TLS may still hold it when we no longer do.
    unflushed: bool,
    corked: bool,
}

/// Puts a cork on `stream`. Both sides belong to one task, so their lock is never waited for.
pub fn cork<S>(stream: S) -> (Corked<S>, Cork<S>) {
    let gathered = Gathered { stream, bytes: Vec::new(), taken: 0, unflushed: false, corked: true };
    let shared = Arc::new(Mutex::new(gathered));
    (Corked(shared.clone()), Cork(shared))
}

fn lock<S>(shared: &Mutex<Gathered<S>>) -> MutexGuard<'_, Gathered<S>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S: AsyncWrite + Unpin> Gathered<S> {
    /// Hands everything gathered to the stream.
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest) = self.bytes.get(self.taken..).filter(|rest| !rest.is_empty()) {
            match ready!(poll_write_sliced(&mut self.stream, cx, [rest]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.taken += written,
            }
        }
        self.bytes.clear();
        self.taken = 0;
        Poll::Ready(Ok(()))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(cx))?;
        if self.bytes.capacity() > IDLE_BYTES_MAX {
            self.bytes = Vec::new();
        }
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.unflushed = false;
        Poll::Ready(Ok(()))
    }

    /// Makes room for `len` more bytes, or says that they are too many to be gathered at all.
    fn poll_room(&mut self, cx: &mut Context<'_>, len: usize) -> Poll<io::Result<Room>> {
        self.unflushed = true;
        let alone = len >= WRITTEN_ALONE_BYTES;
        if alone || self.bytes.len() + len > GATHERED_BYTES_MAX {
            ready!(self.poll_drain(cx))?;
        }
        if alone {
            return Poll::Ready(Ok(Room::None));
        }
        if self.bytes.capacity() - self.bytes.len() < len {
            // Small answers stay small; whoever outgrows that will likely fill all of it.
            let small = self.bytes.len() + len <= IDLE_BYTES_MAX;
            let capacity = if small { IDLE_BYTES_MAX } else { GATHERED_BYTES_MAX };
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        Poll::Ready(Ok(Room::Enough))
    }
}

/// Writes `bytes`, or the first of them, in small slices.
fn poll_write_sliced<'a, S: AsyncWrite + Unpin>(
    stream: &mut S,
    cx: &mut Context<'_>,
    bytes: impl IntoIterator<Item = &'a [u8]>,
) -> Poll<io::Result<usize>> {
    let mut slices = [io::IoSlice::new(&[]); SLICES_MAX];
    let small = bytes.into_iter().flat_map(|bytes| bytes.chunks(SLICE_BYTES_MAX));
    let count = slices.iter_mut().zip(small).map(|(slice, bytes)| *slice = io::IoSlice::new(bytes)).count();
    Pin::new(stream).poll_write_vectored(cx, &slices[..count])
}

enum Room {
    Enough,
    None,
}

impl<S: AsyncWrite + Unpin> Cork<S> {
    /// Writes out what was gathered since the last time.
    pub fn poll_pull(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut gathered = lock(&self.0);
        if gathered.unflushed { gathered.poll_flush(cx) } else { Poll::Ready(Ok(())) }
    }
}

impl<S> Drop for Cork<S> {
    fn drop(&mut self) {
        lock(&self.0).corked = false;
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Corked<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut lock(&self.0).stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Corked<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let mut gathered = lock(&self.0);
        match ready!(gathered.poll_room(cx, buf.len()))? {
            Room::None => poll_write_sliced(&mut gathered.stream, cx, [buf]),
            Room::Enough => {
                gathered.bytes.extend_from_slice(buf);
                Poll::Ready(Ok(buf.len()))
            }
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut gathered = lock(&self.0);
        let len = bufs.iter().map(|buf| buf.len()).sum();
        match ready!(gathered.poll_room(cx, len))? {
            Room::None => poll_write_sliced(&mut gathered.stream, cx, bufs.iter().map(|buf| &**buf)),
            Room::Enough => {
                bufs.iter().for_each(|buf| gathered.bytes.extend_from_slice(buf));
                Poll::Ready(Ok(len))
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut gathered = lock(&self.0);
        if gathered.corked { Poll::Ready(Ok(())) } else { gathered.poll_flush(cx) }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut gathered = lock(&self.0);
        ready!(gathered.poll_flush(cx))?;
        Pin::new(&mut gathered.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
