//! An agent: runs at a place of its own, says by a lease that it is there, takes its work from the API and gives evidence
//! back. It decides nothing, keeps nothing, and asks only public addresses.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bailiwick_domains::probe::{self, ProbeQuestion};
use bailiwick_domains::seams::{Net, Roots, SystemClock, VantagePoint};
use bailiwick_domains::toolbox::Toolbox;
use futures::StreamExt;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::Error;
use crate::access::SERVICE_NAMESPACE;
use crate::agent_metrics::{AgentMetrics, AtWork};
use crate::agents::{ADDRESSEE_LABEL, AGENT_LABEL, REGION_LABEL};
use crate::definition::probes;

/// How long a lease holds without being renewed.
pub(crate) const LEASE_SECONDS: i32 = 30;
/// How often it is renewed.
const RENEW: Duration = Duration::from_secs(10);
/// Pieces of work done at once; more wait for their turn on the watch.
const CONCURRENT_PROBES: usize = 64;
/// The longest name: the names of its pieces of work and of its label begin with it.
const NAME_MAX: usize = 40;

/// What an agent is.
#[derive(Clone, Debug)]
pub struct AgentOptions {
    /// Its name, such as `pop-fra1`.
    pub name: String,
    /// Where it is, such as `eu-central`; proofs are corroborated from as many regions as there are.
    pub region: Option<String>,
    /// The addresses it asks from; the system chooses where none is given.
    pub from: VantagePoint,
    /// Where the DNS begins.
    pub roots: Roots,
    /// Where it counts.
    pub metrics: Arc<AgentMetrics>,
}

/// Runs an agent until `shutdown` is ready.
pub async fn run_agent(client: Client, options: AgentOptions, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
    let agent = Agent::new(client, options)?;
    // Listened to before there is a lease: whoever is stopped the moment after it signs off too.
    let mut shutdown = std::pin::pin!(shutdown);
    tokio::select! {
        biased;
        () = &mut shutdown => {}
        ended = agent.live() => return ended,
    }
    agent.sign_off().await;
    Ok(())
}

struct Agent {
    client: Client,
    options: AgentOptions,
    /// Tells this process apart from another one of the same name.
    identity: String,
    toolbox: Arc<Toolbox>,
}

impl Agent {
    fn new(client: Client, options: AgentOptions) -> Result<Self, Error> {
        let is_label = |name: &str| {
            let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
            !name.is_empty()
                && name.len() <= NAME_MAX
                && name.bytes().all(plain)
                && !name.starts_with('-')
                && !name.ends_with('-')
        };
        if !is_label(&options.name) {
            return Err(Error::AgentName(options.name));
        }
        let from = VantagePoint { name: options.name.clone(), ..options.from.clone() };
        let roots = Arc::new(Roots { vantage_points: vec![from.clone()], ..options.roots.clone() });
        let toolbox = Arc::new(Toolbox::new(&Net::from(from.clone()), Arc::new(SystemClock), &roots)?);
        let asking = toolbox.surveyor().clone();
        options.metrics.count_questions(move || asking.questions_asked());
        let identity = format!("{}_{:08x}", options.name, rand::random::<u32>());
        Ok(Self { client, options: AgentOptions { from, ..options }, identity, toolbox })
    }

    async fn live(&self) -> Result<(), Error> {
        let mut waits = Reconnect::default();
        while let Err(error) = self.register().await {
            // A server that is away comes back; one that says no goes on saying so.
            if !is_away(&error) {
                return Err(error);
            }
            tracing::warn!(%error, "the server cannot be reached");
            tokio::time::sleep(waits.next().unwrap_or(RENEW)).await;
        }
        self.options.metrics.renewed();
        tracing::info!(name = self.options.name, "the agent is registered");
        tokio::select! {
            ended = self.renew() => ended,
            () = self.work() => Ok(()),
        }
    }

    fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.client.clone(), SERVICE_NAMESPACE)
    }

    /// Takes the lease of its name, unless another agent has it and is alive.
    async fn register(&self) -> Result<(), Error> {
        let name = &self.options.name;
        match self.leases().get_opt(name).await? {
            Some(lease) => {
                if !holder(&lease).is_empty() && holds(&lease, Timestamp::now()) {
                    return Err(Error::AgentThere(name.clone()));
                }
                let taken = Lease {
                    metadata: ObjectMeta { resource_version: lease.resource_version(), ..self.metadata() },
                    ..self.lease(&self.identity)
                };
                self.leases().replace(name, &PostParams::default(), &taken).await?;
            }
            None => {
                self.leases().create(&PostParams::default(), &self.lease(&self.identity)).await?;
            }
        }
        Ok(())
    }

    fn metadata(&self) -> ObjectMeta {
        let region = self.options.region.iter().map(|region| (REGION_LABEL.to_owned(), region.clone()));
        let labels = region.chain([(AGENT_LABEL.to_owned(), "true".to_owned())]).collect();
        ObjectMeta {
            name: Some(self.options.name.clone()),
            namespace: Some(SERVICE_NAMESPACE.to_owned()),
            labels: Some(labels),
            ..ObjectMeta::default()
        }
    }

    fn lease(&self, holder: &str) -> Lease {
        let now = MicroTime(Timestamp::now());
        let spec = LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(LEASE_SECONDS),
            acquire_time: Some(now.clone()),
            renew_time: Some(now),
            ..LeaseSpec::default()
        };
        Lease { metadata: self.metadata(), spec: Some(spec) }
    }

    /// Renews the lease; ends when another agent has taken it.
    async fn renew(&self) -> Result<(), Error> {
        loop {
            tokio::time::sleep(RENEW).await;
            match self.renew_once().await {
                Ok(()) => self.options.metrics.renewed(),
                Err(error @ Error::AgentThere(_)) => return Err(error),
                // A server that is away for a while is no reason to end.
                Err(error) => tracing::warn!(%error, "the lease cannot be renewed"),
            }
        }
    }

    async fn renew_once(&self) -> Result<(), Error> {
        let name = &self.options.name;
        let Some(lease) = self.leases().get_opt(name).await? else { return self.register().await };
        if holder(&lease) != self.identity && holds(&lease, Timestamp::now()) {
            return Err(Error::AgentThere(name.clone()));
        }
        let acquired = lease.spec.as_ref().and_then(|spec| spec.acquire_time.clone());
        let mut renewed = self.lease(&self.identity);
        renewed.metadata.resource_version = lease.resource_version();
        if let Some(spec) = &mut renewed.spec {
            spec.acquire_time = acquired;
        }
        self.leases().replace(name, &PostParams::default(), &renewed).await?;
        Ok(())
    }

    /// Says that it ends, so that nobody waits for it.
    async fn sign_off(&self) {
        let ended = async {
            let mut ended = self.lease("");
            let Some(lease) = self.leases().get_opt(&self.options.name).await? else { return Ok(()) };
            if holder(&lease) != self.identity {
                return Ok(());
            }
            ended.metadata.resource_version = lease.resource_version();
            self.leases().replace(&self.options.name, &PostParams::default(), &ended).await.map(|_| ())
        };
        let ended: kube::Result<()> = ended.await;
        if let Err(error) = ended {
            tracing::warn!(%error, "the lease cannot be given back");
        }
    }

    /// Does the work that is addressed to it, for ever.
    async fn work(&self) {
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), SERVICE_NAMESPACE, &probes());
        let own = watcher::Config::default().labels(&format!("{ADDRESSEE_LABEL}={}", self.options.name));
        let mut events = watch(api.clone(), own).backoff(Reconnect::default()).boxed();
        let mut at_work = JoinSet::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Apply(probe) | Event::InitApply(probe)) if is_open(&probe) => {
                    while at_work.len() >= CONCURRENT_PROBES {
                        at_work.join_next().await;
                    }
                    let (toolbox, from, api) = (self.toolbox.clone(), self.options.from.clone(), api.clone());
                    let work = self.options.metrics.clone().begin();
                    at_work.spawn(async move { answer(&toolbox, &from, &api, &probe, work).await });
                }
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, "work cannot be watched"),
            }
            while at_work.try_join_next().is_some() {}
        }
    }
}

/// How long to wait for a server that is away: whoever asks waits a few seconds for an answer, so not much longer. Each agent
/// at times of its own, as hundreds may be waiting.
struct Reconnect {
    next: Duration,
}

impl Reconnect {
    const FIRST: Duration = Duration::from_millis(200);
    const LONGEST: Duration = Duration::from_secs(4);
}

impl Default for Reconnect {
    fn default() -> Self {
        Self { next: Self::FIRST }
    }
}

impl Iterator for Reconnect {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let wait = self.next.mul_f64(0.5 + rand::random::<f64>() / 2.0);
        self.next = (self.next * 2).min(Self::LONGEST);
        Some(wait)
    }
}

impl Backoff for Reconnect {
    fn reset(&mut self) {
        *self = Self::default();
    }
}

/// Whether nobody answered, or somebody who cannot just now.
fn is_away(error: &Error) -> bool {
    match error {
        Error::Api(kube::Error::Api(status)) => status.code >= 500 || status.code == 429,
        Error::Api(_) => true,
        _ => false,
    }
}

fn holder(lease: &Lease) -> &str {
    lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
}

fn holds(lease: &Lease, now: Timestamp) -> bool {
    let Some(spec) = &lease.spec else { return false };
    let seconds = SignedDuration::from_secs(i64::from(spec.lease_duration_seconds.unwrap_or(0)));
    spec.renew_time.as_ref().is_some_and(|renewed| now.duration_since(renewed.0) < seconds)
}

/// Whether a piece of work waits for an answer that somebody still waits for.
fn is_open(probe: &DynamicObject) -> bool {
    let deadline = probe.data.pointer("/spec/deadline").and_then(Value::as_str).and_then(|text| text.parse().ok());
    let in_time = deadline.is_some_and(|deadline: Timestamp| Timestamp::now() < deadline);
    in_time && probe.data.pointer("/status/evidence").is_none()
}

async fn answer(
    toolbox: &Toolbox,
    from: &VantagePoint,
    api: &Api<DynamicObject>,
    probe: &DynamicObject,
    mut work: AtWork,
) {
    let questions: Result<Vec<ProbeQuestion>, _> =
        serde_json::from_value(probe.data.pointer("/spec/questions").cloned().unwrap_or_default());
    let questions = match questions {
        Ok(questions) => questions,
        Err(error) => return tracing::warn!(%error, probe = probe.name_any(), "work cannot be read"),
    };
    let answers = probe::answer(toolbox, from, &questions).await;
    let evidence = match serde_json::to_string(&answers) {
        Ok(evidence) => evidence,
        Err(error) => return tracing::warn!(%error, probe = probe.name_any(), "evidence cannot be written"),
    };
    let status = json!({"status": {"answeredAt": Timestamp::now(), "evidence": evidence}});
    let written = api.patch_status(&probe.name_any(), &PatchParams::default(), &Patch::Merge(status)).await;
    match written {
        // Whoever asked did not wait.
        Err(kube::Error::Api(status)) if status.is_not_found() => work.outcome = "late",
        Err(error) => tracing::warn!(%error, probe = probe.name_any(), "evidence cannot be given back"),
        Ok(_) => work.outcome = "answered",
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn a_server_that_is_away_is_waited_for_and_one_that_says_no_is_not() {
        let said = |code: u16| Error::Api(kube::Error::Api(Box::new(Status { code, ..Status::default() })));
        assert!(is_away(&said(503)) && is_away(&said(429)) && !is_away(&said(403)) && !is_away(&said(401)));
        assert!(!is_away(&Error::AgentThere("fra".into())));
    }

    #[test]
    fn waits_grow_and_stay_short() {
        let mut waits = Reconnect::default();
        let all: Vec<Duration> = waits.by_ref().take(50).collect();
        assert!(all[0] <= Reconnect::FIRST && all.iter().all(|wait| *wait <= Reconnect::LONGEST));
        assert!(all[40] > Reconnect::FIRST);
        waits.reset();
        assert!(waits.next().is_some_and(|wait| wait <= Reconnect::FIRST));
    }
}
