//! Where a request waits for its turn: after we know who asks, before we look whether they may.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bailiwick_flowcontrol::matching::{Request, Target};
use bailiwick_flowcontrol::{FlowControl, PlainLimits, RequestKind, Seat, Turn};
use bailiwick_machinery::query::Query;
use bailiwick_machinery::user::UserInfo;
use http::header::RETRY_AFTER;

use super::ApiServer;
use super::respond::{Answer, Exchange};
use crate::request_info::RequestInfo;
use crate::tenant::Tenant;

/// A request waits for its turn at most this part of the time it may take.
const PATIENCE_DIVISOR: u32 = 4;
/// No request waits longer than this.
const PATIENCE_MAX: Duration = Duration::from_secs(60);
/// A list counts as one seat per so many objects that it looks at.
const OBJECTS_PER_SEAT: usize = 100;

/// How many requests run at once, and what happens to the others.
pub enum FlowLimits {
    /// Priority and fairness: they wait in fair queues.
    Fair(Arc<FlowControl>),
    /// They are turned away.
    Plain(PlainLimits),
}

impl ApiServer {
    /// Waits for the request's turn; the answer of whoever is turned away is the error. Without a seat it runs unlimited.
    /// `user` is who they count as: in a project not whom they act as, see `Visitor::counted`.
    pub(super) async fn admit(
        &self,
        tenant: &Tenant,
        user: &UserInfo,
        info: &RequestInfo,
        query: &Query,
        exchange: &mut Exchange,
    ) -> Result<Option<Seat>, Answer> {
        match &self.config.flow_limits {
            FlowLimits::Fair(control) => {
                let project = tenant.project.as_ref().map_or("", |project| &project.name);
                let request = Request { user, project, verb: info.verb, target: target(info) };
                let seats = |seats_max| self.estimated_seats(tenant, info, query, seats_max);
                let patience = || self.patience(info, query);
                let Some(outcome) = control.admit(&request, seats, patience).await else { return Ok(None) };
                exchange.classified = Some(outcome.classified);
                outcome.seat.map(Some).map_err(|refused| too_many_requests(refused.retry_after_seconds))
            }
            FlowLimits::Plain(limits) => {
                // Watches last; they count only where they can be told from their start.
                if info.verb == "watch" {
                    return Ok(None);
                }
                let mutating = !matches!(info.verb, "get" | "list" | "watch" | "head" | "options");
                let kind = if mutating { RequestKind::Mutating } else { RequestKind::ReadOnly };
                match limits.admit(kind) {
                    Some(seat) => Ok(Some(Seat::Plain(seat))),
                    // Whoever may do everything always gets an answer.
                    None if user.in_group(UserInfo::MASTERS) => Ok(None),
                    None => Err(too_many_requests(1)),
                }
            }
        }
    }

    /// How long a request waits for its turn: a part of the time that it may take, or that its client gives it.
    fn patience(&self, info: &RequestInfo, query: &Query) -> Duration {
        let asked = query.get("timeout").filter(|_| info.verb != "watch").and_then(go_duration);
        let allowed = asked.map_or(self.config.request_timeout, |asked| asked.min(self.config.request_timeout));
        (allowed / PATIENCE_DIVISOR).min(PATIENCE_MAX)
    }

    /// The work of a request: lists, and watches that begin with one, by the number of objects they look at.
    fn estimated_seats(&self, tenant: &Tenant, info: &RequestInfo, query: &Query, seats_max: u32) -> u32 {
        let initial_list = || {
            query.flag("sendInitialEvents") == Some(true)
                || matches!(query.get("resourceVersion").unwrap_or_default(), "" | "0")
        };
        let lists = info.verb == "list" || info.verb == "watch" && initial_list();
        if !lists || !info.name.is_empty() || seats_max <= 1 {
            return 1;
        }
        let registry = tenant.registry.load();
        let served = registry.get(&info.group, &info.version, &info.resource);
        let Some(cache) = served.and_then(|served| self.caches.loaded(&served.cache.as_ref()?.prefix)) else {
            return 1;
        };
        let mut objects = cache.counts().0;
        if let Some(limit) = query.get("limit").and_then(|limit| limit.parse::<usize>().ok()).filter(|limit| *limit > 0)
        {
            objects = objects.min(limit);
        }
        u32::try_from(objects.div_ceil(OBJECTS_PER_SEAT)).unwrap_or(seats_max)
    }
}

/// A positive duration as Go writes it, such as `1m30s`; `None` for anything else.
fn go_duration(text: &str) -> Option<Duration> {
    const UNITS: [(&str, f64); 7] =
        [("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let mut rest = text;
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(digits);
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit)?;
        seconds += number.parse::<f64>().ok()? * factor;
        rest = tail;
    }
    Duration::try_from_secs_f64(seconds).ok().filter(|duration| !duration.is_zero())
}

/// Does `work` with a turn to compute, until it first waits for something.
pub(super) async fn computing<F: Future>(mut turn: Option<Turn>, mut work: Pin<&mut F>) -> F::Output {
    poll_fn(move |cx| {
        let polled = work.as_mut().poll(cx);
        drop(turn.take());
        polled
    })
    .await
}

fn target(info: &RequestInfo) -> Target<'_> {
    if info.is_resource {
        Target::Resource {
            group: &info.group,
            resource: &info.resource,
            subresource: &info.subresource,
            namespace: &info.namespace,
        }
    } else {
        Target::Path(&info.path)
    }
}

/// As upstream, not a Status: clients go by the code and the header.
fn too_many_requests(retry_after_seconds: u64) -> Answer {
    Answer::text(429, "Too many requests, please try again later.\n")
        .header(RETRY_AFTER, &retry_after_seconds.to_string())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        assert_eq!(go_duration("400ms"), Some(Duration::from_millis(400)));
        assert_eq!(go_duration("1m30s"), Some(Duration::from_secs(90)));
        assert_eq!(go_duration("1.5h"), Some(Duration::from_secs(5400)));
        for nothing in ["", "0s", "5", "s", "-1s", "1x", "1s5", "."] {
            assert_eq!(go_duration(nothing), None, "{nothing}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_duration_or_not(text in "\\PC{0,20}") {
            go_duration(&text);
        }
    }
}
