//! Keys that delete themselves. Cases compare lifetimes with each other instead of sleeping.

use std::time::{Duration, Instant};

use super::steps::*;
use crate::{Expect, KeyRange};

const SHORT: Duration = Duration::from_secs(1);
const LONGER: Duration = Duration::from_secs(3);
const VERY_LONG: Duration = Duration::from_secs(3600);

/// Writes a key that lives longer than the short ones, and waits until it is gone: then they would be gone, too.
async fn outlive_short_ttls(store: &AnyStore) {
    let mut changes = watch(store, KeyRange::prefix("clock"), revision(store).await).await;
    commit(store, vec![put_ttl("clock", "x", LONGER)]).await;
    next_batch(&mut changes).await;
    next_batch(&mut changes).await;
    assert_eq!(get(store, "clock").await, None);
}

pub async fn key_deletes_itself_no_earlier_than_asked(store: AnyStore) {
    let mut changes = watch(&store, everything(), revision(&store).await).await;
    let asked = Instant::now();
    let written = commit(&store, vec![put_ttl("a", "1", SHORT), put_op("b", "1")]).await;
    assert_eq!(next_batch(&mut changes).await.len(), 2);
    let gone = next_batch(&mut changes).await;
    assert!(asked.elapsed() >= SHORT, "gone after {:?}", asked.elapsed());
    let deleted = gone[0].revision();
    assert_eq!(gone, [delete_event("a", deleted, Some(kv("a", "1", written, written)))]);
    assert_eq!(deleted, written.next(), "expiry is a change like any other");
    assert_eq!(get(&store, "a").await, None);
    assert_eq!(get(&store, "b").await, Some(kv("b", "1", written, written)));
}

pub async fn rewriting_without_ttl_keeps_the_key(store: AnyStore) {
    commit(&store, vec![put_ttl("a", "1", SHORT)]).await;
    put(&store, "a", "2").await;
    outlive_short_ttls(&store).await;
    assert_eq!(get(&store, "a").await.map(|kv| kv.value), Some("2".into()));
}

pub async fn rewriting_with_ttl_renews_it(store: AnyStore) {
    commit(&store, vec![put_ttl("a", "1", SHORT)]).await;
    commit(&store, vec![put_ttl("a", "2", VERY_LONG)]).await;
    outlive_short_ttls(&store).await;
    assert_eq!(get(&store, "a").await.map(|kv| kv.value), Some("2".into()));
}

pub async fn failed_rewrite_does_not_renew(store: AnyStore) {
    let mut changes = watch(&store, KeyRange::prefix("a"), revision(&store).await).await;
    commit(&store, vec![put_ttl("a", "1", SHORT)]).await;
    conflict(&store, vec![put_if("a", "2", Expect::Absent)]).await;
    assert_eq!(next_batch(&mut changes).await.len(), 1);
    let gone = next_batch(&mut changes).await;
    assert_eq!(gone[0].previous.as_ref().map(|kv| kv.value.clone()), Some("1".into()));
}
