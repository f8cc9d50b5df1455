//! Reviews as kube-apiserver 1.36.4 answers them.

use std::path::Path as FilePath;

use bailiwick_machinery::UserInfo;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::authn::token_file::TokenFile;
use crate::authn::{Anonymous, RequestAuthenticator};
use crate::authz::{AlwaysAllow, Authorizers, BasicAccess, SystemMasters};

fn authorizers() -> Authorizers {
    Authorizers::new(vec![Box::new(SystemMasters), Box::new(BasicAccess)])
}

fn alice() -> UserInfo {
    let groups = vec!["dev".to_owned(), "system:authenticated".to_owned()];
    UserInfo { name: "alice".into(), uid: "u".into(), groups, ..UserInfo::default() }
}

fn master() -> UserInfo {
    let groups = vec!["system:masters".to_owned(), "system:authenticated".to_owned()];
    UserInfo { name: "admin".into(), groups, ..UserInfo::default() }
}

async fn token_status(spec: Value) -> Value {
    let directory = tempfile::tempdir().expect("a directory");
    let file: &FilePath = &directory.path().join("tokens.csv");
    std::fs::write(file, "t,alice,u,dev\n").expect("written");
    let audiences = vec!["api".to_owned()];
    let tokens = TokenFile::load(file, audiences.clone()).expect("loaded");
    let authenticator = RequestAuthenticator::new(vec![Box::new(tokens)], Anonymous::Allowed);
    let review = json!({"kind": "TokenReview", "spec": spec});
    match token_review(&authenticator, &audiences, &review, Timestamp::UNIX_EPOCH).await {
        Ok(answer) => {
            assert_eq!(answer["spec"], review["spec"], "the question stays in the answer");
            answer["status"].clone()
        }
        Err(error) => error.message.into(),
    }
}

#[tokio::test]
async fn token_reviews() {
    let known = json!({
        "authenticated": true, "audiences": ["api"],
        "user": {"username": "alice", "uid": "u", "groups": ["dev", "system:authenticated"]},
    });
    assert_eq!(token_status(json!({"token": "t"})).await, known);
    let unknown = json!({"user": {}, "error": "invalid bearer token"});
    assert_eq!(token_status(json!({"token": "bad"})).await, unknown);
    assert_eq!(token_status(json!({"token": "t", "audiences": ["zzz"]})).await, unknown);
    assert_eq!(token_status(json!({})).await, "token is required for TokenReview in authentication");
}

#[test]
fn self_subject_reviews_tell_everything_known() {
    let mut user = alice();
    user.extra.insert("k".into(), vec!["v".into()]);
    let expected = json!({
        "kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"creationTimestamp": "1970-01-01T00:00:00Z"},
        "status": {"userInfo": {
            "username": "alice", "uid": "u", "groups": ["dev", "system:authenticated"], "extra": {"k": ["v"]},
        }},
    });
    assert_eq!(self_subject_review(&user, Timestamp::UNIX_EPOCH), expected);
}

async fn self_status(user: &UserInfo, spec: Value) -> Value {
    let review = json!({"kind": "SelfSubjectAccessReview", "spec": spec});
    self_subject_access_review(&authorizers(), user, &review).await.expect("answered")["status"].clone()
}

#[tokio::test]
async fn self_subject_access_reviews() {
    let pods = json!({"resourceAttributes": {"verb": "get", "resource": "pods"}});
    assert_eq!(self_status(&alice(), pods.clone()).await, json!({"allowed": false}));
    assert_eq!(self_status(&master(), pods).await, json!({"allowed": true}));
    let api = json!({"nonResourceAttributes": {"verb": "get", "path": "/api"}});
    let reason = "RBAC: allowed by ClusterRoleBinding \"system:discovery\" of ClusterRole \"system:discovery\" to Group \"system:authenticated\"";
    assert_eq!(self_status(&alice(), api).await, json!({"allowed": true, "reason": reason}));
}

#[tokio::test]
async fn selectors_that_cannot_be_read_are_reported() {
    let with =
        |selector: Value| json!({"resourceAttributes": {"verb": "get", "resource": "pods", "labelSelector": selector}});
    assert_eq!(
        self_status(&master(), with(json!({"rawSelector": "a=("}))).await,
        json!({"allowed": true, "evaluationError": "spec.resourceAttributes.labelSelector ignored due to parse error"})
    );
    let mixed = json!({"requirements": [{"key": "a", "operator": "Exists"}, {"key": "a", "operator": "Newer"}]});
    assert_eq!(
        self_status(&master(), with(mixed)).await["evaluationError"],
        "spec.resourceAttributes.labelSelector partially ignored due to parse error"
    );
    assert_eq!(self_status(&master(), with(json!({"rawSelector": "a=b"}))).await, json!({"allowed": true}));
}

#[tokio::test]
async fn questions_that_make_no_sense_are_refused() {
    let review = json!({"spec": {}});
    let error = subject_access_review(&authorizers(), &review).await.expect_err("refused");
    assert_eq!(
        error.message,
        ".authorization.k8s.io \"\" is invalid: [spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified, spec.user: Invalid value: \"\": at least one of user or group must be specified]"
    );
    let review = json!({"metadata": {"name": "x"}, "spec": {"resourceAttributes": {}, "nonResourceAttributes": {}}});
    let error = self_subject_access_review(&authorizers(), &alice(), &review).await.expect_err("refused");
    assert_eq!(
        error.message,
        ".authorization.k8s.io \"\" is invalid: [spec.nonResourceAttributes: Invalid value: {\"Path\":\"\",\"Verb\":\"\"}: cannot be specified in combination with resourceAttributes, metadata: Invalid value: {\"name\":\"x\"}: must be empty]"
    );
}

#[tokio::test]
async fn subject_access_reviews_ask_about_the_named_user() {
    let spec = json!({"groups": ["system:masters"], "resourceAttributes": {"verb": "get", "resource": "pods"}});
    let answer = subject_access_review(&authorizers(), &json!({"spec": spec})).await.expect("answered");
    assert_eq!(answer["status"], json!({"allowed": true}));
    let spec = json!({"user": "bob", "resourceAttributes": {"verb": "get", "resource": "pods"}});
    let answer = subject_access_review(&authorizers(), &json!({"spec": spec})).await.expect("answered");
    assert_eq!(answer["status"], json!({"allowed": false}));
}

#[tokio::test]
async fn local_reviews_stay_in_their_namespace() {
    let ask = async |metadata: Value, namespace: &str| {
        let spec =
            json!({"user": "bob", "resourceAttributes": {"namespace": namespace, "verb": "get", "resource": "pods"}});
        local_subject_access_review(&authorizers(), "ns", &json!({"metadata": metadata, "spec": spec})).await
    };
    let answer = ask(json!({}), "ns").await.expect("answered");
    assert_eq!((&answer["status"], &answer["metadata"]), (&json!({"allowed": false}), &json!({"namespace": "ns"})));
    let error = ask(json!({"namespace": "ns"}), "other").await.expect_err("refused");
    assert_eq!(
        error.message,
        ".authorization.k8s.io \"\" is invalid: spec.resourceAttributes.namespace: Invalid value: \"other\": must match metadata.namespace"
    );
    assert_eq!(ask(json!({"namespace": "other"}), "other").await.expect_err("refused").code, 400);
}

#[test]
fn rules_reviews_list_what_one_may_do() {
    let review = json!({"spec": {"namespace": "default"}});
    let everybody = Authorizers::new(vec![Box::new(AlwaysAllow)]);
    let answer = self_subject_rules_review(&everybody, &alice(), &review).expect("answered");
    assert_eq!((&answer["spec"], &answer["metadata"]), (&json!({}), &json!({})));
    let everything = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
    assert_eq!(answer["status"]["resourceRules"], json!([everything]));
    assert_eq!(answer["status"]["nonResourceRules"], json!([{"verbs": ["*"], "nonResourceURLs": ["*"]}]));
    assert_eq!(answer["status"]["incomplete"], false);

    let answer = self_subject_rules_review(&authorizers(), &alice(), &review).expect("answered");
    assert_eq!(answer["status"]["resourceRules"].as_array().map(Vec::len), Some(2));
    let error = self_subject_rules_review(&authorizers(), &alice(), &json!({"spec": {}})).expect_err("refused");
    assert_eq!((error.code, error.message.as_str()), (400, "no namespace on request"));
}
