//! The kinds of body a response can have. Lists and watches produce their bytes as the connection takes them, so that a
//! large answer or a slow reader costs a chunk of memory, not the whole answer.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bailiwick_flowcontrol::Seat;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use http_body::{Body, Frame, SizeHint};

use super::followed::FollowedBody;
use super::lanes::Length;
use crate::aggregation::ProxiedBody;
use crate::handlers::list::ListBody;
use crate::handlers::watch::WatchBody;

/// An answer that ended before it was complete. The connection, or the stream, is broken off with it.
#[derive(Debug, thiserror::Error)]
#[error("the answer broke off: {0}")]
pub struct BrokenBody(Box<dyn std::error::Error + Send + Sync>);

impl BrokenBody {
    pub fn new(reason: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(reason.into())
    }
}

/// A response body.
pub enum ResponseBody {
    /// All bytes at hand.
    Full(Option<Bytes>),
    /// Objects of a snapshot, encoded on the way out.
    List(Box<ListBody>),
    /// Events as they happen.
    Watch(Box<WatchBody>),
    /// Anything else made as it is sent.
    Stream(BoxStream<'static, Bytes>),
    /// An OpenAPI document, unpacked or not on the way out.
    Document(Box<crate::openapi::DocumentBody>),
    /// What another server answers.
    Proxied(Box<ProxiedBody>),
    /// Any other body, compressed.
    Gzip(Box<crate::encode::gzip::GzipBody>),
    /// Any body made as it is sent, contained, recorded and counted.
    Followed(Box<FollowedBody>),
}

impl ResponseBody {
    pub fn full(bytes: impl Into<Bytes>) -> Self {
        Self::Full(Some(bytes.into()))
    }

    pub fn empty() -> Self {
        Self::Full(None)
    }

    /// Whether the bytes are made as the connection takes them.
    pub fn is_streamed(&self) -> bool {
        match self {
            Self::List(_) | Self::Watch(_) | Self::Stream(_) | Self::Proxied(_) => true,
            Self::Followed(followed) => followed.inner().is_streamed(),
            Self::Full(_) | Self::Document(_) | Self::Gzip(_) => false,
        }
    }

    /// Whether this is a list of objects.
    pub fn is_list(&self) -> bool {
        match self {
            Self::List(_) => true,
            Self::Followed(followed) => followed.inner().is_list(),
            _ => false,
        }
    }

    /// How many events of a watch were sent.
    pub fn events_sent(&self) -> u64 {
        match self {
            Self::Watch(watch) => watch.events_sent(),
            Self::Followed(followed) => followed.inner().events_sent(),
            _ => 0,
        }
    }

    /// Lets the connection know when the answer turns out to be long.
    pub fn measure(&mut self, length: &Arc<Length>) {
        match self {
            Self::List(list) => list.measure(length),
            Self::Gzip(gzip) => gzip.inner_mut().measure(length),
            Self::Followed(followed) => followed.inner_mut().measure(length),
            Self::Full(_) | Self::Watch(_) | Self::Stream(_) | Self::Document(_) | Self::Proxied(_) => {}
        }
    }

    /// Lets an answer that is made while the client reads it hold on to its request's seat; gives it back if all is made.
    pub fn hold(&mut self, seat: Seat) -> Option<Seat> {
        match self {
            Self::List(list) => list.hold(seat.streaming()),
            Self::Watch(watch) => watch.hold(seat),
            Self::Proxied(proxied) => proxied.hold(seat),
            Self::Full(_) | Self::Stream(_) | Self::Document(_) | Self::Gzip(_) | Self::Followed(_) => {
                return Some(seat);
            }
        }
        None
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BrokenBody;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let chunk = match self.get_mut() {
            Self::Full(bytes) => Poll::Ready(bytes.take().filter(|b| !b.is_empty())),
            Self::List(list) => list.poll_chunk(cx),
            Self::Watch(watch) => watch.poll_chunk(cx),
            Self::Stream(stream) => stream.poll_next_unpin(cx),
            Self::Document(document) => Poll::Ready(document.next_chunk()),
            Self::Proxied(proxied) => return proxied.poll_frame(cx),
            Self::Gzip(gzip) => return Pin::new(gzip.as_mut()).poll_frame(cx),
            Self::Followed(followed) => return followed.poll_frame(cx),
        };
        chunk.map(|chunk| chunk.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Full(bytes) => bytes.is_none(),
            Self::Proxied(proxied) => proxied.is_end_stream(),
            Self::Followed(followed) => followed.inner().is_end_stream(),
            _ => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64)),
            Self::Document(document) => SizeHint::with_exact(document.bytes_left()),
            Self::Proxied(proxied) => proxied.size_hint(),
            Self::Followed(followed) => followed.inner().size_hint(),
            _ => SizeHint::default(),
        }
    }
}
