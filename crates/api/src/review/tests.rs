use bailiwick_machinery::{Context, UserInfo};
use serde_json::{Value, json};

use super::check;
use crate::testing::{check_create, now, resource};

const GROUP: &str = "authorization.k8s.io";

#[test]
fn a_review_asks_about_one_thing_and_somebody() {
    let neither = "spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or \
                   resourceAttributes must be specified";
    let nobody = "spec.user: Invalid value: \"\": at least one of user or group must be specified";
    check_create(GROUP, "subjectaccessreviews", json!({"spec": {}}), &[neither, nobody]);
    check_create(GROUP, "selfsubjectaccessreviews", json!({"spec": {}}), &[neither]);
    check_create(
        GROUP,
        "subjectaccessreviews",
        json!({
            "metadata": {"name": "x", "labels": {"a": "b"}, "generateName": "q"},
            "spec": {"groups": ["g"], "resourceAttributes": {"verb": "get"}, "nonResourceAttributes": {"path": "/x"}},
        }),
        &[
            "spec.nonResourceAttributes: Invalid value: {\"Path\":\"/x\",\"Verb\":\"\"}: cannot be specified in \
             combination with resourceAttributes",
            "metadata: Invalid value: {\"name\":\"x\",\"generateName\":\"q\",\"labels\":{\"a\":\"b\"}}: must be empty",
        ],
    );
    check_create(
        GROUP,
        "subjectaccessreviews",
        json!({"metadata": {}, "spec": {"user": "a", "resourceAttributes": {}}}),
        &[],
    );
}

#[test]
fn a_local_review_stays_in_its_namespace() {
    let review = |spec: Value| json!({"metadata": {"namespace": "n"}, "spec": spec});
    let attributes = |namespace: &str| json!({"user": "u", "resourceAttributes": {"namespace": namespace}});
    check_create(GROUP, "localsubjectaccessreviews", review(attributes("n")), &[]);
    check_create(
        GROUP,
        "localsubjectaccessreviews",
        review(attributes("z")),
        &["spec.resourceAttributes.namespace: Invalid value: \"z\": must match metadata.namespace"],
    );
    check_create(
        GROUP,
        "localsubjectaccessreviews",
        json!({"metadata": {"name": "x", "namespace": "n"}, "spec": {"user": "u", "nonResourceAttributes": {"path": "x", "verb": "v"}}}),
        &[
            "metadata: Invalid value: {\"name\":\"x\",\"namespace\":\"n\"}: must be empty except for namespace",
            "spec.nonResourceAttributes: Invalid value: {\"Path\":\"x\",\"Verb\":\"v\"}: disallowed on this kind of request",
        ],
    );
}

#[test]
fn selectors_come_raw_or_parsed() {
    let path = "spec.resourceAttributes";
    let review = |attributes: Value| json!({"spec": {"user": "a", "resourceAttributes": attributes}});
    check_create(
        GROUP,
        "subjectaccessreviews",
        review(json!({
            "fieldSelector": {},
            "labelSelector": {"rawSelector": "a=b", "requirements": [
                {"key": "a", "operator": "In"}, {"key": "a", "operator": "Zork", "values": ["x"]},
            ]},
        })),
        &[
            &format!(
                "{path}.fieldSelector.requirements: Required value: when {path}.fieldSelector is specified, requirements or rawSelector is required"
            ),
            &format!(
                "{path}.labelSelector.rawSelector: Invalid value: \"a=b\": may not specified at the same time as requirements"
            ),
            &format!(
                "{path}.labelSelector.requirements[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"
            ),
        ],
    );
    check_create(
        GROUP,
        "subjectaccessreviews",
        review(json!({"fieldSelector": {"requirements": [{}, {"key": "x", "operator": "Exists", "values": ["1"]}]}})),
        &[
            &format!("{path}.fieldSelector.requirements[0].key: Required value: must be specified"),
            &format!(
                "{path}.fieldSelector.requirements[1].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            ),
        ],
    );
}

#[test]
fn refusals_are_worded_as_upstream_words_them() {
    let user = UserInfo::default();
    let refusal = |group: &str, plural: &str| {
        let error = check(&resource(group, plural), &Context { now: now(), user: &user }, &json!({"spec": {}}));
        error.err().map(|error| (error.code, error.message)).unwrap_or_default()
    };
    assert_eq!(
        refusal("authentication.k8s.io", "tokenreviews"),
        (400, "token is required for TokenReview in authentication".to_owned())
    );
    assert_eq!(refusal(GROUP, "selfsubjectrulesreviews"), (400, "no namespace on request".to_owned()));
    assert_eq!(refusal("authentication.k8s.io", "selfsubjectreviews"), (0, String::new()));
    let (code, message) = refusal(GROUP, "selfsubjectaccessreviews");
    assert_eq!(code, 422);
    assert!(message.starts_with(".authorization.k8s.io \"\" is invalid: spec.resourceAttributes: "), "{message}");
}
