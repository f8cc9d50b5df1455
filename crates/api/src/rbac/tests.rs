use serde_json::{Value, json};

use super::{Binding, GROUP};
use crate::testing::{check_create, check_update, create, now, resource};
use bailiwick_machinery::Scope;

#[test]
fn rules_name_verbs_and_either_resources_or_urls() {
    let rules = json!([
        {},
        {"verbs": ["get"], "nonResourceURLs": ["/x"], "resources": ["a"]},
        {"verbs": ["get"], "apiGroups": [""], "resources": ["x"]},
    ]);
    let both = "rules[1].nonResourceURLs: Invalid value: [\"/x\"]: rules cannot apply to both regular resources and \
                non-resource URLs";
    let incomplete = [
        "rules[0].verbs: Required value: verbs must contain at least one value",
        "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
        "rules[0].resources: Required value: resource rules must supply at least one resource",
    ];
    let namespaced =
        "rules[1].nonResourceURLs: Invalid value: [\"/x\"]: namespaced rules cannot apply to non-resource URLs";
    let role = json!({"rules": rules});
    check_create(GROUP, "roles", role.clone(), &[&incomplete[..], &[namespaced, both]].concat());
    check_create(GROUP, "clusterroles", role, &[&incomplete[..], &[both]].concat());
}

#[test]
fn aggregation_needs_selectors_that_can_be_evaluated() {
    let role = |selectors: Value| json!({"aggregationRule": {"clusterRoleSelectors": selectors}});
    let path = "aggregationRule.clusterRoleSelectors";
    let one_required =
        format!("{path}: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil");
    check_create(GROUP, "clusterroles", role(json!([])), &[&one_required]);
    check_create(GROUP, "clusterroles", role(json!([{"matchLabels": {"a": "b"}}])), &[]);
    let unknown = json!([{"matchExpressions": [{"key": "x", "operator": "Foo"}]}]);
    check_create(
        GROUP,
        "clusterroles",
        role(unknown),
        &[
            &format!("{path}[0].matchExpressions[0].operator: Invalid value: \"Foo\": not a valid selector operator"),
            &format!("{path}[0]: Invalid value: null: invalid label selector."),
        ],
    );
}

#[test]
fn users_and_groups_get_their_api_group() {
    let object = json!({
        "roleRef": {"kind": "Role", "name": "a"},
        "subjects": [{"kind": "User", "name": "u"}, {"kind": "Group", "name": "g"}, {"kind": "ServiceAccount", "name": "s"}],
    });
    let created = create(&Binding(Scope::Namespaced), object).expect("valid");
    assert_eq!(created["roleRef"]["apiGroup"], GROUP);
    let groups: Vec<Option<&str>> =
        (0..3).map(|i| created["subjects"][i].get("apiGroup").and_then(Value::as_str)).collect();
    assert_eq!(groups, [Some(GROUP), Some(GROUP), None]);
}

#[test]
fn bindings_refer_to_roles_and_known_kinds_of_subjects() {
    check_create(
        GROUP,
        "rolebindings",
        json!({
            "roleRef": {"kind": "Foo", "name": "a/b", "apiGroup": "x"},
            "subjects": [
                {},
                {"kind": "User", "name": "a", "apiGroup": "x"},
                {"kind": "ServiceAccount", "name": "a_b", "apiGroup": "x"},
                {"kind": "Group"},
                {"kind": "ServiceAccount", "name": "ok"},
            ],
        }),
        &[
            "roleRef.apiGroup: Unsupported value: \"x\": supported values: \"rbac.authorization.k8s.io\"",
            "roleRef.kind: Unsupported value: \"Foo\": supported values: \"Role\", \"ClusterRole\"",
            "roleRef.name: Invalid value: \"a/b\": may not contain '/'",
            "subjects[0].name: Required value",
            "subjects[0].kind: Unsupported value: \"\": supported values: \"ServiceAccount\", \"User\", \"Group\"",
            "subjects[1].apiGroup: Unsupported value: \"x\": supported values: \"rbac.authorization.k8s.io\"",
            "subjects[2].name: Invalid value: \"a_b\": a lowercase RFC 1123 subdomain must consist of lower case \
             alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
             'example.com', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            "subjects[2].apiGroup: Unsupported value: \"x\": supported values: \"\"",
            "subjects[3].name: Required value",
        ],
    );
    check_create(
        GROUP,
        "clusterrolebindings",
        json!({"roleRef": {"kind": "Role"}, "subjects": [{"kind": "ServiceAccount", "name": "ok"}]}),
        &[
            "roleRef.kind: Unsupported value: \"Role\": supported values: \"ClusterRole\"",
            "roleRef.name: Required value",
            "subjects[0].namespace: Required value",
        ],
    );
}

#[test]
fn the_role_of_a_binding_never_changes() {
    let binding = |name: &str| json!({"roleRef": {"kind": "Role", "name": name, "apiGroup": GROUP}});
    check_update(GROUP, "rolebindings", &binding("a"), json!({"roleRef": {"kind": "Role", "name": "a"}}), &[]);
    let changed = "roleRef: Invalid value: \
                   {\"APIGroup\":\"rbac.authorization.k8s.io\",\"Kind\":\"Role\",\"Name\":\"b\"}: cannot change roleRef";
    check_update(GROUP, "rolebindings", &binding("a"), binding("b"), &[changed]);
}

#[test]
fn the_table_groups_subjects_by_kind() {
    let object = json!({
        "metadata": {"name": "a"},
        "roleRef": {"kind": "Role", "name": "r"},
        "subjects": [
            {"kind": "User", "name": "u"}, {"kind": "User", "name": "v"},
            {"kind": "ServiceAccount", "name": "s"}, {"kind": "ServiceAccount", "name": "s", "namespace": "z"},
        ],
    });
    let table = resource(GROUP, "rolebindings").table;
    let cells = ["a", "Role/r", "<unknown>", "u, v", "", "/s, z/s"].map(Value::from);
    assert_eq!(table.cells(&object, now()), cells);
    let role = &table.columns()[1];
    assert!(role.description.ends_with("the Authorizer must return an error."), "{}", role.description);
}
