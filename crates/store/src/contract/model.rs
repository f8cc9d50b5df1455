//! Random histories against a model so simple that it is right by inspection: a list of all states there ever were.

use std::collections::BTreeMap;

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::steps::*;
use crate::{Change, Error, Event, Expect, KeyRange, KeyValue, Op, RangeRequest, Revision, TxnOutcome, WatchStream};

/// Fixed, so that a failure repeats; each is a different history.
const SEEDS: [u64; 4] = [1, 2, 3, 4];
const STEPS: usize = 150;
const KEYS: usize = 12;

type State = BTreeMap<Bytes, KeyValue>;

struct Model {
    /// The state after each revision; the first is that of `base`.
    states: Vec<State>,
    base: Revision,
    events: Vec<Event>,
    floor: Revision,
}

impl Model {
    fn revision(&self) -> Revision {
        Revision(self.base.0 + self.states.len() as u64 - 1)
    }

    fn now(&self) -> &State {
        &self.states[self.states.len() - 1]
    }

    fn at(&self, revision: Revision) -> &State {
        &self.states[(revision.0 - self.base.0) as usize]
    }

    /// What the transaction must come to.
    fn txn(&mut self, ops: &[Op]) -> Result<Revision, (Bytes, Option<KeyValue>)> {
        for op in ops {
            let (Op::Put { key, expect, .. } | Op::Delete { key, expect }) = op;
            let current = self.now().get(key);
            let holds = match expect {
                Expect::Any => true,
                Expect::Absent => current.is_none(),
                Expect::Modified(revision) => current.is_some_and(|kv| kv.mod_revision == *revision),
            };
            if !holds {
                return Err((key.clone(), current.cloned()));
            }
        }
        let next = self.revision().next();
        let mut state = self.now().clone();
        let mut events = Vec::new();
        for op in ops {
            let previous = state.get(op.key()).cloned();
            match op {
                Op::Put { key, value, .. } => {
                    let create_revision = previous.as_ref().map_or(next, |kv| kv.create_revision);
                    let kv = KeyValue { key: key.clone(), value: value.clone(), create_revision, mod_revision: next };
                    state.insert(key.clone(), kv.clone());
                    events.push(Event { change: Change::Put(kv), previous });
                }
                Op::Delete { key, .. } if previous.is_some() => {
                    state.remove(key);
                    events.push(Event { change: Change::Delete { key: key.clone(), revision: next }, previous });
                }
                Op::Delete { .. } => {}
            }
        }
        if !events.is_empty() {
            self.states.push(state);
            self.events.extend(events);
        }
        Ok(self.revision())
    }
}

struct Dice(StdRng);

impl Dice {
    fn key(&mut self) -> Bytes {
        format!("{}/{}", ["a", "b"][self.0.random_range(0..2)], self.0.random_range(0..KEYS / 2)).into()
    }

    fn op(&mut self, model: &Model, key: Bytes) -> Op {
        let current = model.now().get(&key).map(|kv| kv.mod_revision);
        let expect = match self.0.random_range(0..10) {
            0..5 => Expect::Any,
            // Mostly right, so that most transactions go through.
            5..9 => current.map_or(Expect::Absent, Expect::Modified),
            _ if self.0.random_bool(0.5) => Expect::Absent,
            _ => Expect::Modified(Revision(self.0.random_range(1..=model.revision().0 + 2))),
        };
        // Deleting what is expected to be absent makes no sense to anybody.
        if self.0.random_bool(0.3) && expect != Expect::Absent {
            return Op::Delete { key, expect };
        }
        let value: Vec<u8> = (0..self.0.random_range(0..40)).map(|_| self.0.random()).collect();
        Op::Put { key, value: value.into(), expect, ttl: None }
    }

    fn ops(&mut self, model: &Model) -> Vec<Op> {
        let mut ops: Vec<Op> = Vec::new();
        for _ in 0..self.0.random_range(1..=4) {
            let key = self.key();
            if ops.iter().all(|op| *op.key() != key) {
                ops.push(self.op(model, key));
            }
        }
        ops
    }

    fn range(&mut self) -> KeyRange {
        match self.0.random_range(0..4) {
            0 => everything(),
            1 => KeyRange::prefix("a/"),
            2 => KeyRange { start: self.key(), end: None },
            _ => KeyRange { start: self.key(), end: Some(self.key()) },
        }
    }
}

pub async fn random_histories_match_a_simple_model(store: AnyStore) {
    let mut model =
        Model { states: vec![State::new()], base: revision(&store).await, events: Vec::new(), floor: Revision(0) };
    let mut follower = Follower::start(&store, model.base).await;
    for seed in SEEDS {
        let mut dice = Dice(StdRng::seed_from_u64(seed));
        for step in 0..STEPS {
            let context = format!("seed {seed}, step {step}");
            match dice.0.random_range(0..100) {
                0..60 => {
                    let ops = dice.ops(&model);
                    check_txn(&store, &mut model, ops, &context).await;
                }
                60..70 => {
                    let key = dice.key();
                    let found = store.get(&key).await.expect("read");
                    assert_eq!(found, (model.revision(), model.now().get(&key).cloned()), "{context}");
                }
                70..97 => check_range(&store, &model, &mut dice, &context).await,
                _ => {
                    // A watch that is behind may lose its history; one that is not must not notice.
                    follower.catch_up(&store, model.revision()).await;
                    let at = Revision(dice.0.random_range(model.base.0..=model.revision().0));
                    store.compact(at).await.unwrap_or_else(|e| panic!("{context}: compact {at}: {e}"));
                    if at > Revision(1) {
                        model.floor = model.floor.max(at);
                    }
                }
            }
        }
        let last = put(&store, "a/mark", "x").await;
        assert_eq!(model.txn(&[put_op("a/mark", "x")]), Ok(last));
    }
    follower.catch_up(&store, model.revision()).await;
    assert_same_events(&follower.seen, &model.events);
    // Once more from the oldest history left.
    let after = model.floor.max(model.base);
    let rest: Vec<Event> = model.events.iter().filter(|event| event.revision() > after).cloned().collect();
    let mut replayed = watch(&store, everything(), after).await;
    assert_same_events(&events_through(&mut replayed, model.revision()).await, &rest);
}

/// A watch from the beginning, read whenever asked to.
struct Follower {
    changes: WatchStream,
    seen: Vec<Event>,
}

impl Follower {
    async fn start(store: &AnyStore, after: Revision) -> Self {
        Self { changes: watch(store, everything(), after).await, seen: Vec::new() }
    }

    async fn catch_up(&mut self, store: &AnyStore, revision: Revision) {
        store.request_progress().await.expect("progress");
        self.seen.extend(events_until_progress(&mut self.changes, revision).await);
    }
}

async fn check_txn(store: &AnyStore, model: &mut Model, ops: Vec<Op>, context: &str) {
    let expected = model.txn(&ops);
    let outcome = store.txn(ops.clone()).await.unwrap_or_else(|e| panic!("{context}: {ops:?}: {e}"));
    let outcome = match outcome {
        TxnOutcome::Committed { revision } => Ok(revision),
        TxnOutcome::Conflict { key, current } => Err((key, current)),
    };
    assert_eq!(outcome, expected, "{context}: {ops:?}");
}

async fn check_range(store: &AnyStore, model: &Model, dice: &mut Dice, context: &str) {
    let range = dice.range();
    let at = dice.0.random_bool(0.7).then(|| Revision(dice.0.random_range(model.base.0..=model.revision().0 + 1)));
    let limit = dice.0.random_bool(0.5).then(|| dice.0.random_range(0..KEYS));
    let context = format!("{context}: {range:?} at {at:?} limit {limit:?}");
    let result = store.range(RangeRequest { range: range.clone(), at, limit }).await;
    let read_at = at.unwrap_or(model.revision());
    if read_at < model.floor {
        let expected = (read_at, model.floor);
        match result {
            Err(Error::Compacted { requested, compacted }) => assert_eq!((requested, compacted), expected, "{context}"),
            other => panic!("{context}: expected Compacted, got {other:?}"),
        }
        return;
    }
    if read_at > model.revision() {
        assert!(
            matches!(result, Err(Error::FutureRevision { .. })),
            "{context}: expected FutureRevision, got {result:?}"
        );
        return;
    }
    let expected: Vec<KeyValue> =
        model.at(read_at).iter().filter(|(key, _)| range.contains(key)).map(|(_, kv)| kv.clone()).collect();
    let found = result.unwrap_or_else(|e| panic!("{context}: {e}"));
    assert_eq!((found.revision, found.count), (read_at, expected.len() as u64), "{context}");
    let limit = limit.unwrap_or(usize::MAX).min(expected.len());
    assert_eq!(found.entries, expected[..limit], "{context}");
}

/// Previous states may be missing once compacted; the changes themselves may not. Within one revision the order is free.
fn assert_same_events(seen: &[Event], expected: &[Event]) {
    let key = |event: &Event| (event.revision(), event.key().clone());
    let sorted = |events: &[Event]| {
        let mut events = events.to_vec();
        events.sort_by_key(key);
        events
    };
    assert!(seen.is_sorted_by_key(Event::revision));
    assert_eq!(seen.len(), expected.len());
    for (seen, expected) in sorted(seen).iter().zip(&sorted(expected)) {
        assert_eq!(seen.change, expected.change);
        if seen.previous.is_some() {
            assert_eq!(seen.previous, expected.previous);
        }
    }
}
