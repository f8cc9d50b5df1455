//! Impersonation; refusals are those of kube-apiserver 1.36.4.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::authz::SystemMasters;
use crate::authz::rbac::{Change, Rbac, RbacKind};

fn headers(list: &[(&str, &str)]) -> Result<Option<UserInfo>, ApiError> {
    requested(list.iter().map(|(name, value)| (*name, value.as_bytes())))
}

fn wanted(list: &[(&str, &str)]) -> UserInfo {
    headers(list).expect("well formed").expect("asked for")
}

/// Alice with these rules, reading `/api` as somebody else.
async fn as_other(rules: serde_json::Value, wanted: &UserInfo) -> Result<Impersonation, ApiError> {
    let rbac = Rbac::default();
    rbac.apply(RbacKind::ClusterRole, Change::Stored(&json!({"metadata": {"name": "r"}, "rules": rules})));
    let subjects = json!([{"kind": "User", "name": "alice"}]);
    let binding =
        json!({"metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": subjects});
    rbac.apply(RbacKind::ClusterRoleBinding, Change::Stored(&binding));
    let authorizers = Authorizers::new(vec![Box::new(SystemMasters), Box::new(rbac)]);
    let alice = UserInfo { name: "alice".into(), ..UserInfo::default() };
    let request = Attributes { user: &alice, verb: "get", target: Target::Path("/api") };
    authorize(&authorizers, &request, wanted).await
}

#[test]
fn headers_name_the_identity() {
    assert_eq!(headers(&[("accept", "*/*")]), Ok(None));
    let user = wanted(&[
        ("impersonate-user", "bob"),
        ("impersonate-user", "ignored"),
        ("impersonate-uid", "7"),
        ("impersonate-group", "a"),
        ("impersonate-group", "b"),
        ("impersonate-extra-example.com%2fscope", "x"),
        ("impersonate-extra-example.com%2fscope", "y"),
        ("impersonate-extra-bad%zz", "z"),
    ]);
    assert_eq!((user.name.as_str(), user.uid.as_str(), user.groups.join(" ").as_str()), ("bob", "7", "a b"));
    assert_eq!(user.extra["example.com/scope"], ["x", "y"]);
    assert_eq!(user.extra["bad%zz"], ["z"], "what is badly encoded is taken as it is");
}

#[test]
fn details_without_a_name_are_an_error() {
    let error = headers(&[("impersonate-group", "g"), ("impersonate-extra-k", "v")]).expect_err("refused");
    assert_eq!(
        error.message,
        "requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"g\"}, Extra:map[string][]string{\"k\":[]string{\"v\"}}} without impersonating a user name"
    );
    assert_eq!(error.code, 400);
}

#[tokio::test]
async fn without_permission_the_constrained_refusal_is_reported() {
    let error = as_other(json!([]), &wanted(&[("impersonate-user", "bob")])).await.expect_err("refused");
    assert_eq!(error.message, "forbidden: User \"alice\" cannot impersonate-on:user-info:get path \"/api\"");
    let account = wanted(&[("impersonate-user", "system:serviceaccount:default:x")]);
    let error = as_other(json!([]), &account).await.expect_err("refused");
    assert_eq!(error.message, "forbidden: User \"alice\" cannot impersonate-on:serviceaccount:get path \"/api\"");
}

#[tokio::test]
async fn the_older_permission_covers_every_part_of_the_identity() {
    let may = |resources: &[&str]| json!([{"verbs": ["impersonate"], "apiGroups": ["", "authentication.k8s.io"], "resources": resources}]);
    let bob = wanted(&[
        ("impersonate-user", "bob"),
        ("impersonate-group", "dev"),
        ("impersonate-uid", "7"),
        ("impersonate-extra-k", "v"),
    ]);
    let all = ["users", "groups", "uids", "userextras/k"];
    let granted = as_other(may(&all), &bob).await.expect("granted");
    assert_eq!(granted.user.groups, ["dev", "system:authenticated"]);
    assert_eq!(granted.constraint, "");
    for missing in all {
        let rest: Vec<&str> = all.into_iter().filter(|r| *r != missing).collect();
        as_other(may(&rest), &bob).await.expect_err(missing);
    }
}

#[tokio::test]
async fn the_constrained_permission_needs_the_deed_as_well() {
    let identity = json!({"verbs": ["impersonate:user-info"], "apiGroups": ["authentication.k8s.io"], "resources": ["users", "groups"]});
    let deed = json!({"verbs": ["impersonate-on:user-info:get"], "nonResourceURLs": ["/api"]});
    let bob = wanted(&[("impersonate-user", "bob")]);
    let granted = as_other(json!([identity, deed]), &bob).await.expect("granted");
    assert_eq!(granted.constraint, "impersonate:user-info");
    as_other(json!([identity]), &bob).await.expect_err("not the deed");
    as_other(json!([deed]), &bob).await.expect_err("not the identity");
    let master = wanted(&[("impersonate-user", "bob"), ("impersonate-group", "system:masters")]);
    let error = as_other(json!([identity, deed]), &master).await.expect_err("never masters");
    assert!(error.message.ends_with("impersonating the system:masters group is not allowed"), "{error}");
}

#[tokio::test]
async fn identities_come_with_the_groups_they_imply() {
    let all = || json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}, {"verbs": ["*"], "nonResourceURLs": ["*"]}]);
    let groups = async |list: &[(&str, &str)]| as_other(all(), &wanted(list)).await.expect("granted").user.groups;
    assert_eq!(
        groups(&[("impersonate-user", "system:serviceaccount:ns:x")]).await,
        ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"]
    );
    assert_eq!(groups(&[("impersonate-user", "system:node:n")]).await, ["system:nodes", "system:authenticated"]);
    assert_eq!(groups(&[("impersonate-user", "system:anonymous")]).await, ["system:unauthenticated"]);
    let unauthenticated = [("impersonate-user", "bob"), ("impersonate-group", "system:unauthenticated")];
    assert_eq!(groups(&unauthenticated).await, ["system:unauthenticated"]);
}

proptest! {
    #[test]
    fn any_header_is_read(name in "impersonate-(user|uid|group|extra-[ -~]{0,12})", value in proptest::collection::vec(any::<u8>(), 0..12)) {
        let _ = requested([(name.as_str(), value.as_slice())].into_iter());
    }
}
