use serde_json::{Value, json};

use super::ResourceQuota;
use crate::testing::{check_create, check_update, create, now, resource};
use bailiwick_machinery::Strategy;

fn quota(spec: Value) -> Value {
    json!({"metadata": {"name": "q"}, "spec": spec})
}

#[test]
fn a_new_quota_has_no_status_and_counts_in_thousandths() {
    let object =
        json!({"spec": {"hard": {"cpu": "0.0001", "memory": "1Gi", "pods": 2}}, "status": {"hard": {"cpu": "1"}}});
    let created = create(&ResourceQuota, object).expect("valid");
    assert_eq!(created, json!({"spec": {"hard": {"cpu": "1m", "memory": "1Gi", "pods": "2"}}, "status": {}}));
}

#[test]
fn limits_are_on_known_resources_and_not_negative() {
    let hard = json!({
        "a b": "1", "count/x.y": "1500m", "cpu": "-1", "foo": "1", "pods": "1.5", "requests.example.com/x": "100m",
        "storage": "1", "example.com/foo": "1", "hugepages-2Mi": "1",
    });
    check_create(
        "",
        "resourcequotas",
        quota(json!({"hard": hard})),
        &[
            "spec.hard[a b]: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' or \
             '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', \
             regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
            "spec.hard[a b]: Invalid value: \"a b\": must be a standard resource for quota",
            "spec.hard[count/x.y]: Invalid value: \"1500m\": must be an integer",
            "spec.hard[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
            "spec.hard[foo]: Invalid value: \"foo\": must be a standard resource type or fully qualified",
            "spec.hard[foo]: Invalid value: \"foo\": must be a standard resource for quota",
            "spec.hard[pods]: Invalid value: \"1500m\": must be an integer",
            "spec.hard[storage]: Invalid value: \"storage\": must be a standard resource for quota",
        ],
    );
}

#[test]
fn scopes_fit_the_resources_and_each_other() {
    let all = "spec.scopes: Invalid value: [\"Terminating\",\"NotTerminating\",\"BestEffort\",\"Foo\"]";
    check_create(
        "",
        "resourcequotas",
        quota(
            json!({"hard": {"cpu": "1", "pods": "1"}, "scopes": ["Terminating", "NotTerminating", "BestEffort", "Foo"]}),
        ),
        &[
            &format!("{all}: unsupported scope applied to resource"),
            &format!("{all}: unsupported scope"),
            &format!("{all}: conflicting scopes"),
        ],
    );
}

#[test]
fn scope_selectors_fit_too() {
    let path = "spec.scopeSelector.matchExpressions";
    let selector = json!({"matchExpressions": [
        {"scopeName": "Foo", "operator": "Bar"},
        {"scopeName": "Terminating", "operator": "In"},
        {"scopeName": "NotTerminating", "operator": "Exists", "values": ["a"]},
    ]});
    let shown = "{\"MatchExpressions\":[{\"ScopeName\":\"Foo\",\"Operator\":\"Bar\",\"Values\":null},\
                 {\"ScopeName\":\"Terminating\",\"Operator\":\"In\",\"Values\":null},\
                 {\"ScopeName\":\"NotTerminating\",\"Operator\":\"Exists\",\"Values\":[\"a\"]}]}";
    let unrelated = format!("{path}: Invalid value: {shown}: unsupported scope applied to resource");
    check_create(
        "",
        "resourcequotas",
        quota(json!({"hard": {"secrets": "2"}, "scopeSelector": selector})),
        &[
            &format!("{path}.scopeName: Invalid value: \"Foo\": unsupported scope"),
            &format!("{path}.operator: Invalid value: \"Bar\": not a valid selector operator"),
            &unrelated,
            &format!(
                "{path}.operator: Invalid value: \"In\": must be 'Exists' when scope is any of \
                ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, \
                ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
            ),
            &format!(
                "{path}.values: Required value: must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            ),
            &unrelated,
            &format!(
                "{path}.values: Invalid value: [\"a\"]: must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            ),
            &format!("{path}: Invalid value: null: conflicting scopes"),
        ],
    );
}

#[test]
fn scopes_never_change() {
    let old = quota(json!({"scopes": ["Terminating", "NotBestEffort"]}));
    check_update("", "resourcequotas", &old, quota(json!({"scopes": ["NotBestEffort", "Terminating"]})), &[]);
    check_update(
        "",
        "resourcequotas",
        &old,
        quota(json!({})),
        &["spec.scopes: Invalid value: null: field is immutable"],
    );
}

#[test]
fn status_is_checked_like_the_spec() {
    let old = quota(json!({"hard": {"cpu": "1"}}));
    let status = json!({"hard": {"cpu": "-1"}, "used": {"bad": "1"}});
    check_update(
        "",
        "resourcequotas/status",
        &old,
        json!({"metadata": {"name": "q"}, "status": status}),
        &[
            "status.hard[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
            "status.used[bad]: Invalid value: \"bad\": must be a standard resource type or fully qualified",
            "status.used[bad]: Invalid value: \"bad\": must be a standard resource for quota",
        ],
    );
}

#[test]
fn requests_above_limits_bring_a_warning() {
    let hard =
        json!({"requests.cpu": "2", "limits.cpu": "1", "memory": "1Gi", "limits.memory": "1", "limits.storage": "1"});
    assert_eq!(
        ResourceQuota.warnings_on_create(&quota(json!({"hard": hard}))),
        [
            "ResourceQuota requests.cpu (2) should be less than limits.cpu (1)",
            "ResourceQuota memory (1Gi) should be less than limits.memory (1)",
        ]
    );
}

#[test]
fn the_table_parts_requests_from_limits() {
    let status = json!({
        "hard": {"cpu": "1", "limits.cpu": "5", "limits.memory": "1Gi", "requests.cpu": "2"}, "used": {"cpu": "1500m"},
    });
    let cells =
        resource("", "resourcequotas").table.cells(&json!({"metadata": {"name": "q"}, "status": status}), now());
    let expected =
        ["q", "cpu: 1500m/1, requests.cpu: 0/2", "limits.cpu: 0/5, limits.memory: 0/1Gi", "<unknown>"].map(Value::from);
    assert_eq!(cells, expected);
}
