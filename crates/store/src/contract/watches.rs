//! One watcher, one writer: what a watch delivers, in which order and from where.

use bytes::Bytes;
use futures::StreamExt;

use super::steps::*;
use crate::{Expect, KeyRange, Revision, WatchItem};

pub async fn changes_arrive_in_order_with_their_past(store: AnyStore) {
    let mut changes = watch(&store, everything(), revision(&store).await).await;
    let first = put(&store, "a", "1").await;
    let second = put(&store, "b", "1").await;
    let third = put(&store, "a", "2").await;
    let expected = [
        put_event(kv("a", "1", first, first), None),
        put_event(kv("b", "1", second, second), None),
        put_event(kv("a", "2", first, third), Some(kv("a", "1", first, first))),
    ];
    assert_eq!(events_through(&mut changes, third).await, expected);
}

pub async fn deletes_carry_the_last_state(store: AnyStore) {
    let start = revision(&store).await;
    let mut live = watch(&store, everything(), start).await;
    let created = put(&store, "a", "1").await;
    let updated = put(&store, "a", "2").await;
    let deleted = delete(&store, "a").await;
    let again = put(&store, "a", "3").await;
    let expected = [
        put_event(kv("a", "1", created, created), None),
        put_event(kv("a", "2", created, updated), Some(kv("a", "1", created, created))),
        delete_event("a", deleted, Some(kv("a", "2", created, updated))),
        put_event(kv("a", "3", again, again), None),
    ];
    assert_eq!(events_through(&mut live, again).await, expected);
    let mut replayed = watch(&store, everything(), start).await;
    assert_eq!(events_through(&mut replayed, again).await, expected);
}

pub async fn start_revision_is_exclusive(store: AnyStore) {
    put(&store, "a", "1").await;
    let second = put(&store, "a", "2").await;
    let mut changes = watch(&store, everything(), second).await;
    let third = put(&store, "a", "3").await;
    assert_eq!(next_batch(&mut changes).await[0].revision(), third);
}

pub async fn watch_resumes_after_every_revision(store: AnyStore) {
    let start = revision(&store).await;
    let mut last = start;
    for i in 0..30 {
        last = match i % 5 {
            0..3 => put(&store, format!("k/{}", i % 4), i.to_string()).await,
            3 => commit(&store, vec![put_op("k/0", i.to_string()), put_op("k/9", i.to_string())]).await,
            _ => commit(&store, vec![delete_op("k/9"), put_op("k/1", i.to_string())]).await,
        };
    }
    let mut full = watch(&store, KeyRange::prefix("k/"), start).await;
    let history = events_through(&mut full, last).await;
    assert_eq!(history.len(), 42);
    for after in start.0..last.0 {
        let mut resumed = watch(&store, KeyRange::prefix("k/"), Revision(after)).await;
        let suffix: Vec<_> = history.iter().filter(|event| event.revision().0 > after).cloned().collect();
        assert_eq!(events_through(&mut resumed, last).await, suffix, "resumed after {after}");
    }
}

pub async fn changes_of_one_revision_come_in_one_batch(store: AnyStore) {
    let start = put(&store, "k/gone", "x").await;
    let mut changes = watch(&store, KeyRange::prefix("k/"), start).await;
    let mut ops: Vec<_> = (0..50).map(|i| put_op(format!("k/{i:02}"), "x")).collect();
    ops.push(delete_op("k/gone"));
    ops.push(put_op("elsewhere", "x"));
    let written = commit(&store, ops).await;
    let batch = next_batch(&mut changes).await;
    assert_eq!(batch.len(), 51);
    assert!(batch.iter().all(|event| event.revision() == written));
}

pub async fn replayed_changes_of_one_revision_come_in_one_batch(store: AnyStore) {
    // Large enough that an engine is tempted to cut its answer in pieces.
    let value = Bytes::from(vec![b'x'; 20 << 10]);
    let start = revision(&store).await;
    let mut last = start;
    for _ in 0..10 {
        last = commit(&store, (0..50).map(|i| put_op(format!("k/{i:02}"), value.clone())).collect()).await;
    }
    let mut changes = watch(&store, everything(), start).await;
    let mut complete_through = start;
    while complete_through < last {
        let batch = next_batch(&mut changes).await;
        for of_one in batch.chunk_by(|a, b| a.revision() == b.revision()) {
            assert_eq!(of_one[0].revision(), complete_through.next());
            assert_eq!(of_one.len(), 50, "revision {} came in pieces", of_one[0].revision());
            complete_through = of_one[0].revision();
        }
    }
}

pub async fn watch_sees_its_range_and_nothing_else(store: AnyStore) {
    let start = revision(&store).await;
    let mut prefix = watch(&store, KeyRange::prefix("b/"), start).await;
    let mut span = watch(&store, KeyRange { start: "b/1".into(), end: Some("b/2".into()) }, start).await;
    let mut open = watch(&store, KeyRange { start: "b/2".into(), end: None }, start).await;
    let mut last = start;
    for key in ["a", "b", "b/", "b/1", "b/1x", "b/2", "b0", "c"] {
        last = put(&store, key, "x").await;
    }
    store.request_progress().await.expect("progress");
    let keys = |events: Vec<crate::Event>| events.iter().map(|event| event.key().clone()).collect::<Vec<_>>();
    assert_eq!(keys(events_until_progress(&mut prefix, last).await), ["b/", "b/1", "b/1x", "b/2"]);
    assert_eq!(keys(events_until_progress(&mut span, last).await), ["b/1", "b/1x"]);
    assert_eq!(keys(events_until_progress(&mut open, last).await), ["b/2", "b0", "c"]);
}

pub async fn watch_of_a_future_revision_waits_for_it(store: AnyStore) {
    let start = revision(&store).await;
    let mut changes = watch(&store, everything(), Revision(start.0 + 2)).await;
    for i in 1..=2 {
        put(&store, "a", i.to_string()).await;
    }
    let third = put(&store, "a", "3").await;
    let batch = next_batch(&mut changes).await;
    assert_eq!(batch[0].revision(), third);
}

pub async fn unchanged_keys_and_conflicts_make_no_events(store: AnyStore) {
    let start = put(&store, "a", "1").await;
    let mut changes = watch(&store, everything(), start).await;
    delete(&store, "nothing").await;
    conflict(&store, vec![put_op("b", "1"), put_if("a", "2", Expect::Absent)]).await;
    commit(&store, vec![]).await;
    let real = commit(&store, vec![delete_op("nothing"), put_op("a", "2")]).await;
    let expected = [put_event(kv("a", "2", start, real), Some(kv("a", "1", start, start)))];
    assert_eq!(events_through(&mut changes, real).await, expected);
}

pub async fn replay_of_many_megabytes_is_complete(store: AnyStore) {
    let value = Bytes::from(vec![b'x'; 1 << 20]);
    let start = revision(&store).await;
    let mut last = start;
    for _ in 0..30 {
        last = put(&store, "big", value.clone()).await;
    }
    let mut changes = watch(&store, everything(), start).await;
    let events = events_through(&mut changes, last).await;
    assert!(events.iter().map(|event| event.revision().0).eq(start.0 + 1..=last.0));
    assert!(events[1..].iter().all(|event| event.previous.as_ref().is_some_and(|kv| kv.value == value)));
}

pub async fn requested_progress_reaches_the_current_revision(store: AnyStore) {
    let start = revision(&store).await;
    let mut changes = watch(&store, everything(), start).await;
    put(&store, "a", "1").await;
    let last = put(&store, "b", "1").await;
    store.request_progress().await.expect("progress");
    let events = events_until_progress(&mut changes, last).await;
    assert_eq!(events.len(), 2, "progress comes after the events it covers");
}

pub async fn progress_reaches_watches_that_see_no_events(store: AnyStore) {
    let start = revision(&store).await;
    let mut idle = watch(&store, KeyRange::prefix("idle/"), start).await;
    store.request_progress().await.expect("progress");
    assert!(events_until_progress(&mut idle, start).await.is_empty());
    let mut last = start;
    for i in 0..10 {
        last = put(&store, "busy", i.to_string()).await;
    }
    store.request_progress().await.expect("progress");
    assert!(events_until_progress(&mut idle, last).await.is_empty());
}

pub async fn progress_is_answered_each_time(store: AnyStore) {
    let last = put(&store, "a", "1").await;
    let mut changes = watch(&store, everything(), last).await;
    for _ in 0..5 {
        store.request_progress().await.expect("progress");
        assert!(events_until_progress(&mut changes, last).await.is_empty());
    }
}

pub async fn dropping_a_watch_leaves_the_others(store: AnyStore) {
    let start = revision(&store).await;
    let mut kept = watch(&store, everything(), start).await;
    for i in 0..20 {
        let mut dropped = watch(&store, everything(), start).await;
        put(&store, "a", i.to_string()).await;
        let item = within("a first item", dropped.next()).await;
        assert!(matches!(item, Some(Ok(WatchItem::Events(_) | WatchItem::Progress(_)))), "got {item:?}");
        drop(dropped);
    }
    let last = put(&store, "a", "last").await;
    assert_eq!(events_through(&mut kept, last).await.len(), 21);
}
