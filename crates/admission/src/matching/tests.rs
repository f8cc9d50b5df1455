//! What matches, and as what.

use bailiwick_machinery::UserInfo;
use bailiwick_machinery::resource::GroupVersionKind;
use serde_json::{Value, json};

use super::*;
use crate::host::Equivalent;
use crate::testing::{TestHost, World, request, resource};

fn webhook(rules: Value) -> Value {
    json!({"rules": rules, "matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}})
}

fn rule(operation: &str, group: &str, version: &str, resource: &str) -> Value {
    json!({"operations": [operation], "apiGroups": [group], "apiVersions": [version], "resources": [resource]})
}

struct Asked {
    operation: Operation,
    subresource: &'static str,
    namespace: &'static str,
    labels: Value,
}

impl Default for Asked {
    fn default() -> Self {
        Self { operation: Operation::Create, subresource: "", namespace: "ns", labels: json!({}) }
    }
}

/// The version that matches, as `group/version/resource`.
fn outcome(criteria: &Criteria, asked: &Asked) -> Result<Option<String>, ApiError> {
    let things = resource("example.com", "Thing", "things");
    let user = UserInfo::default();
    let mut object = json!({"metadata": {"name": "a", "labels": asked.labels}});
    let kind = GroupVersionKind { group: "example.com".into(), version: "v2".into(), kind: "Thing".into() };
    let host = TestHost {
        equivalents: vec![Equivalent {
            group: "example.com".into(),
            version: "v2".into(),
            resource: "things".into(),
            kind,
        }],
        ..TestHost::default()
    };
    let mut attributes = request(asked.operation, &things, &user, "a", Some(&mut object));
    attributes.host = &host;
    attributes.subresource = asked.subresource;
    attributes.namespace = asked.namespace;
    let world = World { namespace_labels: vec![("env", "prod")], ..World::default() };
    let matched = criteria.matches(&attributes, &world)?;
    Ok(matched.map(|m| format!("{}/{}/{}", m.resource.group, m.resource.version, m.resource.resource)))
}

fn matched(criteria: &Value, asked: &Asked) -> Option<String> {
    outcome(&Criteria::of_webhook(criteria), asked).expect("no error")
}

#[test]
fn rules_name_operations_groups_versions_and_resources() {
    let v1 = Some("example.com/v1/things".to_owned());
    let asked = Asked::default();
    assert_eq!(matched(&webhook(json!([rule("CREATE", "example.com", "v1", "things")])), &asked), v1);
    assert_eq!(matched(&webhook(json!([rule("*", "*", "*", "*")])), &asked), v1);
    assert_eq!(matched(&webhook(json!([rule("*", "*", "*", "*/*")])), &asked), v1);
    for other in [
        rule("UPDATE", "example.com", "v1", "things"),
        rule("CREATE", "other.com", "v1", "things"),
        rule("CREATE", "example.com", "v3", "things"),
        rule("CREATE", "example.com", "v1", "things/status"),
    ] {
        assert_eq!(matched(&webhook(json!([other])), &asked), None);
    }
    let status = Asked { subresource: "status", ..Asked::default() };
    for (resource, expected) in [("things", None), ("*", None), ("things/*", v1.clone()), ("*/status", v1.clone())] {
        assert_eq!(matched(&webhook(json!([rule("CREATE", "example.com", "v1", resource)])), &status), expected);
    }
}

#[test]
fn another_version_counts_only_as_equivalent() {
    let mut hook = webhook(json!([rule("CREATE", "example.com", "v2", "things")]));
    assert_eq!(matched(&hook, &Asked::default()), Some("example.com/v2/things".to_owned()));
    hook["matchPolicy"] = "Exact".into();
    assert_eq!(matched(&hook, &Asked::default()), None);
}

#[test]
fn scopes_tell_namespaced_requests_from_others() {
    let scoped = |scope: &str| {
        let mut rule = rule("CREATE", "example.com", "v1", "things");
        rule["scope"] = scope.into();
        webhook(json!([rule]))
    };
    let cluster = Asked { namespace: "", ..Asked::default() };
    let found = |scope: &str| {
        (matched(&scoped(scope), &Asked::default()).is_some(), matched(&scoped(scope), &cluster).is_some())
    };
    assert_eq!(found("*"), (true, true));
    assert_eq!(found("Namespaced"), (true, false));
    assert_eq!(found("Cluster"), (false, true));
}

#[test]
fn selectors_narrow_what_rules_match() {
    let mut hook = webhook(json!([rule("*", "*", "*", "*")]));
    hook["namespaceSelector"] = json!({"matchLabels": {"env": "prod"}});
    assert!(matched(&hook, &Asked::default()).is_some());
    hook["namespaceSelector"] = json!({"matchLabels": {"env": "test"}});
    assert!(matched(&hook, &Asked::default()).is_none());
    assert!(matched(&hook, &Asked { namespace: "", ..Asked::default() }).is_some(), "no namespace, nothing to select");
    hook["namespaceSelector"] = json!({});
    hook["objectSelector"] = json!({"matchLabels": {"a": "b"}});
    assert!(matched(&hook, &Asked::default()).is_none());
    assert!(matched(&hook, &Asked { labels: json!({"a": "b"}), ..Asked::default() }).is_some());
}

#[test]
fn a_namespace_that_is_missing_is_an_error_only_where_rules_match() {
    let mut hook = webhook(json!([rule("*", "*", "*", "*")]));
    hook["namespaceSelector"] = json!({"matchLabels": {"env": "prod"}});
    let gone = Asked { namespace: "gone", ..Asked::default() };
    let error = outcome(&Criteria::of_webhook(&hook), &gone).expect_err("an error");
    assert_eq!((error.code, error.message.as_str()), (404, "namespaces \"gone\" not found"));
    hook["rules"] = json!([rule("DELETE", "*", "*", "*")]);
    assert_eq!(outcome(&Criteria::of_webhook(&hook), &gone), Ok(None));
}

#[test]
fn policies_may_exclude_and_name_objects_and_without_rules_match_all() {
    let base = |rules: Value, exclude: Value| {
        Criteria::of_match_resources(&json!({"resourceRules": rules, "excludeResourceRules": exclude,
            "matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}))
    };
    let found = |criteria: Criteria| outcome(&criteria, &Asked::default()).expect("no error").is_some();
    assert!(found(base(json!([]), json!([]))));
    assert!(!found(base(json!([]), json!([rule("*", "*", "*", "*")]))));
    let named = |name: &str| {
        let mut rule = rule("*", "*", "*", "*");
        rule["resourceNames"] = json!([name]);
        json!([rule])
    };
    assert!(found(base(named("a"), json!([]))));
    assert!(!found(base(named("b"), json!([]))));
    assert!(found(base(json!([]), named("b"))));
}
