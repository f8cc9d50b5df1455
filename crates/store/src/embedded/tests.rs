//! Behaviour of the engine that the common contract does not cover: directories, damage, space, retention, backups.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;

use super::sim_disk::{Fault, SimDisk};
use super::simulation::ManualClock;
use super::*;
use crate::{Change, Expect, WatchItem};

fn everything() -> KeyRange {
    KeyRange { start: Bytes::new(), end: None }
}

fn put(key: &str, value: impl Into<Bytes>) -> Op {
    Op::Put { key: Bytes::copy_from_slice(key.as_bytes()), value: value.into(), expect: Expect::Any, ttl: None }
}

async fn commit(store: &EmbeddedStore, ops: Vec<Op>) -> Revision {
    match store.txn(ops).await.expect("the transaction commits") {
        TxnOutcome::Committed { revision } => revision,
        conflict => panic!("{conflict:?}"),
    }
}

async fn list(store: &EmbeddedStore) -> Vec<KeyValue> {
    let request = RangeRequest { range: everything(), at: None, limit: None };
    store.range(request).await.expect("range").entries
}

/// A store on a simulated disk, which the test may spoil.
fn open_sim(disk: &SimDisk, options: Options) -> Result<Arc<EmbeddedStore>> {
    EmbeddedStore::open_disk(Arc::new(disk.clone()), options)
}

fn tempdir() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

#[tokio::test]
async fn everything_is_there_after_reopening() {
    let dir = tempdir();
    let store = EmbeddedStore::open(dir.path(), Options::default()).expect("open");
    commit(&store, vec![put("a", "1"), put("b", "1")]).await;
    let revision = commit(&store, vec![put("a", "2")]).await;
    let before = list(&store).await;
    drop(store);
    let store = EmbeddedStore::open(dir.path(), Options::default()).expect("open again");
    assert_eq!(list(&store).await, before);
    assert_eq!(store.revision().await.expect("revision"), revision);
    let request = RangeRequest { range: everything(), at: Some(Revision(2)), limit: None };
    assert_eq!(store.range(request).await.expect("the past is there, too").entries[0].value, "1");
    assert_eq!(commit(&store, vec![put("c", "1")]).await, revision.next());
}

#[test]
fn a_directory_has_one_store_at_a_time() {
    let dir = tempdir();
    let store = EmbeddedStore::open(dir.path(), Options::default()).expect("open");
    let error = EmbeddedStore::open(dir.path(), Options::default()).expect_err("the directory is taken");
    assert!(error.to_string().contains(&dir.path().display().to_string()), "{error} names the directory");
    store.close();
    EmbeddedStore::open(dir.path(), Options::default()).expect("closing frees the directory");
}

#[tokio::test]
async fn a_closed_store_refuses() {
    let dir = tempdir();
    let store = EmbeddedStore::open(dir.path(), Options::default()).expect("open");
    let mut changes = store.watch(everything(), Revision(1)).await.expect("watch");
    store.close();
    assert!(matches!(store.txn(vec![put("a", "1")]).await, Err(Error::Closed)));
    assert!(matches!(store.get(b"a").await, Err(Error::Closed)));
    assert!(matches!(changes.next().await, Some(Err(Error::Closed))));
    assert!(changes.next().await.is_none());
}

#[tokio::test]
async fn a_fresh_directory_is_small() {
    use std::os::unix::fs::MetadataExt;
    let dir = tempdir();
    let store = EmbeddedStore::open(dir.path(), Options::default()).expect("open");
    commit(&store, vec![put("a", "1")]).await;
    let files = std::fs::read_dir(dir.path()).expect("list");
    let blocks: u64 = files.map(|file| file.expect("entry").metadata().expect("metadata").blocks()).sum();
    assert!(blocks * 512 <= 512 << 10, "{blocks} blocks");
}

#[tokio::test]
async fn damage_before_the_last_commit_is_refused_with_its_place() {
    let disk = SimDisk::new(1);
    let store = open_sim(&disk, Options::default()).expect("open");
    commit(&store, vec![put("first", "value-one")]).await;
    commit(&store, vec![put("second", "value-two")]).await;
    drop(store);
    disk.sync_all();
    let name = segment::segment_name(1);
    let at = disk.edit(&name, |bytes| {
        let at = bytes.windows(9).position(|window| window == b"value-one").expect("the value is in the log");
        bytes[at] ^= 1;
        at
    });
    let error = open_sim(&disk, Options::default()).expect_err("damage in the middle");
    let message = error.to_string();
    assert!(matches!(error, Error::Corrupt(_)) && message.contains(&name), "{message}");
    assert!(message.contains(&format!("offset {}", segment::SEGMENT_HEADER_LEN)), "{message}; flipped at {at}");
    assert!(open_sim(&disk, Options::default()).is_err(), "nothing was repaired away");
}

#[tokio::test]
async fn a_torn_last_commit_disappears_whole() {
    let disk = SimDisk::new(1);
    let store = open_sim(&disk, Options::default()).expect("open");
    commit(&store, vec![put("first", "value-one")]).await;
    commit(&store, vec![put("second", "value-two"), put("third", "value-three")]).await;
    drop(store);
    disk.sync_all();
    disk.edit(&segment::segment_name(1), |bytes| {
        let at = bytes.windows(11).position(|window| window == b"value-three").expect("the value is in the log");
        bytes.truncate(at + 4);
    });
    let store = open_sim(&disk, Options::default()).expect("a torn tail is no damage");
    let keys: Vec<_> = list(&store).await.into_iter().map(|kv| kv.key).collect();
    assert_eq!(keys, ["first"]);
    assert_eq!(commit(&store, vec![put("fourth", "4")]).await, Revision(3));
    drop(store);
    let store = open_sim(&disk, Options::default()).expect("the log goes on after a torn tail");
    assert_eq!(list(&store).await.len(), 2);
}

#[tokio::test]
async fn a_full_disk_refuses_writes_and_recovers() {
    let disk = SimDisk::new(1);
    let options = Options { reserve_step_bytes: 4096, ..Options::default() };
    let store = open_sim(&disk, options).expect("open");
    commit(&store, vec![put("a", "1")]).await;
    disk.set_capacity(disk.used());
    let big = vec![0; 10_000];
    match store.txn(vec![put("b", big.clone())]).await {
        Err(Error::NoSpace(message)) => assert!(message.contains("log-"), "{message}"),
        other => panic!("expected NoSpace, got {other:?}"),
    }
    assert_eq!(list(&store).await.len(), 1, "reads go on");
    commit(&store, vec![put("c", "fits into what is reserved")]).await;
    disk.set_capacity(usize::MAX);
    commit(&store, vec![put("b", big)]).await;
    assert_eq!(list(&store).await.len(), 3);
}

#[tokio::test]
async fn a_failed_sync_ends_the_store() {
    let disk = SimDisk::new(1);
    let store = open_sim(&disk, Options::default()).expect("open");
    let mut changes = store.watch(everything(), Revision(1)).await.expect("watch");
    // The next call is the write of the frame, the one after it the sync.
    disk.arm(1, Fault::Io);
    assert!(matches!(store.txn(vec![put("a", "1")]).await, Err(Error::Corrupt(_))));
    assert!(matches!(store.txn(vec![put("a", "1")]).await, Err(Error::Corrupt(_))));
    assert!(matches!(store.get(b"a").await, Err(Error::Corrupt(_))));
    assert!(matches!(store.failed().await, Error::Corrupt(_)));
    assert!(matches!(changes.next().await, Some(Err(Error::Corrupt(_)))), "nothing was published");
}

#[tokio::test]
async fn expiry_survives_a_restart() {
    let disk = SimDisk::new(1);
    let clock = Arc::new(ManualClock(AtomicU64::new(1_000)));
    let options = Options { clock: Arc::clone(&clock) as Arc<dyn Clock>, ..Options::default() };
    let store = open_sim(&disk, options.clone()).expect("open");
    let ttl = Some(Duration::from_secs(60));
    let key = Bytes::from("a");
    commit(&store, vec![Op::Put { key, value: "1".into(), expect: Expect::Any, ttl }]).await;
    drop(store);
    let store = open_sim(&disk, options).expect("open again");
    let revision = store.revision().await.expect("revision");
    let mut changes = store.watch(everything(), revision).await.expect("watch");
    assert_eq!(list(&store).await.len(), 1, "not yet");
    clock.0.fetch_add(60_001, Ordering::SeqCst);
    store.shared.queue.kick();
    match changes.next().await {
        Some(Ok(WatchItem::Events(events))) => {
            assert!(
                matches!(&events[0].change, Change::Delete { key, revision: at } if key == "a" && *at == revision.next())
            );
        }
        other => panic!("expected a deletion, got {other:?}"),
    }
    assert!(list(&store).await.is_empty());
}

#[tokio::test]
async fn history_is_bounded_by_number_of_changes() {
    let options = Options { history_changes_max: 100, ..Options::default() };
    let store = open_sim(&SimDisk::new(1), options).expect("open");
    let mut slow = store.watch(everything(), Revision(1)).await.expect("watch");
    commit(&store, vec![put("a", "0")]).await;
    assert!(matches!(slow.next().await, Some(Ok(_))));
    for i in 0..500 {
        commit(&store, vec![put("a", i.to_string())]).await;
        assert!(store.stats().history_changes <= 101);
    }
    assert!(store.compacted().await.expect("compacted") > Revision(300));
    assert!(matches!(slow.next().await, Some(Err(Error::SlowWatcher))));
    assert!(slow.next().await.is_none(), "a slow watch ends");
    let mut old = store.watch(everything(), Revision(1)).await.expect("watch");
    assert!(matches!(old.next().await, Some(Err(Error::Compacted { .. }))));
}

#[tokio::test]
async fn history_is_bounded_by_bytes_and_by_age() {
    let clock = Arc::new(ManualClock(AtomicU64::new(1_000)));
    let options = Options {
        history_bytes_max: 10_000,
        history_age_max: Duration::from_secs(300),
        clock: Arc::clone(&clock) as Arc<dyn Clock>,
        ..Options::default()
    };
    let store = open_sim(&SimDisk::new(1), options).expect("open");
    for _ in 0..50 {
        commit(&store, vec![put("a", vec![0; 1000])]).await;
        assert!(store.stats().history_bytes <= 11_100);
    }
    clock.0.fetch_add(301_000, Ordering::SeqCst);
    let last = commit(&store, vec![put("b", "1")]).await;
    assert!(store.compacted().await.expect("compacted").next() >= last, "all before is too old");
}

#[tokio::test]
async fn a_watch_of_little_keeps_up_with_much_that_does_not_concern_it() {
    let options = Options { history_changes_max: 100, ..Options::default() };
    let store = open_sim(&SimDisk::new(1), options).expect("open");
    let mut changes = store.watch(KeyRange::prefix("mine/"), Revision(1)).await.expect("watch");
    assert!(futures::poll!(changes.next()).is_pending());
    for _ in 0..500 {
        commit(&store, vec![put("theirs", "x")]).await;
    }
    let revision = commit(&store, vec![put("mine/a", "1")]).await;
    match changes.next().await {
        Some(Ok(WatchItem::Events(events))) => assert_eq!(events[0].revision(), revision),
        other => panic!("expected the one change, got {other:?}"),
    }
}

#[tokio::test]
async fn long_lists_are_consistent_while_writes_go_on() {
    let options = Options { history_changes_max: 50, ..Options::default() };
    let store = open_sim(&SimDisk::new(1), options).expect("open");
    for chunk in 0..20 {
        let ops = (0..500).map(|i| put(&format!("k{:05}", chunk * 500 + i), "old")).collect();
        commit(&store, ops).await;
    }
    let writer = tokio::spawn({
        let store = Arc::clone(&store);
        async move {
            for i in 0..10_000 {
                commit(&store, vec![put(&format!("k{:05}", 9_999 - i), "new")]).await;
            }
        }
    });
    let mut torn = 0;
    while !writer.is_finished() {
        let request = RangeRequest { range: everything(), at: None, limit: None };
        let response = store.range(request).await.expect("range");
        assert_eq!((response.entries.len(), response.count), (10_000, 10_000));
        // The writer goes downwards, so at any revision everything old comes before everything new.
        torn += usize::from(!response.entries.is_sorted_by_key(|kv| std::cmp::Reverse(kv.value.clone())));
    }
    writer.await.expect("the writer ends");
    assert_eq!(torn, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checkpoints_let_go_of_old_log() {
    let options = Options {
        segment_bytes: 20_000,
        history_changes_max: 50,
        checkpoint_log_bytes_min: 50_000,
        ..Options::default()
    };
    let dir = tempdir();
    let store = EmbeddedStore::open(dir.path(), options.clone()).expect("open");
    // Until the oldest segment is gone; the checkpointer works beside us.
    let oldest = dir.path().join(segment::segment_name(1));
    let mut revision = Revision(1);
    while oldest.exists() {
        revision = commit(&store, vec![put(&format!("k{}", revision.0 % 20), vec![7; 1000])]).await;
    }
    let before = list(&store).await;
    drop(store);
    let status = verify(dir.path()).expect("all files are intact");
    assert_eq!((status.revision, status.key_count, status.snapshot_count), (revision, 20, 2));
    let store = EmbeddedStore::open(dir.path(), options).expect("open again");
    assert_eq!(list(&store).await, before);
}

#[tokio::test]
async fn a_damaged_newest_snapshot_costs_nothing() {
    let dir = tempdir();
    let store = EmbeddedStore::open(dir.path(), Options::default()).expect("open");
    for i in 0..3 {
        let revision = commit(&store, vec![put("a", i.to_string())]).await;
        store.compact(revision).await.expect("compact");
        store.checkpointer.checkpoint_now(revision).expect("checkpoint");
    }
    let last = commit(&store, vec![put("b", "1")]).await;
    let before = list(&store).await;
    drop(store);
    let path = dir.path().join(segment::snapshot_name(Revision(last.0 - 1)));
    let mut bytes = std::fs::read(&path).expect("the snapshot is there");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, bytes).expect("write");
    assert!(matches!(verify(dir.path()), Err(Error::Corrupt(message)) if message.contains("snapshot-")));
    let store = EmbeddedStore::open(dir.path(), Options::default()).expect("the older one serves");
    assert_eq!(list(&store).await, before);
}

fn restored(backup: &Path) -> (tempfile::TempDir, Arc<EmbeddedStore>) {
    let dir = tempdir();
    restore(backup, dir.path().join("data")).expect("restore");
    let store = EmbeddedStore::open(dir.path().join("data"), Options::default()).expect("a restored store opens");
    (dir, store)
}

#[tokio::test]
async fn a_backup_restores_to_the_same_state() {
    let dir = tempdir();
    let store = EmbeddedStore::open(dir.path().join("data"), Options::default()).expect("open");
    for i in 0..2000 {
        commit(&store, vec![put(&format!("k{i}"), vec![i as u8; 300])]).await;
    }
    let backup = dir.path().join("backup");
    let saved = store.save_snapshot(&backup).expect("save");
    let before = list(&store).await;
    let revision = store.revision().await.expect("revision");
    assert_eq!((saved.revision, saved.key_count), (revision, 2000));
    assert_eq!(status(&backup).expect("status"), saved);
    let (_keep, copy) = restored(&backup);
    assert_eq!(list(&copy).await, before);
    assert_eq!(commit(&copy, vec![put("x", "1")]).await, revision.next());
    let error = restore(&backup, dir.path().join("data")).expect_err("the store runs there");
    assert!(matches!(error, Error::Unavailable(_)), "{error}");
    store.close();
    let error = restore(&backup, dir.path().join("data")).expect_err("there is a store already");
    assert!(matches!(error, Error::InvalidRequest(_)), "{error}");
}

#[tokio::test]
async fn every_flipped_byte_of_a_backup_is_noticed() {
    let dir = tempdir();
    let store = EmbeddedStore::open(dir.path().join("data"), Options::default()).expect("open");
    commit(&store, vec![put("key", "value"), put("other", "value")]).await;
    let backup = dir.path().join("backup");
    store.save_snapshot(&backup).expect("save");
    let intact = std::fs::read(&backup).expect("read");
    for at in 0..intact.len() {
        let mut bytes = intact.clone();
        bytes[at] ^= 0x10;
        std::fs::write(&backup, bytes).expect("write");
        assert!(matches!(status(&backup), Err(Error::Corrupt(_))), "byte {at}");
    }
    std::fs::write(&backup, &intact[..intact.len() - 1]).expect("write");
    assert!(matches!(status(&backup), Err(Error::Corrupt(_))), "cut off");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_can_be_saved_while_its_store_runs() {
    let options = Options {
        segment_bytes: 20_000,
        history_changes_max: 50,
        checkpoint_log_bytes_min: 50_000,
        ..Options::default()
    };
    let dir = tempdir();
    let data = dir.path().join("data");
    let store = EmbeddedStore::open(&data, options).expect("open");
    let is_done = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let writer = tokio::spawn({
        let (store, is_done) = (Arc::clone(&store), Arc::clone(&is_done));
        async move {
            let mut i = 0;
            while !is_done.load(Ordering::SeqCst) {
                // Both or neither, in every backup.
                let value = vec![i as u8; 500];
                commit(&store, vec![put(&format!("a{}", i % 10), value.clone()), put(&format!("b{}", i % 10), value)])
                    .await;
                i += 1;
            }
        }
    });
    for i in 0..10 {
        let acknowledged = store.revision().await.expect("revision");
        let backup = dir.path().join(format!("backup-{i}"));
        let (from, to) = (data.clone(), backup.clone());
        let saved =
            tokio::task::spawn_blocking(move || save_from_dir(from, to)).await.expect("no panic").expect("save");
        assert!(saved.revision >= acknowledged);
        let (_keep, copy) = restored(&backup);
        let entries = list(&copy).await;
        let (a, b) = entries.split_at(entries.len() / 2);
        let revisions = |half: &[KeyValue]| half.iter().map(|kv| kv.mod_revision).collect::<Vec<_>>();
        assert_eq!(revisions(a), revisions(b));
    }
    is_done.store(true, Ordering::SeqCst);
    writer.await.expect("the writer ends");
    let error = save_from_dir(dir.path(), dir.path().join("none")).expect_err("no store there");
    assert!(matches!(error, Error::InvalidRequest(_)), "{error}");
}
