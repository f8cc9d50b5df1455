//! What becomes of default roles and bindings that were changed.

use super::*;

fn default(kind: RbacKind, name: &str) -> DefaultObject {
    objects().into_iter().find(|object| object.kind == kind && object.name == name).expect("a default")
}

#[test]
fn the_policy_reads_and_every_binding_has_its_role() {
    let all = objects();
    assert_eq!(all.len(), POLICY.lines().filter(|line| line.starts_with('{')).count());
    for binding in all.iter().filter(|object| object.object.get("roleRef").is_some()) {
        let (kind, name) =
            (str_at(&binding.object, &["roleRef", "kind"]), str_at(&binding.object, &["roleRef", "name"]));
        let is_role = |other: &&DefaultObject| {
            other.name == name
                && str_at(&other.object, &["kind"]) == kind
                && (kind == "ClusterRole" || other.namespace == binding.namespace)
        };
        assert!(all.iter().any(|other| is_role(&other)), "{}: {kind} {name}", binding.name);
    }
    for role in all.iter().filter(|object| object.object.get("rules").is_some()) {
        for rule in list(&role.object, "rules") {
            let read = PolicyRule::of(rule).expect("a rule");
            assert_eq!(serde_json::to_value(read).expect("written"), *rule, "{}", role.name);
        }
    }
}

#[test]
fn what_is_as_it_should_be_is_left_alone() {
    for object in objects() {
        assert_eq!(reconcile(&object, &object.object), Needed::Nothing, "{}", object.name);
    }
}

#[test]
fn missing_permissions_come_back_and_additional_ones_stay() {
    let user = default(RbacKind::ClusterRole, "system:basic-user");
    let mut stored = user.object.clone();
    let added = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]});
    stored["rules"] = json!([added, {"verbs": ["create"], "apiGroups": ["authorization.k8s.io"], "resources": ["selfsubjectaccessreviews"]}]);
    stored["metadata"]["labels"] = json!({"mine": "yes"});
    let Needed::Update(updated) = reconcile(&user, &stored) else { panic!("an update") };
    assert_eq!(updated["rules"].as_array().map(Vec::len), Some(4));
    assert_eq!(updated["rules"][0], added);
    assert_eq!(updated["rules"][2]["resources"], json!(["selfsubjectrulesreviews"]));
    assert_eq!(updated["metadata"]["labels"], json!({"mine": "yes", "kubernetes.io/bootstrapping": "rbac-defaults"}));
    assert_eq!(reconcile(&user, &updated), Needed::Nothing);
}

#[test]
fn an_annotation_protects() {
    let user = default(RbacKind::ClusterRoleBinding, "system:basic-user");
    let mut stored = user.object.clone();
    stored["subjects"] = json!([]);
    stored["roleRef"]["name"] = "other".into();
    stored["metadata"]["annotations"][AUTO_UPDATE] = "false".into();
    assert_eq!(reconcile(&user, &stored), Needed::Nothing);
}

#[test]
fn bindings_get_their_subjects_and_their_role_back() {
    let viewer = default(RbacKind::ClusterRoleBinding, "system:public-info-viewer");
    let mut stored = viewer.object.clone();
    let group = |name: &str| json!({"kind": "Group", "apiGroup": RbacKind::GROUP, "name": name});
    stored["subjects"] = json!([group("mine"), group("system:unauthenticated")]);
    let Needed::Update(updated) = reconcile(&viewer, &stored) else { panic!("an update") };
    let names: Vec<&str> = list(&updated, "subjects").iter().map(|subject| str_at(subject, &["name"])).collect();
    assert_eq!(names, ["mine", "system:unauthenticated", "system:authenticated"]);
    stored["roleRef"]["name"] = "other".into();
    assert_eq!(reconcile(&viewer, &stored), Needed::Recreate);
}

#[test]
fn aggregation_is_restored_and_removed() {
    let view = default(RbacKind::ClusterRole, "view");
    let mut stored = view.object.clone();
    stored["rules"] = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]}]);
    assert_eq!(reconcile(&view, &stored), Needed::Nothing, "what was gathered is no concern of ours");
    stored["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]});
    let Needed::Update(updated) = reconcile(&view, &stored) else { panic!("an update") };
    assert_eq!(list(&updated["aggregationRule"], "clusterRoleSelectors").len(), 2);
    let user = default(RbacKind::ClusterRole, "system:basic-user");
    let mut stored = user.object.clone();
    stored["aggregationRule"] = view.object["aggregationRule"].clone();
    assert_eq!(reconcile(&user, &stored), Needed::Update(user.object.clone()));
}
