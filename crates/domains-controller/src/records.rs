//! Records that the owner of a domain wants to stay as they are: compared with what every server has, at each look. A record
//! that drifts is told once, with the time at which it was noticed, and once more when it is right again.

use bailiwick_domains::authority::{RecordKind, RecordValue, Said, Survey};
use bailiwick_domains::history::record::{Drift, LastRight, RecordEvidence, RecordState, WantedRecord};
use bailiwick_domains::history::{Change, Field};
use bailiwick_domains::name::DomainName;
use bailiwick_domains::quote::quote;
use bailiwick_domains::registration::Concern;
use jiff::Timestamp;

use crate::judge::Notice;
use crate::status::DomainStatus;

/// Records of one domain that are looked after: each is a question to every server at every look.
pub(crate) const RECORDS_MAX: usize = 20;
const CONDITION: &str = "RecordsMatch";
/// Values found instead of one record that are kept: a name may have thousands.
const FOUND_MAX: usize = 20;
/// Packets that are kept as evidence for one record.
const EVIDENCE_MAX: usize = 4;

/// A value in the form in which values are compared.
fn plain(kind: RecordKind, value: &str) -> String {
    let value = value.trim();
    match kind {
        RecordKind::Txt => value.trim_matches('"').to_owned(),
        RecordKind::Cname | RecordKind::Ns => value.trim_end_matches('.').to_ascii_lowercase(),
        RecordKind::A | RecordKind::Aaaa => {
            value.parse::<std::net::IpAddr>().map_or_else(|_| value.to_owned(), |address| address.to_string())
        }
        _ => value.to_ascii_lowercase(),
    }
}

fn seen(kind: RecordKind, value: &RecordValue) -> String {
    match value {
        RecordValue::Text(strings) => strings.concat(),
        other => plain(kind, &other.to_string()),
    }
}

/// What one look says of a record.
fn compare(wanted: &WantedRecord, survey: Option<&Survey>, now: Timestamp) -> RecordState {
    let mut state = RecordState {
        wanted: wanted.clone(),
        state: Drift::Unknown,
        found: Vec::new(),
        without: Vec::new(),
        since: now,
        last_right: None,
    };
    let Some(survey) = survey else { return state };
    let value = plain(wanted.kind, &wanted.value);
    let (mut with, mut evidence) = (0, Vec::new());
    for answer in survey.answered() {
        let values: Vec<String> = match &answer.said {
            Said::Records(records) => records.iter().map(|record| seen(record.kind, &record.value)).collect(),
            _ => Vec::new(),
        };
        if values.contains(&value) {
            with += 1;
            evidence.extend(answer.packet_sha256.clone().map(|packet_sha256| RecordEvidence {
                server: answer.server.to_string(),
                address: answer.address,
                packet_sha256,
            }));
            continue;
        }
        state.without.push(answer.server.to_string());
        for found in values {
            let found = quote(&found);
            if state.found.len() < FOUND_MAX && !state.found.contains(&found) {
                state.found.push(found);
            }
        }
    }
    state.without.sort();
    state.without.dedup();
    state.state = match (with, state.without.is_empty(), state.found.is_empty()) {
        (0, true, _) => Drift::Unknown,
        (_, true, _) => Drift::Match,
        (0, false, true) => Drift::Missing,
        (0, false, false) => Drift::Wrong,
        _ => Drift::Partial,
    };
    evidence.truncate(EVIDENCE_MAX);
    state.last_right = (state.state == Drift::Match).then_some(LastRight { at: now, evidence });
    state
}

/// Whether a look showed every record as it should be: none was passed over because nobody answered.
pub(crate) fn all_right(status: &DomainStatus, surveys: &[Option<Survey>]) -> bool {
    let answered = |survey: &Option<Survey>| survey.as_ref().is_some_and(|survey| survey.answered().next().is_some());
    surveys.iter().all(answered) && status.records.iter().all(|record| record.state == Drift::Match)
}

/// The questions for records, as far as they are in the domain.
pub(crate) fn questions(wanted: &[WantedRecord], domain: &DomainName) -> Vec<Option<(DomainName, RecordKind)>> {
    let question = |record: &WantedRecord| {
        let name = DomainName::parse(&record.name).ok().filter(|name| name.is_within(domain))?;
        Some((name, record.kind))
    };
    wanted.iter().take(RECORDS_MAX).map(question).collect()
}

/// Takes a look at the records into the status. `seen_right` is when all were last seen as they should be, which is not
/// written each time.
pub(crate) fn take_records(
    status: &mut DomainStatus,
    wanted: &[WantedRecord],
    surveys: &[Option<Survey>],
    seen_right: Option<Timestamp>,
    now: Timestamp,
) -> Vec<Notice> {
    let mut notices = Vec::new();
    let mut after = Vec::new();
    let mut changes = Vec::new();
    for (record, survey) in wanted.iter().take(RECORDS_MAX).zip(surveys) {
        let mut state = compare(record, survey.as_ref(), now);
        let before = status.records.iter().find(|known| known.wanted == *record);
        // Silence is no change.
        if let (Some(before), Drift::Unknown) = (before, state.state) {
            after.push(before.clone());
            continue;
        }
        if let Some(before) = before.filter(|before| (before.state == Drift::Match) != (state.state == Drift::Match)) {
            let concern = if state.state == Drift::Match { Concern::None } else { Concern::Warning };
            let (old, new) = (before.words(), state.words());
            changes.push(Change::new(now, Field::Record, old, new, concern));
        }
        if let Some(known) = before.and_then(|before| before.last_right.clone()) {
            let at = state.last_right.as_ref().map_or(known.at, |right| right.at).max(known.at);
            let stands = before.is_some_and(|before| before.state == state.state);
            let evidence = state.last_right.filter(|_| !stands).map_or(known.evidence, |right| right.evidence);
            state.last_right = Some(LastRight { at, evidence });
        }
        match before {
            Some(before) if before.state == state.state => state.since = before.since,
            Some(before) if before.state == Drift::Match => {
                let last = state.last_right.get_or_insert(LastRight { at: before.since, evidence: Vec::new() });
                last.at = last.at.max(seen_right.unwrap_or(last.at));
                let (right, seen) = (before.since, last.at);
                notices.push(Notice {
                    concern: Concern::Warning,
                    reason: "RecordDrifted".to_owned(),
                    note: format!("{}; it was right since {right} and last seen so at {seen}", state.sentence()),
                });
            }
            Some(_) if state.state == Drift::Match => notices.push(Notice {
                concern: Concern::None,
                reason: "RecordRestored".to_owned(),
                note: state.sentence(),
            }),
            _ => {}
        }
        after.push(state);
    }
    status.records = after;
    status.remember(changes);
    let wrong: Vec<String> =
        status.records.iter().filter(|record| record.state != Drift::Match).map(RecordState::sentence).collect();
    match (wanted.is_empty(), wrong.is_empty()) {
        (true, _) => status.conditions.retain(|condition| condition.kind != CONDITION),
        (false, true) => {
            let message = format!("all {} records are as they should be", status.records.len());
            status.set_condition(CONDITION, "True", "AsWanted", message, now);
        }
        (false, false) => status.set_condition(CONDITION, "False", "Drifted", wrong.join("; "), now),
    }
    notices
}

#[cfg(test)]
mod tests {
    use bailiwick_domains::authority::{Record, Security, ServerAnswer};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).expect("in range")
    }

    fn name(text: &str) -> DomainName {
        DomainName::parse(text).expect("a name")
    }

    fn wanted() -> WantedRecord {
        WantedRecord { name: "www.example.com".into(), kind: RecordKind::A, value: "203.0.113.7".into() }
    }

    fn survey(values: &[Option<&str>]) -> Option<Survey> {
        let answers = values.iter().enumerate().map(|(index, value)| ServerAnswer {
            server: name(&format!("ns{index}.example.net")),
            address: "192.0.2.1".parse().expect("an address"),
            said: value.map_or(Said::NoSuchName, |value| {
                let value = RecordValue::Address(value.parse().expect("an address"));
                Said::Records(vec![Record { name: name("www.example.com"), kind: RecordKind::A, ttl: 60, value }])
            }),
            serial: None,
            packet_sha256: None,
        });
        Some(Survey {
            vantage_point: "here".into(),
            name: name("www.example.com"),
            kind: RecordKind::A,
            zone: name("example.com"),
            nameservers: Vec::new(),
            delegation_ttl: None,
            delegation_signers: None,
            soa: None,
            security: Security::Insecure,
            answers: answers.collect(),
            wrong_glue: Vec::new(),
        })
    }

    fn look(status: &mut DomainStatus, survey: Option<Survey>, second: i64) -> Vec<(String, String)> {
        let notices = take_records(status, &[wanted()], &[survey], None, at(second));
        notices.into_iter().map(|notice| (notice.reason, notice.note)).collect()
    }

    #[test]
    fn a_record_that_drifts_is_told_once_with_what_is_there_and_once_more_when_it_is_right_again() {
        let (mut status, right) = (DomainStatus::default(), Some("203.0.113.7"));
        assert_eq!(look(&mut status, survey(&[right, right]), 0), []);
        assert_eq!(status.condition("RecordsMatch").map(|one| one.status.as_str()), Some("True"));
        let told = look(&mut status, survey(&[Some("203.0.113.9"), Some("203.0.113.9")]), 3600);
        let note = "www.example.com A is 203.0.113.9 and should be 203.0.113.7; it was right since 2027-01-15T08:00:00Z and \
                    last seen so at 2027-01-15T08:00:00Z";
        assert_eq!(told, [("RecordDrifted".to_owned(), note.to_owned())]);
        assert_eq!(
            status.records[0].last_right.as_ref().map(|right| right.at),
            Some(at(0)),
            "it is kept while it drifts"
        );
        assert_eq!(look(&mut status, survey(&[Some("203.0.113.9")]), 7200), [], "not again");
        assert_eq!(status.records[0].since, at(3600), "dated to when it was noticed");
        assert_eq!(status.condition("RecordsMatch").map(|one| one.status.as_str()), Some("False"));
        assert_eq!(look(&mut status, survey(&[right]), 10_800)[0].0, "RecordRestored");
        let history: Vec<(&str, &str)> =
            status.history.iter().map(|change| (change.old.as_str(), change.new.as_str())).collect();
        let (was, is) = ("www.example.com A 203.0.113.7", "www.example.com A 203.0.113.9");
        assert_eq!(history, [(is, was), (was, is)], "the latest first");
    }

    #[test]
    fn a_drift_is_dated_to_the_last_look_that_found_it_right_and_has_that_ones_packets() {
        let (mut status, record) = (DomainStatus::default(), [wanted()]);
        let packet = |digest: &str| {
            let mut seen = survey(&[Some("203.0.113.7")]).expect("a survey");
            seen.answers[0].packet_sha256 = Some(digest.to_owned());
            [Some(seen)]
        };
        take_records(&mut status, &record, &packet("ab"), None, at(0));
        assert!(all_right(&status, &packet("ab")) && !all_right(&status, &[None]));
        let written = status.clone();
        take_records(&mut status, &record, &packet("cd"), Some(at(0)), at(3600));
        assert_eq!(written.without_times(), status.without_times(), "seeing it again is no reason to write");
        let gone = [survey(&[None])];
        let notices = take_records(&mut status, &record, &gone, Some(at(7200)), at(10_800));
        assert!(notices[0].note.ends_with("and last seen so at 2027-01-15T10:00:00Z"), "{notices:?}");
        let right = status.records[0].last_right.clone().expect("it was right");
        assert_eq!((right.at, right.evidence[0].packet_sha256.as_str()), (at(7200), "ab"));
    }

    #[test]
    fn the_server_that_lacks_it_is_named() {
        let mut status = DomainStatus::default();
        look(&mut status, survey(&[Some("203.0.113.7"), None]), 0);
        let message = status.condition("RecordsMatch").map(|one| one.message.clone());
        assert!(message.is_some_and(|message| message.ends_with("is not on ns1.example.net")));
    }

    #[test]
    fn giant_values_in_great_number_are_kept_by_their_beginnings() {
        let owner = name("www.example.com");
        let giant = |number: usize| {
            let value = RecordValue::Text(vec![format!("{number} {}", "x".repeat(60_000))]);
            Record { name: owner.clone(), kind: RecordKind::Txt, ttl: 60, value }
        };
        let mut survey = survey(&[None]).expect("a survey");
        survey.answers[0].said = Said::Records((0..100).map(giant).collect());
        let wanted = WantedRecord { name: owner.to_string(), kind: RecordKind::Txt, value: "v=spf1 -all".into() };
        let state = compare(&wanted, Some(&survey), at(0));
        assert_eq!((state.state, state.found.len()), (Drift::Wrong, FOUND_MAX));
        assert!(state.found.iter().all(|found| found.len() <= bailiwick_domains::quote::QUOTED_BYTES_MAX));
    }

    #[test]
    fn silence_is_no_drift() {
        let mut status = DomainStatus::default();
        look(&mut status, survey(&[Some("203.0.113.7")]), 0);
        assert_eq!(look(&mut status, None, 3600), []);
        assert_eq!(status.records[0].state, Drift::Match);
    }

    #[test]
    fn only_names_of_the_domain_are_asked_for() {
        let other = WantedRecord { name: "www.example.org".into(), ..wanted() };
        let asked = questions(&[wanted(), other], &name("example.com"));
        assert_eq!(asked, [Some((name("www.example.com"), RecordKind::A)), None]);
    }
}
