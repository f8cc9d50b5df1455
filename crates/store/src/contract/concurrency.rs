//! Many writers and watchers at once: no lost update, no missed or repeated event, nobody held up by another.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures::StreamExt;
use futures::future::join_all;
use tokio::task::JoinHandle;

use super::steps::*;
use crate::{Error, Event, Expect, KeyRange, KeyValue, Revision, TxnOutcome, WatchItem};

const WRITERS: usize = 8;
const WRITES_EACH: usize = 50;

async fn all<T>(tasks: Vec<JoinHandle<T>>) -> Vec<T> {
    within("all tasks", join_all(tasks)).await.into_iter().map(|result| result.expect("a task")).collect()
}

fn number(kv: &KeyValue) -> u64 {
    std::str::from_utf8(&kv.value).expect("text").parse().expect("a number")
}

pub async fn increments_are_never_lost(store: AnyStore) {
    put(&store, "n", "0").await;
    let increment = |store: AnyStore| async move {
        for _ in 0..WRITES_EACH {
            let mut current = get(&store, "n").await.expect("the counter");
            loop {
                let next = (number(&current) + 1).to_string();
                let op = put_if("n", next, Expect::Modified(current.mod_revision));
                match store.txn(vec![op]).await.expect("txn") {
                    TxnOutcome::Committed { .. } => break,
                    TxnOutcome::Conflict { current: now, .. } => current = now.expect("the counter"),
                }
            }
        }
    };
    all((0..WRITERS).map(|_| tokio::spawn(increment(store.clone()))).collect()).await;
    assert_eq!(number(&get(&store, "n").await.expect("the counter")), (WRITERS * WRITES_EACH) as u64);
}

pub async fn creation_has_one_winner(store: AnyStore) {
    for round in 0..10 {
        let key = format!("k/{round}");
        let create = |writer: usize| {
            let (store, key) = (store.clone(), key.clone());
            tokio::spawn(async move {
                let op = put_if(key, writer.to_string(), Expect::Absent);
                (writer, store.txn(vec![op]).await.expect("txn"))
            })
        };
        let outcomes = all((0..WRITERS).map(create).collect()).await;
        let winner = get(&store, &key).await.expect("somebody won");
        for (writer, outcome) in outcomes {
            match outcome {
                TxnOutcome::Committed { revision } => {
                    assert_eq!((number(&winner), winner.mod_revision), (writer as u64, revision));
                }
                TxnOutcome::Conflict { current, .. } => assert_eq!(current.as_ref(), Some(&winner)),
            }
        }
    }
}

pub async fn committed_revisions_are_distinct_and_grow(store: AnyStore) {
    let start = revision(&store).await;
    let write = |writer: usize| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut revisions = Vec::new();
            for i in 0..WRITES_EACH {
                revisions.push(put(&store, format!("k/{writer}"), i.to_string()).await);
            }
            assert!(revisions.is_sorted_by(|a, b| a < b), "a writer's own revisions grow");
            revisions
        })
    };
    let revisions = all((0..WRITERS).map(write).collect()).await;
    let distinct: BTreeSet<u64> = revisions.into_iter().flatten().map(|revision| revision.0).collect();
    let last = revision(&store).await;
    assert!(distinct.into_iter().eq(start.0 + 1..=last.0), "one revision for each write, none twice, none skipped");
}

pub async fn writes_are_read_at_once(store: AnyStore) {
    let write = |writer: usize| {
        let store = store.clone();
        tokio::spawn(async move {
            let key = format!("k/{writer}");
            for i in 0..WRITES_EACH {
                let written = put(&store, key.clone(), i.to_string()).await;
                let (read_at, found) = store.get(key.as_bytes()).await.expect("read");
                assert_eq!(found.map(|kv| (kv.mod_revision, number(&kv))), Some((written, i as u64)));
                assert!(read_at >= written);
                let listed = list(&store, KeyRange::prefix(key.clone()), None, None).await;
                assert_eq!(listed.entries[0].mod_revision, written);
                assert!(revision(&store).await >= written);
            }
        })
    };
    all((0..WRITERS).map(write).collect()).await;
}

/// Two-key transactions keep a sum; every list at any revision must see it whole.
pub async fn transfers_conserve_the_total(store: AnyStore) {
    const ACCOUNTS: usize = 5;
    const TOTAL: u64 = 100 * ACCOUNTS as u64;
    let key = |i: usize| format!("account/{}", i % ACCOUNTS);
    let start = commit(&store, (0..ACCOUNTS).map(|i| put_op(key(i), "100")).collect()).await;
    let transfer = |writer: usize| {
        let store = store.clone();
        tokio::spawn(async move {
            for i in 0..WRITES_EACH {
                let (from, to) = (key(writer + i), key(writer + i + 1 + writer % (ACCOUNTS - 1)));
                loop {
                    let a = get(&store, &from).await.expect("an account");
                    let b = get(&store, &to).await.expect("an account");
                    let ops = vec![
                        put_if(
                            from.clone(),
                            number(&a).saturating_sub(1).to_string(),
                            Expect::Modified(a.mod_revision),
                        ),
                        put_if(
                            to.clone(),
                            (number(&b) + 1.min(number(&a))).to_string(),
                            Expect::Modified(b.mod_revision),
                        ),
                    ];
                    if let TxnOutcome::Committed { .. } = store.txn(ops).await.expect("txn") {
                        break;
                    }
                }
            }
        })
    };
    let done = Arc::new(AtomicBool::new(false));
    let reader = tokio::spawn({
        let (store, done) = (store.clone(), done.clone());
        async move {
            while !done.load(Ordering::Relaxed) {
                let all = list(&store, KeyRange::prefix("account/"), None, None).await;
                assert_eq!(all.entries.iter().map(number).sum::<u64>(), TOTAL, "at {}", all.revision);
            }
        }
    });
    all((0..WRITERS / 2).map(transfer).collect()).await;
    done.store(true, Ordering::Relaxed);
    all(vec![reader]).await;
    let last = revision(&store).await;
    for at in (start.0..=last.0).step_by(7) {
        let all = list(&store, KeyRange::prefix("account/"), Some(Revision(at)), None).await;
        assert_eq!(all.entries.iter().map(number).sum::<u64>(), TOTAL, "at {at}");
    }
}

/// Writes from many tasks, each to its own key and to one all share; returns every acknowledged revision.
async fn busy_writers(store: &AnyStore) -> Vec<Revision> {
    let write = |writer: usize| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut revisions = Vec::new();
            for i in 0..WRITES_EACH {
                let own = format!("k/{writer}");
                let ops = match i % 4 {
                    0 => vec![put_op(own, i.to_string()), put_op("k/shared", format!("{writer}-{i}"))],
                    1 => vec![put_op("k/shared", format!("{writer}-{i}"))],
                    2 => vec![delete_op(own), put_op("unwatched", "x")],
                    _ => vec![put_op(own, i.to_string())],
                };
                revisions.push(commit(&store, ops).await);
            }
            revisions
        })
    };
    let mut revisions: Vec<_> = all((0..WRITERS).map(write).collect()).await.into_iter().flatten().collect();
    revisions.sort();
    revisions
}

/// Checks that a stream of events is a possible history: ordered, each key's past linked to its previous event.
fn assert_linked(events: &[Event]) {
    let mut states: BTreeMap<Bytes, Option<KeyValue>> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let mut revision = Revision(0);
    for event in events {
        assert!(event.revision() >= revision, "out of order: {event:?} after {revision}");
        revision = event.revision();
        assert!(seen.insert((revision, event.key().clone())), "seen twice: {event:?}");
        if let Some(previous) = states.get(event.key()) {
            assert_eq!(&event.previous, previous, "a change of {:?} is missing", event.key());
        }
        let now = match &event.change {
            crate::Change::Put(kv) => Some(kv.clone()),
            crate::Change::Delete { .. } => None,
        };
        states.insert(event.key().clone(), now);
    }
}

pub async fn watchers_see_every_change_exactly_once(store: AnyStore) {
    let start = revision(&store).await;
    let follow = |after: Revision| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut changes = watch(&store, KeyRange::prefix("k/"), after).await;
            let mut events = Vec::new();
            while events.last().is_none_or(|event: &Event| event.key() != "k/~end") {
                events.extend(next_batch(&mut changes).await);
            }
            (after, events)
        })
    };
    let mut watchers: Vec<_> = (0..3).map(|_| follow(start)).collect();
    let writing = tokio::spawn({
        let store = store.clone();
        async move { busy_writers(&store).await }
    });
    while !writing.is_finished() {
        // Join in the middle, from the present and from the beginning.
        if watchers.len() < 12 {
            watchers.push(follow(revision(&store).await));
            watchers.push(follow(start));
        }
        put(&store, "elsewhere", "x").await;
    }
    let acknowledged = all(vec![writing]).await.remove(0);
    let end = put(&store, "k/~end", "x").await;

    let mut watch_all = watch(&store, KeyRange::prefix("k/"), start).await;
    let history = events_through(&mut watch_all, end).await;
    assert_linked(&history);
    let seen: BTreeSet<Revision> = history.iter().map(Event::revision).collect();
    assert!(acknowledged.iter().all(|revision| seen.contains(revision)), "an acknowledged write is not in the history");
    for (after, events) in all(watchers).await {
        let expected: Vec<_> = history.iter().filter(|event| event.revision() > after).cloned().collect();
        assert_eq!(events, expected, "watch after {after}");
    }
}

pub async fn progress_never_overtakes_events(store: AnyStore) {
    let start = revision(&store).await;
    let mut changes = watch(&store, KeyRange::prefix("k/"), start).await;
    let done = Arc::new(AtomicBool::new(false));
    let asking = tokio::spawn({
        let (store, done) = (store.clone(), done.clone());
        async move {
            while !done.load(Ordering::Relaxed) {
                store.request_progress().await.expect("progress");
                tokio::task::yield_now().await;
            }
        }
    });
    let writing = tokio::spawn({
        let store = store.clone();
        async move {
            busy_writers(&store).await;
            put(&store, "k/~end", "x").await
        }
    });
    let mut reached = start;
    let mut reports = 0;
    'reading: loop {
        match within("an item", changes.next()).await {
            Some(Ok(WatchItem::Progress(revision))) => {
                assert!(revision >= reached, "progress went back from {reached} to {revision}");
                reached = revision;
                reports += 1;
            }
            Some(Ok(WatchItem::Events(events))) => {
                for event in events {
                    assert!(event.revision() > reached, "{event:?} came after progress {reached}");
                    if event.key() == "k/~end" {
                        break 'reading;
                    }
                }
            }
            other => panic!("unexpected {other:?}"),
        }
    }
    done.store(true, Ordering::Relaxed);
    all(vec![asking]).await;
    all(vec![writing]).await;
    assert!(reports > 0, "progress was asked for all the time");
}

/// A reader that does not read must not hold up writers, readers or other watchers. It may itself be cut off, but only with
/// [`Error::SlowWatcher`] and without a gap before that.
pub async fn slow_watcher_does_not_stop_the_others(store: AnyStore) {
    const CHANGES: usize = 200;
    let value = Bytes::from(vec![b'x'; 256 << 10]);
    let start = revision(&store).await;
    let mut slow: Vec<_> = Vec::new();
    for _ in 0..8 {
        slow.push(watch(&store, everything(), start).await);
    }
    // Started, so that whatever an engine buffers is buffered.
    put(&store, "k", value.clone()).await;
    for watch in &mut slow {
        assert_eq!(next_batch(watch).await.len(), 1);
    }
    let mut quick = watch(&store, everything(), start).await;
    let mut last = start;
    for _ in 0..CHANGES {
        last = put(&store, "k", value.clone()).await;
        assert_eq!(get(&store, "k").await.map(|kv| kv.mod_revision), Some(last));
    }
    assert_eq!(events_through(&mut quick, last).await.len(), CHANGES + 1);

    for mut watch in slow {
        let mut next = start.next().next();
        while next <= last {
            match within("a slow watcher's next item", watch.next()).await {
                Some(Ok(WatchItem::Events(events))) => {
                    for event in events {
                        assert_eq!(event.revision(), next, "a slow watcher missed something");
                        next = next.next();
                    }
                }
                Some(Ok(WatchItem::Progress(_))) => {}
                Some(Err(Error::SlowWatcher)) => break,
                other => panic!("unexpected {other:?}"),
            }
        }
    }
}
