use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::registration::Concern;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).expect("in range")
}

fn time(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

fn change(second: i64, field: Field, old: &str, new: &str) -> Change {
    Change::new(at(second), field, old.into(), new.into(), Concern::None)
}

fn fact(past: &Past, field: Field) -> &Fact {
    past.facts.iter().find(|fact| fact.field == field).expect("a fact")
}

fn observed(provider: &str) -> Option<Observation> {
    Some(Observation {
        at: at(0),
        registration: None,
        delegated_to: Some(Vec::new()),
        delegation_signers: None,
        dns_provider: Some(provider.into()),
    })
}

/// Looked at for the first time at 0; the provider changed at 100 and at 200.
fn moved_twice() -> Recorded {
    Recorded {
        observation: observed("three"),
        history: vec![change(200, Field::DnsProvider, "two", "three"), change(100, Field::DnsProvider, "one", "two")],
        first_scan: Some(at(0)),
        last_scan: Some(at(300)),
        ..Recorded::default()
    }
}

#[test]
fn what_was_known_is_told_with_the_times_between_which_it_was() {
    let known = |second: i64| {
        let past = moved_twice().past("q7.io", at(second));
        let fact = fact(&past, Field::DnsProvider).clone();
        (fact.value, fact.since, fact.until)
    };
    assert_eq!(known(0), (Some("one".into()), Some(at(0)), Some(at(100))));
    assert_eq!(known(99), (Some("one".into()), Some(at(0)), Some(at(100))));
    assert_eq!(known(100), (Some("two".into()), Some(at(100)), Some(at(200))), "noticed at that very moment");
    assert_eq!(known(250), (Some("three".into()), Some(at(200)), None));
}

#[test]
fn before_the_first_look_nothing_is_known() {
    let past = moved_twice().past("q7.io", at(-1));
    assert_eq!(past.facts, []);
    let told = past.unknown.expect("a reason");
    assert_eq!(told, "q7.io was looked at for the first time at 2027-01-15T08:00:00Z; nothing is known of before");
    let never = Recorded::default().past("q7.io", at(0));
    assert_eq!(never.unknown.as_deref(), Some("q7.io has not been looked at yet"));
}

#[test]
fn beyond_the_changes_that_are_kept_nothing_is_guessed() {
    let mut recorded = moved_twice();
    recorded.history = (0..HISTORY_MAX as i64)
        .rev()
        .map(|nth| change(1_000 + nth, Field::Health, "", &format!("trouble {nth}")))
        .collect();
    let past = recorded.past("q7.io", at(999));
    let provider = fact(&past, Field::DnsProvider);
    assert_eq!(provider.value, None);
    let told = provider.unknown.clone().expect("a reason");
    assert_eq!(told, "only the last 100 changes are kept, and the oldest of them was noticed at 2027-01-15T08:16:40Z");
    assert_eq!(fact(&past, Field::Health).value, None);
    // From the oldest change on, all is known again; who had it is kept apart and was never lost.
    let past = recorded.past("q7.io", at(1_000));
    assert_eq!(fact(&past, Field::DnsProvider).value.as_deref(), Some("three"));
    assert_eq!(fact(&past, Field::DnsProvider).since, None, "nobody knows since when");
}

#[test]
fn what_nobody_had_told_yet_is_not_known_before() {
    let mut recorded = moved_twice();
    recorded.history = vec![change(100, Field::DnsProvider, UNKNOWN, "three")];
    let past = recorded.past("q7.io", at(50));
    let provider = fact(&past, Field::DnsProvider);
    assert_eq!((provider.value.as_deref(), provider.unknown.as_deref()), (None, Some("nobody had told it")));
    assert_eq!(provider.until, Some(at(100)));
    assert_eq!(fact(&past, Field::Registrar).value, None);
}

#[test]
fn troubles_are_those_that_had_begun_and_had_not_ended() {
    let ended = Change { since: Some(at(100)), ..change(200, Field::Health, "ns1 is lame", "") };
    let recorded = Recorded {
        history: vec![ended, change(100, Field::Health, "", "ns1 is lame")],
        troubles: vec![Stands { text: "ns2 is silent, in newer words".into(), since: at(150) }],
        ..moved_twice()
    };
    let known = |second: i64| fact(&recorded.past("q7.io", at(second)), Field::Health).value.clone();
    assert_eq!(known(99).as_deref(), Some("nothing was the matter"));
    assert_eq!(known(100).as_deref(), Some("ns1 is lame"));
    assert_eq!(known(150).as_deref(), Some("ns1 is lame; ns2 is silent, in newer words"));
    assert_eq!(known(200).as_deref(), Some("ns2 is silent, in newer words"));
    // A line of an earlier version does not say since when it was so; another one does.
    let mut older = recorded.clone();
    older.history[0].since = None;
    let known = |second: i64| fact(&older.past("q7.io", at(second)), Field::Health).value.clone();
    assert_eq!(known(99).as_deref(), Some("nothing was the matter"));
    assert_eq!(known(100).as_deref(), Some("ns1 is lame"));
}

#[test]
fn records_are_told_as_they_stood() {
    let record = json!({"name": "a.q7.io", "type": "A", "value": "192.0.2.1", "state": "Match", "since": at(200)});
    let recorded = Recorded {
        records: vec![serde_json::from_value(record).expect("a record")],
        history: vec![
            change(200, Field::Record, "a.q7.io A 192.0.2.9", "a.q7.io A 192.0.2.1"),
            change(100, Field::Record, "a.q7.io A 192.0.2.1", "a.q7.io A 192.0.2.9"),
        ],
        ..moved_twice()
    };
    let known = |second: i64| fact(&recorded.past("q7.io", at(second)), Field::Record).value.clone();
    assert_eq!(known(99).as_deref(), Some("a.q7.io A 192.0.2.1"));
    assert_eq!(known(100).as_deref(), Some("a.q7.io A 192.0.2.9"));
    assert_eq!(known(200).as_deref(), Some("a.q7.io A 192.0.2.1"));
    let young = Recorded { history: Vec::new(), ..recorded };
    let past = young.past("q7.io", at(50));
    assert_eq!(
        fact(&past, Field::Record).unknown.as_deref(),
        Some("a.q7.io A: what is known of it begins at 2027-01-15T08:03:20Z")
    );
}

#[test]
fn a_day_is_its_end_and_the_future_is_not_known() {
    let now = time("2026-11-18T10:00:00Z");
    let asked = |text: &str| text.parse::<Asked>().and_then(|asked| asked.at(now));
    assert_eq!(asked("2026-11-01"), Ok(time("2026-11-01T23:59:59Z")));
    assert_eq!(asked("2026-11-18"), Ok(now), "today is known until now");
    assert_eq!(asked("2026-11-01T12:00:00+01:00"), Ok(time("2026-11-01T11:00:00Z")));
    for later in ["2026-11-19", "2026-11-18T10:00:01Z"] {
        assert!(asked(later).is_err_and(|told| told.starts_with("the future is not known")), "{later}");
    }
    for wrong in ["", "yesterday", "2026-13-01", "2026-11", "2026-11-01T12:00", "1.11.2026"] {
        assert!(asked(wrong).is_err_and(|told| told.contains("write a day such as 2026-11-01")), "{wrong}");
    }
}

#[test]
fn an_object_without_a_status_and_one_of_an_earlier_version_can_be_asked() {
    let empty = Recorded::of(&json!({"metadata": {"name": "q7"}})).expect("nothing");
    assert!(empty.past("q7.io", at(0)).unknown.is_some());
    let object = json!({
        "metadata": {"creationTimestamp": at(10)},
        "status": {"lastScan": at(20), "observation": {"at": at(20), "dnsProvider": "one"}, "statusFlags": ["ok"],
                   "verification": {"standing": {"state": "unproved", "since": at(10)}, "record": {}}},
    });
    let recorded = Recorded::of(&object).expect("a status");
    assert!(recorded.past("q7.io", at(9)).unknown.is_some());
    let past = recorded.past("q7.io", at(15));
    assert_eq!(fact(&past, Field::DnsProvider).value.as_deref(), Some("one"));
    assert_eq!(fact(&past, Field::Ownership).value.as_deref(), Some("not proved"));
    assert!(Recorded::of(&json!({"status": {"history": 7}})).is_err());
}

proptest! {
    /// Whatever happens, each earlier state comes back when what followed is rolled back, and what is no longer kept is never
    /// told as known.
    #[test]
    fn rolling_back_gives_every_earlier_state(steps in prop::collection::vec((0..SINGLE.len(), 0..4_u8), 0..260)) {
        let words = |value: u8| if value == 0 { UNKNOWN.to_owned() } else { format!("value {value}") };
        let mut state: Values = SINGLE.iter().map(|field| (*field, words(1))).collect();
        let mut states = vec![state.clone()];
        let mut history: Vec<Change> = Vec::new();
        for (index, (field, value)) in steps.iter().enumerate() {
            let field = SINGLE[*field];
            let old = state.insert(field, words(*value)).expect("all are there");
            if old != words(*value) {
                history.insert(0, change(index as i64 + 1, field, &old, &words(*value)));
            }
            states.push(state.clone());
        }
        // As a status keeps them.
        let (mut of_owners, mut others) = (0, 0);
        history.retain(|change| {
            let (count, most) = match change.field {
                Field::Ownership => (&mut of_owners, OWNERSHIP_HISTORY_MAX),
                _ => (&mut others, HISTORY_MAX),
            };
            *count += 1;
            *count <= most
        });
        let recorded = Recorded { history, ..moved_twice() };
        let known = |state: &Values| {
            let mut known = state.clone();
            known.retain(|_, value| value != UNKNOWN);
            known
        };
        for (second, earlier) in states.iter().enumerate() {
            let moment = at(second as i64);
            let rolled = rolled_back(known(&state), &recorded.history, moment);
            let (past, earlier) = (recorded.past("q7.io", moment), known(earlier));
            for field in SINGLE {
                match recorded.kept_since(field).filter(|since| moment < *since) {
                    None => prop_assert_eq!(rolled.get(&field), earlier.get(&field)),
                    Some(_) => prop_assert_eq!(fact(&past, field).value.as_ref(), None, "{:?} is not kept", field),
                }
            }
        }
    }
}
