//! Three members of which some are killed or frozen, under writers and watchers: nothing acknowledged is lost, no watch
//! misses anything or sees it twice.

mod etcd_server;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bailiwick_store::contract::steps::*;
use bailiwick_store::etcd::{EtcdStore, Options};
use bailiwick_store::{Error, Event, Expect, KeyRange, Revision, TxnOutcome};
use bytes::Bytes;
use etcd_server::Cluster;
use tokio::task::JoinHandle;

const WRITERS: usize = 4;
const WATCHERS: usize = 4;
/// Writes that must succeed between two disasters, so that each hits a busy cluster.
const WRITES_BETWEEN: usize = 60;

async fn connect(options: Options) -> AnyStore {
    Arc::new(EtcdStore::connect(options).await.expect("connect"))
}

/// Writers that create keys nobody else names, each with a connection of its own.
struct Writers {
    acknowledged: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<BTreeMap<Bytes, Option<Revision>>>>,
}

impl Writers {
    async fn start(cluster: &Cluster) -> Self {
        let acknowledged = Arc::new(AtomicUsize::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let mut tasks = Vec::new();
        for writer in 0..WRITERS {
            let store = connect(cluster.options()).await;
            tasks.push(tokio::spawn(write_until(store, writer, acknowledged.clone(), stop.clone())));
        }
        Self { acknowledged, stop, tasks }
    }

    /// Returns after so many more writes have been acknowledged.
    async fn more(&self, count: usize) {
        let goal = self.acknowledged.load(Ordering::Relaxed) + count;
        within("writers to get on", async {
            let mut interval = tokio::time::interval(std::time::Duration::from_millis(5));
            while self.acknowledged.load(Ordering::Relaxed) < goal {
                interval.tick().await;
            }
        })
        .await
    }

    /// Every key tried, with the revision if the write was acknowledged.
    async fn finish(self) -> BTreeMap<Bytes, Option<Revision>> {
        self.stop.store(true, Ordering::Relaxed);
        let mut tried = BTreeMap::new();
        for task in self.tasks {
            tried.extend(within("a writer to stop", task).await.expect("a writer"));
        }
        tried
    }
}

async fn write_until(
    store: AnyStore,
    writer: usize,
    acknowledged: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
) -> BTreeMap<Bytes, Option<Revision>> {
    let mut tried = BTreeMap::new();
    for i in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let key = Bytes::from(format!("w/{writer}/{i:06}"));
        let fate = match store.txn(vec![put_if(key.clone(), "x", Expect::Absent)]).await {
            Ok(TxnOutcome::Committed { revision }) => {
                acknowledged.fetch_add(1, Ordering::Relaxed);
                Some(revision)
            }
            // Nobody else writes this key: only a write sent twice could conflict with itself.
            Ok(TxnOutcome::Conflict { .. }) => panic!("{key:?} was sent twice"),
            Err(Error::Unavailable(_)) => None,
            Err(other) => panic!("unexpected {other:?}"),
        };
        tried.insert(key, fate);
    }
    tried
}

async fn watchers(cluster: &Cluster, start: Revision) -> Vec<JoinHandle<Vec<Event>>> {
    let mut tasks = Vec::new();
    for _ in 0..WATCHERS {
        let store = connect(cluster.options()).await;
        let mut changes = watch(&store, KeyRange::prefix("w/"), start).await;
        tasks.push(tokio::spawn(async move {
            let _connection = store;
            let mut events: Vec<Event> = Vec::new();
            while events.last().is_none_or(|event| event.key() != "w/~end") {
                events.extend(next_batch(&mut changes).await);
            }
            events
        }));
    }
    tasks
}

/// Stops the writers and compares what they were told with what is there and with what each watcher saw.
async fn check(cluster: &Cluster, start: Revision, writers: Writers, watchers: Vec<JoinHandle<Vec<Event>>>) {
    let tried = writers.finish().await;
    let store = connect(cluster.options()).await;
    let end = put(&store, "w/~end", "x").await;

    let there = list(&store, KeyRange::prefix("w/"), None, None).await.entries;
    let there: BTreeMap<Bytes, Revision> = there.into_iter().map(|kv| (kv.key, kv.mod_revision)).collect();
    for (key, fate) in &tried {
        if let Some(revision) = fate {
            assert_eq!(there.get(key), Some(revision), "{key:?} was acknowledged at {revision}");
        }
    }
    let mut changes = watch(&store, KeyRange::prefix("w/"), start).await;
    let history = events_through(&mut changes, end).await;
    assert_eq!(history.len(), there.len(), "each key was created once");
    for watcher in watchers {
        let seen = within("a watcher", watcher).await.expect("a watcher");
        assert!(seen == history, "a watcher saw {} events of {}", seen.len(), history.len());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killing_every_member_in_turn_leader_first_loses_nothing() {
    let mut cluster = Cluster::three().await;
    let store = connect(cluster.options()).await;
    let start = revision(&store).await;
    let watchers = watchers(&cluster, start).await;
    let writers = Writers::start(&cluster).await;
    let leader = cluster.leader();
    for member in [leader, (leader + 1) % 3, (leader + 2) % 3] {
        writers.more(WRITES_BETWEEN).await;
        cluster.members[member].kill();
        writers.more(WRITES_BETWEEN).await;
        cluster.members[member].restart();
        // Only back when it answers for the whole cluster; losing two at once is another test.
        connect(Options { endpoints: vec![cluster.members[member].client_url.clone()], ..cluster.options() }).await;
    }
    check(&cluster, start, writers, watchers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frozen_leader_is_taken_for_dead() {
    let cluster = Cluster::three().await;
    let store = connect(cluster.options()).await;
    let start = revision(&store).await;
    let watchers = watchers(&cluster, start).await;
    let writers = Writers::start(&cluster).await;
    writers.more(WRITES_BETWEEN).await;
    let leader = cluster.leader();
    cluster.members[leader].signal("STOP");
    writers.more(WRITES_BETWEEN).await;
    // Every watch must get on while the member is still frozen.
    let reached = put_somehow(&store, "w/reached").await;
    let mut changes = watch(&store, KeyRange::prefix("w/"), start).await;
    within("events", async { while next_batch(&mut changes).await.iter().all(|event| event.revision() < reached) {} })
        .await;
    check(&cluster, start, writers, watchers).await;
    cluster.members[leader].signal("CONT");
}

/// A write repeated until it is acknowledged.
async fn put_somehow(store: &AnyStore, key: &'static str) -> Revision {
    within("a write", async {
        loop {
            match store.txn(vec![put_if(key, "x", Expect::Absent)]).await {
                Ok(TxnOutcome::Committed { revision }) => break revision,
                Ok(TxnOutcome::Conflict { current, .. }) => break current.expect("it is there").mod_revision,
                Err(Error::Unavailable(_)) => {}
                Err(other) => panic!("unexpected {other:?}"),
            }
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_quorum_nothing_answers_and_with_it_everything_goes_on() {
    let mut cluster = Cluster::three().await;
    let patient = connect(cluster.options()).await;
    let hasty = connect(Options { request_timeout: std::time::Duration::from_secs(2), ..cluster.options() }).await;
    let start = put(&patient, "a", "1").await;
    let mut changes = watch(&patient, everything(), start).await;
    cluster.members[0].kill();
    cluster.members[1].kill();
    assert!(matches!(hasty.get(b"a").await, Err(Error::Unavailable(_))), "a read without a quorum may be stale");
    assert!(matches!(hasty.txn(vec![put_op("a", "2")]).await, Err(Error::Unavailable(_))));
    cluster.members[0].restart();
    let written = put_somehow(&patient, "b").await;
    let mut events = Vec::new();
    while events.last().is_none_or(|event: &Event| event.revision() < written) {
        events.extend(next_batch(&mut changes).await);
    }
    assert_eq!(events.last().map(|event| event.key().clone()), Some("b".into()));
    assert_eq!(get(&patient, "b").await.map(|kv| kv.mod_revision), Some(written));
}
