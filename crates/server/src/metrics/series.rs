//! What every request counts in: how many, how long, how large. The metrics of one kind of request are kept together, so
//! that a request finds them with one look-up instead of one for each.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

use super::{Course, DurationLabels, Metrics, RequestLabels, Subject, SubjectLabels};

/// The metrics of each kind of request that there has been.
#[derive(Default)]
pub(super) struct Series(RwLock<HashMap<RequestLabels, Kind, foldhash::fast::RandomState>>);

struct Kind {
    requests: Counter,
    durations: Histogram,
    /// Only of requests that are meant.
    own_durations: Option<Histogram>,
    /// Only of reads.
    response_sizes: Option<Histogram>,
}

impl Metrics {
    /// Counts a finished request whose answer had so many bytes.
    pub(super) fn finished(&self, course: Course, code: u16, bytes: u64) {
        let took = course.started.elapsed();
        let count = |kind: &Kind| {
            kind.requests.inc();
            kind.durations.observe(took.as_secs_f64());
            if let Some(own_durations) = &kind.own_durations {
                own_durations.observe(took.saturating_sub(course.waited).as_secs_f64());
            }
            if let Some(response_sizes) = &kind.response_sizes {
                response_sizes.observe(bytes as f64);
            }
        };
        let labels = course.subject.answered(code);
        if let Some(kind) = self.series.0.read().unwrap_or_else(PoisonError::into_inner).get(&labels) {
            return count(kind);
        }
        let kind = self.kind(&labels);
        count(&kind);
        self.series.0.write().unwrap_or_else(PoisonError::into_inner).insert(labels, kind);
    }

    fn kind(&self, labels: &RequestLabels) -> Kind {
        let RequestLabels { verb, dry_run, group, version, resource, subresource, scope, component, code: _ } =
            labels.clone();
        let subject = SubjectLabels {
            verb,
            group: group.clone(),
            version: version.clone(),
            resource: resource.clone(),
            subresource: subresource.clone(),
            scope,
            component,
        };
        let duration = DurationLabels { verb, dry_run, group, version, resource, subresource, scope, component };
        let is_read = matches!(verb, "GET" | "LIST" | "WATCH");
        Kind {
            requests: self.requests.get_or_create_owned(labels),
            durations: self.durations.get_or_create_owned(&duration),
            own_durations: dry_run.is_empty().then(|| self.own_durations.get_or_create_owned(&subject)),
            response_sizes: is_read.then(|| self.response_sizes.get_or_create_owned(&subject)),
        }
    }
}

impl Subject {
    fn answered(self, code: u16) -> RequestLabels {
        let Self { verb, dry_run, group, version, resource, subresource, scope } = self;
        RequestLabels { verb, dry_run, group, version, resource, subresource, scope, component: "apiserver", code }
    }
}
