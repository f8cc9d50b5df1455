//! Configurations that make no sense, each with what is said about it.

use super::*;

const HEAD: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n";
const GOOD: &str = "issuer: {url: 'https://a', audiences: [x]}, claimMappings: {username: {claim: sub, prefix: ''}}";

fn errors(yaml: &str) -> Vec<String> {
    let config = AuthenticationConfiguration::parse(&format!("{HEAD}{yaml}")).expect("well-formed");
    match validate(&config, &["https://own".to_owned()]) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

/// The errors of one issuer that is good but for these members.
fn issuer_errors(issuer: &str) -> Vec<String> {
    errors(&format!("jwt: [{{issuer: {{{issuer}}}, claimMappings: {{username: {{claim: sub, prefix: ''}}}}}}]"))
}

fn mapping_errors(mappings: &str) -> Vec<String> {
    errors(&format!("jwt: [{{issuer: {{url: 'https://a', audiences: [x]}}, claimMappings: {{{mappings}}}}}]"))
}

#[test]
fn good_configurations_pass() {
    assert_eq!(errors("jwt: []"), Vec::<String>::new());
    assert_eq!(errors(&format!("jwt: [{{{GOOD}}}]")), Vec::<String>::new());
    assert_eq!(errors("anonymous: {enabled: true, conditions: [{path: /livez}]}"), Vec::<String>::new());
}

#[test]
fn issuers_are_https_urls_that_are_not_ours() {
    assert_eq!(issuer_errors("audiences: [x]"), ["jwt[0].issuer.url: Required value"]);
    assert_eq!(
        issuer_errors("url: 'http://u:p@a?q#f', audiences: [x]"),
        [
            "jwt[0].issuer.url: Invalid value: \"http://u:p@a?q#f\": URL scheme must be https",
            "jwt[0].issuer.url: Invalid value: \"http://u:p@a?q#f\": URL must not contain a username or password",
            "jwt[0].issuer.url: Invalid value: \"http://u:p@a?q#f\": URL must not contain a query",
            "jwt[0].issuer.url: Invalid value: \"http://u:p@a?q#f\": URL must not contain a fragment",
        ]
    );
    assert_eq!(
        issuer_errors("url: 'https://own', audiences: [x]"),
        [
            "jwt[0].issuer.url: Invalid value: \"https://own\": URL must not overlap with disallowed issuers: [https://own]"
        ]
    );
    assert_eq!(
        issuer_errors("url: 'https://a', discoveryURL: 'https://a/', audiences: [x]"),
        ["jwt[0].issuer.discoveryURL: Invalid value: \"https://a/\": discoveryURL must be different from URL"]
    );
    assert_eq!(
        issuer_errors("url: 'https://a', audiences: [x], certificateAuthority: nonsense"),
        [
            "jwt[0].issuer.certificateAuthority: Invalid value: \"<omitted>\": data does not contain any valid RSA or ECDSA certificates"
        ]
    );
}

#[test]
fn audiences_are_distinct_and_several_only_with_a_policy() {
    assert_eq!(
        issuer_errors("url: 'https://a'"),
        ["jwt[0].issuer.audiences: Required value: at least one jwt[0].issuer.audiences is required"]
    );
    assert_eq!(
        issuer_errors("url: 'https://a', audiences: [x, x, '']"),
        [
            "jwt[0].issuer.audiences[1]: Duplicate value: \"x\"",
            "jwt[0].issuer.audiences[2]: Required value",
            "jwt[0].issuer.audienceMatchPolicy: Invalid value: \"\": audienceMatchPolicy must be MatchAny for multiple audiences",
        ]
    );
    assert_eq!(
        issuer_errors("url: 'https://a', audiences: [x], audienceMatchPolicy: All"),
        [
            "jwt[0].issuer.audienceMatchPolicy: Invalid value: \"All\": audienceMatchPolicy must be empty or MatchAny for single audience"
        ]
    );
    assert!(issuer_errors("url: 'https://a', audiences: [x, z], audienceMatchPolicy: MatchAny").is_empty());
}

#[test]
fn issuers_are_distinct() {
    assert_eq!(
        errors(&format!("jwt: [{{{GOOD}}}, {{{GOOD}}}]")),
        ["jwt[1].issuer.url: Duplicate value: \"https://a\""]
    );
    let many = vec![format!("{{{GOOD}}}"); 65].join(", ");
    assert_eq!(errors(&format!("jwt: [{many}]")), ["jwt: Too many: 65: must have at most 64 items"]);
}

#[test]
fn a_claim_or_an_expression_but_not_both() {
    assert_eq!(mapping_errors(""), ["jwt[0].claimMappings.username: Required value: claim or expression is required"]);
    assert_eq!(
        mapping_errors("username: {claim: sub}"),
        [
            "jwt[0].claimMappings.username.prefix: Required value: prefix is required when claim is set. It can be set to an empty string to disable prefixing"
        ]
    );
    assert_eq!(
        mapping_errors("username: {claim: sub, expression: claims.sub}"),
        ["jwt[0].claimMappings.username: Invalid value: \"\": claim and expression can't both be set"]
    );
    assert_eq!(
        mapping_errors("username: {expression: claims.sub, prefix: a}, uid: {claim: a, expression: b}"),
        [
            "jwt[0].claimMappings.username.prefix: Invalid value: \"a\": may not be specified when expression is set",
            "jwt[0].claimMappings.uid: Invalid value: \"\": claim and expression can't both be set",
        ]
    );
}

#[test]
fn extra_keys_are_namespaced_lowercase_and_not_kubernetes_own() {
    let with = |extra: &str| mapping_errors(&format!("username: {{claim: sub, prefix: ''}}, extra: [{extra}]"));
    assert_eq!(
        with("{key: foo, valueExpression: claims.a}"),
        [
            "jwt[0].claimMappings.extra[0].key: Invalid value: \"foo\": must be a domain-prefixed path (such as \"acme.io/foo\")"
        ]
    );
    assert_eq!(
        with("{key: a.k8s.io/foo, valueExpression: claims.a}"),
        [
            "jwt[0].claimMappings.extra[0].key: Invalid value: \"a.k8s.io/foo\": k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use"
        ]
    );
    assert_eq!(
        with("{key: a.io/Foo, valueExpression: claims.a}"),
        ["jwt[0].claimMappings.extra[0].key: Invalid value: \"a.io/Foo\": must be lowercase"]
    );
    assert_eq!(
        with("{key: a.io/foo, valueExpression: claims.a}, {key: a.io/foo, valueExpression: claims.b}, {key: b.io/x}"),
        [
            "jwt[0].claimMappings.extra[1].key: Duplicate value: \"a.io/foo\"",
            "jwt[0].claimMappings.extra[2].valueExpression: Required value",
        ]
    );
}

#[test]
fn an_unverified_email_is_no_user_name() {
    let wanted = "claims.email_verified must be used in";
    let found = mapping_errors("username: {expression: claims.email}");
    assert!(found.iter().all(|error| error.contains(wanted)) && found.len() == 1, "{found:?}");
    assert!(mapping_errors("username: {expression: \"claims.email_verified ? claims.email : ''\"}").is_empty());
}

#[test]
fn rules_say_what_they_want_once() {
    let with = |rules: &str| errors(&format!("jwt: [{{{GOOD}, {rules}}}]"));
    assert_eq!(
        with(
            "claimValidationRules: [{}, {claim: a, expression: b}, {claim: a, message: m}, {claim: a}, {expression: claims.x, requiredValue: v}]"
        ),
        [
            "jwt[0].claimValidationRules[0]: Required value: claim or expression is required",
            "jwt[0].claimValidationRules[1]: Invalid value: \"a\": claim and expression can't both be set",
            "jwt[0].claimValidationRules[2].message: Invalid value: \"m\": may not be specified when claim is set",
            "jwt[0].claimValidationRules[3].claim: Duplicate value: \"a\"",
            "jwt[0].claimValidationRules[4].requiredValue: Invalid value: \"v\": may not be specified when expression is set",
            "jwt[0].claimValidationRules[4].expression: Invalid value: \"claims.x\": must evaluate to bool",
        ]
    );
    assert_eq!(
        with("userValidationRules: [{}, {expression: 'true'}, {expression: 'true'}, {expression: '1'}]"),
        [
            "jwt[0].userValidationRules[0].expression: Required value",
            "jwt[0].userValidationRules[2].expression: Duplicate value: \"true\"",
            "jwt[0].userValidationRules[3].expression: Invalid value: \"1\": must evaluate to bool",
        ]
    );
}

#[test]
fn conditions_need_anonymity() {
    assert_eq!(
        errors("anonymous: {enabled: false, conditions: [{path: /livez}]}"),
        [
            "anonymous.conditions: Invalid value: [{\"Path\":\"/livez\"}]: enabled should be set to true when conditions are defined"
        ]
    );
}
