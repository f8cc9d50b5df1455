//! Reading and writing objects as trees: paths, statuses that are written only when they change, conditions.

use kube::ResourceExt;
use kube::api::{Api, DynamicObject, PostParams};
use serde_json::{Value, json};

use crate::error::Error;

/// The present, as the API writes times.
pub(crate) fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A text by its path, such as `/spec/name`; empty if it is none.
pub(crate) fn text<'v>(value: &'v Value, path: &str) -> &'v str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

/// A list by its path; empty if it is none.
pub(crate) fn list<'v>(value: &'v Value, path: &str) -> &'v [Value] {
    value.pointer(path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// A list of texts by its path.
pub(crate) fn texts(value: &Value, path: &str) -> Vec<String> {
    list(value, path).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

pub(crate) fn status(object: &DynamicObject) -> &Value {
    static NULL: Value = Value::Null;
    object.data.get("status").unwrap_or(&NULL)
}

/// An annotation, if the object has it.
pub(crate) fn annotation<'o>(object: &'o DynamicObject, key: &str) -> Option<&'o str> {
    object.annotations().get(key).map(String::as_str)
}

pub(crate) fn is_deleting(object: &DynamicObject) -> bool {
    object.metadata.deletion_timestamp.is_some()
}

/// Writes a status if it is another than the object has. The object is up to date afterwards.
pub(crate) async fn write_status(
    api: &Api<DynamicObject>,
    object: &mut DynamicObject,
    status: Value,
) -> Result<(), Error> {
    if object.data.get("status") == Some(&status) {
        return Ok(());
    }
    let mut wanted = object.clone();
    if let Some(fields) = wanted.data.as_object_mut() {
        fields.insert("status".to_owned(), status);
    }
    *object = api.replace_status(&object.name_any(), &PostParams::default(), &wanted).await?;
    Ok(())
}

/// A condition as most kinds have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Condition {
    pub kind: &'static str,
    pub status: &'static str,
    pub reason: String,
    pub message: String,
}

impl Condition {
    pub fn new(kind: &'static str, status: &'static str, reason: &str, message: impl Into<String>) -> Self {
        Self { kind, status, reason: reason.to_owned(), message: message.into() }
    }
}

/// The conditions with one more, or one changed; the time of transition is that of its status.
pub(crate) fn set_condition(conditions: &mut Vec<Value>, condition: &Condition, generation: Option<i64>) {
    let known = conditions.iter_mut().find(|known| known["type"] == condition.kind);
    let since = match &known {
        Some(known) if known["status"] == condition.status => known["lastTransitionTime"].clone(),
        _ => now().into(),
    };
    let mut wanted = json!({
        "type": condition.kind, "status": condition.status, "reason": condition.reason,
        "message": condition.message, "lastTransitionTime": since,
    });
    if let (Some(generation), Some(fields)) = (generation, wanted.as_object_mut()) {
        fields.insert("observedGeneration".to_owned(), generation.into());
    }
    match known {
        Some(known) => *known = wanted,
        None => conditions.push(wanted),
    }
}

/// The conditions without those of a type.
pub(crate) fn remove_condition(conditions: &mut Vec<Value>, kind: &str) {
    conditions.retain(|known| known["type"] != kind);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_transition_stays_while_the_status_does() {
        let mut conditions = vec![json!({"type": "A", "status": "True", "lastTransitionTime": "then"})];
        set_condition(&mut conditions, &Condition::new("A", "True", "Other", "text"), Some(3));
        assert_eq!(conditions[0]["lastTransitionTime"], "then");
        assert_eq!(conditions[0]["observedGeneration"], 3);
        set_condition(&mut conditions, &Condition::new("A", "False", "Other", "text"), None);
        assert_ne!(conditions[0]["lastTransitionTime"], "then");
        remove_condition(&mut conditions, "A");
        assert!(conditions.is_empty());
    }
}
