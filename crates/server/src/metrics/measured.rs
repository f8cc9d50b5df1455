//! A request is over when its answer is: what is sent as it is made, lists and watches above all, is counted at its end,
//! with the time it took and the bytes it had.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Response;
use http_body::Body;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

use super::{Metrics, Subject};
use crate::http::{FollowedBody, ResponseBody};

/// A request whose answer is being sent.
pub struct Course {
    pub subject: Subject,
    pub started: Instant,
    /// Of the time it took, how much was spent in the queue and on admission webhooks, for which we cannot answer.
    pub waited: Duration,
}

/// What is counted of an answer that is being sent.
pub struct Measuring {
    metrics: Arc<Metrics>,
    course: Course,
    code: u16,
    bytes: u64,
    watched: Option<Watched>,
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
        let measuring = Measuring { metrics: self.clone(), course, code, bytes: 0, watched };
        response.map(|body| {
            let mut followed = FollowedBody::around(body, &self.panics);
            followed.measuring = Some(measuring);
            ResponseBody::Followed(followed)
        })
    }
}

impl Measuring {
    pub fn sent(&mut self, data: &Bytes) {
        self.bytes += data.len() as u64;
    }

    /// How many events a watch has sent so far.
    pub fn events_sent(&mut self, count: u64) {
        if let Some(watched) = &mut self.watched {
            // What has panicked has been dropped and knows of no event any more.
            let sent = count.max(watched.counted);
            watched.events.inc_by(sent - watched.counted);
            watched.counted = sent;
        }
    }

    /// All has been sent, or nobody reads on.
    pub fn end(self) {
        let Self { metrics, course, code, bytes, watched } = self;
        metrics.finished(course, code, bytes);
        if let Some(watched) = watched {
            watched.open.dec();
        }
    }
}
