//! The vocabulary the contract's cases are written in: short names for single operations, and reading a watch with patience.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;

use crate::{
    Change, Error, Event, Expect, KeyRange, KeyValue, Op, RangeRequest, RangeResponse, Revision, Store, TxnOutcome,
    WatchItem, WatchStream,
};

pub type AnyStore = Arc<dyn Store>;

/// Nothing in the contract takes this long on the slowest machine; a case that waits longer hangs.
const HANG: Duration = Duration::from_secs(120);

/// Waits for what must come.
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(HANG, future).await {
        Ok(value) => value,
        Err(_) => panic!("still waiting for {what} after {HANG:?}"),
    }
}

pub fn put_op(key: impl Into<Bytes>, value: impl Into<Bytes>) -> Op {
    put_if(key, value, Expect::Any)
}

pub fn put_if(key: impl Into<Bytes>, value: impl Into<Bytes>, expect: Expect) -> Op {
    Op::Put { key: key.into(), value: value.into(), expect, ttl: None }
}

pub fn put_ttl(key: impl Into<Bytes>, value: impl Into<Bytes>, ttl: Duration) -> Op {
    Op::Put { key: key.into(), value: value.into(), expect: Expect::Any, ttl: Some(ttl) }
}

pub fn delete_op(key: impl Into<Bytes>) -> Op {
    delete_if(key, Expect::Any)
}

pub fn delete_if(key: impl Into<Bytes>, expect: Expect) -> Op {
    Op::Delete { key: key.into(), expect }
}

/// Runs a transaction that must commit.
pub async fn commit(store: &AnyStore, ops: Vec<Op>) -> Revision {
    match within("a commit", store.txn(ops)).await {
        Ok(TxnOutcome::Committed { revision }) => revision,
        other => panic!("expected a commit, got {other:?}"),
    }
}

/// Runs a transaction that must conflict.
pub async fn conflict(store: &AnyStore, ops: Vec<Op>) -> (Bytes, Option<KeyValue>) {
    match within("a conflict", store.txn(ops)).await {
        Ok(TxnOutcome::Conflict { key, current }) => (key, current),
        other => panic!("expected a conflict, got {other:?}"),
    }
}

pub async fn put(store: &AnyStore, key: impl Into<Bytes>, value: impl Into<Bytes>) -> Revision {
    commit(store, vec![put_op(key, value)]).await
}

pub async fn delete(store: &AnyStore, key: impl Into<Bytes>) -> Revision {
    commit(store, vec![delete_op(key)]).await
}

pub async fn get(store: &AnyStore, key: &str) -> Option<KeyValue> {
    within("a read", store.get(key.as_bytes())).await.expect("read").1
}

pub async fn revision(store: &AnyStore) -> Revision {
    within("the revision", store.revision()).await.expect("revision")
}

pub fn everything() -> KeyRange {
    KeyRange { start: Bytes::new(), end: None }
}

pub async fn list(store: &AnyStore, range: KeyRange, at: Option<Revision>, limit: Option<usize>) -> RangeResponse {
    within("a list", store.range(RangeRequest { range, at, limit })).await.expect("list")
}

/// Key and value of all entries, as text.
pub fn texts(entries: &[KeyValue]) -> Vec<(String, String)> {
    let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).expect("text");
    entries.iter().map(|kv| (text(&kv.key), text(&kv.value))).collect()
}

pub fn kv(key: &str, value: &str, create_revision: Revision, mod_revision: Revision) -> KeyValue {
    KeyValue {
        key: Bytes::copy_from_slice(key.as_bytes()),
        value: Bytes::copy_from_slice(value.as_bytes()),
        create_revision,
        mod_revision,
    }
}

pub async fn watch(store: &AnyStore, range: KeyRange, after: Revision) -> WatchStream {
    within("a watch to open", store.watch(range, after)).await.expect("watch")
}

/// The next batch of events, whatever progress is reported before it.
pub async fn next_batch(watch: &mut WatchStream) -> Vec<Event> {
    loop {
        match within("an event", watch.next()).await {
            Some(Ok(WatchItem::Events(events))) => {
                assert!(!events.is_empty(), "a batch holds at least one event");
                return events;
            }
            Some(Ok(WatchItem::Progress(_))) => {}
            other => panic!("expected events, got {other:?}"),
        }
    }
}

/// All events up to and including the one at `last`, with nothing missing that is in the range.
pub async fn events_through(watch: &mut WatchStream, last: Revision) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    while events.last().is_none_or(|event| event.revision() < last) {
        events.extend(next_batch(watch).await);
    }
    assert_eq!(events.last().map(Event::revision), Some(last), "no event after the last one written");
    events
}

/// Reads on until progress of at least `revision` is reported, and returns the events before it.
pub async fn events_until_progress(watch: &mut WatchStream, revision: Revision) -> Vec<Event> {
    let mut events = Vec::new();
    loop {
        match within("progress", watch.next()).await {
            Some(Ok(WatchItem::Events(batch))) => events.extend(batch),
            Some(Ok(WatchItem::Progress(reached))) if reached >= revision => return events,
            Some(Ok(WatchItem::Progress(_))) => {}
            other => panic!("expected progress, got {other:?}"),
        }
    }
}

/// The error a watch ends with; events before it are ignored.
pub async fn final_error(watch: &mut WatchStream) -> Error {
    let error = loop {
        match within("the end of a watch", watch.next()).await {
            Some(Ok(_)) => {}
            Some(Err(error)) => break error,
            None => panic!("the watch ended without an error"),
        }
    };
    let after = within("the end of a failed watch", watch.next()).await;
    assert!(after.is_none(), "a failed watch is over, got {after:?}");
    error
}

pub fn put_event(kv: KeyValue, previous: Option<KeyValue>) -> Event {
    Event { change: Change::Put(kv), previous }
}

pub fn delete_event(key: &str, revision: Revision, previous: Option<KeyValue>) -> Event {
    Event { change: Change::Delete { key: Bytes::copy_from_slice(key.as_bytes()), revision }, previous }
}
