//! The generic controllers, seen from outside: a control plane in this process, changed and watched through its API.
//!
//! Every wait is for a state that the API shows, bounded by one deadline.

use std::collections::BTreeMap;
use std::time::Duration;

use bailiwick::{ControlPlane, Running};
use bailiwick_machinery::user::UserInfo;
use futures::StreamExt;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace, ResourceQuota, Secret, ServiceAccount};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, PropagationPolicy};
use kube::runtime::WatchStreamExt;
use kube::runtime::wait::{Condition, await_condition, conditions};
use kube::{Api, Client, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;

/// Far more than anything here takes; only a bug runs into it.
const DEADLINE: Duration = Duration::from_secs(60);

struct Plane {
    client: Client,
    running: Running,
    _dir: tempfile::TempDir,
}

impl Plane {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let running = ControlPlane::builder(dir.path()).start().await.unwrap();
        let user = UserInfo {
            name: "tester".to_owned(),
            groups: vec![UserInfo::MASTERS.to_owned(), UserInfo::AUTHENTICATED.to_owned()],
            ..UserInfo::default()
        };
        let client = Client::new(running.local_service(user), "default");
        Plane { client, running, _dir: dir }
    }

    async fn namespace(&self, name: &str) -> Namespace {
        let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        Api::all(self.client.clone()).create(&PostParams::default(), &namespace).await.unwrap()
    }

    fn maps(&self, namespace: &str) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Makes a ConfigMap owned by `owners`, each with whether it blocks its owner's deletion.
    async fn map(&self, name: &str, owners: &[(&ConfigMap, bool)]) -> ConfigMap {
        let references: Vec<OwnerReference> = owners
            .iter()
            .map(|(owner, blocks)| OwnerReference {
                api_version: "v1".to_owned(),
                kind: "ConfigMap".to_owned(),
                name: owner.name_any(),
                uid: owner.uid().unwrap(),
                block_owner_deletion: Some(*blocks),
                controller: None,
            })
            .collect();
        let map = json!({"metadata": {"name": name, "ownerReferences": references}});
        self.maps("default").create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap()
    }

    async fn stop(self) {
        within(self.running.stop()).await;
    }
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.expect("the deadline passed")
}

/// Waits until the object is as `condition` wants it, and returns it.
async fn until<K>(api: &Api<K>, name: &str, condition: impl Condition<K>) -> Option<K>
where
    K: kube::Resource + Clone + std::fmt::Debug + Send + DeserializeOwned + 'static,
{
    within(await_condition(api.clone(), name, condition)).await.unwrap()
}

async fn until_gone(api: &Api<ConfigMap>, map: &ConfigMap) {
    until(api, &map.name_any(), conditions::is_deleted(&map.uid().unwrap())).await;
}

async fn hold<K>(api: &Api<K>, name: &str, finalizers: &[&str])
where
    K: kube::Resource + Clone + std::fmt::Debug + DeserializeOwned,
{
    let patch = Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
    api.patch(name, &PatchParams::default(), &patch).await.unwrap();
}

fn delete(policy: PropagationPolicy) -> DeleteParams {
    DeleteParams { propagation_policy: Some(policy), ..DeleteParams::default() }
}

fn owners(map: &ConfigMap) -> Vec<&str> {
    map.owner_references().iter().map(|owner| owner.name.as_str()).collect()
}

#[tokio::test]
async fn a_namespace_goes_away_with_everything_in_it() {
    let plane = Plane::start().await;
    let namespace = plane.namespace("full").await;
    for number in 0..20 {
        let map = serde_json::from_value(json!({"metadata": {"name": format!("map-{number}")}})).unwrap();
        plane.maps("full").create(&PostParams::default(), &map).await.unwrap();
    }
    let secrets: Api<Secret> = Api::namespaced(plane.client.clone(), "full");
    let secret = serde_json::from_value(json!({"metadata": {"name": "secret"}, "stringData": {"a": "b"}})).unwrap();
    secrets.create(&PostParams::default(), &secret).await.unwrap();

    let namespaces: Api<Namespace> = Api::all(plane.client.clone());
    namespaces.delete("full", &DeleteParams::default()).await.unwrap();
    until(&namespaces, "full", conditions::is_deleted(&namespace.uid().unwrap())).await;

    assert!(plane.maps("full").list(&Default::default()).await.unwrap().items.is_empty());
    assert!(secrets.list(&Default::default()).await.unwrap().items.is_empty());
    plane.stop().await;
}

#[tokio::test]
async fn a_finalizer_holds_a_namespace_and_its_conditions_say_so() {
    let plane = Plane::start().await;
    let namespace = plane.namespace("held").await;
    let map = serde_json::from_value(json!({"metadata": {"name": "a", "finalizers": ["example.com/hold"]}})).unwrap();
    plane.maps("held").create(&PostParams::default(), &map).await.unwrap();

    let namespaces: Api<Namespace> = Api::all(plane.client.clone());
    namespaces.delete("held", &DeleteParams::default()).await.unwrap();
    let waits = |namespace: Option<&Namespace>| {
        let status = namespace.and_then(|namespace| namespace.status.as_ref());
        status.and_then(|status| status.conditions.as_ref()).is_some_and(|conditions| conditions.len() == 5)
    };
    let held = until(&namespaces, "held", waits).await.unwrap();
    let status = held.status.unwrap();
    assert_eq!(status.phase.as_deref(), Some("Terminating"));
    let conditions: BTreeMap<String, (String, String)> = status
        .conditions
        .unwrap()
        .into_iter()
        .map(|condition| (condition.type_, (condition.status, condition.message.unwrap_or_default())))
        .collect();
    let condition = |kind: &str| (conditions[kind].0.as_str(), conditions[kind].1.as_str());
    assert_eq!(
        condition("NamespaceContentRemaining"),
        ("True", "Some resources are remaining: configmaps. has 1 resource instances")
    );
    assert_eq!(
        condition("NamespaceFinalizersRemaining"),
        ("True", "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances")
    );
    for fine in [
        "NamespaceDeletionDiscoveryFailure",
        "NamespaceDeletionGroupVersionParsingFailure",
        "NamespaceDeletionContentFailure",
    ] {
        assert_eq!(condition(fine).0, "False", "{fine}");
    }

    hold(&plane.maps("held"), "a", &[]).await;
    until(&namespaces, "held", conditions::is_deleted(&namespace.uid().unwrap())).await;
    plane.stop().await;
}

#[tokio::test]
async fn dependents_follow_their_last_owner_in_the_background() {
    let plane = Plane::start().await;
    let (one, two) = (plane.map("one", &[]).await, plane.map("two", &[]).await);
    let only = plane.map("only", &[(&one, false)]).await;
    let grandchild = plane.map("grandchild", &[(&only, false)]).await;
    plane.map("shared", &[(&one, false), (&two, false)]).await;
    let maps = plane.maps("default");

    maps.delete("one", &delete(PropagationPolicy::Background)).await.unwrap();
    until_gone(&maps, &only).await;
    until_gone(&maps, &grandchild).await;
    let freed = |map: Option<&ConfigMap>| map.is_some_and(|map| owners(map) == ["two"]);
    until(&maps, "shared", freed).await;
    plane.stop().await;
}

#[tokio::test]
async fn an_owner_that_never_existed_does_not_keep_its_dependents() {
    let plane = Plane::start().await;
    let real = plane.map("real", &[]).await;
    let mut impostor = real.clone();
    impostor.metadata.uid = Some("00000000-0000-0000-0000-000000000000".to_owned());
    let misled = plane.map("misled", &[(&impostor, false)]).await;
    let maps = plane.maps("default");
    until_gone(&maps, &misled).await;
    assert!(maps.get_opt("real").await.unwrap().is_some(), "a name alone is not an identity");
    plane.stop().await;
}

#[tokio::test]
async fn in_the_foreground_blocking_dependents_go_first() {
    let plane = Plane::start().await;
    let owner = plane.map("owner", &[]).await;
    let blocking = plane.map("blocking", &[(&owner, true)]).await;
    let free = plane.map("free", &[(&owner, false)]).await;
    let maps = plane.maps("default");
    hold(&maps, "blocking", &["example.com/hold"]).await;
    hold(&maps, "free", &["example.com/hold"]).await;

    maps.delete("owner", &delete(PropagationPolicy::Foreground)).await.unwrap();
    let deleting = |map: Option<&ConfigMap>| map.is_some_and(|map| map.metadata.deletion_timestamp.is_some());
    until(&maps, "blocking", deleting).await;
    until(&maps, "free", deleting).await;
    let waiting = maps.get("owner").await.unwrap();
    assert_eq!(waiting.finalizers(), ["foregroundDeletion"], "it waits for what blocks it");

    hold(&maps, "blocking", &[]).await;
    until_gone(&maps, &blocking).await;
    until_gone(&maps, &owner).await;
    assert!(maps.get_opt("free").await.unwrap().is_some(), "what does not block is not waited for");
    hold(&maps, "free", &[]).await;
    until_gone(&maps, &free).await;
    plane.stop().await;
}

#[tokio::test]
async fn orphans_stay_without_their_owner() {
    let plane = Plane::start().await;
    let owner = plane.map("owner", &[]).await;
    plane.map("orphan", &[(&owner, true)]).await;
    let maps = plane.maps("default");
    maps.delete("owner", &delete(PropagationPolicy::Orphan)).await.unwrap();
    until_gone(&maps, &owner).await;
    let orphan = maps.get("orphan").await.unwrap();
    assert!(owners(&orphan).is_empty());
    assert!(orphan.metadata.deletion_timestamp.is_none());
    plane.stop().await;
}

#[tokio::test]
async fn every_namespace_has_a_service_account_and_the_ca_bundle() {
    let plane = Plane::start().await;
    plane.namespace("fresh").await;
    let accounts: Api<ServiceAccount> = Api::namespaced(plane.client.clone(), "fresh");
    let exists = |account: Option<&ServiceAccount>| account.is_some();
    let first = until(&accounts, "default", exists).await.unwrap();
    accounts.delete("default", &DeleteParams::default()).await.unwrap();
    let renewed = |account: Option<&ServiceAccount>| account.is_some_and(|account| account.uid() != first.uid());
    until(&accounts, "default", renewed).await;

    let maps = plane.maps("fresh");
    let published = |map: Option<&ConfigMap>| {
        let bundle = map.and_then(|map| map.data.as_ref()).and_then(|data| data.get("ca.crt"));
        bundle.is_some_and(|bundle| bundle.starts_with("-----BEGIN CERTIFICATE-----"))
    };
    until(&maps, "kube-root-ca.crt", published).await;
    let spoilt = Patch::Merge(json!({"data": {"ca.crt": "spoilt"}}));
    maps.patch("kube-root-ca.crt", &PatchParams::default(), &spoilt).await.unwrap();
    until(&maps, "kube-root-ca.crt", published).await;
    plane.stop().await;
}

#[tokio::test]
async fn quotas_count_what_is_there_and_what_is_deleted() {
    let plane = Plane::start().await;
    plane.namespace("limited").await;
    let secrets: Api<Secret> = Api::namespaced(plane.client.clone(), "limited");
    let secret = |name: &str| serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    secrets.create(&PostParams::default(), &secret("before")).await.unwrap();
    let quotas: Api<ResourceQuota> = Api::namespaced(plane.client.clone(), "limited");
    let hard = json!({"secrets": "2", "count/leases.coordination.k8s.io": "1", "services": "3"});
    let quota = serde_json::from_value(json!({"metadata": {"name": "q"}, "spec": {"hard": hard}})).unwrap();
    quotas.create(&PostParams::default(), &quota).await.unwrap();

    let used = |expected: &'static str| {
        move |quota: Option<&ResourceQuota>| {
            let used = quota.and_then(|quota| quota.status.as_ref()).and_then(|status| status.used.as_ref());
            used.and_then(|used| used.get("secrets")).is_some_and(|amount| amount.0 == expected)
        }
    };
    let counted = until(&quotas, "q", used("1")).await.unwrap().status.unwrap();
    let amounts = |amounts: Option<BTreeMap<String, _>>| serde_json::to_value(amounts).unwrap();
    assert_eq!(amounts(counted.hard), hard);
    assert_eq!(
        amounts(counted.used),
        json!({"secrets": "1", "count/leases.coordination.k8s.io": "0", "services": "0"})
    );

    secrets.create(&PostParams::default(), &secret("second")).await.unwrap();
    secrets.create(&PostParams::default(), &secret("third")).await.expect_err("the quota is used up");
    secrets.delete("before", &DeleteParams::default()).await.unwrap();
    secrets.delete("second", &DeleteParams::default()).await.unwrap();
    until(&quotas, "q", used("0")).await;
    secrets.create(&PostParams::default(), &secret("third")).await.unwrap();
    plane.stop().await;
}

#[tokio::test]
async fn an_owner_in_another_namespace_is_none_and_an_event_says_so() {
    let plane = Plane::start().await;
    plane.namespace("far").await;
    let owner = plane.map("owner", &[]).await;
    let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid()});
    let child = json!({"metadata": {"name": "child", "ownerReferences": [reference]}});
    let child = serde_json::from_value(child).unwrap();
    let child = plane.maps("far").create(&PostParams::default(), &child).await.unwrap();
    until_gone(&plane.maps("far"), &child).await;
    let events: Api<Event> = Api::namespaced(plane.client.clone(), "far");
    let recorded = within(async {
        let mut seen = Box::pin(kube::runtime::watcher(events, Default::default()).applied_objects());
        loop {
            let event = seen.next().await.unwrap().unwrap();
            if event.reason.as_deref() == Some("OwnerRefInvalidNamespace") {
                return event;
            }
        }
    })
    .await;
    let uid = owner.uid().unwrap();
    assert_eq!(
        recorded.message.as_deref(),
        Some(&*format!(
            "ownerRef [v1/ConfigMap, namespace: far, name: owner, uid: {uid}] does not exist in namespace \"far\""
        ))
    );
    assert_eq!(recorded.involved_object.name.as_deref(), Some("child"));
    assert!(plane.maps("default").get_opt("owner").await.unwrap().is_some());
    plane.stop().await;
}

#[tokio::test]
async fn a_definition_without_a_served_version_takes_its_objects_along() {
    let plane = Plane::start().await;
    let definitions: Api<CustomResourceDefinition> = Api::all(plane.client.clone());
    let definition = || {
        serde_json::from_value::<CustomResourceDefinition>(json!({
            "metadata": {"name": "things.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
            },
        }))
        .unwrap()
    };
    let established = conditions::is_crd_established;
    definitions.create(&PostParams::default(), &definition()).await.unwrap();
    let made = until(&definitions, "things.example.com", established()).await.unwrap();
    let kind = kube::core::GroupVersionKind::gvk("example.com", "v1", "Thing");
    let resource = kube::core::ApiResource::from_gvk(&kind);
    let things: Api<kube::core::DynamicObject> = Api::namespaced_with(plane.client.clone(), "default", &resource);
    let thing = kube::core::DynamicObject::new("left", &resource);
    things.create(&PostParams::default(), &thing).await.unwrap();

    let version =
        json!({"name": "v1", "served": false, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}});
    let unserved = Patch::Merge(json!({"spec": {"versions": [version]}}));
    definitions.patch("things.example.com", &PatchParams::default(), &unserved).await.unwrap();
    definitions.delete("things.example.com", &DeleteParams::default()).await.unwrap();
    until(&definitions, "things.example.com", conditions::is_deleted(&made.uid().unwrap())).await;

    definitions.create(&PostParams::default(), &definition()).await.unwrap();
    until(&definitions, "things.example.com", established()).await;
    assert!(things.list(&Default::default()).await.unwrap().items.is_empty(), "an object outlived its definition");
    plane.stop().await;
}

#[tokio::test]
async fn the_status_of_a_policy_tells_what_its_expressions_get_wrong_about_types() {
    let plane = Plane::start().await;
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(plane.client.clone());
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]});
    let policy = json!({
        "metadata": {"name": "typo"},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": "object.data.a == 'x'"}, {"expression": "object.nope == 1"}],
        },
    });
    policies.create(&PostParams::default(), &serde_json::from_value(policy).unwrap()).await.unwrap();
    let checked = |policy: Option<&ValidatingAdmissionPolicy>| {
        policy.and_then(|policy| policy.status.as_ref()).is_some_and(|status| status.type_checking.is_some())
    };
    let status = until(&policies, "typo", checked).await.unwrap().status.unwrap();
    assert_eq!(status.observed_generation, Some(1));
    let warnings = status.type_checking.unwrap().expression_warnings.unwrap();
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    assert_eq!(warning.field_ref, "spec.validations[1].expression");
    assert!(warning.warning.contains("undefined field 'nope'"), "{warning:?}");
    plane.stop().await;
}
