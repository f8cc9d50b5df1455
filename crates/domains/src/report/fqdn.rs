//! `dns fqdn`: what a name means from many places, grouped, with every step of its aliases.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::net::IpAddr;

use serde::Serialize;

use super::trace::{AliasReport, alias_reports, dnssec_line};
use super::{Colour, Style, Table, duration_text};
use crate::dnssec::{self, Validation};
use crate::endpoint::{self, Endpoint};
use crate::engine::Engine;
use crate::resolve::{AliasKind, Outcome, Resolution, Run, Thoroughness};
use crate::wire::{Name, Question, RData, RecordType, RecordView, rdata_text, show_name, type_text};

/// What one place sees.
#[derive(Clone, Debug, Serialize)]
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
    /// The shortest time to live on the way: how long a change takes to be seen everywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<u32>,
    /// Places by what they see, the largest group first.
    pub groups: Vec<GroupReport>,
    /// Each place.
    pub places: Vec<PlaceReport>,
    /// How far the answer can be trusted.
    pub dnssec: Validation,
    /// What is behind the addresses, when that was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub endpoints: Vec<Endpoint>,
    /// In a sentence or two.
    pub summary: String,
}

/// Whether the services behind the addresses are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoints {
    /// Ask only the DNS.
    Skip,
    /// Call each address as a browser would.
    Look,
}

/// Addresses that are called.
const MAX_ENDPOINTS: usize = 16;

impl FqdnReport {
    /// Asks from every place.
    pub async fn make(places: &[Engine], question: &Question, endpoints: Endpoints) -> Option<Self> {
        let seen = futures::future::join_all(places.iter().map(|engine| look(engine, question))).await;
        let (first, _) = seen.first()?;
        let engine = places.first()?;
        let dnssec = dnssec::validate(&Run::new(engine), first).await;
        let ttls = first.records.iter().map(|record| record.ttl).chain(first.aliases.iter().map(|alias| alias.ttl));
        let ttl = ttls.min();
        let aliases = alias_reports(first);
        let places: Vec<PlaceReport> = seen.iter().map(|(_, place)| place.clone()).collect();
        let groups = groups(&places, question.rtype);
        let endpoints = match endpoints {
            Endpoints::Skip => Vec::new(),
            Endpoints::Look => look_behind(engine, &question.name, &seen).await,
        };
        let summary = summary(&groups, &aliases, first, ttl);
        Some(Self {
            name: show_name(&question.name),
            rtype: type_text(question.rtype),
            aliases,
            ttl,
            groups,
            places,
            dnssec,
            endpoints,
            summary,
        })
    }

    /// For people.
    pub fn text(&self, style: Style) -> String {
        let mut text = format!("{}\n", style.paint(Colour::Bold, &format!("{} {}", self.name, self.rtype)));
        for alias in &self.aliases {
            let _ = writeln!(
                text,
                "  {} is an alias of {} ({} in {}, {})",
                alias.name,
                alias.target,
                match alias.kind {
                    AliasKind::Cname => "CNAME",
                    AliasKind::Dname => "DNAME",
                },
                alias.zone,
                duration_text(alias.ttl)
            );
        }
        let mut table = Table::indented(2);
        table.heading(&["ANSWER", "PLACES", "ZONE SERIAL"]);
        for group in &self.groups {
            let serials: Vec<String> = group.serials.iter().map(u32::to_string).collect();
            let colour = if self.groups.len() == 1 { Some(Colour::Green) } else { Some(Colour::Yellow) };
            table.row([
                (group.answer.clone(), colour),
                (group.places.join(" "), None),
                (serials.join(" "), Some(Colour::Dim)),
            ]);
        }
        text.push_str(&table.render(style));
        let mut table = Table::indented(2);
        for endpoint in &self.endpoints {
            let colour = if endpoint.is_ready { Colour::Green } else { Colour::Red };
            table.row([(endpoint.address.to_string(), None), (endpoint.verdict.clone(), Some(colour))]);
        }
        text.push_str(&table.render(style));
        let _ = writeln!(text, "{}\n{}", dnssec_line(&self.dnssec, style), self.summary);
        text
    }
}

/// Calls every address that any place was given.
async fn look_behind(engine: &Engine, name: &Name, seen: &[(Resolution, PlaceReport)]) -> Vec<Endpoint> {
    let records = seen.iter().flat_map(|(resolution, _)| &resolution.records);
    let addresses: BTreeSet<IpAddr> = records
        .filter_map(|record| match &record.data {
            RData::A(a) => Some(IpAddr::V4(a.0)),
            RData::AAAA(aaaa) => Some(IpAddr::V6(aaaa.0)),
            _ => None,
        })
        .collect();
    let host = show_name(name);
    let calls = addresses.into_iter().take(MAX_ENDPOINTS).map(|address| endpoint::look(engine, &host, address));
    futures::future::join_all(calls).await
}

async fn look(engine: &Engine, question: &Question) -> (Resolution, PlaceReport) {
    let begin = tokio::time::Instant::now();
    let run = Run::new(engine);
    let resolution = run.resolve(question, Thoroughness::EveryServer).await;
    let zone = resolution.last().map(|step| step.cut.zone.clone()).unwrap_or_else(Name::root);
    let soa = run.resolve(&Question::new(zone, RecordType::SOA), Thoroughness::EveryServer).await;
    let replies = soa.last().map(|step| step.replies.as_slice()).unwrap_or_default();
    let mut serials: Vec<u32> = replies
        .iter()
        .filter_map(|reply| reply.exchange.answer())
        .flat_map(|answer| answer.section(crate::wire::Section::Answer))
        .filter_map(|record| match &record.data {
            RData::SOA(soa) => Some(soa.serial),
            _ => None,
        })
        .collect();
    serials.sort_unstable();
    serials.dedup();
    let place = PlaceReport {
        place: engine.transport().net().vantage_point().name.clone(),
        outcome: resolution.outcome.clone(),
        records: resolution.records.iter().map(RecordView::from).collect(),
        serials,
        elapsed_ms: begin.elapsed().as_secs_f64() * 1000.0,
    };
    (resolution, place)
}

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

fn summary(groups: &[GroupReport], aliases: &[AliasReport], first: &Resolution, ttl: Option<u32>) -> String {
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
                let records = answer.section(crate::wire::Section::Answer).iter();
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
    if let Some(ttl) = ttl {
        sentences.push(format!("A change is seen everywhere within {}.", duration_text(ttl)));
    }
    sentences.join(" ")
}
