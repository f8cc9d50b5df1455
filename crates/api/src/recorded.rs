//! Replays what a real kube-apiserver v1.36 answered (testdata/*.recorded.json, made by testdata/record.py): the same
//! objects must be refused for the same reasons in the same words, or stored with the same defaults.

use bailiwick_machinery::validation::validate_object_meta;
use bailiwick_machinery::{Context, Strategy, UserInfo};
use bailiwick_schema::decode::decode_value;
use serde_json::Value;

use crate::testing::{now, resource};

/// Who recorded.
fn recorder() -> UserInfo {
    UserInfo {
        name: "admin".into(),
        uid: "admin".into(),
        groups: vec!["system:masters".into(), "system:authenticated".into()],
        ..UserInfo::default()
    }
}

/// Replays all cases of a file and shows all that differ.
fn check(recorded: &str) {
    let cases: Vec<Value> = serde_json::from_str(recorded).expect("recorded cases are JSON");
    let mut differences = String::new();
    for case in &cases {
        let (expected, actual) = (expected(case), actual(case));
        if expected != actual {
            differences += &format!("{}\nexpected {expected:#?}\nactual {actual:#?}\n\n", case["object"]);
        }
    }
    assert!(differences.is_empty(), "{differences}");
    assert!(!cases.is_empty());
}

/// The errors, or the object as stored.
fn expected(case: &Value) -> Vec<String> {
    match case["errors"].as_array() {
        Some(errors) => errors.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        None => vec![shown(case["stored"].clone())],
    }
}

fn actual(case: &Value) -> Vec<String> {
    let mut path = case["resource"].as_str().unwrap_or_default().split('/');
    let (group, _version, plural) = (path.next(), path.next(), path.next());
    let resource = resource(group.unwrap_or_default(), plural.unwrap_or_default());
    let subresource = path.next().and_then(|name| resource.subresource(name));
    let strategy: &dyn Strategy = subresource.map_or(&*resource.strategy, |subresource| &*subresource.strategy);
    let user = recorder();
    let cx = Context { now: now(), user: &user, warnings: None };
    // Decoding by type runs before the hooks.
    let native = resource.native.expect("a native type");
    let mut object = match decode_value(native, &case["object"]) {
        Ok(decoded) => decoded.value,
        Err(error) => {
            let (kind, version) = (&resource.kind, &resource.version);
            return vec![format!("{kind} in version {version:?} cannot be handled as a {kind}: {error}")];
        }
    };
    strategy.default(&mut object);
    let errors = match case.get("old") {
        None => {
            strategy.prepare_for_create(&cx, &mut object);
            let mut errors = validate_object_meta(&object, resource.scope, strategy.name_validator());
            errors.extend(strategy.validate(&cx, &object));
            errors
        }
        Some(old) => {
            strategy.prepare_for_update(&cx, &mut object, old);
            strategy.validate_update(&cx, &object, old)
        }
    };
    if errors.is_empty() { vec![shown(object)] } else { errors.iter().map(ToString::to_string).collect() }
}

/// An object without what every recording has anew.
fn shown(mut object: Value) -> String {
    mask(&mut object);
    serde_json::to_string_pretty(&object).expect("JSON prints")
}

fn mask(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for name in ["kind", "apiVersion"] {
                if fields.contains_key("metadata") {
                    fields.remove(name);
                }
            }
            // Decoding drops empty lists and maps of optional fields.
            fields.retain(|name, field| {
                name != "lastTransitionTime"
                    && name != "lastUpdateTime"
                    && name != "managedFields"
                    && *field != Value::Array(Vec::new())
            });
            fields.values_mut().for_each(mask);
        }
        Value::Array(items) => items.iter_mut().for_each(mask),
        _ => {}
    }
}

#[test]
fn admissionregistration_answers_as_recorded() {
    check(include_str!("../testdata/admissionregistration.recorded.json"));
}

#[test]
fn apiextensions_answer_as_recorded() {
    check(include_str!("../testdata/apiextensions.recorded.json"));
}

#[test]
fn apiregistration_answers_as_recorded() {
    check(include_str!("../testdata/apiregistration.recorded.json"));
}

#[test]
fn certificates_answer_as_recorded() {
    check(include_str!("../testdata/certificates.recorded.json"));
}

#[test]
fn core_events_and_leases_answer_as_recorded() {
    check(include_str!("../testdata/core.recorded.json"));
}

#[test]
fn rbac_answers_as_recorded() {
    check(include_str!("../testdata/rbac.recorded.json"));
}

#[test]
fn flowcontrol_answers_as_recorded() {
    check(include_str!("../testdata/flowcontrol.recorded.json"));
}

/// Upstream goes through properties in random order and makes up a name for the type of `self`.
fn in_order_without_made_up_names(mut answer: Vec<String>) -> Vec<String> {
    for text in &mut answer {
        while let Some(start) = text.find("selfType").map(|at| at + "selfType".len())
            && let rest = text.get(start..).unwrap_or_default()
            && let digits = rest.bytes().take_while(u8::is_ascii_digit).count()
        {
            text.replace_range(start - "selfType".len()..start + digits, "<self>");
        }
    }
    answer.sort_unstable();
    answer
}

#[test]
fn rules_of_definitions_are_judged_as_recorded() {
    let recorded = include_str!("../testdata/apiextensions-rules.recorded.json");
    let cases: Vec<Value> = serde_json::from_str(recorded).expect("recorded cases are JSON");
    let mut differences = String::new();
    for case in &cases {
        let [expected, actual] = [expected(case), actual(case)].map(in_order_without_made_up_names);
        if expected != actual {
            differences +=
                &format!("{}\nexpected {expected:#?}\nactual {actual:#?}\n\n", case["object"]["spec"]["versions"][0]);
        }
    }
    assert!(differences.is_empty(), "{differences}");
    assert!(cases.len() > 100);
}
