//! [`Authorities`] and [`Hosts`] on the engine: the way to a zone is asked of whoever answers first, the zone itself of every
//! server. Each survey is a run of its own, so that nothing is remembered between two looks; those that are made again and
//! again (of a watch, and for whoever waits for a proof) share what they know of registries and nameservers.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use futures::future::BoxFuture;

use super::{
    Authorities, Record, RecordKind, RecordValue, Said, Security, ServerAnswer, Soa, Survey, Witness, Witnessed,
    WrongGlue,
};
use crate::dial::Hosts;
use crate::dnssec;
use crate::engine::{Engine, MAX_QUESTIONS};
use crate::evidence::{Evidence, sha256};
use crate::name::DomainName;
use crate::recursive::{self, Via};
use crate::resolve::{AddressSource, Commons, Cut, Pace, Reply, Resolution, Run, Says, Step, Thoroughness};
use crate::seams::{Clock, Net, Roots, VantagePoint};
use crate::transport::{TlsTrust, TransportOptions};
use crate::verdict::judge;
use crate::wire::{Name, Question, RData, RecordType, Section, parse_name, rdata_text, show_name};

/// Questions of one look of a watch: two for each address of up to thirteen servers, and those about their names.
const GLANCE_QUESTIONS_MAX: usize = 120;

/// What a resolver answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedAnswer {
    pub resolver: String,
    /// Empty for "does not exist".
    pub values: Vec<RecordValue>,
    pub ttl_left: u32,
}

/// Asks with one engine for each vantage point.
pub struct Surveyor {
    engines: HashMap<String, Engine>,
    /// What looks of a watch know from each other, for each place.
    watched: HashMap<String, Arc<Commons>>,
    /// The same for looks that somebody waits for.
    awaited: HashMap<String, Arc<Commons>>,
    /// The place that is asked from when no other is named.
    first: String,
}

impl Surveyor {
    /// Over `net`, from the vantage points of `roots`.
    pub fn new(net: &Net, clock: &Arc<dyn Clock>, roots: &Arc<Roots>) -> Self {
        let places = roots.vantage_points();
        let first = places.first().map(|place| place.name.clone()).unwrap_or_default();
        // One for all places: to a server they are all ours.
        let pace = Arc::new(Pace::of_awaited());
        let engine = |from: VantagePoint| {
            let trust = roots.ca_file.clone().map_or(TlsTrust::System, TlsTrust::File);
            let options = TransportOptions { trust, ..TransportOptions::default() };
            let engine = Engine::new(net.seen_from(from.clone()), clock.clone(), roots.clone(), options);
            (from.name, engine.paced(pace.clone()))
        };
        let each = |commons: fn() -> Commons| -> HashMap<String, Arc<Commons>> {
            places.iter().map(|place| (place.name.clone(), Arc::new(commons()))).collect()
        };
        let (watched, awaited) = (each(Commons::of_watch), each(Commons::of_awaited));
        Self { engines: places.into_iter().map(engine).collect(), watched, awaited, first }
    }

    /// The engine of a vantage point.
    pub fn engine(&self, vantage_point: &str) -> Option<&Engine> {
        self.engines.get(vantage_point)
    }

    /// The engines of all vantage points, the first one first.
    pub fn engines(&self) -> Vec<&Engine> {
        let mut engines: Vec<(&String, &Engine)> = self.engines.iter().collect();
        engines.sort_by_key(|(name, _)| (**name != self.first, (*name).clone()));
        engines.into_iter().map(|(_, engine)| engine).collect()
    }

    /// Questions asked of servers so far.
    pub fn questions_asked(&self) -> u64 {
        self.engines.values().map(|engine| engine.transport().questions_asked()).sum()
    }

    /// The engine of the first vantage point.
    pub fn first_engine(&self) -> Option<&Engine> {
        self.engines.get(&self.first)
    }

    /// What public resolvers answer to a question, from the first vantage point: the values that they have, none for
    /// "does not exist", and how long they will have them. Who does not answer is left out.
    pub async fn caches(&self, name: &DomainName, kind: RecordKind) -> Vec<CachedAnswer> {
        let (Some(engine), Ok(owner)) = (self.first_engine(), parse_name(name.as_str())) else { return Vec::new() };
        let question = Question::new(owner.clone(), record_type(kind));
        let resolvers = engine.roots().resolvers.clone();
        let asked = resolvers.iter().map(|resolver| recursive::ask(engine, resolver, &question, Via::Udp));
        let exchanges = futures::future::join_all(asked).await;
        let answers = resolvers.iter().zip(&exchanges).filter_map(|(resolver, exchange)| {
            let answer = exchange.answer()?;
            let here = answer.section(Section::Answer).iter().filter(|found| found.name == owner);
            let records: Vec<Record> = here.filter_map(record).filter(|found| found.kind == kind).collect();
            let negative = answer.negative_soa().map(|(soa, _)| soa.ttl);
            let ttl_left = records.iter().map(|found| found.ttl).min().or(negative)?;
            let values = records.into_iter().map(|found| found.value).collect();
            Some(CachedAnswer { resolver: resolver.name.clone(), values, ttl_left })
        });
        answers.collect()
    }

    async fn ask(&self, from: &VantagePoint, name: &DomainName, kind: RecordKind) -> Result<Survey, String> {
        let engine = self.engine(&from.name).ok_or_else(|| no_place(from))?;
        Ok(survey_in(&Run::new(engine), from, name, kind, None).await?.0.survey)
    }

    /// A run that knows from others what is everybody's.
    fn awaited(&self, from: &VantagePoint, questions: usize) -> Result<Run<'_>, String> {
        let known = self.engine(&from.name).zip(self.awaited.get(&from.name));
        let (engine, commons) = known.ok_or_else(|| no_place(from))?;
        Ok(Run::sharing(engine, questions, commons.clone()))
    }

    /// The nameservers of a domain with everything that shows how they do.
    async fn look_closely(&self, from: &VantagePoint, domain: &DomainName) -> Result<Witnessed, String> {
        let run = self.awaited(from, MAX_QUESTIONS)?;
        let (mut witnessed, _) = survey_in(&run, from, domain, RecordKind::Ns, None).await?;
        let names = witnessed.survey.nameservers.clone();
        let lookups = names.into_iter().take(ALIASES_LOOKED_FOR).map(|name| {
            let run = &run;
            async move {
                let alias = run.alias_of(&parse_name(name.as_str()).ok()?).await?;
                Some((name, Evidence::clone(&alias)))
            }
        });
        witnessed.witness.aliases = futures::future::join_all(lookups).await.into_iter().flatten().collect();
        Ok(witnessed)
    }

    /// Several surveys in one look: the way to a zone is asked once for all questions about it.
    pub async fn survey_all(
        &self,
        from: &VantagePoint,
        questions: &[(DomainName, RecordKind)],
    ) -> Vec<Result<Survey, String>> {
        match self.engine(&from.name) {
            Some(engine) => survey_all_in(&Run::with_budget(engine, budget(questions)), from, questions).await,
            None => vec![Err(no_place(from)); questions.len()],
        }
    }
}

fn no_place(from: &VantagePoint) -> String {
    format!("there is no vantage point {}", from.name)
}

/// Questions that surveys in one look may ask.
fn budget(surveys: &[(DomainName, RecordKind)]) -> usize {
    MAX_QUESTIONS + surveys.len() * SURVEY_QUESTIONS
}

async fn survey_all_in(
    run: &Run<'_>,
    from: &VantagePoint,
    questions: &[(DomainName, RecordKind)],
) -> Vec<Result<Survey, String>> {
    let Some(((name, kind), others)) = questions.split_first() else { return Vec::new() };
    // The first finds the way; the others go it together.
    let (first, start) = match survey_in(run, from, name, *kind, None).await {
        Ok((witnessed, start)) => (Ok(witnessed.survey), Some(start)),
        Err(reason) => (Err(reason), None),
    };
    let others = others.iter().map(|(name, kind)| survey_in(run, from, name, *kind, start.as_ref()));
    let others = futures::future::join_all(others).await.into_iter();
    std::iter::once(first).chain(others.map(|one| one.map(|(witnessed, _)| witnessed.survey))).collect()
}

/// Nameservers of a domain that may turn out to be aliases; a zone has no more.
const ALIASES_LOOKED_FOR: usize = 13;

/// What one survey adds to a look whose way is known: the zone's servers, its version and its keys.
const SURVEY_QUESTIONS: usize = 50;

/// The start of authority of a zone, as it was found on the way to a survey.
struct Start {
    zone: Name,
    soa: Resolution,
}

/// Asks every server of the zone that a name is in. `known` is what an earlier survey of the same run found.
async fn survey_in(
    run: &Run<'_>,
    from: &VantagePoint,
    name: &DomainName,
    kind: RecordKind,
    known: Option<&Start>,
) -> Result<(Witnessed, Start), String> {
    let owner = parse_name(name.as_str()).map_err(|error| error.to_string())?;
    // A way that was gone before need not be asked for; where it goes on, the question itself is referred there.
    let way = match known.filter(|known| known.zone == run.deepest_cut(&owner).zone) {
        Some(_) => None,
        None => Some(run.resolve(&Question::new(owner.clone(), RecordType::SOA), Thoroughness::FirstAnswer).await),
    };
    if let Some(way) = way.as_ref().filter(|_| run.deepest_cut(&owner).zone.is_root()) {
        return Err(no_way(way));
    }
    let question = Question::new(owner.clone(), record_type(kind));
    let resolution = run.resolve(&question, Thoroughness::EveryServer).await;
    let cut = run.deepest_cut(&owner);
    let zone = DomainName::parse(&show_name(&cut.zone)).map_err(|error| error.to_string())?;
    let start = Question::new(cut.zone.clone(), RecordType::SOA);
    let soa = match (known.filter(|known| known.zone == cut.zone), &way) {
        // Whoever looks at the nameservers wants to know which version each has.
        _ if kind == RecordKind::Ns => run.resolve(&start, Thoroughness::EveryServer).await,
        (Some(known), _) => known.soa.clone(),
        // The way to the zone ended with its own.
        (None, Some(way)) if cut.zone == owner => way.clone(),
        (None, _) => run.resolve(&start, Thoroughness::FirstAnswer).await,
    };
    let validation = dnssec::validate(run, &resolution).await;
    let step = resolution.steps.iter().rev().find(|step| step.question.name == owner);
    let serials = soa.last().map(serials).unwrap_or_default();
    let answers =
        step.map(|step| step.replies.iter().filter_map(|reply| answer(reply, &owner, kind, &serials)).collect());
    let mut witness = Witness::default();
    if kind == RecordKind::Ns {
        let refers = |step: &&Step| {
            step.chosen_reply().is_some_and(|reply| matches!(&reply.says, Says::Referral(to) if *to == cut.zone))
        };
        let parent = way.iter().flat_map(|way| &way.steps).find(refers).and_then(Step::chosen_reply);
        witness.parent = parent.map(Evidence::of_reply);
        witness.servers = step.iter().flat_map(|step| &step.replies).map(Evidence::of_reply).collect();
        witness.versions = soa.last().iter().flat_map(|step| &step.replies).map(Evidence::of_reply).collect();
    }
    let survey = Survey {
        vantage_point: from.name.clone(),
        name: name.clone(),
        kind,
        soa: start_of_authority(&soa, &zone),
        zone,
        nameservers: nameservers(&cut),
        delegation_ttl: cut.ns_ttl,
        delegation_signers: delegation_signers(&cut),
        security: security(validation.status),
        answers: answers.unwrap_or_default(),
        wrong_glue: if kind == RecordKind::Ns { wrong_glue(run, &cut).await } else { Vec::new() },
    };
    Ok((Witnessed { survey, witness }, Start { zone: cut.zone, soa }))
}

impl Surveyor {
    /// One look of a watch: the parent is asked once, each server of the domain for its version and its list.
    async fn glance(&self, from: &VantagePoint, domain: &DomainName) -> Result<Survey, String> {
        let known = self.engine(&from.name).zip(self.watched.get(&from.name));
        let (engine, commons) = known.ok_or_else(|| no_place(from))?;
        let owner = parse_name(domain.as_str()).map_err(|error| error.to_string())?;
        let run = Run::sharing(engine, GLANCE_QUESTIONS_MAX, commons.clone());
        let cut = run.delegation(&owner).await.map_err(|reason| reason.to_string())?;
        let mut survey = Survey {
            vantage_point: from.name.clone(),
            name: domain.clone(),
            kind: RecordKind::Ns,
            zone: domain.clone(),
            nameservers: Vec::new(),
            delegation_ttl: None,
            delegation_signers: None,
            soa: None,
            security: Security::Indeterminate,
            answers: Vec::new(),
            wrong_glue: Vec::new(),
        };
        let Some(cut) = cut else {
            let above = run.deepest_cut(&owner).zone;
            survey.zone = DomainName::parse(&show_name(&above)).map_err(|error| error.to_string())?;
            return Ok(survey);
        };
        survey.nameservers = nameservers(&cut);
        survey.delegation_ttl = cut.ns_ttl;
        survey.delegation_signers = delegation_signers(&cut);
        // Who is silent is not asked a second question, who is lame is.
        let soa = run.ask_zone(&cut, RecordType::SOA).await;
        let ns = run.ask_zone(&soa.answering(), RecordType::NS).await;
        let serials = serials(&soa);
        survey.answers =
            ns.replies.iter().filter_map(|reply| answer(reply, &owner, RecordKind::Ns, &serials)).collect();
        let silent = soa.replies.iter().filter(|reply| reply.failure().is_some());
        survey.answers.extend(silent.filter_map(|reply| answer(reply, &owner, RecordKind::Ns, &serials)));
        let resolution = Resolution::of_step(ns, run.budget().asked());
        survey.security = security(dnssec::validate(&run, &resolution).await.status);
        survey.soa = start_of_authority(&Resolution::of_step(soa, 0), domain);
        survey.wrong_glue = wrong_glue(&run, &cut).await;
        Ok(survey)
    }
}

/// Compares the addresses that the parent sent along for servers inside the zone with those of the zone.
async fn wrong_glue(run: &Run<'_>, cut: &Cut) -> Vec<WrongGlue> {
    let glued = cut.servers.iter().filter(|server| {
        server.source == AddressSource::Glue && !server.addresses.is_empty() && cut.zone.zone_of(&server.name)
    });
    let mut wrong = Vec::new();
    for server in glued {
        let zone = run.addresses_now(&server.name).await;
        let stray = server.addresses.iter().any(|address| !zone.contains(address));
        if let (false, true, Ok(name)) = (zone.is_empty(), stray, DomainName::parse(&show_name(&server.name))) {
            wrong.push(WrongGlue { server: name, parent: server.addresses.clone(), zone });
        }
    }
    wrong
}

/// The nameservers of a cut, sorted.
fn nameservers(cut: &Cut) -> Vec<DomainName> {
    let mut names: Vec<DomainName> =
        cut.servers.iter().filter_map(|server| DomainName::parse(&show_name(&server.name)).ok()).collect();
    names.sort();
    names
}

/// The version of the zone that each server has.
fn serials(step: &Step) -> HashMap<IpAddr, u32> {
    let serial = |reply: &Reply| {
        let answer = reply.exchange.answer().filter(|_| reply.says == Says::Answer)?;
        let mut records = answer.rrset(Section::Answer, &step.question.name, RecordType::SOA);
        let serial =
            records.find_map(|record| if let RData::SOA(soa) = &record.data { Some(soa.serial) } else { None });
        Some((reply.exchange.server.ip(), serial?))
    };
    step.replies.iter().filter_map(serial).collect()
}

/// The DS records of a referral. A signed parent sends them or the proof that there are none; without either nothing is known.
fn delegation_signers(cut: &Cut) -> Option<Vec<String>> {
    if cut.security.is_empty() {
        return None;
    }
    let of_zone = cut.security.iter().filter(|found| found.record_type() == RecordType::DS && found.name == cut.zone);
    let mut signers: Vec<String> = of_zone.map(rdata_text).collect();
    signers.sort();
    Some(signers)
}

/// Why no zone was found.
fn no_way(way: &Resolution) -> String {
    match &way.outcome {
        crate::resolve::Outcome::Broken { reason } => reason.to_string(),
        _ => "the top-level domain does not exist".to_owned(),
    }
}

fn security(status: dnssec::Status) -> Security {
    match status {
        dnssec::Status::Secure => Security::Secure,
        dnssec::Status::Insecure => Security::Insecure,
        dnssec::Status::Indeterminate => Security::Indeterminate,
        dnssec::Status::Bogus => Security::Bogus,
    }
}

fn record_type(kind: RecordKind) -> RecordType {
    match kind {
        RecordKind::A => RecordType::A,
        RecordKind::Aaaa => RecordType::AAAA,
        RecordKind::Caa => RecordType::CAA,
        RecordKind::Cname => RecordType::CNAME,
        RecordKind::Mx => RecordType::MX,
        RecordKind::Ns => RecordType::NS,
        RecordKind::Soa => RecordType::SOA,
        RecordKind::Txt => RecordType::TXT,
    }
}

fn kind_of(rtype: RecordType) -> Option<RecordKind> {
    match rtype {
        RecordType::A => Some(RecordKind::A),
        RecordType::AAAA => Some(RecordKind::Aaaa),
        RecordType::CAA => Some(RecordKind::Caa),
        RecordType::CNAME => Some(RecordKind::Cname),
        RecordType::MX => Some(RecordKind::Mx),
        RecordType::NS => Some(RecordKind::Ns),
        RecordType::SOA => Some(RecordKind::Soa),
        RecordType::TXT => Some(RecordKind::Txt),
        _ => None,
    }
}

fn answer(reply: &Reply, owner: &Name, kind: RecordKind, serials: &HashMap<IpAddr, u32>) -> Option<ServerAnswer> {
    let server = DomainName::parse(&show_name(&reply.server)).ok()?;
    let verdict = || judge(reply).first().map_or_else(|| "no answer".to_owned(), ToString::to_string);
    let said = match (&reply.says, reply.exchange.answer()) {
        (Says::Answer | Says::Alias(_), Some(answer)) => {
            let mine = answer.section(Section::Answer).iter().filter(|record| record.name == *owner);
            let wanted = mine.filter(|record| {
                let found = kind_of(record.record_type());
                found == Some(kind) || found == Some(RecordKind::Cname)
            });
            let records: Vec<Record> = wanted.filter_map(record).collect();
            // A DNAME above the name is an alias without a record at it.
            if records.is_empty() { Said::NoData } else { Said::Records(records) }
        }
        (Says::NoData, _) => Said::NoData,
        (Says::NxDomain, _) => Said::NoSuchName,
        _ => Said::Nothing(verdict()),
    };
    let packet_sha256 = reply.exchange.answer().map(|answer| sha256(answer.wire()));
    let address = reply.exchange.server.ip();
    Some(ServerAnswer { server, address, said, serial: serials.get(&address).copied(), packet_sha256 })
}

fn record(found: &crate::wire::Record) -> Option<Record> {
    let kind = kind_of(found.record_type())?;
    let value = match &found.data {
        RData::A(a) => RecordValue::Address(IpAddr::V4(a.0)),
        RData::AAAA(aaaa) => RecordValue::Address(IpAddr::V6(aaaa.0)),
        RData::CNAME(name) => name_value(&name.0)?,
        RData::NS(name) => name_value(&name.0)?,
        RData::TXT(text) => {
            RecordValue::Text(text.txt_data.iter().map(|string| String::from_utf8_lossy(string).into_owned()).collect())
        }
        _ => RecordValue::Other(rdata_text(found)),
    };
    Some(Record { name: DomainName::parse(&show_name(&found.name)).ok()?, kind, ttl: found.ttl, value })
}

fn name_value(name: &Name) -> Option<RecordValue> {
    DomainName::parse(&show_name(name)).ok().map(RecordValue::Name)
}

fn start_of_authority(resolution: &Resolution, zone: &DomainName) -> Option<Soa> {
    resolution.records.iter().find_map(|record| {
        let RData::SOA(soa) = &record.data else { return None };
        Some(Soa {
            zone: zone.clone(),
            ttl: record.ttl,
            primary: DomainName::parse(&show_name(&soa.mname)).ok()?,
            mailbox: show_name(&soa.rname),
            serial: soa.serial,
            refresh: u32::try_from(soa.refresh).unwrap_or(0),
            retry: u32::try_from(soa.retry).unwrap_or(0),
            expire: u32::try_from(soa.expire).unwrap_or(0),
            minimum: soa.minimum,
        })
    })
}

impl Authorities for Surveyor {
    fn survey<'a>(
        &'a self,
        from: &'a VantagePoint,
        name: &'a DomainName,
        kind: RecordKind,
    ) -> BoxFuture<'a, Result<Survey, String>> {
        Box::pin(self.ask(from, name, kind))
    }

    fn seek<'a>(
        &'a self,
        from: &'a VantagePoint,
        questions: &'a [(DomainName, RecordKind)],
    ) -> BoxFuture<'a, Vec<Result<Survey, String>>> {
        Box::pin(async move {
            match self.awaited(from, budget(questions)) {
                Ok(run) => survey_all_in(&run, from, questions).await,
                Err(reason) => vec![Err(reason); questions.len()],
            }
        })
    }

    fn examine<'a>(
        &'a self,
        from: &'a VantagePoint,
        domain: &'a DomainName,
    ) -> BoxFuture<'a, Result<Witnessed, String>> {
        Box::pin(self.look_closely(from, domain))
    }

    fn watch<'a>(&'a self, from: &'a VantagePoint, domain: &'a DomainName) -> BoxFuture<'a, Result<Survey, String>> {
        Box::pin(self.glance(from, domain))
    }
}

impl Hosts for Surveyor {
    fn addresses<'a>(&'a self, host: &'a str) -> BoxFuture<'a, Result<Vec<IpAddr>, String>> {
        Box::pin(async move {
            let engine = self.first_engine().ok_or("there is no vantage point")?;
            let commons = self.awaited.get(&self.first).ok_or("there is no vantage point")?;
            let name = parse_name(host).map_err(|error| error.to_string())?;
            // A site may have moved a moment ago: its own addresses are nobody else's.
            let mut addresses = Run::sharing(engine, MAX_QUESTIONS, commons.clone()).addresses_now(&name).await;
            // IPv6 is missing in more places than it is preferred in.
            addresses.sort_by_key(|address| !address.is_ipv4());
            Ok(addresses)
        })
    }
}
