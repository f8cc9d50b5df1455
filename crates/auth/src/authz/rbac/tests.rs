//! The index says what a scan over all bindings would.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::authz::explain::{Miss, Verdict};
use crate::authz::{ResourceTarget, Target};

fn role(namespace: &str, name: &str, resource: &str) -> Value {
    json!({
        "metadata": {"namespace": namespace, "name": name},
        "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": [resource]}],
    })
}

fn binding(namespace: &str, name: &str, role: (&str, &str), subjects: Value) -> Value {
    json!({
        "metadata": {"namespace": namespace, "name": name},
        "roleRef": {"kind": role.0, "name": role.1},
        "subjects": subjects,
    })
}

fn user(name: &str, groups: &[&str]) -> UserInfo {
    UserInfo { name: name.into(), groups: groups.iter().map(|g| (*g).to_owned()).collect(), ..UserInfo::default() }
}

fn get(rbac: &Rbac, user: &UserInfo, namespace: &str, resource: &str) -> Decision {
    let target = Target::Resource(ResourceTarget { namespace, resource, ..ResourceTarget::default() });
    rbac.authorize(&Attributes { user, verb: "get", target })
}

#[test]
fn bindings_grant_in_their_scope() {
    let rbac = Rbac::default();
    rbac.apply(RbacKind::ClusterRole, Change::Stored(&role("", "reader", "configmaps")));
    rbac.apply(RbacKind::Role, Change::Stored(&role("a", "secretive", "secrets")));
    let alice = json!([{"kind": "User", "name": "alice"}]);
    rbac.apply(RbacKind::RoleBinding, Change::Stored(&binding("a", "b1", ("ClusterRole", "reader"), alice.clone())));
    rbac.apply(RbacKind::RoleBinding, Change::Stored(&binding("a", "b2", ("Role", "secretive"), alice)));
    let dev = json!([{"kind": "Group", "name": "dev"}]);
    rbac.apply(RbacKind::ClusterRoleBinding, Change::Stored(&binding("", "b3", ("ClusterRole", "reader"), dev)));

    let (alice, dave) = (user("alice", &[]), user("dave", &["dev"]));
    assert_eq!(
        get(&rbac, &alice, "a", "configmaps").reason(),
        "RBAC: allowed by RoleBinding \"b1/a\" of ClusterRole \"reader\" to User \"alice\""
    );
    assert!(get(&rbac, &alice, "a", "secrets").is_allowed());
    assert!(!get(&rbac, &alice, "b", "configmaps").is_allowed());
    assert!(!get(&rbac, &alice, "", "configmaps").is_allowed());
    assert_eq!(
        get(&rbac, &dave, "b", "configmaps").reason(),
        "RBAC: allowed by ClusterRoleBinding \"b3\" of ClusterRole \"reader\" to Group \"dev\""
    );
    assert!(get(&rbac, &dave, "", "configmaps").is_allowed());
    assert!(!get(&rbac, &dave, "a", "secrets").is_allowed());
}

#[test]
fn service_accounts_are_in_the_namespace_of_the_binding_unless_they_say_otherwise() {
    let rbac = Rbac::default();
    rbac.apply(RbacKind::ClusterRole, Change::Stored(&role("", "reader", "configmaps")));
    let subjects =
        json!([{"kind": "ServiceAccount", "name": "x"}, {"kind": "ServiceAccount", "name": "y", "namespace": "b"}]);
    rbac.apply(RbacKind::RoleBinding, Change::Stored(&binding("a", "r", ("ClusterRole", "reader"), subjects.clone())));
    assert_eq!(
        get(&rbac, &user("system:serviceaccount:a:x", &[]), "a", "configmaps").reason(),
        "RBAC: allowed by RoleBinding \"r/a\" of ClusterRole \"reader\" to ServiceAccount \"x/a\""
    );
    assert!(get(&rbac, &user("system:serviceaccount:b:y", &[]), "a", "configmaps").is_allowed());
    assert!(!get(&rbac, &user("system:serviceaccount:b:x", &[]), "a", "configmaps").is_allowed());
    // Cluster-wide there is no namespace to take.
    rbac.apply(RbacKind::ClusterRoleBinding, Change::Stored(&binding("", "c", ("ClusterRole", "reader"), subjects)));
    assert!(!get(&rbac, &user("system:serviceaccount:a:x", &[]), "b", "configmaps").is_allowed());
}

#[test]
fn changes_hold_at_once() {
    let rbac = Rbac::default();
    let alice = user("alice", &[]);
    let subjects = json!([{"kind": "User", "name": "alice"}]);
    rbac.apply(RbacKind::ClusterRoleBinding, Change::Stored(&binding("", "b", ("ClusterRole", "r"), subjects)));
    assert_eq!(
        get(&rbac, &alice, "", "configmaps"),
        Decision::NoOpinion(Reason::Static("RBAC: clusterrole.rbac.authorization.k8s.io \"r\" not found"))
    );
    rbac.apply(RbacKind::ClusterRole, Change::Stored(&role("", "r", "configmaps")));
    assert!(get(&rbac, &alice, "", "configmaps").is_allowed());
    rbac.apply(RbacKind::ClusterRole, Change::Stored(&role("", "r", "secrets")));
    assert!(!get(&rbac, &alice, "", "configmaps").is_allowed());
    assert!(get(&rbac, &alice, "", "secrets").is_allowed());
    let others = json!([{"kind": "User", "name": "bob"}]);
    rbac.apply(RbacKind::ClusterRoleBinding, Change::Stored(&binding("", "b", ("ClusterRole", "r"), others)));
    assert!(!get(&rbac, &alice, "", "secrets").is_allowed());
    assert!(get(&rbac, &user("bob", &[]), "", "secrets").is_allowed());
    rbac.apply(RbacKind::ClusterRoleBinding, Change::Deleted { namespace: "", name: "b" });
    assert!(!get(&rbac, &user("bob", &[]), "", "secrets").is_allowed());
    rbac.apply(RbacKind::ClusterRole, Change::Deleted { namespace: "", name: "r" });
    assert!(rbac.shared.index.load().is_empty(), "nothing is left behind");
}

#[test]
fn rules_are_listed_with_what_is_missing() {
    let rbac = Rbac::default();
    rbac.apply(RbacKind::Role, Change::Stored(&role("a", "r", "secrets")));
    let subjects = json!([{"kind": "User", "name": "alice"}]);
    rbac.apply(RbacKind::RoleBinding, Change::Stored(&binding("a", "b1", ("Role", "r"), subjects.clone())));
    rbac.apply(RbacKind::RoleBinding, Change::Stored(&binding("a", "b2", ("Role", "gone"), subjects)));
    let mut rules = Rules::default();
    rbac.rules_for(&user("alice", &[]), "a", &mut rules);
    assert_eq!(rules.rules.len(), 1);
    assert_eq!(rules.errors, ["role.rbac.authorization.k8s.io \"gone\" not found"]);
}

#[test]
fn a_subject_of_many_roles_is_answered_by_the_right_one() {
    let rbac = Rbac::default();
    let dev = json!([{"kind": "Group", "name": "dev"}]);
    for number in 0..100 {
        let name = format!("r{number}");
        rbac.apply(RbacKind::ClusterRole, Change::Stored(&role("", &name, &format!("things{number}"))));
        rbac.apply(
            RbacKind::ClusterRoleBinding,
            Change::Stored(&binding("", &name, ("ClusterRole", &name), dev.clone())),
        );
    }
    let dave = user("dave", &["dev"]);
    assert_eq!(
        get(&rbac, &dave, "a", "things42").reason(),
        "RBAC: allowed by ClusterRoleBinding \"r42\" of ClusterRole \"r42\" to Group \"dev\""
    );
    assert!(!get(&rbac, &dave, "a", "things100").is_allowed());
    // A change of one role, and of what is bound, holds at once.
    rbac.apply(RbacKind::ClusterRole, Change::Stored(&role("", "r42", "others")));
    assert!(!get(&rbac, &dave, "a", "things42").is_allowed());
    assert!(get(&rbac, &dave, "a", "others").is_allowed());
    rbac.apply(RbacKind::ClusterRoleBinding, Change::Deleted { namespace: "", name: "r42" });
    assert!(!get(&rbac, &dave, "a", "others").is_allowed());
    rbac.apply(RbacKind::ClusterRole, Change::Deleted { namespace: "", name: "r7" });
    assert_eq!(
        get(&rbac, &dave, "a", "nothing").reason(),
        "RBAC: clusterrole.rbac.authorization.k8s.io \"r7\" not found"
    );
    assert!(get(&rbac, &dave, "a", "things8").is_allowed());
}

#[test]
fn the_first_subject_that_applies_is_named() {
    let rbac = Rbac::default();
    rbac.apply(RbacKind::ClusterRole, Change::Stored(&role("", "r", "configmaps")));
    let subjects = json!([{"kind": "Group", "name": "dev"}, {"kind": "User", "name": "alice"}]);
    rbac.apply(RbacKind::ClusterRoleBinding, Change::Stored(&binding("", "b", ("ClusterRole", "r"), subjects)));
    let reason = |user: &UserInfo| get(&rbac, user, "", "configmaps").reason().to_owned();
    assert!(reason(&user("alice", &["dev"])).ends_with("to Group \"dev\""));
    assert!(reason(&user("alice", &[])).ends_with("to User \"alice\""));
    let mut rules = Rules::default();
    rbac.rules_for(&user("alice", &["dev"]), "", &mut rules);
    assert_eq!(rules.rules.len(), 1, "a binding counts once, however many of its subjects apply");
}

#[test]
fn near_misses_are_told() {
    let rbac = Rbac::default();
    rbac.apply(RbacKind::ClusterRole, Change::Stored(&role("", "reader", "configmaps")));
    rbac.apply(RbacKind::ClusterRole, Change::Stored(&role("", "other", "secrets")));
    let alice = json!([{"kind": "User", "name": "alice"}]);
    rbac.apply(RbacKind::RoleBinding, Change::Stored(&binding("a", "b", ("ClusterRole", "reader"), alice.clone())));
    rbac.apply(RbacKind::RoleBinding, Change::Stored(&binding("a", "gone", ("Role", "gone"), alice)));
    let caller = user("alice", &[]);
    let explain = |verb: &str, namespace: &str, resource: &str| {
        let target = Target::Resource(ResourceTarget { namespace, resource, ..ResourceTarget::default() });
        rbac.explain(&Attributes { user: &caller, verb, target })
    };
    let allowed = explain("get", "a", "configmaps");
    assert_eq!(allowed.verdict, Verdict::Allow);
    assert_eq!(allowed.grant.map(|grant| (grant.binding.name, grant.role.name)), Some(("b".into(), "reader".into())));
    let is = |misses: &[Miss], found: fn(&Miss) -> bool| misses.iter().any(found);
    let verb = explain("delete", "a", "configmaps");
    assert!(is(&verb.misses, |miss| matches!(miss, Miss::Verb { grant } if grant.binding.name == "b")));
    assert!(is(&verb.misses, |miss| matches!(miss, Miss::Role { role, .. } if role.name == "gone")));
    let elsewhere = explain("get", "b", "configmaps");
    assert!(is(&elsewhere.misses, |miss| matches!(miss, Miss::Namespace { grant } if grant.binding.namespace == "a")));
    assert!(is(&elsewhere.misses, |miss| matches!(miss, Miss::Binding { role } if role.name == "reader")));
    let unbound = explain("get", "a", "secrets");
    assert!(is(&unbound.misses, |miss| matches!(miss, Miss::Binding { role } if role.name == "other")));
}

fn words(of: &'static [&'static str]) -> impl Strategy<Value = Vec<String>> {
    proptest::collection::vec(proptest::sample::select(of).prop_map(str::to_owned), 1..3)
}

fn rule() -> impl Strategy<Value = PolicyRule> {
    let names = proptest::option::of(words(&["x", "y"]));
    (words(&["get", "list", "*"]), words(&["", "g", "*"]), words(&["a", "a/s", "*/s", "b", "*"]), names).prop_map(
        |(verbs, api_groups, resources, names)| PolicyRule {
            verbs,
            api_groups,
            resources,
            resource_names: names.unwrap_or_default(),
            non_resource_urls: Vec::new(),
        },
    )
}

proptest! {
    /// Two roles or ten: below and above the number that is asked one by one.
    #[test]
    fn prepared_rules_allow_what_the_rules_allow(
        roles in proptest::collection::vec(proptest::collection::vec(rule(), 0..3), 0..12),
        verb in proptest::sample::select(&["get", "list", "*"][..]),
        group in proptest::sample::select(&["", "g"][..]),
        resource in proptest::sample::select(&["a", "b", "*", "a/s"][..]),
        subresource in proptest::sample::select(&["", "s", "t"][..]),
        name in proptest::sample::select(&["", "x"][..]),
    ) {
        let rbac = Rbac::default();
        let subjects = json!([{"kind": "User", "name": "u"}]);
        for (number, rules) in roles.iter().enumerate() {
            let name = format!("r{number}");
            let stored = json!({"metadata": {"name": name}, "rules": rules});
            rbac.apply(RbacKind::ClusterRole, Change::Stored(&stored));
            let binding = binding("", &name, ("ClusterRole", &name), subjects.clone());
            rbac.apply(RbacKind::ClusterRoleBinding, Change::Stored(&binding));
        }
        let user = user("u", &[]);
        let target = ResourceTarget { group, resource, subresource, name, ..ResourceTarget::default() };
        let attributes = Attributes { user: &user, verb, target: Target::Resource(target) };
        let expected = roles.iter().flatten().any(|rule| rule.allows(&attributes));
        prop_assert_eq!(rbac.authorize(&attributes).is_allowed(), expected);
    }
}

/// One step of a random history: a binding of one of few names to some of few subjects, or its removal.
#[derive(Clone, Debug)]
struct Step {
    binding: u8,
    namespace: bool,
    subjects: Option<Vec<u8>>,
}

fn step() -> impl Strategy<Value = Step> {
    let subjects = proptest::option::of(proptest::collection::vec(0u8..4, 0..3));
    (0u8..3, any::<bool>(), subjects).prop_map(|(binding, namespace, subjects)| Step { binding, namespace, subjects })
}

proptest! {
    #[test]
    fn the_index_agrees_with_a_scan(steps in proptest::collection::vec(step(), 0..30)) {
        let rbac = Rbac::default();
        rbac.apply(RbacKind::ClusterRole, Change::Stored(&role("", "r", "configmaps")));
        let mut model: BTreeMap<(bool, u8), Vec<u8>> = BTreeMap::new();
        for Step { binding: number, namespace, subjects } in steps {
            let (scope, kind) =
                if namespace { ("ns", RbacKind::RoleBinding) } else { ("", RbacKind::ClusterRoleBinding) };
            let name = format!("b{number}");
            match subjects {
                Some(list) => {
                    let entry = |s: &u8| json!({"kind": if s.is_multiple_of(2) { "User" } else { "Group" }, "name": format!("s{s}")});
                    let subjects = list.iter().map(entry).collect::<Vec<_>>().into();
                    rbac.apply(kind, Change::Stored(&binding(scope, &name, ("ClusterRole", "r"), subjects)));
                    model.insert((namespace, number), list);
                }
                None => {
                    rbac.apply(kind, Change::Deleted { namespace: scope, name: &name });
                    model.remove(&(namespace, number));
                }
            }
        }
        for subject in 0..4u8 {
            let name = format!("s{subject}");
            let caller = if subject.is_multiple_of(2) { user(&name, &[]) } else { user("somebody", &[&name]) };
            let bound = |namespaced: bool| model.iter().any(|((n, _), list)| *n == namespaced && list.contains(&subject));
            prop_assert_eq!(get(&rbac, &caller, "", "configmaps").is_allowed(), bound(false));
            prop_assert_eq!(get(&rbac, &caller, "ns", "configmaps").is_allowed(), bound(false) || bound(true));
            prop_assert_eq!(get(&rbac, &caller, "other", "configmaps").is_allowed(), bound(false));
        }
    }
}
