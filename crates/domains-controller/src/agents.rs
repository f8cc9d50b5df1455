//! The agents at other places, as the controller sees them: who is there (by their leases), work for them, and their evidence.
//!
//! A piece of work is an object with the agent's name on it, so that each agent watches its own and nothing else. Whoever
//! asks waits for the answer's event; nothing is polled, and without agents nothing is written.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bailiwick_domains::probe::{Absent, PlaceAnswers, ProbeAnswer, ProbeQuestion, RemotePlaces, believe};
use futures::StreamExt;
use futures::future::{BoxFuture, join_all};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{DeleteParams, DynamicObject, PostParams};
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use rand::seq::SliceRandom;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, oneshot, watch};

use crate::access::SERVICE_NAMESPACE;
use crate::definition::{GROUP, VERSION, probes};
use crate::metrics::Metrics;

/// On an agent's lease.
pub const AGENT_LABEL: &str = "datumapis.com/dns-agent";
/// On a piece of work: whose it is.
pub const ADDRESSEE_LABEL: &str = "datumapis.com/agent";
/// Where an agent is.
pub const REGION_LABEL: &str = "topology.kubernetes.io/region";

/// How long an agent has: a trace far from everything takes two seconds.
const PATIENCE: Duration = Duration::from_secs(5);
/// Agents that corroborate a proof, as many as certificate authorities must ask; which ones is not foreseeable.
const WITNESSES_MAX: usize = 5;
/// Pieces of work that are written at once.
const WRITES_AT_ONCE: usize = 64;
/// An agent that has been away for longer is not spoken of any more.
const FORGOTTEN: SignedDuration = SignedDuration::from_hours(24);

/// One agent, by its lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Agent {
    pub name: String,
    pub region: String,
    ends: Timestamp,
    /// It said that it ended.
    gone: bool,
}

/// The agents by their leases. While leases are listed anew, what was known before still counts: a moment without witnesses
/// would be a moment in which nobody has to corroborate anything.
#[derive(Default)]
struct Roster {
    known: HashMap<String, Agent>,
    /// A list that is not complete yet.
    listing: Option<HashMap<String, Agent>>,
}

impl Roster {
    /// Takes what a watch tells, and says whether the whole list is known by it.
    fn take(&mut self, event: Event<Lease>) -> bool {
        match event {
            Event::Init => self.listing = Some(HashMap::new()),
            Event::InitApply(lease) => {
                if let Some(agent) = agent(&lease) {
                    self.listing.get_or_insert_default().insert(agent.name.clone(), agent);
                }
            }
            Event::InitDone => {
                self.known = self.listing.take().unwrap_or_default();
                return true;
            }
            Event::Apply(lease) => {
                if let Some(agent) = agent(&lease) {
                    self.known.insert(agent.name.clone(), agent);
                }
            }
            Event::Delete(lease) => {
                self.known.remove(&lease.name_any());
            }
        }
        false
    }
}

/// See the module.
pub(crate) struct Agents {
    client: Client,
    roster: Mutex<Roster>,
    synced: watch::Sender<bool>,
    waiting: Mutex<HashMap<String, oneshot::Sender<String>>>,
    writes: Semaphore,
    metrics: Arc<Metrics>,
}

impl Agents {
    pub fn new(client: Client, metrics: Arc<Metrics>) -> Self {
        Self {
            client,
            roster: Mutex::default(),
            synced: watch::Sender::new(false),
            waiting: Mutex::default(),
            writes: Semaphore::new(WRITES_AT_ONCE),
            metrics,
        }
    }

    /// Follows leases and answers, for ever.
    pub async fn follow(&self) {
        tokio::join!(self.follow_leases(), self.follow_answers());
    }

    async fn follow_leases(&self) {
        let api: Api<Lease> = Api::namespaced(self.client.clone(), SERVICE_NAMESPACE);
        let mut events = watcher(api, watcher::Config::default().labels(AGENT_LABEL)).default_backoff().boxed();
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    if self.roster().take(event) {
                        self.synced.send_replace(true);
                    }
                }
                Err(error) if *self.synced.borrow() => {
                    tracing::debug!(%error, "the leases of agents cannot be watched");
                }
                Err(error) => tracing::warn!(%error, "nothing is looked at before the leases of agents can be read"),
            }
        }
    }

    /// Returns once it is known who is there.
    pub async fn synced(&self) {
        // The sender is our own and does not go before us.
        let _ = self.synced.subscribe().wait_for(|synced| *synced).await;
    }

    async fn follow_answers(&self) {
        let api = self.probes();
        let mut events = watcher(api, watcher::Config::default()).default_backoff().boxed();
        while let Some(event) = events.next().await {
            let probe = match event {
                Ok(Event::Apply(probe) | Event::InitApply(probe)) => probe,
                Ok(_) => continue,
                Err(error) => {
                    tracing::debug!(%error, "the answers of agents cannot be watched");
                    continue;
                }
            };
            if let Some(evidence) = probe.data.pointer("/status/evidence").and_then(Value::as_str) {
                if let Some(waiting) = self.waiting().remove(&probe.name_any()) {
                    // Whoever asked may have given up.
                    let _ = waiting.send(evidence.to_owned());
                }
            } else if is_late(&probe) && !self.waiting().contains_key(&probe.name_any()) {
                // What an earlier run of this controller left.
                self.remove(&probe.name_any()).await;
            }
        }
    }

    fn roster(&self) -> MutexGuard<'_, Roster> {
        self.roster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<String, oneshot::Sender<String>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn probes(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), SERVICE_NAMESPACE, &probes())
    }

    async fn remove(&self, name: &str) {
        if let Err(error) = self.probes().delete(name, &DeleteParams::default()).await
            && !matches!(&error, kube::Error::Api(status) if status.is_not_found())
        {
            tracing::debug!(%error, probe = name, "a piece of work cannot be removed");
        }
    }

    /// Who is there, and who was.
    pub fn roll(&self) -> (Vec<Agent>, Vec<Absent>) {
        roll(self.roster().known.values().cloned().collect(), Timestamp::now())
    }

    /// Agents that corroborate a proof.
    pub fn witnesses(&self) -> Places<'_> {
        let (alive, _) = self.roll();
        Places { all: self, agents: spread(alive, WITNESSES_MAX), absent: Vec::new() }
    }

    /// The agents of these names, or all.
    pub fn chosen(&self, names: Option<&[String]>) -> Places<'_> {
        let (mut agents, mut absent) = self.roll();
        if let Some(names) = names {
            agents.retain(|agent| names.contains(&agent.name));
            absent.retain(|absent| names.contains(&absent.place));
            let unknown = names.iter().filter(|name| {
                !agents.iter().any(|agent| agent.name == **name) && !absent.iter().any(|absent| absent.place == **name)
            });
            let unknown: Vec<Absent> = unknown
                .map(|name| Absent { place: name.clone(), reason: "there is no agent of this name".to_owned() })
                .collect();
            absent.extend(unknown);
        }
        Places { all: self, agents, absent }
    }

    /// Has one agent find something out.
    async fn ask(&self, agent: &Agent, questions: &[ProbeQuestion]) -> Result<Vec<ProbeAnswer>, String> {
        let name = format!("{}-{:08x}", agent.name, rand::random::<u32>());
        let (sender, receiver) = oneshot::channel();
        self.waiting().insert(name.clone(), sender);
        let asked = self.write_probe(&name, agent, questions).await;
        let evidence = match asked {
            Ok(()) => tokio::time::timeout(PATIENCE, receiver).await.ok().and_then(Result::ok),
            Err(error) => {
                self.waiting().remove(&name);
                return Err(format!("it cannot be given work: {error}"));
            }
        };
        self.waiting().remove(&name);
        self.remove(&name).await;
        let answers = match evidence {
            Some(evidence) => believe(&agent.name, questions, evidence.as_bytes()),
            None => Err(format!("it did not answer within {} seconds", PATIENCE.as_secs())),
        };
        self.metrics.probed(if answers.is_ok() { "answered" } else { "failed" });
        answers
    }

    async fn write_probe(&self, name: &str, agent: &Agent, questions: &[ProbeQuestion]) -> Result<(), kube::Error> {
        // Closed only with the controller itself.
        let _permit = self.writes.acquire().await.ok();
        let deadline = Timestamp::now().checked_add(PATIENCE).unwrap_or(Timestamp::MAX);
        let mut probe = DynamicObject::new(name, &probes()).within(SERVICE_NAMESPACE);
        probe.labels_mut().insert(ADDRESSEE_LABEL.to_owned(), agent.name.clone());
        probe.types =
            Some(kube::core::TypeMeta { api_version: format!("{GROUP}/{VERSION}"), kind: "DomainProbe".to_owned() });
        probe.data = json!({"spec": {"agent": agent.name, "questions": questions, "deadline": deadline}});
        self.probes().create(&PostParams::default(), &probe).await?;
        Ok(())
    }
}

/// Some agents, to be asked together.
pub(crate) struct Places<'a> {
    all: &'a Agents,
    agents: Vec<Agent>,
    absent: Vec<Absent>,
}

impl Places<'_> {
    pub fn is_empty(&self) -> bool {
        self.agents.is_empty()
    }

    async fn ask_agents(&self, questions: &[ProbeQuestion], is_asked: impl Fn(&Agent) -> bool) -> Vec<PlaceAnswers> {
        let asked = self.agents.iter().filter(|agent| is_asked(agent)).map(|agent| async move {
            let answers = self.all.ask(agent, questions).await;
            PlaceAnswers { place: agent.name.clone(), answers }
        });
        join_all(asked).await
    }
}

impl RemotePlaces for Places<'_> {
    fn ask<'a>(&'a self, questions: &'a [ProbeQuestion]) -> BoxFuture<'a, Vec<PlaceAnswers>> {
        Box::pin(self.ask_agents(questions, |_| true))
    }

    fn ask_those<'a>(
        &'a self,
        places: &'a [String],
        questions: &'a [ProbeQuestion],
    ) -> BoxFuture<'a, Vec<PlaceAnswers>> {
        Box::pin(self.ask_agents(questions, |agent| places.contains(&agent.name)))
    }

    fn present(&self) -> Vec<String> {
        self.agents.iter().map(|agent| agent.name.clone()).collect()
    }

    fn absent(&self) -> Vec<Absent> {
        self.absent.clone()
    }
}

fn agent(lease: &Lease) -> Option<Agent> {
    let spec = lease.spec.as_ref()?;
    let seconds = i64::from(spec.lease_duration_seconds.unwrap_or(0));
    let renewed = spec.renew_time.as_ref()?.0;
    Some(Agent {
        name: lease.name_any(),
        region: lease.labels().get(REGION_LABEL).cloned().unwrap_or_default(),
        ends: renewed.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(renewed),
        gone: spec.holder_identity.as_deref().unwrap_or_default().is_empty(),
    })
}

fn is_late(probe: &DynamicObject) -> bool {
    let deadline = probe.data.pointer("/spec/deadline").and_then(Value::as_str).and_then(|text| text.parse().ok());
    deadline.is_none_or(|deadline: Timestamp| deadline < Timestamp::now())
}

/// Those whose lease holds, by name, and those whose lease has ended, with the reason.
fn roll(mut all: Vec<Agent>, now: Timestamp) -> (Vec<Agent>, Vec<Absent>) {
    all.sort_by(|a, b| a.name.cmp(&b.name));
    let (alive, rest): (Vec<Agent>, Vec<Agent>) = all.into_iter().partition(|agent| !agent.gone && agent.ends > now);
    let away = rest.into_iter().filter(|agent| now.duration_since(agent.ends) < FORGOTTEN);
    let absent = away.map(|agent| {
        let reason = match agent.gone {
            true => "it was shut down".to_owned(),
            false => format!("its lease ended {} ago", ago(now.duration_since(agent.ends))),
        };
        Absent { place: agent.name, reason }
    });
    (alive, absent.collect())
}

fn ago(time: SignedDuration) -> String {
    match time.as_secs() {
        0..=119 => format!("{} seconds", time.as_secs()),
        120..=7_199 => format!("{} minutes", time.as_mins()),
        _ => format!("{} hours", time.as_hours()),
    }
}

/// Up to `most` agents, one of each region before a second one of any, by chance.
fn spread(mut agents: Vec<Agent>, most: usize) -> Vec<Agent> {
    agents.shuffle(&mut rand::rng());
    let mut regions = HashSet::new();
    // A stable sort keeps the order of chance among those of equal right.
    agents.sort_by_cached_key(|agent| !regions.insert(agent.region.clone()));
    agents.truncate(most);
    agents
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).expect("in range")
    }

    fn agent(name: &str, region: &str, ends: i64) -> Agent {
        Agent { name: name.into(), region: region.into(), ends: at(ends), gone: false }
    }

    #[test]
    fn an_agent_whose_lease_ended_is_not_asked_and_that_is_said() {
        let all = vec![agent("sin", "", -300), agent("fra", "", 10), agent("old", "", -200_000)];
        let (alive, absent) = roll(all, at(0));
        assert_eq!(alive.iter().map(|agent| agent.name.as_str()).collect::<Vec<_>>(), ["fra"]);
        assert_eq!(absent, [Absent { place: "sin".into(), reason: "its lease ended 5 minutes ago".into() }]);
        let gone = Agent { gone: true, ..agent("fra", "", 10) };
        let (alive, absent) = roll(vec![gone], at(0));
        assert!(alive.is_empty());
        assert_eq!(absent, [Absent { place: "fra".into(), reason: "it was shut down".into() }]);
    }

    fn lease(name: &str) -> Lease {
        let mut lease = Lease::default();
        lease.metadata.name = Some(name.to_owned());
        let renew_time = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime(at(0)));
        let spec = k8s_openapi::api::coordination::v1::LeaseSpec { renew_time, ..Default::default() };
        Lease { spec: Some(spec), ..lease }
    }

    #[test]
    fn witnesses_stay_while_leases_are_listed_anew_and_those_that_are_gone_go_with_the_whole_list() {
        let mut roster = Roster::default();
        let names = |roster: &Roster| {
            let mut names: Vec<String> = roster.known.keys().cloned().collect();
            names.sort();
            names
        };
        assert!(!roster.take(Event::Init));
        roster.take(Event::InitApply(lease("fra")));
        roster.take(Event::InitApply(lease("sin")));
        assert!(roster.take(Event::InitDone), "the list is whole");
        roster.take(Event::Apply(lease("gru")));
        roster.take(Event::Init);
        assert_eq!(names(&roster), ["fra", "gru", "sin"]);
        roster.take(Event::InitApply(lease("fra")));
        assert_eq!(names(&roster), ["fra", "gru", "sin"]);
        roster.take(Event::InitDone);
        assert_eq!(names(&roster), ["fra"]);
        roster.take(Event::Delete(lease("fra")));
        assert!(names(&roster).is_empty());
    }

    #[test]
    fn witnesses_are_of_as_many_regions_as_there_are() {
        let all: Vec<Agent> = (0..20).map(|i| agent(&format!("eu{i}"), "eu", 1)).collect();
        let more = [agent("us", "us", 1), agent("ap", "ap", 1)];
        for _ in 0..20 {
            let chosen = spread(all.iter().chain(&more).cloned().collect(), 5);
            let regions: HashSet<&str> = chosen.iter().map(|agent| agent.region.as_str()).collect();
            assert_eq!((chosen.len(), regions.len()), (5, 3));
        }
    }
}
