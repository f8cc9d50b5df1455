//! The stored objects put together: schemas in the order they are tried, each with its level, and the seats of each level.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::allocation::{Class, divide};
use crate::level::{FlowCounts, Level};
use crate::queue_set::Discipline;
use crate::spec::{
    CATCH_ALL, Distinguisher, EXEMPT, FlowSchema, FlowSchemaSpec, LevelSpec, LimitResponse, PriorityLevel,
};

/// A list may not take more of a level than this part of it, so that one cannot shut out all others.
const WIDEST_REQUEST_PART: f64 = 0.15;
/// No request counts as more work than this many seats.
const REQUEST_SEATS_MAX: u32 = 10;

/// A schema and where it leads.
#[derive(Debug)]
pub struct Flow {
    pub name: Box<str>,
    pub uid: Bytes,
    pub spec: FlowSchemaSpec,
    pub distinguisher: Option<Distinguisher>,
    pub level: Arc<LevelState>,
    pub counts: Arc<FlowCounts>,
}

/// A level with the seats it is configured to have.
#[derive(Debug)]
pub struct LevelState {
    pub level: Arc<Level>,
    pub uid: Bytes,
    pub discipline: Discipline,
    /// Its own seats, what it keeps of them when others borrow, and what it may have when it borrows.
    pub nominal: u32,
    pub lower: u32,
    pub upper: u32,
    /// The most seats of a single request.
    pub request_seats_max: u32,
}

impl LevelState {
    pub fn is_exempt(&self) -> bool {
        self.discipline == Discipline::Exempt
    }
}

/// Everything a request is decided by. Replaced as a whole when an object changes.
#[derive(Debug, Default)]
pub struct Configuration {
    /// By precedence.
    pub flows: Vec<Flow>,
    pub levels: BTreeMap<Box<str>, Arc<LevelState>>,
}

/// The stored objects by name.
#[derive(Debug, Default)]
pub struct Objects {
    pub schemas: BTreeMap<String, FlowSchema>,
    pub levels: BTreeMap<String, PriorityLevel>,
}

impl Configuration {
    /// Puts the objects together, keeping the levels at work in `before`. What flow control cannot do without is imagined
    /// where it is missing.
    pub fn new(
        objects: &Objects,
        imagined: &Objects,
        before: &Self,
        server_seats: u32,
        mut level_of: impl FnMut(&str, Discipline) -> Arc<Level>,
    ) -> Self {
        let missing = imagined.levels.iter().filter(|(name, _)| !objects.levels.contains_key(*name));
        let specs: BTreeMap<&String, &PriorityLevel> = objects.levels.iter().chain(missing).collect();
        let share_sum: f64 = specs.values().map(|level| f64::from(level.spec.shares())).sum();
        let mut levels = BTreeMap::new();
        for (name, object) in specs {
            let Some(discipline) = discipline(name, &object.spec) else {
                tracing::warn!(name, "priority level is not used: its type does not go with its name");
                continue;
            };
            let level = match before.levels.get(name.as_str()) {
                Some(state) => state.level.clone(),
                None => level_of(name, discipline),
            };
            levels.insert(name.as_str().into(), Arc::new(seats(object, discipline, level, server_seats, share_sum)));
        }
        Self { flows: flows(objects, imagined, before, &levels), levels }
    }

    /// Gives each level its present number of seats: by demand, within what it must have and may have.
    pub fn rebalance(&self, now_ns: u64) {
        let nominal_sum: u32 = self.levels.values().map(|state| state.nominal).sum();
        let mut left = i64::from(nominal_sum);
        let (mut classes, mut limited, mut lower_sum) = (Vec::new(), Vec::new(), 0_i64);
        for state in self.levels.values() {
            let demand = state.level.lock().end_demand_period(now_ns);
            if state.is_exempt() {
                let needed = state.lower.max(demand.peak);
                left -= i64::from(needed);
                state.level.reconfigure(state.discipline, needed);
                continue;
            }
            let lower = state.lower.max(state.nominal.min(demand.peak));
            lower_sum += i64::from(state.lower);
            classes.push(Class {
                lower: f64::from(lower),
                upper: f64::from(state.upper),
                target: f64::from(lower).max(demand.smoothed),
            });
            limited.push(state);
        }
        let wanted: f64 = classes.iter().map(|class| class.lower).sum();
        let parts: Vec<f64> = if left <= lower_sum {
            limited.iter().map(|state| f64::from(state.lower)).collect()
        } else if (left as f64) <= wanted {
            let fraction = (left - lower_sum) as f64 / (wanted - lower_sum as f64);
            let between = |(state, class): (&&Arc<LevelState>, &Class)| {
                f64::from(state.lower) + (class.lower - f64::from(state.lower)) * fraction
            };
            limited.iter().zip(&classes).map(between).collect()
        } else {
            divide(left as f64, &classes).0
        };
        for (state, part) in limited.iter().zip(parts) {
            state.level.reconfigure(state.discipline, part.round() as u32);
        }
    }
}

/// How a level treats its requests; `None` if the object makes no sense.
fn discipline(name: &str, spec: &LevelSpec) -> Option<Discipline> {
    match spec {
        LevelSpec::Exempt { .. } => (name == EXEMPT).then_some(Discipline::Exempt),
        LevelSpec::Limited { .. } if name == EXEMPT => None,
        LevelSpec::Limited { limited } => Some(match limited.limit_response {
            LimitResponse::Reject => Discipline::Reject,
            LimitResponse::Queue { queuing } => Discipline::Queue(queuing),
        }),
    }
}

fn seats(
    object: &PriorityLevel,
    discipline: Discipline,
    level: Arc<Level>,
    server_seats: u32,
    share_sum: f64,
) -> LevelState {
    let part = f64::from(server_seats) * f64::from(object.spec.shares()) / share_sum.max(1.0);
    let nominal = part.ceil() as u32;
    let percent = |percent: u32| (f64::from(nominal) * f64::from(percent) / 100.0).round() as u32;
    let lendable = percent(object.spec.lendable_percent());
    let borrowable = object.spec.borrowing_limit_percent().map_or(server_seats, percent);
    let request_seats_max = match discipline {
        Discipline::Queue(queuing) => {
            let by_part = (f64::from(nominal) * WIDEST_REQUEST_PART).ceil() as u32;
            by_part.min(nominal / queuing.hand_size.max(1)).clamp(1, REQUEST_SEATS_MAX)
        }
        Discipline::Exempt | Discipline::Reject => REQUEST_SEATS_MAX,
    };
    LevelState {
        level,
        uid: object.metadata.uid.clone().into(),
        discipline,
        nominal,
        lower: nominal.saturating_sub(lendable),
        upper: nominal.saturating_add(borrowable),
        request_seats_max,
    }
}

fn flows(
    objects: &Objects,
    imagined: &Objects,
    before: &Configuration,
    levels: &BTreeMap<Box<str>, Arc<LevelState>>,
) -> Vec<Flow> {
    let found = |schema: &FlowSchema| levels.contains_key(schema.spec.priority_level_configuration.name.as_str());
    let usable = |name: &str| objects.schemas.get(name).is_some_and(found);
    let missing = imagined.schemas.values().filter(|schema| !usable(&schema.metadata.name));
    let mut schemas: Vec<&FlowSchema> =
        objects.schemas.values().filter(|schema| found(schema)).chain(missing).collect();
    schemas.sort_by(|a, b| {
        (a.spec.matching_precedence, &a.metadata.name).cmp(&(b.spec.matching_precedence, &b.metadata.name))
    });
    let flow = |schema: &FlowSchema| {
        let level = levels.get(schema.spec.priority_level_configuration.name.as_str())?.clone();
        let same = |flow: &&Flow| *flow.name == *schema.metadata.name && flow.level.level.name == level.level.name;
        let counts = before.flows.iter().find(same).map(|flow| flow.counts.clone()).unwrap_or_default();
        Some(Flow {
            name: schema.metadata.name.as_str().into(),
            uid: schema.metadata.uid.clone().into(),
            spec: schema.spec.clone(),
            distinguisher: schema.spec.distinguisher_method.map(|method| method.by),
            level,
            counts,
        })
    };
    schemas.into_iter().filter_map(flow).collect()
}

/// The schema for requests that none matches.
pub fn catch_all(flows: &[Flow]) -> Option<&Flow> {
    flows.iter().find(|flow| &*flow.name == CATCH_ALL)
}
