//! What the index holds, and which answers of webhooks count.

use std::sync::Arc;

use bailiwick_webhook::services::MappedServices;
use serde_json::{Value, json};

use super::hook::ReviewVersion;
use super::review::{Unusable, answer, refusal};
use super::*;

fn configuration(name: &str, operations: Value) -> Value {
    json!({"metadata": {"name": name}, "webhooks": [{
        "name": format!("{name}.example.com"),
        "rules": [{"operations": operations, "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}],
    }]})
}

#[test]
fn an_index_knows_which_operations_anybody_asks_about() {
    let index = WebhookIndex::new(WebhookKind::Mutating, Arc::new(MappedServices::default()));
    let concerned = || OPERATIONS.map(|operation| index.concerns(operation));
    assert_eq!(concerned(), [false; 4]);
    index.apply(ConfigurationChange::Stored(&configuration("b", json!(["CREATE"]))));
    index.apply(ConfigurationChange::Stored(&configuration("a", json!(["DELETE", "UPDATE"]))));
    assert_eq!(concerned(), [true, true, true, false]);
    let names: Vec<String> = index.hooks().iter().map(|hook| hook.configuration.to_string()).collect();
    assert_eq!(names, ["a", "b"], "by name");
    index.apply(ConfigurationChange::Deleted { name: "a" });
    assert_eq!(concerned(), [true, false, false, false]);
    index.apply(ConfigurationChange::Stored(&configuration("b", json!(["*"]))));
    assert_eq!(concerned(), [true; 4]);
}

fn review(response: Value) -> Value {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
}

fn fault(kind: WebhookKind, review: Value) -> String {
    match answer(ReviewVersion::V1, "u", kind, &review) {
        Err(Unusable::Invalid(text) | Unusable::Undecodable(text)) => text,
        Ok(answer) => panic!("{answer:?} counts"),
    }
}

#[test]
fn answers_must_be_about_the_question_and_agree_with_themselves() {
    use WebhookKind::{Mutating, Validating};
    let mut other = review(json!({"uid": "u", "allowed": true}));
    other["apiVersion"] = "".into();
    for (kind, review, text) in [
        (Validating, json!({"kind": "AdmissionReview"}), "webhook response was absent"),
        (Validating, review(json!({"uid": "x"})), "expected response.uid=\"u\", got \"x\""),
        (
            Validating,
            other,
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=AdmissionReview",
        ),
        (Validating, review(json!({"uid": "u", "patch": "W10="})), "validating webhook may not return response.patch"),
        (
            Validating,
            review(json!({"uid": "u", "patchType": "JSONPatch"})),
            "validating webhook may not return response.patchType",
        ),
        (
            Mutating,
            review(json!({"uid": "u", "patch": "W10="})),
            "webhook returned response.patch but not response.patchType",
        ),
        (
            Mutating,
            review(json!({"uid": "u", "patchType": "JSONPatch"})),
            "webhook returned response.patchType but not response.patch",
        ),
        (
            Mutating,
            review(json!({"uid": "u", "patch": "W10=", "patchType": ""})),
            "webhook returned invalid response.patchType of \"\"",
        ),
        (Mutating, review(json!({"uid": "u", "patch": "W1*"})), "illegal base64 data at input byte 2"),
    ] {
        assert_eq!(fault(kind, review), text);
    }
    let good =
        review(json!({"uid": "u", "allowed": true, "patch": "W10=", "patchType": "JSONPatch", "warnings": ["w"]}));
    let good = answer(ReviewVersion::V1, "u", Mutating, &good).expect("counts");
    assert_eq!((good.allowed, good.patch.as_slice(), good.warnings.len()), (true, b"[]".as_slice(), 1));
    let old = json!({"response": {"allowed": true, "patch": "W10="}});
    let old = answer(ReviewVersion::V1beta1, "u", Mutating, &old).expect("v1beta1 is laxer");
    assert_eq!(old.patch_type, "JSONPatch");
}

#[test]
fn refusals_say_who_refused_and_keep_what_was_said() {
    let status = |result: Option<Value>| refusal("a.b.c", result).to_status();
    let said =
        status(Some(json!({"message": "no", "reason": "Teapot", "code": 418, "details": {"name": "x", "junk": 1}})));
    assert_eq!(
        said,
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Teapot",
               "message": "admission webhook \"a.b.c\" denied the request: no", "code": 418, "details": {"name": "x"}})
    );
    let silent = status(None);
    assert_eq!(silent["message"], "admission webhook \"a.b.c\" denied the request without explanation");
    assert_eq!(silent["code"], 400);
    assert_eq!(
        status(Some(json!({"reason": "Because", "code": 200})))["message"],
        "admission webhook \"a.b.c\" denied the request: Because"
    );
}
