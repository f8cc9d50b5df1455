//! kill -9 against the real disk: a child process commits from several tasks and reports what was acknowledged; it is
//! killed at a random moment; the store must then hold every acknowledged write, and a watch that goes on where the last one
//! ended must tell each of them once, in order. `STORE_CRASH_CYCLES` sets how often.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bailiwick_store::embedded::{EmbeddedStore, Options, verify};
use bailiwick_store::{Change, Event, Expect, KeyRange, Op, RangeRequest, Revision, Store, TxnOutcome, WatchItem};
use bytes::Bytes;
use futures::StreamExt;
use rand::Rng;

const CYCLES_DEFAULT: u32 = 200;
const WRITERS: u32 = 6;
const KEYS_PER_WRITER: u32 = 20;
/// The child runs at most this long before it is killed.
const LIFETIME_MAX_MS: u64 = 60;
/// Tells the child which directory to write to; its presence makes this process the child.
const DIR_VARIABLE: &str = "STORE_CRASH_CHILD_DIR";
/// Where the revisions of a new store begin.
const EMPTY_STORE: Revision = Revision(1);
const CHILD_TEST: &str = "child_writes_until_killed";

/// Small limits, so that segments, checkpoints and compaction happen within a child's short life.
fn options() -> Options {
    Options {
        segment_bytes: 64 << 10,
        reserve_step_bytes: 16 << 10,
        history_changes_max: 500,
        checkpoint_log_bytes_min: 100 << 10,
        checkpoint_log_percent_min: 100,
        ..Options::default()
    }
}

fn value(writer: u32, sequence: u64) -> Bytes {
    let mut value = format!("{writer}/{sequence}/").into_bytes();
    value.resize(value.len() + (sequence as usize * 37) % 600, b'x');
    value.into()
}

/// Not a test by itself: what the child process runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child_writes_until_killed() {
    let Ok(dir) = std::env::var(DIR_VARIABLE) else { return };
    let store = EmbeddedStore::open(dir, options()).expect("the child opens the store");
    let mut tasks = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        tasks.spawn(write_forever(Arc::clone(&store), writer));
    }
    while tasks.join_next().await.is_some() {}
}

/// Each writer owns its keys. Every transaction moves two of them together, so that a torn one would show.
async fn write_forever(store: Arc<EmbeddedStore>, writer: u32) {
    let start = store.revision().await.expect("revision").0;
    for sequence in start.. {
        let key = Bytes::from(format!("w{writer}/k{}", sequence % u64::from(KEYS_PER_WRITER)));
        let twin = Bytes::from(format!("w{writer}/twin"));
        let value = value(writer, sequence);
        let put = |key| Op::Put { key, value: value.clone(), expect: Expect::Any, ttl: None };
        match store.txn(vec![put(key.clone()), put(twin)]).await {
            Ok(TxnOutcome::Committed { revision }) => {
                let line = format!("ack {} {revision} {writer} {sequence}\n", String::from_utf8_lossy(&key));
                // One call per line: a pipe takes it whole or not at all.
                std::io::stdout().write_all(line.as_bytes()).expect("the parent listens");
            }
            other => panic!("{other:?}"),
        }
    }
}

struct Acknowledged {
    revision: Revision,
    value: Bytes,
}

/// What children reported and watches told.
#[derive(Default)]
struct Journal {
    /// The newest acknowledged write of every key.
    newest: HashMap<Bytes, Acknowledged>,
    /// The acknowledged transactions that no watch has told yet: the key and the value of each.
    untold: BTreeMap<Revision, (Bytes, Bytes)>,
    /// Everything up to here was told, or had been forgotten when it was asked for.
    watched: Revision,
    told: usize,
}

/// Runs a child, kills it, and adds to the journal what it reported.
fn run_child(dir: &Path, lifetime: Duration, journal: &mut Journal) {
    let mut child = Command::new(std::env::current_exe().expect("this program has a path"))
        .args(["--exact", CHILD_TEST, "--nocapture", "--test-threads=1"])
        .env(DIR_VARIABLE, dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the child starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut note = |line: String| {
        // The test harness prints its own lines around, and before the first one.
        let Some(at) = line.find("ack ") else { return false };
        let fields: Vec<_> = line[at..].split(' ').collect();
        let [_, key, revision, writer, sequence] = fields[..] else { return false };
        let revision = Revision(revision.parse().expect("a revision"));
        let value = value(writer.parse().expect("a writer"), sequence.parse().expect("a sequence"));
        let key = Bytes::copy_from_slice(key.as_bytes());
        let newest = journal.newest.get(&key).is_none_or(|known| known.revision < revision);
        assert!(newest, "revision {revision} was used before");
        let before = journal.untold.insert(revision, (key.clone(), value.clone()));
        assert!(before.is_none(), "two transactions were acknowledged at revision {revision}");
        journal.newest.insert(key, Acknowledged { revision, value });
        true
    };
    // The clock starts with the first write, however long the start takes.
    while let Some(Ok(line)) = lines.next() {
        if note(line) {
            break;
        }
    }
    let killer = std::thread::spawn(move || {
        std::thread::sleep(lifetime);
        child.kill().expect("the child can be killed");
        child.wait().expect("the child ends")
    });
    while let Some(Ok(line)) = lines.next() {
        note(line);
    }
    let status = killer.join().expect("the killer does not panic");
    assert_eq!(status.code(), None, "the child was killed and did not end by itself");
}

async fn check(dir: &Path, journal: &mut Journal) {
    let store = EmbeddedStore::open(dir, options()).expect("the store opens after kill -9");
    let request = RangeRequest { range: KeyRange { start: Bytes::new(), end: None }, at: None, limit: None };
    let response = store.range(request).await.expect("range");
    let found: HashMap<_, _> = response.entries.into_iter().map(|kv| (kv.key.clone(), kv)).collect();
    for (key, expected) in &journal.newest {
        let kv = found.get(key).unwrap_or_else(|| panic!("acknowledged {key:?} is lost"));
        assert!(kv.mod_revision >= expected.revision, "{key:?} went back to {}", kv.mod_revision);
        assert!(kv.mod_revision > expected.revision || kv.value == expected.value, "{key:?} has another value");
    }
    for writer in 0..WRITERS {
        let newest = found.values().filter(|kv| kv.key.starts_with(format!("w{writer}/k").as_bytes()));
        let newest = newest.max_by_key(|kv| kv.mod_revision);
        let twin = found.get(format!("w{writer}/twin").as_bytes());
        assert_eq!(
            newest.map(|kv| (kv.mod_revision, &kv.value)),
            twin.map(|kv| (kv.mod_revision, &kv.value)),
            "both halves of a transaction or none"
        );
    }
    check_watch(&store, journal).await;
}

/// A watcher that comes back where it was, or at the oldest revision that is still known, misses nothing: every revision comes
/// once and in order whatever its keys, whole, and what was acknowledged is what it tells.
async fn check_watch(store: &EmbeddedStore, journal: &mut Journal) {
    let newest = store.revision().await.expect("revision");
    assert!(newest >= journal.watched, "the store went back to {newest}");
    let after = journal.watched.max(store.compacted().await.expect("the floor"));
    let mut watch = store.watch(KeyRange::prefix(Bytes::new()), after).await.expect("a watch");
    let mut reached = after;
    while reached < newest {
        let events = match watch.next().await.expect("the watch goes on").expect("nothing needed is forgotten") {
            WatchItem::Events(events) => events,
            WatchItem::Progress(_) => continue,
        };
        for transaction in events.chunk_by(|one, next| one.revision() == next.revision()) {
            assert_eq!(transaction[0].revision(), reached.next(), "revisions come one after the other");
            reached = reached.next();
            let puts: Vec<(&Bytes, &Bytes)> = transaction.iter().map(put).collect();
            let [(key, value), (twin, copy)] = puts[..] else { panic!("{puts:?} is half a transaction") };
            assert!(twin.ends_with(b"/twin") && copy == value, "{key:?} and {twin:?} were written together");
            if let Some(expected) = journal.untold.remove(&reached) {
                assert_eq!((key, value), (&expected.0, &expected.1), "what was acknowledged at {reached}");
                journal.told += 1;
            }
        }
    }
    let missed: Vec<_> = journal.untold.split_off(&after.next()).into_keys().collect();
    assert!(missed.is_empty(), "the watch after {after} did not tell {missed:?}");
    // What is left was forgotten, with the rest of the history, before anybody asked.
    journal.untold.clear();
    journal.watched = newest;
}

fn put(event: &Event) -> (&Bytes, &Bytes) {
    match &event.change {
        Change::Put(kv) => (&kv.key, &kv.value),
        Change::Delete { key, .. } => panic!("nobody deleted {key:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_survive_kill_9() {
    let cycles = std::env::var("STORE_CRASH_CYCLES").ok().and_then(|cycles| cycles.parse().ok());
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut journal = Journal { watched: EMPTY_STORE, ..Journal::default() };
    for _ in 0..cycles.unwrap_or(CYCLES_DEFAULT) {
        let lifetime = Duration::from_millis(rand::rng().random_range(0..LIFETIME_MAX_MS));
        run_child(dir.path(), lifetime, &mut journal);
        check(dir.path(), &mut journal).await;
    }
    let status = verify(dir.path()).expect("every file is intact");
    assert!(status.revision.0 > journal.newest.len() as u64);
    assert!(journal.told > 0, "watches had something to tell");
    assert!(status.snapshot_count > 0, "the children lived long enough to take checkpoints");
}
