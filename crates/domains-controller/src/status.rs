//! `Domain` as the controller reads and writes it.

use bailiwick_domains::history::record::{RecordState, WantedRecord};
use bailiwick_domains::history::{Change, ExpiryState, Field, HISTORY_MAX, OWNERSHIP_HISTORY_MAX, Observation};
use bailiwick_domains::quote::{cut, quote};
use bailiwick_domains::registration::Concern;
use bailiwick_domains::verification::standing::Standing;
use bailiwick_domains::verification::{Challenge, Evidence, Scope};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::seal::Seal;

/// What is claimed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DomainSpec {
    /// The domain.
    pub name: String,
    /// What the owner says of renewal.
    #[serde(default)]
    pub auto_renewal: Renewal,
    /// What the proof is for.
    #[serde(default)]
    pub verification: VerificationSpec,
    /// Records that should stay as they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub records: Vec<WantedRecord>,
}

/// Whether a registration renews itself, as its owner says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Renewal {
    Enabled,
    Disabled,
    #[default]
    Unknown,
}

/// What a proof is for, and whose.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VerificationSpec {
    /// The name alone, one level below it, or everything below it.
    pub scope: ProofScope,
    /// A label in front of the challenge's name that keeps several accounts apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account_label: Option<String>,
}

/// How far a proof reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProofScope {
    Host,
    Wildcard,
    #[default]
    Domain,
}

impl From<ProofScope> for Scope {
    fn from(scope: ProofScope) -> Self {
        match scope {
            ProofScope::Host => Self::Host,
            ProofScope::Wildcard => Self::Wildcard,
            ProofScope::Domain => Self::Domain,
        }
    }
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
    /// When the registry was last asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration_observed: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_renewal: Option<RenewalStatus>,
    /// When it was looked at for the first time: nothing is known of what was before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_scan: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_scan: Option<Timestamp>,
    /// When it is looked at after `last_scan`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_check: Option<Timestamp>,
    /// The value of the rescan annotation that was obeyed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_rescan: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_change_detected: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification: Option<VerificationStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observation: Option<Observation>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expiry: Option<ExpiryState>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub records: Vec<RecordState>,
    /// What is the matter, and since when.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub troubles: Vec<Trouble>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Change>,
    /// Events that are still to be written: kept here with what they tell, so that none is lost or told twice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unannounced: Vec<Announcement>,
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
    /// Instead of the first one: an alias into a zone of the service, where it has one. It may stay for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cname_record: Option<DnsRecord>,
    /// Or a delegation, at the registrar or in the zone above: a nameserver of the service's, where it has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ns_record: Option<DnsRecord>,
    /// Or a file.
    pub http: HttpFile,
    pub standing: Standing,
    /// What the last proof rests on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
    /// Shows that the service wrote this: without it, or when it does not fit, none of this is believed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal: Option<Seal>,
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
        let record = |kind: &str, name: String, content: String| DnsRecord { name, kind: kind.to_owned(), content };
        let txt = |name: String, content: String| record("TXT", name, content);
        Self {
            cname_record: challenge
                .delegation_target()
                .map(|target| record("CNAME", challenge.record_name().to_string(), target.to_string())),
            ns_record: challenge
                .nameserver_target()
                .map(|target| record("NS", challenge.domain.to_string(), target.to_string())),
            record: txt(challenge.record_name().to_string(), challenge.record_value().to_owned()),
            apex_record: txt(challenge.domain.to_string(), challenge.apex_value()),
            http: HttpFile {
                url: format!("http://{}{}", challenge.domain, challenge.http_path()),
                body: challenge.http_body().to_owned(),
            },
            standing: Standing::Unproved { since: challenge.issued_at },
            evidence: None,
            seal: None,
            challenge,
        }
    }
}

impl VerificationStatus {
    /// Whether the token is that of a proof that has ended: it counts no more, and another one is given.
    pub(crate) fn has_lapsed_token(&self) -> bool {
        matches!(&self.standing, Standing::Lapsed { at, .. } if self.challenge.issued_at < *at)
    }
}

/// Whether the registration renews itself: what the owner says, and what the registry lets see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RenewalStatus {
    pub declared: Renewal,
    /// `autoRenewPeriod` in the days after a renewal, else `unknown`: registries publish nothing more.
    pub observed: String,
}

/// Something that is the matter with a domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Trouble {
    /// What it is about, whatever words it has.
    pub topic: String,
    pub concern: Concern,
    pub text: String,
    pub since: Timestamp,
}

/// An Event that is still to be written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Announcement {
    /// The Event's name: the same however often it is tried.
    pub name: String,
    pub at: Timestamp,
    pub concern: Concern,
    pub reason: String,
    pub note: String,
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

/// What the definition takes of a condition's message.
const MESSAGE_BYTES_MAX: usize = 32_768;

impl DomainStatus {
    /// Writes changes into the history, the latest first.
    pub fn remember(&mut self, changes: impl IntoIterator<Item = Change>) {
        let bounded = |change: Change| Change { old: quote(&change.old), new: quote(&change.new), ..change };
        self.history.splice(..0, changes.into_iter().map(bounded));
        let (mut of_owners, mut others) = (0, 0);
        self.history.retain(|change| {
            let (count, most) = match change.field {
                Field::Ownership => (&mut of_owners, OWNERSHIP_HISTORY_MAX),
                _ => (&mut others, HISTORY_MAX),
            };
            *count += 1;
            *count <= most
        });
    }

    /// The same without the times of looks, which alone are no reason to write.
    pub(crate) fn without_times(&self) -> Self {
        let mut status = Self { last_scan: None, next_check: None, registration_observed: None, ..self.clone() };
        if let Some(observation) = &mut status.observation {
            observation.at = Timestamp::UNIX_EPOCH;
            if let Some(registration) = &mut observation.registration {
                registration.observed_at = Timestamp::UNIX_EPOCH;
            }
        }
        for right in status.records.iter_mut().filter_map(|record| record.last_right.as_mut()) {
            right.at = Timestamp::UNIX_EPOCH;
        }
        status
    }

    /// The status of a condition.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.kind == kind)
    }

    /// Whether the name counts as the claimant's.
    pub fn holds(&self) -> bool {
        self.verification.as_ref().is_some_and(|verification| verification.standing.holds())
    }

    /// Sets a condition; its time moves only when its status does.
    pub fn set_condition(&mut self, kind: &str, status: &str, reason: &str, message: String, now: Timestamp) {
        let condition = Condition {
            kind: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message,
            last_transition_time: now,
            observed_generation: self.observed_generation,
        };
        condition.put_into(&mut self.conditions);
    }
}

impl Condition {
    /// Takes the place of the one of its kind; its time moves only when its status does.
    pub(crate) fn put_into(mut self, conditions: &mut Vec<Self>) {
        self.message = cut(self.message, MESSAGE_BYTES_MAX);
        match conditions.iter_mut().find(|known| known.kind == self.kind) {
            Some(known) => {
                if known.status == self.status {
                    self.last_transition_time = known.last_transition_time;
                }
                *known = self;
            }
            None => conditions.push(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(field: Field, number: usize) -> Change {
        Change::new(Timestamp::UNIX_EPOCH, field, String::new(), number.to_string(), Concern::Warning)
    }

    #[test]
    fn trouble_that_comes_and_goes_does_not_wash_away_who_had_the_domain() {
        let mut status = DomainStatus::default();
        status.remember([change(Field::Ownership, 1)]);
        for number in 0..1_000 {
            status.remember([change(Field::Health, number)]);
        }
        status.remember([change(Field::Ownership, 2)]);
        let of_owners: Vec<&str> =
            status.history.iter().filter(|one| one.field == Field::Ownership).map(|one| one.new.as_str()).collect();
        assert_eq!(of_owners, ["2", "1"], "the latest first");
        assert_eq!(status.history.len(), HISTORY_MAX + 2);
        assert_eq!(status.history[1].new, "999");
        for number in 0..1_000 {
            status.remember([change(Field::Ownership, number)]);
        }
        assert_eq!(status.history.len(), HISTORY_MAX + OWNERSHIP_HISTORY_MAX, "both are bounded");
    }

    #[test]
    fn texts_of_strangers_fit_the_definition() {
        let mut status = DomainStatus::default();
        let giant = "é".repeat(60_000);
        status.set_condition("Verified", "False", "RecordNotFound", giant.clone(), Timestamp::UNIX_EPOCH);
        assert!(status.condition("Verified").is_some_and(|one| one.message.len() <= MESSAGE_BYTES_MAX));
        status.remember([Change { old: giant.clone(), new: giant, ..change(Field::Record, 0) }]);
        assert!(status.history[0].old.len() < 2_000 && status.history[0].new.len() < 2_000);
    }
}
