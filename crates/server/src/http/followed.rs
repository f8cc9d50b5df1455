//! A body that is made as it is sent, and what is done about it meanwhile, in one box: its panic ends it and nothing else, as
//! the connection that polls it carries other answers; what is sent is recorded and counted; its end, or that its client
//! went, is told to whoever records and counts.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame};
use prometheus_client::metrics::counter::Counter;

use super::body::{BrokenBody, ResponseBody};
use crate::metrics::Measuring;
use crate::server::Recording;

/// See the module.
pub struct FollowedBody {
    inner: ResponseBody,
    /// Counts panics.
    panics: Counter,
    /// For the audit log. None when there is nothing to record, or all is.
    pub recording: Option<Recording>,
    /// For the metrics. None when all is counted.
    pub measuring: Option<Measuring>,
}

impl FollowedBody {
    /// What follows `body` already, or something that does from now on.
    pub fn around(body: ResponseBody, panics: &Counter) -> Box<Self> {
        match body {
            ResponseBody::Followed(already) => already,
            inner => Box::new(Self { inner, panics: panics.clone(), recording: None, measuring: None }),
        }
    }

    pub fn inner(&self) -> &ResponseBody {
        &self.inner
    }

    pub fn inner_mut(&mut self) -> &mut ResponseBody {
        &mut self.inner
    }

    pub fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenBody>>> {
        let polled = self.poll_contained(cx);
        if let Some(measuring) = &mut self.measuring {
            measuring.events_sent(self.inner.events_sent());
        }
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(data) = frame.data_ref() {
                    self.recording.iter_mut().for_each(|recording| recording.sent(data));
                    self.measuring.iter_mut().for_each(|measuring| measuring.sent(data));
                }
            }
            Poll::Ready(None | Some(Err(_))) => self.end(),
            Poll::Pending => {}
        }
        polled
    }

    fn poll_contained(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenBody>>> {
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

    fn end(&mut self) {
        if let Some(recording) = self.recording.take() {
            recording.end();
        }
        if let Some(measuring) = self.measuring.take() {
            measuring.end();
        }
    }
}

impl Drop for FollowedBody {
    fn drop(&mut self) {
        self.end();
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
        let mut body = ResponseBody::Followed(FollowedBody::around(ResponseBody::Stream(stream.boxed()), &panics));
        for expected in ["one", "two"] {
            let frame = body.frame().await.expect("a frame").expect("no error");
            assert_eq!(frame.into_data().expect("data"), expected);
        }
        let broken = body.frame().await.expect("a frame").expect_err("the panic");
        assert_eq!(broken.to_string(), "the answer broke off: the server could not go on");
        assert_eq!(panics.get(), 1);
        assert!(body.frame().await.is_none(), "it is over");
    }

    #[test]
    fn what_is_followed_already_is_not_put_into_another_box() {
        let panics = Counter::default();
        let once = FollowedBody::around(ResponseBody::empty(), &panics);
        let twice = FollowedBody::around(ResponseBody::Followed(once), &panics);
        assert!(matches!(twice.inner(), ResponseBody::Full(None)));
    }
}
