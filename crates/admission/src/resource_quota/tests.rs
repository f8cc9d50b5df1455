//! Texts are those kube-apiserver 1.36.4 answered.

use bailiwick_machinery::{ApiError, UserInfo};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::testing::{World, request, resource};
use crate::{Chain, DryRun, Effects, Operation};

fn quota(hard: Value, used: Value) -> Value {
    json!({
        "metadata": {"name": "q", "namespace": "ns", "resourceVersion": "7"},
        "status": {"hard": hard, "used": used},
    })
}

async fn create(
    kind: (&str, &str, &str),
    object: Value,
    quotas: Vec<Value>,
    dry_run: DryRun,
) -> Result<Effects, ApiError> {
    let (resource, user) = (resource(kind.0, kind.1, kind.2), UserInfo::default());
    let mut object = object;
    let mut attributes = request(Operation::Create, &resource, &user, "", Some(&mut object));
    attributes.dry_run = dry_run;
    Chain::default().validate(&attributes, &World { quotas, ..World::default() }).await
}

const CONFIG_MAP: (&str, &str, &str) = ("", "ConfigMap", "configmaps");
const LEASE: (&str, &str, &str) = ("coordination.k8s.io", "Lease", "leases");

fn named(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

#[tokio::test]
async fn a_full_quota_refuses_with_all_that_is_exceeded() {
    let full = quota(
        json!({"configmaps": "1", "count/configmaps": "1k", "secrets": "0"}),
        json!({"configmaps": "1", "count/configmaps": "1000", "secrets": "0"}),
    );
    let error = create(CONFIG_MAP, named("a"), vec![full], DryRun::No).await.expect_err("refused");
    assert_eq!(
        error.message,
        "configmaps \"a\" is forbidden: exceeded quota: q, requested: configmaps=1,count/configmaps=1, used: configmaps=1,count/configmaps=1k, limited: configmaps=1,count/configmaps=1k"
    );
    assert_eq!((error.code, error.reason), (403, "Forbidden"));
}

#[tokio::test]
async fn resources_of_groups_are_counted_by_their_full_name() {
    let none =
        quota(json!({"count/leases.coordination.k8s.io": "0"}), json!({"count/leases.coordination.k8s.io": "0"}));
    let error =
        create(LEASE, json!({"metadata": {"generateName": "l-"}}), vec![none], DryRun::No).await.expect_err("full");
    assert!(error.message.starts_with("leases.coordination.k8s.io \"l-\" is forbidden: exceeded quota"), "{error}");
    let unrelated = quota(json!({"count/leases": "0", "leases": "0"}), json!({"count/leases": "0", "leases": "0"}));
    let effects = create(LEASE, named("l"), vec![unrelated], DryRun::No).await.expect("admitted");
    assert_eq!(effects, Effects::default());
}

#[tokio::test]
async fn usage_is_raised_in_the_same_transaction() {
    let some = quota(json!({"configmaps": "2", "pods": "1"}), json!({"configmaps": "1", "pods": "0"}));
    let effects = create(CONFIG_MAP, named("a"), vec![some.clone()], DryRun::No).await.expect("admitted");
    let [write] = effects.writes.as_slice() else { panic!("one write, not {effects:?}") };
    assert_eq!((write.name.as_str(), write.namespace.as_str(), write.resource_version.as_str()), ("q", "ns", "7"));
    assert_eq!(write.object["status"]["used"], json!({"configmaps": "2", "pods": "0"}));

    let effects = create(CONFIG_MAP, named("a"), vec![some], DryRun::Yes).await.expect("admitted");
    assert_eq!(effects, Effects::default(), "a dry run counts nothing");
}

#[tokio::test]
async fn one_full_quota_among_several_charges_none() {
    let (free, full) = (json!({"configmaps": "9"}), json!({"configmaps": "0"}));
    let quotas = vec![quota(free, json!({"configmaps": "0"})), quota(full, json!({"configmaps": "0"}))];
    create(CONFIG_MAP, named("a"), quotas, DryRun::No).await.expect_err("refused");
}

#[tokio::test]
async fn unknown_usage_refuses() {
    let fresh = quota(json!({"configmaps": "1", "count/configmaps": "5"}), json!({"configmaps": "0"}));
    let error = create(CONFIG_MAP, named("a"), vec![fresh], DryRun::No).await.expect_err("refused");
    assert_eq!(
        error.message,
        "configmaps \"a\" is forbidden: status unknown for quota: q, resources: configmaps,count/configmaps"
    );
}

#[tokio::test]
async fn a_quota_nobody_has_seen_yet_and_scoped_quotas_count_no_objects() {
    let mut unseen = quota(json!({}), json!({}));
    unseen["status"] = json!({});
    let mut scoped = quota(json!({"configmaps": "0"}), json!({"configmaps": "0"}));
    scoped["spec"] = json!({"scopes": ["Terminating"]});
    let effects = create(CONFIG_MAP, named("a"), vec![unseen, scoped], DryRun::No).await.expect("admitted");
    assert_eq!(effects, Effects::default());
}

#[tokio::test]
async fn events_are_not_counted() {
    let none = quota(json!({"count/events": "0"}), json!({"count/events": "0"}));
    create(("", "Event", "events"), named("e"), vec![none], DryRun::No).await.expect("admitted");
}

proptest! {
    /// Creating until refused makes exactly as many as the limit allows.
    #[test]
    fn usage_never_passes_the_limit(limit in 0i64..40, start in 0i64..40) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let mut current = quota(json!({"configmaps": limit.to_string()}), json!({"configmaps": start.to_string()}));
        let mut made = 0;
        while let Ok(mut effects) = runtime.block_on(create(CONFIG_MAP, named("a"), vec![current.clone()], DryRun::No)) {
            current = effects.writes.pop().expect("a write").object;
            made += 1;
        }
        prop_assert_eq!(made, (limit - start).max(0));
    }
}
