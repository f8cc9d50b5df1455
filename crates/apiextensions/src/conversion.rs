//! Conversion webhooks: objects go out in a ConversionReview and come back in another version.
//!
//! Whatever the webhook answers, objects keep their identity: kind, name, namespace and uid must be the same, and all
//! other metadata but labels and annotations is restored from the original.

use std::sync::Arc;
use std::time::Duration;

use bailiwick_machinery::GroupVersion;
use bailiwick_machinery::custom::{Converted, Converter};
use bailiwick_machinery::object;
use bailiwick_machinery::status::ApiError;
use bailiwick_machinery::validation::metadata::validate_labels;
use bailiwick_schema::field::Path;
use bailiwick_webhook::services::ServiceResolver;
use bailiwick_webhook::{ConfiguredWebhook, MissingBundle, WebhookAddress};
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
        let webhook = ConfiguredWebhook::new(address, bundle, MissingBundle::Refused, TIMEOUT, services);
        Arc::new(WebhookConverter { review_versions: conversion.conversion_review_versions.clone(), webhook })
    }
}

struct WebhookConverter {
    review_versions: Vec<String>,
    webhook: ConfiguredWebhook,
}

impl Converter for WebhookConverter {
    fn convert<'a>(&'a self, objects: Vec<Value>, to: &'a GroupVersion) -> Converted<'a> {
        Box::pin(async move {
            let from = objects.first().map(kind_text).unwrap_or_default();
            self.review(objects, to).await.map_err(|reason| match reason {
                Failure::Call(reason) => failed(format!("conversion webhook for {from} failed: {reason}")),
                Failure::Answer(reason) => failed(format!("conversion webhook for {from} returned {reason}")),
            })
        })
    }
}

enum Failure {
    Call(String),
    Answer(String),
}

fn failed(message: String) -> ApiError {
    ApiError::new(500, "", message)
}

impl WebhookConverter {
    async fn review(&self, mut objects: Vec<Value>, to: &GroupVersion) -> Result<Vec<Value>, Failure> {
        let known = |version: &&String| matches!(version.as_str(), "v1" | "v1beta1");
        let version = self.review_versions.iter().find(known);
        let version = version.ok_or_else(|| Failure::Call("no supported conversion review versions".into()))?;
        let target = to.to_string();
        let waiting: Vec<usize> =
            (0..objects.len()).filter(|at| object::str_at(&objects[*at], &["apiVersion"]) != target).collect();
        if waiting.is_empty() {
            return Ok(objects);
        }
        let uid = uuid::Uuid::new_v4().to_string();
        let sent: Vec<&Value> = waiting.iter().map(|at| &objects[*at]).collect();
        let review = json!({
            "kind": "ConversionReview", "apiVersion": format!("apiextensions.k8s.io/{version}"),
            "request": {"uid": uid, "desiredAPIVersion": target, "objects": sent},
        });
        let webhook = self.webhook.connection().await.map_err(|error| Failure::Call(error.to_string()))?;
        let answer = webhook.call(&review).await.map_err(|error| Failure::Call(error.to_string()))?;
        let converted = converted_objects(version, &uid, answer).map_err(Failure::Call)?;
        if converted.len() != waiting.len() {
            return Err(Failure::Answer(format!("{} objects, expected {}", converted.len(), waiting.len())));
        }
        for (index, (at, mut converted)) in waiting.into_iter().zip(converted).enumerate() {
            restore(&objects[at], &mut converted, &target)
                .map_err(|reason| Failure::Answer(format!("invalid converted object at index {index}: {reason}")))?;
            objects[at] = converted;
        }
        Ok(objects)
    }
}

/// `group/version, Kind=Kind`, as upstream's messages have it.
fn kind_text(object: &Value) -> String {
    format!("{}, Kind={}", object::str_at(object, &["apiVersion"]), object::str_at(object, &["kind"]))
}

/// The objects of a review that says it succeeded and answers the question that was asked.
fn converted_objects(version: &str, uid: &str, mut review: Value) -> Result<Vec<Value>, String> {
    let strict = version == "v1";
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

/// Checks that an object is still itself and gives it back its metadata.
fn restore(original: &Value, converted: &mut Value, target: &str) -> Result<(), String> {
    let received = object::str_at(converted, &["apiVersion"]);
    if received != target {
        return Err(format!("invalid groupVersion (expected {target}, received {received})"));
    }
    let (expected, received) = (object::str_at(original, &["kind"]), object::str_at(converted, &["kind"]));
    if expected != received {
        return Err(format!("invalid kind (expected {expected}, received {received})"));
    }
    for (what, field) in [("name", "name"), ("namespace", "namespace"), ("UID", "uid")] {
        let (expected, received) = (object::meta_str(original, field), object::meta_str(converted, field));
        if expected != received {
            return Err(format!("must have the same {what}: {expected} != {received}"));
        }
    }
    let Some(mut answered) = object::metadata(converted).cloned() else {
        return Err("missing metadata in converted object".to_owned());
    };
    let mut metadata = object::metadata(original).cloned().unwrap_or_default();
    for field in ["labels", "annotations"] {
        match answered.remove(field) {
            None | Some(Value::Null) => drop(metadata.remove(field)),
            Some(Value::Object(pairs)) => {
                check_texts(field, &pairs)?;
                metadata.insert(field.to_owned(), Value::Object(pairs));
            }
            Some(_) => return Err(format!("invalid metadata.{field} in converted object")),
        }
    }
    converted["metadata"] = Value::Object(metadata);
    Ok(())
}

fn check_texts(field: &str, pairs: &Map<String, Value>) -> Result<(), String> {
    if let Some((key, _)) = pairs.iter().find(|(_, value)| !value.is_string()) {
        return Err(format!("metadata.{field}[{key}] must be a string in converted object"));
    }
    if field == "labels" {
        let errors = validate_labels(Some(&Value::Object(pairs.clone())), &Path::new("metadata").child("labels"));
        if let Some(error) = errors.first() {
            return Err(error.to_string());
        }
    }
    Ok(())
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
        assert_eq!(error, "must have the same name: a != b");
    }
}
