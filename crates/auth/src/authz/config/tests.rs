//! Which configurations are taken, and what is said about others.

use super::*;

fn file(authorizers: &str) -> String {
    format!("apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n{authorizers}")
}

fn error(text: &str) -> String {
    parse(text, &BTreeSet::new()).expect_err("refused").to_string()
}

#[test]
fn a_chain_of_webhook_and_rbac() {
    let kubeconfig = tempfile::NamedTempFile::new().expect("a file");
    let text = file(&format!(
        "- type: Webhook
  name: remote
  webhook:
    timeout: 3s
    unauthorizedTTL: 1m30s
    cacheAuthorizedRequests: false
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    failurePolicy: Deny
    connectionInfo: {{type: KubeConfigFile, kubeConfigFile: {}}}
    matchConditions:
    - expression: \"!('system:serviceaccounts' in request.groups)\"
- type: RBAC
  name: rbac
",
        kubeconfig.path().display()
    ));
    let parsed = parse(&text, &BTreeSet::from(["RBAC"])).expect("taken");
    let [AuthorizerConfig::Webhook(webhook), AuthorizerConfig::Rbac] = parsed.as_slice() else { panic!("{parsed:?}") };
    assert_eq!(webhook.name, "remote");
    assert_eq!((webhook.version, webhook.on_error), (Version::V1, OnError::Deny));
    assert_eq!(webhook.timeout, Duration::from_secs(3));
    assert_eq!((webhook.authorized_ttl, webhook.unauthorized_ttl), (Duration::ZERO, Duration::from_secs(90)));
    assert_eq!(webhook.match_conditions.len(), 1);
    assert!(webhook.conditions().is_ok());
}

#[test]
fn files_that_say_something_else() {
    assert_eq!(
        error("kind: AuthorizationConfiguration"),
        "failed to load AuthorizationConfiguration from file: Object 'apiVersion' is missing"
    );
    assert!(error("apiVersion: v1\nkind: ConfigMap").contains("got ConfigMap of v1"));
    assert!(error(&file("- {type: RBAC, name: rbac, nothing: 1}")).contains("unknown field `nothing`"));
    assert!(error("a: [").starts_with("failed to load AuthorizationConfiguration from file: "));
}

#[test]
fn authorizers_are_checked_as_upstream_checks_them() {
    assert_eq!(error(&file("")), "authorizers: Required value: at least one authorization mode must be defined");
    assert_eq!(
        error(&file("- {type: Nothing, name: x}\n- {name: z}\n- {type: RBAC, name: rbac}\n- {type: RBAC, name: rbac}")),
        "[authorizers[0].type: Unsupported value: \"Nothing\": supported values: \"ABAC\", \"AlwaysAllow\", \"AlwaysDeny\", \"Node\", \"RBAC\", \"Webhook\", authorizers[1].type: Required value, authorizers[3].type: Duplicate value: \"RBAC\"]"
    );
    assert_eq!(error(&file("- {type: RBAC, name: other}")), "expected name rbac for authorizer RBAC instead of other");
    assert!(error(&file("- {type: Node, name: node}")).contains("has no nodes"));
    assert!(
        error(&file("- {type: Webhook, name: W}"))
            .contains("authorizers[0].name: Invalid value: \"W\": authorizer name is invalid: a lowercase RFC 1123")
    );
    let required = parse(&file("- {type: AlwaysAllow, name: alwaysallow}"), &BTreeSet::from(["RBAC"]));
    assert_eq!(required.expect_err("refused").to_string(), "missing required types: [RBAC]");
}

#[test]
fn webhooks_are_checked_as_upstream_checks_them() {
    let empty = error(&file("- {type: Webhook, name: w, webhook: {}}"));
    assert_eq!(
        empty,
        "[authorizers[0].timeout: Required value, authorizers[0].subjectAccessReviewVersion: Required value, authorizers[0].failurePolicy: Required value, authorizers[0].connectionInfo.type: Required value]"
    );
    let wrong = error(&file(
        "- type: Webhook
  name: w
  webhook:
    timeout: 31s
    authorizedTTL: -1s
    subjectAccessReviewVersion: v2
    failurePolicy: Allow
    connectionInfo: {type: KubeConfigFile, kubeConfigFile: relative}
    matchConditions: [{expression: request.user}, {expression: ' '}]",
    ));
    for part in [
        "authorizers[0].timeout: Invalid value: \"31s\": must be > 0s and <= 30s",
        "authorizers[0].authorizedTTL: Invalid value: \"-1s\": must be > 0s",
        "authorizers[0].subjectAccessReviewVersion: Unsupported value: \"v2\": supported values: \"v1\", \"v1beta1\"",
        "authorizers[0].matchConditionSubjectAccessReviewVersion: Required value: required if match conditions are specified",
        "authorizers[0].failurePolicy: Unsupported value: \"Allow\": supported values: \"NoOpinion\", \"Deny\"",
        "authorizers[0].connectionInfo.kubeConfigFile: Invalid value: \"relative\": must be an absolute path",
        "authorizers[0].matchConditions[0].expression: Invalid value: \"request.user\": must evaluate to bool but got string",
        "authorizers[0].matchConditions[1].expression: Required value",
    ] {
        assert!(wrong.contains(part), "{part}\n{wrong}");
    }
    assert!(
        error(&file("- {type: Webhook, name: w, webhook: {timeout: soon}}"))
            .contains("time: invalid duration \"soon\"")
    );
}
