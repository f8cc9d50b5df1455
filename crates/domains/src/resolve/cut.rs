//! A zone cut: which servers a zone is delegated to, by what its parent says.

use std::net::IpAddr;

use serde::Serialize;

use crate::engine::Engine;
use crate::wire::{Answer, Name, RData, Record, RecordType, Section, parse_name};

/// How the addresses of a server were learnt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum AddressSource {
    /// Compiled in or configured.
    Hint,
    /// The parent sent them along.
    Glue,
    /// They were looked up.
    Lookup,
}

/// A server of a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nameserver {
    /// Its name.
    pub name: Name,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// How they were learnt.
    pub source: AddressSource,
}

/// A zone and whom its parent delegates it to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The zone.
    pub zone: Name,
    /// The zone above; nothing for the root.
    pub parent: Option<Name>,
    /// Its servers, sorted by name.
    pub servers: Vec<Nameserver>,
    /// The time to live of the parent's NS records.
    pub ns_ttl: Option<u32>,
    /// DS records and their signatures, and proofs of their absence, as the referral had them.
    pub security: Vec<Record>,
}

impl Cut {
    /// The root zone, by the hints.
    pub fn root(engine: &Engine) -> Self {
        let servers = engine.roots().hints.iter().filter_map(|hint| {
            let name = parse_name(&hint.name).ok()?;
            Some(Nameserver { name, addresses: hint.addresses.clone(), source: AddressSource::Hint })
        });
        Self { zone: Name::root(), parent: None, servers: servers.collect(), ns_ttl: None, security: Vec::new() }
    }

    /// What a server of `parent` refers to. Glue counts only for names inside `parent`: a server is no authority for
    /// addresses elsewhere, and believing it is how caches are poisoned.
    pub fn from_referral(answer: &Answer, parent: &Name, zone: &Name) -> Self {
        let mut servers: Vec<Nameserver> = Vec::new();
        let mut ns_ttl = None;
        for record in answer.rrset(Section::Authority, zone, RecordType::NS) {
            let RData::NS(target) = &record.data else { continue };
            let name = target.0.to_lowercase();
            ns_ttl = Some(ns_ttl.map_or(record.ttl, |ttl: u32| ttl.min(record.ttl)));
            if servers.iter().any(|server| server.name == name) {
                continue;
            }
            let addresses = if parent.zone_of(&name) { glue(answer, &name) } else { Vec::new() };
            servers.push(Nameserver { name, addresses, source: AddressSource::Glue });
        }
        servers.sort_by(|a, b| a.name.cmp(&b.name));
        let is_security =
            |rtype| matches!(rtype, RecordType::DS | RecordType::RRSIG | RecordType::NSEC | RecordType::NSEC3);
        let security = answer.section(Section::Authority).iter();
        let security = security.filter(|record| is_security(record.record_type())).cloned().collect();
        Self { zone: zone.clone(), parent: Some(parent.clone()), servers, ns_ttl, security }
    }

    /// All addresses with the names of their servers.
    pub fn addresses(&self) -> impl Iterator<Item = (&Name, IpAddr)> {
        self.servers.iter().flat_map(|server| server.addresses.iter().map(move |address| (&server.name, *address)))
    }
}

pub(super) fn glue(answer: &Answer, name: &Name) -> Vec<IpAddr> {
    let mut addresses: Vec<IpAddr> = Vec::new();
    for record in answer.section(Section::Additional).iter().filter(|record| record.name == *name) {
        let address = match &record.data {
            RData::A(a) => IpAddr::V4(a.0),
            RData::AAAA(aaaa) => IpAddr::V6(aaaa.0),
            _ => continue,
        };
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    addresses.sort();
    addresses
}
