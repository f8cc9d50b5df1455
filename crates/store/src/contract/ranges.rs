//! Range reads: order, bounds, limits and past revisions.

use bytes::Bytes;

use super::steps::*;
use crate::{Error, KeyRange, RangeRequest, Revision};

/// More than any engine's page, and more than one transaction takes.
const MANY_KEYS: usize = 12_000;
/// etcd's limit on operations in a transaction is 128.
const OPS_PER_TXN: usize = 100;

pub async fn entries_come_in_key_order_within_bounds(store: AnyStore) {
    for key in ["b/2", "a", "b/1", "c", "b/10", "b", "b0"] {
        put(&store, key, key).await;
    }
    let keys = |range| {
        let store = store.clone();
        async move { texts(&list(&store, range, None, None).await.entries).into_iter().map(|(key, _)| key).collect() }
    };
    let under_b: Vec<String> = keys(KeyRange::prefix("b/")).await;
    assert_eq!(under_b, ["b/1", "b/10", "b/2"]);
    let span: Vec<String> = keys(KeyRange { start: "b".into(), end: Some("b/2".into()) }).await;
    assert_eq!(span, ["b", "b/1", "b/10"]);
    let all: Vec<String> = keys(everything()).await;
    assert_eq!(all, ["a", "b", "b/1", "b/10", "b/2", "b0", "c"]);
}

pub async fn prefix_of_high_bytes_is_bounded(store: AnyStore) {
    let keys: [&'static [u8]; 4] = [b"a\xfe", b"a\xff", b"a\xff\xff\x01", b"b"];
    for key in keys {
        put(&store, key, "x").await;
    }
    let found = list(&store, KeyRange::prefix(&b"a\xff"[..]), None, None).await;
    let found: Vec<Bytes> = found.entries.into_iter().map(|kv| kv.key).collect();
    assert_eq!(found, [&b"a\xff"[..], &b"a\xff\xff\x01"[..]]);
}

pub async fn range_without_end_reaches_the_last_key(store: AnyStore) {
    put(&store, "a", "1").await;
    put(&store, &b"\xff\xff\xff"[..], "2").await;
    let found = list(&store, KeyRange { start: "b".into(), end: None }, None, None).await;
    assert_eq!(found.count, 1);
    assert_eq!(found.entries[0].key, &b"\xff\xff\xff"[..]);
}

pub async fn limit_cuts_and_count_does_not(store: AnyStore) {
    for i in 0..10 {
        put(&store, format!("k/{i}"), "x").await;
    }
    put(&store, "other", "x").await;
    let some = list(&store, KeyRange::prefix("k/"), None, Some(3)).await;
    assert_eq!(some.entries.iter().map(|kv| kv.key.clone()).collect::<Vec<_>>(), ["k/0", "k/1", "k/2"]);
    assert_eq!((some.count, some.more()), (10, true));
    let exactly = list(&store, KeyRange::prefix("k/"), None, Some(10)).await;
    assert_eq!((exactly.entries.len(), exactly.count, exactly.more()), (10, 10, false));
    let plenty = list(&store, KeyRange::prefix("k/"), None, Some(1000)).await;
    assert_eq!((plenty.entries.len(), plenty.count, plenty.more()), (10, 10, false));
}

pub async fn limit_zero_only_counts(store: AnyStore) {
    let written = commit(&store, vec![put_op("a", "1"), put_op("b", "1")]).await;
    let none = list(&store, everything(), None, Some(0)).await;
    assert_eq!((none.entries.len(), none.count, none.revision), (0, 2, written));
}

pub async fn empty_range_is_empty(store: AnyStore) {
    let written = put(&store, "a", "1").await;
    for range in [KeyRange::prefix("nothing/"), KeyRange { start: "a".into(), end: Some("a".into()) }] {
        let found = list(&store, range, None, None).await;
        assert_eq!((found.entries.len(), found.count, found.revision), (0, 0, written));
    }
}

pub async fn past_revisions_can_be_read(store: AnyStore) {
    let first = put(&store, "a", "1").await;
    let second = commit(&store, vec![put_op("a", "2"), put_op("b", "1")]).await;
    let third = delete(&store, "a").await;
    let fourth = put(&store, "a", "4").await;

    let expected = [
        (Revision(1), vec![]),
        (first, vec![kv("a", "1", first, first)]),
        (second, vec![kv("a", "2", first, second), kv("b", "1", second, second)]),
        (third, vec![kv("b", "1", second, second)]),
        (fourth, vec![kv("a", "4", fourth, fourth), kv("b", "1", second, second)]),
    ];
    for (at, entries) in expected {
        let found = list(&store, everything(), Some(at), None).await;
        assert_eq!(found.entries, entries, "at {at}");
        assert_eq!((found.revision, found.count), (at, entries.len() as u64));
    }
    let limited = list(&store, everything(), Some(second), Some(1)).await;
    assert_eq!((limited.entries.len(), limited.count, limited.revision), (1, 2, second));
}

pub async fn paging_at_a_revision_ignores_later_writes(store: AnyStore) {
    for i in 0..20 {
        put(&store, format!("k/{i:02}"), "old").await;
    }
    let mut start = Bytes::from_static(b"k/");
    let mut at = None;
    let mut seen = Vec::new();
    loop {
        let range = KeyRange { start: start.clone(), end: KeyRange::prefix("k/").end };
        let page = list(&store, range, at, Some(3)).await;
        at = Some(page.revision);
        assert_eq!(page.count, 20 - seen.len() as u64);
        let more = page.more();
        seen.extend(texts(&page.entries));
        if !more {
            break;
        }
        start = format!("{}\0", seen[seen.len() - 1].0).into();
        // Change what is behind, at and ahead of the reader.
        delete(&store, "k/00").await;
        put(&store, "k/19", "new").await;
        put(&store, format!("k/{:02}x", seen.len()), "new").await;
    }
    let expected: Vec<_> = (0..20).map(|i| (format!("k/{i:02}"), "old".to_owned())).collect();
    assert_eq!(seen, expected);
}

pub async fn future_revision_is_an_error(store: AnyStore) {
    let written = put(&store, "a", "1").await;
    for requested in [written.next(), Revision(written.0 + 1_000_000)] {
        let result = store.range(RangeRequest { range: everything(), at: Some(requested), limit: None }).await;
        match result {
            Err(Error::FutureRevision { requested: asked, current }) => {
                assert_eq!((asked, current), (requested, written));
            }
            other => panic!("expected FutureRevision, got {other:?}"),
        }
    }
}

pub async fn many_keys_are_all_listed(store: AnyStore) {
    let keys: Vec<String> = (0..MANY_KEYS).map(|i| format!("k/{i:06}")).collect();
    for chunk in keys.chunks(OPS_PER_TXN) {
        commit(&store, chunk.iter().map(|key| put_op(key.clone(), "x")).collect()).await;
    }
    let all = list(&store, KeyRange::prefix("k/"), None, None).await;
    assert_eq!(all.count, MANY_KEYS as u64);
    assert!(!all.more());
    assert!(all.entries.iter().map(|kv| &kv.key).eq(keys.iter().map(String::as_bytes)), "every key once, in order");
    let most = list(&store, KeyRange::prefix("k/"), Some(all.revision), Some(MANY_KEYS - 1)).await;
    assert_eq!((most.entries.len(), most.count, most.more()), (MANY_KEYS - 1, MANY_KEYS as u64, true));
}

pub async fn many_megabytes_are_all_listed(store: AnyStore) {
    let value = Bytes::from(vec![b'x'; 1 << 20]);
    for i in 0..40 {
        put(&store, format!("k/{i:02}"), value.clone()).await;
    }
    let all = list(&store, KeyRange::prefix("k/"), None, None).await;
    assert_eq!((all.entries.len(), all.count), (40, 40));
    assert!(all.entries.iter().all(|kv| kv.value == value));
}
