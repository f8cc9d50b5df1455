//! What stands at planned names already: records that become others are changed by a schedule of their own (lower the TTL, wait,
//! change, raise), and a CNAME is refused where records stand that it would hide.

use jiff::Timestamp;
use serde::Serialize;

use super::analysis::{asked_name, hides, is, is_beyond_comparison, kinds_at};
use super::{Aim, Host, Plan, PlannedKind, PlannedRecord, Refusal, Wish};
use crate::advice::{Forecast, Schedule, forecast_change, words};
use crate::authority::{Record, RecordKind, Survey};

/// Records that become others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedChange {
    pub host: Host,
    /// What stands there now, as `A 192.0.2.1`.
    pub found: Vec<String>,
    /// What is to stand there.
    pub planned: Vec<String>,
    /// The longest time to live of what stands there.
    pub ttl: u32,
    /// When everybody would see it if it were changed at once.
    pub seen: Forecast,
    /// How to change it so that nobody waits for longer than the lowered TTL.
    pub schedule: Schedule,
    /// How to undo it, and how long that takes.
    pub rollback: String,
}

/// How a planned name and type stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    New,
    AsPlanned,
    /// What should be served is not known.
    Unknown,
    Other,
}

impl Plan {
    /// Takes what is live into account.
    pub fn meet(&mut self, wishes: &[Wish], surveys: &[Survey], now: Timestamp) {
        self.refuse_hiding(wishes, surveys);
        let mut seen: Vec<(Host, PlannedKind)> = Vec::new();
        let (mut new, mut done) = (0_usize, Vec::new());
        for record in self.records.clone() {
            if seen.contains(&(record.host.clone(), record.kind)) {
                continue;
            }
            seen.push((record.host.clone(), record.kind));
            let together: Vec<PlannedRecord> = self
                .records
                .iter()
                .filter(|other| other.host == record.host && other.kind == record.kind)
                .cloned()
                .collect();
            let found = standing_in_the_way(&record, surveys);
            match standing(&together, &found) {
                Standing::New => new += 1,
                Standing::AsPlanned => done.push(format!("{} {}", record.host, record.kind.as_str())),
                Standing::Unknown => self.notes.push(format!(
                    "{} serves addresses, but {} has none that could be found: whether they are right cannot be told",
                    record.host, record.value
                )),
                Standing::Other => self.change(&together, &found, now),
            }
        }
        if !done.is_empty() {
            self.notes.push(format!("{}: as planned already", done.join(", ")));
        }
        // Where nothing is new, there is nothing to create.
        match self.records.iter().map(|record| record.ttl).max().filter(|_| new > 0) {
            Some(ttl) => self
                .notes
                .push(format!("to go back, delete what you created: {} later nobody sees it any more", words(ttl))),
            None => self.schedule = Schedule { steps: Vec::new() },
        }
    }

    fn change(&mut self, planned: &[PlannedRecord], found: &[&Record], now: Timestamp) {
        let Some(first) = planned.first() else { return };
        let ttl = found.iter().map(|record| record.ttl).max().unwrap_or(0);
        let found: Vec<String> = found.iter().map(|record| format!("{} {}", record.kind, record.value)).collect();
        self.changes.push(PlannedChange {
            host: first.host.clone(),
            rollback: format!(
                "to go back, put {} there again: everybody has it back within {}",
                found.join(", "),
                words(first.ttl)
            ),
            found,
            planned: planned.iter().map(|record| format!("{} {}", record.kind.as_str(), record.value)).collect(),
            ttl,
            seen: forecast_change(now, ttl),
            schedule: Schedule::for_change(ttl, self.zone.provider.provider().ttl_min, now),
        });
    }

    /// A CNAME allows nothing beside it: no provider takes it where mail or texts stand, and where one does, it hides them.
    fn refuse_hiding(&mut self, wishes: &[Wish], surveys: &[Survey]) {
        let mut refused: Vec<Host> = Vec::new();
        for record in self.records.iter().filter(|record| hides(record)) {
            let hidden = hidden(record, surveys);
            if hidden.is_empty() {
                continue;
            }
            let target = record.value.to_string();
            let addresses = wishes.iter().find(|wish| wish.host == record.host).map(|wish| match &wish.aim {
                Aim::Addresses(addresses) | Aim::Host { addresses, .. } => addresses.as_slice(),
            });
            let mut alternatives = Vec::new();
            if let Some(list) = addresses.filter(|addresses| !addresses.is_empty()) {
                let list: Vec<String> = list.iter().map(ToString::to_string).collect();
                alternatives.push(format!(
                    "A and AAAA records with the addresses that {target} has now ({}); you must change them when they change",
                    list.join(", ")
                ));
            }
            alternatives.push(format!("move {} to another name, then create the CNAME", list_of(&hidden)));
            self.refusals.push(Refusal {
                host: record.host.clone(),
                reason: format!(
                    "{} stands at {} and nothing can stand beside a CNAME: it would hide it",
                    list_of(&hidden),
                    record.host
                ),
                alternatives,
            });
            refused.push(record.host.clone());
        }
        self.records.retain(|record| record.kind != PlannedKind::Cname || !refused.contains(&record.host));
    }
}

/// Records that a CNAME at the planned name would hide and that it is not meant to replace.
pub(super) fn hidden<'a>(record: &PlannedRecord, surveys: &'a [Survey]) -> Vec<&'a Record> {
    let name = asked_name(record);
    let here = surveys.iter().filter(|survey| survey.name == name);
    let others = here.filter(|survey| matches!(survey.kind, RecordKind::Mx | RecordKind::Txt));
    others.flat_map(|survey| survey.records().into_iter().filter(move |found| found.kind == survey.kind)).collect()
}

pub(super) fn list_of(records: &[&Record]) -> String {
    records.iter().map(|record| format!("{} {}", record.kind, record.value)).collect::<Vec<_>>().join(", ")
}

/// What stands at a planned name and would be replaced.
fn standing_in_the_way<'a>(record: &PlannedRecord, surveys: &'a [Survey]) -> Vec<&'a Record> {
    let name = asked_name(record);
    let kinds = kinds_at(record.kind);
    let mut found: Vec<&Record> = Vec::new();
    for survey in surveys.iter().filter(|survey| survey.name == name && kinds.contains(&survey.kind)) {
        for other in survey.records() {
            let counts = kinds.contains(&other.kind) || other.kind == RecordKind::Cname;
            if counts && !found.iter().any(|known| known.kind == other.kind && known.value == other.value) {
                found.push(other);
            }
        }
    }
    found
}

fn standing(planned: &[PlannedRecord], found: &[&Record]) -> Standing {
    if found.is_empty() {
        return Standing::New;
    }
    if planned.iter().any(is_beyond_comparison) {
        return Standing::Unknown;
    }
    let is_planned = |other: &Record| planned.iter().any(|record| is(record, other));
    let is_there = |record: &PlannedRecord| found.iter().any(|other| is(record, other));
    match found.iter().all(|other| is_planned(other)) && planned.iter().all(is_there) {
        true => Standing::AsPlanned,
        false => Standing::Other,
    }
}
