//! Events, served as core/v1 and as events.k8s.io/v1 over one storage in the core form. The older API is lenient; the
//! newer one checks strictly and lets little change.

use bailiwick_machinery::field::{Error, ErrorList, Path};
use bailiwick_machinery::resource::{SelectableField, Storage};
use bailiwick_machinery::strategy::NameValidator;
use bailiwick_machinery::validation::{names, validate_core_finalizers};
use bailiwick_machinery::{Context, GroupResource, Resource, Scope, Strategy, object};
use serde_json::{Map, Value, json};

use crate::descriptor::Named;
use crate::field_errors::{immutable, invalid_each, shown_json, shown_string};
use crate::fields::{integer, present, same, text};
use crate::go_shape::{self, Shape};

mod table;

/// Events vanish after an hour, upstream's `--event-ttl`.
const TTL_SECONDS: u64 = 60 * 60;

/// Upstream's limits on the texts of an event, in bytes.
const REPORTING_INSTANCE_LIMIT: usize = 128;
const ACTION_LIMIT: usize = 128;
const REASON_LIMIT: usize = 128;
const NOTE_LIMIT: usize = 1024;

/// Fields that are called one thing in core/v1 and another in events.k8s.io/v1.
const RENAMED: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Members of an object reference as selectors name them.
const REFERENCE_FIELDS: [&str; 7] = ["kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"];

const EVENTS_GROUP: &str = "events.k8s.io";

/// `events` twice.
pub fn resources() -> Vec<Resource> {
    resources_that_last(TTL_SECONDS)
}

/// `events`, which delete themselves after so many seconds.
pub fn resources_that_last(ttl_seconds: u64) -> Vec<Resource> {
    let core = Named { group: "", version: "v1", kind: "Event", plural: "events" };
    let newer = Named { group: EVENTS_GROUP, version: "v1", kind: "Event", plural: "events" };

    let mut core_fields: Vec<SelectableField> =
        REFERENCE_FIELDS.iter().map(|field| SelectableField::at(&format!("involvedObject.{field}"))).collect();
    core_fields.extend(["reason", "reportingComponent", "type"].map(SelectableField::at));
    core_fields.push(SelectableField::stored_at("source", "source.component").or_at("reportingComponent"));

    let mut newer_fields: Vec<SelectableField> = REFERENCE_FIELDS
        .iter()
        .map(|field| SelectableField::stored_at(&format!("regarding.{field}"), &format!("involvedObject.{field}")))
        .collect();
    newer_fields.extend(["reason", "type"].map(SelectableField::at));
    newer_fields.push(SelectableField::stored_at("reportingController", "reportingComponent"));

    vec![
        Resource {
            short_names: vec!["ev".to_owned()],
            selectable_fields: core_fields,
            ..core.stored(Scope::Namespaced, CoreEvent { ttl_seconds }, table::printer())
        },
        Resource {
            short_names: vec!["ev".to_owned()],
            selectable_fields: newer_fields,
            storage: Storage::Stored(GroupResource { group: String::new(), resource: "events".to_owned() }),
            ..newer.stored(Scope::Namespaced, NewerEvent { ttl_seconds }, table::printer())
        },
    ]
}

/// Which of the two APIs an object is written in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Core,
    Newer,
}

/// An event read by its core field names, whichever form it has.
#[derive(Clone, Copy)]
struct EventView<'a> {
    object: &'a Value,
    form: Form,
}

impl<'a> EventView<'a> {
    fn core(object: &'a Value) -> Self {
        Self { object, form: Form::Core }
    }

    fn newer(object: &'a Value) -> Self {
        Self { object, form: Form::Newer }
    }

    /// In whichever form the object says it has.
    fn of(object: &'a Value) -> Self {
        if text(object, "apiVersion").starts_with(EVENTS_GROUP) { Self::newer(object) } else { Self::core(object) }
    }

    /// A field by its core name; `None` when absent or null.
    fn get(self, core_name: &str) -> Option<&'a Value> {
        let renamed = RENAMED.iter().find(|(core, _)| *core == core_name);
        match (self.form, renamed) {
            (Form::Newer, Some((_, newer))) => present(self.object, newer),
            _ => present(self.object, core_name),
        }
    }

    fn text(self, core_name: &str) -> &'a str {
        self.get(core_name).and_then(Value::as_str).unwrap_or_default()
    }

    /// A string inside a struct.
    fn text_in(self, core_name: &str, member: &str) -> &'a str {
        self.get(core_name).map(|value| text(value, member)).unwrap_or_default()
    }

    fn count(self) -> i64 {
        self.get("count").and_then(Value::as_i64).unwrap_or_default()
    }
}

/// Events as core/v1 has them.
struct CoreEvent {
    ttl_seconds: u64,
}

impl Strategy for CoreEvent {
    fn default(&self, object: &mut Value) {
        fill_core_form(object);
    }

    fn validate(&self, _cx: &Context<'_>, object: &Value) -> ErrorList {
        validate_leniently(EventView::core(object))
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn ttl_seconds(&self, _object: &Value) -> Option<u64> {
        Some(self.ttl_seconds)
    }
}

/// Events as events.k8s.io/v1 has them.
struct NewerEvent {
    ttl_seconds: u64,
}

impl Strategy for NewerEvent {
    fn default(&self, object: &mut Value) {
        fill_newer_form(object);
    }

    fn validate(&self, _cx: &Context<'_>, object: &Value) -> ErrorList {
        let event = EventView::newer(object);
        let mut errors = validate_leniently(event);
        errors.extend(validate_core_finalizers(object));
        errors.extend(validate_series(event));
        if event.get("eventTime").is_none() {
            errors.push(Error::required(&Path::new("eventTime"), ""));
        }
        // Upstream passes an empty value to these errors and puts what matters into the text.
        let mut invalid = |field: &str, complaint: &str| errors.push(Error::invalid(&Path::new(field), "", complaint));
        let kind = event.text("type");
        if !["Normal", "Warning"].contains(&kind) {
            invalid("type", &format!("has invalid value: {kind}"));
        }
        for field in ["firstTimestamp", "lastTimestamp"] {
            if event.get(field).is_some() {
                invalid(field, "needs to be unset");
            }
        }
        if event.count() != 0 {
            invalid("count", "needs to be unset");
        }
        if !(event.text_in("source", "component").is_empty() && event.text_in("source", "host").is_empty()) {
            invalid("source", "needs to be unset");
        }
        errors
    }

    fn validate_update(&self, _cx: &Context<'_>, object: &Value, old: &Value) -> ErrorList {
        let (event, old) = (EventView::newer(object), EventView::newer(old));
        let mut errors = validate_leniently(event);
        errors.extend(validate_core_finalizers(object));
        if !same(event.get("series"), old.get("series")) {
            errors.extend(validate_series(event));
        }
        for (field, shown) in FROZEN {
            let path = Path::new(if field == "reportingComponent" { "reportingController" } else { field });
            errors.extend(immutable(&path, event.get(field), old.get(field), shown));
        }
        errors
    }

    fn name_validator(&self) -> NameValidator {
        names::name_is_dns_subdomain
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn stored_as_served(&self) -> bool {
        false
    }

    fn to_storage(&self, object: &mut Value) {
        if let Some(fields) = object.as_object_mut() {
            rename(fields, |(core, newer)| (newer, core));
            fields.insert("apiVersion".to_owned(), json!("v1"));
        }
        fill_core_form(object);
    }

    fn from_storage(&self, object: &mut Value) {
        if let Some(fields) = object.as_object_mut() {
            rename(fields, |names| names);
            fields.insert("apiVersion".to_owned(), json!("events.k8s.io/v1"));
            for field in ["reportingController", "reportingInstance"] {
                if fields.get(field).and_then(Value::as_str) == Some("") {
                    fields.remove(field);
                }
            }
        }
        fill_newer_form(object);
    }

    fn ttl_seconds(&self, _object: &Value) -> Option<u64> {
        Some(self.ttl_seconds)
    }
}

/// Renders a value for an error message.
type Shown = fn(Option<&Value>) -> String;

/// What an update through events.k8s.io/v1 may not change, by core name, in the order upstream complains. It complains
/// of the reason twice.
const FROZEN: [(&str, Shown); 14] = [
    ("involvedObject", shown_reference),
    ("reason", shown_string),
    ("message", shown_string),
    ("source", shown_source),
    ("firstTimestamp", shown_json),
    ("lastTimestamp", shown_json),
    ("count", shown_count),
    ("reason", shown_string),
    ("type", shown_string),
    ("eventTime", shown_json),
    ("action", shown_string),
    ("related", shown_related),
    ("reportingComponent", shown_string),
    ("reportingInstance", shown_string),
];

fn shown_reference(value: Option<&Value>) -> String {
    const MEMBERS: [go_shape::Field; 7] = [
        ("Kind", "kind", Shape::Text),
        ("Namespace", "namespace", Shape::Text),
        ("Name", "name", Shape::Text),
        ("UID", "uid", Shape::Text),
        ("APIVersion", "apiVersion", Shape::Text),
        ("ResourceVersion", "resourceVersion", Shape::Text),
        ("FieldPath", "fieldPath", Shape::Text),
    ];
    go_shape::shown(value.unwrap_or(&Value::Null), &MEMBERS)
}

/// `related` is a pointer, so absent is null.
fn shown_related(value: Option<&Value>) -> String {
    value.map_or_else(|| "null".to_owned(), |value| shown_reference(Some(value)))
}

fn shown_source(value: Option<&Value>) -> String {
    let members = [("Component", "component", Shape::Text), ("Host", "host", Shape::Text)];
    go_shape::shown(value.unwrap_or(&Value::Null), &members)
}

fn shown_count(value: Option<&Value>) -> String {
    value.and_then(Value::as_i64).unwrap_or_default().to_string()
}

/// The rules every event must pass. An event time tells the new way of recording events from the old one.
fn validate_leniently(event: EventView<'_>) -> ErrorList {
    let mut errors = ErrorList::new();
    let namespace = object::namespace(event.object);
    let involved = event.text_in("involvedObject", "namespace");
    let recorded_new_way = event.get("eventTime").is_some();

    let namespaces_agree = match (recorded_new_way, involved) {
        (false, "") => matches!(namespace, "" | "default"),
        (false, involved) => involved == namespace,
        (true, "") => matches!(namespace, "default" | "kube-system"),
        (true, _) => true,
    };
    if !namespaces_agree {
        let path = Path::new("involvedObject").child("namespace");
        errors.push(Error::invalid(&path, involved, "does not match event.namespace"));
    }

    if recorded_new_way {
        let controller_path = Path::new(match event.form {
            Form::Core => "reportingComponent",
            Form::Newer => "reportingController",
        });
        let controller = event.text("reportingComponent");
        if controller.is_empty() {
            errors.push(Error::required(&controller_path, ""));
        }
        errors.extend(invalid_each(&controller_path, controller, names::qualified_name(controller)));
        errors.extend(required_text(event, "reportingInstance", REPORTING_INSTANCE_LIMIT));
        errors.extend(required_text(event, "action", ACTION_LIMIT));
        errors.extend(required_text(event, "reason", REASON_LIMIT));
        errors.extend(limited_text(event, "message", NOTE_LIMIT));
    }

    errors.extend(invalid_each(&Path::new("namespace"), namespace, names::dns1123_subdomain(namespace)));
    errors
}

fn required_text(event: EventView<'_>, field: &str, limit: usize) -> Option<Error> {
    if event.text(field).is_empty() {
        return Some(Error::required(&Path::new(field), ""));
    }
    limited_text(event, field, limit)
}

fn limited_text(event: EventView<'_>, field: &str, limit: usize) -> Option<Error> {
    (event.text(field).len() > limit)
        .then(|| Error::invalid(&Path::new(field), "", format!("can have at most {limit} characters")))
}

fn validate_series(event: EventView<'_>) -> ErrorList {
    let mut errors = ErrorList::new();
    let Some(series) = event.get("series") else { return errors };
    if integer(series, "count") < 2 {
        errors.push(Error::invalid(&Path::new("series.count"), "", "should be at least 2"));
    }
    if present(series, "lastObservedTime").is_none() {
        errors.push(Error::required(&Path::new("series.lastObservedTime"), ""));
    }
    errors
}

/// Moves every renamed field, `direction` telling from which name to which.
fn rename(
    fields: &mut Map<String, Value>,
    direction: fn((&'static str, &'static str)) -> (&'static str, &'static str),
) {
    for names in RENAMED {
        let (from, to) = direction(names);
        if let Some(value) = fields.remove(from) {
            fields.insert(to.to_owned(), value);
        }
    }
}

/// The core form always shows these fields, as upstream's encoder does.
fn fill_core_form(object: &mut Value) {
    fill(object, &["involvedObject", "source"], || json!({}));
    fill(object, &["firstTimestamp", "lastTimestamp", "eventTime"], || Value::Null);
    fill(object, &["reportingComponent", "reportingInstance"], || json!(""));
}

/// The newer form always shows these fields, as upstream's encoder does.
fn fill_newer_form(object: &mut Value) {
    fill(object, &["regarding", "deprecatedSource"], || json!({}));
    fill(object, &["deprecatedFirstTimestamp", "deprecatedLastTimestamp", "eventTime"], || Value::Null);
}

fn fill(object: &mut Value, names: &[&str], value: fn() -> Value) {
    for name in names {
        crate::fields::set_default(object, name, value);
    }
}

#[cfg(test)]
mod tests;
