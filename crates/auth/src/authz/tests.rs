//! Decisions, their order, and the words of refusals (those of kube-apiserver 1.36.4).

use super::*;

fn user(name: &str, groups: &[&str]) -> UserInfo {
    UserInfo { name: name.into(), groups: groups.iter().map(|g| (*g).to_owned()).collect(), ..UserInfo::default() }
}

fn resource<'a>(user: &'a UserInfo, verb: &'a str, target: ResourceTarget<'a>) -> Attributes<'a> {
    Attributes { user, verb, target: Target::Resource(target) }
}

fn path<'a>(user: &'a UserInfo, verb: &'a str, path: &'a str) -> Attributes<'a> {
    Attributes { user, verb, target: Target::Path(path) }
}

struct Says(Decision);

impl Authorizer for Says {
    fn authorize(&self, _: &Attributes<'_>) -> Decision {
        self.0.clone()
    }

    fn rules_for(&self, _: &UserInfo, _: &str, _: &mut Rules) {}

    fn explain(&self, attributes: &Attributes<'_>) -> Step {
        Step::of("says", &self.authorize(attributes))
    }
}

async fn union(decisions: Vec<Decision>) -> Decision {
    let chain = Authorizers::new(decisions.into_iter().map(|d| Box::new(Says(d)) as Box<dyn Authorizer>).collect());
    chain.authorize(&path(&UserInfo::default(), "get", "/")).await
}

#[tokio::test]
async fn the_first_opinion_decides() {
    let (allow, deny) = (Decision::Allow(Reason::Static("a")), Decision::Deny(Reason::Static("d")));
    let none = |text| Decision::NoOpinion(Reason::Static(text));
    assert_eq!(union(vec![none("x"), deny.clone(), allow.clone()]).await, deny);
    assert_eq!(union(vec![allow.clone(), deny]).await, allow);
    assert_eq!(union(vec![none("x"), none(""), none("y")]).await, none("x\ny"));
    assert_eq!(union(vec![]).await, none(""));
}

#[test]
fn refusals_say_who_what_and_where() {
    let alice = user("alice", &[]);
    let configmaps = ResourceTarget { resource: "configmaps", namespace: "default", ..ResourceTarget::default() };
    let said = |attributes: &Attributes<'_>| forbidden(attributes, "").message;
    assert_eq!(
        said(&resource(&alice, "list", configmaps)),
        "configmaps is forbidden: User \"alice\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"default\""
    );
    let status = ResourceTarget {
        group: "flowcontrol.apiserver.k8s.io",
        resource: "flowschemas",
        subresource: "status",
        name: "f",
        ..ResourceTarget::default()
    };
    assert_eq!(
        said(&resource(&alice, "update", status)),
        "flowschemas.flowcontrol.apiserver.k8s.io \"f\" is forbidden: User \"alice\" cannot update resource \"flowschemas/status\" in API group \"flowcontrol.apiserver.k8s.io\" at the cluster scope"
    );
    let refused = forbidden(&path(&UserInfo::anonymous(), "get", "/foo"), "because").to_status();
    assert_eq!(refused["message"], "forbidden: User \"system:anonymous\" cannot get path \"/foo\": because");
    assert_eq!(refused["details"], serde_json::json!({}));
    assert_eq!(refused["code"], 403);
    assert_eq!(
        said(&path(&alice, "get", "/<script>&")),
        "forbidden: User \"alice\" cannot get path \"/&lt;script&gt;&amp;\""
    );
}

#[test]
fn basic_access_is_what_the_default_roles_grant() {
    let alice = user("alice", &["system:authenticated"]);
    let nobody = UserInfo::anonymous();
    let allowed = |attributes: &Attributes<'_>| BasicAccess.authorize(attributes).is_allowed();
    for everybodys in ["/healthz", "/livez", "/readyz", "/version", "/version/"] {
        assert!(allowed(&path(&alice, "get", everybodys)), "{everybodys}");
        assert!(allowed(&path(&nobody, "get", everybodys)), "{everybodys}");
    }
    for discovery in ["/api", "/api/v1", "/apis", "/apis/apps/v1", "/openapi/v3"] {
        assert!(allowed(&path(&alice, "get", discovery)), "{discovery}");
        assert!(!allowed(&path(&nobody, "get", discovery)), "{discovery}");
    }
    for others in ["/metrics", "/healthz/etcd", "/", "/apisx"] {
        assert!(!allowed(&path(&alice, "get", others)), "{others}");
    }
    assert!(!allowed(&path(&alice, "post", "/version")));

    let review = |group, resource| ResourceTarget { group, resource, ..ResourceTarget::default() };
    let own = review("authorization.k8s.io", "selfsubjectaccessreviews");
    assert_eq!(
        BasicAccess.authorize(&resource(&alice, "create", own)).reason(),
        "RBAC: allowed by ClusterRoleBinding \"system:basic-user\" of ClusterRole \"system:basic-user\" to Group \"system:authenticated\""
    );
    assert!(allowed(&resource(&alice, "create", review("authentication.k8s.io", "selfsubjectreviews"))));
    assert!(!allowed(&resource(&nobody, "create", own)));
    assert!(!allowed(&resource(&alice, "create", review("authorization.k8s.io", "subjectaccessreviews"))));
}

#[test]
fn masters_may_do_everything_and_others_are_not_decided() {
    let (master, other) = (user("m", &["system:masters"]), user("o", &[]));
    let secrets = ResourceTarget { resource: "secrets", ..ResourceTarget::default() };
    assert_eq!(SystemMasters.authorize(&resource(&master, "delete", secrets)), Decision::Allow(Reason::None));
    assert_eq!(SystemMasters.authorize(&resource(&other, "get", secrets)), Decision::NoOpinion(Reason::None));
    assert!(AlwaysAllow.authorize(&resource(&other, "get", secrets)).is_allowed());
}

#[test]
fn rules_match_as_their_stars_say() {
    let rule = |verbs: &[&str], groups: &[&str], resources: &[&str], names: &[&str]| PolicyRule {
        resource_names: names.iter().map(|n| (*n).to_owned()).collect(),
        ..PolicyRule::on_resources(verbs, groups, resources)
    };
    let alice = user("alice", &[]);
    let at = |group, resource, subresource, name| ResourceTarget {
        group,
        resource,
        subresource,
        name,
        ..Default::default()
    };
    let cases = [
        (rule(&["get"], &[""], &["pods"], &[]), at("", "pods", "", "p"), true),
        (rule(&["get"], &[""], &["pods"], &[]), at("", "pods", "status", "p"), false),
        (rule(&["get"], &[""], &["pods/status"], &[]), at("", "pods", "status", "p"), true),
        (rule(&["get"], &[""], &["*/status"], &[]), at("", "pods", "status", "p"), true),
        (rule(&["get"], &[""], &["*/status"], &[]), at("", "pods", "", "p"), false),
        (rule(&["get"], &[""], &["pods/*"], &[]), at("", "pods", "status", "p"), false),
        (rule(&["get"], &[""], &["*"], &[]), at("", "pods", "status", "p"), true),
        (rule(&["get"], &["*"], &["pods"], &[]), at("apps", "pods", "", "p"), true),
        (rule(&["get"], &["apps"], &["pods"], &[]), at("", "pods", "", "p"), false),
        (rule(&["list"], &[""], &["pods"], &[]), at("", "pods", "", "p"), false),
        (rule(&["*"], &[""], &["pods"], &["p"]), at("", "pods", "", "p"), true),
        (rule(&["*"], &[""], &["pods"], &["p"]), at("", "pods", "", ""), false),
    ];
    for (rule, target, expected) in cases {
        assert_eq!(rule.allows(&resource(&alice, "get", target)), expected, "{rule:?} {target:?}");
    }
    let on_paths = |url| PolicyRule::on_paths(&["get"], &[url]).allows(&path(&alice, "get", "/a/b"));
    assert!(on_paths("*") && on_paths("/a/*") && on_paths("/a/b") && on_paths("/a*"));
    assert!(!on_paths("/a") && !on_paths("/b/*") && !on_paths("/a/b/*"));
}
