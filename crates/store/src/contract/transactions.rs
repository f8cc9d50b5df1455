//! Single writers: what a transaction changes, when it conflicts, and what is read afterwards.

use bytes::Bytes;

use super::steps::*;
use crate::{Error, Expect, Revision};

/// Just below what etcd takes by default (1.5 MiB for the whole request), and Kubernetes with it.
const BIG_VALUE_BYTES: usize = 1536 * 1024 - 4096;

pub async fn empty_store_is_at_revision_one(store: AnyStore) {
    assert_eq!(revision(&store).await, Revision(1));
    let all = list(&store, everything(), None, None).await;
    assert_eq!((all.revision, all.count, all.entries.len()), (Revision(1), 0, 0));
}

pub async fn put_is_read_back_with_its_revisions(store: AnyStore) {
    let written = put(&store, "a", "1").await;
    let (read_at, found) = store.get(b"a").await.expect("read");
    assert_eq!(found, Some(kv("a", "1", written, written)));
    assert_eq!(read_at, written);
    assert_eq!(revision(&store).await, written);
}

pub async fn absent_key_reads_as_none_at_the_current_revision(store: AnyStore) {
    let written = put(&store, "a", "1").await;
    assert_eq!(store.get(b"b").await.expect("read"), (written, None));
}

pub async fn each_change_takes_the_next_revision(store: AnyStore) {
    let start = revision(&store).await;
    let first = put(&store, "a", "1").await;
    let second = put(&store, "b", "1").await;
    let third = delete(&store, "a").await;
    assert_eq!([first, second, third], [start.next(), start.next().next(), Revision(start.0 + 3)]);
}

pub async fn overwriting_keeps_the_create_revision(store: AnyStore) {
    let created = put(&store, "a", "1").await;
    let written = put(&store, "a", "2").await;
    assert_eq!(get(&store, "a").await, Some(kv("a", "2", created, written)));
}

pub async fn recreating_starts_a_new_life(store: AnyStore) {
    put(&store, "a", "1").await;
    delete(&store, "a").await;
    assert_eq!(get(&store, "a").await, None);
    let again = commit(&store, vec![put_if("a", "2", Expect::Absent)]).await;
    assert_eq!(get(&store, "a").await, Some(kv("a", "2", again, again)));
}

pub async fn writing_the_same_value_is_a_change(store: AnyStore) {
    let first = put(&store, "a", "1").await;
    let second = put(&store, "a", "1").await;
    assert_eq!(second, first.next());
    assert_eq!(get(&store, "a").await, Some(kv("a", "1", first, second)));
}

pub async fn create_conflicts_with_what_exists(store: AnyStore) {
    let created = commit(&store, vec![put_if("a", "1", Expect::Absent)]).await;
    let (key, current) = conflict(&store, vec![put_if("a", "2", Expect::Absent)]).await;
    assert_eq!((key.as_ref(), current), (&b"a"[..], Some(kv("a", "1", created, created))));
    assert_eq!(revision(&store).await, created, "a conflict takes no revision");
}

pub async fn update_of_a_stale_revision_conflicts_with_what_is_current(store: AnyStore) {
    let created = put(&store, "a", "1").await;
    let updated = commit(&store, vec![put_if("a", "2", Expect::Modified(created))]).await;
    let (key, current) = conflict(&store, vec![put_if("a", "3", Expect::Modified(created))]).await;
    assert_eq!((key.as_ref(), current), (&b"a"[..], Some(kv("a", "2", created, updated))));
    let (_, current) = conflict(&store, vec![put_if("a", "3", Expect::Modified(updated.next()))]).await;
    assert_eq!(current, Some(kv("a", "2", created, updated)), "a revision yet to come is as wrong as an old one");
    assert_eq!(revision(&store).await, updated);
}

pub async fn update_of_an_absent_key_conflicts_with_nothing(store: AnyStore) {
    let written = put(&store, "a", "1").await;
    assert_eq!(conflict(&store, vec![put_if("b", "1", Expect::Modified(written))]).await, ("b".into(), None));
    delete(&store, "a").await;
    assert_eq!(conflict(&store, vec![put_if("a", "2", Expect::Modified(written))]).await, ("a".into(), None));
    assert_eq!(get(&store, "a").await, None);
}

pub async fn delete_honours_its_expectation(store: AnyStore) {
    let created = put(&store, "a", "1").await;
    let updated = put(&store, "a", "2").await;
    let (_, current) = conflict(&store, vec![delete_if("a", Expect::Modified(created))]).await;
    assert_eq!(current, Some(kv("a", "2", created, updated)));
    let deleted = commit(&store, vec![delete_if("a", Expect::Modified(updated))]).await;
    assert_eq!(deleted, updated.next());
    assert_eq!(get(&store, "a").await, None);
    assert_eq!(conflict(&store, vec![delete_if("a", Expect::Modified(updated))]).await, ("a".into(), None));
}

pub async fn deleting_nothing_changes_nothing(store: AnyStore) {
    let written = put(&store, "a", "1").await;
    assert_eq!(delete(&store, "b").await, written);
    assert_eq!(revision(&store).await, written);
}

pub async fn operations_of_a_transaction_share_one_revision(store: AnyStore) {
    let before = commit(&store, vec![put_op("a", "1"), put_op("b", "1")]).await;
    let ops = vec![put_op("c", "2"), delete_op("a"), put_if("b", "2", Expect::Modified(before)), delete_op("nothing")];
    let after = commit(&store, ops).await;
    assert_eq!(after, before.next());
    let all = list(&store, everything(), None, None).await;
    assert_eq!(all.entries, [kv("b", "2", before, after), kv("c", "2", after, after)]);
}

pub async fn one_broken_expectation_undoes_the_whole_transaction(store: AnyStore) {
    let written = commit(&store, vec![put_op("a", "1"), put_op("b", "1")]).await;
    let ops = vec![put_op("new", "1"), delete_op("a"), put_if("b", "2", Expect::Absent)];
    let (key, current) = conflict(&store, ops).await;
    assert_eq!((key.as_ref(), current), (&b"b"[..], Some(kv("b", "1", written, written))));
    let all = list(&store, everything(), None, None).await;
    assert_eq!(all.entries, [kv("a", "1", written, written), kv("b", "1", written, written)]);
    assert_eq!(all.revision, written);
}

pub async fn conflict_names_the_first_offending_key(store: AnyStore) {
    let written = put(&store, "b", "1").await;
    let ops = vec![
        put_if("b", "2", Expect::Modified(written)),
        put_if("z", "2", Expect::Modified(written)),
        put_if("a", "2", Expect::Modified(written)),
    ];
    assert_eq!(conflict(&store, ops).await, ("z".into(), None), "first in the order given, not of the keys");
}

pub async fn naming_a_key_twice_is_invalid(store: AnyStore) {
    let start = revision(&store).await;
    for ops in [
        vec![put_op("a", "1"), put_op("a", "2")],
        vec![put_op("a", "1"), delete_op("a")],
        vec![delete_op("a"), put_op("b", "1"), delete_op("a")],
    ] {
        let result = store.txn(ops).await;
        assert!(matches!(result, Err(Error::InvalidRequest(_))), "got {result:?}");
    }
    assert_eq!(revision(&store).await, start);
}

pub async fn empty_transaction_commits_at_the_current_revision(store: AnyStore) {
    let written = put(&store, "a", "1").await;
    assert_eq!(commit(&store, vec![]).await, written);
    assert_eq!(revision(&store).await, written);
}

pub async fn keys_and_values_are_any_bytes(store: AnyStore) {
    let every_byte: Bytes = (0..=255).collect::<Vec<u8>>().into();
    let keys = [every_byte.clone(), Bytes::from_static(b"\0"), Bytes::from_static(b"\xff\xff"), "ключ/🦀".into()];
    for key in &keys {
        put(&store, key.clone(), every_byte.clone()).await;
    }
    put(&store, "empty", "").await;
    for key in &keys {
        let (_, found) = store.get(key).await.expect("read");
        assert_eq!(found.map(|kv| (kv.key, kv.value)), Some((key.clone(), every_byte.clone())));
    }
    assert_eq!(get(&store, "empty").await.map(|kv| kv.value), Some(Bytes::new()));
    assert_eq!(list(&store, everything(), None, None).await.count, 5);
}

pub async fn big_values_survive(store: AnyStore) {
    let big: Bytes = (0..BIG_VALUE_BYTES).map(|i| (i % 251) as u8).collect::<Vec<u8>>().into();
    let mut changes = watch(&store, everything(), revision(&store).await).await;
    let created = put(&store, "big", big.clone()).await;
    let (_, found) = store.get(b"big").await.expect("read");
    assert!(found.is_some_and(|kv| kv.value == big));
    let updated = commit(&store, vec![put_if("big", "small", Expect::Modified(created))]).await;
    let events = events_through(&mut changes, updated).await;
    assert_eq!(events.len(), 2);
    assert!(events[1].previous.as_ref().is_some_and(|kv| kv.value == big && kv.mod_revision == created));
}
