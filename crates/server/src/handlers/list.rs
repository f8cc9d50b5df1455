//! LIST: a consistent page of objects, streamed out as the connection takes it.
//!
//! Lists without a limit come from a cache snapshot; pages come from the store, which can read any revision that is not
//! compacted, so that all pages of one list show the same moment.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;
use std::task::{Context, Poll};

use bailiwick_flowcontrol::StreamingSeat;
use bailiwick_machinery::continue_token::{ContinueToken, ContinueTokenError};
use bailiwick_machinery::list_options::{ListAt, ListOptions};
use bailiwick_machinery::media::Answer;
use bailiwick_machinery::status::{ApiError, ApiResult, Cause, Details};
use bailiwick_store::{self as store, KeyRange, RangeRequest, Revision, key_after};
use bytes::Bytes;

use super::request::{Reply, Request};
use crate::cache::{Filter, Object, Snapshot};
use crate::encode::{Encoder, ListMeta};
use crate::http::{Length, ResponseBody};

/// How much of a list is encoded at a time.
const CHUNK_BYTES: usize = 64 * 1024;
/// What is sent at once: with the 9 bytes that HTTP/2 puts before it, exactly one TLS record.
const FRAME_BYTES: usize = 16 * 1024 - 9;
/// How many entries are read from the store at once when a selector leaves some out.
const SELECTIVE_PAGE_LEN: usize = 1000;
/// How long a read waits for a revision that has not been seen yet, as upstream.
const FRESHNESS_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(3);

/// Serves a list.
pub async fn list(rq: &Request<'_>) -> ApiResult<Reply> {
    let options = ListOptions::parse(rq.query)?;
    let encoder = rq.encoder(Answer::List)?;
    let filter = rq.filter(&options)?;
    let mut found = find(rq, &options, filter.clone()).await?;
    if rq.served.resource.custom.as_ref().is_some_and(|custom| custom.converter.is_some()) {
        let meta = found.meta.clone();
        let objects = converted(rq, &filter, found.into_objects()).await?;
        found = Found { meta, source: Source::Page(objects.into()) };
    }
    let content_type = encoder.content_type();
    let body = match encoder.streams_lists() {
        true => ResponseBody::List(Box::new(ListBody::new(encoder, found))),
        false => {
            let meta = found.meta.clone();
            let objects = found.into_objects();
            rq.audit.response_object(|| encoder.as_json()?.whole_list(&meta, &objects).ok());
            ResponseBody::full(encoder.whole_list_in_turns(&meta, objects).await?)
        }
    };
    Ok(Reply::new(200, content_type, body))
}

/// Objects that a filter has let through, as the version asked for shows them: those that it still lets through. A page may
/// so get shorter than its limit, which clients expect of pages.
pub async fn converted(rq: &Request<'_>, filter: &Filter, objects: Vec<Arc<Object>>) -> ApiResult<Vec<Arc<Object>>> {
    let mut objects = rq.served.present_all(objects).await?;
    objects.retain(|object| filter.matches(object));
    Ok(objects)
}

/// The outcome of a list before it is encoded.
pub struct Found {
    pub meta: ListMeta,
    source: Source,
}

enum Source {
    /// Objects of a snapshot still to be visited and filtered.
    Snapshot { snapshot: Snapshot, filter: Filter, next: Bound<Bytes>, end: Option<Bytes> },
    /// Objects already chosen.
    Page(VecDeque<Arc<Object>>),
}

impl Found {
    /// The next object, in key order.
    fn visit(&mut self, mut take: impl FnMut(&Object) -> Visit) {
        match &mut self.source {
            Source::Page(objects) => {
                while let Some(object) = objects.pop_front() {
                    if take(&object) == Visit::Enough {
                        return;
                    }
                }
            }
            Source::Snapshot { snapshot, filter, next, end } => {
                let mut last = None;
                let end = end.clone().map_or(Bound::Unbounded, Bound::Excluded);
                for (key, object) in snapshot.objects.range((next.clone(), end)) {
                    last = Some(key);
                    if filter.matches(object) && take(object) == Visit::Enough {
                        *next = Bound::Excluded(key.clone());
                        return;
                    }
                }
                if let Some(last) = last {
                    *next = Bound::Excluded(last.clone());
                }
            }
        }
    }

    /// All objects at once.
    pub fn into_objects(mut self) -> Vec<Arc<Object>> {
        match &mut self.source {
            Source::Page(objects) => std::mem::take(objects).into(),
            Source::Snapshot { snapshot, filter, next, end } => snapshot
                .objects
                .range((next.clone(), Bound::Unbounded))
                .take_while(|(key, _)| end.as_ref().is_none_or(|end| *key < end))
                .filter(|(_, object)| filter.matches(object))
                .map(|(_, object)| object.clone())
                .collect(),
        }
    }
}

#[derive(PartialEq)]
enum Visit {
    More,
    Enough,
}

/// A list on its way out.
pub struct ListBody {
    encoder: Encoder,
    found: Found,
    /// Encoded and not sent yet.
    encoded: Bytes,
    started: bool,
    finished: bool,
    any: bool,
    /// Whether others had their turn since objects were last encoded.
    yielded: bool,
    /// Of the answer, once it is long.
    long: LongAnswer,
    /// Held until the last object is encoded: that is the work of a list.
    seat: Option<StreamingSeat>,
}

impl ListBody {
    fn new(encoder: Encoder, found: Found) -> Self {
        let (encoded, started, finished, any) = (Bytes::new(), false, false, false);
        let long = LongAnswer { is: false, length: None };
        Self { encoder, found, encoded, started, finished, any, yielded: true, long, seat: None }
    }

    /// Tells the connection when this turns out to be a long answer.
    pub fn measure(&mut self, length: &Arc<Length>) {
        self.long.measure(length);
    }

    pub fn hold(&mut self, seat: StreamingSeat) {
        self.seat = Some(seat);
    }

    /// The next stretch of the answer; `None` when all is sent. Goes to the back of the queue before it encodes more: a
    /// connection that takes all it is given would otherwise keep a core for a whole list.
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.encoded.len() < FRAME_BYTES && !self.finished {
            if !std::mem::replace(&mut self.yielded, true) {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.yielded = false;
            if self.started {
                self.long.begin();
            }
            self.encode();
        }
        if let Some(seat) = &self.seat {
            seat.moved();
        }
        let frame = self.encoded.split_to(self.encoded.len().min(FRAME_BYTES));
        Poll::Ready((!frame.is_empty()).then_some(frame))
    }

    /// Encodes the next objects, behind what is left of the last ones.
    fn encode(&mut self) {
        let mut out = Vec::with_capacity(self.encoded.len() + CHUNK_BYTES + CHUNK_BYTES / 8);
        out.extend_from_slice(&self.encoded);
        if !self.started {
            self.started = true;
            self.encoder.write_list_head(&self.found.meta, &mut out);
        }
        let (encoder, any) = (&self.encoder, &mut self.any);
        let mut complete = true;
        self.found.visit(|object| {
            let before = out.len();
            out.push(if *any { b',' } else { b'[' });
            match encoder.write_list_item(object, &mut out) {
                Ok(()) => *any = true,
                // One damaged object must not hide the others, nor leave a list that nobody can read.
                Err(error) => {
                    tracing::error!(%error, key = %String::from_utf8_lossy(object.key()), "object left out of a list");
                    out.truncate(before);
                }
            }
            if out.len() < CHUNK_BYTES {
                Visit::More
            } else {
                complete = false;
                Visit::Enough
            }
        });
        if complete {
            self.finished = true;
            self.seat = None;
            self.encoder.write_list_tail(self.any, &mut out);
        }
        self.encoded = out.into();
    }
}

/// An answer of more than one stretch, as its connection sees it.
struct LongAnswer {
    is: bool,
    length: Option<Arc<Length>>,
}

impl LongAnswer {
    fn measure(&mut self, length: &Arc<Length>) {
        if self.is {
            length.began();
        }
        self.length = Some(length.clone());
    }

    fn begin(&mut self) {
        if !std::mem::replace(&mut self.is, true)
            && let Some(length) = &self.length
        {
            length.began();
        }
    }
}

impl Drop for LongAnswer {
    fn drop(&mut self) {
        if let Some(length) = self.length.take().filter(|_| self.is) {
            length.ended();
        }
    }
}

/// Chooses where a list is read from and reads it.
pub async fn find(rq: &Request<'_>, options: &ListOptions, filter: Filter) -> ApiResult<Found> {
    let caches = &rq.server.caches;
    let range = filter.range(rq.served);
    match options.list_at()? {
        ListAt::Continue(token) => {
            let token = of_tenant(rq, token)?;
            return page(rq, options, filter, range, Some(&token)).await;
        }
        ListAt::Exact(revision) => {
            let token = ContinueToken { resource_version: revision as i64, start: String::new() };
            return page(rq, options, filter, range, Some(&token)).await;
        }
        ListAt::Latest if options.limit.is_some() => return page(rq, options, filter, range, None).await,
        ListAt::Latest => {
            caches.wait_current().await.map_err(|e| rq.store_error(e))?;
        }
        ListAt::Any => {}
        ListAt::NotOlderThan(revision) => {
            wait_until_fresh(rq, Revision(revision)).await?;
            if options.limit.is_some() {
                return page(rq, options, filter, range, None).await;
            }
        }
    }
    let applied = caches.applied();
    let cache = rq.cache().await?;
    let snapshot = cache.snapshot(applied);
    let meta = ListMeta { resource_version: snapshot.revision, ..ListMeta::default() };
    // The range has no other namespace.
    let filter = Filter { namespace: String::new(), ..filter };
    let source = Source::Snapshot { snapshot, filter, next: Bound::Included(range.start), end: range.end };
    Ok(Found { meta, source })
}

/// Waits for the caches to reach `revision`, but not for ever: the client may have it from another server's clock.
pub async fn wait_until_fresh(rq: &Request<'_>, revision: Revision) -> ApiResult<()> {
    let caches = &rq.server.caches;
    match tokio::time::timeout(FRESHNESS_TIMEOUT, caches.wait_for(revision)).await {
        Ok(reached) => reached.map_err(|e| rq.store_error(e)),
        Err(_) => Err(too_large_resource_version(revision, caches.applied())),
    }
}

fn too_large_resource_version(asked: Revision, current: Revision) -> ApiError {
    ApiError::new(504, "Timeout", format!("Too large resource version: {asked}, current: {current}")).with_details(
        Details {
            retry_after_seconds: 1,
            causes: vec![Cause {
                reason: "ResourceVersionTooLarge".into(),
                message: "Too large resource version".into(),
                field: String::new(),
            }],
            ..Details::default()
        },
    )
}

/// Reads one page from the store: at the token's revision, or at the newest.
async fn page(
    rq: &Request<'_>,
    options: &ListOptions,
    filter: Filter,
    range: KeyRange,
    token: Option<&ContinueToken>,
) -> ApiResult<Found> {
    let spec = rq.cache_spec()?;
    // What tokens leave out, whatever the selectors are.
    let prefix = rq.served.prefix(&filter.namespace);
    // A token with revision -1 goes on at the newest state: what a 410 offered to a client that can live with it.
    let mut at = token.and_then(|t| u64::try_from(t.resource_version).ok()).filter(|&r| r > 0).map(Revision);
    let mut start = match token {
        Some(token) => Bytes::from([&prefix, token.start.as_bytes()].concat()).max(range.start),
        None => range.start,
    };
    if let Some(end) = &range.end {
        // A token may lie behind all that the selectors leave.
        start = start.min(end.clone());
    }
    let limit = options.limit.unwrap_or(usize::MAX);
    let selective = !filter.selects_all();
    let mut chosen = VecDeque::new();
    let (more, count) = loop {
        let wanted = if selective { SELECTIVE_PAGE_LEN.max(limit.min(10 * SELECTIVE_PAGE_LEN)) } else { limit };
        let request = RangeRequest {
            range: KeyRange { start, end: range.end.clone() },
            at,
            limit: (wanted != usize::MAX).then_some(wanted),
        };
        let asked = request.range.clone();
        let read = rq.server.caches.store().range(request).await;
        let mut response = read.map_err(|error| list_error(rq, error, token))?;
        at.get_or_insert(response.revision);
        let more = response.more();
        if let Some(base) = &spec.base {
            response.entries = base.merged(response.entries, &asked, more);
        }
        let read_len = response.entries.len();
        let mut seen = 0;
        let mut last_key = Bytes::new();
        for entry in &response.entries {
            seen += 1;
            last_key = entry.key.clone();
            if let Some(object) = spec.parse(entry).filter(|object| filter.matches(object)) {
                chosen.push_back(object);
                if chosen.len() == limit {
                    break;
                }
            }
        }
        let more = more || seen < read_len;
        start = key_after(&last_key);
        if chosen.len() >= limit || !more {
            break (more, response.count.saturating_sub(seen as u64));
        }
        // A selector that matches little reads on and on: others have their turn between.
        tokio::task::yield_now().await;
    };
    let revision = at.unwrap_or_default();
    let mut meta = ListMeta { resource_version: revision, ..ListMeta::default() };
    if more {
        let rest = start.get(prefix.len()..).unwrap_or_default();
        let start = format!("{}{}", token_mark(rq), String::from_utf8_lossy(rest));
        meta.continue_token = ContinueToken { resource_version: revision.0 as i64, start }.encode();
        // The store does not count what is not stored.
        meta.remaining = (!selective && spec.base.is_none()).then_some(count);
    }
    Ok(Found { meta, source: Source::Page(chosen) })
}

/// What the places in a project's tokens begin with. No name begins like this, so that no token of another control
/// plane, the root included, can be taken for one of ours.
fn token_mark(rq: &Request<'_>) -> String {
    rq.tenant.project.as_ref().map(|project| format!("@{}/", project.uid)).unwrap_or_default()
}

/// A token as it was before it was marked; one of another control plane is refused.
fn of_tenant(rq: &Request<'_>, token: ContinueToken) -> ApiResult<ContinueToken> {
    let mark = token_mark(rq);
    match token.start.strip_prefix(&*mark) {
        Some(start) if !start.starts_with('@') => Ok(ContinueToken { start: start.to_owned(), ..token }),
        _ => Err(ContinueTokenError::Invalid("it is of another control plane".to_owned()).into()),
    }
}

/// A compacted revision is 410; with a token the client gets another that goes on at the newest state.
fn list_error(rq: &Request<'_>, error: store::Error, token: Option<&ContinueToken>) -> ApiError {
    match (error, token) {
        (store::Error::Compacted { .. }, Some(token)) if !token.start.is_empty() => {
            let mut error = ApiError::expired(
                "The provided continue parameter is too old to display a consistent list result. You can start a new \
                 list without the continue parameter, or use the continue token in this response to retrieve the \
                 remainder of the results. Continuing with the provided token results in an inconsistent list - objects \
                 that were created, modified, or deleted between the time the first chunk was returned and now may show \
                 up in the list.",
            );
            let start = format!("{}{}", token_mark(rq), token.start);
            error.continue_token = Some(ContinueToken { start, ..token.inconsistent() }.encode());
            error
        }
        (store::Error::Compacted { .. }, _) => {
            ApiError::expired("The resourceVersion for the provided list is too old.")
        }
        (store::Error::FutureRevision { requested, current }, _) => too_large_resource_version(requested, current),
        (other, _) => rq.store_error(other),
    }
}

#[cfg(test)]
mod tests;
