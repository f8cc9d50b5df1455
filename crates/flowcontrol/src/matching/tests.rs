use serde_json::{Value, json};

use super::*;

fn schema(rules: Value) -> FlowSchemaSpec {
    serde_json::from_value(json!({"priorityLevelConfiguration": {"name": "p"}, "rules": [rules]})).unwrap()
}

fn user(name: &str, groups: &[&str]) -> UserInfo {
    UserInfo { name: name.into(), groups: groups.iter().map(|g| (*g).into()).collect(), ..UserInfo::default() }
}

/// `verb group/resource[/subresource] namespace` or `verb /path`.
fn request<'a>(user: &'a UserInfo, text: &'a str) -> Request<'a> {
    let mut words = text.split(' ');
    let (verb, what) = (words.next().unwrap(), words.next().unwrap());
    let target = if what.starts_with('/') {
        Target::Path(what)
    } else {
        let mut parts = what.split('/');
        let (group, resource) = (parts.next().unwrap(), parts.next().unwrap());
        let subresource = parts.next().unwrap_or_default();
        Target::Resource { group, resource, subresource, namespace: words.next().unwrap_or_default() }
    };
    Request { user, project: "", verb, target }
}

#[test]
fn subjects_are_users_groups_and_service_accounts() {
    let everything = json!([{"verbs": ["*"], "nonResourceURLs": ["*"]}]);
    let case = |subject: Value, user: &UserInfo| {
        let schema = schema(json!({"subjects": [subject], "nonResourceRules": everything}));
        matches(&schema, &request(user, "get /x"))
    };
    let alice = user("alice", &["dev"]);
    assert!(case(json!({"kind": "User", "user": {"name": "alice"}}), &alice));
    assert!(case(json!({"kind": "User", "user": {"name": "*"}}), &alice));
    assert!(!case(json!({"kind": "User", "user": {"name": "ali"}}), &alice));
    assert!(case(json!({"kind": "Group", "group": {"name": "dev"}}), &alice));
    assert!(case(json!({"kind": "Group", "group": {"name": "*"}}), &alice));
    assert!(!case(json!({"kind": "Group", "group": {"name": "alice"}}), &alice));

    let account =
        |ns: &str, name: &str| json!({"kind": "ServiceAccount", "serviceAccount": {"namespace": ns, "name": name}});
    let robot = user("system:serviceaccount:ns:robot", &[]);
    assert!(case(account("ns", "robot"), &robot));
    assert!(case(account("ns", "*"), &robot));
    assert!(!case(account("n", "*"), &robot));
    assert!(!case(account("ns", "rob"), &robot));
    assert!(!case(account("ns", "*"), &alice));
}

#[test]
fn resource_rules_name_verb_group_resource_and_namespace() {
    let alice = user("alice", &[]);
    let rule = json!({"verbs": ["get", "list"], "apiGroups": ["", "g.io"], "resources": ["things", "things/status"], "namespaces": ["a"]});
    let schema = schema(json!({"subjects": [{"kind": "User", "user": {"name": "*"}}], "resourceRules": [rule]}));
    let case = |text: &str| matches(&schema, &request(&alice, text));
    assert!(case("get /things a") == matches(&schema, &request(&alice, "get /things a")));
    assert!(case("get g.io/things a"));
    assert!(case("list g.io/things/status a"));
    assert!(!case("list g.io/things/scale a"));
    assert!(!case("update g.io/things a"));
    assert!(!case("get other.io/things a"));
    assert!(!case("get g.io/thing a"));
    assert!(!case("get g.io/things b"));
    assert!(!case("list g.io/things"), "cluster scope was not granted");
}

#[test]
fn cluster_scope_and_every_namespace_are_told_apart() {
    let alice = user("alice", &[]);
    let rule = |more: Value| {
        let mut rule = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
        rule.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        schema(json!({"subjects": [{"kind": "User", "user": {"name": "*"}}], "resourceRules": [rule]}))
    };
    let (cluster, every) = (rule(json!({"clusterScope": true})), rule(json!({"namespaces": ["*"]})));
    assert!(matches(&cluster, &request(&alice, "list g/things/status")));
    assert!(!matches(&cluster, &request(&alice, "list g/things a")));
    assert!(matches(&every, &request(&alice, "list g/things a")));
    assert!(!matches(&every, &request(&alice, "list g/things")));
}

#[test]
fn paths_cover_what_is_below_them() {
    let alice = user("alice", &[]);
    let case = |url: &str, path: &str| {
        let rules = json!([{"verbs": ["get"], "nonResourceURLs": [url]}]);
        let schema = schema(json!({"subjects": [{"kind": "User", "user": {"name": "*"}}], "nonResourceRules": rules}));
        matches(&schema, &request(&alice, &format!("get {path}")))
    };
    assert!(case("*", "/any"));
    assert!(case("/healthz", "/healthz"));
    assert!(case("/healthz", "/healthz/ping"));
    assert!(!case("/healthz", "/healthzz"));
    assert!(case("/apis/*", "/apis/g"));
    assert!(case("/apis/", "/apis/g"));
    assert!(!case("/apis/*", "/apis"));
}

#[test]
fn flows_are_told_apart_by_user_or_namespace() {
    let alice = user("alice", &[]);
    let rq = request(&alice, "get g/things ns");
    assert_eq!(rq.distinguisher(Some(Distinguisher::ByUser)), ("", "alice"));
    assert_eq!(rq.distinguisher(Some(Distinguisher::ByNamespace)), ("", "ns"));
    assert_eq!(rq.distinguisher(None), ("", ""));
    assert_eq!(request(&alice, "get /x").distinguisher(Some(Distinguisher::ByNamespace)), ("", ""));
}

#[test]
fn namespaces_of_the_same_name_in_two_projects_are_two_flows_and_a_user_of_both_is_one() {
    let alice = user("alice", &[]);
    let rq = |project| Request { project, ..request(&alice, "get g/things ns") };
    let by = |project, by| rq(project).distinguisher(Some(by));
    assert_ne!(by("p1", Distinguisher::ByNamespace), by("p2", Distinguisher::ByNamespace));
    assert_ne!(by("p1", Distinguisher::ByNamespace), by("", Distinguisher::ByNamespace));
    assert_eq!(by("p1", Distinguisher::ByUser), by("p2", Distinguisher::ByUser));
}
