//! [`Authorities`] and [`Hosts`] on the engine: the way to a zone is asked of whoever answers first, the zone itself of every
//! server. Each survey is a run of its own, so that nothing is remembered between two looks.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use futures::future::BoxFuture;

use super::{Authorities, Record, RecordKind, RecordValue, Said, Security, ServerAnswer, Soa, Survey};
use crate::dial::Hosts;
use crate::dnssec;
use crate::engine::Engine;
use crate::name::DomainName;
use crate::recursive::{self, Via};
use crate::resolve::{Reply, Resolution, Run, Says, Thoroughness};
use crate::seams::{Clock, Net, Roots, VantagePoint};
use crate::transport::{TlsTrust, TransportOptions};
use crate::verdict::judge;
use crate::wire::{Name, Question, RData, RecordType, Section, parse_name, rdata_text, show_name};

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
    /// The place that is asked from when no other is named.
    first: String,
}

impl Surveyor {
    /// Over `net`, from the vantage points of `roots`.
    pub fn new(net: &Net, clock: &Arc<dyn Clock>, roots: &Arc<Roots>) -> Self {
        let places = roots.vantage_points();
        let first = places.first().map(|place| place.name.clone()).unwrap_or_default();
        let engine = |from: VantagePoint| {
            let trust = roots.ca_file.clone().map_or(TlsTrust::System, TlsTrust::File);
            let options = TransportOptions { trust, ..TransportOptions::default() };
            (from.name.clone(), Engine::new(net.seen_from(from), clock.clone(), roots.clone(), options))
        };
        Self { engines: places.into_iter().map(engine).collect(), first }
    }

    /// The engine of a vantage point.
    pub fn engine(&self, vantage_point: &str) -> Option<&Engine> {
        self.engines.get(vantage_point)
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
        let engine = self.engine(&from.name).ok_or_else(|| format!("there is no vantage point {}", from.name))?;
        let owner = parse_name(name.as_str()).map_err(|error| error.to_string())?;
        let run = Run::new(engine);
        let way = run.resolve(&Question::new(owner.clone(), RecordType::SOA), Thoroughness::FirstAnswer).await;
        let cut = run.deepest_cut(&owner);
        if cut.zone.is_root() {
            return Err(no_way(&way));
        }
        let zone = DomainName::parse(&show_name(&cut.zone)).map_err(|error| error.to_string())?;
        let soa = run.resolve(&Question::new(cut.zone.clone(), RecordType::SOA), Thoroughness::FirstAnswer).await;
        let question = Question::new(owner.clone(), record_type(kind));
        let resolution = run.resolve(&question, Thoroughness::EveryServer).await;
        let validation = dnssec::validate(&run, &resolution).await;
        let step = resolution.steps.iter().rev().find(|step| step.question.name == owner);
        let answers = step.map(|step| step.replies.iter().filter_map(|reply| answer(reply, &owner, kind)).collect());
        let mut nameservers: Vec<DomainName> =
            cut.servers.iter().filter_map(|server| DomainName::parse(&show_name(&server.name)).ok()).collect();
        nameservers.sort();
        Ok(Survey {
            vantage_point: from.name.clone(),
            name: name.clone(),
            kind,
            soa: start_of_authority(&soa, &zone),
            zone,
            nameservers,
            delegation_ttl: cut.ns_ttl,
            security: security(validation.status),
            answers: answers.unwrap_or_default(),
        })
    }
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

fn answer(reply: &Reply, owner: &Name, kind: RecordKind) -> Option<ServerAnswer> {
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
    let digest = reply.exchange.answer().map(|answer| ring::digest::digest(&ring::digest::SHA256, answer.wire()));
    let packet_sha256 = digest.map(|digest| digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect());
    Some(ServerAnswer { server, address: reply.exchange.server.ip(), said, packet_sha256 })
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
}

impl Hosts for Surveyor {
    fn addresses<'a>(&'a self, host: &'a str) -> BoxFuture<'a, Result<Vec<IpAddr>, String>> {
        Box::pin(async move {
            let engine = self.first_engine().ok_or("there is no vantage point")?;
            let name = parse_name(host).map_err(|error| error.to_string())?;
            let mut addresses = Run::new(engine).addresses_of(&name).await;
            // IPv6 is missing in more places than it is preferred in.
            addresses.sort_by_key(|address| !address.is_ipv4());
            Ok(addresses)
        })
    }
}
