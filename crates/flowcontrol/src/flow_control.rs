//! The front of the crate: objects in, seats out.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use serde_json::Value;
use tokio::time::Instant;

use crate::configuration::{Configuration, Flow, LevelState, Objects, catch_all};
use crate::level::{FlowCounts, Level};
use crate::matching::{self, Request};
use crate::queue_set::{Discipline, Reason};
use crate::seat::{Seat, Streams, Turn};
use crate::spec::{FlowSchema, PriorityLevel, Queuing};

/// How often seats move between levels. Upstream does it every ten seconds; a burst should not have to wait that long.
pub const REBALANCE_PERIOD: Duration = Duration::from_secs(1);

/// The queues for turns: enough that flows rarely meet, and never full.
const TURN_QUEUES: Queuing = Queuing { queues: 256, hand_size: 2, queue_length_limit: u32::MAX };
/// Turns last microseconds; whoever waits this long meets a bug and is better let through.
const TURN_PATIENCE: Duration = Duration::from_secs(5);

/// Twice as many turns as processors: one computes while the next one is being woken.
fn turns_max() -> u32 {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    u32::try_from(2 * processors).unwrap_or(u32::MAX)
}

/// Nanoseconds since flow control began.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    pub fn now_ns(self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Decides over every request.
#[derive(Debug)]
pub struct FlowControl {
    clock: Clock,
    server_seats: u32,
    hasher: RandomState,
    pub(crate) configuration: ArcSwap<Configuration>,
    objects: Mutex<Objects>,
    /// Stand-ins for objects that must exist but do not.
    imagined: Objects,
    streams: Arc<Streams>,
    /// Whose work comes next when more requests could compute than there are processors.
    turns: Arc<Level>,
    turn_counts: Arc<FlowCounts>,
}

/// Which objects a request was judged by. Clients see their uids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classified {
    pub flow_schema_uid: Bytes,
    pub priority_level_uid: Bytes,
}

/// Why a request does not run, and when to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    pub reason: Reason,
    pub retry_after_seconds: u64,
}

/// What became of a request.
#[derive(Debug)]
pub struct Outcome {
    pub classified: Classified,
    pub seat: Result<Seat, Refused>,
}

impl FlowControl {
    /// Flow control over so many seats; `mandatory` are the objects it imagines as long as they are not stored.
    pub fn new(server_seats: u32, mandatory: &[Value]) -> Arc<Self> {
        let mut imagined = Objects::default();
        for object in mandatory {
            if let Ok(schema) = FlowSchema::deserialize_value(object) {
                imagined.schemas.insert(schema.metadata.name.clone(), schema);
            } else if let Ok(level) = PriorityLevel::deserialize_value(object) {
                imagined.levels.insert(level.metadata.name.clone(), level);
            }
        }
        let clock = Clock(Instant::now());
        let control = Self {
            clock,
            server_seats,
            hasher: RandomState::new(),
            configuration: ArcSwap::default(),
            objects: Mutex::default(),
            imagined,
            streams: Streams::new(clock),
            turns: Level::new("turns", Discipline::Queue(TURN_QUEUES), turns_max(), clock),
            turn_counts: Arc::default(),
        };
        control.configure(&control.objects());
        Arc::new(control)
    }

    fn objects(&self) -> MutexGuard<'_, Objects> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A FlowSchema was stored, or is gone. Holds for the next request.
    pub fn schema_changed(&self, name: &str, schema: Option<FlowSchema>) {
        let mut objects = self.objects();
        if objects.schemas.get(name) == schema.as_ref() {
            return;
        }
        match schema {
            Some(schema) => objects.schemas.insert(name.to_owned(), schema),
            None => objects.schemas.remove(name),
        };
        self.configure(&objects);
    }

    /// A PriorityLevelConfiguration was stored, or is gone. Holds for the next request.
    pub fn level_changed(&self, name: &str, level: Option<PriorityLevel>) {
        let mut objects = self.objects();
        if objects.levels.get(name) == level.as_ref() {
            return;
        }
        match level {
            Some(level) => objects.levels.insert(name.to_owned(), level),
            None => objects.levels.remove(name),
        };
        self.configure(&objects);
    }

    fn configure(&self, objects: &Objects) {
        let before = self.configuration.load();
        let level_of = |name: &str, discipline: Discipline| Level::new(name, discipline, 0, self.clock);
        let configuration = Configuration::new(objects, &self.imagined, &before, self.server_seats, level_of);
        configuration.rebalance(self.clock.now_ns());
        self.configuration.store(Arc::new(configuration));
    }

    /// Whether a schema leads to a level that there is.
    pub fn level_exists(&self, name: &str) -> bool {
        self.objects().levels.contains_key(name)
    }

    /// Moves seats to where they are wanted and takes those of streams that stand still. To be called every
    /// [`REBALANCE_PERIOD`].
    pub fn rebalance(&self) {
        self.streams.reclaim();
        self.configuration.load().rebalance(self.clock.now_ns());
    }

    /// Finds out which flow a request belongs to and waits, at most as long as `patience`, until it may run. `seats`
    /// estimates its work, given the most seats it may count as.
    pub async fn admit(
        &self,
        request: &Request<'_>,
        seats: impl FnOnce(u32) -> u32,
        patience: impl FnOnce() -> Duration,
    ) -> Option<Outcome> {
        let configuration = self.configuration.load();
        let flow = classify(&configuration, request)?;
        let hash = self.hash(flow, request);
        let state = flow.level.clone();
        let (counts, flow_schema_uid) = (flow.counts.clone(), flow.uid.clone());
        // A request that waits must not keep the configuration of its arrival alive.
        drop(configuration);
        let classified = Classified { flow_schema_uid, priority_level_uid: state.uid.clone() };
        let seats =
            if state.is_exempt() { 1 } else { seats(state.request_seats_max).clamp(1, state.request_seats_max) };
        let seat = match state.level.take(&counts, hash, seats, patience()).await {
            Ok(seats) => Ok(Seat::Fair { seats, streams: self.streams.clone(), turn: self.turn(&state, hash).await }),
            Err(reason) => Err(Refused { reason, retry_after_seconds: state.level.retry_after() }),
        };
        Some(Outcome { classified, seat })
    }

    fn hash(&self, flow: &Flow, request: &Request<'_>) -> u64 {
        if flow.level.is_exempt() {
            return 0;
        }
        self.hasher.hash_one((&*flow.name, request.distinguisher(flow.distinguisher)))
    }

    /// A turn to compute, fairly among all flows; the exempt need none. Nobody is turned away here: who waited too long
    /// just goes on.
    async fn turn(&self, state: &LevelState, hash: u64) -> Option<Turn> {
        if state.is_exempt() {
            return None;
        }
        self.turns.take(&self.turn_counts, hash, 1, TURN_PATIENCE).await.ok().map(Turn)
    }
}

/// The first schema that matches; the catch-all one if none does.
fn classify<'a>(configuration: &'a Configuration, request: &Request<'_>) -> Option<&'a Flow> {
    let flows = &configuration.flows;
    flows.iter().find(|flow| matching::matches(&flow.spec, request)).or_else(|| catch_all(flows))
}

#[cfg(test)]
mod tests;
