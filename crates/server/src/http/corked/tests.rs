use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use tokio::io::AsyncWrite;

use super::{GATHERED_BYTES_MAX, SLICE_BYTES_MAX, cork};

/// What a stream was asked to do; like TLS it takes bytes that it cannot send yet.
#[derive(Default)]
struct Seen {
    writes: Vec<usize>,
    flushes: usize,
    longest_slice: usize,
    blocked: bool,
}

#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Seen>>);

impl AsyncWrite for Recorder {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.0.lock().expect("lock").writes.push(buf.len());
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let len = bufs.iter().map(|buf| buf.len()).sum();
        let mut seen = self.0.lock().expect("lock");
        seen.writes.push(len);
        seen.longest_slice = bufs.iter().map(|buf| buf.len()).chain([seen.longest_slice]).max().unwrap_or_default();
        Poll::Ready(Ok(len))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut seen = self.0.lock().expect("lock");
        if seen.blocked {
            return Poll::Pending;
        }
        seen.flushes += 1;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn cx() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

#[test]
fn what_is_written_in_one_turn_leaves_in_one_write() {
    let recorder = Recorder::default();
    let (mut corked, cork) = cork(recorder.clone());
    for _ in 0..50 {
        assert!(Pin::new(&mut corked).poll_write(&mut cx(), &[1; 1000]).is_ready());
        assert!(Pin::new(&mut corked).poll_flush(&mut cx()).is_ready());
    }
    assert!(recorder.0.lock().expect("lock").writes.is_empty());
    assert!(cork.poll_pull(&mut cx()).is_ready());
    assert!(cork.poll_pull(&mut cx()).is_ready());
    let seen = recorder.0.lock().expect("lock");
    assert_eq!((seen.writes.as_slice(), seen.flushes), ([50_000].as_slice(), 1));
}

#[test]
fn a_full_buffer_is_written_through() {
    let recorder = Recorder::default();
    let (mut corked, _cork) = cork(recorder.clone());
    for _ in 0..3 {
        assert!(Pin::new(&mut corked).poll_write(&mut cx(), &vec![1; GATHERED_BYTES_MAX / 2 + 1]).is_ready());
    }
    assert!(Pin::new(&mut corked).poll_write(&mut cx(), &vec![1; GATHERED_BYTES_MAX]).is_ready());
    let half = GATHERED_BYTES_MAX / 2 + 1;
    let seen = recorder.0.lock().expect("lock");
    assert_eq!(seen.writes, [half, half, half, GATHERED_BYTES_MAX]);
    assert!(seen.longest_slice <= SLICE_BYTES_MAX, "a slice of {} bytes", seen.longest_slice);
}

#[test]
fn what_tls_has_taken_but_not_sent_is_flushed_when_the_socket_has_room() {
    let recorder = Recorder::default();
    let (mut corked, cork) = cork(recorder.clone());
    assert!(Pin::new(&mut corked).poll_write(&mut cx(), b"event").is_ready());
    recorder.0.lock().expect("lock").blocked = true;
    assert!(cork.poll_pull(&mut cx()).is_pending());
    recorder.0.lock().expect("lock").blocked = false;
    assert!(cork.poll_pull(&mut cx()).is_ready());
    assert_eq!(recorder.0.lock().expect("lock").flushes, 1);
}

#[test]
fn without_its_cork_a_flush_is_a_flush() {
    let recorder = Recorder::default();
    let (mut corked, cork) = cork(recorder.clone());
    drop(cork);
    assert!(Pin::new(&mut corked).poll_write(&mut cx(), b"upgraded").is_ready());
    assert!(Pin::new(&mut corked).poll_flush(&mut cx()).is_ready());
    assert_eq!(recorder.0.lock().expect("lock").writes, [8]);
}
