use serde_json::json;

use super::Lease;
use crate::testing::{check_create, create, now, resource};
use bailiwick_machinery::Strategy;

#[test]
fn durations_are_positive_and_transitions_count_up() {
    let lease = |spec| json!({"metadata": {"name": "a"}, "spec": spec});
    check_create(
        "coordination.k8s.io",
        "leases",
        lease(json!({"leaseDurationSeconds": 1, "leaseTransitions": 0})),
        &[],
    );
    check_create(
        "coordination.k8s.io",
        "leases",
        lease(json!({"leaseDurationSeconds": 0, "leaseTransitions": -1})),
        &[
            "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
            "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
        ],
    );
}

#[test]
fn fields_of_coordinated_election_are_dropped() {
    let created = create(&Lease, json!({"spec": {"holderIdentity": "me", "strategy": "x", "preferredHolder": "y"}}));
    assert_eq!(created, Ok(json!({"spec": {"holderIdentity": "me"}})));
    assert_eq!(create(&Lease, json!({})), Ok(json!({"spec": {}})));
}

#[test]
fn put_creates_but_never_overwrites_blindly() {
    assert!(Lease.allow_create_on_update());
    assert!(!Lease.allow_unconditional_update());
}

#[test]
fn the_table_shows_the_holder() {
    let object = json!({"metadata": {"name": "a"}, "spec": {"holderIdentity": "me"}});
    let cells = resource("coordination.k8s.io", "leases").table.cells(&object, now());
    assert_eq!(cells, [json!("a"), json!("me"), json!("<unknown>")]);
}
