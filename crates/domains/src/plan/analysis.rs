//! What is live of a plan, uncached, on every server; what else stands there; and which public resolvers still have an old
//! answer, until when.

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::{Plan, PlannedKind, PlannedRecord, PlannedValue};
use crate::authority::{RecordKind, RecordValue, Said, ServerAnswer, Survey};
use crate::name::DomainName;

/// What a resolver has cached for a planned name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cached {
    pub resolver: String,
    pub name: DomainName,
    pub kind: RecordKind,
    /// The values it has; none is a remembered "does not exist".
    pub values: Vec<RecordValue>,
    pub ttl_left: u32,
}

/// How a planned record stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// On every server that answered, and seen.
    Match,
    /// On no server.
    Missing,
    /// Another value or type stands there.
    Wrong { found: String },
    /// On some servers only.
    Partial { with: Vec<DomainName>, without: Vec<DomainName> },
    /// Right on the servers; some resolvers will see it only then.
    BlockedByCache { until: Timestamp, resolvers: Vec<String> },
    /// Nobody answered.
    Unknown,
}

/// One planned record and how it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordReport {
    pub record: PlannedRecord,
    pub state: State,
    /// What is the matter and what to do.
    pub notes: Vec<String>,
}

/// A record that stands at a planned name and is not planned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Extra {
    pub name: DomainName,
    pub kind: RecordKind,
    pub value: String,
    pub note: String,
}

/// How a plan stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Analysis {
    pub at: Timestamp,
    pub records: Vec<RecordReport>,
    pub extras: Vec<Extra>,
}

impl Analysis {
    /// Whether everything is as planned, for everybody.
    pub fn is_done(&self) -> bool {
        self.extras.is_empty() && self.records.iter().all(|report| report.state == State::Match)
    }
}

/// What was seen of a plan.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// One for each planned name and type.
    pub surveys: Vec<Survey>,
    /// What public resolvers have.
    pub cached: Vec<Cached>,
}

/// The questions whose answers [`analyze`] needs: every planned name with its types, and where it would be if the zone had
/// been typed twice.
pub fn questions(plan: &Plan) -> Vec<(DomainName, RecordKind)> {
    let mut questions = Vec::new();
    let mut ask = |name: DomainName, kind: RecordKind| {
        if !questions.contains(&(name.clone(), kind)) {
            questions.push((name, kind));
        }
    };
    for record in &plan.records {
        let name = asked_name(record);
        let kinds: &[RecordKind] = match record.kind {
            PlannedKind::A => &[RecordKind::A],
            PlannedKind::Aaaa => &[RecordKind::Aaaa],
            PlannedKind::Cname => &[RecordKind::Cname, RecordKind::A],
            PlannedKind::Alias(_) => &[RecordKind::A, RecordKind::Aaaa],
        };
        for kind in kinds {
            ask(name.clone(), *kind);
        }
        if let Some((doubled, kind)) = doubled(plan, record) {
            ask(doubled, kind);
        }
    }
    questions
}

/// The names and types that are live as planned, each once.
pub fn live_now(analysis: &Analysis) -> Vec<(DomainName, RecordKind)> {
    let mut live = Vec::new();
    for report in analysis.records.iter().filter(|report| report.state == State::Match) {
        if let Some(kind) = report.record.kind.served()
            && !live.contains(&(asked_name(&report.record), kind))
        {
            live.push((asked_name(&report.record), kind));
        }
    }
    live
}

/// A wildcard is asked for by a name that nobody has.
fn asked_name(record: &PlannedRecord) -> DomainName {
    if record.host.wildcard {
        record.host.base.prepend(WILDCARD_PROBE).unwrap_or_else(|_| record.host.base.clone())
    } else {
        record.host.base.clone()
    }
}

/// A label that nobody uses: what answers for it is the wildcard.
const WILDCARD_PROBE: &str = "bailiwick-wildcard-probe";

fn doubled(plan: &Plan, record: &PlannedRecord) -> Option<(DomainName, RecordKind)> {
    let kind = record.kind.served()?;
    let doubled = DomainName::parse(&format!("{}.{}", asked_name(record), plan.zone.zone)).ok()?;
    Some((doubled, kind))
}

/// Compares the plan with what was seen.
pub fn analyze(plan: &Plan, live: &Live, now: Timestamp) -> Analysis {
    let records = plan.records.iter().map(|record| report(plan, record, live, now)).collect();
    Analysis { at: now, records, extras: extras(plan, live) }
}

fn survey<'a>(live: &'a Live, name: &DomainName, kind: RecordKind) -> Option<&'a Survey> {
    live.surveys.iter().find(|survey| survey.name == *name && survey.kind == kind)
}

fn matches(record: &PlannedRecord, value: &RecordValue) -> bool {
    match (&record.value, value) {
        (PlannedValue::Address(planned), RecordValue::Address(found)) => planned == found,
        (PlannedValue::Name(planned), RecordValue::Name(found)) => planned == found,
        _ => false,
    }
}

/// Whether one server has the planned record. None when it said nothing.
fn has(record: &PlannedRecord, kind: Option<RecordKind>, answer: &ServerAnswer) -> Option<bool> {
    match &answer.said {
        Said::Nothing(_) => None,
        Said::NoData | Said::NoSuchName => Some(false),
        // An alias is right when addresses are served.
        Said::Records(records) => Some(records.iter().any(|found| match kind {
            Some(kind) => found.kind == kind && matches(record, &found.value),
            None => matches!(found.value, RecordValue::Address(_)),
        })),
    }
}

fn report(plan: &Plan, record: &PlannedRecord, live: &Live, now: Timestamp) -> RecordReport {
    let name = asked_name(record);
    let kind = record.kind.served();
    let done = |state: State, notes: Vec<String>| RecordReport { record: record.clone(), state, notes };
    let Some(seen) = survey(live, &name, kind.unwrap_or(RecordKind::A)) else {
        return done(State::Unknown, vec![format!("{name} could not be asked for")]);
    };
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for answer in &seen.answers {
        match has(record, kind, answer) {
            Some(true) => with.push(answer.server.clone()),
            Some(false) => without.push(answer.server.clone()),
            None => {}
        }
    }
    for list in [&mut with, &mut without] {
        list.sort();
        list.dedup();
    }
    match (with.is_empty(), without.is_empty()) {
        (true, true) => done(State::Unknown, vec!["no nameserver answered".to_owned()]),
        (false, true) => cached(record, &name, live, now)
            .map_or_else(|| done(State::Match, Vec::new()), |(state, note)| done(state, vec![note])),
        (false, false) => {
            let note =
                "some nameservers have it and some not yet: wait until the provider has copied the zone".to_owned();
            done(State::Partial { with, without }, vec![note])
        }
        (true, false) => {
            let (state, mut notes) = wrong(record, &name, seen, live);
            notes.extend(doubled_note(plan, record, live));
            done(state, notes)
        }
    }
}

/// Why it is not there: another value, another type, or nothing.
fn wrong(record: &PlannedRecord, name: &DomainName, seen: &Survey, live: &Live) -> (State, Vec<String>) {
    let found = seen.records();
    let alias = found.iter().find(|other| other.kind == RecordKind::Cname);
    if let Some(alias) = alias.filter(|_| record.kind != PlannedKind::Cname) {
        let note = format!("a CNAME stands at {name}: remove it first, nothing can stand beside it");
        return (State::Wrong { found: format!("CNAME {}", alias.value) }, vec![note]);
    }
    if !found.is_empty() {
        let values: Vec<String> = found.iter().map(|other| format!("{} {}", other.kind, other.value)).collect();
        let notes = found.iter().filter_map(|other| target_slip(record, &other.value, &seen.zone)).collect();
        return (State::Wrong { found: values.join(", ") }, notes);
    }
    // Where a CNAME is planned, addresses may stand.
    if record.kind == PlannedKind::Cname
        && let Some(addresses) =
            survey(live, name, RecordKind::A).map(Survey::records).filter(|records| !records.is_empty())
    {
        let values: Vec<String> = addresses.iter().map(|other| format!("{} {}", other.kind, other.value)).collect();
        let note = format!(
            "addresses stand at {name} and a CNAME cannot stand beside them: remove them, or keep them instead of the CNAME"
        );
        return (State::Wrong { found: values.join(", ") }, vec![note]);
    }
    (State::Missing, Vec::new())
}

/// A target that became part of the zone because its dot was missing, and one that has a letter wrong.
fn target_slip(record: &PlannedRecord, found: &RecordValue, zone: &DomainName) -> Option<String> {
    let (PlannedValue::Name(planned), RecordValue::Name(found)) = (&record.value, found) else { return None };
    let appended = format!("{planned}.{zone}");
    (found.as_str() == appended)
        .then(|| format!("the zone was appended to the target: type it with a dot at the end, {}", planned.absolute()))
}

fn doubled_note(plan: &Plan, record: &PlannedRecord, live: &Live) -> Option<String> {
    let (doubled, kind) = doubled(plan, record)?;
    let there = survey(live, &doubled, kind)?.records().iter().any(|found| matches(record, &found.value));
    there.then(|| {
        format!(
            "the record is at {doubled}: the form appends {} by itself; type {:?} as the name",
            plan.zone.zone, record.typed.name
        )
    })
}

/// The resolver that takes longest to see what the servers have.
fn cached(record: &PlannedRecord, name: &DomainName, live: &Live, now: Timestamp) -> Option<(State, String)> {
    let kind = record.kind.served()?;
    let stale: Vec<&Cached> = live
        .cached
        .iter()
        .filter(|cached| cached.name == *name && cached.kind == kind && cached.ttl_left > 0)
        .filter(|cached| !cached.values.iter().any(|value| matches(record, value)))
        .collect();
    let longest = stale.iter().map(|cached| cached.ttl_left).max()?;
    let until = now.checked_add(SignedDuration::from_secs(i64::from(longest))).unwrap_or(now);
    let resolvers: Vec<String> = stale.iter().map(|cached| cached.resolver.clone()).collect();
    let what =
        if stale.iter().all(|cached| cached.values.is_empty()) { "that it does not exist" } else { "an old value" };
    let note =
        format!("{} still remember {what}, the last until {}", resolvers.join(", "), until.strftime("%H:%M:%S UTC"));
    Some((State::BlockedByCache { until, resolvers }, note))
}

/// Records of a planned type at a planned name that are in no plan.
fn extras(plan: &Plan, live: &Live) -> Vec<Extra> {
    let mut extras: Vec<Extra> = Vec::new();
    for survey in &live.surveys {
        let here: Vec<&PlannedRecord> = plan
            .records
            .iter()
            .filter(|record| asked_name(record) == survey.name && record.kind.served() == Some(survey.kind))
            .collect();
        // Where nothing planned is there at all, what stands there is told as wrong.
        let fulfilled = here.iter().any(|record| survey.records().iter().any(|found| matches(record, &found.value)));
        if !fulfilled {
            continue;
        }
        for found in survey.records().iter().filter(|found| found.kind == survey.kind) {
            if !here.iter().any(|record| matches(record, &found.value)) {
                extras.push(Extra {
                    name: survey.name.clone(),
                    kind: found.kind,
                    value: found.value.to_string(),
                    note: "part of the visitors is sent there: remove it unless it is yours too".to_owned(),
                });
            }
        }
    }
    extras
}

#[cfg(test)]
mod tests;
