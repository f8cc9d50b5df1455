//! The body of another server's answer on its way to our client.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bailiwick_flowcontrol::Seat;
use bailiwick_webhook::BackendBody;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::http::BrokenBody;

/// A body that arrives from another server. Ends with an error where the other server's does, so that nobody takes a part
/// for the whole.
pub struct ProxiedBody {
    inner: BackendBody,
    course: Course,
    /// The request's right to run.
    seat: Option<Seat>,
}

enum Course {
    /// Broken off when it takes too long.
    Brief(Pin<Box<dyn Future<Output = ()> + Send>>),
    /// Ended when we end.
    Lasting(Pin<Box<dyn Future<Output = ()> + Send>>),
    Over,
}

impl ProxiedBody {
    /// The answer to a request that may take so long.
    pub fn brief(inner: BackendBody, timeout: Duration) -> Self {
        let course = match inner.is_end_stream() {
            true => Course::Over,
            false => Course::Brief(Box::pin(tokio::time::sleep(timeout))),
        };
        Self { inner, course, seat: None }
    }

    /// The answer to a watch and the like, which goes on until `closing`.
    pub fn lasting(inner: BackendBody, closing: Pin<Box<dyn Future<Output = ()> + Send>>) -> Self {
        Self { inner, course: Course::Lasting(closing), seat: None }
    }

    /// Keeps the request's right to run until the answer is complete. What lasts is not counted any longer, as the other
    /// server counts it itself.
    pub fn hold(&mut self, seat: Seat) {
        if let Course::Brief(_) = self.course {
            self.seat = Some(seat);
        }
    }

    pub fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenBody>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(cx);
        match polled {
            Poll::Ready(Some(Ok(frame))) => Poll::Ready(Some(Ok(frame))),
            Poll::Ready(Some(Err(error))) => {
                self.seat = None;
                Poll::Ready(Some(Err(BrokenBody::new(error))))
            }
            Poll::Ready(None) => {
                self.seat = None;
                Poll::Ready(None)
            }
            Poll::Pending => self.poll_end(cx),
        }
    }

    /// Whether the body ends although the other server's does not.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenBody>>> {
        let (Course::Brief(end) | Course::Lasting(end)) = &mut self.course else { return Poll::Pending };
        ready!(end.as_mut().poll(cx));
        match std::mem::replace(&mut self.course, Course::Over) {
            Course::Lasting(_) => Poll::Ready(None),
            _ => Poll::Ready(Some(Err(BrokenBody::new("the other server takes too long")))),
        }
    }

    pub fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    pub fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
