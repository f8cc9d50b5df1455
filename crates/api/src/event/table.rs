//! How `kubectl get events` looks, the same for both APIs.

use bailiwick_machinery::object;
use bailiwick_machinery::table::Column;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, ObjectReference};
use serde_json::{Value, json};

use super::EventView;
use crate::columns::{Printer, description, name_column, since};
use crate::fields::{integer, present};

pub(super) fn printer() -> Printer {
    Printer::new(columns, cells)
}

fn columns() -> Vec<Column> {
    let column = |name, field| Column::new(name, "string", &description::<Event>(field));
    vec![
        column("Last Seen", "lastTimestamp"),
        column("Type", "type"),
        column("Reason", "reason"),
        column("Object", "involvedObject"),
        Column::new("Subobject", "string", &description::<ObjectReference>("fieldPath")).priority(1),
        column("Source", "source").priority(1),
        column("Message", "message"),
        column("First Seen", "firstTimestamp").priority(1),
        column("Count", "count").priority(1),
        name_column().priority(1),
    ]
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let event = EventView::of(object);
    let first_seen = since(event.get("firstTimestamp").or_else(|| event.get("eventTime")), now);
    let (last_seen, count) = match event.get("series") {
        Some(series) => (since(present(series, "lastObservedTime"), now), integer(series, "count")),
        None => {
            let last_seen = event.get("lastTimestamp").map(|time| since(Some(time), now));
            let count = match event.count() {
                // One occurrence is not counted in the newer API.
                0 => 1,
                count => count,
            };
            (last_seen.unwrap_or_else(|| first_seen.clone()), count)
        }
    };
    vec![
        json!(last_seen),
        json!(event.text("type")),
        json!(event.text("reason")),
        json!(target(event)),
        json!(event.text_in("involvedObject", "fieldPath")),
        json!(source(event)),
        json!(event.text("message").trim()),
        json!(first_seen),
        json!(count),
        json!(object::name(object)),
    ]
}

/// `kind/name` of the object an event is about.
fn target(event: EventView<'_>) -> String {
    let kind = event.text_in("involvedObject", "kind").to_lowercase();
    match event.text_in("involvedObject", "name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

/// Who reported an event and where, in the old fields or else in the new ones.
fn source(event: EventView<'_>) -> String {
    let or = |first: &str, second: &str| if first.is_empty() { second.to_owned() } else { first.to_owned() };
    let component = or(event.text_in("source", "component"), event.text("reportingComponent"));
    match or(event.text_in("source", "host"), event.text("reportingInstance")) {
        instance if instance.is_empty() => component,
        instance => format!("{component}, {instance}"),
    }
}
