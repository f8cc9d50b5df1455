//! Our audit events beside kube-apiserver's, recorded by scenario.py. What must differ is masked; what differs on purpose
//! is named here with its reason.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Requests whose reason of the decision differs: other rules stand behind it.
const OTHER_REASON: &[&str] = &["anonymous-version"];

/// Compares event by event; the panic shows every difference.
pub fn assert_same(ours: &[Value], theirs: &[Value]) {
    let (ours, theirs) = (by_request(ours), by_request(theirs));
    let mut report = String::new();
    for (id, expected) in &theirs {
        let found = ours.get(id).cloned().unwrap_or_default();
        if found.len() != expected.len() {
            report += &format!("{id}: {} events, kube-apiserver has {}\n", found.len(), expected.len());
        }
        for (ours, theirs) in found.iter().zip(expected) {
            let mut at = Vec::new();
            compare(&masked(id, ours), &masked(id, theirs), &mut at, &mut |path, ours, theirs| {
                report += &format!("{id} {}: ours {ours}, kube-apiserver's {theirs}\n", path.join("."));
            });
        }
    }
    for id in ours.keys().filter(|id| !theirs.contains_key(*id)) {
        report += &format!("{id}: kube-apiserver has no events\n");
    }
    assert!(report.is_empty(), "{report}");
}

fn by_request(events: &[Value]) -> BTreeMap<String, Vec<Value>> {
    let mut requests: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for event in events {
        requests.entry(event["auditID"].as_str().unwrap().to_owned()).or_default().push(event.clone());
    }
    requests
}

fn compare(ours: &Value, theirs: &Value, at: &mut Vec<String>, differ: &mut dyn FnMut(&[String], &Value, &Value)) {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                at.push(key.clone());
                compare(a.get(key).unwrap_or(&Value::Null), b.get(key).unwrap_or(&Value::Null), at, differ);
                at.pop();
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                at.push(index.to_string());
                compare(a, b, at, differ);
                at.pop();
            }
        }
        _ if ours == theirs => {}
        _ => differ(at, ours, theirs),
    }
}

fn masked(id: &str, event: &Value) -> Value {
    let mut event = event.clone();
    let fields = event.as_object_mut().unwrap();
    for time in ["requestReceivedTimestamp", "stageTimestamp"] {
        assert!(fields.remove(time).is_some_and(|time| time.as_str().unwrap().len() == 27), "{id}: {time}");
    }
    // We keep what was sent; kube-apiserver records it decoded and defaulted. Only what both have is compared.
    if let Some(object) = fields.get_mut("requestObject") {
        *object = only_sent(object);
    }
    if OTHER_REASON.contains(&id)
        && let Some(annotations) = fields.get_mut("annotations").and_then(Value::as_object_mut)
    {
        annotations.remove("authorization.k8s.io/reason");
    }
    if let Some(id) =
        fields.get_mut("annotations").and_then(|a| a.get_mut("authentication.kubernetes.io/issued-credential-id"))
    {
        assert!(id.as_str().is_some_and(|id| id.starts_with("JTI=") && id.len() == 40), "{id}");
        *id = "masked".into();
    }
    mask(&mut event);
    event
}

/// Identity and data of a request's object: what defaults do not touch.
fn only_sent(object: &Value) -> Value {
    let mut kept = Map::new();
    for field in ["kind", "data"] {
        if let Some(value) = object.get(field) {
            kept.insert(field.to_owned(), value.clone());
        }
    }
    if let Some(name) = object.pointer("/metadata/name") {
        kept.insert("name".to_owned(), name.clone());
    }
    if kept.get("kind").is_some_and(|kind| kind == "Secret") || object.get("stringData").is_some() {
        kept.remove("data");
    }
    Value::Object(kept)
}

fn mask(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            // Values of secrets and tokens are never recorded here.
            if fields.get("kind").is_some_and(|kind| kind == "Secret") {
                fields.remove("data");
            }
            for (name, field) in fields.iter_mut() {
                match name.as_str() {
                    "uid" if field.as_str().is_some_and(|uid| uid.len() == 36) => *field = "uid".into(),
                    "resourceVersion" | "time" | "creationTimestamp" | "expirationTimestamp" | "token" => {
                        *field = "masked".into();
                    }
                    "name" if field.as_str().is_some_and(|name| name.starts_with("g-")) => *field = "generated".into(),
                    // Audiences are the server's own URL.
                    "audiences" => *field = "masked".into(),
                    _ => mask(field),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask),
        _ => {}
    }
}
