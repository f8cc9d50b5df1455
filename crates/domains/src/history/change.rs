//! What differs between two observations of a domain: typed, with the old and the new value and how much it matters. Changes
//! that belong together are one incident, so that a transfer is one message and not five.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::name::DomainName;
use crate::registration::{Concern, Moment, Registrar, Registration, StatusFlag};

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
    /// What is the matter with it.
    Health,
    /// Who has proved it.
    Ownership,
    /// A record that should stay as it is.
    Record,
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
            Self::Health => "health",
            Self::Ownership => "ownership",
            Self::Record => "record",
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
    /// Of a trouble that has ended: since when it was so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

impl Change {
    pub fn new(at: Timestamp, field: Field, old: String, new: String, concern: Concern) -> Self {
        Self { at, field, old, new, concern, since: None }
    }

    /// What the owner reads.
    pub fn sentence(&self) -> String {
        let shown = |value: &str| if value.is_empty() { "none".to_owned() } else { value.to_owned() };
        let mut told = format!("{} changed from {} to {}", self.field.words(), shown(&self.old), shown(&self.new));
        if self.field == Field::StatusFlags {
            for (what, flag) in self.flags() {
                let advice =
                    flag.advice.filter(|_| what == "set").map(|advice| format!("; {advice}")).unwrap_or_default();
                told.push_str(&format!(" ({} is {what}: {}{advice})", flag.code, flag.meaning));
            }
        }
        told
    }

    /// The flags that came and went, each with what became of it.
    fn flags(&self) -> Vec<(&'static str, StatusFlag)> {
        let codes = |list: &str| list.split(SEPARATOR).filter_map(StatusFlag::parse).collect::<Vec<_>>();
        let (old, new) = (codes(&self.old), codes(&self.new));
        let (came, went): (Vec<_>, Vec<_>) = (
            new.iter().filter(|flag| !old.contains(flag)).cloned().collect(),
            old.iter().filter(|flag| !new.contains(flag)).cloned().collect(),
        );
        let came = came.into_iter().map(|flag| ("set", flag));
        came.chain(went.into_iter().map(|flag| ("no longer set", flag))).collect()
    }
}

/// Between the items of a value that is a list.
const SEPARATOR: &str = ", ";

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
            found.push(Change::new(new.at, field, before, after, concern));
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

/// Stands in the history for a value that nobody had told.
pub const UNKNOWN: &str = "unknown";

impl Observation {
    /// What is known, field by field, in the words of changes.
    pub fn values(&self) -> BTreeMap<Field, String> {
        let mut values = BTreeMap::new();
        if let Some(registration) = &self.registration {
            let moments = [
                (Field::Created, &registration.created),
                (Field::Expiration, &registration.expires),
                (Field::Modified, &registration.modified),
            ];
            values.extend(moments.into_iter().filter_map(|(field, at)| Some((field, at.as_ref()?.to_string()))));
            values.extend(registration.registrar.as_ref().map(|one| (Field::Registrar, one.name.clone())));
            values.extend(registration.handle.as_ref().map(|handle| (Field::Handle, handle.clone())));
            values.insert(Field::StatusFlags, sorted(&codes(registration)));
            values.insert(Field::Nameservers, sorted(&servers(registration)));
            values.insert(Field::Signing, registration.signing.to_string());
        }
        values.extend(self.delegated_to.as_ref().map(|servers| (Field::Delegation, sorted(servers))));
        values.extend(self.delegation_signers.as_ref().map(|keys| (Field::DelegationSigners, sorted(keys))));
        values.extend(self.dns_provider.as_ref().map(|provider| (Field::DnsProvider, provider.clone())));
        values
    }
}

/// What is known for the first time, or is told no more: nothing to tell anybody, but whoever asks later what was known needs it.
/// What RDAP and WHOIS tell and leave out is not compared.
pub fn learned(old: &Observation, new: &Observation) -> Vec<Change> {
    let same_source = match (&old.registration, &new.registration) {
        (Some(before), Some(after)) => Likeness::of(before, after) == Likeness::SameSource,
        _ => true,
    };
    let (before, after) = (old.values(), new.values());
    let fields: BTreeSet<Field> = before.keys().chain(after.keys()).copied().collect();
    let comparable = |field: &Field| {
        same_source || matches!(field, Field::Delegation | Field::DelegationSigners | Field::DnsProvider)
    };
    let learned = fields.into_iter().filter(comparable).filter_map(|field| {
        let (was, is) = match (before.get(&field), after.get(&field)) {
            (None, Some(value)) => (UNKNOWN.to_owned(), value.clone()),
            (Some(value), None) => (value.clone(), UNKNOWN.to_owned()),
            _ => return None,
        };
        Some(Change::new(new.at, field, was, is, Concern::None))
    });
    learned.collect()
}

fn codes(registration: &Registration) -> Vec<String> {
    registration.statuses.iter().map(|flag| flag.code.clone()).collect()
}

fn servers(registration: &Registration) -> Vec<DomainName> {
    registration.nameservers.iter().map(|server| server.name.clone()).collect()
}

fn sorted<T: ToString>(items: &[T]) -> String {
    let items: BTreeSet<String> = items.iter().map(ToString::to_string).collect();
    items.into_iter().collect::<Vec<_>>().join(SEPARATOR)
}

/// Dates of different sources that are no further apart are the same: one has seconds and one the day alone, in a time zone of
/// its own. A name that was registered anew is years younger.
const SAME_DATE: SignedDuration = SignedDuration::from_hours(48);

/// What of two answers of registries can be compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Likeness {
    /// Both came the same way: every field is written alike.
    SameSource,
    /// One is RDAP's and one WHOIS', because the other did not answer: names, numbers and flags are spelled in two ways, and
    /// a difference may be one of spelling. It must never read as another owner.
    OtherSource,
}

impl Likeness {
    fn of(old: &Registration, new: &Registration) -> Self {
        if old.source == new.source { Self::SameSource } else { Self::OtherSource }
    }

    fn same_registrar(self, before: &Registrar, after: &Registrar) -> bool {
        match (self, before.iana_id, after.iana_id) {
            (Self::SameSource, ..) | (Self::OtherSource, Some(_), Some(_)) => before.is(after),
            (Self::OtherSource, ..) => true,
        }
    }

    fn same_date(self, before: &Moment, after: &Moment) -> bool {
        match self {
            Self::SameSource => before == after,
            Self::OtherSource => before.at().duration_since(after.at()).abs() < SAME_DATE,
        }
    }
}

fn registration(old: &Registration, new: &Registration, at: Timestamp, found: &mut Vec<Change>) {
    let likeness = Likeness::of(old, new);
    let mut tell = |field: Field, before: String, after: String, concern: Concern| {
        if before != after {
            found.push(Change::new(at, field, before, after, concern));
        }
    };
    // A field that one answer leaves out is no change: registrar and registry answers differ in what they have.
    if let (Some(before), Some(after)) = (&old.registrar, &new.registrar)
        && !likeness.same_registrar(before, after)
    {
        tell(Field::Registrar, before.name.clone(), after.name.clone(), Concern::Critical);
    }
    if let (Some(before), Some(after), Likeness::SameSource) = (&old.handle, &new.handle, likeness) {
        tell(Field::Handle, before.clone(), after.clone(), Concern::Critical);
    }
    let mut date =
        |field: Field, before: &Option<Moment>, after: &Option<Moment>, concern: fn(&Moment, &Moment) -> Concern| {
            if let (Some(before), Some(after)) = (before, after)
                && !likeness.same_date(before, after)
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
    if likeness == Likeness::SameSource {
        tell(Field::StatusFlags, sorted(&codes(old)), sorted(&codes(new)), flags_concern(old, new));
        tell(Field::Signing, old.signing.to_string(), new.signing.to_string(), Concern::Warning);
    }
    let both_listed = !old.nameservers.is_empty() && !new.nameservers.is_empty();
    if likeness == Likeness::SameSource || both_listed {
        let concern = if new.nameservers.is_empty() { Concern::Critical } else { Concern::Warning };
        tell(Field::Nameservers, sorted(&servers(old)), sorted(&servers(new)), concern);
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

/// Groups changes by what explains them. The sentence begins with the cause and has every value that changed with it: whoever
/// reads the message alone must be able to act.
pub fn incidents(domain: &DomainName, changes: Vec<Change>) -> Vec<Incident> {
    if changes.is_empty() {
        return Vec::new();
    }
    let has = |field: Field| changes.iter().any(|change| change.field == field);
    let worst = changes.iter().map(|change| change.concern).max().unwrap_or(Concern::None);
    let find = |field: Field| changes.iter().find(|change| change.field == field);
    let (cause, told, new_owner_possible) = if has(Field::Created) || has(Field::Handle) {
        (format!("{domain} was deleted and registered anew: it may belong to somebody else"), None, true)
    } else if let Some(change) = find(Field::Registrar) {
        let (old, new) = (&change.old, &change.new);
        let cause = format!("{domain} moved from {old} to {new}: if you did not ask for this, call your registrar now");
        (cause, Some(Field::Registrar), true)
    } else if let Some(change) =
        changes.iter().find(|change| change.field == Field::Delegation && change.new.is_empty())
    {
        let cause = format!("{domain} is no longer delegated: it is gone from the internet (was {})", change.old);
        (cause, Some(Field::Delegation), false)
    } else if let Some(change) = find(Field::DnsProvider) {
        let cause = format!("{domain} moved its DNS from {} to {}", change.old, change.new);
        (cause, Some(Field::DnsProvider), false)
    } else if let Some(change) = find(Field::Delegation).or_else(|| find(Field::Nameservers)) {
        let cause = format!("the nameservers of {domain} changed from {} to {}", change.old, change.new);
        (cause, Some(change.field), false)
    } else if let Some(change) = find(Field::Expiration).filter(|change| change.concern == Concern::None) {
        (format!("{domain} was renewed until {}", change.new), Some(Field::Expiration), false)
    } else {
        (domain.to_string(), None, false)
    };
    let mut rest: Vec<&Change> = changes.iter().filter(|change| Some(change.field) != told).collect();
    // What matters most first: the end may be cut off.
    rest.sort_by_key(|change| std::cmp::Reverse(change.concern));
    let rest: Vec<String> = rest.into_iter().map(Change::sentence).collect();
    let summary = match (told.is_some() || new_owner_possible, rest.is_empty()) {
        (_, true) => cause,
        (true, false) => format!("{cause}; with it {}", rest.join("; ")),
        (false, false) => format!("{cause}: {}", rest.join("; ")),
    };
    vec![Incident { summary, concern: worst, changes, new_owner_possible }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registration::{Facts, Source, rdap};

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
        observed_by(Source::Rdap, facts)
    }

    fn observed_by(source: Source, facts: Facts) -> Observation {
        let now = at("2026-11-16T10:00:00Z");
        let delegated_to = facts.nameservers.iter().map(|server| server.name.clone()).collect();
        Observation {
            at: now,
            registration: Some(Registration::merge(&name("q7.io"), source, Vec::new(), facts, None, now)),
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
            "q7.io moved from NAMECHEAP INC to Gandi SAS: if you did not ask for this, call your registrar now; with it \
             status flags changed from clientDeleteProhibited, clientTransferProhibited, clientUpdateProhibited to \
             clientDeleteProhibited, clientUpdateProhibited (clientTransferProhibited is no longer set: locked against \
             transfers by the registrar); nameservers at the registry changed from ns1.digitalocean.com, \
             ns2.digitalocean.com, ns3.digitalocean.com to ns1.digitalocean.com; nameservers in the parent zone changed \
             from ns1.digitalocean.com, ns2.digitalocean.com, ns3.digitalocean.com to ns1.digitalocean.com; modification \
             date changed from 2019-08-17T16:33:24.36Z to 2026-11-15T00:00:00Z"
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
    fn a_flag_is_told_with_both_values_and_what_to_do_even_when_the_modification_date_moves_along() {
        let told = after(|facts| {
            facts.modified = Moment::parse("2026-11-15T00:00:00Z");
            facts.statuses = crate::registration::status::flags(["client transfer prohibited", "server hold"]);
        });
        assert_eq!(told.len(), 1);
        assert_eq!(
            told[0].0,
            "q7.io: status flags changed from clientDeleteProhibited, clientTransferProhibited, clientUpdateProhibited to \
             clientTransferProhibited, serverHold (serverHold is set: the registry took the name out of DNS; call the \
             registrar: usually a dispute, abuse or an unconfirmed registration) (clientDeleteProhibited is no longer set: \
             the registrar refuses to delete it) (clientUpdateProhibited is no longer set: locked against changes by the \
             registrar); modification date changed from 2019-08-17T16:33:24.36Z to 2026-11-15T00:00:00Z"
        );
        assert_eq!(told[0].1, Concern::Critical);
    }

    #[test]
    fn a_name_registered_anew_may_be_somebody_elses() {
        let mut changed = facts();
        changed.created = Moment::parse("2026-11-01T00:00:00Z");
        changed.handle = Some("another".into());
        let found = incidents(&name("q7.io"), changes(&observed(facts()), &observed(changed)));
        assert!(found[0].new_owner_possible);
        assert!(
            found[0]
                .summary
                .starts_with("q7.io was deleted and registered anew: it may belong to somebody else; with it ")
        );
    }

    /// Fields that changed between what RDAP said and what WHOIS says, and back again.
    fn after_an_outage(change: impl FnOnce(&mut Facts)) -> Vec<Field> {
        let mut spelled = facts();
        // As WHOIS spells the same registration.
        spelled.handle = spelled.handle.map(|handle| handle.to_lowercase());
        spelled.registrar = Registrar::new(None, Some("Namecheap"));
        spelled.created = Moment::parse("2012-07-06");
        spelled.statuses = crate::registration::status::flags(["ok"]);
        spelled.nameservers.clear();
        spelled.modified = Moment::parse("2019-08-18");
        change(&mut spelled);
        let rdap = observed(facts());
        let whois = Observation { delegated_to: rdap.delegated_to.clone(), ..observed_by(Source::Whois, spelled) };
        let (there, back) = (changes(&rdap, &whois), changes(&whois, &rdap));
        let fields = |found: &[Change]| found.iter().map(|change| change.field).collect::<Vec<_>>();
        assert_eq!(fields(&there), fields(&back));
        fields(&there)
    }

    #[test]
    fn what_whois_spells_in_another_way_while_rdap_is_away_is_no_change_and_no_new_owner() {
        assert_eq!(after_an_outage(|_| ()), []);
    }

    #[test]
    fn what_both_sources_can_state_is_compared_across_them() {
        let changed = after_an_outage(|facts| {
            facts.registrar = Registrar::new(Some(81), Some("Gandi SAS"));
            facts.created = Moment::parse("2026-11-01");
            facts.expires = Moment::parse("2030-07-06");
            facts.nameservers = self::facts().nameservers.into_iter().take(1).collect();
        });
        assert_eq!(
            changed,
            [Field::Registrar, Field::Created, Field::Expiration, Field::Nameservers],
            "a transfer and a new registration are told, whoever tells them"
        );
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
