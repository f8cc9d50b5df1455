//! The records between a name and its answer, each with the time after which everybody sees a change of it. Every record is
//! remembered for its own time to live, so what counts is the record that is changed, never the shortest of the chain.

use jiff::Timestamp;
use serde::Serialize;

use crate::advice::{Forecast, Schedule, forecast_change, forecast_new, words};
use crate::report::trace::provider_of;
use crate::resolve::{AliasKind, Outcome, Resolution};
use crate::wire::{Name, show_name, type_text};

/// One record of the chain, or the one that is missing at its end, and how it is changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordChange {
    /// The owner.
    pub name: String,
    /// The type.
    #[serde(rename = "type")]
    pub rtype: String,
    /// The zone it is in.
    pub zone: String,
    /// Whether it is there or would be new.
    pub kind: ChangeKind,
    /// Its time to live; of a new record, how long its absence is remembered.
    pub ttl: u32,
    /// When everybody would see what is changed now.
    pub seen: Forecast,
    /// How to change it so that nobody notices.
    pub schedule: Schedule,
}

/// What a change does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ChangeKind {
    /// Another value for a record that is there.
    Replace,
    /// A record where there is none.
    Create,
}

impl RecordChange {
    /// `www.example.com CNAME`
    pub fn record(&self) -> String {
        format!("{} {}", self.name, self.rtype)
    }
}

/// The records of a resolution in the order of its chain.
pub(super) fn changes(resolution: &Resolution, now: Timestamp) -> Vec<RecordChange> {
    let replace = |name: &Name, rtype: String, zone: &Name, ttl: u32| RecordChange {
        name: show_name(name),
        rtype,
        zone: show_name(zone),
        kind: ChangeKind::Replace,
        ttl,
        seen: forecast_change(now, ttl),
        schedule: Schedule::for_change(ttl, provider_of(resolution, zone).provider().ttl_min, now),
    };
    let mut changes: Vec<RecordChange> = Vec::new();
    for alias in &resolution.aliases {
        let rtype = match alias.kind {
            AliasKind::Cname => "CNAME",
            AliasKind::Dname => "DNAME",
        };
        changes.push(replace(&alias.owner, rtype.to_owned(), &alias.zone, alias.ttl));
    }
    let Some(last) = resolution.last() else { return changes };
    let (name, zone, rtype) = (resolution.final_name(), &last.cut.zone, type_text(resolution.question.rtype));
    match resolution.outcome {
        // Records of one set have one time to live; where they do not, the longest counts.
        Outcome::Found => {
            let ttl = resolution.records.iter().map(|record| record.ttl).max();
            changes.extend(ttl.map(|ttl| replace(name, rtype, zone, ttl)));
        }
        Outcome::NoData | Outcome::NxDomain => {
            let answer = last.chosen_reply().and_then(|reply| reply.exchange.answer());
            let soa = answer.and_then(|answer| answer.negative_soa());
            changes.extend(soa.map(|(record, soa)| {
                let ttl = record.ttl.min(soa.minimum);
                RecordChange {
                    name: show_name(name),
                    rtype,
                    zone: show_name(zone),
                    kind: ChangeKind::Create,
                    ttl,
                    seen: forecast_new(now, ttl),
                    schedule: Schedule::for_creation(ttl, provider_of(resolution, zone).provider().ttl_min, now),
                }
            }));
        }
        Outcome::Broken { .. } => {}
    }
    changes
}

/// Within which time everybody sees a change, record by record.
pub(super) fn sentence(changes: &[RecordChange]) -> Option<String> {
    let of = |kind| changes.iter().filter(move |change| change.kind == kind);
    let list: Vec<String> = of(ChangeKind::Replace)
        .map(|change| format!("{} (TTL {}) within {}", change.record(), change.ttl, words(change.ttl)))
        .collect();
    let longest = of(ChangeKind::Replace).map(|change| change.ttl).max().unwrap_or(0);
    let replaced = match list.as_slice() {
        [] => None,
        [only] => Some(format!("Everybody sees a change of {only}.")),
        several => Some(format!(
            "Everybody sees a change of {}: whatever is changed on the way, within {}.",
            several.join(", of "),
            words(longest)
        )),
    };
    let created = of(ChangeKind::Create).map(|change| {
        format!(
            "Once {} is created, everybody sees it within {}: its absence is remembered for {} seconds.",
            change.record(),
            words(change.ttl),
            change.ttl
        )
    });
    let told: Vec<String> = replaced.into_iter().chain(created).collect();
    (!told.is_empty()).then(|| told.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(name: &str, rtype: &str, kind: ChangeKind, ttl: u32) -> RecordChange {
        let now = "2026-11-16T10:00:00Z".parse().expect("a time");
        RecordChange {
            name: name.to_owned(),
            rtype: rtype.to_owned(),
            zone: "example.com".to_owned(),
            kind,
            ttl,
            seen: forecast_change(now, ttl),
            schedule: Schedule::for_change(ttl, 60, now),
        }
    }

    #[test]
    fn the_longest_of_the_chain_counts_for_the_chain_and_its_own_for_each_record() {
        let chain = [
            change("www.example.com", "CNAME", ChangeKind::Replace, 600),
            change("edge.example.net", "A", ChangeKind::Replace, 20),
        ];
        assert_eq!(
            sentence(&chain).as_deref(),
            Some(
                "Everybody sees a change of www.example.com CNAME (TTL 600) within 10 minutes, of edge.example.net A (TTL 20) \
                 within 20 seconds: whatever is changed on the way, within 10 minutes."
            )
        );
        assert_eq!(sentence(&[]), None);
    }

    #[test]
    fn a_record_that_is_missing_is_seen_when_its_absence_is_forgotten() {
        let missing = [change("new.example.com", "A", ChangeKind::Create, 900)];
        assert_eq!(
            sentence(&missing).as_deref(),
            Some(
                "Once new.example.com A is created, everybody sees it within 15 minutes: its absence is remembered for 900 seconds."
            )
        );
    }
}
