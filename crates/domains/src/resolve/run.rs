//! One run: resolutions that share a budget and the cuts found so far. Nothing outlives the run, so that what is reported is
//! what the servers say now; only looks that are made again and again, at many domains, share what is everybody's
//! ([`Commons`]).

use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use rand::seq::SliceRandom;
use tokio::time::Instant;

use super::flights::{Errand, Flights, Known, Way};
use super::habits::{Habit, Habits, PATIENCE_WITH_THE_SILENT};
use super::{
    AddressSource, Broken, Commons, Cut, MAX_ALIASES, MAX_CUTS, Outcome, Reply, Resolution, Says, Step, classify,
};
use crate::engine::{Budget, Engine, MAX_QUESTIONS};
use crate::evidence::Evidence;
use crate::transport::Remark;
use crate::wire::{Ask, Name, Question, RData, Record, RecordType, Section, rdata_text, show_name};

/// Names of servers that are looked up for one cut; a referral with hundreds of them is an attack (NXNSAttack).
const MAX_LOOKED_UP_SERVERS: usize = 13;
/// Of the questions of a run, one in so many may be the first about a server's name: whoever makes us look up names of a
/// victim cannot make us send it much.
const QUESTIONS_PER_LOOKED_UP_SERVER: usize = 4;
/// How deep the names of servers may depend on other names of servers.
const MAX_DEPTH: usize = 4;
/// Servers that are asked at once when one good answer is enough and somebody waits for it.
pub(super) const FEW: usize = 2;
/// A server that was silent once in a run is given less time for the next question.
pub(super) const SILENT_AFTER: u8 = 1;
/// When more are asked.
const IMPATIENCE: Duration = Duration::from_millis(300);

/// Whom to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thoroughness {
    /// Every server of every cut; all replies are kept.
    EveryServer,
    /// Until one gives a usable answer.
    FirstAnswer,
}

/// Resolutions that share a budget and the cuts found so far.
pub struct Run<'e> {
    engine: &'e Engine,
    budget: Budget,
    lookups: Budget,
    cuts: Mutex<HashMap<Name, Cut>>,
    habits: Habits,
    flights: Flights,
    commons: Option<Arc<Commons>>,
}

type Future<'a, T> = Pin<Box<dyn std::future::Future<Output = T> + Send + 'a>>;

impl<'e> Run<'e> {
    /// With the budget of one run.
    pub fn new(engine: &'e Engine) -> Self {
        Self::with_budget(engine, MAX_QUESTIONS)
    }

    /// With another budget.
    pub fn with_budget(engine: &'e Engine, questions: usize) -> Self {
        let root = Cut::root(engine);
        Self {
            engine,
            budget: Budget::new(questions),
            lookups: Budget::new(questions / QUESTIONS_PER_LOOKED_UP_SERVER),
            cuts: Mutex::new(HashMap::from([(root.zone.clone(), root)])),
            habits: Habits::new(SILENT_AFTER),
            flights: Flights::default(),
            commons: None,
        }
    }

    /// One of many runs, which know what is everybody's from each other.
    pub fn sharing(engine: &'e Engine, questions: usize, commons: Arc<Commons>) -> Self {
        Self { commons: Some(commons), ..Self::with_budget(engine, questions) }
    }

    /// What is known from other runs.
    pub(crate) fn commons(&self) -> Option<&Arc<Commons>> {
        self.commons.as_ref()
    }

    /// The engine that asks.
    pub fn engine(&self) -> &'e Engine {
        self.engine
    }

    /// The budget that is shared.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Finds the answer to a question.
    pub async fn resolve(&self, question: &Question, thoroughness: Thoroughness) -> Resolution {
        self.resolve_at(question.clone(), thoroughness, Errand::default()).await
    }

    /// The deepest cut found so far at or above a name.
    pub fn deepest_cut(&self, name: &Name) -> Cut {
        let cuts = self.cuts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ancestor = name.to_lowercase();
        loop {
            if let Some(cut) = cuts.get(&ancestor) {
                // The root is there from the start; what others have learnt is further down.
                return cut.clone();
            }
            if let Some(cut) = self.commons.as_ref().and_then(|commons| commons.cut(&ancestor)) {
                return Cut::clone(&cut);
            }
            if ancestor.is_root() {
                return Cut::root(self.engine);
            }
            ancestor = ancestor.base_name();
        }
    }

    /// The cut of exactly this zone, if the run has passed it.
    pub fn known_cut(&self, zone: &Name) -> Option<Cut> {
        self.cuts.lock().unwrap_or_else(PoisonError::into_inner).get(&zone.to_lowercase()).cloned()
    }

    /// Goes on as if a zone were delegated like this.
    pub(crate) fn pretend(&self, cut: Cut) {
        self.cuts.lock().unwrap_or_else(PoisonError::into_inner).insert(cut.zone.clone(), cut);
    }

    fn resolve_at<'a>(
        &'a self,
        question: Question,
        thoroughness: Thoroughness,
        errand: Errand,
    ) -> Future<'a, Resolution> {
        Box::pin(async move {
            let mut resolution = Resolution {
                question: question.clone(),
                steps: Vec::new(),
                aliases: Vec::new(),
                outcome: Outcome::NoData,
                records: Vec::new(),
                questions: 0,
            };
            let outcome = self.follow(question, thoroughness, &errand, &mut resolution).await;
            resolution.outcome = outcome.unwrap_or_else(|reason| Outcome::Broken { reason });
            resolution.questions = self.budget.asked();
            resolution
        })
    }

    /// Follows referrals and aliases to the end.
    async fn follow(
        &self,
        mut question: Question,
        thoroughness: Thoroughness,
        errand: &Errand,
        resolution: &mut Resolution,
    ) -> Result<Outcome, Broken> {
        if errand.depth > MAX_DEPTH {
            return Err(Broken::TooDeep);
        }
        loop {
            let mut cut = self.start(&question);
            let (says, records) = loop {
                if resolution.steps.len() >= MAX_CUTS {
                    return Err(Broken::TooManyCuts);
                }
                let zone = cut.zone.clone();
                self.prepare(&mut cut, thoroughness, errand).await;
                // Lookups that go the same way go it together; who asks every server asks for himself.
                let mut turn = match thoroughness {
                    Thoroughness::FirstAnswer => self.flights.turn(&zone, &question.name).await,
                    Thoroughness::EveryServer => None,
                };
                if turn.is_some() {
                    let known = self.start(&question);
                    if known.zone != zone && zone.zone_of(&known.zone) {
                        cut = known;
                        continue;
                    }
                }
                turn = turn.filter(|way| **way == Way::Unknown);
                let step = self.ask_servers(cut, &question, thoroughness).await;
                if let Some(way) = &mut turn {
                    **way = Way::Asked;
                }
                let chosen = step.chosen_reply().cloned();
                let no_addresses = step.replies.is_empty();
                resolution.steps.push(step);
                let Some(reply) = chosen else {
                    let zone = show_name(&zone);
                    return Err(match (self.budget.is_spent(), no_addresses) {
                        (true, _) => Broken::BudgetSpent,
                        (false, true) => Broken::NoAddresses { zone },
                        (false, false) => Broken::NoUsableServer { zone },
                    });
                };
                match (&reply.says, reply.exchange.answer()) {
                    (Says::Referral(to), Some(answer)) => {
                        cut = Cut::from_referral(answer, &zone, to);
                        self.remember(&cut);
                        self.share(&cut);
                    }
                    (_, Some(answer)) => {
                        let asked = answer.rrset(Section::Answer, &question.name, question.rtype);
                        break (reply.says.clone(), asked.cloned().collect::<Vec<Record>>());
                    }
                    (_, None) => return Err(Broken::NoUsableServer { zone: show_name(&zone) }),
                }
            };
            match says {
                Says::Alias(mut alias) => {
                    alias.zone = resolution.steps.last().map_or_else(Name::root, |step| step.cut.zone.clone());
                    let target = alias.target.clone();
                    let seen = target == resolution.question.name
                        || resolution.aliases.iter().any(|earlier| earlier.target == target);
                    resolution.aliases.push(*alias);
                    if seen {
                        return Err(Broken::AliasLoop { name: show_name(&target) });
                    }
                    if resolution.aliases.len() >= MAX_ALIASES {
                        return Err(Broken::TooManyAliases);
                    }
                    question = Question::new(target, question.rtype);
                }
                Says::AliasTooLong(owner) => return Err(Broken::NameTooLong { name: show_name(&owner) }),
                Says::NxDomain => return Ok(Outcome::NxDomain),
                Says::NoData => return Ok(Outcome::NoData),
                _ => {
                    resolution.records = records;
                    return Ok(Outcome::Found);
                }
            }
        }
    }

    /// Where to start: at the deepest known cut; for DS above the name itself, because the parent has it.
    fn start(&self, question: &Question) -> Cut {
        let parent_side = question.rtype == RecordType::DS && !question.name.is_root();
        self.deepest_cut(&if parent_side { question.name.base_name() } else { question.name.clone() })
    }

    pub(super) fn remember(&self, cut: &Cut) {
        self.cuts.lock().unwrap_or_else(PoisonError::into_inner).insert(cut.zone.clone(), cut.clone());
    }

    /// Lets other runs know a registry's delegation.
    pub(super) fn share(&self, cut: &Cut) {
        if let Some(commons) = &self.commons {
            commons.keep_cut(cut);
        }
    }

    /// Asks the servers of a cut.
    pub(super) async fn step(
        &self,
        mut cut: Cut,
        question: &Question,
        thoroughness: Thoroughness,
        errand: &Errand,
    ) -> Step {
        self.prepare(&mut cut, thoroughness, errand).await;
        self.ask_servers(cut, question, thoroughness).await
    }

    /// Finds the addresses of the servers of a cut.
    async fn prepare(&self, cut: &mut Cut, thoroughness: Thoroughness, errand: &Errand) {
        if self.look_up_servers(cut, thoroughness, errand).await {
            self.remember(cut);
            self.share(cut);
        }
    }

    async fn ask_servers(&self, cut: Cut, question: &Question, thoroughness: Thoroughness) -> Step {
        let ask = Ask::authoritative(question.clone());
        let servers: Vec<(Name, IpAddr)> = cut.addresses().map(|(name, address)| (name.clone(), address)).collect();
        let replies = match thoroughness {
            Thoroughness::EveryServer => self.ask_all(&cut.zone, servers, &ask).await,
            Thoroughness::FirstAnswer => self.ask_until_usable(&cut.zone, servers, &ask).await,
        };
        let groups = groups(&replies);
        let chosen = groups.first().and_then(|group| group.first()).copied();
        Step { cut, question: question.clone(), replies, chosen, groups }
    }

    /// Asks all servers at once.
    pub(crate) async fn ask_all(&self, zone: &Name, servers: Vec<(Name, IpAddr)>, ask: &Ask) -> Vec<Reply> {
        let asked = servers.into_iter().map(|(server, address)| {
            let turn = self.turn(address);
            self.ask_one(zone, server, address, turn, ask)
        });
        futures::future::join_all(asked).await
    }

    /// When a server may be asked.
    fn turn(&self, address: IpAddr) -> Option<Instant> {
        match self.commons.as_ref().and_then(|commons| commons.pace()) {
            Some(pace) => Some(pace.take(address)),
            None => self.engine.turn(address),
        }
    }

    async fn ask_one(&self, zone: &Name, server: Name, address: IpAddr, turn: Option<Instant>, ask: &Ask) -> Reply {
        let habits = self.commons.as_ref().map_or(&self.habits, |commons| commons.habits());
        if let Some(turn) = turn {
            tokio::time::sleep_until(turn).await;
        }
        let exchange = match habits.of(address) {
            Habit::None => self.engine.ask(&self.budget, address, ask).await,
            Habit::Silent => self.engine.ask_within(&self.budget, address, ask, PATIENCE_WITH_THE_SILENT).await,
            Habit::DropsEdns => {
                let mut exchange = self.engine.ask(&self.budget, address, &ask.without_edns()).await;
                if ask.edns.is_some() && exchange.answer().is_some() {
                    exchange.remarks.push(Remark::EdnsDropped);
                }
                exchange
            }
        };
        habits.learn(&exchange);
        let says = classify(&exchange, zone, &ask.question);
        Reply { server, says, exchange }
    }

    /// Asks a few, and more when they fail or take their time.
    async fn ask_until_usable(&self, zone: &Name, mut servers: Vec<(Name, IpAddr)>, ask: &Ask) -> Vec<Reply> {
        servers.shuffle(&mut rand::rng());
        // IPv4 last, because it is taken first: IPv6 is missing in more places.
        servers.sort_by_key(|(_, address)| address.is_ipv4());
        let mut replies = Vec::new();
        let mut asked = FuturesUnordered::new();
        let few = self.commons.as_ref().map_or(FEW, |commons| commons.at_once());
        loop {
            // Waiting for a turn is not the server's fault: asking another one meanwhile would take turns for nothing.
            let mut sent = Instant::now();
            for _ in 0..few {
                if let Some((server, address)) = servers.pop() {
                    let turn = self.turn(address);
                    sent = turn.map_or(sent, |turn| sent.max(turn));
                    asked.push(self.ask_one(zone, server, address, turn, ask));
                }
            }
            if asked.is_empty() {
                return replies;
            }
            let impatience = tokio::time::sleep_until(sent + IMPATIENCE);
            tokio::pin!(impatience);
            loop {
                tokio::select! {
                    reply = asked.next() => match reply {
                        Some(reply) if reply.says.is_usable() => {
                            replies.push(reply);
                            return replies;
                        }
                        Some(reply) => replies.push(reply),
                        None => break,
                    },
                    () = &mut impatience, if !servers.is_empty() => break,
                }
            }
        }
    }

    /// Finds addresses for the servers that came without; says whether there were any.
    pub(super) async fn look_up_servers(&self, cut: &mut Cut, thoroughness: Thoroughness, errand: &Errand) -> bool {
        let has_glue = cut.servers.iter().any(|server| !server.addresses.is_empty());
        if has_glue && thoroughness == Thoroughness::FirstAnswer {
            return false;
        }
        let zone = cut.zone.clone();
        // A server inside the zone that it serves cannot be found without glue.
        let wanted = cut.servers.iter_mut().filter(|server| server.addresses.is_empty() && !zone.zone_of(&server.name));
        let allowed = wanted.take(MAX_LOOKED_UP_SERVERS).take_while(|_| self.lookups.take());
        let lookups = allowed.map(|server| async move {
            server.addresses = self.addresses(&server.name, errand).await;
            server.source = AddressSource::Lookup;
        });
        !futures::future::join_all(lookups).await.is_empty()
    }

    /// The addresses of a host that an errand needs.
    async fn addresses(&self, host: &Name, errand: &Errand) -> Vec<IpAddr> {
        let depth = errand.depth + 1;
        let Some(commons) = &self.commons else { return self.addresses_once(host, errand).await };
        if let Some(known) = commons.addresses(host) {
            return known.to_vec();
        }
        // Further down nobody takes turns: names that depend on each other would wait for each other.
        let _turn = if depth == 1 { Some(commons.turn(host).await) } else { None };
        if let Some(known) = commons.addresses(host) {
            return known.to_vec();
        }
        let (addresses, ttl) = self.look_up(host, Errand { depth, host: None }).await;
        if !self.budget.is_spent() {
            commons.keep_addresses(host, &addresses, ttl);
        }
        addresses
    }

    /// The same for a run that knows nothing from others: what several errands need is looked up once.
    async fn addresses_once(&self, host: &Name, errand: &Errand) -> Vec<IpAddr> {
        let depth = errand.depth + 1;
        let Some(flight) = self.flights.host(host, errand) else {
            return self.look_up(host, Errand { depth, host: errand.host.clone() }).await.0;
        };
        let mut known = flight.cell.lock().await;
        if let Some(known) = known.as_ref().filter(|known| known.settles(depth)) {
            return known.addresses.clone();
        }
        let (addresses, _) = self.look_up(host, Errand { depth, host: Some(host.clone()) }).await;
        if !self.budget.is_spent() {
            *known = Some(Known { addresses: addresses.clone(), depth });
        }
        addresses
    }

    /// Looks a host up, with the shortest time to live.
    async fn look_up(&self, host: &Name, errand: Errand) -> (Vec<IpAddr>, u32) {
        let ask =
            |rtype| self.resolve_at(Question::new(host.clone(), rtype), Thoroughness::FirstAnswer, errand.clone());
        let (v4, v6) = futures::future::join(ask(RecordType::A), ask(RecordType::AAAA)).await;
        let records = || v4.records.iter().chain(&v6.records);
        let addresses = records().filter_map(|record| match &record.data {
            RData::A(a) => Some(IpAddr::V4(a.0)),
            RData::AAAA(aaaa) => Some(IpAddr::V6(aaaa.0)),
            _ => None,
        });
        (addresses.collect(), records().map(|record| record.ttl).min().unwrap_or(0))
    }

    /// Whether the name of a nameserver is an alias, and who says so.
    pub(crate) async fn alias_of(&self, host: &Name) -> Option<Arc<Evidence>> {
        // As for addresses: one turn at a time, and none further down.
        let mut _turn = None;
        if let Some(commons) = &self.commons {
            if let Some(known) = commons.alias(host) {
                return known;
            }
            _turn = Some(commons.turn(host).await);
            if let Some(known) = commons.alias(host) {
                return known;
            }
        }
        let question = Question::new(host.clone(), RecordType::A);
        let errand = Errand { depth: 1, host: None };
        let resolution = self.resolve_at(question, Thoroughness::FirstAnswer, errand).await;
        let alias = resolution.alias_reply().map(Evidence::of_reply).map(Arc::new);
        // What could not be found out is asked again.
        if let Some(commons) = self.commons.as_ref().filter(|_| !matches!(resolution.outcome, Outcome::Broken { .. })) {
            commons.keep_alias(host, alias.clone());
        }
        alias
    }

    /// The addresses of a host, whatever other runs know.
    pub(crate) async fn addresses_now(&self, host: &Name) -> Vec<IpAddr> {
        self.look_up(host, Errand { depth: 1, host: None }).await.0
    }

    /// The addresses of a host, from the outside.
    pub async fn addresses_of(&self, host: &Name) -> Vec<IpAddr> {
        self.addresses(host, &Errand::default()).await
    }
}

/// Usable replies grouped by what they say, the largest group first.
fn groups(replies: &[Reply]) -> Vec<Vec<usize>> {
    if let [only] = replies {
        return if only.says.is_usable() { vec![vec![0]] } else { Vec::new() };
    }
    let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
    for (index, reply) in replies.iter().enumerate().filter(|(_, reply)| reply.says.is_usable()) {
        let key = gist(reply);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, members)) => members.push(index),
            None => groups.push((key, vec![index])),
        }
    }
    let mut groups: Vec<Vec<usize>> = groups.into_iter().map(|(_, members)| members).collect();
    // Stable: of equally large groups the one of the first server wins.
    groups.sort_by_key(|members| std::cmp::Reverse(members.len()));
    groups
}

/// What a reply says, without what may differ between honest servers (times to live, order, signatures).
fn gist(reply: &Reply) -> String {
    let mut lines: Vec<String> = Vec::new();
    let section = match &reply.says {
        Says::Referral(_) => Section::Authority,
        _ => Section::Answer,
    };
    if let Some(answer) = reply.exchange.answer()
        && !matches!(reply.says, Says::NoData | Says::NxDomain)
    {
        let records = answer.section(section).iter();
        let wanted = records.filter(|record| {
            let rtype = record.record_type();
            rtype == reply.exchange.ask.question.rtype
                || matches!(rtype, RecordType::NS | RecordType::CNAME | RecordType::DNAME)
        });
        lines.extend(wanted.map(|record| format!("{} {}", show_name(&record.name), rdata_text(record))));
    }
    lines.sort();
    let kind = match &reply.says {
        Says::Referral(zone) => format!("referral {}", show_name(zone)),
        Says::Answer => "answer".to_owned(),
        Says::Alias(alias) => format!("alias {}", show_name(&alias.target)),
        Says::AliasTooLong(_) => "alias too long".to_owned(),
        Says::NoData => "no data".to_owned(),
        Says::NxDomain => "no such name".to_owned(),
        Says::Lame(_) | Says::Silent => "unusable".to_owned(),
    };
    format!("{kind}\n{}", lines.join("\n"))
}
