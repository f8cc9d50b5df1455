//! Who may write which roles and bindings, in the words of kube-apiserver 1.36.4.

use serde_json::json;

use super::*;
use crate::authz::rbac::{Change, Rbac};
use crate::authz::{Link, SystemMasters};

/// Alice may read configmaps of `ns`, and dave holds everything.
fn authorizers() -> Authorizers {
    let rbac = Rbac::default();
    let role = |name: &str, rules: Value| json!({"metadata": {"name": name}, "rules": rules});
    let reads = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]}]);
    let all = json!([
        {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}, {"verbs": ["*"], "nonResourceURLs": ["*"]},
    ]);
    let secrets = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}]);
    for (name, rules) in [("reader", reads), ("all", all), ("secrets", secrets)] {
        rbac.apply(RbacKind::ClusterRole, Change::Stored(&role(name, rules)));
    }
    let may = |verb: &str, resource: &str, names: &[&str]| json!([{"verbs": [verb], "apiGroups": [RbacKind::GROUP], "resources": [resource], "resourceNames": names}]);
    rbac.apply(RbacKind::ClusterRole, Change::Stored(&role("escalator", may("escalate", "roles", &["r"]))));
    rbac.apply(RbacKind::ClusterRole, Change::Stored(&role("binder", may("bind", "clusterroles", &["secrets"]))));
    for (name, user) in [("reader", "alice"), ("escalator", "erin"), ("binder", "bob")] {
        let subjects = json!([{"kind": "User", "name": user}]);
        let binding = json!({
            "metadata": {"name": name, "namespace": "ns"}, "roleRef": {"kind": "ClusterRole", "name": name},
            "subjects": subjects,
        });
        rbac.apply(RbacKind::RoleBinding, Change::Stored(&binding));
    }
    let all = json!({
        "metadata": {"name": "all"}, "roleRef": {"kind": "ClusterRole", "name": "all"},
        "subjects": [{"kind": "User", "name": "dave"}],
    });
    rbac.apply(RbacKind::ClusterRoleBinding, Change::Stored(&all));
    Authorizers::with_roles(vec![Link::Local(Box::new(SystemMasters)), Link::Local(Box::new(rbac.clone()))], rbac)
}

async fn write(
    user: &str,
    kind: RbacKind,
    namespace: &str,
    object: Value,
    old: Option<Value>,
) -> Result<(), (u16, String)> {
    let user = UserInfo { name: user.into(), groups: vec!["dev".into()], ..UserInfo::default() };
    let path_name = if old.is_some() { str_at(&object, &["metadata", "name"]).to_owned() } else { String::new() };
    let written = Written { user: &user, kind, namespace, path_name: &path_name, object: &object, old: old.as_ref() };
    check(&authorizers(), &written).await.map_err(|error| (error.code, error.message))
}

fn role_on(resource: &str) -> Value {
    json!({"metadata": {"name": "r"}, "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": [resource]}]})
}

fn binding_to(kind: &str, name: &str) -> Value {
    json!({"metadata": {"name": "b"}, "roleRef": {"apiGroup": RbacKind::GROUP, "kind": kind, "name": name}})
}

#[tokio::test]
async fn roles_take_what_they_grant() {
    assert_eq!(write("alice", RbacKind::Role, "ns", role_on("configmaps"), None).await, Ok(()));
    let refused = "roles.rbac.authorization.k8s.io \"r\" is forbidden: user \"alice\" (groups=[\"dev\"]) is attempting to \
                   grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}";
    assert_eq!(write("alice", RbacKind::Role, "ns", role_on("secrets"), None).await, Err((403, refused.into())));
    // Rights in one namespace are none in another or in the cluster.
    assert!(write("alice", RbacKind::Role, "other", role_on("configmaps"), None).await.is_err());
    assert!(write("alice", RbacKind::ClusterRole, "", role_on("configmaps"), None).await.is_err());
    assert_eq!(write("dave", RbacKind::ClusterRole, "", role_on("secrets"), None).await, Ok(()));
}

#[tokio::test]
async fn escalating_a_named_role_needs_the_name_in_the_path() {
    assert_eq!(write("erin", RbacKind::Role, "ns", role_on("secrets"), Some(role_on("x"))).await, Ok(()));
    assert!(write("erin", RbacKind::Role, "ns", role_on("secrets"), None).await.is_err());
}

#[tokio::test]
async fn what_the_garbage_collector_does_needs_no_rights() {
    let mut collected = role_on("secrets");
    collected["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
    assert_eq!(write("alice", RbacKind::Role, "ns", role_on("secrets"), Some(collected.clone())).await, Ok(()));
    collected["metadata"]["labels"] = json!({"a": "b"});
    assert!(write("alice", RbacKind::Role, "ns", role_on("secrets"), Some(collected)).await.is_err());
}

#[tokio::test]
async fn aggregation_takes_everything() {
    let mut aggregated = role_on("configmaps");
    aggregated["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]});
    let only_aggregated = json!({"metadata": {"name": "r"}, "aggregationRule": aggregated["aggregationRule"]});
    let refused = "clusterroles.rbac.authorization.k8s.io \"r\" is forbidden: must have cluster-admin privileges to use the \
                   aggregationRule";
    let error = write("alice", RbacKind::ClusterRole, "", only_aggregated, None).await;
    assert_eq!(error, Err((403, refused.into())));
    assert_eq!(write("dave", RbacKind::ClusterRole, "", aggregated, None).await, Ok(()));
}

#[tokio::test]
async fn bindings_take_what_their_role_grants_or_the_right_to_bind_it() {
    assert_eq!(write("alice", RbacKind::RoleBinding, "ns", binding_to("ClusterRole", "reader"), None).await, Ok(()));
    let secrets = || binding_to("ClusterRole", "secrets");
    assert!(write("alice", RbacKind::RoleBinding, "ns", secrets(), None).await.is_err());
    assert_eq!(write("bob", RbacKind::RoleBinding, "ns", secrets(), None).await, Ok(()));
    assert!(write("bob", RbacKind::RoleBinding, "other", secrets(), None).await.is_err());
    assert!(write("bob", RbacKind::ClusterRoleBinding, "", secrets(), None).await.is_err());
}

#[tokio::test]
async fn bindings_to_nothing_are_refused_as_upstream_does() {
    let write = async |kind, namespace, object| write("alice", kind, namespace, object, None).await;
    let gone = write(RbacKind::RoleBinding, "ns", binding_to("ClusterRole", "gone")).await;
    assert_eq!(gone, Err((404, "rolebindings.rbac.authorization.k8s.io \"gone\" not found".into())));
    let odd = write(RbacKind::RoleBinding, "ns", binding_to("Robot", "r")).await;
    assert_eq!(odd, Err((500, "unsupported role reference kind: \"Robot\"".into())));
    let local = write(RbacKind::ClusterRoleBinding, "", binding_to("Role", "r")).await;
    assert_eq!(local, Err((400, "Namespace parameter required.".into())));
}
