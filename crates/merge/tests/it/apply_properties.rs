//! What holds for every configuration: applying twice is applying once, managers of different fields do not get into each
//! other's way, and nobody loses a field to somebody who does not mention it.

use bailiwick_merge::apply::{
    ApplyError, FieldManager, FieldSet, Force, NoOtherVersions, ResetFields, TypeRef, field_set,
};
use bailiwick_schema::structural::{self, Schema};
use bailiwick_schema::time::Instant;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use std::sync::{Arc, LazyLock};

const NOW: Instant = Instant { unix_seconds: 1_700_000_000, nanoseconds: 0 };
const LATER: Instant = Instant { unix_seconds: 1_700_000_100, nanoseconds: 0 };

static NO_RESET: ResetFields = ResetFields::NONE;

static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(|| {
    let text = json!({"type": "string"});
    let spec = json!({"type": "object", "properties": {
        "text": text,
        "ports": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
            "items": {"type": "object", "properties": {
                "port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}, "name": text}},
        },
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
        "plain": {"type": "array", "items": text},
        "labels": {"type": "object", "additionalProperties": text},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }});
    structural::compile(&json!({"type": "object", "properties": {"spec": spec}})).expect("a structural schema")
});

fn widgets() -> FieldManager<'static> {
    FieldManager {
        types: TypeRef::custom(&SCHEMA),
        api_version: "x.test/v1",
        kind: "Widget",
        subresource: "",
        reset: &NO_RESET,
        converter: &NoOtherVersions,
    }
}

fn object(spec: Value) -> Value {
    json!({"apiVersion": "x.test/v1", "kind": "Widget", "metadata": {"name": "x"}, "spec": spec})
}

/// The part of an object that is its own; what the server would set is added so that it counts as existing.
fn stored(mut object: Value) -> Value {
    object["metadata"]["uid"] = json!("8a2e");
    object
}

/// Configurations without empty lists and maps. Those are not idempotent with the reference either: a list that loses its
/// last entry becomes null, which an empty list then replaces.
fn config() -> impl Strategy<Value = Value> {
    let port = (prop_oneof![Just(80), Just(443), Just(8080)], prop_oneof![Just("TCP"), Just("UDP")], "[a-b]?");
    let port = port.prop_map(|(port, protocol, name)| match name.as_str() {
        "" => json!({"port": port, "protocol": protocol}),
        name => json!({"port": port, "protocol": protocol, "name": name}),
    });
    let key = |port: &Value| (port["port"].as_i64(), port["protocol"].as_str().map(str::to_owned));
    let ports = prop::collection::vec(port, 1..4).prop_map(move |mut ports| {
        ports.sort_by_key(key);
        ports.dedup_by_key(|port| key(port));
        Value::from(ports)
    });
    let tags = || prop::sample::subsequence(vec!["a", "b", "c", "d"], 1..4).prop_shuffle().prop_map(Value::from);
    let labels = prop::collection::btree_map("[a-c]", "[12]", 1..3).prop_map(|labels| json!(labels));
    let leaf = prop_oneof![Just(json!(1)), Just(json!("x")), Just(json!([1]))];
    let free = leaf.prop_recursive(2, 6, 3, |inner| {
        prop::collection::btree_map("[a-c]", inner, 1..3).prop_map(|fields| json!(fields))
    });
    let free = prop::collection::btree_map("[a-c]", free, 1..3).prop_map(|fields| json!(fields));
    let some = |name: &'static str, value: BoxedStrategy<Value>| prop::option::of(value).prop_map(move |v| (name, v));
    (
        "[xy]".prop_map(|text| ("text", Some(Value::from(text)))),
        some("ports", ports.boxed()),
        some("tags", tags().boxed()),
        some("plain", tags().boxed()),
        some("labels", labels.boxed()),
        some("free", free.boxed()),
    )
        .prop_map(|(a, b, c, d, e, f)| {
            let fields = [a, b, c, d, e, f].into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
            object(Value::Object(fields.collect::<Map<_, _>>()))
        })
}

fn apply(live: Option<&Value>, config: &Value, manager: &str, force: Force) -> Result<Value, ApplyError> {
    widgets().apply(live, config, manager, force, NOW).map(|applied| stored(applied.object))
}

fn fields_of(object: &Value, manager: &str) -> FieldSet<'static> {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let entry = entries.iter().find(|entry| entry["manager"] == manager);
    entry.map_or(FieldSet::EMPTY, |entry| FieldSet::from_value(&entry["fieldsV1"]).expect("fields").into_owned())
}

/// A configuration shared out between two managers as `sides` says: by fields, by entries of the list map and by members of
/// the set. Both may have an entry of the list map, one of them with nothing but its keys.
fn divided(value: &Value, sides: &mut impl Iterator<Item = bool>) -> [Option<Value>; 2] {
    let Value::Object(fields) = value else { return of_side(value, sides) };
    let mut shares = [Map::new(), Map::new()];
    for (name, value) in fields {
        let parts = match (name.as_str(), value) {
            ("ports" | "tags", Value::Array(items)) => shared_out(items, sides),
            _ => divided(value, sides),
        };
        for (share, part) in shares.iter_mut().zip(parts) {
            share.extend(part.map(|part| (name.clone(), part)));
        }
    }
    shares.map(|share| (!share.is_empty()).then_some(Value::Object(share)))
}

fn of_side(value: &Value, sides: &mut impl Iterator<Item = bool>) -> [Option<Value>; 2] {
    match sides.next() {
        Some(true) => [Some(value.clone()), None],
        _ => [None, Some(value.clone())],
    }
}

fn shared_out(items: &[Value], sides: &mut impl Iterator<Item = bool>) -> [Option<Value>; 2] {
    let mut shares = [Vec::new(), Vec::new()];
    for item in items {
        let parts = of_side(item, sides);
        let keys = || Some(json!({"port": item["port"], "protocol": item["protocol"]}));
        let shared = item.is_object() && sides.next() == Some(true);
        for (share, part) in shares.iter_mut().zip(parts) {
            share.extend(part.or_else(|| keys().filter(|_| shared)));
        }
    }
    shares.map(|share| (!share.is_empty()).then_some(Value::Array(share)))
}

/// The object without what depends on who came first: the order of lists, and times.
fn in_order(mut object: Value) -> Value {
    for name in ["ports", "tags"] {
        if let Some(Value::Array(items)) = object["spec"].get_mut(name) {
            items.sort_by_key(Value::to_string);
        }
    }
    // Whoever changes nothing, since all of it was there, is noted without a time.
    if let Some(Value::Array(managers)) = object["metadata"].get_mut("managedFields") {
        managers.iter_mut().filter_map(Value::as_object_mut).for_each(|manager| drop(manager.remove("time")));
        managers.sort_by_key(|manager| manager["manager"].to_string());
    }
    object
}

proptest! {
    #[test]
    fn applying_twice_is_applying_once(a in config(), b in config()) {
        let live = apply(None, &a, "one", Force::No).expect("creates");
        let once = apply(Some(&live), &b, "one", Force::Yes).expect("applies");
        let twice = widgets().apply(Some(&once), &b, "one", Force::No, LATER).expect("applies");
        prop_assert!(twice.is_unchanged);
        prop_assert_eq!(twice.object, once);
    }

    #[test]
    fn what_was_applied_is_there_and_is_owned(a in config(), b in config()) {
        let live = apply(None, &a, "one", Force::No).expect("creates");
        let after = apply(Some(&live), &b, "two", Force::Yes).expect("applies");
        let claimed = field_set(TypeRef::custom(&SCHEMA), &b);
        for path in fields_of(&after, "two").paths() {
            prop_assert!(claimed.has(&path), "{path}");
        }
        let config_again = widgets().apply(Some(&after), &b, "three", Force::No, NOW);
        prop_assert!(config_again.expect("no conflict with what is there").is_unchanged);
    }

    #[test]
    fn a_field_goes_only_when_its_last_applier_drops_it(a in config(), b in config(), c in config()) {
        let first = apply(None, &a, "one", Force::No).expect("creates");
        let both = apply(Some(&first), &b, "two", Force::Yes).expect("applies");
        let after = apply(Some(&both), &c, "one", Force::Yes).expect("applies");
        let there = field_set(TypeRef::custom(&SCHEMA), &after).with_named_parents(TypeRef::custom(&SCHEMA));
        let owned = fields_of(&after, "two");
        for path in owned.leaves().paths() {
            prop_assert!(there.has(&path), "{path} of another manager is gone");
        }
    }

    #[test]
    fn a_conflict_changes_nothing_and_force_resolves_it(a in config(), b in config()) {
        let live = apply(None, &a, "one", Force::No).expect("creates");
        if let Err(ApplyError::Conflict(conflicts)) = apply(Some(&live), &b, "two", Force::No) {
            let owned: Vec<_> = fields_of(&live, "one").paths().iter().map(ToString::to_string).collect();
            for conflict in &conflicts.0 {
                prop_assert!(owned.contains(&conflict.path), "{}", conflict.path);
            }
        }
        let forced = apply(Some(&live), &b, "two", Force::Yes).expect("force always applies");
        prop_assert!(apply(Some(&forced), &b, "two", Force::No).is_ok());
    }

    #[test]
    fn managers_of_different_fields_do_not_meet(whole in config(), sides in prop::collection::vec(any::<bool>(), 64)) {
        let [Some(one), Some(two)] = divided(&whole["spec"], &mut sides.into_iter()) else { return Ok(()) };
        let (one, two) = (object(one), object(two));
        let ab = apply(Some(&apply(None, &one, "one", Force::No).expect("creates")), &two, "two", Force::No);
        let ba = apply(Some(&apply(None, &two, "two", Force::No).expect("creates")), &one, "one", Force::No);
        let (ab, ba) = (in_order(ab.expect("no conflict")), in_order(ba.expect("no conflict")));
        prop_assert_eq!(&ab["spec"], &in_order(whole)["spec"]);
        prop_assert_eq!(ab, ba);
    }

    #[test]
    fn an_update_owns_exactly_what_it_changed(a in config(), b in config()) {
        let mut live = a;
        widgets().create(&mut live, "one", NOW).expect("tracked");
        let live = stored(live);
        let mut new = stored(b);
        let managed = live["metadata"].get("managedFields").cloned();
        if managed.is_none() {
            return Ok(());
        }
        widgets().update(&live, &mut new, "two", LATER).expect("tracked");
        let (one, two) = (fields_of(&new, "one"), fields_of(&new, "two"));
        prop_assert!(one.intersection(&two).is_empty(), "a field has two owners");
        let before = fields_of(&live, "one");
        prop_assert!(one.is_subset(&before), "the other manager gained fields");
    }
}
