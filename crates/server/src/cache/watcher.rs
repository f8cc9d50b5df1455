//! One watcher's bounded queue between the feed and a response body.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bailiwick_machinery::list_options::ListOptions;
use bailiwick_machinery::origin::Origin;
use bailiwick_machinery::selector::fields::Operator;
use bailiwick_machinery::selector::labels::LabelSelector;
use bailiwick_machinery::status::{ApiError, ApiResult};
use bailiwick_store::Revision;

use super::{Event, EventType, Object};
use crate::registry::Served;

/// What a list or watch lets through.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Empty is all namespaces.
    pub namespace: String,
    pub labels: LabelSelector,
    pub fields: Vec<FieldRequirement>,
}

/// One resolved requirement of a field selector.
#[derive(Clone, Debug)]
pub struct FieldRequirement {
    pub target: FieldTarget,
    pub value: String,
    pub equal: bool,
}

/// Where a field requirement looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldTarget {
    Name,
    Namespace,
    /// The n-th selectable field of the resource.
    Selectable(usize),
}

impl Filter {
    /// The filter of a list or watch in a namespace; fields that cannot be selected by are refused.
    pub fn of(served: &Served, namespace: &str, options: &ListOptions) -> ApiResult<Self> {
        let origin = if served.resource.native.is_some() { Origin::Native } else { Origin::Custom };
        options
            .fields
            .check(&served.resource.selectable_fields, origin)
            .map_err(|error| ApiError::bad_request(error.to_string()))?;
        let fields = options.fields.requirements().iter().filter_map(|requirement| {
            let target = match requirement.field.as_str() {
                "metadata.name" => FieldTarget::Name,
                "metadata.namespace" => FieldTarget::Namespace,
                field => FieldTarget::Selectable(served.indexed_field(field)?),
            };
            let equal = requirement.operator == Operator::Equals;
            Some(FieldRequirement { target, value: requirement.value.clone(), equal })
        });
        let namespace = if served.resource.namespaced() { namespace.to_owned() } else { String::new() };
        Ok(Self { namespace, fields: fields.collect(), labels: options.labels.clone() })
    }

    pub fn matches(&self, object: &Object) -> bool {
        (self.namespace.is_empty() || self.namespace == object.namespace())
            && self.fields.iter().all(|field| field.holds(object))
            && self.labels.matches(|key| object.label(key))
    }

    /// Whether everything in scope matches.
    pub fn selects_all(&self) -> bool {
        self.fields.is_empty() && self.labels.is_empty()
    }

    /// How a change looks through this filter: an object that starts or stops matching is added or deleted.
    pub fn classify(&self, event: &Event) -> Option<EventType> {
        let before = event.previous.as_ref().is_some_and(|object| self.matches(object));
        let after = !event.deleted && self.matches(&event.object);
        match (before, after) {
            (false, true) => Some(EventType::Added),
            (true, true) => Some(EventType::Modified),
            (true, false) => Some(EventType::Deleted),
            (false, false) => None,
        }
    }
}

impl FieldRequirement {
    fn holds(&self, object: &Object) -> bool {
        let seen = match self.target {
            FieldTarget::Name => object.name(),
            FieldTarget::Namespace => object.namespace(),
            FieldTarget::Selectable(index) => object.field(index),
        };
        (seen == self.value) == self.equal
    }
}

/// What a watcher gets when it polls.
#[derive(Debug)]
pub enum Next {
    Events(Vec<(EventType, Arc<Event>)>),
    /// The server is done with this watcher: it was too slow, or the server stops. The client resumes where it was.
    Closed,
}

#[derive(Debug)]
struct Queue {
    events: VecDeque<(EventType, Arc<Event>)>,
    waker: Option<Waker>,
    closed: bool,
}

/// A registered watcher. The feed and the response body share it.
#[derive(Debug)]
pub struct Watcher {
    filter: Filter,
    /// Events at or before this revision are not for this watcher.
    after: Revision,
    /// How many undelivered events may pile up before the watcher is cut off.
    queue_len_max: usize,
    queue: Mutex<Queue>,
}

impl Watcher {
    pub fn new(filter: Filter, after: Revision, queue_len_max: usize) -> Self {
        Self {
            filter,
            after,
            queue_len_max,
            queue: Mutex::new(Queue { events: VecDeque::new(), waker: None, closed: false }),
        }
    }

    /// The client has seen everything up to here.
    pub fn after(&self) -> Revision {
        self.after
    }

    pub fn filter(&self) -> &Filter {
        &self.filter
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues the event if it is for this watcher. Whoever waits for it is added to `waiting`, to be woken when all
    /// watchers have theirs: connections then send what all their watchers got at once. `false` means that the watcher
    /// is closed and can be forgotten.
    pub(super) fn offer(&self, event: &Arc<Event>, waiting: &mut Vec<Waker>) -> bool {
        if event.revision() <= self.after {
            return true;
        }
        let Some(event_type) = self.filter.classify(event) else { return true };
        let mut queue = self.lock();
        if queue.closed {
            return false;
        }
        if queue.events.len() >= self.queue_len_max {
            queue.closed = true;
        } else {
            queue.events.push_back((event_type, event.clone()));
        }
        waiting.extend(queue.waker.take());
        !queue.closed
    }

    /// Ends the watch. What is queued is still delivered.
    pub fn close(&self) {
        let mut queue = self.lock();
        queue.closed = true;
        if let Some(waker) = queue.waker.take() {
            waker.wake();
        }
    }

    /// At most `max` events at once, so that one poll stays short.
    pub fn poll_next(&self, cx: &mut Context<'_>, max: usize) -> Poll<Next> {
        let mut queue = self.lock();
        if !queue.events.is_empty() {
            let take = queue.events.len().min(max);
            return Poll::Ready(Next::Events(queue.events.drain(..take).collect()));
        }
        if queue.closed {
            return Poll::Ready(Next::Closed);
        }
        match &mut queue.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// Whether everything offered so far has been taken.
    pub fn is_drained(&self) -> bool {
        self.lock().events.is_empty()
    }
}
