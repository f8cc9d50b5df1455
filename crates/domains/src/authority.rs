//! What the authoritative servers of a name say, as far as verification, plans and scans need it: every server's own answer,
//! none merged, none cached. [`Surveyor`] asks with the engine; tests simulate it.

mod surveyor;

use std::net::IpAddr;

use futures::future::{BoxFuture, join_all};
use serde::{Deserialize, Serialize};

use crate::evidence::Evidence;
use crate::name::DomainName;
use crate::seams::VantagePoint;

pub use surveyor::{CachedAnswer, Surveyor};

/// The record types that are asked for here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum RecordKind {
    A,
    Aaaa,
    Caa,
    Cname,
    Mx,
    Ns,
    Soa,
    Txt,
}

impl RecordKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::Aaaa => "AAAA",
            Self::Caa => "CAA",
            Self::Cname => "CNAME",
            Self::Mx => "MX",
            Self::Ns => "NS",
            Self::Soa => "SOA",
            Self::Txt => "TXT",
        }
    }
}

impl std::fmt::Display for RecordKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The value of a record.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RecordValue {
    Address(IpAddr),
    /// CNAME and NS.
    Name(DomainName),
    /// TXT: the strings of one record, which belong together.
    Text(Vec<String>),
    /// Everything else, as zone files write it.
    Other(String),
}

impl std::fmt::Display for RecordValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name(name) => name.fmt(f),
            Self::Text(strings) => write!(f, "\"{}\"", strings.concat()),
            Self::Other(text) => f.write_str(text),
        }
    }
}

/// One record in an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    pub name: DomainName,
    pub kind: RecordKind,
    pub ttl: u32,
    pub value: RecordValue,
}

/// What a server said to one question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Said {
    /// These records; a CNAME may stand among them.
    Records(Vec<Record>),
    /// The name exists and has none of this type.
    NoData,
    /// The name does not exist.
    NoSuchName,
    /// No answer that counts: silence, a refusal, an answer without authority. In words.
    Nothing(String),
}

/// The answer of one server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerAnswer {
    pub server: DomainName,
    pub address: IpAddr,
    pub said: Said,
    /// The version of the zone that it serves, where that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<u32>,
    /// The digest of the packet, so that it can be shown later what was believed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet_sha256: Option<String>,
}

/// The start of authority of a zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Soa {
    pub zone: DomainName,
    /// The TTL of the record itself.
    pub ttl: u32,
    pub primary: DomainName,
    /// The mailbox, its `@` written as a dot.
    pub mailbox: String,
    pub serial: u32,
    pub refresh: u32,
    pub retry: u32,
    pub expire: u32,
    pub minimum: u32,
}

/// Whether signatures prove the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Security {
    Secure,
    Insecure,
    Bogus,
    Indeterminate,
}

/// What all servers of the zone said, seen from one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Survey {
    pub vantage_point: String,
    pub name: DomainName,
    pub kind: RecordKind,
    /// The zone that the name is in.
    pub zone: DomainName,
    /// The zone's nameservers as its parent has them.
    pub nameservers: Vec<DomainName>,
    /// The TTL of the parent's NS records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delegation_ttl: Option<u32>,
    /// The parent's DS records; absent where the parent is not signed and so proves nothing about them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delegation_signers: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soa: Option<Soa>,
    pub security: Security,
    pub answers: Vec<ServerAnswer>,
    /// Nameservers inside the zone for which the parent has other addresses than the zone itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wrong_glue: Vec<WrongGlue>,
}

/// A survey of a domain's nameservers with the exchanges behind it.
#[derive(Clone, Debug)]
pub struct Witnessed {
    pub survey: Survey,
    pub witness: Witness,
}

/// The exchanges behind a survey of nameservers.
#[derive(Clone, Debug, Default)]
pub struct Witness {
    /// The parent's referral.
    pub parent: Option<Evidence>,
    /// What each server says to the question for the nameservers.
    pub servers: Vec<Evidence>,
    /// What each server says to the question for the SOA.
    pub versions: Vec<Evidence>,
    /// Nameservers that are aliases, and who says so.
    pub aliases: Vec<(DomainName, Evidence)>,
}

/// A nameserver whose addresses the parent has wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WrongGlue {
    pub server: DomainName,
    /// What the parent sends people to.
    pub parent: Vec<IpAddr>,
    /// Where the server is by its own zone.
    pub zone: Vec<IpAddr>,
}

impl Survey {
    /// The servers that answered at all.
    pub fn answered(&self) -> impl Iterator<Item = &ServerAnswer> {
        self.answers.iter().filter(|answer| !matches!(answer.said, Said::Nothing(_)))
    }

    /// Every record that any server has, each once.
    pub fn records(&self) -> Vec<&Record> {
        let mut records: Vec<&Record> = Vec::new();
        for answer in &self.answers {
            let Said::Records(here) = &answer.said else { continue };
            for record in here {
                if !records.iter().any(|known| known.kind == record.kind && known.value == record.value) {
                    records.push(record);
                }
            }
        }
        records
    }
}

/// Asks authoritative servers.
pub trait Authorities: Send + Sync {
    /// Asks every server of the zone that `name` is in, from `from`. An error says that no zone could be found.
    fn survey<'a>(
        &'a self,
        from: &'a VantagePoint,
        name: &'a DomainName,
        kind: RecordKind,
    ) -> BoxFuture<'a, Result<Survey, String>>;

    /// The same about several names for somebody who waits and has it looked at again and again: the way to a zone is asked
    /// once for all questions about it, with what other looks have learnt about registries and nameservers.
    fn seek<'a>(
        &'a self,
        from: &'a VantagePoint,
        questions: &'a [(DomainName, RecordKind)],
    ) -> BoxFuture<'a, Vec<Result<Survey, String>>> {
        Box::pin(join_all(questions.iter().map(|(name, kind)| self.survey(from, name, *kind))))
    }

    /// Asks every server of a domain for its NS records and keeps what shows how they do.
    fn examine<'a>(
        &'a self,
        from: &'a VantagePoint,
        domain: &'a DomainName,
    ) -> BoxFuture<'a, Result<Witnessed, String>> {
        Box::pin(async move {
            let survey = self.survey(from, domain, RecordKind::Ns).await?;
            Ok(Witnessed { survey, witness: Witness::default() })
        })
    }

    /// Asks every server of a domain for its NS records, as one of many looks of a watch: politely, with what other looks have
    /// learnt about registries and nameservers.
    fn watch<'a>(&'a self, from: &'a VantagePoint, domain: &'a DomainName) -> BoxFuture<'a, Result<Survey, String>> {
        self.survey(from, domain, RecordKind::Ns)
    }
}
