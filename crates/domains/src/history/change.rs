//! What differs between two observations of a domain: typed, with the old and the new value and how much it matters. Changes
//! that belong together are one incident, so that a transfer is one message and not five.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::name::DomainName;
use crate::registration::{Concern, Moment, Registration};

/// What is known of a domain at one time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Observation {
    pub at: Timestamp,
    /// What the registry says, when it was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration: Option<Registration>,
    /// What the parent zone delegates to, when it was asked; empty when the name is not delegated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delegated_to: Option<Vec<DomainName>>,
    /// DS records of the parent zone, as zone files write them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delegation_signers: Option<Vec<String>>,
    /// Whose servers these are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns_provider: Option<String>,
}

/// What can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Field {
    Registrar,
    Handle,
    Created,
    Expiration,
    Modified,
    StatusFlags,
    Nameservers,
    Delegation,
    DelegationSigners,
    Signing,
    DnsProvider,
}

impl Field {
    /// What it is called in sentences.
    pub fn words(self) -> &'static str {
        match self {
            Self::Registrar => "registrar",
            Self::Handle => "registry's number",
            Self::Created => "creation date",
            Self::Expiration => "expiration date",
            Self::Modified => "modification date",
            Self::StatusFlags => "status flags",
            Self::Nameservers => "nameservers at the registry",
            Self::Delegation => "nameservers in the parent zone",
            Self::DelegationSigners => "DS records",
            Self::Signing => "DNSSEC",
            Self::DnsProvider => "DNS provider",
        }
    }
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    pub at: Timestamp,
    pub field: Field,
    pub old: String,
    pub new: String,
    pub concern: Concern,
}

impl Change {
    /// What the owner reads.
    pub fn sentence(&self) -> String {
        let shown = |value: &str| if value.is_empty() { "none".to_owned() } else { value.to_owned() };
        format!("{} changed from {} to {}", self.field.words(), shown(&self.old), shown(&self.new))
    }
}

/// Changes that have one cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Incident {
    pub summary: String,
    pub concern: Concern,
    pub changes: Vec<Change>,
    /// The name may be somebody else's now: proofs of ownership have to be brought again.
    pub new_owner_possible: bool,
}

/// Everything that differs. What was not observed on either side is no change.
pub fn changes(old: &Observation, new: &Observation) -> Vec<Change> {
    let mut found = Vec::new();
    if let (Some(before), Some(after)) = (&old.registration, &new.registration) {
        registration(before, after, new.at, &mut found);
    }
    let mut tell = |field: Field, before: String, after: String, concern: Concern| {
        if before != after {
            found.push(Change { at: new.at, field, old: before, new: after, concern });
        }
    };
    if let (Some(before), Some(after)) = (&old.delegated_to, &new.delegated_to) {
        // A name that is no longer delegated is gone from the internet.
        let concern = if after.is_empty() { Concern::Critical } else { Concern::Warning };
        tell(Field::Delegation, sorted(before), sorted(after), concern);
    }
    if let (Some(before), Some(after)) = (&old.delegation_signers, &new.delegation_signers) {
        tell(Field::DelegationSigners, sorted(before), sorted(after), Concern::Warning);
    }
    if let (Some(before), Some(after)) = (&old.dns_provider, &new.dns_provider) {
        tell(Field::DnsProvider, before.clone(), after.clone(), Concern::Warning);
    }
    found
}

fn sorted<T: ToString>(items: &[T]) -> String {
    let items: BTreeSet<String> = items.iter().map(ToString::to_string).collect();
    items.into_iter().collect::<Vec<_>>().join(", ")
}

fn registration(old: &Registration, new: &Registration, at: Timestamp, found: &mut Vec<Change>) {
    let mut tell = |field: Field, before: String, after: String, concern: Concern| {
        if before != after {
            found.push(Change { at, field, old: before, new: after, concern });
        }
    };
    // A field that one answer leaves out is no change: registrar and registry answers differ in what they have.
    if let (Some(before), Some(after)) = (&old.registrar, &new.registrar)
        && !before.is(after)
    {
        tell(Field::Registrar, before.name.clone(), after.name.clone(), Concern::Critical);
    }
    if let (Some(before), Some(after)) = (&old.handle, &new.handle) {
        tell(Field::Handle, before.clone(), after.clone(), Concern::Critical);
    }
    let mut date =
        |field: Field, before: &Option<Moment>, after: &Option<Moment>, concern: fn(&Moment, &Moment) -> Concern| {
            if let (Some(before), Some(after)) = (before, after)
                && before != after
            {
                tell(field, before.to_string(), after.to_string(), concern(before, after));
            }
        };
    date(Field::Created, &old.created, &new.created, |_, _| Concern::Critical);
    date(
        Field::Expiration,
        &old.expires,
        &new.expires,
        |before, after| {
            if after > before { Concern::None } else { Concern::Warning }
        },
    );
    date(Field::Modified, &old.modified, &new.modified, |_, _| Concern::Notice);
    let codes =
        |registration: &Registration| registration.statuses.iter().map(|flag| flag.code.clone()).collect::<Vec<_>>();
    tell(Field::StatusFlags, sorted(&codes(old)), sorted(&codes(new)), flags_concern(old, new));
    let servers = |registration: &Registration| {
        registration.nameservers.iter().map(|server| server.name.clone()).collect::<Vec<_>>()
    };
    let concern = if new.nameservers.is_empty() { Concern::Critical } else { Concern::Warning };
    tell(Field::Nameservers, sorted(&servers(old)), sorted(&servers(new)), concern);
    if old.source == new.source {
        tell(Field::Signing, old.signing.to_string(), new.signing.to_string(), Concern::Warning);
    }
}

/// Flags that came are as bad as they are; locks that went open the door.
fn flags_concern(old: &Registration, new: &Registration) -> Concern {
    let has = |registration: &Registration, code: &str| registration.statuses.iter().any(|flag| flag.code == code);
    let came = new
        .statuses
        .iter()
        .filter(|flag| !has(old, &flag.code))
        .map(|flag| flag.concern)
        .max()
        .unwrap_or(Concern::None);
    let unlocked = old.statuses.iter().any(|flag| {
        flag.code.ends_with("TransferProhibited")
            && !new.statuses.iter().any(|other| other.code.ends_with("TransferProhibited"))
    });
    came.max(if unlocked { Concern::Warning } else { Concern::Notice })
}

/// Groups changes by what explains them.
pub fn incidents(domain: &DomainName, changes: Vec<Change>) -> Vec<Incident> {
    if changes.is_empty() {
        return Vec::new();
    }
    let has = |field: Field| changes.iter().any(|change| change.field == field);
    let worst = changes.iter().map(|change| change.concern).max().unwrap_or(Concern::None);
    let find = |field: Field| changes.iter().find(|change| change.field == field);
    let (summary, new_owner_possible) = if has(Field::Created) || has(Field::Handle) {
        (format!("{domain} was deleted and registered anew: it may belong to somebody else"), true)
    } else if let Some(change) = find(Field::Registrar) {
        (
            format!(
                "{domain} moved from {} to {}: if you did not ask for this, call your registrar now",
                change.old, change.new
            ),
            true,
        )
    } else if let Some(change) =
        changes.iter().find(|change| change.field == Field::Delegation && change.new.is_empty())
    {
        (format!("{domain} is no longer delegated: it is gone from the internet (was {})", change.old), false)
    } else if let Some(change) = find(Field::DnsProvider) {
        (format!("{domain} moved its DNS from {} to {}", change.old, change.new), false)
    } else if let Some(change) = find(Field::Delegation).or_else(|| find(Field::Nameservers)) {
        (format!("the nameservers of {domain} changed from {} to {}", change.old, change.new), false)
    } else if let Some(change) = find(Field::Expiration).filter(|change| change.concern == Concern::None) {
        (format!("{domain} was renewed until {}", change.new), false)
    } else if let [change] = changes.as_slice() {
        (format!("{domain}: {}", change.sentence()), false)
    } else {
        let fields: Vec<&str> = changes.iter().map(|change| change.field.words()).collect();
        (format!("{domain}: {} changed", fields.join(", ")), false)
    };
    vec![Incident { summary, concern: worst, changes, new_owner_possible }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registration::{Facts, Registrar, Source, rdap};

    fn name(text: &str) -> DomainName {
        DomainName::parse(text).expect("a name")
    }

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    fn facts() -> Facts {
        let path = format!("{}/testdata/registration/q7.io.rdap.json", env!("CARGO_MANIFEST_DIR"));
        rdap::parse(&std::fs::read(path).expect("a fixture"), &name("q7.io")).expect("facts")
    }

    fn observed(facts: Facts) -> Observation {
        let now = at("2026-11-16T10:00:00Z");
        let delegated_to = facts.nameservers.iter().map(|server| server.name.clone()).collect();
        Observation {
            at: now,
            registration: Some(Registration::merge(&name("q7.io"), Source::Rdap, Vec::new(), facts, None, now)),
            delegated_to: Some(delegated_to),
            delegation_signers: Some(Vec::new()),
            dns_provider: Some("DigitalOcean".into()),
        }
    }

    /// Incidents after the facts were changed, each with its concern and the fields in it.
    fn after(change: impl FnOnce(&mut Facts)) -> Vec<(String, Concern, Vec<Field>)> {
        let mut changed = facts();
        change(&mut changed);
        let found = changes(&observed(facts()), &observed(changed));
        let fields = |incident: &Incident| incident.changes.iter().map(|change| change.field).collect();
        incidents(&name("q7.io"), found)
            .iter()
            .map(|incident| (incident.summary.clone(), incident.concern, fields(incident)))
            .collect()
    }

    #[test]
    fn nothing_changed_is_nothing_told() {
        assert_eq!(after(|_| ()), []);
        // The same registrar spelled in another way.
        assert_eq!(after(|facts| facts.registrar = Registrar::new(Some(1068), Some("NameCheap, Inc."))), []);
    }

    #[test]
    fn a_change_has_the_old_and_the_new_value() {
        let mut changed = facts();
        changed.modified = Moment::parse("2026-11-15T00:00:00Z");
        let found = changes(&observed(facts()), &observed(changed));
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].sentence(),
            "modification date changed from 2019-08-17T16:33:24.36Z to 2026-11-15T00:00:00Z"
        );
    }

    #[test]
    fn a_transfer_is_one_critical_incident() {
        let told = after(|facts| {
            facts.registrar = Registrar::new(Some(81), Some("Gandi SAS"));
            facts.modified = Moment::parse("2026-11-15T00:00:00Z");
            facts.statuses.retain(|flag| !flag.code.ends_with("TransferProhibited"));
            facts.nameservers.truncate(1);
        });
        assert_eq!(told.len(), 1);
        assert_eq!(
            told[0].0,
            "q7.io moved from NAMECHEAP INC to Gandi SAS: if you did not ask for this, call your registrar now"
        );
        assert_eq!(told[0].1, Concern::Critical);
        assert_eq!(
            told[0].2,
            [Field::Registrar, Field::Modified, Field::StatusFlags, Field::Nameservers, Field::Delegation]
        );
    }

    #[test]
    fn a_renewal_is_good_news_and_a_hold_is_not() {
        let told = after(|facts| facts.expires = Moment::parse("2030-07-06T13:58:57Z"));
        assert_eq!((told[0].0.as_str(), told[0].1), ("q7.io was renewed until 2030-07-06T13:58:57Z", Concern::None));
        let told = after(|facts| facts.statuses = crate::registration::status::flags(["server hold"]));
        assert_eq!(told[0].1, Concern::Critical);
    }

    #[test]
    fn a_lock_that_is_taken_off_is_a_warning() {
        let told = after(|facts| facts.statuses.retain(|flag| !flag.code.ends_with("TransferProhibited")));
        assert_eq!(told[0].1, Concern::Warning);
    }

    #[test]
    fn a_name_registered_anew_may_be_somebody_elses() {
        let mut changed = facts();
        changed.created = Moment::parse("2026-11-01T00:00:00Z");
        changed.handle = Some("another".into());
        let found = incidents(&name("q7.io"), changes(&observed(facts()), &observed(changed)));
        assert!(found[0].new_owner_possible);
        assert_eq!(found[0].summary, "q7.io was deleted and registered anew: it may belong to somebody else");
    }

    #[test]
    fn a_name_that_is_not_delegated_any_more_is_gone() {
        let mut gone = observed(facts());
        gone.delegated_to = Some(Vec::new());
        gone.registration = None;
        let found = incidents(&name("q7.io"), changes(&observed(facts()), &gone));
        assert_eq!(found[0].concern, Concern::Critical);
        assert!(found[0].summary.starts_with("q7.io is no longer delegated"), "{}", found[0].summary);
    }

    #[test]
    fn what_was_not_asked_is_no_change() {
        let mut partial = observed(facts());
        partial.registration = None;
        partial.delegation_signers = None;
        assert_eq!(changes(&observed(facts()), &partial), []);
    }
}
