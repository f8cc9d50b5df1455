//! WATCH: changes of a resource as they happen, each encoded once and shared by everybody who watches.

use std::collections::VecDeque;
use std::future::Future;
use std::ops::Bound;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bailiwick_flowcontrol::{Seat, StreamingSeat};
use bailiwick_machinery::list_options::{ListAt, ListOptions, WatchStart};
use bailiwick_machinery::media::Answer;
use bailiwick_machinery::status::{ApiError, ApiResult};
use bailiwick_store::{self as store, KeyRange, Revision, WatchItem};
use bytes::Bytes;
use futures::StreamExt;
use rand::Rng;
use tokio::time::{Instant, Sleep};

use super::list::wait_until_fresh;
use super::request::{Reply, Request};
use crate::cache::{Caches, Event, EventType, Filter, FrameKey, Next, QueueLimits, ResourceCache, Snapshot, Watcher};
use crate::encode::{Bookmark, Encoder};
use crate::http::ResponseBody;

/// Watches without a timeout of their own end after this long or up to twice it, at random, so that they do not all
/// come back at once.
const TIMEOUT_MIN: Duration = Duration::from_secs(1800);
/// Longer watches than a day are cut to it: nothing needs them, and clocks overflow.
const TIMEOUT_SECONDS_MAX: u64 = 24 * 3600;
/// How often an idle watch is told the current revision.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(55);
/// A bookmark goes out this long before the watch ends, so that the client resumes from a fresh revision.
const LAST_BOOKMARK_LEAD: Duration = Duration::from_secs(2);
/// How much is encoded in one poll.
const CHUNK_BYTES: usize = 64 * 1024;
/// How many events one poll takes: what it makes of them waits for the client in memory.
const PER_POLL: QueueLimits = QueueLimits { len_max: 256, bytes_max: CHUNK_BYTES };

/// Serves a watch.
pub async fn watch(rq: &Request<'_>) -> ApiResult<Reply> {
    // Upstream holds the deprecated paths of watches, which need no such parameter, to the rules of lists.
    if rq.query.flag("watch") != Some(true) {
        ListOptions::parse(rq.query)?;
    }
    let mut options = ListOptions::parse(&rq.query.clone().with("watch", "true"))?;
    if !rq.info.name.is_empty() {
        options.restrict_to_name(&rq.info.name)?;
    }
    let encoder = rq.encoder(Answer::Watch)?;
    let filter = rq.filter(&options)?;
    let content_type = encoder.stream_content_type();
    let body = match start(rq, &options, filter, encoder.clone()).await {
        Ok(body) => body,
        // Upstream answers 200 and says what is wrong in the stream.
        Err(error) if error.code == 410 => WatchBody::failed(encoder, rq, error).await?,
        Err(error) => return Err(error),
    };
    Ok(Reply::new(200, content_type, ResponseBody::Watch(Box::new(body))))
}

async fn start(rq: &Request<'_>, options: &ListOptions, filter: Filter, encoder: Encoder) -> ApiResult<WatchBody> {
    let caches = rq.server.caches.clone();
    let cache = rq.cache().await?;
    let begin = options.watch_start()?;
    match begin {
        WatchStart::Initial(ListAt::NotOlderThan(revision)) => wait_until_fresh(rq, Revision(revision)).await?,
        WatchStart::Initial(ListAt::Latest) | WatchStart::Now => {
            caches.wait_current().await.map_err(|e| rq.store_error(e))?;
        }
        WatchStart::Initial(_) | WatchStart::After(_) => {}
    }
    let applied = caches.applied();
    let after = match begin {
        WatchStart::After(revision) => Some(Revision(revision)),
        _ => None,
    };
    let (snapshot, watcher) = cache.watch(filter.clone(), applied, after, rq.server.config.watch_queue);
    // The guard forgets the watcher again if the replay below fails.
    let registration = Registration { cache, watcher };
    let mut replay = VecDeque::new();
    let mut initial = None;
    match after {
        None if matches!(begin, WatchStart::Initial(_)) => {
            initial = Some(Initial::new(rq, &filter, rq.served.present_snapshot(snapshot, &filter).await?));
        }
        Some(after) if after < snapshot.revision => {
            replay = replay_between(rq, &registration.cache, &filter, after, snapshot.revision).await?;
        }
        _ => {}
    }
    let ends_initial = options.bookmarks_initial_events();
    let timeout = match options.timeout_seconds.and_then(|seconds| u64::try_from(seconds).ok()) {
        Some(seconds) if seconds > 0 => Duration::from_secs(seconds.min(TIMEOUT_SECONDS_MAX)),
        _ => TIMEOUT_MIN.mul_f64(rand::rng().random_range(1.0..2.0)),
    };
    let deadline = Instant::now() + timeout;
    let bookmarks = options.allow_watch_bookmarks.then(|| Bookmarks::new(deadline));
    Ok(WatchBody {
        encoder,
        caches,
        registration: Some(registration),
        initial,
        ends_initial,
        replay,
        first_sent: false,
        bookmarks,
        deadline: Box::pin(tokio::time::sleep_until(deadline)),
        converting: None,
        error: None,
        finished: false,
        events_sent: 0,
        seat: None,
    })
}

/// What happened after `after` up to the registration, from the store's history.
async fn replay_between(
    rq: &Request<'_>,
    cache: &ResourceCache,
    filter: &Filter,
    after: Revision,
    until: Revision,
) -> ApiResult<VecDeque<(EventType, Arc<Event>)>> {
    let too_old = |compacted: Revision| ApiError::expired(format!("too old resource version: {after} ({compacted})"));
    let store = rq.server.caches.store();
    if cache.last_change() <= after {
        // Nothing of this resource happened, but a revision that is long gone is refused all the same.
        let compacted = store.compacted().await.map_err(|e| rq.store_error(e))?;
        return if after < compacted { Err(too_old(compacted)) } else { Ok(VecDeque::new()) };
    }
    let range = KeyRange::prefix(cache.spec.prefix.clone());
    let mut stream = store.watch(range, after).await.map_err(|e| rq.store_error(e))?;
    store.request_progress().await.map_err(|e| rq.store_error(e))?;
    let mut replay = VecDeque::new();
    let mut reached = after;
    while reached < until {
        match stream.next().await {
            Some(Ok(WatchItem::Events(events))) => {
                for event in cache.replay(&events) {
                    reached = event.revision();
                    if reached > until {
                        break;
                    }
                    if let Some(event_type) = filter.classify(&event) {
                        replay.push_back((event_type, event));
                    }
                }
                // The cache's own last change bounds what can still come, so no progress mark is needed to stop.
                if reached >= cache.last_change().min(until) {
                    break;
                }
            }
            Some(Ok(WatchItem::Progress(revision))) => reached = reached.max(revision),
            Some(Err(store::Error::Compacted { compacted, .. })) => return Err(too_old(compacted)),
            Some(Err(error)) => return Err(rq.store_error(error)),
            None => break,
        }
    }
    Ok(replay)
}

/// Objects that exist when the watch starts, sent as ADDED.
struct Initial {
    snapshot: Snapshot,
    next: Bound<Bytes>,
    end: Option<Bytes>,
}

impl Initial {
    fn new(rq: &Request<'_>, filter: &Filter, snapshot: Snapshot) -> Self {
        let range = filter.range(rq.served);
        Self { snapshot, next: Bound::Included(range.start), end: range.end }
    }
}

struct Bookmarks {
    timer: Pin<Box<Sleep>>,
    deadline: Instant,
    last_sent: bool,
}

impl Bookmarks {
    fn new(deadline: Instant) -> Self {
        let mut bookmarks = Self { timer: Box::pin(tokio::time::sleep_until(deadline)), deadline, last_sent: false };
        bookmarks.rearm();
        bookmarks
    }

    fn rearm(&mut self) {
        let now = Instant::now();
        let last = self.deadline.checked_sub(LAST_BOOKMARK_LEAD).filter(|last| *last > now);
        let regular = now + BOOKMARK_INTERVAL;
        let next = match last {
            Some(last) if last <= regular => {
                self.last_sent = true;
                last
            }
            Some(_) => regular,
            None if self.last_sent => self.deadline + BOOKMARK_INTERVAL,
            None => {
                // A watch shorter than the lead still ends with a bookmark.
                self.last_sent = true;
                now + self.deadline.saturating_duration_since(now) / 2
            }
        };
        self.timer.as_mut().reset(next);
    }
}

/// A watcher that is forgotten when the client goes.
struct Registration {
    cache: Arc<ResourceCache>,
    watcher: Arc<Watcher>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.cache.unwatch(&self.watcher);
    }
}

type Events = Vec<(EventType, Arc<Event>)>;
type Converting = Pin<Box<dyn Future<Output = ApiResult<Events>> + Send>>;

/// A watch on its way out.
pub struct WatchBody {
    encoder: Encoder,
    caches: Arc<Caches>,
    registration: Option<Registration>,
    initial: Option<Initial>,
    /// Whether a bookmark marks the end of the initial events.
    ends_initial: bool,
    replay: VecDeque<(EventType, Arc<Event>)>,
    /// Whether an event went out: a Table carries its columns only on the first.
    first_sent: bool,
    bookmarks: Option<Bookmarks>,
    deadline: Pin<Box<Sleep>>,
    /// Events that wait for a conversion webhook; those after them wait too.
    converting: Option<Converting>,
    error: Option<ApiError>,
    finished: bool,
    /// How many events went out, bookmarks and errors among them.
    events_sent: u64,
    /// Held until what came before the watch is sent; waiting for changes costs nothing.
    seat: Option<StreamingSeat>,
}

impl WatchBody {
    /// A watch that only says why it cannot be.
    async fn failed(encoder: Encoder, rq: &Request<'_>, error: ApiError) -> ApiResult<Self> {
        Ok(Self {
            encoder,
            caches: rq.server.caches.clone(),
            registration: None,
            initial: None,
            ends_initial: false,
            replay: VecDeque::new(),
            first_sent: false,
            bookmarks: None,
            deadline: Box::pin(tokio::time::sleep(TIMEOUT_MIN)),
            converting: None,
            error: Some(error),
            finished: false,
            events_sent: 0,
            seat: None,
        })
    }

    pub fn events_sent(&self) -> u64 {
        self.events_sent
    }

    pub fn hold(&mut self, seat: Seat) {
        self.seat = self.is_catching_up().then(|| seat.streaming());
    }

    /// Whether there is something to send that is older than the watch.
    fn is_catching_up(&self) -> bool {
        self.initial.is_some() || !self.replay.is_empty()
    }

    /// The next bytes to send; `None` when the watch is over.
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let chunk = self.poll_next_chunk(cx);
        if let Some(seat) = &self.seat {
            if self.is_catching_up() { seat.moved() } else { self.seat = None }
        }
        chunk
    }

    fn poll_next_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.finished {
            return Poll::Ready(None);
        }
        if let Some(error) = self.error.take() {
            self.finished = true;
            self.events_sent += 1;
            return Poll::Ready(Some(self.encoder.error_frame(&error)));
        }
        if let Some(chunk) = self.initial_chunk() {
            return Poll::Ready(Some(chunk));
        }
        loop {
            if let Some(converting) = &mut self.converting {
                match converting.as_mut().poll(cx) {
                    Poll::Ready(Ok(events)) if events.is_empty() => {
                        self.converting = None;
                        continue;
                    }
                    Poll::Ready(Ok(events)) => {
                        self.converting = None;
                        return Poll::Ready(Some(self.encode(&events)));
                    }
                    Poll::Ready(Err(error)) => {
                        self.finished = true;
                        self.events_sent += 1;
                        return Poll::Ready(Some(self.encoder.error_frame(&error)));
                    }
                    Poll::Pending => break,
                }
            }
            let events = if !self.replay.is_empty() {
                PER_POLL.take_from(&mut self.replay)
            } else {
                let Some(registration) = &self.registration else { return Poll::Ready(None) };
                match registration.watcher.poll_next(cx, PER_POLL) {
                    Poll::Ready(Next::Events(events)) => events,
                    Poll::Ready(Next::Closed) => return self.finish(),
                    Poll::Pending => break,
                }
            };
            let served = self.encoder.served();
            if !events.iter().any(|(_, event)| served.event_needs_webhook(event)) {
                return Poll::Ready(Some(self.encode(&events)));
            }
            let served = served.clone();
            let filter = self.registration.as_ref().map(|registration| registration.watcher.filter().clone());
            let filter = filter.unwrap_or_default();
            self.converting = Some(Box::pin(async move {
                let events = served.present_events(events).await?;
                // Now that they are as clients see them, it is certain which of them match.
                let certain = |(_, event): (EventType, Arc<Event>)| Some((filter.classify(&event)?, event));
                Ok::<Events, ApiError>(events.into_iter().filter_map(certain).collect())
            }));
        }
        if self.deadline.as_mut().poll(cx).is_ready() {
            return self.finish();
        }
        // A bookmark must not overtake events: who resumes from it would never see them.
        if self.converting.is_some() || !self.replay.is_empty() {
            return Poll::Pending;
        }
        self.poll_bookmark(cx)
    }

    fn finish(&mut self) -> Poll<Option<Bytes>> {
        self.finished = true;
        Poll::Ready(None)
    }

    fn initial_chunk(&mut self) -> Option<Bytes> {
        let initial = self.initial.as_mut()?;
        let registration = self.registration.as_ref()?;
        let mut out = Vec::new();
        let mut resume = None;
        for (key, object) in initial.snapshot.objects.range((initial.next.clone(), Bound::Unbounded)) {
            if initial.end.as_ref().is_some_and(|end| key >= end) {
                break;
            }
            if registration.watcher.filter().matches(object) {
                self.encoder.write_event(EventType::Added, object, !self.first_sent, &mut out);
                self.first_sent = true;
                self.events_sent += 1;
                if out.len() >= CHUNK_BYTES {
                    resume = Some(Bound::Excluded(key.clone()));
                    break;
                }
            }
        }
        match resume {
            Some(next) => initial.next = next,
            None => {
                let revision = initial.snapshot.revision;
                self.initial = None;
                if self.ends_initial {
                    self.events_sent += 1;
                    out.extend_from_slice(&self.encoder.bookmark_frame(Bookmark::InitialEventsEnd, revision));
                }
            }
        }
        (!out.is_empty()).then(|| out.into())
    }

    fn encode(&mut self, events: &[(EventType, Arc<Event>)]) -> Bytes {
        self.events_sent += events.len() as u64;
        if !std::mem::replace(&mut self.first_sent, true) && self.encoder.first_event_differs() {
            let mut out = Vec::new();
            for (index, (event_type, event)) in events.iter().enumerate() {
                self.encoder.write_change(*event_type, event, index == 0, &mut out);
            }
            return out.into();
        }
        if let [(event_type, event)] = events {
            return self.frame(*event_type, event);
        }
        let frames: Vec<Bytes> = events.iter().map(|(event_type, event)| self.frame(*event_type, event)).collect();
        frames.concat().into()
    }

    fn frame(&self, event_type: EventType, event: &Event) -> Bytes {
        let key = FrameKey { form: self.encoder.frame_form(), event_type };
        event.frame(key, || self.encoder.event_frame(event_type, event))
    }

    fn poll_bookmark(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let (Some(bookmarks), Some(registration)) = (&mut self.bookmarks, &self.registration) else {
            return Poll::Pending;
        };
        if bookmarks.timer.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        // The position is read before the queue is seen empty: whatever came later is still to be delivered.
        let applied = self.caches.applied();
        if !registration.watcher.is_drained() {
            // The events first; the timer has run out and still says so then.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        bookmarks.rearm();
        // Arm the new timer's wake-up, or an idle watch would never be polled again.
        if bookmarks.timer.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
        // A client that comes from another server may have seen more than this one; a bookmark must not take it back.
        let revision = applied.max(registration.watcher.after());
        self.events_sent += 1;
        Poll::Ready(Some(self.encoder.bookmark_frame(Bookmark::Progress, revision)))
    }
}

#[cfg(test)]
mod tests;
