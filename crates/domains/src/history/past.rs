//! What was known of a domain at a time in the past. A status says what is known now and has the last changes with their old and
//! new values: rolled back one by one they give what was known before each. The times are those at which something was noticed,
//! so the answer is what somebody who had looked then would have read. What lies before the first look, or before the oldest
//! change that is kept, is not known, and that is said.

use std::collections::BTreeMap;

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::record::RecordState;
use super::{Change, Field, HISTORY_MAX, OWNERSHIP_HISTORY_MAX, Observation, UNKNOWN};
use crate::verification::standing::Standing;

/// What a Domain's status has recorded.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Recorded {
    pub observation: Option<Observation>,
    /// The latest change first.
    pub history: Vec<Change>,
    pub first_scan: Option<Timestamp>,
    pub last_scan: Option<Timestamp>,
    pub troubles: Vec<Stands>,
    pub records: Vec<RecordState>,
    verification: Option<Verification>,
}

/// Something that is the matter.
#[derive(Clone, Debug, Deserialize)]
pub struct Stands {
    pub text: String,
    pub since: Timestamp,
}

#[derive(Clone, Debug, Deserialize)]
struct Verification {
    standing: Standing,
}

/// A time that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A day: its end is meant, in UTC, or the present while it lasts.
    Day(Date),
    /// A moment.
    Moment(Timestamp),
}

impl std::str::FromStr for Asked {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(moment) = text.parse::<Timestamp>() {
            return Ok(Self::Moment(moment));
        }
        let is_day = text.len() == "2026-11-01".len();
        match text.parse::<Date>() {
            Ok(day) if is_day => Ok(Self::Day(day)),
            _ => Err(format!(
                "{text:?} is no time: write a day such as 2026-11-01 or a moment such as 2026-11-01T12:00:00Z"
            )),
        }
    }
}

impl Asked {
    /// The moment that is meant.
    pub fn at(self, now: Timestamp) -> Result<Timestamp, String> {
        let later = || "the future is not known: ask for a time that has passed".to_owned();
        match self {
            Self::Moment(at) if at > now => Err(later()),
            Self::Moment(at) => Ok(at),
            Self::Day(day) => {
                let moment = |time: Time| day.to_datetime(time).to_zoned(TimeZone::UTC).map(|zoned| zoned.timestamp());
                let begin = moment(Time::midnight()).map_err(|error| error.to_string())?;
                if begin > now {
                    return Err(later());
                }
                // The last second, as one writes the end of a day.
                let end = begin.checked_add(SignedDuration::from_secs(86_399)).unwrap_or(now);
                Ok(end.min(now))
            }
        }
    }
}

/// One thing that was known, or was not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fact {
    pub field: Field,
    /// What was known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Why nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
    /// When it had been noticed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// When something else was noticed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// What was known of a domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Past {
    pub domain: String,
    pub at: Timestamp,
    /// Why nothing at all was known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<Fact>,
}

/// What is known of single values, after changes were rolled back.
pub type Values = BTreeMap<Field, String>;

/// The fields that have one value at a time.
const SINGLE: [Field; 12] = [
    Field::Registrar,
    Field::Handle,
    Field::Created,
    Field::Expiration,
    Field::Modified,
    Field::StatusFlags,
    Field::Nameservers,
    Field::Signing,
    Field::Delegation,
    Field::DelegationSigners,
    Field::DnsProvider,
    Field::Ownership,
];

/// What was known at a time, from what is known now: every change that was noticed later is rolled back, the latest first.
pub fn rolled_back(mut values: Values, history: &[Change], at: Timestamp) -> Values {
    let single = history.iter().filter(|change| SINGLE.contains(&change.field));
    for change in single.filter(|change| change.at > at) {
        values.insert(change.field, change.old.clone());
    }
    values.retain(|_, value| value != UNKNOWN);
    values
}

impl Recorded {
    /// What an object of the kind `Domain` has recorded.
    pub fn of(domain: &Value) -> Result<Self, String> {
        let status = domain.get("status").cloned().unwrap_or(Value::Null);
        if status.is_null() {
            return Ok(Self::default());
        }
        let mut recorded: Self =
            serde_json::from_value(status).map_err(|error| format!("the status cannot be read: {error}"))?;
        // A status of an earlier version does not say when it began; it was not before the object.
        if recorded.last_scan.is_some() {
            let created = domain.pointer("/metadata/creationTimestamp").and_then(Value::as_str);
            recorded.first_scan = recorded.first_scan.or_else(|| created?.parse().ok());
        }
        Ok(recorded)
    }

    /// What is known now.
    fn present(&self) -> Values {
        let mut values = self.observation.as_ref().map(Observation::values).unwrap_or_default();
        values.extend(self.verification.as_ref().map(|one| (Field::Ownership, one.standing.words())));
        values
    }

    /// Since when the changes of a field are all kept; nothing when none was dropped.
    pub fn kept_since(&self, field: Field) -> Option<Timestamp> {
        let is_alike = |change: &&Change| (change.field == Field::Ownership) == (field == Field::Ownership);
        let most = if field == Field::Ownership { OWNERSHIP_HISTORY_MAX } else { HISTORY_MAX };
        let alike: Vec<&Change> = self.history.iter().filter(is_alike).collect();
        alike.last().filter(|_| alike.len() >= most).map(|oldest| oldest.at)
    }

    fn forgotten(&self, field: Field, at: Timestamp) -> Option<String> {
        let since = self.kept_since(field).filter(|since| at < *since)?;
        let most = if field == Field::Ownership { OWNERSHIP_HISTORY_MAX } else { HISTORY_MAX };
        let since = second(since);
        Some(format!("only the last {most} changes are kept, and the oldest of them was noticed at {since}"))
    }

    /// What was the matter at a time.
    fn troubles_at(&self, at: Timestamp) -> Vec<String> {
        let still = self.troubles.iter().filter(|trouble| trouble.since <= at).map(|trouble| trouble.text.clone());
        let health: Vec<&Change> = self.history.iter().filter(|change| change.field == Field::Health).collect();
        let was_there = |ended: &&&Change| match ended.since {
            Some(since) => since <= at,
            // Written by an earlier version: it began with the last line of the same words.
            None => !health.iter().any(|began| began.new == ended.old && began.at > at && began.at <= ended.at),
        };
        let ended = health.iter().filter(|change| change.new.is_empty() && change.at > at).filter(was_there);
        let mut all: Vec<String> = still.chain(ended.map(|change| change.old.clone())).collect();
        all.sort();
        all
    }

    /// How the records stood that should stay as they are.
    fn records_at(&self, at: Timestamp) -> Vec<Fact> {
        let mut stood: Vec<(String, Option<Timestamp>)> =
            self.records.iter().map(|record| (record.words(), Some(record.since))).collect();
        // The first two words are the name and the type; what follows is how it stands.
        let about = |words: &str| words.splitn(3, ' ').take(2).map(str::to_owned).collect::<Vec<_>>();
        for change in self.history.iter().filter(|change| change.field == Field::Record && change.at > at) {
            let same = stood.iter().position(|(words, _)| *words == change.new);
            let index = same.or_else(|| stood.iter().position(|(words, _)| about(words) == about(&change.new)));
            match index.and_then(|index| stood.get_mut(index)) {
                Some(record) => *record = (change.old.clone(), None),
                None => stood.push((change.old.clone(), None)),
            }
        }
        let fact = |(words, since): (String, Option<Timestamp>)| match since.filter(|since| *since > at) {
            Some(since) => {
                let [name, kind] = <[String; 2]>::try_from(about(&words)).unwrap_or_default();
                let why = format!("{name} {kind}: what is known of it begins at {}", second(since));
                Fact { field: Field::Record, value: None, unknown: Some(why), since: None, until: Some(since) }
            }
            None => Fact { field: Field::Record, value: Some(words), unknown: None, since, until: None },
        };
        stood.into_iter().map(fact).collect()
    }

    /// What was known of `domain` at a time.
    pub fn past(&self, domain: &str, at: Timestamp) -> Past {
        let nothing = |why: String| Past { domain: domain.to_owned(), at, unknown: Some(why), facts: Vec::new() };
        let (Some(first), Some(_)) = (self.first_scan, self.last_scan) else {
            return nothing(not_looked_at(domain));
        };
        if at < first {
            let first = second(first);
            return nothing(format!(
                "{domain} was looked at for the first time at {first}; nothing is known of before"
            ));
        }
        let values = rolled_back(self.present(), &self.history, at);
        let mut facts: Vec<Fact> = SINGLE.iter().map(|field| self.fact(*field, &values, first, at)).collect();
        let troubles = self.troubles_at(at);
        let forgotten = self.forgotten(Field::Health, at);
        let health = if troubles.is_empty() { "nothing was the matter".to_owned() } else { troubles.join("; ") };
        facts.push(Fact {
            field: Field::Health,
            value: forgotten.is_none().then_some(health),
            unknown: forgotten.clone(),
            since: None,
            until: None,
        });
        if forgotten.is_none() {
            facts.extend(self.records_at(at));
        }
        Past { domain: domain.to_owned(), at, unknown: None, facts }
    }

    fn fact(&self, field: Field, values: &Values, first: Timestamp, at: Timestamp) -> Fact {
        let times = || self.history.iter().filter(|change| change.field == field).map(|change| change.at);
        let until = times().filter(|time| *time > at).min();
        if let Some(forgotten) = self.forgotten(field, at) {
            return Fact { field, value: None, unknown: Some(forgotten), since: None, until };
        }
        let noticed = times().filter(|time| *time <= at).max();
        let since = noticed.or_else(|| self.kept_since(field).is_none().then_some(first));
        match values.get(&field) {
            Some(value) => Fact { field, value: Some(value.clone()), unknown: None, since, until },
            None => {
                let why = "nobody had told it".to_owned();
                Fact { field, value: None, unknown: Some(why), since: None, until }
            }
        }
    }
}

/// What is said of a domain of which nothing is known.
pub(crate) fn not_looked_at(domain: &str) -> String {
    format!("{domain} has not been looked at yet")
}

/// A time as people read it: nobody cares for less than a second. Programs get it whole.
pub(crate) fn second(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests;
