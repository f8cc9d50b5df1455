//! Where the streams of an HTTP/2 connection run. A request is served by a task of its own, so that requests of one
//! connection use all cores; once its answer has become a stream of events or of list items, the connection's task takes
//! it over. A thousand watches on twenty connections are then woken twenty times per change, not a thousand times, and
//! what they send leaves together.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use futures::task::AtomicWaker;

use crate::wake;

/// A request and its answer. Counts as open until it is dropped.
struct Stream {
    running: Pin<Box<dyn Future<Output = ()> + Send>>,
    _open: Open,
}

impl Future for Stream {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.get_mut().running.as_mut().poll(cx)
    }
}

/// Says of one request whether its answer is a long stream. The request's handler sets it.
#[derive(Clone, Default)]
pub struct Streaming(Arc<AtomicBool>);

impl Streaming {
    pub fn begin(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn has_begun(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Starts the streams of one connection, as hyper asks for it. Clones are of the same connection.
#[derive(Clone, Default)]
pub struct StreamExecutor(Arc<Mutex<Handover>>);

#[derive(Default)]
struct Handover {
    /// The mark of the request whose stream is about to be started: hyper calls the service and starts the stream in
    /// one go, so there is never more than one.
    starting: Option<Streaming>,
    /// Streams on their way from a task of their own to the connection's.
    streams: Vec<Stream>,
    connection: Option<Waker>,
    closed: bool,
    /// Streams that have begun and not ended.
    open: usize,
    /// Requests there have been.
    requests: u64,
}

impl StreamExecutor {
    fn lock(&self) -> MutexGuard<'_, Handover> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A mark for the request that hyper hands to the service now.
    pub fn mark(&self) -> Streaming {
        let mark = Streaming::default();
        let mut handover = self.lock();
        handover.requests += 1;
        handover.starting = Some(mark.clone());
        drop(handover);
        mark
    }

    /// Whether no stream is open.
    pub fn is_idle(&self) -> bool {
        self.lock().open == 0
    }

    /// Whether several streams are open.
    pub fn is_shared(&self) -> bool {
        self.lock().open > 1
    }

    /// How many requests the connection has brought.
    pub fn requests(&self) -> u64 {
        self.lock().requests
    }

    fn hand_over(&self, stream: Stream) {
        let mut handover = self.lock();
        if handover.closed {
            return;
        }
        handover.streams.push(stream);
        let waker = handover.connection.take();
        drop(handover);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for StreamExecutor {
    fn execute(&self, stream: F) {
        let mark = {
            let mut handover = self.lock();
            handover.open += 1;
            handover.starting.take().unwrap_or_default()
        };
        let stream = Stream { running: Box::pin(stream), _open: Open(self.clone()) };
        tokio::spawn(Request { stream: Some(stream), mark, executor: self.clone() });
    }
}

struct Open(StreamExecutor);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.lock().open -= 1;
    }
}

/// A stream until its answer has begun to flow.
struct Request {
    stream: Option<Stream>,
    mark: Streaming,
    executor: StreamExecutor,
}

impl Future for Request {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let Some(stream) = &mut this.stream else { return Poll::Ready(()) };
        if Pin::new(stream).poll(cx).is_ready() {
            return Poll::Ready(());
        }
        if !this.mark.has_begun() {
            return Poll::Pending;
        }
        if let Some(stream) = this.stream.take() {
            this.executor.hand_over(stream);
        }
        Poll::Ready(())
    }
}

/// The streams that the connection's task runs.
pub struct Streams {
    executor: StreamExecutor,
    running: FuturesUnordered<Stream>,
    signal: Arc<Signal>,
    waker: Waker,
}

/// Wakes the connection's task for its streams, and tells whether a stream was woken while they had their turn.
#[derive(Default)]
struct Signal {
    woken: AtomicBool,
    connection: AtomicWaker,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        if let Some(connection) = self.connection.take() {
            wake::note(connection);
        }
    }
}

impl Streams {
    pub fn new(executor: StreamExecutor) -> Self {
        let signal = Arc::<Signal>::default();
        Self { executor, running: FuturesUnordered::new(), waker: signal.clone().into(), signal }
    }

    /// Gives every stream that has something to do its turn.
    pub fn poll(&mut self, cx: &mut Context<'_>) {
        {
            let mut handover = self.executor.lock();
            match &mut handover.connection {
                Some(waker) => waker.clone_from(cx.waker()),
                none => *none = Some(cx.waker().clone()),
            }
            self.running.extend(handover.streams.drain(..));
        }
        // Who is woken while all have their turn anyway need not wake the task for another one.
        self.signal.connection.take();
        let mut streams = Context::from_waker(&self.waker);
        // A stream that gets room to send wakes itself, and the set takes two of those for a reason to pause; what is sent
        // before the pause would leave alone. Each pause has let two streams go on, so this many rounds are enough.
        for _ in 0..=self.running.len() {
            self.signal.woken.store(false, Ordering::Release);
            while let Poll::Ready(Some(())) = self.running.poll_next_unpin(&mut streams) {}
            if !self.signal.woken.load(Ordering::Acquire) {
                break;
            }
        }
        self.signal.connection.register(cx.waker());
        if self.signal.woken.load(Ordering::Acquire) {
            cx.waker().wake_by_ref();
        }
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        let mut handover = self.executor.lock();
        handover.closed = true;
        let late = std::mem::take(&mut handover.streams);
        drop(handover);
        drop(late);
    }
}
