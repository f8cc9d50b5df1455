//! What is live of a plan, uncached, on every server; what else stands there; and which public resolvers still have an old
//! answer, until when.

use std::collections::BTreeMap;
use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::standing::{hidden, list_of};
use super::{Host, Plan, PlannedKind, PlannedRecord, PlannedValue, Refusal, proxy};
use crate::authority::{Record, RecordKind, RecordValue, Said, ServerAnswer, Survey};
use crate::endpoint::places::EndpointReport;
use crate::name::DomainName;
use crate::probe::Absent;
use crate::report::trace::StepReport;
use crate::wire::{Question, RecordType, parse_name};

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
    /// A service answers in its place, so that it cannot be seen.
    Masked { by: String, found: String },
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

/// The way from the root to one planned name, uncached.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Way {
    pub host: Host,
    /// What was asked.
    pub question: String,
    pub steps: Vec<StepReport>,
    /// How it ended, in a sentence.
    pub conclusion: String,
}

/// How a plan stands.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Analysis {
    pub at: Timestamp,
    pub records: Vec<RecordReport>,
    pub extras: Vec<Extra>,
    /// What cannot be done at all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<Refusal>,
    /// Every step that led to the answers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ways: Vec<Way>,
    /// What is behind the names that are live, where their Gateway serves them by HTTPS.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<ServiceReport>,
}

/// What is behind a name, as each place sees it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceReport {
    pub host: DomainName,
    pub endpoints: Vec<EndpointReport>,
    /// Places that are known and could not be asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<Absent>,
}

impl Analysis {
    /// Whether everything is as planned, for everybody.
    pub fn is_done(&self) -> bool {
        self.extras.is_empty()
            && self.refusals.is_empty()
            && self.records.iter().all(|report| report.state == State::Match)
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
        let hidden = [RecordKind::Mx, RecordKind::Txt];
        let hidden = hidden.iter().filter(|_| hides(record));
        for kind in kinds_at(record.kind).iter().chain(hidden) {
            ask(name.clone(), *kind);
        }
        if let Some((doubled, kind)) = doubled(plan, record) {
            ask(doubled, kind);
        }
    }
    questions
}

/// The types that a planned record takes the place of.
pub(super) fn kinds_at(kind: PlannedKind) -> &'static [RecordKind] {
    match kind {
        PlannedKind::A => &[RecordKind::A],
        PlannedKind::Aaaa => &[RecordKind::Aaaa],
        PlannedKind::Cname => &[RecordKind::Cname, RecordKind::A, RecordKind::Aaaa],
        PlannedKind::Alias(_) => &[RecordKind::A, RecordKind::Aaaa],
    }
}

/// Whether a planned record would hide what else stands at its name. Addresses that are served in its place hide nothing.
pub(super) fn hides(planned: &PlannedRecord) -> bool {
    planned.kind == PlannedKind::Cname && planned.served_as.is_none()
}

/// Whether a record that was found is the planned one, or what is served in its place.
pub(super) fn is(planned: &PlannedRecord, found: &Record) -> bool {
    let itself = planned.kind.served() == Some(found.kind);
    (itself || matches!(found.value, RecordValue::Address(_))) && matches(planned, &found.value)
}

/// The types in which a planned record is seen once it is live.
fn seen_in(planned: &PlannedRecord) -> Vec<RecordKind> {
    match &planned.served_as {
        None => planned.kind.served().into_iter().collect(),
        Some(addresses) => [(RecordKind::A, true), (RecordKind::Aaaa, false)]
            .into_iter()
            .filter(|(_, v4)| addresses.iter().any(|address| address.is_ipv4() == *v4))
            .map(|(kind, _)| kind)
            .collect(),
    }
}

/// Whether the addresses that should be served are not known, so that nothing can be said of those that are.
pub(super) fn is_beyond_comparison(planned: &PlannedRecord) -> bool {
    planned.served_as.as_ref().is_some_and(Vec::is_empty)
}

/// The question whose way from the root is shown for a planned record.
pub(crate) fn question_about(record: &PlannedRecord) -> Option<Question> {
    let rtype = match (record.kind, seen_in(record).first()) {
        (PlannedKind::Aaaa, _) | (_, Some(RecordKind::Aaaa)) => RecordType::AAAA,
        (PlannedKind::Cname, Some(RecordKind::Cname)) => RecordType::CNAME,
        _ => RecordType::A,
    };
    Some(Question::new(parse_name(asked_name(record).as_str()).ok()?, rtype))
}

/// The names and types that are live as planned, each once.
pub fn live_now(analysis: &Analysis) -> Vec<(DomainName, RecordKind)> {
    let mut live = Vec::new();
    for report in analysis.records.iter().filter(|report| report.state == State::Match) {
        for kind in seen_in(&report.record) {
            if !live.contains(&(asked_name(&report.record), kind)) {
                live.push((asked_name(&report.record), kind));
            }
        }
    }
    live
}

/// The hosts, of these, all whose records are live, some resolvers perhaps not having noticed.
pub fn live_hosts<'a>(analysis: &Analysis, hosts: &'a [Host]) -> Vec<&'a Host> {
    let is_live = |state: &State| matches!(state, State::Match | State::BlockedByCache { .. });
    let of =
        |host: &Host| analysis.records.iter().filter(move |report| report.record.host == *host).collect::<Vec<_>>();
    let all_live = |host: &&Host| !of(host).is_empty() && of(host).iter().all(|report| is_live(&report.state));
    hosts.iter().filter(all_live).collect()
}

/// A wildcard is asked for by a name that nobody has.
pub(super) fn asked_name(record: &PlannedRecord) -> DomainName {
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
    let (extras, refusals) = (extras(plan, live), plan.refusals.clone());
    Analysis { at: now, records, extras, refusals, ways: Vec::new(), services: Vec::new() }
}

fn survey<'a>(live: &'a Live, name: &DomainName, kind: RecordKind) -> Option<&'a Survey> {
    live.surveys.iter().find(|survey| survey.name == *name && survey.kind == kind)
}

fn matches(record: &PlannedRecord, value: &RecordValue) -> bool {
    match (&record.value, value) {
        (PlannedValue::Address(planned), RecordValue::Address(found)) => planned == found,
        (PlannedValue::Name(planned), RecordValue::Name(found)) => planned == found,
        (PlannedValue::Name(_), RecordValue::Address(found)) => {
            record.served_as.as_ref().is_some_and(|addresses| addresses.contains(found))
        }
        _ => false,
    }
}

/// Whether one server has the planned record. None when it said nothing.
fn has(record: &PlannedRecord, answer: &ServerAnswer) -> Option<bool> {
    match &answer.said {
        Said::Nothing(_) => None,
        Said::NoData | Said::NoSuchName => Some(false),
        Said::Records(records) => Some(records.iter().any(|found| is(record, found))),
    }
}

/// The servers that have a record and those that answered without it. Where addresses are served in its place, one that has
/// an address of either kind has it.
fn servers_with(record: &PlannedRecord, surveys: &[&Survey]) -> (Vec<DomainName>, Vec<DomainName>) {
    let mut servers: BTreeMap<(&DomainName, IpAddr), bool> = BTreeMap::new();
    for answer in surveys.iter().flat_map(|survey| &survey.answers) {
        if let Some(here) = has(record, answer) {
            *servers.entry((&answer.server, answer.address)).or_default() |= here;
        }
    }
    let named = |wanted: bool| {
        let here = servers.iter().filter(move |(_, has)| **has == wanted);
        let mut names: Vec<DomainName> = here.map(|((server, _), _)| (*server).clone()).collect();
        names.dedup();
        names
    };
    (named(true), named(false))
}

fn report(plan: &Plan, record: &PlannedRecord, live: &Live, now: Timestamp) -> RecordReport {
    let name = asked_name(record);
    let done = |state: State, notes: Vec<String>| RecordReport { record: record.clone(), state, notes };
    if is_beyond_comparison(record) {
        let note = format!("{} has no addresses that could be found: those of {name} cannot be compared", record.value);
        return done(State::Unknown, vec![note]);
    }
    let seen: Vec<&Survey> = seen_in(record).into_iter().filter_map(|kind| survey(live, &name, kind)).collect();
    if seen.is_empty() {
        return done(State::Unknown, vec![format!("{name} could not be asked for")]);
    }
    let (with, without) = servers_with(record, &seen);
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
            let (state, mut notes) = wrong(plan, record, &name, live);
            notes.extend(doubled_note(plan, record, live));
            done(state, notes)
        }
    }
}

/// What stands at a name in these types, each record once.
fn standing_at<'a>(live: &'a Live, name: &DomainName, kinds: &[RecordKind]) -> Vec<&'a Record> {
    let mut found: Vec<&Record> = Vec::new();
    for survey in kinds.iter().filter_map(|kind| survey(live, name, *kind)) {
        for record in survey.records() {
            if !found.iter().any(|known| known.kind == record.kind && known.value == record.value) {
                found.push(record);
            }
        }
    }
    found
}

/// Why it is not there: another value, another type, or nothing.
fn wrong(plan: &Plan, record: &PlannedRecord, name: &DomainName, live: &Live) -> (State, Vec<String>) {
    let kinds = match (&record.served_as, record.kind.served()) {
        (None, Some(kind)) => vec![kind],
        _ => kinds_at(record.kind).to_vec(),
    };
    let found = standing_at(live, name, &kinds);
    // Where a CNAME is planned, addresses may stand.
    let mut addresses: Vec<&Record> = Vec::new();
    if hides(record) {
        addresses = standing_at(live, name, &[RecordKind::A, RecordKind::Aaaa]);
        addresses.retain(|other| other.kind != RecordKind::Cname);
    }
    if let Some((by, masked)) = masked(record, &found, &addresses) {
        let state = State::Masked { by: by.to_owned(), found: list_of(&masked) };
        return (state, vec![proxy::note(by, &record.host.to_string())]);
    }
    let alias = found.iter().find(|other| other.kind == RecordKind::Cname);
    if let Some(alias) = alias.filter(|_| record.kind != PlannedKind::Cname) {
        let note = format!("a CNAME stands at {name}: remove it first, nothing can stand beside it");
        return (State::Wrong { found: format!("CNAME {}", alias.value) }, vec![note]);
    }
    if !found.is_empty() {
        let slips = found.iter().filter_map(|other| target_slip(record, &other.value, &plan.zone.zone));
        let notes = slips.chain(other_addresses(record)).collect();
        return (State::Wrong { found: list_of(&found) }, notes);
    }
    if !addresses.is_empty() {
        let note = format!(
            "addresses stand at {name} and a CNAME cannot stand beside them: remove them, or keep them instead of the CNAME"
        );
        return (State::Wrong { found: list_of(&addresses) }, vec![note]);
    }
    let hidden = if hides(record) { hidden(record, &live.surveys) } else { Vec::new() };
    if !hidden.is_empty() {
        let note = format!(
            "{} stands at {name} and a CNAME cannot stand beside it: it would hide it. Move it, or use addresses",
            list_of(&hidden)
        );
        return (State::Wrong { found: list_of(&hidden) }, vec![note]);
    }
    (State::Missing, Vec::new())
}

/// The service that everything leads to which stands at the name.
fn masked<'a>(
    record: &PlannedRecord,
    found: &[&'a Record],
    addresses: &[&'a Record],
) -> Option<(&'static str, Vec<&'a Record>)> {
    let all: Vec<&Record> = found.iter().chain(addresses).copied().collect();
    let by = proxy::service(&all.first()?.value)?;
    let planned = match &record.value {
        PlannedValue::Address(address) => RecordValue::Address(*address),
        PlannedValue::Name(name) => RecordValue::Name(name.clone()),
    };
    // Where the service is what is planned, its records are seen like any others.
    if proxy::service(&planned) == Some(by) {
        return None;
    }
    all.iter().all(|other| proxy::service(&other.value) == Some(by)).then_some((by, all))
}

/// What should be served where other addresses are.
fn other_addresses(record: &PlannedRecord) -> Option<String> {
    let addresses: Vec<String> = record.served_as.as_ref()?.iter().map(ToString::to_string).collect();
    Some(format!(
        "{} has {} now: make the {} record, and remove what stands there",
        record.value,
        addresses.join(", "),
        record.kind.as_str()
    ))
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
    let kinds = seen_in(record);
    let stale: Vec<&Cached> = live
        .cached
        .iter()
        .filter(|cached| cached.name == *name && kinds.contains(&cached.kind) && cached.ttl_left > 0)
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

/// Whether records of a type stand in a planned one's place. Where addresses are served for it, both kinds do, whichever the
/// target has.
fn takes(record: &PlannedRecord, kind: RecordKind) -> bool {
    match &record.served_as {
        None => record.kind.served() == Some(kind),
        Some(_) => matches!(kind, RecordKind::A | RecordKind::Aaaa),
    }
}

/// Records of a planned type at a planned name that are in no plan.
fn extras(plan: &Plan, live: &Live) -> Vec<Extra> {
    let mut extras: Vec<Extra> = Vec::new();
    for survey in &live.surveys {
        let here: Vec<&PlannedRecord> = plan
            .records
            .iter()
            .filter(|record| asked_name(record) == survey.name && takes(record, survey.kind))
            .collect();
        // Where nothing planned is there at all, what stands there is told as wrong.
        let fulfilled = here.iter().any(|record| {
            let surveys = live.surveys.iter().filter(|other| other.name == survey.name && takes(record, other.kind));
            surveys.flat_map(Survey::records).any(|found| is(record, found))
        });
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
