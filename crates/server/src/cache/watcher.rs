//! One watcher's bounded queue between the feed and a response body.

use std::cell::LazyCell;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bailiwick_machinery::list_options::ListOptions;
use bailiwick_machinery::origin::Origin;
use bailiwick_machinery::selector::fields::Operator;
use bailiwick_machinery::selector::labels::LabelSelector;
use bailiwick_machinery::status::{ApiError, ApiResult};
use bailiwick_store::{KeyRange, Revision};

use super::{Event, EventType, Object};
use crate::registry::Served;

/// What a list or watch lets through.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Empty is all namespaces.
    pub namespace: String,
    pub labels: LabelSelector,
    pub fields: Vec<FieldRequirement>,
    /// How objects are shown whose fields are looked at: a custom resource may be stored otherwise.
    pub(crate) shown_by: Option<Arc<Served>>,
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
    pub fn of(served: &Arc<Served>, namespace: &str, options: &ListOptions) -> ApiResult<Self> {
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
        let fields: Vec<FieldRequirement> = fields.collect();
        let looks_inside = fields.iter().any(|field| matches!(field.target, FieldTarget::Selectable(_)));
        let shown_by = (looks_inside && served.resource.custom.is_some()).then(|| served.clone());
        Ok(Self { namespace, fields, labels: options.labels.clone(), shown_by })
    }

    /// Whether an object is let through, by its fields as clients are shown them. Where only a webhook can tell those, it
    /// is let through for the time being: whoever has had it converted asks again.
    pub fn matches(&self, object: &Object) -> bool {
        (self.namespace.is_empty() || self.namespace == object.namespace())
            && self.labels.matches(|key| object.label(key))
            && self.fields_match(object)
    }

    fn fields_match(&self, object: &Object) -> bool {
        let shown_by = self.shown_by.as_ref();
        let undecided = shown_by.is_some_and(|served| served.needs_webhook(object));
        let shown = LazyCell::new(|| shown_by.and_then(|served| served.shown_fields(object)));
        self.fields.iter().all(|field| {
            let seen = match field.target {
                FieldTarget::Name => object.name(),
                FieldTarget::Namespace => object.namespace(),
                FieldTarget::Selectable(_) if undecided => return true,
                FieldTarget::Selectable(index) => match &*shown {
                    Some(shown) => shown.get(index).map_or("", String::as_str),
                    None => object.field(index),
                },
            };
            (seen == field.value) == field.equal
        })
    }

    /// Whether it depends on what is in objects, which versions may show differently.
    pub fn looks_inside(&self) -> bool {
        self.shown_by.is_some()
    }

    /// The keys that anything that matches has: those of a namespace, or the one of a name.
    pub fn range(&self, served: &Served) -> KeyRange {
        let equal = |target: FieldTarget| self.fields.iter().find(|field| field.equal && field.target == target);
        let namespace = match (self.namespace.as_str(), equal(FieldTarget::Namespace)) {
            ("", Some(field)) => &field.value,
            (namespace, _) => namespace,
        };
        match equal(FieldTarget::Name) {
            Some(name) if !served.resource.namespaced() || !namespace.is_empty() => {
                KeyRange::single(served.key(namespace, &name.value))
            }
            _ => KeyRange::prefix(served.prefix(namespace)),
        }
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

/// How much of what happened may wait, or be taken at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// Events.
    pub len_max: usize,
    /// Bytes of the objects in them. One event is always let through, or whoever watches large objects would get none.
    pub bytes_max: usize,
}

impl QueueLimits {
    /// Whether an event of so many bytes fits behind what is there.
    fn fits(self, len: usize, bytes: usize, event_bytes: usize) -> bool {
        len < self.len_max && (len == 0 || bytes.saturating_add(event_bytes) <= self.bytes_max)
    }

    /// The first of these events. Those of one transaction stay together: who has one of them resumes behind all.
    pub fn take_from(self, events: &mut Events) -> Vec<(EventType, Arc<Event>)> {
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while let Some((_, event)) = events.front() {
            let event_bytes = event.object.json_len_max();
            let begun = last_revision(&taken) == Some(event.revision());
            if !begun && !self.fits(taken.len(), bytes, event_bytes) {
                break;
            }
            bytes += event_bytes;
            taken.extend(events.pop_front());
        }
        taken
    }
}

fn last_revision(events: &[(EventType, Arc<Event>)]) -> Option<Revision> {
    events.last().map(|(_, event)| event.revision())
}

/// Events in the order they happened.
type Events = VecDeque<(EventType, Arc<Event>)>;

/// What a watcher gets when it polls.
#[derive(Debug)]
pub enum Next {
    Events(Vec<(EventType, Arc<Event>)>),
    /// The server is done with this watcher: it was too slow, or the server stops. The client resumes where it was.
    Closed,
}

#[derive(Debug)]
struct Queue {
    events: Events,
    /// Of the objects in `events`. The state before each is not counted: mostly it is the object of an earlier event.
    bytes: usize,
    /// The revision of the last event taken. What else happened at it is owed.
    taken: Revision,
    waker: Option<Waker>,
    closed: bool,
}

impl Queue {
    fn push(&mut self, event_type: EventType, event: Arc<Event>) {
        self.bytes += event.object.json_len_max();
        self.events.push_back((event_type, event));
    }

    fn take(&mut self, max: QueueLimits) -> Vec<(EventType, Arc<Event>)> {
        let taken = max.take_from(&mut self.events);
        self.bytes -= taken.iter().map(|(_, event)| event.object.json_len_max()).sum::<usize>();
        self.taken = last_revision(&taken).unwrap_or(self.taken);
        taken
    }

    /// Forgets what is undelivered and not owed: nobody may ever come to take it.
    fn cut_off(&mut self) {
        self.closed = true;
        let taken = self.taken;
        self.events.retain(|(_, event)| event.revision() == taken);
        self.events.shrink_to_fit();
        self.bytes = self.events.iter().map(|(_, event)| event.object.json_len_max()).sum();
    }
}

/// A registered watcher. The feed and the response body share it.
#[derive(Debug)]
pub struct Watcher {
    filter: Filter,
    /// Events at or before this revision are not for this watcher.
    after: Revision,
    /// How much undelivered may pile up before the watcher is cut off.
    limits: QueueLimits,
    queue: Mutex<Queue>,
}

impl Watcher {
    pub fn new(filter: Filter, after: Revision, limits: QueueLimits) -> Self {
        let queue = Queue { events: VecDeque::new(), bytes: 0, taken: Revision::default(), waker: None, closed: false };
        Self { filter, after, limits, queue: Mutex::new(queue) }
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
    /// is closed and can be forgotten. Whoever is cut off for being slow loses what it has not taken: it is all later than
    /// what it has, and the client resumes behind that.
    pub(super) fn offer(&self, event: &Arc<Event>, waiting: &mut Vec<Waker>) -> bool {
        if event.revision() <= self.after {
            return true;
        }
        let Some(event_type) = self.filter.classify(event) else { return true };
        let mut queue = self.lock();
        if queue.closed {
            return false;
        }
        let owed = event.revision() == queue.taken;
        if owed || self.limits.fits(queue.events.len(), queue.bytes, event.object.json_len_max()) {
            queue.push(event_type, event.clone());
        } else {
            queue.cut_off();
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

    /// At most `max` at once, so that one poll stays short and what it makes small.
    pub fn poll_next(&self, cx: &mut Context<'_>, max: QueueLimits) -> Poll<Next> {
        let mut queue = self.lock();
        if !queue.events.is_empty() {
            return Poll::Ready(Next::Events(queue.take(max)));
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

    /// Whether everything offered so far has been taken. Never of a watcher that is closed: it may have been cut off.
    pub fn is_drained(&self) -> bool {
        let queue = self.lock();
        queue.events.is_empty() && !queue.closed
    }
}

#[cfg(test)]
mod tests;
