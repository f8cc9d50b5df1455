//! A request is over when its answer is: what is sent as it is made, lists and watches above all, is counted at its end,
//! with the time it took and the bytes it had.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

use super::{Metrics, Subject};
use crate::http::{BrokenBody, ResponseBody};

/// A request whose answer is being sent.
pub struct Course {
    pub subject: Subject,
    pub started: Instant,
    /// Of the time it took, how much was spent in the queue and on admission webhooks, for which we cannot answer.
    pub waited: Duration,
}

/// A body that is counted when it ends or its client goes.
pub struct MeasuredBody {
    inner: ResponseBody,
    ending: Option<Ending>,
    watched: Option<Watched>,
}

struct Ending {
    metrics: Arc<Metrics>,
    course: Course,
    code: u16,
    bytes: u64,
}

/// What is counted of a watch while it lasts.
struct Watched {
    /// Lowered again at the end.
    open: Gauge,
    events: Counter,
    counted: u64,
}

impl Metrics {
    /// Counts a request, now or when its answer has been sent.
    pub fn answered(self: &Arc<Self>, course: Course, response: Response<ResponseBody>) -> Response<ResponseBody> {
        let code = response.status().as_u16();
        if let Some(bytes) = response.body().size_hint().exact() {
            self.finished(course, code, bytes);
            return response;
        }
        let watched = (course.subject.verb == "WATCH").then(|| {
            let open = self.long_running(&course.subject);
            open.inc();
            Watched { open, events: self.watch_events(&course.subject), counted: 0 }
        });
        let ending = Some(Ending { metrics: self.clone(), course, code, bytes: 0 });
        response.map(|inner| ResponseBody::Measured(Box::new(MeasuredBody { inner, ending, watched })))
    }
}

impl MeasuredBody {
    pub fn inner(&self) -> &ResponseBody {
        &self.inner
    }

    pub fn inner_mut(&mut self) -> &mut ResponseBody {
        &mut self.inner
    }

    pub fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenBody>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(cx);
        if let Some(watched) = &mut self.watched {
            // What has panicked has been dropped and knows of no event any more.
            let sent = self.inner.events_sent().max(watched.counted);
            watched.events.inc_by(sent - watched.counted);
            watched.counted = sent;
        }
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let (Some(ending), Some(data)) = (&mut self.ending, frame.data_ref()) {
                    ending.bytes += data.len() as u64;
                }
            }
            Poll::Ready(None | Some(Err(_))) => self.end(),
            Poll::Pending => {}
        }
        polled
    }

    pub fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    pub fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }

    fn end(&mut self) {
        if let Some(Ending { metrics, course, code, bytes }) = self.ending.take() {
            metrics.finished(course, code, bytes);
        }
        if let Some(watched) = self.watched.take() {
            watched.open.dec();
        }
    }
}

impl Drop for MeasuredBody {
    fn drop(&mut self) {
        self.end();
    }
}
