//! What is in the files: never a secret in plaintext, whatever the store does.

use bailiwick_store::embedded;
use bailiwick_store::{Expect, KeyRange, Op, RangeRequest, Store};
use futures::StreamExt;

use crate::{ONE, aesgcm, embedded as open, encrypted};

const NEEDLE: &str = "correct horse battery staple";

fn put(key: &str, value: &str) -> Op {
    Op::Put { key: key.to_owned().into(), value: value.to_owned().into(), expect: Expect::Any, ttl: None }
}

/// Every file below a directory whose bytes hold the needle.
fn exposing(directory: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).expect("listed") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(exposing(&path));
        } else if std::fs::read(&path).expect("read").windows(NEEDLE.len()).any(|bytes| bytes == NEEDLE.as_bytes()) {
            found.push(path);
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn log_snapshots_and_backups_hold_no_plaintext() {
    let directory = tempfile::tempdir().expect("directory");
    let data = directory.path().join("store");
    {
        let inner = open(&data);
        let store = encrypted(inner.clone(), &aesgcm(&[("one", ONE)])).await;
        for number in 0..50 {
            let value = format!("{{\"data\":\"{NEEDLE} {number}\"}}");
            store.txn(vec![put(&format!("root/core/secrets/ns/{number}"), &value)]).await.expect("written");
        }
        store.txn(vec![put("root/core/configmaps/ns/a", "{\"data\":\"plain\"}")]).await.expect("written");
        embedded::save_from_dir(&data, directory.path().join("backup")).expect("saved");
        assert_eq!(exposing(directory.path()), Vec::<std::path::PathBuf>::new());
    }
    embedded::restore(directory.path().join("backup"), directory.path().join("restored")).expect("restored");
    assert_eq!(exposing(directory.path()), Vec::<std::path::PathBuf>::new());
    let restored = encrypted(open(&directory.path().join("restored")), &aesgcm(&[("one", ONE)])).await;
    let (_, entry) = restored.get(b"root/core/secrets/ns/7").await.expect("read");
    assert!(String::from_utf8_lossy(&entry.expect("is there").value).contains(NEEDLE));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_scan_finds_plaintext_where_there_is_some() {
    let directory = tempfile::tempdir().expect("directory");
    let store = encrypted(open(directory.path()), "{identity: {}}").await;
    store.txn(vec![put("root/core/secrets/ns/a", NEEDLE)]).await.expect("written");
    assert!(!exposing(directory.path()).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_and_watchers_see_plaintext() {
    let directory = tempfile::tempdir().expect("directory");
    let store = encrypted(open(directory.path()), &aesgcm(&[("one", ONE)])).await;
    let before = store.revision().await.expect("a revision");
    for value in ["first", "second"] {
        store.txn(vec![put("root/core/secrets/ns/a", value)]).await.expect("written");
    }
    let all = RangeRequest { range: KeyRange::prefix("root/"), at: None, limit: None };
    assert_eq!(store.range(all).await.expect("read").entries[0].value, "second");
    let conflict =
        Op::Put { key: "root/core/secrets/ns/a".into(), value: "third".into(), expect: Expect::Absent, ttl: None };
    let bailiwick_store::TxnOutcome::Conflict { current: Some(current), .. } =
        store.txn(vec![conflict]).await.expect("answered")
    else {
        panic!("a conflict")
    };
    assert_eq!(current.value, "second");
    let mut watch = store.watch(KeyRange::prefix("root/"), before).await.expect("watched");
    let mut seen = Vec::new();
    while seen.len() < 2 {
        if let bailiwick_store::WatchItem::Events(events) = watch.next().await.expect("an item").expect("good") {
            for event in events {
                let bailiwick_store::Change::Put(entry) = &event.change else { panic!("a put") };
                seen.push((event.previous.map(|previous| previous.value), entry.value.clone()));
            }
        }
    }
    assert_eq!(seen, [(None, "first".into()), (Some("first".into()), "second".into())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_value_is_an_error_that_tells_nothing_of_it() {
    let directory = tempfile::tempdir().expect("directory");
    let inner = open(directory.path());
    encrypted(inner.clone(), &aesgcm(&[("one", ONE)]))
        .await
        .txn(vec![put("root/core/secrets/ns/a", NEEDLE)])
        .await
        .expect("written");
    let store = encrypted(inner, &aesgcm(&[("other", ONE)])).await;
    let error = store.get(b"root/core/secrets/ns/a").await.expect_err("unreadable").to_string();
    assert_eq!(
        error,
        "unable to transform key \"root/core/secrets/ns/a\": no matching key was found for the provided AES transformer"
    );
}
