use serde_json::json;

use super::ServiceAccount;
use crate::testing::{check_create, create, resource};
use bailiwick_machinery::Strategy;

#[test]
fn secrets_are_referred_to_by_name_only() {
    let object =
        json!({"secrets": [{"name": "a", "kind": "X", "namespace": "q"}], "imagePullSecrets": [{"name": "z"}]});
    let created = create(&ServiceAccount, object).expect("valid");
    assert_eq!(created, json!({"secrets": [{"name": "a"}], "imagePullSecrets": [{"name": "z"}]}));
}

#[test]
fn setting_the_deprecated_annotation_warns_once() {
    let plain = json!({"metadata": {}});
    let annotated = json!({"metadata": {"annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}}});
    let warning = "metadata.annotations[kubernetes.io/enforce-mountable-secrets]: deprecated in v1.32+; prefer separate \
                   namespaces to isolate access to mounted secrets";
    assert_eq!(ServiceAccount.warnings_on_create(&annotated), [warning]);
    assert_eq!(ServiceAccount.warnings_on_update(&annotated, &plain), [warning]);
    assert!(ServiceAccount.warnings_on_update(&annotated, &annotated).is_empty());
    assert!(ServiceAccount.warnings_on_create(&plain).is_empty());
}

#[test]
fn token_requests_last_an_hour_unless_told_otherwise() {
    let accounts = resource("", "serviceaccounts");
    let token = accounts.subresource("token").expect("a subresource");
    assert_eq!(token.kind.as_ref().map(|kind| kind.kind.as_str()), Some("TokenRequest"));
    let request = |seconds: i64| create(&*token.strategy, json!({"spec": {"expirationSeconds": seconds}}));
    assert_eq!(create(&*token.strategy, json!({})), Ok(json!({"spec": {"expirationSeconds": 3600}})));
    assert!(request(600).is_ok());
    for (seconds, complaint) in [
        (599, "may not specify a duration less than 10 minutes"),
        ((1 << 32) + 1, "may not specify a duration larger than 2^32 seconds"),
    ] {
        let expected = format!("spec.expirationSeconds: Invalid value: {seconds}: {complaint}");
        assert_eq!(request(seconds), Err(vec![expected]));
    }
    check_create("", "serviceaccounts", json!({"metadata": {"finalizers": ["a/b"]}}), &[]);
}
