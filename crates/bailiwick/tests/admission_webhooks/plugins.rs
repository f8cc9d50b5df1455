//! Plugins: compiled in through the library, switched on and off by name, configured by a file.

use async_trait::async_trait;
use bailiwick::{AdmissionOptions, ControlPlane};
use bailiwick_admission::{Attributes, Effects, Lookup, Operation, Phase, Plugin, forbidden};
use bailiwick_machinery::status::ApiResult;
use serde_json::json;

use crate::Plane;

/// A rule of one's own: ConfigMaps are stamped, and some names are refused.
struct HouseRules;

#[async_trait]
impl Plugin for HouseRules {
    fn name(&self) -> &'static str {
        "HouseRules"
    }

    fn handles(&self, operation: Operation, _: Phase) -> bool {
        operation == Operation::Create
    }

    fn concerns(&self, attributes: &Attributes<'_>) -> bool {
        attributes.is_kind("", "ConfigMap")
    }

    async fn mutate(&self, attributes: &mut Attributes<'_>, _: &dyn Lookup) -> ApiResult<()> {
        if let Some(object) = attributes.object.as_deref_mut() {
            object["metadata"]["labels"] = json!({"house": "ours"});
        }
        Ok(())
    }

    async fn validate(&self, attributes: &Attributes<'_>, _: &dyn Lookup, _: &mut Effects) -> ApiResult<()> {
        match attributes.name {
            "no" => Err(forbidden(attributes, "not in this house")),
            _ => Ok(()),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_of_ones_own_changes_and_refuses() {
    let plane = Plane::start(|builder| builder.admission_plugin(Box::new(HouseRules))).await;
    let created = plane.config_map("yes").await.unwrap();
    assert_eq!(created["metadata"]["labels"], json!({"house": "ours"}));
    let refused = plane.config_map("no").await.unwrap_err();
    assert_eq!(refused, (403, "configmaps \"no\" is forbidden: not in this house".to_owned()));
}

fn named(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn plugins_are_switched_off_by_name() {
    let options = AdmissionOptions {
        disable: named(&["NamespaceLifecycle", "HouseRules"]),
        plugins: vec![Box::new(HouseRules)],
        ..AdmissionOptions::default()
    };
    let plane = Plane::start(|builder| builder.admission(options)).await;
    let object = json!({"metadata": {"name": "no"}});
    let created = plane.send("POST", "/api/v1/namespaces/nowhere/configmaps", object).await.unwrap();
    assert_eq!(created["metadata"].get("labels"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_names_and_files_keep_the_server_from_starting() {
    let fault = |options: AdmissionOptions| async move {
        let dir = tempfile::tempdir().unwrap();
        let started = ControlPlane::builder(dir.path()).controllers(&[]).admission(options).start().await;
        started.err().expect("does not start").to_string()
    };
    let unknown = AdmissionOptions { enable: named(&["Foo"]), ..AdmissionOptions::default() };
    assert_eq!(fault(unknown).await, "admission: enable-admission-plugins plugin \"Foo\" is unknown");
    let unconfigured = AdmissionOptions { enable: named(&["EventRateLimit"]), ..AdmissionOptions::default() };
    assert_eq!(
        fault(unconfigured).await,
        "admission: failed to initialize admission plugin \"EventRateLimit\": limits: Invalid value: null: must not be empty"
    );
    let missing = AdmissionOptions { config_file: Some("/nonexistent".into()), ..AdmissionOptions::default() };
    assert!(fault(missing).await.contains("unable to read admission control configuration from \"/nonexistent\""));
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_limited_as_the_file_says() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("admission.yaml");
    let limits = "kind: Configuration\napiVersion: eventratelimit.admission.k8s.io/v1alpha1\nlimits:\n\
                  - {type: Namespace, qps: 1, burst: 1, cacheSize: 10}\n";
    std::fs::write(dir.path().join("events.yaml"), limits).unwrap();
    let configuration = "kind: AdmissionConfiguration\napiVersion: apiserver.config.k8s.io/v1\nplugins:\n\
                         - {name: EventRateLimit, path: events.yaml}\n";
    std::fs::write(&file, configuration).unwrap();
    let options =
        AdmissionOptions { enable: named(&["EventRateLimit"]), config_file: Some(file), ..AdmissionOptions::default() };
    let plane = Plane::start(|builder| builder.admission(options)).await;
    let event = |name: &str| json!({"metadata": {"name": name}, "involvedObject": {"namespace": "default"}, "reason": "R", "type": "Normal"});
    let path = "/api/v1/namespaces/default/events";
    // A burst of one and one a second: of a hundred at once most are refused, whatever the machine's speed.
    let mut refused = 0;
    for n in 0..100 {
        if let Err((code, message)) = plane.send("POST", path, event(&format!("e{n}"))).await {
            assert_eq!(
                (code, message.as_str()),
                (429, "Too many requests: limit reached on type Namespace for key default")
            );
            refused += 1;
        }
    }
    assert!(refused > 0, "none was refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_are_checked_where_that_is_switched_on() {
    let options =
        AdmissionOptions { enable: named(&["OwnerReferencesPermissionEnforcement"]), ..AdmissionOptions::default() };
    let plane = Plane::start(|builder| builder.admission(options)).await;
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u", "blockOwnerDeletion": true});
    let object = json!({"metadata": {"name": "a", "ownerReferences": [owner]}});
    // An administrator may finalize anything.
    assert!(plane.send("POST", "/api/v1/namespaces/default/configmaps", object).await.is_ok());
}
