//! `dns fqdn`: what a name means from many places, grouped, with every step of its aliases, how near its servers are, and how
//! each record on the way is changed so that nobody notices.

mod changes;
mod reach;
mod text;

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::trace::{AliasReport, alias_reports};
use crate::caa::{self, CertificateRules};
use crate::dnssec::{self, Validation};
use crate::endpoint::places::{self, EndpointReport, Errand, Seen};
use crate::engine::Engine;
use crate::name::DomainName;
use crate::probe::{Absent, NoRemotePlaces, PlaceAnswers, ProbeAnswer, ProbeQuestion, RemotePlaces};
use crate::resolve::{Commons, Cut, Outcome, Resolution, Run, Thoroughness};
use crate::wire::{
    Ask, Question, RData, RecordType, RecordView, Section, parse_name, rdata_text, show_name, type_text,
};

pub(crate) use text::endpoints_table;

pub use changes::{ChangeKind, RecordChange};
pub use reach::{ServerReach, ServerTime, Stands};

/// What one place sees.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlaceReport {
    /// Its name.
    pub place: String,
    /// How the question ended there.
    pub outcome: Outcome,
    /// The records it gets.
    pub records: Vec<RecordView>,
    /// The serials of the zone at the end, as its servers tell them there.
    pub serials: Vec<u32>,
    /// How long each server of the chain's zones took.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<ServerTime>,
    /// How long it took, in milliseconds.
    pub elapsed_ms: f64,
}

/// Places that see the same.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupReport {
    /// What they see.
    pub answer: String,
    /// Their names.
    pub places: Vec<String>,
    /// The versions of the zone that they see.
    pub serials: Vec<u32>,
}

/// The whole analysis of one type.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FqdnReport {
    /// The name.
    pub name: String,
    /// The type.
    #[serde(rename = "type")]
    pub rtype: String,
    /// The aliases on the way, as the first place sees them.
    pub aliases: Vec<AliasReport>,
    /// The shortest time to live on the way: how long a resolver uses the whole answer without asking anybody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<u32>,
    /// When it was looked at.
    pub at: Timestamp,
    /// Each record on the way: when a change of it is seen by everybody, and how to change it.
    pub changes: Vec<RecordChange>,
    /// Places by what they see, the largest group first.
    pub groups: Vec<GroupReport>,
    /// Each place.
    pub places: Vec<PlaceReport>,
    /// The servers of the chain's zones over all places.
    pub nameservers: Vec<ServerReach>,
    /// Places that were not heard, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<Absent>,
    /// How far the answer can be trusted.
    pub dnssec: Validation,
    /// Who may issue certificates for the name, when the addresses were called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_rules: Option<CertificateRules>,
    /// What is behind the addresses, as each place sees it, when that was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub endpoints: Vec<EndpointReport>,
    /// In a sentence or two.
    pub summary: String,
}

/// Whether the services behind the addresses are called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Endpoints {
    /// Ask only the DNS.
    Skip,
    /// Call each address as a browser would.
    #[default]
    Look,
}

impl FqdnReport {
    /// Asks from every place of this machine.
    pub async fn make<E: Borrow<Engine>>(places: &[E], question: &Question, endpoints: Endpoints) -> Option<Self> {
        let places: Vec<&Engine> = places.iter().map(Borrow::borrow).collect();
        let seen = futures::future::join_all(places.iter().map(|engine| look(engine, question))).await;
        let heard = Heard::default();
        let errands = errands(endpoints, [(question, &seen, &heard)]);
        let behind = behind(&places, &NoRemotePlaces, &[], errands).await.into_iter().next().flatten();
        Self::put_together(places.first()?, seen, heard, question, behind).await
    }

    /// Asks for several types, from every place of this machine and from all others.
    pub async fn make_with(
        places: &[&Engine],
        remote: &dyn RemotePlaces,
        name: &DomainName,
        types: &[RecordType],
        endpoints: Endpoints,
    ) -> Result<Vec<Self>, String> {
        let engine = *places.first().ok_or("there is no place to ask from")?;
        let owner = parse_name(name.as_str()).map_err(|error| error.to_string())?;
        let questions: Vec<Question> = types.iter().map(|rtype| Question::new(owner.clone(), *rtype)).collect();
        let probes: Vec<ProbeQuestion> =
            types.iter().map(|rtype| ProbeQuestion::Look { name: name.clone(), record: type_text(*rtype) }).collect();
        let here = questions
            .iter()
            .map(|question| futures::future::join_all(places.iter().map(move |engine| look(engine, question))));
        let (here, there) = futures::future::join(futures::future::join_all(here), remote.ask(&probes)).await;
        let absent = remote.absent();
        let heard: Vec<Heard> = (0..questions.len()).map(|index| Heard::of(&there, index, &absent)).collect();
        let errands =
            errands(endpoints, questions.iter().zip(&here).zip(&heard).map(|((q, seen), heard)| (q, seen, heard)));
        // Whoever did not answer is not waited for again.
        let answered: Vec<String> =
            there.iter().filter(|one| one.answers.is_ok()).map(|one| one.place.clone()).collect();
        let behind = behind(places, remote, &answered, errands).await;
        let made = questions.iter().zip(here).zip(heard).zip(behind);
        let made =
            made.map(|(((question, seen), heard), behind)| Self::put_together(engine, seen, heard, question, behind));
        Ok(futures::future::join_all(made).await.into_iter().flatten().collect())
    }

    async fn put_together(
        engine: &Engine,
        seen: Vec<(Resolution, PlaceReport)>,
        heard: Heard,
        question: &Question,
        behind: Option<Behind>,
    ) -> Option<Self> {
        let (first, _) = seen.first()?;
        let dnssec = dnssec::validate(&Run::new(engine), first).await;
        let ttls = first.records.iter().map(|record| record.ttl).chain(first.aliases.iter().map(|alias| alias.ttl));
        let ttl = ttls.min();
        let at = engine.clock().now();
        let changes = changes::changes(first, at);
        let aliases = alias_reports(first, Some(&dnssec));
        let mut places: Vec<PlaceReport> = seen.iter().map(|(_, place)| place.clone()).collect();
        places.extend(heard.places);
        let groups = groups(&places, question.rtype);
        let certificate_rules = match &behind {
            None => None,
            Some(_) => rules(engine, question).await,
        };
        let host = show_name(&question.name);
        let found = behind.as_ref().map_or(0, |behind| behind.addresses);
        let mut seen_behind = behind.map(|behind| behind.seen).unwrap_or_default();
        if let Some(rules) = &certificate_rules {
            obey(rules, &host, &mut seen_behind);
        }
        let endpoints = places::merge(seen_behind);
        let nameservers = reach::reach(&places);
        let mut summary = summary(&groups, &aliases, first);
        summary.extend(changes::sentence(&changes).map(|told| format!(" {told}")));
        summary.extend(reach::weakest_link(&nameservers, &places).map(|told| format!(" {told}")));
        for endpoint in endpoints.iter().filter(|endpoint| endpoint.differs()) {
            summary.push_str(&format!(" {} is not the same from everywhere: {}.", endpoint.address, endpoint.verdict));
        }
        if (1..found).contains(&endpoints.len()) {
            summary.push_str(&format!(" Of {found} addresses the first {} were called.", endpoints.len()));
        }
        if let Some(rules) = certificate_rules.as_ref().filter(|_| !endpoints.is_empty()) {
            summary.extend(rules.sentence(&host).map(|told| format!(" {told}.")));
        }
        for absent in &heard.absent {
            summary.push_str(&format!(" {} was not heard: {}.", absent.place, absent.reason));
        }
        Some(Self {
            name: host,
            rtype: type_text(question.rtype),
            aliases,
            ttl,
            at,
            changes,
            groups,
            places,
            nameservers,
            absent: heard.absent,
            dnssec,
            certificate_rules,
            endpoints,
            summary,
        })
    }
}

/// What is behind the addresses of a name.
struct Behind {
    /// How many addresses places were given.
    addresses: usize,
    seen: Vec<Seen>,
}

/// Every address that any place was given, for each question; none where nobody is to be called.
fn errands<'a>(
    endpoints: Endpoints,
    asked: impl IntoIterator<Item = (&'a Question, &'a Vec<(Resolution, PlaceReport)>, &'a Heard)>,
) -> Vec<Option<Errand>> {
    let errand = |(question, seen, heard): (&Question, &'a Vec<(Resolution, PlaceReport)>, &'a Heard)| {
        let host = DomainName::parse(&show_name(&question.name)).ok().filter(|_| endpoints == Endpoints::Look)?;
        let places = seen.iter().map(|(_, place)| place).chain(&heard.places);
        let addresses: BTreeSet<IpAddr> = places
            .flat_map(|place| &place.records)
            .filter(|record| matches!(record.rtype.as_str(), "A" | "AAAA"))
            .filter_map(|record| record.data.parse().ok())
            .collect();
        Some(Errand { host, addresses: addresses.into_iter().collect() })
    };
    asked.into_iter().map(errand).collect()
}

/// Has every place call.
async fn behind(
    places: &[&Engine],
    remote: &dyn RemotePlaces,
    heard: &[String],
    errands: Vec<Option<Errand>>,
) -> Vec<Option<Behind>> {
    let all: Vec<Errand> = errands.iter().flatten().cloned().collect();
    let mut seen = places::call(places, remote, heard, &all).await.into_iter();
    let found = errands.into_iter().map(|errand| {
        let addresses = errand?.addresses.len();
        Some(Behind { addresses, seen: seen.next()? })
    });
    found.collect()
}

/// Who may issue certificates for the name.
async fn rules(engine: &Engine, question: &Question) -> Option<CertificateRules> {
    caa::rules(engine, &DomainName::parse(&show_name(&question.name)).ok()?).await
}

/// A certificate that its issuer could not issue again is told now, and not when it has ended.
fn obey(rules: &CertificateRules, host: &str, seen: &mut [Seen]) {
    for Seen { endpoint, .. } in seen {
        let issuer = endpoint.certificate.as_ref().and_then(|certificate| certificate.issuer.clone());
        if let Some(problem) = issuer.and_then(|issuer| rules.problem(host, &issuer)) {
            endpoint.verdict = format!("{}; {problem}", endpoint.verdict);
        }
    }
}

/// What other machines said of one question.
#[derive(Default)]
struct Heard {
    places: Vec<PlaceReport>,
    absent: Vec<Absent>,
}

impl Heard {
    /// The answers to the question at `index`.
    fn of(answers: &[PlaceAnswers], index: usize, absent: &[Absent]) -> Self {
        let mut heard = Self { places: Vec::new(), absent: absent.to_vec() };
        for one in answers {
            let reason = match one.answers.as_ref().map(|answers| answers.get(index)) {
                Ok(Some(ProbeAnswer::Look { place })) => {
                    heard.places.push(place.clone());
                    continue;
                }
                Ok(Some(ProbeAnswer::Problem { reason })) | Err(reason) => reason.clone(),
                Ok(_) => "it did not answer this question".to_owned(),
            };
            heard.absent.push(Absent { place: one.place.clone(), reason });
        }
        heard
    }
}

/// What one place sees.
pub async fn look_from(engine: &Engine, question: &Question) -> PlaceReport {
    look(engine, question).await.1
}

async fn look(engine: &Engine, question: &Question) -> (Resolution, PlaceReport) {
    let begin = tokio::time::Instant::now();
    let run = Run::new(engine);
    let resolution = run.resolve(question, Thoroughness::EveryServer).await;
    let (serials, servers) = look_at_servers(&run, &resolution).await;
    let place = PlaceReport {
        place: engine.transport().net().vantage_point().name.clone(),
        outcome: resolution.outcome.clone(),
        records: resolution.records.iter().map(RecordView::from).collect(),
        serials,
        servers,
        elapsed_ms: begin.elapsed().as_secs_f64() * 1000.0,
    };
    (resolution, place)
}

/// Asks the servers of the chain's zones for their versions and identities. Registries' zones are left out: their answers
/// are in every cache, and nobody here can change them.
async fn look_at_servers(run: &Run<'_>, resolution: &Resolution) -> (Vec<u32>, Vec<ServerTime>) {
    let mut cuts: Vec<Cut> = Vec::new();
    for (index, step) in resolution.steps.iter().enumerate() {
        let is_last = index + 1 == resolution.steps.len();
        let is_known = cuts.iter().any(|cut| cut.zone == step.cut.zone);
        if (is_last || !Commons::shares(&step.cut.zone)) && !is_known {
            // Who did not answer the first question is not waited for a second time.
            cuts.push(step.answering());
        }
    }
    let asked = cuts.iter().map(|cut| {
        let ask = Ask::authoritative(Question::new(cut.zone.clone(), RecordType::SOA)).with_identity();
        let servers = cut.addresses().map(|(name, address)| (name.clone(), address)).collect();
        async move { run.ask_all(&cut.zone, servers, &ask).await }
    });
    let replies = futures::future::join_all(asked).await;
    let last = resolution.last().map(|step| &step.cut.zone);
    let (mut serials, mut servers) = (Vec::new(), Vec::new());
    for (cut, replies) in cuts.iter().zip(&replies) {
        for reply in replies {
            let Some(answer) = reply.exchange.answer() else { continue };
            if last == Some(&cut.zone) {
                serials.extend(answer.section(Section::Answer).iter().filter_map(|record| match &record.data {
                    RData::SOA(soa) => Some(soa.serial),
                    _ => None,
                }));
            }
            servers.push(ServerTime {
                server: show_name(&reply.server),
                address: reply.exchange.server.ip(),
                rtt_ms: reply.exchange.rtt.as_secs_f64() * 1000.0,
                zone: show_name(&cut.zone),
                identity: answer.server_identity().map(|text| text.chars().take(IDENTITY_CHARS_MAX).collect()),
            });
        }
    }
    serials.sort_unstable();
    serials.dedup();
    (serials, servers)
}

/// Of what a server calls itself, the part that is kept.
const IDENTITY_CHARS_MAX: usize = 64;

fn groups(places: &[PlaceReport], rtype: RecordType) -> Vec<GroupReport> {
    let mut groups: BTreeMap<String, GroupReport> = BTreeMap::new();
    for place in places {
        let answer = match &place.outcome {
            Outcome::Found => {
                let mut data: Vec<&str> = place.records.iter().map(|record| record.data.as_str()).collect();
                data.sort_unstable();
                data.join(" ")
            }
            Outcome::NoData => format!("no {}", type_text(rtype)),
            Outcome::NxDomain => "no such name".to_owned(),
            Outcome::Broken { reason } => reason.to_string(),
        };
        let group = groups.entry(answer.clone()).or_insert_with(|| GroupReport {
            answer,
            places: Vec::new(),
            serials: Vec::new(),
        });
        group.places.push(place.place.clone());
        group.serials.extend(&place.serials);
        group.serials.sort_unstable();
        group.serials.dedup();
    }
    let mut groups: Vec<GroupReport> = groups.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.places.len()));
    groups
}

fn summary(groups: &[GroupReport], aliases: &[AliasReport], first: &Resolution) -> String {
    let mut sentences = Vec::new();
    let count: usize = groups.iter().map(|group| group.places.len()).sum();
    match groups {
        [only] if count > 1 => sentences.push(format!("All {count} places get the same answer: {}.", only.answer)),
        [only] => sentences.push(format!("The answer is {}.", only.answer)),
        several => {
            let list: Vec<String> =
                several.iter().map(|group| format!("{} at {}", group.answer, group.places.join(", "))).collect();
            sentences.push(format!("{} different answers: {}.", several.len(), list.join("; ")));
            let same_version =
                several.iter().all(|group| several.first().is_some_and(|first| first.serials == group.serials));
            sentences.push(match same_version {
                true => "All have the same version of the zone, so the answer depends on the place; nothing is stale."
                    .to_owned(),
                false => "The places see different versions of the zone, so some servers are stale.".to_owned(),
            });
        }
    }
    if first.last().is_some_and(|step| step.groups.len() > 1) {
        let replies = first.last().map(|step| step.replies.as_slice()).unwrap_or_default();
        let data: Vec<String> = replies
            .iter()
            .filter_map(|reply| {
                let answer = reply.exchange.answer()?;
                let records = answer.section(Section::Answer).iter();
                let mut data: Vec<String> =
                    records.filter(|record| record.record_type() == first.question.rtype).map(rdata_text).collect();
                data.sort();
                Some(format!("{} says {}", show_name(&reply.server), data.join(" ")))
            })
            .collect();
        sentences.push(format!("The servers do not agree: {}.", data.join("; ")));
    }
    if let (Some(last), Outcome::NxDomain) = (aliases.last(), &first.outcome) {
        sentences.push(format!(
            "{} leads to {}, which does not exist: whoever registers it takes the name over.",
            last.name, last.target
        ));
    }
    sentences.join(" ")
}
