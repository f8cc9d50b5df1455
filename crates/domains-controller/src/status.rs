//! `Domain` as the controller reads and writes it.

use bailiwick_domains::history::{Change, ExpiryState, Observation};
use bailiwick_domains::verification::standing::Standing;
use bailiwick_domains::verification::{Challenge, Evidence};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What is claimed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DomainSpec {
    /// The domain.
    pub name: String,
    /// What the owner says of renewal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_renewal: Option<String>,
}

/// What is observed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DomainStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registered_name: Option<String>,
    #[serde(default, rename = "registrarIANAID", skip_serializing_if = "Option::is_none")]
    pub registrar_iana_id: Option<u32>,
    #[serde(default, rename = "registrarIANAName", skip_serializing_if = "Option::is_none")]
    pub registrar_iana_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_date: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_date: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expiration_date: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub days_until_expiration: Option<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nameservers: Vec<String>,
    #[serde(default, rename = "DNSSEC", skip_serializing_if = "Option::is_none")]
    pub dnssec: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub status_flags: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns_provider: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration_source: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_scan: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_change_detected: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification: Option<VerificationStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observation: Option<Observation>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expiry: Option<ExpiryState>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Change>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// The proof of ownership.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VerificationStatus {
    pub challenge: Challenge,
    /// What to create, as people read it.
    pub record: DnsRecord,
    /// The same at the domain itself.
    pub apex_record: DnsRecord,
    /// Or a file.
    pub http: HttpFile,
    pub standing: Standing,
    /// What the last proof rests on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
}

/// A record to create.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DnsRecord {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub content: String,
}

/// A file to put on the site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpFile {
    pub url: String,
    pub body: String,
}

impl VerificationStatus {
    /// A claim that nobody has proved yet.
    pub fn new(challenge: Challenge) -> Self {
        let txt = |name: String, content: String| DnsRecord { name, kind: "TXT".to_owned(), content };
        Self {
            record: txt(challenge.record_name().to_string(), challenge.record_value().to_owned()),
            apex_record: txt(challenge.domain.to_string(), challenge.apex_value()),
            http: HttpFile {
                url: format!("http://{}{}", challenge.domain, challenge.http_path()),
                body: challenge.http_body().to_owned(),
            },
            standing: Standing::Unproved { since: challenge.issued_at },
            evidence: None,
            challenge,
        }
    }
}

/// A condition of the object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    pub reason: String,
    pub message: String,
    pub last_transition_time: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

impl DomainStatus {
    /// The status of a condition.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.kind == kind)
    }

    /// Sets a condition; its time moves only when its status does.
    pub fn set_condition(&mut self, kind: &str, status: &str, reason: &str, message: String, now: Timestamp) {
        let last_transition_time = match self.condition(kind) {
            Some(before) if before.status == status => before.last_transition_time,
            _ => now,
        };
        let condition = Condition {
            kind: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message,
            last_transition_time,
            observed_generation: self.observed_generation,
        };
        match self.conditions.iter_mut().find(|known| known.kind == kind) {
            Some(known) => *known = condition,
            None => self.conditions.push(condition),
        }
    }
}
