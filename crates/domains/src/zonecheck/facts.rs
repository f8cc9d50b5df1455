//! What is known about a zone before anything is judged: what the parent's servers say, what the zone's servers say, and what
//! there is to know about the hosts that they name.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use hickory_proto::dnssec::rdata::DS;
use jiff::Timestamp;

use super::probe::{Probe, Server};
use super::undelegated::Undelegated;
use crate::dnssec::{Validation, validate_zone};
use crate::evidence::Evidence;
use crate::resolve::{AddressSource, Outcome, Reply, Resolution, Run, Says, Thoroughness};
use crate::wire::{Ask, Name, Question, RData, RecordType, Section};

/// Hosts that a zone names and that are looked up.
const MAX_HOSTS: usize = 40;

/// What the DNS says about a host.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// It is an alias.
    pub is_alias: bool,
    /// Who says that it is an alias.
    pub alias_evidence: Option<Evidence>,
    /// The answer could be had.
    pub resolves: bool,
}

/// Where an address is on the internet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The autonomous systems.
    pub asns: Vec<u32>,
    /// The announced prefix.
    pub prefix: String,
}

/// Everything that was learnt.
pub struct Facts {
    /// The zone.
    pub zone: Name,
    /// The zone above.
    pub parent: Option<Name>,
    /// The way from the root to the zone's SOA, with every server.
    pub trace: Resolution,
    /// What each server of the parent said about the zone.
    pub parent_replies: Vec<Reply>,
    /// The servers that the parent lists.
    pub parent_ns: BTreeSet<Name>,
    /// The addresses that the parent sends along.
    pub glue: BTreeMap<Name, BTreeSet<IpAddr>>,
    /// The DS records by each server of the parent; nothing for one that did not answer.
    pub ds: Vec<(IpAddr, Option<Vec<DS>>)>,
    /// What the parent's servers were asked and answered about them.
    pub ds_evidence: Vec<Evidence>,
    /// The servers that the zone lists.
    pub child_ns: BTreeSet<Name>,
    /// The servers and what they answered.
    pub servers: Vec<Server>,
    /// The hosts that the zone names.
    pub hosts: BTreeMap<Name, Host>,
    /// The names of addresses; nothing where the question failed.
    pub ptr: BTreeMap<IpAddr, Option<Vec<Name>>>,
    /// Where the servers are.
    pub origins: BTreeMap<IpAddr, Option<Origin>>,
    /// The chain of trust.
    pub validation: Validation,
    /// By the injected clock.
    pub now: Timestamp,
}

impl Facts {
    /// Asks everything.
    pub async fn gather(run: &Run<'_>, zone: &Name) -> Self {
        let mut facts = Self::of_parent(run, zone).await;
        if !facts.parent_ns.is_empty() {
            facts.ask_for_ds(run).await;
            facts.ask_everybody(run).await;
            facts.validation = validate_zone(run, &facts.zone).await;
        }
        facts
    }

    /// The same as if the parent delegated the zone otherwise than it does, or at all.
    pub async fn gather_undelegated(run: &Run<'_>, zone: &Name, like: &Undelegated) -> Self {
        let mut facts = Self::of_parent(run, zone).await;
        let cut = like.cut(run, &facts.zone, facts.parent.clone()).await;
        facts.parent_replies = Vec::new();
        facts.parent_ns = cut.servers.iter().map(|server| server.name.clone()).collect();
        facts.glue = cut
            .servers
            .iter()
            .filter(|server| server.source == AddressSource::Glue)
            .map(|server| (server.name.clone(), server.addresses.iter().copied().collect()))
            .collect();
        facts.ds = vec![(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), Some(like.ds.clone()))];
        facts.validation.reason = "the delegation is not real".to_owned();
        run.pretend(cut);
        facts.ask_everybody(run).await;
        facts
    }

    async fn ask_everybody(&mut self, run: &Run<'_>) {
        self.ask_servers(run).await;
        self.ask_about_hosts(run).await;
        self.ask_about_addresses(run).await;
    }

    /// What the parent says.
    async fn of_parent(run: &Run<'_>, zone: &Name) -> Self {
        let zone = zone.to_lowercase();
        let trace = run.resolve(&Question::new(zone.clone(), RecordType::SOA), Thoroughness::EveryServer).await;
        // Where the name is an alias, the way goes on elsewhere: the parent is still above the name.
        let is_above = |above: &Name| *above != zone && above.zone_of(&zone);
        let parent_step = trace.steps.iter().rev().find(|step| is_above(&step.cut.zone)).cloned();
        let parent = parent_step.as_ref().map(|step| step.cut.zone.clone());
        let parent_replies = parent_step.map(|step| step.replies).unwrap_or_default();
        let (parent_ns, glue) = delegation(&parent_replies, &zone);
        Self {
            zone: zone.clone(),
            parent,
            trace,
            parent_replies,
            parent_ns,
            glue,
            ds: Vec::new(),
            ds_evidence: Vec::new(),
            child_ns: BTreeSet::new(),
            servers: Vec::new(),
            hosts: BTreeMap::new(),
            ptr: BTreeMap::new(),
            origins: BTreeMap::new(),
            validation: Validation {
                status: crate::dnssec::Status::Indeterminate,
                reason: "the zone is not delegated".to_owned(),
                zones: Vec::new(),
                answers: Vec::new(),
                expires: None,
            },
            now: run.engine().clock().now(),
        }
    }

    /// Asks the servers that the parent lists, then those that only the zone lists.
    async fn ask_servers(&mut self, run: &Run<'_>) {
        let zone = self.zone.clone();
        let cut = run.known_cut(&zone);
        let listed: Vec<(Name, IpAddr)> =
            cut.iter().flat_map(|cut| cut.addresses().map(|(name, address)| (name.clone(), address))).collect();
        let asked = listed.into_iter().map(|(name, address)| Server::ask(run, &zone, name, address, true, false));
        self.servers = futures::future::join_all(asked).await;
        for server in &self.servers {
            for record in server.apex(Probe::Ns, &zone, RecordType::NS) {
                if let RData::NS(name) = &record.data {
                    self.child_ns.insert(name.0.to_lowercase());
                }
            }
        }
        for server in &mut self.servers {
            server.in_child = self.child_ns.contains(&server.name);
        }
        let only_child: Vec<Name> = self.child_ns.difference(&self.parent_ns).take(13).cloned().collect();
        let mut more = Vec::new();
        for name in only_child {
            for address in run.addresses_of(&name).await {
                more.push(Server::ask(run, &zone, name.clone(), address, false, true));
            }
        }
        self.servers.extend(futures::future::join_all(more).await);
    }

    async fn ask_for_ds(&mut self, run: &Run<'_>) {
        let Some(cut) = self.parent.as_ref().and_then(|parent| run.known_cut(parent)) else { return };
        let servers = cut.addresses().map(|(name, address)| (name.clone(), address)).collect();
        let ask = Ask::authoritative(Question::new(self.zone.clone(), RecordType::DS));
        let replies = run.ask_all(&cut.zone, servers, &ask).await;
        let records = |reply: &Reply| match reply.says {
            Says::Answer | Says::NoData => {
                let answer = reply.exchange.answer()?;
                Some(crate::dnssec::ds_records(answer.rrset(Section::Answer, &self.zone, RecordType::DS)))
            }
            _ => None,
        };
        self.ds_evidence = replies.iter().map(Evidence::of_reply).collect();
        self.ds = replies.iter().map(|reply| (reply.exchange.server.ip(), records(reply))).collect();
    }

    /// Looks up the servers, the mail servers and the primary.
    async fn ask_about_hosts(&mut self, run: &Run<'_>) {
        let mut wanted: BTreeSet<Name> = self.parent_ns.union(&self.child_ns).cloned().collect();
        for server in &self.servers {
            let records = server.apex(Probe::Mx, &self.zone, RecordType::MX);
            wanted.extend(records.iter().filter_map(|record| match &record.data {
                RData::MX(mx) => Some(mx.exchange.to_lowercase()),
                _ => None,
            }));
            let records = server.apex(Probe::Soa, &self.zone, RecordType::SOA);
            wanted.extend(records.iter().filter_map(|record| match &record.data {
                RData::SOA(soa) => Some(soa.mname.to_lowercase()),
                _ => None,
            }));
        }
        let lookups = wanted.into_iter().filter(|name| !name.is_root()).take(MAX_HOSTS).map(|name| async move {
            let ask = |rtype| {
                let question = Question::new(name.clone(), rtype);
                async move { run.resolve(&question, Thoroughness::FirstAnswer).await }
            };
            let (v4, v6) = futures::future::join(ask(RecordType::A), ask(RecordType::AAAA)).await;
            let addresses = v4.records.iter().chain(&v6.records).filter_map(|record| match &record.data {
                RData::A(a) => Some(IpAddr::V4(a.0)),
                RData::AAAA(aaaa) => Some(IpAddr::V6(aaaa.0)),
                _ => None,
            });
            let host = Host {
                addresses: addresses.collect(),
                is_alias: !v4.aliases.is_empty() || !v6.aliases.is_empty(),
                alias_evidence: v4.alias_reply().or_else(|| v6.alias_reply()).map(Evidence::of_reply),
                resolves: !matches!(v4.outcome, Outcome::Broken { .. }),
            };
            (name, host)
        });
        self.hosts = futures::future::join_all(lookups).await.into_iter().collect();
    }

    /// Looks up the names and the places of the servers' addresses.
    async fn ask_about_addresses(&mut self, run: &Run<'_>) {
        let addresses: BTreeSet<IpAddr> = self.servers.iter().map(|server| server.address).collect();
        let lookups = addresses
            .iter()
            .copied()
            .map(|address| async move { futures::future::join(names_of(run, address), origin_of(run, address)).await });
        for (address, (names, origin)) in addresses.iter().zip(futures::future::join_all(lookups).await) {
            self.ptr.insert(*address, names);
            self.origins.insert(*address, origin);
        }
    }

    /// The servers that answered with the zone's SOA.
    pub(super) fn working(&self) -> impl Iterator<Item = &Server> {
        self.servers.iter().filter(|server| !server.apex(Probe::Soa, &self.zone, RecordType::SOA).is_empty())
    }

    /// The SOA of each working server.
    pub(super) fn soas(&self) -> Vec<(&Server, &hickory_proto::rr::rdata::SOA, u32)> {
        let soa = |server| {
            let server: &Server = server;
            let records = server.apex(Probe::Soa, &self.zone, RecordType::SOA);
            records.into_iter().find_map(|record| match &record.data {
                RData::SOA(soa) => Some((server, soa, record.ttl)),
                _ => None,
            })
        };
        self.servers.iter().filter_map(soa).collect()
    }

    /// Whether any server has keys.
    pub(super) fn is_signed(&self) -> bool {
        self.servers.iter().any(|server| !server.apex(Probe::Dnskey, &self.zone, RecordType::DNSKEY).is_empty())
    }

    /// The DS records of the parent, over all its servers.
    pub(super) fn all_ds(&self) -> Vec<&DS> {
        let mut all: Vec<&DS> = Vec::new();
        for ds in self.ds.iter().filter_map(|(_, ds)| ds.as_ref()).flatten() {
            if !all.contains(&ds) {
                all.push(ds);
            }
        }
        all
    }
}

/// What the parent's servers list, taken together.
fn delegation(replies: &[Reply], zone: &Name) -> (BTreeSet<Name>, BTreeMap<Name, BTreeSet<IpAddr>>) {
    let (mut names, mut glue) = (BTreeSet::new(), BTreeMap::<Name, BTreeSet<IpAddr>>::new());
    for answer in replies.iter().filter_map(|reply| reply.exchange.answer()) {
        for section in [Section::Authority, Section::Answer] {
            for record in answer.rrset(section, zone, RecordType::NS) {
                if let RData::NS(name) = &record.data {
                    names.insert(name.0.to_lowercase());
                }
            }
        }
        for record in answer.section(Section::Additional) {
            let address = match &record.data {
                RData::A(a) => IpAddr::V4(a.0),
                RData::AAAA(aaaa) => IpAddr::V6(aaaa.0),
                _ => continue,
            };
            glue.entry(record.name.to_lowercase()).or_default().insert(address);
        }
    }
    glue.retain(|name, _| names.contains(name));
    (names, glue)
}

async fn names_of(run: &Run<'_>, address: IpAddr) -> Option<Vec<Name>> {
    let question = Question::new(Name::from(address), RecordType::PTR);
    let resolution = run.resolve(&question, Thoroughness::FirstAnswer).await;
    if matches!(resolution.outcome, Outcome::Broken { .. }) {
        return None;
    }
    let names = resolution.records.iter().filter_map(|record| match &record.data {
        RData::PTR(name) => Some(name.0.to_lowercase()),
        _ => None,
    });
    Some(names.collect())
}

/// By the list that Team Cymru publishes in the DNS.
async fn origin_of(run: &Run<'_>, address: IpAddr) -> Option<Origin> {
    let labels = match address {
        IpAddr::V4(v4) => {
            let [a, b, c, d] = v4.octets();
            format!("{d}.{c}.{b}.{a}.origin.asn.cymru.com")
        }
        IpAddr::V6(v6) => {
            let nibbles = v6.octets().into_iter().rev().flat_map(|byte| [byte & 15, byte >> 4]);
            let nibbles: Vec<String> = nibbles.map(|nibble| format!("{nibble:x}")).collect();
            format!("{}.origin6.asn.cymru.com", nibbles.join("."))
        }
    };
    let question = Question::new(crate::wire::parse_name(&labels).ok()?, RecordType::TXT);
    let resolution = run.resolve(&question, Thoroughness::FirstAnswer).await;
    resolution.records.iter().find_map(|record| {
        let RData::TXT(txt) = &record.data else { return None };
        let text: Vec<u8> = txt.txt_data.iter().flat_map(|part| part.iter().copied()).collect();
        let text = String::from_utf8(text).ok()?;
        let mut fields = text.split('|').map(str::trim);
        let asns = fields.next()?.split(' ').filter_map(|asn| asn.parse().ok()).collect();
        Some(Origin { asns, prefix: fields.next()?.to_owned() })
    })
}
