//! The exact records to create for a service, as the form of the detected provider wants them typed; what is live now and
//! what keeps it from being seen; the same records as files for other tools. Nothing here needs anybody's credentials.

pub mod analysis;
pub mod domain_connect;
pub mod export;
mod proxy;
pub mod service;
mod standing;

use std::net::IpAddr;

use jiff::Timestamp;
use serde::Serialize;

use self::domain_connect::DomainConnect;
use crate::advice::Schedule;
use crate::authority::RecordKind;
use crate::caa::CertificateRules;
use crate::name::{DomainName, NameError, host_of};
use crate::provider::{Apex, Detection, Provider};

pub use standing::PlannedChange;

/// A name that should lead to a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Wish {
    pub host: Host,
    pub aim: Aim,
}

/// A host name, perhaps a wildcard.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Host {
    /// Without the star.
    pub base: DomainName,
    pub wildcard: bool,
}

impl Host {
    /// Takes `www.example.com` and `*.example.com`, and whatever else leads to a host, such as a URL.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let wildcard = text.trim().starts_with("*.");
        Ok(Self { base: host_of(text)?, wildcard })
    }
}

impl std::fmt::Display for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.wildcard { "*." } else { "" })?;
        self.base.fmt(f)
    }
}

/// Where a name should lead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Aim {
    Addresses(Vec<IpAddr>),
    /// A host whose addresses are its own business. Those it has now, if known.
    Host {
        name: DomainName,
        addresses: Vec<IpAddr>,
    },
}

/// The zone the records go into.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ZoneFacts {
    pub zone: DomainName,
    pub provider: Detection,
    /// How long a "does not exist" is remembered.
    pub negative_ttl: u32,
}

/// A record to create.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedRecord {
    pub host: Host,
    pub kind: PlannedKind,
    pub value: PlannedValue,
    /// Where the provider serves addresses in its place, at the root of the zone: those that the target has now, none where
    /// they could not be found. What is live is compared with them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub served_as: Option<Vec<IpAddr>>,
    pub ttl: u32,
    /// What to type into the provider's form.
    pub typed: Typed,
}

/// The type of a record to create.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum PlannedKind {
    A,
    Aaaa,
    Cname,
    /// A type of the provider's own that serves the addresses of a host.
    Alias(&'static str),
}

impl PlannedKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::Aaaa => "AAAA",
            Self::Cname => "CNAME",
            Self::Alias(name) => name,
        }
    }

    /// What is served in the end; an alias is served as addresses.
    pub fn served(self) -> Option<RecordKind> {
        match self {
            Self::A => Some(RecordKind::A),
            Self::Aaaa => Some(RecordKind::Aaaa),
            Self::Cname => Some(RecordKind::Cname),
            Self::Alias(_) => None,
        }
    }
}

/// The value of a record to create.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum PlannedValue {
    Address(IpAddr),
    Name(DomainName),
}

impl std::fmt::Display for PlannedValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}

/// A record as it is typed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Typed {
    pub name: String,
    pub value: String,
}

/// A TXT record that proves who has a domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Proof {
    pub name: DomainName,
    pub value: String,
}

/// A proof that is created with the records of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedProof {
    #[serde(flatten)]
    pub proof: Proof,
    pub ttl: u32,
    /// What to type into the provider's form.
    pub typed: Typed,
}

/// A wish that cannot be fulfilled as it is, and what to do instead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    pub host: Host,
    pub reason: String,
    pub alternatives: Vec<String>,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    pub zone: ZoneFacts,
    pub records: Vec<PlannedRecord>,
    /// The records that prove domains of the zone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub proofs: Vec<PlannedProof>,
    pub refusals: Vec<Refusal>,
    pub notes: Vec<String>,
    /// When to do what about the records that are new.
    pub schedule: Schedule,
    /// The records that become others, each with its own schedule.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<PlannedChange>,
    /// What the provider offers to those who do not like to type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain_connect: Option<DomainConnect>,
    /// Who may issue certificates for the names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub certificate_rules: Vec<CertificateRules>,
}

/// While things are being set up.
const TTL_AT_FIRST: u32 = 300;

impl Plan {
    /// Plans the records for `wishes`, all of which are in the zone.
    pub fn new(zone: ZoneFacts, wishes: &[Wish], now: Timestamp) -> Self {
        let provider = zone.provider.provider();
        let mut plan = Self {
            records: Vec::new(),
            proofs: Vec::new(),
            refusals: Vec::new(),
            notes: Vec::new(),
            schedule: Schedule::for_creation(zone.negative_ttl, provider.ttl_min, now),
            changes: Vec::new(),
            zone,
            domain_connect: None,
            certificate_rules: Vec::new(),
        };
        for wish in wishes {
            plan.fulfil(wish, provider);
        }
        plan.notes.push(provider.name_hint(&plan.zone.zone));
        if let Detection::Several(providers) = &plan.zone.provider {
            let names: Vec<&str> = providers.iter().map(|provider| provider.name).collect();
            plan.notes
                .push(format!("the zone is served by {}: make every record at each of them", names.join(" and ")));
        }
        plan
    }

    /// Adds the proofs that go into this zone, so that one change brings both.
    pub fn prove(&mut self, proofs: &[Proof]) {
        let provider = self.zone.provider.provider();
        for proof in proofs.iter().filter(|proof| proof.name.is_within(&self.zone.zone)) {
            let name = provider.type_name(proof.name.as_str(), &self.zone.zone);
            self.proofs.push(PlannedProof {
                proof: proof.clone(),
                ttl: TTL_AT_FIRST.max(provider.ttl_min),
                typed: Typed { name, value: provider.type_text(&proof.value) },
            });
        }
    }

    /// Adds what the provider offers and what the certificates of the names need to be allowed by.
    pub fn advise(&mut self, domain_connect: Option<DomainConnect>, rules: Vec<(Host, CertificateRules)>) {
        self.notes.extend(domain_connect.as_ref().map(DomainConnect::sentence));
        self.domain_connect = domain_connect;
        for (host, rules) in rules {
            self.notes.extend(rules.sentence(&host.to_string()));
            if !self.certificate_rules.contains(&rules) {
                self.certificate_rules.push(rules);
            }
        }
    }

    fn fulfil(&mut self, wish: &Wish, provider: &'static Provider) {
        if !wish.host.base.is_within(&self.zone.zone) {
            self.refusals.push(Refusal {
                host: wish.host.clone(),
                reason: format!("{} is not in the zone {}", wish.host, self.zone.zone),
                alternatives: vec![format!("run this for {} alone", wish.host.base)],
            });
            return;
        }
        let at_root = wish.host.base == self.zone.zone && !wish.host.wildcard;
        match &wish.aim {
            Aim::Addresses(addresses) => self.addresses(&wish.host, addresses, provider),
            Aim::Host { name, .. } if name == &wish.host.base && !wish.host.wildcard => self.refusals.push(Refusal {
                host: wish.host.clone(),
                reason: format!("{} would lead to itself", wish.host),
                alternatives: Vec::new(),
            }),
            Aim::Host { name, addresses } if at_root => self.at_root(&wish.host, name, addresses, provider),
            Aim::Host { name, .. } => self.name(&wish.host, PlannedKind::Cname, name, None, provider),
        }
    }

    /// A CNAME beside SOA and NS is against the rules of DNS, and hides the domain's mail.
    fn at_root(&mut self, host: &Host, target: &DomainName, addresses: &[IpAddr], provider: &'static Provider) {
        match provider.apex {
            Apex::Flattening => {
                self.name(host, PlannedKind::Cname, target, Some(addresses), provider);
                self.notes.push(format!(
                    "{} takes a CNAME at {} and serves the addresses of {target} instead, so mail and nameservers keep working",
                    provider.name, host
                ));
            }
            Apex::Alias(kind) => {
                self.name(host, PlannedKind::Alias(kind), target, Some(addresses), provider);
                self.notes.push(format!(
                    "a CNAME cannot stand at {host}; {} has {kind} for this, which serves addresses",
                    provider.name
                ));
            }
            Apex::OwnServicesOnly(kind) => {
                let own =
                    format!("{}'s {kind} leads only to its own services, so it does not help here", provider.name);
                self.refuse_at_root(host, target, addresses, vec![own]);
            }
            Apex::AddressesOnly => self.refuse_at_root(host, target, addresses, Vec::new()),
        }
    }

    fn refuse_at_root(&mut self, host: &Host, target: &DomainName, addresses: &[IpAddr], also: Vec<String>) {
        let mut alternatives = also;
        if !addresses.is_empty() {
            let list: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            alternatives.push(format!(
                "A and AAAA records with the addresses that {target} has now ({}); you must change them when they change",
                list.join(", ")
            ));
        }
        alternatives.push(format!("a CNAME at www.{host} to {target}, and a redirect from {host} to www.{host}"));
        alternatives.push(format!(
            "a provider that can serve addresses of another host at the root (ALIAS, ANAME or CNAME flattening), such as {}",
            "Cloudflare, DNSimple, Namecheap, Porkbun or NS1"
        ));
        self.refusals.push(Refusal {
            host: host.clone(),
            reason: format!(
                "a CNAME cannot stand at {host}, the root of the zone: SOA and NS records stand there already, and it would hide \
                 the domain's mail"
            ),
            alternatives,
        });
    }

    fn addresses(&mut self, host: &Host, addresses: &[IpAddr], provider: &'static Provider) {
        for address in addresses {
            let kind = if address.is_ipv4() { PlannedKind::A } else { PlannedKind::Aaaa };
            self.push(PlannedRecord {
                host: host.clone(),
                kind,
                value: PlannedValue::Address(*address),
                served_as: None,
                ttl: TTL_AT_FIRST.max(provider.ttl_min),
                typed: self.typed(host, address.to_string(), provider),
            });
        }
    }

    fn name(
        &mut self,
        host: &Host,
        kind: PlannedKind,
        target: &DomainName,
        served_as: Option<&[IpAddr]>,
        provider: &'static Provider,
    ) {
        self.push(PlannedRecord {
            host: host.clone(),
            kind,
            value: PlannedValue::Name(target.clone()),
            served_as: served_as.map(<[IpAddr]>::to_vec),
            ttl: TTL_AT_FIRST.max(provider.ttl_min),
            typed: self.typed(host, provider.type_target(target), provider),
        });
    }

    fn typed(&self, host: &Host, value: String, provider: &'static Provider) -> Typed {
        Typed { name: provider.type_name(&host.to_string(), &self.zone.zone), value }
    }

    fn push(&mut self, record: PlannedRecord) {
        if !self.records.contains(&record) {
            self.records.push(record);
        }
    }
}

#[cfg(test)]
mod tests;
