//! A body whose panic ends it and nothing else: the connection that polls it carries other answers, and is nobody's to count.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame};
use prometheus_client::metrics::counter::Counter;

use super::body::{BrokenBody, ResponseBody};

/// See the module.
pub struct ContainedBody {
    inner: ResponseBody,
    /// Counts panics.
    panics: Counter,
}

impl ContainedBody {
    pub fn new(inner: ResponseBody, panics: Counter) -> Self {
        Self { inner, panics }
    }

    pub fn inner(&self) -> &ResponseBody {
        &self.inner
    }

    pub fn inner_mut(&mut self) -> &mut ResponseBody {
        &mut self.inner
    }

    pub fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenBody>>> {
        let inner = &mut self.inner;
        // Whatever state it is left in, nobody sees: it is dropped.
        let polled = catch_unwind(AssertUnwindSafe(|| Pin::new(inner).poll_frame(cx)));
        polled.unwrap_or_else(|_| {
            self.inner = ResponseBody::empty();
            self.panics.inc();
            tracing::error!("an answer panicked while it was sent");
            Poll::Ready(Some(Err(BrokenBody::new("the server could not go on"))))
        })
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn a_panic_breaks_the_answer_off_and_is_counted() {
        let panics = Counter::default();
        let stream = futures::stream::iter(["one", "two", "panic", "three"]).map(|piece| match piece {
            "panic" => panic!("while it is sent"),
            piece => Bytes::from_static(piece.as_bytes()),
        });
        let inner = ResponseBody::Stream(stream.boxed());
        let mut body = ResponseBody::Contained(Box::new(ContainedBody::new(inner, panics.clone())));
        for expected in ["one", "two"] {
            let frame = body.frame().await.expect("a frame").expect("no error");
            assert_eq!(frame.into_data().expect("data"), expected);
        }
        let broken = body.frame().await.expect("a frame").expect_err("the panic");
        assert_eq!(broken.to_string(), "the answer broke off: the server could not go on");
        assert_eq!(panics.get(), 1);
        assert!(body.frame().await.is_none(), "it is over");
    }
}
