use serde_json::{Value, json};

use super::{CoreEvent, EVENTS_GROUP, NewerEvent};
use crate::testing::{check_create, check_update, now, resource};
use bailiwick_machinery::Strategy;

const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
                         an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for \
                         validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const NAMESPACE: &str = "involvedObject.namespace: Invalid value: \"\": does not match event.namespace";

/// A good event of events.k8s.io/v1, with changes.
fn newer(changes: Value) -> Value {
    let mut event = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e", "namespace": "n"},
        "eventTime": "2026-01-01T00:00:00.500000Z", "regarding": {"namespace": "n", "kind": "X", "name": "y"},
        "type": "Normal", "reportingController": "c", "reportingInstance": "i", "action": "a", "reason": "r", "note": "hi",
    });
    for (field, value) in changes.as_object().into_iter().flatten() {
        event[field] = value.clone();
    }
    event
}

#[test]
fn an_old_style_event_lives_with_its_object() {
    let event = |namespace: &str, involved: &str| json!({"apiVersion": "v1", "metadata": {"namespace": namespace}, "involvedObject": {"namespace": involved}});
    check_create("", "events", event("n", "n"), &[]);
    check_create("", "events", event("default", ""), &[]);
    check_create("", "events", event("n", ""), &[NAMESPACE]);
    let other = "involvedObject.namespace: Invalid value: \"m\": does not match event.namespace";
    check_create("", "events", event("n", "m"), &[other]);
}

#[test]
fn an_event_with_a_time_says_who_did_what_and_why() {
    let time = "2026-01-01T00:00:00.000000Z";
    check_create(
        "",
        "events",
        json!({"apiVersion": "v1", "metadata": {"namespace": "n"}, "eventTime": time}),
        &[
            NAMESPACE,
            "reportingComponent: Required value",
            "reportingComponent: Invalid value: \"\": name part must be non-empty",
            &format!("reportingComponent: Invalid value: \"\": {QUALIFIED}"),
            "reportingInstance: Required value",
            "action: Required value",
            "reason: Required value",
        ],
    );
    let long = |length: usize| "x".repeat(length);
    check_create(
        "",
        "events",
        json!({
            "apiVersion": "v1", "metadata": {"namespace": "n"}, "eventTime": time, "involvedObject": {"namespace": "other"},
            "reportingComponent": "a.b/c", "reportingInstance": long(129), "action": long(129), "reason": long(129),
            "message": long(1025),
        }),
        &[
            "reportingInstance: Invalid value: \"\": can have at most 128 characters",
            "action: Invalid value: \"\": can have at most 128 characters",
            "reason: Invalid value: \"\": can have at most 128 characters",
            "message: Invalid value: \"\": can have at most 1024 characters",
        ],
    );
}

#[test]
fn the_newer_api_takes_no_old_fields() {
    check_create(EVENTS_GROUP, "events", newer(json!({})), &[]);
    check_create(
        EVENTS_GROUP,
        "events",
        newer(json!({
            "eventTime": null, "type": "Foo", "deprecatedCount": 1, "deprecatedSource": {"host": "x"},
            "deprecatedFirstTimestamp": "2026-01-01T00:00:00Z", "deprecatedLastTimestamp": "2026-01-01T00:00:00Z",
            "series": {"count": 1, "lastObservedTime": null},
        })),
        &[
            "series.count: Invalid value: \"\": should be at least 2",
            "series.lastObservedTime: Required value",
            "eventTime: Required value",
            "type: Invalid value: \"\": has invalid value: Foo",
            "firstTimestamp: Invalid value: \"\": needs to be unset",
            "lastTimestamp: Invalid value: \"\": needs to be unset",
            "count: Invalid value: \"\": needs to be unset",
            "source: Invalid value: \"\": needs to be unset",
        ],
    );
}

#[test]
fn the_newer_api_lets_only_the_series_change() {
    let series = json!({"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"});
    check_update(EVENTS_GROUP, "events", &newer(json!({})), newer(json!({"series": series})), &[]);
    check_update(
        EVENTS_GROUP,
        "events",
        &newer(json!({})),
        newer(json!({
            "regarding": {"namespace": "n", "kind": "X", "name": "z"}, "reason": "r2", "note": "ho",
            "deprecatedSource": {"host": "h"}, "deprecatedLastTimestamp": "2026-01-01T00:00:00Z", "deprecatedCount": 4,
            "type": "Warning", "eventTime": "2026-01-01T00:00:00.600000Z", "action": "a2", "related": {"name": "foo"},
            "reportingController": "c2", "reportingInstance": "i2",
        })),
        &[
            "involvedObject: Invalid value: {\"Kind\":\"X\",\"Namespace\":\"n\",\"Name\":\"z\",\"UID\":\"\",\
             \"APIVersion\":\"\",\"ResourceVersion\":\"\",\"FieldPath\":\"\"}: field is immutable",
            "reason: Invalid value: \"r2\": field is immutable",
            "message: Invalid value: \"ho\": field is immutable",
            "source: Invalid value: {\"Component\":\"\",\"Host\":\"h\"}: field is immutable",
            "lastTimestamp: Invalid value: \"2026-01-01T00:00:00Z\": field is immutable",
            "count: Invalid value: 4: field is immutable",
            "reason: Invalid value: \"r2\": field is immutable",
            "type: Invalid value: \"Warning\": field is immutable",
            "eventTime: Invalid value: \"2026-01-01T00:00:00.600000Z\": field is immutable",
            "action: Invalid value: \"a2\": field is immutable",
            "related: Invalid value: {\"Kind\":\"\",\"Namespace\":\"\",\"Name\":\"foo\",\"UID\":\"\",\"APIVersion\":\"\",\
             \"ResourceVersion\":\"\",\"FieldPath\":\"\"}: field is immutable",
            "reportingController: Invalid value: \"c2\": field is immutable",
            "reportingInstance: Invalid value: \"i2\": field is immutable",
        ],
    );
}

#[test]
fn both_apis_show_one_stored_event() {
    let mut event = newer(json!({}));
    NewerEvent { ttl_seconds: 1 }.to_storage(&mut event);
    assert_eq!(
        event,
        json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "n"},
            "involvedObject": {"namespace": "n", "kind": "X", "name": "y"}, "reason": "r", "message": "hi", "source": {},
            "firstTimestamp": null, "lastTimestamp": null, "type": "Normal", "eventTime": "2026-01-01T00:00:00.500000Z",
            "action": "a", "reportingComponent": "c", "reportingInstance": "i",
        })
    );
    NewerEvent { ttl_seconds: 1 }.from_storage(&mut event);
    let mut expected = newer(json!({"deprecatedSource": {}}));
    expected["deprecatedFirstTimestamp"] = Value::Null;
    expected["deprecatedLastTimestamp"] = Value::Null;
    assert_eq!(event, expected);
}

#[test]
fn an_old_event_read_through_the_newer_api_hides_empty_reporters() {
    let mut event = json!({"apiVersion": "v1", "metadata": {}, "involvedObject": {"name": "x"}});
    CoreEvent { ttl_seconds: 1 }.default(&mut event);
    assert_eq!(event["reportingComponent"], "");
    NewerEvent { ttl_seconds: 1 }.from_storage(&mut event);
    assert_eq!(event.get("reportingController"), None);
    assert_eq!(event["regarding"], json!({"name": "x"}));
    assert_eq!(event["eventTime"], Value::Null);
}

#[test]
fn the_source_selector_falls_back_to_the_reporter() {
    let events = resource("", "events");
    let source = events.selectable_fields.iter().find(|field| field.name == "source").expect("selectable");
    assert_eq!(source.value(&json!({"source": {"component": "a"}, "reportingComponent": "b"})), "a");
    assert_eq!(source.value(&json!({"source": {}, "reportingComponent": "b"})), "b");
    let names = |group| resource(group, "events").selectable_fields.len();
    assert_eq!((names(""), names(EVENTS_GROUP)), (11, 10));
}

#[test]
fn the_table_reads_both_forms() {
    let table = resource("", "events").table;
    let old = json!({
        "apiVersion": "v1", "metadata": {"name": "c"}, "involvedObject": {"kind": "Pod", "name": "q", "fieldPath": "fp"},
        "reason": "r", "message": " m ", "source": {"component": "comp", "host": "h"}, "count": 3, "type": "Warning",
        "firstTimestamp": "2025-12-31T23:59:00Z", "lastTimestamp": "2025-12-31T23:59:30Z",
    });
    let cells: Vec<Value> = vec![
        "30s".into(),
        "Warning".into(),
        "r".into(),
        "pod/q".into(),
        "fp".into(),
        "comp, h".into(),
        "m".into(),
        "60s".into(),
        3.into(),
        "c".into(),
    ];
    assert_eq!(table.cells(&old, now()), cells);
    let series = json!({"count": 7, "lastObservedTime": "2025-12-31T23:59:55.000000Z"});
    let cells = table.cells(&newer(json!({"series": series, "eventTime": "2025-12-31T23:59:00.000000Z"})), now());
    let expected: Vec<Value> = vec![
        "5s".into(),
        "Normal".into(),
        "r".into(),
        "x/y".into(),
        "".into(),
        "c, i".into(),
        "hi".into(),
        "60s".into(),
        7.into(),
        "e".into(),
    ];
    assert_eq!(cells, expected);
}
