//! Conversion webhooks: objects go out in a ConversionReview and come back in another version.
//!
//! Whatever the webhook answers, objects keep their identity: kind, name, namespace and uid must be the same, and all
//! other metadata but labels and annotations is restored from the original.

use std::sync::Arc;
use std::time::Duration;

use bailiwick_machinery::GroupVersion;
use bailiwick_machinery::custom::{Converted, Converter};
use bailiwick_machinery::object;
use bailiwick_machinery::status::{ApiError, ApiResult};
use bailiwick_machinery::validation::metadata::{validate_annotations, validate_labels};
use bailiwick_schema::field::Path;
use bailiwick_webhook::services::ServiceResolver;
use bailiwick_webhook::{ConfiguredWebhook, WebhookAddress};
use serde_json::{Map, Value, json};

use crate::definition::{Conversion, Converters};

/// How long a webhook may take, as upstream.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Converters that call the webhooks definitions name.
pub struct WebhookConverters {
    services: Arc<dyn ServiceResolver>,
}

impl WebhookConverters {
    /// `services` knows where webhooks are that definitions name as services.
    pub fn new(services: Arc<dyn ServiceResolver>) -> Self {
        Self { services }
    }
}

impl Converters for WebhookConverters {
    fn converter(&self, _definition: &str, conversion: &Conversion) -> Arc<dyn Converter> {
        let config = &conversion.client_config;
        let address = match (&config.url, &config.service) {
            (Some(url), _) => WebhookAddress::Url(url.clone()),
            (None, Some(service)) => WebhookAddress::Service(service.clone()),
            (None, None) => WebhookAddress::Missing("neither url nor service is given"),
        };
        let bundle = config.ca_bundle.as_deref().unwrap_or_default();
        let services = self.services.clone();
        let webhook = ConfiguredWebhook::new(address, bundle, TIMEOUT, services);
        Arc::new(WebhookConverter { review_versions: conversion.conversion_review_versions.clone(), webhook })
    }
}

struct WebhookConverter {
    review_versions: Vec<String>,
    webhook: ConfiguredWebhook,
}

impl Converter for WebhookConverter {
    fn convert<'a>(&'a self, mut objects: Vec<Value>, to: &'a GroupVersion) -> Converted<'a> {
        Box::pin(async move {
            let target = to.to_string();
            let waiting: Vec<usize> =
                (0..objects.len()).filter(|at| object::str_at(&objects[*at], &["apiVersion"]) != target).collect();
            let sent: Vec<&Value> = waiting.iter().map(|at| &objects[*at]).collect();
            for (at, converted) in waiting.iter().zip(self.convert_all(&sent, &target).await?) {
                objects[*at] = converted;
            }
            Ok(objects)
        })
    }
}

enum Failure {
    /// The webhook did not convert.
    Call(String),
    /// What it gives for the objects cannot be them.
    Answer(String),
    /// It gives null for an object.
    Null,
}

impl Failure {
    fn of(self, asked: &[&Value]) -> ApiError {
        let from = asked.first().map(|object| kind_text(object)).unwrap_or_default();
        let message = match self {
            Self::Call(reason) => format!("conversion webhook for {from} failed: {reason}"),
            Self::Answer(reason) => format!("conversion webhook for {from} returned {reason}"),
            // All that upstream says.
            Self::Null => "unexpected end of JSON input".to_owned(),
        };
        ApiError::new(500, "", message)
    }
}

impl WebhookConverter {
    /// The objects in the version `target`, in their order. A webhook that confuses several objects is asked for one after
    /// another, which is all that upstream ever does.
    async fn convert_all(&self, objects: &[&Value], target: &str) -> ApiResult<Vec<Value>> {
        if objects.is_empty() {
            return Ok(Vec::new());
        }
        match self.review(objects, target).await {
            Err(Failure::Answer(_) | Failure::Null) if objects.len() > 1 => {
                let mut converted = Vec::with_capacity(objects.len());
                for object in objects {
                    let one = std::slice::from_ref(object);
                    converted.extend(self.review(one, target).await.map_err(|failure| failure.of(one))?);
                }
                Ok(converted)
            }
            answered => answered.map_err(|failure| failure.of(objects)),
        }
    }

    async fn review(&self, objects: &[&Value], target: &str) -> Result<Vec<Value>, Failure> {
        let known = |version: &&String| matches!(version.as_str(), "v1" | "v1beta1");
        let version = self.review_versions.iter().find(known);
        let version = version.ok_or_else(|| Failure::Call("no supported conversion review versions".into()))?;
        let uid = uuid::Uuid::new_v4().to_string();
        let review = json!({
            "kind": "ConversionReview", "apiVersion": format!("apiextensions.k8s.io/{version}"),
            "request": {"uid": uid, "desiredAPIVersion": target, "objects": objects},
        });
        let answer = self.ask(&review).await.map_err(Failure::Call)?;
        let mut converted = converted_objects(version, &uid, answer).map_err(Failure::Call)?;
        if converted.len() != objects.len() {
            return Err(Failure::Answer(format!("{} objects, expected {}", converted.len(), objects.len())));
        }
        for (original, converted) in objects.iter().zip(&mut converted) {
            if converted.is_null() {
                return Err(Failure::Null);
            }
            restore(original, converted, target).map_err(|fault| Failure::Answer(fault.to_string()))?;
        }
        Ok(converted)
    }

    async fn ask(&self, review: &Value) -> Result<Value, String> {
        let webhook = self.webhook.connection().await.map_err(|error| error.to_string())?;
        let review = serde_json::to_vec(review).map_err(|error| error.to_string())?;
        let answer = webhook.post(review, TIMEOUT).await.map_err(|error| error.to_string())?;
        answer.object().map_err(|unreadable| unreadable.reason)
    }
}

/// `group/version, Kind=Kind`, as upstream's messages have it.
fn kind_text(object: &Value) -> String {
    format!("{}, Kind={}", object::str_at(object, &["apiVersion"]), object::str_at(object, &["kind"]))
}

/// The objects of a review that says it succeeded and answers the question that was asked.
fn converted_objects(version: &str, uid: &str, mut review: Value) -> Result<Vec<Value>, String> {
    let strict = version == "v1";
    check_type(version, &review)?;
    let expected = format!("apiextensions.k8s.io/{version}, Kind=ConversionReview");
    if strict && kind_text(&review) != expected {
        return Err(format!("expected webhook response of {expected}, got {}", kind_text(&review)));
    }
    let response = review["response"].take();
    if response.is_null() {
        return Err("no response provided".to_owned());
    }
    let found = object::str_at(&response, &["uid"]);
    if strict && found != uid {
        return Err(format!("expected response.uid={uid:?}, got {found:?}"));
    }
    let status = object::str_at(&response, &["result", "status"]);
    if status != "Success" {
        return Err(match object::str_at(&response, &["result", "message"]) {
            "" => format!("response.result.status was '{status}', not 'Success'"),
            message => message.to_owned(),
        });
    }
    match response {
        Value::Object(mut fields) => match fields.remove("convertedObjects") {
            Some(Value::Array(objects)) => Ok(objects),
            _ => Ok(Vec::new()),
        },
        _ => Ok(Vec::new()),
    }
}

/// What says to be something else cannot be read as a review. What does not say is taken for one.
fn check_type(version: &str, review: &Value) -> Result<(), String> {
    let (api_version, kind) = (object::str_at(review, &["apiVersion"]), object::str_at(review, &["kind"]));
    if api_version.is_empty() || kind.is_empty() {
        return Ok(());
    }
    match (api_version.strip_prefix("apiextensions.k8s.io/"), kind) {
        (Some(found), "ConversionReview") if found == version => Ok(()),
        (Some(found @ ("v1" | "v1beta1")), "ConversionReview") => {
            Err(format!("converting ({found}.ConversionReview) to ({version}.ConversionReview): unknown conversion"))
        }
        _ => Err(format!(
            "no kind {kind:?} is registered for version {api_version:?} in scheme \"pkg/runtime/scheme.go:111\""
        )),
    }
}

/// What is wrong with an object that came back, by what upstream says in front of it.
#[derive(Debug, PartialEq, thiserror::Error)]
enum Fault {
    /// It is of another type than asked for.
    #[error("invalid object at index 0: {0}")]
    Type(String),
    /// It is another object.
    #[error("invalid object: {0}")]
    Identity(String),
    #[error("invalid metadata: {0}")]
    Metadata(String),
}

/// Checks that an object is still itself and gives it back its metadata.
fn restore(original: &Value, converted: &mut Value, target: &str) -> Result<(), Fault> {
    let received = object::str_at(converted, &["apiVersion"]);
    if received != target {
        return Err(Fault::Type(format!("invalid groupVersion (expected {target}, received {received})")));
    }
    let (expected, received) = (object::str_at(original, &["kind"]), object::str_at(converted, &["kind"]));
    if expected != received {
        return Err(Fault::Type(format!("invalid kind (expected {expected}, received {received})")));
    }
    for (what, field) in [("name", "name"), ("namespace", "namespace"), ("UID", "uid")] {
        let (expected, received) = (object::meta_str(original, field), object::meta_str(converted, field));
        if expected != received {
            return Err(Fault::Identity(format!("must have the same {what}: {expected} != {received}")));
        }
    }
    let metadata = restored_metadata(original, converted).map_err(Fault::Metadata)?;
    converted["metadata"] = Value::Object(metadata);
    Ok(())
}

/// The original metadata with the labels and annotations that came back.
fn restored_metadata(original: &Value, converted: &Value) -> Result<Map<String, Value>, String> {
    let answered = match converted.get("metadata") {
        Some(Value::Object(answered)) => answered,
        Some(other) => return Err(format!("invalid metadata of type {} in converted object", go_type(other))),
        None => return Err("missing metadata in converted object".to_owned()),
    };
    let mut metadata = object::metadata(original).cloned().unwrap_or_default();
    for field in ["labels", "annotations"] {
        match answered.get(field) {
            None | Some(Value::Null) => drop(metadata.remove(field)),
            Some(Value::Object(pairs)) => {
                check_texts(field, pairs, metadata.get(field))?;
                metadata.insert(field.to_owned(), Value::Object(pairs.clone()));
            }
            Some(other) => {
                return Err(format!("invalid metadata.{field} of type {} in converted object", go_type(other)));
            }
        }
    }
    Ok(metadata)
}

/// Labels and annotations must be texts, and obey their rules if they are not what they were.
fn check_texts(field: &str, pairs: &Map<String, Value>, before: Option<&Value>) -> Result<(), String> {
    if let Some((key, value)) = pairs.iter().find(|(_, value)| !value.is_string()) {
        let found = go_type(value);
        return Err(format!("metadata.{field}[{key}] must be a string, but is {found} in converted object"));
    }
    let now = Value::Object(pairs.clone());
    if before == Some(&now) {
        return Ok(());
    }
    let path = Path::new("metadata");
    let errors = match field {
        "labels" => validate_labels(Some(&now), &path.child("labels")),
        // Without the last letter, as upstream says it.
        _ => validate_annotations(Some(&now), &path.child("annotation")),
    };
    errors.first().map_or(Ok(()), |error| Err(error.to_string()))
}

/// What Go calls the type of a JSON value that it has read without knowing what to expect.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str) -> Value {
        json!({"apiVersion": "g/v1", "kind": "Thing",
               "metadata": {"name": name, "uid": "u", "labels": {"a": "b"}, "finalizers": ["f"]}})
    }

    #[test]
    fn an_answer_must_be_a_success_for_the_same_question() {
        let review = |uid: &str, status: &str| {
            json!({"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1",
                   "response": {"uid": uid, "result": {"status": status}, "convertedObjects": [object("a")]}})
        };
        assert_eq!(converted_objects("v1", "1", review("1", "Success")), Ok(vec![object("a")]));
        let error = converted_objects("v1", "1", review("2", "Success")).expect_err("another question");
        assert_eq!(error, "expected response.uid=\"1\", got \"2\"");
        let error = converted_objects("v1", "1", review("1", "Failed")).expect_err("a failure");
        assert_eq!(error, "response.result.status was 'Failed', not 'Success'");
    }

    #[test]
    fn only_labels_and_annotations_may_change() {
        let mut converted = object("a");
        converted["apiVersion"] = "g/v2".into();
        converted["metadata"]["labels"] = json!({"c": "d"});
        converted["metadata"]["finalizers"] = json!([]);
        restore(&object("a"), &mut converted, "g/v2").expect("restored");
        assert_eq!(converted["metadata"], json!({"name": "a", "uid": "u", "labels": {"c": "d"}, "finalizers": ["f"]}));
    }

    #[test]
    fn an_object_that_became_another_is_refused() {
        let mut converted = object("b");
        converted["apiVersion"] = "g/v2".into();
        let error = restore(&object("a"), &mut converted, "g/v2").expect_err("another name");
        assert_eq!(error, Fault::Identity("must have the same name: a != b".to_owned()));
    }

    #[test]
    fn what_is_wrong_is_said_as_upstream_says_it() {
        let fault = |change: &dyn Fn(&mut Value)| {
            let mut converted = object("a");
            converted["apiVersion"] = "g/v2".into();
            change(&mut converted);
            restore(&object("a"), &mut converted, "g/v2").expect_err("refused").to_string()
        };
        assert_eq!(
            fault(&|converted| converted["apiVersion"] = "g/v3".into()),
            "invalid object at index 0: invalid groupVersion (expected g/v2, received g/v3)",
        );
        assert_eq!(
            fault(&|converted| converted["metadata"]["uid"] = "w".into()),
            "invalid object: must have the same UID: u != w",
        );
        assert_eq!(
            fault(&|converted| converted["metadata"]["labels"] = json!(["a"])),
            "invalid metadata: invalid metadata.labels of type []interface {} in converted object",
        );
        assert_eq!(
            fault(&|converted| converted["metadata"]["annotations"] = json!({"a": 1})),
            "invalid metadata: metadata.annotations[a] must be a string, but is int64 in converted object",
        );
    }

    #[test]
    fn only_texts_that_changed_must_obey_the_rules() {
        let mut stored = object("a");
        stored["metadata"]["labels"] = json!({"a": "-"});
        let mut converted = stored.clone();
        converted["apiVersion"] = "g/v2".into();
        restore(&stored, &mut converted.clone(), "g/v2").expect("labels of old stay");
        converted["metadata"]["annotations"] = json!({"not a name": ""});
        let fault = restore(&stored, &mut converted, "g/v2").expect_err("refused").to_string();
        assert!(fault.starts_with("invalid metadata: metadata.annotation: Invalid value: \"not a name\""), "{fault}");
    }
}
