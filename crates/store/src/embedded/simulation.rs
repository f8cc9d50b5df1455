//! Seeded histories on the simulated disk against a shadow model.
//!
//! After every crash the recovered store must hold each acknowledged transaction, the one unacknowledged batch whole or
//! not at all, the same revisions and the same readable past; and everything a watcher was ever shown must still be so.
//! `STORE_SIM_RUNS` sets the number of histories, `STORE_SIM_SEED` replays one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::{FutureExt, StreamExt};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::sync::oneshot;

use super::queue::Request;
use super::sim_disk::{Fault, SimDisk};
use super::watch::Watch;
use super::{Clock, Engine, Options};
use crate::{Change, Error, Event, Expect, KeyRange, KeyValue, Op, Result, Revision, TxnOutcome, WatchItem};

const RUNS_DEFAULT: u64 = 1000;
const STEPS_PER_RUN: usize = 60;
const KEYS: u32 = 12;

#[derive(Debug)]
pub(super) struct ManualClock(pub AtomicU64);

impl Clock for ManualClock {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

fn everything() -> KeyRange {
    KeyRange { start: Bytes::new(), end: None }
}

/// The shadow: every state there ever was, by revision.
#[derive(Clone, Debug)]
struct Model {
    /// `states[r - 1]` is the state at revision `r`.
    states: Vec<Arc<BTreeMap<Bytes, KeyValue>>>,
    /// The change that led to each revision, alike.
    events: Vec<Arc<[Event]>>,
    expiries: BTreeMap<Bytes, u64>,
}

impl Model {
    fn new() -> Self {
        Self { states: vec![Arc::default()], events: vec![Arc::default()], expiries: BTreeMap::new() }
    }

    fn revision(&self) -> Revision {
        Revision(self.states.len() as u64)
    }

    fn current(&self) -> &BTreeMap<Bytes, KeyValue> {
        &self.states[self.states.len() - 1]
    }

    fn at(&self, revision: Revision) -> &BTreeMap<Bytes, KeyValue> {
        &self.states[revision.0 as usize - 1]
    }

    fn expire(&mut self, now_ms: u64) {
        let mut due: Vec<_> = self.expiries.iter().filter(|(_, at)| **at <= now_ms).collect();
        due.sort_by_key(|(key, at)| (**at, (*key).clone()));
        let keys: Vec<_> = due.into_iter().map(|(key, _)| key.clone()).collect();
        for key in keys {
            self.txn(&[Op::Delete { key, expect: Expect::Any }], now_ms).expect("a deletion without condition");
        }
    }

    /// What the transaction should do; the conflicting key if it may not.
    fn txn(&mut self, ops: &[Op], now_ms: u64) -> std::result::Result<Revision, Bytes> {
        let revision = self.revision().next();
        let mut next = BTreeMap::clone(self.current());
        let mut expiries = self.expiries.clone();
        let mut events = Vec::new();
        for op in ops {
            let previous = self.current().get(op.key()).cloned();
            let (Op::Put { expect, .. } | Op::Delete { expect, .. }) = op;
            let holds = match expect {
                Expect::Any => true,
                Expect::Absent => previous.is_none(),
                Expect::Modified(at) => previous.as_ref().map(|kv| kv.mod_revision) == Some(*at),
            };
            if !holds {
                return Err(op.key().clone());
            }
            match op {
                Op::Put { key, value, ttl, .. } => {
                    let create_revision = previous.as_ref().map_or(revision, |kv| kv.create_revision);
                    let kv =
                        KeyValue { key: key.clone(), value: value.clone(), create_revision, mod_revision: revision };
                    next.insert(key.clone(), kv.clone());
                    expiries.remove(key);
                    expiries.extend(ttl.map(|ttl| (key.clone(), now_ms + ttl.as_millis() as u64 + 1)));
                    events.push(Event { change: Change::Put(kv), previous });
                }
                Op::Delete { key, .. } => {
                    if previous.is_some() {
                        next.remove(key);
                        expiries.remove(key);
                        events.push(Event { change: Change::Delete { key: key.clone(), revision }, previous });
                    }
                }
            }
        }
        if !events.is_empty() {
            self.states.push(Arc::new(next));
            self.events.push(events.into());
            self.expiries = expiries;
        }
        Ok(self.revision())
    }
}

struct World {
    rng: StdRng,
    disk: SimDisk,
    clock: Arc<ManualClock>,
    engine: Option<Engine>,
    /// What is certain.
    model: Model,
    /// What would be, had the batch that failed become durable.
    maybe: Option<Model>,
    watch: Option<Watch>,
    watched: Revision,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut world = Self {
            rng: StdRng::seed_from_u64(seed),
            disk: SimDisk::new(seed ^ 0x9e37_79b9),
            clock: Arc::new(ManualClock(AtomicU64::new(1_000_000))),
            engine: None,
            model: Model::new(),
            maybe: None,
            watch: None,
            watched: Revision(1),
        };
        world.reopen();
        world
    }

    fn options(&self) -> Options {
        Options {
            segment_bytes: 1500,
            reserve_step_bytes: 300,
            history_age_max: Duration::from_millis(5000),
            history_changes_max: 40,
            history_bytes_max: 3000,
            checkpoint_log_bytes_min: 2000,
            checkpoint_log_percent_min: 50,
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            ..Options::default()
        }
    }

    fn open(&mut self) -> Result<Engine> {
        self.watch = None;
        self.engine = None;
        Engine::open(Arc::new(self.disk.clone()), self.options())
    }

    fn reopen(&mut self) {
        let engine = self.open().expect("recovery after a mere crash succeeds");
        self.adopt(engine);
    }

    /// Takes over a recovered engine: decides which of the possible pasts it has, and checks it against that one.
    fn adopt(&mut self, engine: Engine) {
        let revision = engine.shared.state().revision();
        if let Some(maybe) = self.maybe.take()
            && revision == maybe.revision()
        {
            self.model = maybe;
        }
        assert_eq!(revision, self.model.revision(), "no acknowledged commit is lost and no half batch appears");
        assert!(self.watched <= revision, "what was published is durable");
        check(&engine, &self.model);
        let floor = engine.shared.state().floor();
        self.watched = self.watched.max(floor);
        self.watch = Some(Watch::new(Arc::clone(&engine.shared), everything(), self.watched));
        self.engine = Some(engine);
        self.drain_watch();
    }

    fn engine(&mut self) -> &mut Engine {
        self.engine.as_mut().expect("the store is open")
    }

    fn drain_watch(&mut self) {
        let Some(watch) = &mut self.watch else { return };
        while let Some(item) = watch.next().now_or_never() {
            match item {
                Some(Ok(WatchItem::Events(events))) => {
                    for event in events {
                        assert!(event.revision() >= self.watched && event.revision().0 <= self.watched.0 + 1, "no gap");
                        self.watched = event.revision();
                        let expected = &self.model.events[event.revision().0 as usize - 1];
                        assert!(expected.contains(&event), "unexpected {event:?} among {expected:?}");
                    }
                }
                Some(Ok(WatchItem::Progress(_))) => {}
                // Retention passed this watcher by, or the store has failed.
                Some(Err(_)) | None => {
                    self.watch = None;
                    return;
                }
            }
        }
    }

    fn random_key(&mut self) -> Bytes {
        Bytes::from(format!("key/{}", self.rng.random_range(0..KEYS)))
    }

    fn random_ops(&mut self) -> Vec<Op> {
        let mut ops: Vec<Op> = Vec::new();
        for _ in 0..self.rng.random_range(1..4) {
            let key = self.random_key();
            if ops.iter().any(|op| *op.key() == key) {
                continue;
            }
            let expect = match (self.rng.random_range(0..10), self.model.current().get(&key)) {
                (0..6, _) => Expect::Any,
                (6..8, Some(kv)) => Expect::Modified(kv.mod_revision),
                (8, _) => Expect::Modified(Revision(3)),
                _ => Expect::Absent,
            };
            ops.push(if self.rng.random_bool(0.75) {
                let len = self.rng.random_range(0..120);
                let fill: u8 = self.rng.random();
                let ttl = self.rng.random_bool(0.15).then(|| Duration::from_millis(self.rng.random_range(1..3000)));
                Op::Put { key, value: Bytes::from(vec![fill; len]), expect, ttl }
            } else {
                Op::Delete { key, expect }
            });
        }
        ops
    }

    fn commit(&mut self) {
        let now_ms = self.clock.now_ms();
        let mut expected_model = self.model.clone();
        expected_model.expire(now_ms);
        let (mut requests, mut replies) = (Vec::new(), Vec::new());
        for _ in 0..self.rng.random_range(1..6) {
            let ops = self.random_ops();
            let expected = expected_model.txn(&ops, now_ms);
            let (sender, receiver) = oneshot::channel();
            requests.push(Request::Txn { ops, reply: Some(sender) });
            replies.push((receiver, expected));
        }
        self.engine().committer.serve_now(requests);
        let mut outcomes =
            replies.into_iter().map(|(mut reply, expected)| (reply.try_recv().expect("answered"), expected));
        let (first, expected) = outcomes.next().expect("a batch has a transaction");
        match first {
            Ok(outcome) => {
                check_outcome(outcome, expected);
                outcomes.for_each(|(outcome, expected)| check_outcome(outcome.expect("one batch, one fate"), expected));
                self.model = expected_model;
                self.drain_watch();
            }
            // Nothing was written; the store goes on.
            Err(Error::NoSpace(_)) => check(self.engine.as_ref().expect("open"), &self.model),
            Err(Error::Corrupt(_)) => {
                assert!(outcomes.all(|(outcome, _)| outcome.is_err()));
                self.maybe = Some(expected_model);
                self.after_failure();
            }
            Err(other) => panic!("unexpected {other}"),
        }
    }

    fn compact(&mut self) {
        let revision = Revision(self.rng.random_range(0..=self.model.revision().0));
        let (sender, mut reply) = oneshot::channel();
        let now_ms = self.clock.now_ms();
        let mut expired = self.model.clone();
        expired.expire(now_ms);
        self.engine().committer.serve_now(vec![Request::Compact { revision, reply: sender }]);
        match reply.try_recv() {
            Ok(Ok(())) => {
                assert!(self.engine().shared.state().floor() >= revision);
                self.model = self.settle_expired(expired);
                self.drain_watch();
            }
            Ok(Err(Error::NoSpace(_))) => self.model = self.settle_expired(expired),
            // The expiries before it may have been what failed.
            _ => {
                self.model = self.settle_expired(expired.clone());
                self.maybe = Some(expired);
                self.after_failure();
            }
        }
    }

    /// Expiries are committed by the store itself; whether they were shows in its revision.
    fn settle_expired(&mut self, expired: Model) -> Model {
        let revision = self.engine().shared.state().revision();
        if revision == expired.revision() { expired } else { self.model.clone() }
    }

    fn checkpoint(&mut self) {
        let state = self.engine().shared.state();
        let (floor, head) = (state.floor(), state.revision());
        drop(state);
        let at = if self.rng.random_bool(0.6) { floor } else { head };
        // Failure is allowed, and must do no harm.
        if at > Revision(0) {
            let _ = self.engine().checkpointer.checkpoint_now(at);
        }
    }

    /// The store has failed: it must refuse everything. Then the process, or the machine, restarts.
    fn after_failure(&mut self) {
        assert!(self.engine().shared.fault.check().is_err(), "a failed write poisons");
        let (sender, mut reply) = oneshot::channel();
        let ops = vec![Op::Delete { key: "x".into(), expect: Expect::Any }];
        self.engine().committer.serve_now(vec![Request::Txn { ops, reply: Some(sender) }]);
        assert!(!matches!(reply.try_recv(), Ok(Ok(_))), "a poisoned store acknowledges nothing");
        self.restart();
    }

    fn restart(&mut self) {
        if self.rng.random_bool(0.7) {
            self.disk.crash()
        } else {
            self.disk.kill_process()
        }
        // Power may fail again while recovering.
        if self.rng.random_bool(0.3) {
            self.disk.arm(self.rng.random_range(0..6), Fault::PowerLoss);
            match self.open() {
                Ok(engine) => {
                    self.disk.crash();
                    drop(engine);
                }
                Err(Error::Unavailable(_)) => self.disk.crash(),
                Err(error) => panic!("recovery that loses power is not corruption: {error}"),
            }
        }
        self.reopen();
    }

    fn step(&mut self) {
        match self.rng.random_range(0..100) {
            0..55 => self.commit(),
            55..60 => self.compact(),
            60..72 => self.checkpoint(),
            72..80 => {
                let ms = self.rng.random_range(1..1500);
                self.clock.0.fetch_add(ms, Ordering::SeqCst);
            }
            80..86 => self.restart(),
            86..90 => {
                self.disk.kill_process();
                self.reopen();
            }
            90..94 => self.disk.arm(self.rng.random_range(0..12), Fault::PowerLoss),
            94..97 => self.disk.arm(self.rng.random_range(0..12), Fault::Io),
            97..99 => self.disk.set_capacity(self.disk.used() + self.rng.random_range(0..800)),
            _ => self.disk.set_capacity(usize::MAX),
        }
    }
}

fn check_outcome(outcome: TxnOutcome, expected: std::result::Result<Revision, Bytes>) {
    match (outcome, expected) {
        (TxnOutcome::Committed { revision }, Ok(expected)) => assert_eq!(revision, expected),
        (TxnOutcome::Conflict { key, .. }, Err(expected)) => assert_eq!(key, expected),
        (outcome, expected) => panic!("expected {expected:?}, got {outcome:?}"),
    }
}

/// The engine holds what the model holds, now and in the readable past.
fn check(engine: &Engine, model: &Model) {
    let state = engine.shared.state();
    assert_eq!(state.revision(), model.revision());
    for at in state.floor().0.max(1)..=state.revision().0 {
        let found = state.scan(&everything(), Revision(at), usize::MAX, usize::MAX).entries;
        let expected: Vec<_> = model.at(Revision(at)).values().cloned().collect();
        assert_eq!(found, expected, "state at revision {at}");
        assert_eq!(state.count(&everything(), Revision(at)), expected.len() as u64);
    }
    let history: Vec<_> = state.history().after(state.floor()).cloned().collect();
    let expected: Vec<_> =
        model.events[state.floor().0 as usize..].iter().flat_map(|events| events.iter().cloned()).collect();
    assert_eq!(history, expected, "history after revision {}", state.floor());
    for (key, at) in &model.expiries {
        assert_eq!(state.expiries().get(key), Some(*at), "expiry of {key:?}");
    }
}

fn seeds() -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    match number("STORE_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("STORE_SIM_RUNS").unwrap_or(RUNS_DEFAULT),
    }
}

fn each_seed(run: impl Fn(u64)) {
    for seed in seeds() {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(seed)));
        assert!(outcome.is_ok(), "failed with STORE_SIM_SEED={seed}");
    }
}

#[test]
fn acknowledged_commits_survive_crashes_and_failing_disks() {
    each_seed(|seed| {
        let mut world = World::new(seed);
        for _ in 0..STEPS_PER_RUN {
            world.step();
        }
        world.disk.set_capacity(usize::MAX);
        world.restart();
    });
}

/// A flipped bit is repaired from redundancy, refused with its place, or, where it cannot be told from a commit that
/// was cut off, costs the last commit. It never yields a state that was not.
#[test]
fn flipped_bits_are_never_believed() {
    each_seed(|seed| {
        let mut world = World::new(seed);
        for _ in 0..30 {
            match world.rng.random_range(0..10) {
                0..7 => world.commit(),
                7 => world.compact(),
                _ => world.checkpoint(),
            }
        }
        world.disk.kill_process();
        world.disk.sync_all();
        let before = world.model.clone();
        let Some((name, at)) = world.disk.flip_bit(|name| name != "LOCK") else { return };
        match world.open() {
            Ok(engine) => {
                let revision = engine.shared.state().revision();
                assert!(
                    revision.0 + 12 >= before.revision().0,
                    "at most the last batch: {revision} of {}",
                    before.revision()
                );
                let mut shorter = before.clone();
                shorter.states.truncate(revision.0 as usize);
                shorter.events.truncate(revision.0 as usize);
                shorter.expiries.clear();
                check(&engine, &shorter);
            }
            Err(Error::Corrupt(message)) => {
                assert!(message.contains("sim/"), "{message} names no file; flipped {name} at {at}");
            }
            Err(other) => panic!("unexpected {other}"),
        }
    });
}
