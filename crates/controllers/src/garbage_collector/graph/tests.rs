use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::*;
use crate::discovery::Scope;

fn maps() -> Arc<ResourceType> {
    ResourceType::for_tests("", "ConfigMap", "configmaps", Scope::Namespaced)
}

/// A ConfigMap in namespace `n` whose uid is its name; owners starting with `!` block.
fn map(name: &str, owners: &[&str]) -> ObjectMeta {
    let reference = |owner: &&str| OwnerReference {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        name: owner.trim_start_matches('!').to_owned(),
        uid: owner.trim_start_matches('!').to_owned(),
        block_owner_deletion: Some(owner.starts_with('!')),
        controller: None,
    };
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some("n".to_owned()),
        uid: Some(name.to_owned()),
        resource_version: Some("1".to_owned()),
        owner_references: Some(owners.iter().map(reference).collect()),
        ..ObjectMeta::default()
    }
}

fn deleting(meta: ObjectMeta, finalizer: &str) -> ObjectMeta {
    ObjectMeta {
        deletion_timestamp: Some(Time(jiff::Timestamp::UNIX_EPOCH)),
        finalizers: Some(vec![finalizer.to_owned()]),
        ..meta
    }
}

fn present(graph: &mut Graph, meta: &ObjectMeta) -> Vec<String> {
    tasks(|tasks| graph.present(&maps(), meta, tasks))
}

fn gone(graph: &mut Graph, uid: &str) -> Vec<String> {
    tasks(|tasks| graph.gone(uid, tasks))
}

/// The tasks an action brings up, sorted: `delete:uid`, `orphan:uid` and `misplaced:uid:owner`.
fn tasks(act: impl FnOnce(&mut Vec<Task>)) -> Vec<String> {
    let mut tasks = Vec::new();
    act(&mut tasks);
    let show = |task| match task {
        Task::Delete(uid) => format!("delete:{uid}"),
        Task::Orphan(uid) => format!("orphan:{uid}"),
        Task::Misplaced(found) => format!("misplaced:{}:{}", found.dependent.uid, found.owner.uid),
    };
    let mut shown: Vec<String> = tasks.into_iter().map(show).collect();
    shown.sort();
    shown
}

#[test]
fn objects_without_relations_are_not_held() {
    let mut graph = Graph::default();
    assert!(present(&mut graph, &map("a", &[])).is_empty());
    assert!(graph.nodes.is_empty());
}

#[test]
fn an_owner_that_was_only_named_is_looked_for() {
    let mut graph = Graph::default();
    assert_eq!(present(&mut graph, &map("child", &["owner"])), ["delete:owner"]);
    assert!(graph.node("owner").unwrap().is_virtual());
    assert!(present(&mut graph, &map("owner", &[])).is_empty());
    assert!(!graph.node("owner").unwrap().is_virtual());
}

#[test]
fn dependents_are_looked_at_when_their_owner_is_gone() {
    let mut graph = Graph::default();
    present(&mut graph, &map("a", &["owner"]));
    present(&mut graph, &map("b", &["owner"]));
    assert_eq!(gone(&mut graph, "owner"), ["delete:a", "delete:b"]);
    gone(&mut graph, "a");
    gone(&mut graph, "b");
    assert!(graph.nodes.is_empty(), "nothing is kept of what is gone");
}

#[test]
fn an_owner_is_forgotten_with_its_last_dependent() {
    let mut graph = Graph::default();
    present(&mut graph, &map("child", &["owner"]));
    present(&mut graph, &map("owner", &[]));
    present(&mut graph, &map("child", &[]));
    assert!(graph.nodes.is_empty());
}

#[test]
fn what_many_dependents_took_is_given_back_when_they_are_gone() {
    let mut graph = Graph::default();
    let names: Vec<String> = (0..20_000).map(|number| format!("d{number}")).collect();
    for name in &names {
        present(&mut graph, &map(name, &["owner"]));
    }
    let owner = graph.node("owner").expect("named by all");
    assert!(graph.dependents("owner").all(|node| Arc::ptr_eq(&node.owners[0].name, &owner.identity.name)));
    for name in &names {
        gone(&mut graph, name);
    }
    assert!(graph.is_empty());
    assert!(graph.nodes.capacity() <= 2 * PLACES_MIN, "{}", graph.nodes.capacity());
}

#[test]
fn foreground_deletion_looks_at_dependents_and_again_at_the_owner_when_one_is_gone() {
    let mut graph = Graph::default();
    present(&mut graph, &map("blocking", &["!owner"]));
    present(&mut graph, &map("free", &["owner"]));
    let found = present(&mut graph, &deleting(map("owner", &[]), FOREGROUND_FINALIZER));
    assert_eq!(found, ["delete:blocking", "delete:free", "delete:owner"]);
    let blocking: Vec<&str> = graph.blocking_dependents("owner").map(|node| &*node.identity.name).collect();
    assert_eq!(blocking, ["blocking"]);
    assert_eq!(gone(&mut graph, "blocking"), ["delete:owner"]);
    assert_eq!(graph.blocking_dependents("owner").count(), 0);
}

#[test]
fn a_reference_that_stops_blocking_lets_the_owner_be_looked_at() {
    let mut graph = Graph::default();
    present(&mut graph, &map("child", &["!owner"]));
    assert_eq!(present(&mut graph, &map("child", &["owner"])), ["delete:owner"]);
}

#[test]
fn orphaning_is_asked_for_once() {
    let mut graph = Graph::default();
    let owner = deleting(map("owner", &[]), ORPHAN_FINALIZER);
    assert_eq!(present(&mut graph, &owner), ["orphan:owner"]);
    assert!(present(&mut graph, &owner).is_empty());
}

#[test]
fn what_a_list_does_not_show_is_looked_for() {
    let mut graph = Graph::default();
    present(&mut graph, &map("a", &["owner"]));
    present(&mut graph, &map("b", &["owner"]));
    present(&mut graph, &map("owner", &[]));
    graph.list_started(&maps());
    present(&mut graph, &map("a", &["owner"]));
    assert_eq!(tasks(|tasks| graph.listed(&maps(), tasks)), ["delete:b", "delete:owner"]);
}

#[test]
fn an_absent_owner_takes_only_those_with_it_that_describe_it_so() {
    let mut graph = Graph::default();
    present(&mut graph, &map("right", &["owner"]));
    let mut other = map("other", &["owner"]);
    other.owner_references.as_mut().unwrap()[0].name = "another-name".to_owned();
    present(&mut graph, &other);
    let claimed = graph.node("owner").unwrap().identity.clone();
    assert_eq!(tasks(|tasks| graph.not_found(&claimed, tasks)), ["delete:owner", "delete:right"]);
    assert_eq!(&*graph.node("owner").unwrap().identity.name, "another-name", "the other claim is tried next");
}

#[test]
fn objects_of_a_type_that_is_not_served_become_virtual_and_keep_their_relations() {
    let mut graph = Graph::default();
    present(&mut graph, &map("child", &["!owner"]));
    present(&mut graph, &deleting(map("owner", &[]), FOREGROUND_FINALIZER));
    assert_eq!(tasks(|tasks| graph.type_removed(&maps(), tasks)), ["delete:child", "delete:owner"]);
    assert!(graph.node("child").unwrap().is_virtual() && graph.node("owner").unwrap().is_virtual());
    assert_eq!(graph.blocking_dependents("owner").count(), 1);
}

#[test]
fn a_dependent_in_another_namespace_is_reported_and_looked_at() {
    let elsewhere = |meta: ObjectMeta| ObjectMeta { namespace: Some("other".to_owned()), ..meta };
    // The owner is known first: it owns something already.
    let mut graph = Graph::default();
    present(&mut graph, &map("owner", &[]));
    present(&mut graph, &map("near", &["owner"]));
    present(&mut graph, &map("owner", &[]));
    assert_eq!(present(&mut graph, &elsewhere(map("far", &["owner"]))), ["delete:far", "misplaced:far:owner"]);
    // The dependent is known first.
    let mut graph = Graph::default();
    assert_eq!(present(&mut graph, &elsewhere(map("far", &["owner"]))), ["delete:owner"]);
    assert_eq!(present(&mut graph, &map("owner", &[])), ["delete:far", "misplaced:far:owner"]);
}
