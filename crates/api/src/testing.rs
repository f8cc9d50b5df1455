//! Runs the hooks of a resource in the order the generic handler does, for tests that read as tables.

use bailiwick_machinery::{Context, Resource, Strategy, UserInfo};
use bailiwick_schema::decode::decode_value;
use jiff::Timestamp;
use serde_json::Value;

/// The moment all tests happen at.
pub(crate) const NOW: &str = "2026-01-01T00:00:00Z";

/// The native resource served under `group` and `plural`.
pub(crate) fn resource(group: &str, plural: &str) -> Resource {
    crate::native_resources()
        .into_iter()
        .find(|resource| resource.group == group && resource.plural == plural)
        .unwrap_or_else(|| panic!("no resource {plural}.{group}"))
}

pub(crate) fn now() -> Timestamp {
    NOW.parse().expect("a timestamp")
}

fn texts(errors: &[bailiwick_machinery::field::Error]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// The object as it would be stored, or what is wrong with it.
pub(crate) fn create(strategy: &dyn Strategy, mut object: Value) -> Result<Value, Vec<String>> {
    let user = UserInfo::default();
    let cx = Context { now: now(), user: &user, warnings: None };
    strategy.default(&mut object);
    strategy.prepare_for_create(&cx, &mut object);
    let errors = strategy.validate(&cx, &object);
    if !errors.is_empty() {
        return Err(texts(&errors));
    }
    strategy.canonicalize(&mut object);
    Ok(object)
}

/// The updated object as it would be stored, or what is wrong with it.
pub(crate) fn update(strategy: &dyn Strategy, mut object: Value, old: &Value) -> Result<Value, Vec<String>> {
    let user = UserInfo::default();
    let cx = Context { now: now(), user: &user, warnings: None };
    strategy.default(&mut object);
    strategy.prepare_for_update(&cx, &mut object, old);
    let errors = strategy.validate_update(&cx, &object, old);
    if !errors.is_empty() {
        return Err(texts(&errors));
    }
    strategy.canonicalize(&mut object);
    Ok(object)
}

/// The object as decoding by type, which comes before the hooks, leaves it.
pub(crate) fn decoded(resource: &Resource, object: &Value) -> Value {
    let native = resource.native.expect("a native type");
    decode_value(native, object).expect("an object of its type").value
}

/// Asserts what creating `object` complains of; nothing means it is accepted.
pub(crate) fn check_create(group: &str, plural: &str, object: Value, expected: &[&str]) {
    let resource = resource(group, plural);
    let errors = create(&*resource.strategy, decoded(&resource, &object)).err().unwrap_or_default();
    assert_eq!(errors, expected, "{object}");
}

/// Asserts what an update from `old` to `object` complains of; `path` may name a subresource after a slash.
pub(crate) fn check_update(group: &str, path: &str, old: &Value, object: Value, expected: &[&str]) {
    let (plural, subresource) = path.split_once('/').unwrap_or((path, ""));
    let resource = resource(group, plural);
    let strategy = match resource.subresource(subresource) {
        Some(subresource) => &subresource.strategy,
        None => &resource.strategy,
    };
    let errors = update(&**strategy, decoded(&resource, &object), &decoded(&resource, old)).err().unwrap_or_default();
    assert_eq!(errors, expected, "{object}");
}
