//! How many requests run at once: the options, the flow control they make, and what keeps it and its objects current.

use std::sync::Arc;

use bailiwick_flowcontrol::spec::{FlowSchema, PriorityLevel};
use bailiwick_flowcontrol::{FlowControl, PlainLimits, REBALANCE_PERIOD};
use bailiwick_server::cache::{Caches, Event};
use bailiwick_server::{ApiServer, FlowLimits, Registry};
use bailiwick_store as store;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::flow_objects;

const GROUP: &str = "flowcontrol.apiserver.k8s.io";

/// Who waits when many ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fairness {
    /// FlowSchemas and PriorityLevelConfigurations decide.
    PriorityAndFairness,
    /// Nobody waits; who comes too late is turned away.
    Off,
}

/// How many requests run at once.
#[derive(Clone, Debug)]
pub struct FlowControlOptions {
    pub fairness: Fairness,
    /// Requests that read, at once; 0 is no limit. Together with the other limit the seats of priority and fairness.
    pub max_requests_inflight: u32,
    /// Requests that write, at once; 0 is no limit.
    pub max_mutating_requests_inflight: u32,
}

impl Default for FlowControlOptions {
    fn default() -> Self {
        Self {
            fairness: Fairness::PriorityAndFairness,
            max_requests_inflight: 400,
            max_mutating_requests_inflight: 200,
        }
    }
}

/// Flow control before there is a server.
pub(super) struct Built {
    pub limits: FlowLimits,
    control: Option<Arc<FlowControl>>,
    changed: Arc<Notify>,
}

/// Flow control at work; ends when dropped.
pub(super) struct Started {
    tasks: Vec<JoinHandle<()>>,
}

impl Started {
    /// Ends and waits until it has.
    pub(super) async fn stop(mut self) {
        for task in self.tasks.drain(..) {
            task.abort();
            // It was told to end; how it did does not matter.
            let _ = task.await;
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl FlowControlOptions {
    /// Makes the limits and feeds them the stored objects.
    pub(super) async fn build(&self, registry: &Registry, caches: &Arc<Caches>) -> store::Result<Built> {
        let changed = Arc::new(Notify::new());
        if self.fairness == Fairness::Off {
            let limits = PlainLimits::new(self.max_requests_inflight, self.max_mutating_requests_inflight);
            return Ok(Built { limits: FlowLimits::Plain(limits), control: None, changed });
        }
        let seats = self.max_requests_inflight.saturating_add(self.max_mutating_requests_inflight);
        let control = FlowControl::new(seats, &bailiwick_api::flowcontrol::mandatory_objects());
        connect(&control, &changed, registry, caches).await?;
        Ok(Built { limits: FlowLimits::Fair(control.clone()), control: Some(control), changed })
    }
}

impl Built {
    /// Starts to move seats between levels, and to look after the objects and their status.
    pub(super) fn start(control: Option<Arc<FlowControl>>, changed: Arc<Notify>, server: &Arc<ApiServer>) -> Started {
        let Some(control) = control else { return Started { tasks: Vec::new() } };
        let objects = tokio::spawn(flow_objects::look_after(server.clone(), control.clone(), changed));
        let seats = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(REBALANCE_PERIOD);
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                control.rebalance();
            }
        });
        Started { tasks: vec![objects, seats] }
    }

    pub(super) fn into_parts(self) -> (FlowLimits, impl FnOnce(&Arc<ApiServer>) -> Started) {
        let (control, changed) = (self.control, self.changed);
        (self.limits, move |server: &Arc<ApiServer>| Self::start(control, changed, server))
    }
}

/// A stored change decides over the next request.
async fn connect(
    control: &Arc<FlowControl>,
    changed: &Arc<Notify>,
    registry: &Registry,
    caches: &Arc<Caches>,
) -> store::Result<()> {
    for served in registry.all().filter(|served| served.resource.group == GROUP) {
        let Some(spec) = &served.cache else { continue };
        let levels = served.resource.plural == "prioritylevelconfigurations";
        let cache = caches.resource(spec).await?;
        cache.mark_decisive();
        let (control, changed) = (control.clone(), changed.clone());
        cache.subscribe(Box::new(move |event| {
            let name = event.object.name();
            if levels {
                control.level_changed(name, stored::<PriorityLevel>(event));
            } else {
                control.schema_changed(name, stored::<FlowSchema>(event));
            }
            changed.notify_one();
        }));
    }
    Ok(())
}

fn stored<T: DeserializeOwned>(event: &Event) -> Option<T> {
    if event.deleted {
        return None;
    }
    let parsed = serde_json::from_slice(event.object.stored_json());
    parsed
        .inspect_err(|error| tracing::error!(%error, name = event.object.name(), "flow control ignores an object"))
        .ok()
}
