//! What a verdict rests on: every server's answer, every parent's delegation and what the site said. Kept with the verdict, so
//! that it can be shown later what was believed; and read again to tell absence from silence.

use std::net::IpAddr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Method;
use super::site::SiteEvidence;
use crate::authority::Security;
use crate::name::DomainName;

/// What the verdict rests on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    pub at: Timestamp,
    pub token: String,
    pub answers: Vec<EvidenceAnswer>,
    /// Whom the domain is delegated to, where that may be the proof.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delegations: Vec<EvidenceDelegation>,
    /// What the site said to this machine, where it was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<SiteEvidence>,
    /// What it said to agents at other places.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sites_elsewhere: Vec<EvidenceSite>,
}

/// One server's answer to one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvidenceAnswer {
    pub vantage_point: String,
    pub name: DomainName,
    pub server: DomainName,
    pub address: IpAddr,
    pub has_proof: bool,
    /// It said nothing: neither that the proof is there nor that it is not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub silent: bool,
    pub security: Security,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet_sha256: Option<String>,
}

/// Whom a domain's parent delegates it to, as one place sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvidenceDelegation {
    pub vantage_point: String,
    /// The zone that the domain is in: the domain itself where it is delegated.
    pub zone: DomainName,
    /// As its parent has them.
    pub nameservers: Vec<DomainName>,
    pub has_proof: bool,
}

/// What the site said to one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvidenceSite {
    pub vantage_point: String,
    #[serde(flatten)]
    pub site: SiteEvidence,
}

impl Evidence {
    /// Whether a proof that is held by `method` is said not to be there any more. Silence says nothing, of a site as little as
    /// of servers.
    pub fn shows_absence(&self, method: Method) -> bool {
        match method {
            Method::DnsTxt | Method::DnsTxtApex | Method::DnsDelegation => self.servers_deny(),
            Method::DnsNameserver => self.delegations.iter().any(|delegation| !delegation.has_proof),
            Method::HttpFile => {
                self.site.iter().chain(self.sites_elsewhere.iter().map(|one| &one.site)).any(SiteEvidence::denies)
            }
        }
    }

    /// At each name where a record may stand, one server that answered does not have it. A name for which nobody answers may
    /// still have it.
    fn servers_deny(&self) -> bool {
        let denied = |name: &DomainName| {
            self.answers.iter().any(|answer| answer.name == *name && !answer.silent && !answer.has_proof)
        };
        !self.answers.is_empty() && self.answers.iter().all(|answer| denied(&answer.name))
    }
}
