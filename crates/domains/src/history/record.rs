//! How the records stand that the owner of a domain wants to stay as they are.

use std::net::IpAddr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::authority::RecordKind;

/// A record as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WantedRecord {
    /// The whole name.
    pub name: String,
    #[serde(rename = "type")]
    pub kind: RecordKind,
    /// As a zone file has it; of several values one object each.
    pub value: String,
}

/// How a record stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordState {
    #[serde(flatten)]
    pub wanted: WantedRecord,
    pub state: Drift,
    /// What is there instead.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub found: Vec<String>,
    /// Servers that do not have it, where others do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<String>,
    /// Since when it stands so.
    pub since: Timestamp,
    /// When it was last seen as it should be. Moved with other changes only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_right: Option<LastRight>,
}

/// When a record was as it should be, and what showed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastRight {
    pub at: Timestamp,
    /// The packets in which it was first seen so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<RecordEvidence>,
}

/// A server's packet that had a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordEvidence {
    pub server: String,
    pub address: IpAddr,
    pub packet_sha256: String,
}

/// Whether a record is as wished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Drift {
    Match,
    Missing,
    Wrong,
    /// Some servers have it.
    Partial,
    /// No server answered.
    Unknown,
}

impl RecordState {
    /// The record as the history writes it.
    pub fn words(&self) -> String {
        let WantedRecord { name, kind, value } = &self.wanted;
        match self.state {
            Drift::Match => format!("{name} {kind} {value}"),
            Drift::Wrong => format!("{name} {kind} {}", self.found.join(", ")),
            Drift::Missing => format!("{name} {kind} is gone"),
            Drift::Partial => format!("{name} {kind} {value}, not on {}", self.without.join(", ")),
            Drift::Unknown => format!("{name} {kind} is unknown"),
        }
    }

    /// The same in a sentence.
    pub fn sentence(&self) -> String {
        let WantedRecord { name, kind, value } = &self.wanted;
        match self.state {
            Drift::Match => format!("{name} {kind} is {value}, as it should be"),
            Drift::Missing => format!("{name} {kind} {value} is gone"),
            Drift::Wrong => format!("{name} {kind} is {} and should be {value}", self.found.join(", ")),
            Drift::Partial => format!("{name} {kind} {value} is not on {}", self.without.join(", ")),
            Drift::Unknown => format!("{name} {kind}: no server answers"),
        }
    }
}
