//! What the webhook server of the suite answers to ConversionReviews: it knows `spec.size` of v1 and
//! `spec.dimensions.size` of every other version, and can go wrong in every way a webhook can.

use serde_json::{Value, json};

/// The whole review that is answered, as the behaviour wants it.
pub fn answer(behaviour: &str, review: &Value) -> String {
    let request = &review["request"];
    let to = request["desiredAPIVersion"].as_str().unwrap_or_default();
    let asked = request["objects"].as_array().cloned().unwrap_or_default();
    let mut objects: Vec<Value> = asked.iter().map(|object| converted(object, to)).collect();
    let mut result = json!({"status": "Success"});
    let mut uid = request["uid"].clone();
    let mut kinds = (json!("ConversionReview"), review["apiVersion"].clone());
    match behaviour {
        "fewer" => drop(objects.pop()),
        "more" => objects.extend(objects.first().cloned()),
        "reversed" => objects.reverse(),
        "another-uid" => uid = json!("another"),
        "failure" => result = json!({"status": "Failure", "message": "these two do not go together"}),
        "silent-failure" => result = json!({"status": "Failure"}),
        "odd-status" => result = json!({"status": "Perhaps", "reason": "Unknown"}),
        "no-status" => result = json!({}),
        // What was asked, to be compared; in an order that does not depend on chance.
        "asked" => {
            let seen = json!({"version": review["apiVersion"], "to": to, "objects": asked});
            result = json!({"status": "Failure", "message": seen.to_string()});
        }
        "another-kind-of-review" => kinds.0 = json!("AdmissionReview"),
        "another-version-of-review" => kinds.1 = json!("apiextensions.k8s.io/v1beta1"),
        other => objects.iter_mut().zip(&asked).for_each(|(object, asked)| spoil(other, object, asked)),
    }
    let mut response = json!({"uid": uid, "result": result, "convertedObjects": objects});
    if let ("no-objects", Some(fields)) = (behaviour, response.as_object_mut()) {
        fields.remove("convertedObjects");
    }
    let mut answered = json!({"kind": kinds.0, "apiVersion": kinds.1, "response": response});
    if let ("says-nothing", Some(fields)) = (behaviour, answered.as_object_mut()) {
        fields.remove("response");
    }
    answered.to_string()
}

fn converted(object: &Value, to: &str) -> Value {
    let mut object = object.clone();
    object["apiVersion"] = to.into();
    let size = object.pointer("/spec/size").or_else(|| object.pointer("/spec/dimensions/size")).cloned();
    if let Some(spec) = object["spec"].as_object_mut() {
        spec.remove("size");
        spec.remove("dimensions");
        match size {
            Some(size) if to.ends_with("/v1") => drop(spec.insert("size".to_owned(), size)),
            Some(size) => drop(spec.insert("dimensions".to_owned(), json!({"size": size}))),
            None => {}
        }
    }
    object
}

/// Changes what a webhook may not change, or may.
fn spoil(behaviour: &str, object: &mut Value, asked: &Value) {
    let metadata = &mut object["metadata"];
    match behaviour {
        "renamed" => metadata["name"] = json!("another"),
        "moved" => metadata["namespace"] = json!("another"),
        "another-identity" => metadata["uid"] = json!("another"),
        "finalized" => metadata["finalizers"] = json!(["example.com/webhook"]),
        "relabelled" => metadata["labels"] = json!({"by": "webhook"}),
        "unlabelled" => {
            metadata.as_object_mut().map(|fields| (fields.remove("labels"), fields.remove("annotations")));
        }
        "annotated" => metadata["annotations"] = json!({"by": "webhook"}),
        "bad-label" => metadata["labels"] = json!({"not a label!": "x"}),
        "label-of-a-number" => metadata["labels"] = json!({"a": 1}),
        "labels-of-a-list" => metadata["labels"] = json!(["a"]),
        "without-metadata" => drop(object.as_object_mut().map(|fields| fields.remove("metadata"))),
        "same-version" => object["apiVersion"] = asked["apiVersion"].clone(),
        "another-group" => object["apiVersion"] = json!("example.org/v2"),
        "another-kind" => object["kind"] = json!("Another"),
        "unknown-fields" => object["spec"]["unknown"] = json!(1),
        "invalid" => object["spec"] = json!({"size": "large", "dimensions": {"size": "large"}}),
        "null-object" => *object = Value::Null,
        _ => {}
    }
}
