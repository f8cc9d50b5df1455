//! Changing keys while writes go on.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bailiwick_store::{Expect, KeyRange, Op, RangeRequest, Store, TxnOutcome};

use crate::{ONE, TWO, aesgcm, embedded, encrypted, ring};

/// Every stored secret with the name of the key it is sealed with.
pub async fn keys_in_use(inner: &dyn Store) -> HashMap<String, usize> {
    let all = RangeRequest { range: KeyRange::prefix("root/core/secrets/"), at: None, limit: None };
    let mut keys = HashMap::new();
    for entry in inner.range(all).await.expect("read").entries {
        let text = String::from_utf8_lossy(&entry.value).into_owned();
        *keys.entry(text.split(':').nth(4).unwrap_or("plaintext").to_owned()).or_default() += 1;
    }
    keys
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rotation_while_writes_go_on_loses_nothing() {
    let directory = tempfile::tempdir().expect("directory");
    let inner = embedded(directory.path());
    // Secrets of a time before encryption.
    for number in 0..200 {
        let put = Op::Put {
            key: format!("root/core/secrets/old/{number}").into(),
            value: format!("{{\"n\":{number}}}").into(),
            expect: Expect::Any,
            ttl: None,
        };
        inner.txn(vec![put]).await.expect("written");
    }
    let store = encrypted(inner.clone(), &format!("{}, {{identity: {{}}}}", aesgcm(&[("one", ONE)]))).await;
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let (store, stop) = (store.clone(), stop.clone());
            tokio::spawn(async move {
                let mut written = 0_u64;
                while !stop.load(Ordering::Relaxed) {
                    let key = format!("root/core/secrets/writer-{writer}/counter");
                    let (_, before) = store.get(key.as_bytes()).await.expect("read");
                    let expect = before.as_ref().map_or(Expect::Absent, |entry| Expect::Modified(entry.mod_revision));
                    let value = format!("{}", written + 1);
                    let put = Op::Put { key: key.into(), value: value.into(), expect, ttl: None };
                    if let TxnOutcome::Committed { .. } = store.txn(vec![put]).await.expect("answered") {
                        if let Some(before) = before {
                            assert_eq!(before.value, written.to_string(), "nobody undid a write");
                        }
                        written += 1;
                    }
                    tokio::task::yield_now().await;
                }
                written
            })
        })
        .collect();
    store.reencrypt().await.expect("encrypted");
    store.replace_keyring(ring(&aesgcm(&[("two", TWO), ("one", ONE)]))).await;
    let progress = store.reencrypt().await.expect("rewritten");
    assert!(progress.rewritten >= 200 && progress.failed == 0, "{progress:?}");
    stop.store(true, Ordering::Relaxed);
    let mut counts = Vec::new();
    for writer in writers {
        counts.push(writer.await.expect("no writer failed"));
    }
    assert_eq!(keys_in_use(&*inner).await.keys().collect::<Vec<_>>(), ["two"]);
    store.replace_keyring(ring(&aesgcm(&[("two", TWO)]))).await;
    for number in 0..200 {
        let (_, entry) = store.get(format!("root/core/secrets/old/{number}").as_bytes()).await.expect("read");
        assert_eq!(entry.expect("is there").value, format!("{{\"n\":{number}}}"));
    }
    for (writer, count) in counts.into_iter().enumerate() {
        let key = format!("root/core/secrets/writer-{writer}/counter");
        let (_, entry) = store.get(key.as_bytes()).await.expect("read");
        assert_eq!(entry.expect("is there").value, count.to_string());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rewriting_leaves_alone_what_is_as_it_should_be() {
    let directory = tempfile::tempdir().expect("directory");
    let store = encrypted(embedded(directory.path()), &aesgcm(&[("one", ONE)])).await;
    for key in ["root/core/secrets/a/b", "root/core/configmaps/a/b"] {
        let put = Op::Put { key: key.into(), value: "v".into(), expect: Expect::Any, ttl: None };
        store.txn(vec![put]).await.expect("written");
    }
    let before = store.revision().await.expect("a revision");
    let progress = store.reencrypt().await.expect("done");
    assert_eq!((progress.examined, progress.rewritten, progress.failed), (2, 0, 0));
    assert_eq!(store.revision().await.expect("a revision"), before);
}
