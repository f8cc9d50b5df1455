//! Forgetting history: what is gone, what stays, and how readers of the past learn of it.
//!
//! A watch after the revision just below the compaction revision is left open on purpose: etcd still serves it.

use super::steps::*;
use crate::{Error, RangeRequest, Revision};

/// Ten writes to `a`, and one key each that is created and deleted early on.
async fn history(store: &AnyStore) -> Vec<Revision> {
    let mut revisions = vec![put(store, "kept", "x").await, put(store, "gone", "x").await, delete(store, "gone").await];
    for i in 0..10 {
        revisions.push(put(store, "a", i.to_string()).await);
    }
    revisions
}

async fn compact(store: &AnyStore, revision: Revision) {
    within("compaction", store.compact(revision)).await.expect("compact");
}

async fn read_at(store: &AnyStore, at: Revision) -> crate::Result<crate::RangeResponse> {
    within("a read", store.range(RangeRequest { range: everything(), at: Some(at), limit: None })).await
}

pub async fn fresh_store_is_not_compacted(store: AnyStore) {
    history(&store).await;
    assert_eq!(store.compacted().await.expect("compacted"), Revision(0));
}

pub async fn current_values_outlive_compaction(store: AnyStore) {
    let revisions = history(&store).await;
    let last = revisions[revisions.len() - 1];
    let before = list(&store, everything(), None, None).await;
    compact(&store, last).await;
    let after = list(&store, everything(), None, None).await;
    assert_eq!(after.entries, before.entries);
    assert_eq!((after.revision, after.count), (last, 2));
    assert_eq!(get(&store, "kept").await, Some(kv("kept", "x", revisions[0], revisions[0])));
    assert_eq!(get(&store, "gone").await, None);
    assert_eq!(store.compacted().await.expect("compacted"), last);
}

pub async fn compacted_revisions_cannot_be_read(store: AnyStore) {
    let revisions = history(&store).await;
    let floor = revisions[6];
    compact(&store, floor).await;
    assert_eq!(store.compacted().await.expect("compacted"), floor);
    for &requested in &revisions[..6] {
        match read_at(&store, requested).await {
            Err(Error::Compacted { requested: asked, compacted }) => {
                assert_eq!((asked, compacted), (requested, floor));
            }
            other => panic!("expected Compacted at {requested}, got {other:?}"),
        }
    }
}

pub async fn compaction_revision_itself_can_be_read(store: AnyStore) {
    let revisions = history(&store).await;
    let mut before = Vec::new();
    for &at in &revisions[6..] {
        before.push(read_at(&store, at).await.expect("read").entries);
    }
    compact(&store, revisions[6]).await;
    for (&at, expected) in revisions[6..].iter().zip(before) {
        assert_eq!(read_at(&store, at).await.expect("read").entries, expected, "at {at}");
    }
}

pub async fn watch_from_before_compaction_fails_and_ends(store: AnyStore) {
    let revisions = history(&store).await;
    compact(&store, revisions[6]).await;
    for after in [revisions[0], revisions[4]] {
        let mut changes = watch(&store, everything(), after).await;
        match final_error(&mut changes).await {
            Error::Compacted { requested, compacted } => {
                assert_eq!((requested, compacted), (after, revisions[6]));
            }
            other => panic!("expected Compacted, got {other:?}"),
        }
    }
}

pub async fn watch_from_the_compaction_revision_works(store: AnyStore) {
    let revisions = history(&store).await;
    let (floor, last) = (revisions[6], revisions[revisions.len() - 1]);
    compact(&store, floor).await;
    let mut changes = watch(&store, everything(), floor).await;
    let events = events_through(&mut changes, last).await;
    assert!(events.iter().map(|event| event.revision()).eq(revisions[7..].iter().copied()));
    assert!(events[1..].iter().all(|event| event.previous.is_some()));
}

pub async fn up_to_date_watch_does_not_notice_compaction(store: AnyStore) {
    let start = revision(&store).await;
    let mut changes = watch(&store, everything(), start).await;
    let revisions = history(&store).await;
    let seen = events_through(&mut changes, revisions[revisions.len() - 1]).await;
    assert_eq!(seen.len(), revisions.len());
    compact(&store, revisions[revisions.len() - 1]).await;
    let last = put(&store, "a", "after").await;
    let events = events_through(&mut changes, last).await;
    assert_eq!(events.len(), 1);
    assert!(events[0].previous.is_some(), "what was current is not compacted away");
}

pub async fn compaction_takes_no_revision(store: AnyStore) {
    let revisions = history(&store).await;
    let last = revisions[revisions.len() - 1];
    compact(&store, revisions[6]).await;
    assert_eq!(revision(&store).await, last);
    assert_eq!(put(&store, "a", "next").await, last.next());
}

pub async fn compacting_twice_or_backwards_is_harmless(store: AnyStore) {
    let revisions = history(&store).await;
    for at in [revisions[6], revisions[6], revisions[3]] {
        compact(&store, at).await;
        assert_eq!(store.compacted().await.expect("compacted"), revisions[6]);
    }
    assert!(read_at(&store, revisions[6]).await.is_ok());
    assert!(read_at(&store, revisions[5]).await.is_err());
}

pub async fn compacting_the_future_is_an_error(store: AnyStore) {
    let revisions = history(&store).await;
    let last = revisions[revisions.len() - 1];
    match store.compact(last.next()).await {
        Err(Error::FutureRevision { requested, current }) => assert_eq!((requested, current), (last.next(), last)),
        other => panic!("expected FutureRevision, got {other:?}"),
    }
    assert!(read_at(&store, revisions[0]).await.is_ok(), "nothing was compacted");
}
