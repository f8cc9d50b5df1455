//! The deployments of a ClusterServiceVersion, for targets that can run them.

use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::error::Error;
use crate::kinds::Kind;
use crate::object::{list, text};
use crate::permissions::Watched;
use crate::target::Target;
use crate::webhooks;

/// On a deployment: what it was made from, so that what would be made differently now is noticed. OLM's name for it.
const SPEC_HASH_LABEL: &str = "olm.deployment-spec-hash";
const DEPLOYMENT: Kind = Kind { group: "apps", version: "v1", kind: "Deployment", plural: "deployments" };

/// The names of the deployments.
pub(super) fn names(csv: &Value) -> Vec<String> {
    let deployments = list(csv, "/spec/install/spec/deployments").iter();
    deployments.map(|deployment| text(deployment, "/name").to_owned()).collect()
}

/// Where deployments are, and whom they watch.
pub(super) struct Place<'p> {
    pub namespace: &'p str,
    pub group: &'p DynamicObject,
    pub watched: &'p Watched,
    /// The name of the operator's OperatorCondition, if it has one.
    pub condition: Option<String>,
}

/// The deployments, with what the Subscription changes about them, the certificates of what they serve and a label that
/// says what they were made from.
pub(super) fn objects(csv: &Value, place: &Place<'_>, subscription: Option<&DynamicObject>) -> Vec<Value> {
    let config = subscription.and_then(|subscription| subscription.data.pointer("/spec/config"));
    let namespace = place.namespace;
    let condition = place.condition.as_ref().map(|name| json!({"name": "OPERATOR_CONDITION_NAME", "value": name}));
    let deployment = |described: &Value| {
        let mut spec = described["spec"].clone();
        let template = &mut spec["template"];
        for (key, value) in [
            ("olm.operatorGroup", place.group.name_any()),
            ("olm.operatorNamespace", namespace.to_owned()),
            ("olm.targetNamespaces", place.watched.annotation()),
        ] {
            put(&mut template["metadata"]["annotations"], key, value.into());
        }
        if let Some(containers) = template["spec"]["containers"].as_array_mut() {
            for container in containers {
                merge_list(&mut container["env"], condition.as_slice());
                configure_container(container, config.unwrap_or(&Value::Null));
            }
        }
        configure_pod(template, config.unwrap_or(&Value::Null));
        let mut labels = described["label"].clone();
        if !labels.is_object() {
            labels = json!({});
        }
        let mut made = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": text(described, "/name"), "namespace": namespace, "labels": labels}, "spec": spec,
        });
        webhooks::mount(&mut made, csv);
        made["metadata"]["labels"][SPEC_HASH_LABEL] = hash(&made["spec"]).into();
        made
    };
    list(csv, "/spec/install/spec/deployments").iter().map(deployment).collect()
}

fn hash(spec: &Value) -> String {
    let digest = Sha256::digest(spec.to_string().as_bytes());
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// What says that a deployment was made from something else than it would be now, in OLM's words; `None` when none was.
/// One that is not there is not meant.
pub(super) async fn changed(target: &Target, namespace: &str, wanted: &[Value]) -> Result<Option<String>, Error> {
    let api = DEPLOYMENT.within(&target.own, namespace);
    for wanted in wanted {
        let Some(present) = api.get_opt(text(wanted, "/metadata/name")).await? else { continue };
        let old = present.labels().get(SPEC_HASH_LABEL).map(String::as_str).unwrap_or_default();
        let new = wanted["metadata"]["labels"][SPEC_HASH_LABEL].as_str().unwrap_or_default();
        if old != new {
            return Ok(Some(format!("deployment changed old hash={old}, new hash={new}")));
        }
    }
    Ok(None)
}

fn put(map: &mut Value, key: &str, value: Value) {
    if !map.is_object() {
        *map = json!({});
    }
    map[key] = value;
}

/// Adds items to a list whose items are known by name; those of the same name are replaced.
fn merge_list(into: &mut Value, items: &[Value]) {
    if items.is_empty() {
        return;
    }
    if !into.is_array() {
        *into = json!([]);
    }
    let Some(known) = into.as_array_mut() else { return };
    for item in items {
        known.retain(|it| it["name"] != item["name"] || item["name"].is_null());
        known.push(item.clone());
    }
}

fn configure_container(container: &mut Value, config: &Value) {
    merge_list(&mut container["env"], list(config, "/env"));
    for key in ["envFrom", "volumeMounts"] {
        let items = list(config, &format!("/{key}"));
        if !items.is_empty() {
            merge_list(&mut container[key], items);
        }
    }
    if !config["resources"].is_null() {
        container["resources"] = config["resources"].clone();
    }
    if let Some(fields) = container.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
}

fn configure_pod(template: &mut Value, config: &Value) {
    for key in ["volumes", "tolerations"] {
        let items = list(config, &format!("/{key}"));
        if !items.is_empty() {
            merge_list(&mut template["spec"][key], items);
        }
    }
    for key in ["nodeSelector", "affinity"] {
        if !config[key].is_null() {
            template["spec"][key] = config[key].clone();
        }
    }
    for (key, value) in config["annotations"].as_object().into_iter().flatten() {
        put(&mut template["metadata"]["annotations"], key, value.clone());
    }
}

/// Why a deployment is not available; `None` when all are.
pub(super) async fn unavailable(target: &Target, namespace: &str, names: &[String]) -> Result<Option<String>, Error> {
    let api = DEPLOYMENT.within(&target.own, namespace);
    for name in names {
        let Some(deployment) = api.get_opt(name).await? else {
            return Ok(Some(format!("waiting for deployment {name} to become ready: deployment {name:?} not found")));
        };
        let available = list(&deployment.data, "/status/conditions").iter().find(|it| it["type"] == "Available");
        let is_current = deployment.data.pointer("/status/observedGeneration").and_then(Value::as_i64)
            == deployment.metadata.generation;
        match available {
            Some(condition) if condition["status"] == "True" && is_current => {}
            Some(condition) => {
                let message = text(condition, "/message");
                return Ok(Some(format!(
                    "waiting for deployment {name} to become ready: deployment {name:?} not available: {message}"
                )));
            }
            None => {
                return Ok(Some(format!(
                    "waiting for deployment {name} to become ready: deployment {name:?} not available: missing \
                     condition Available"
                )));
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subscription_changes_its_deployments() {
        let csv = json!({"metadata": {"name": "a.v1"}, "spec": {"install": {"spec": {"deployments": [
            {"name": "a", "spec": {"template": {"spec": {"containers": [
                {"name": "c", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]}]}}}}]}}}});
        let object = |value: Value| serde_json::from_value::<DynamicObject>(value).unwrap();
        let group = object(json!({"metadata": {"name": "og"}}));
        let subscription = object(json!({"metadata": {"name": "s"}, "spec": {"config": {
            "env": [{"name": "X", "value": "9"}], "nodeSelector": {"disk": "fast"},
            "tolerations": [{"key": "a"}], "resources": {"limits": {"cpu": "1"}}}}}));
        let place =
            Place { namespace: "home", group: &group, watched: &Watched::All, condition: Some("a.v1".to_owned()) };
        let made = objects(&csv, &place, Some(&subscription));
        let template = &made[0]["spec"]["template"];
        let env = template["spec"]["containers"][0]["env"].as_array().unwrap();
        assert!(
            env.contains(&json!({"name": "X", "value": "9"})) && !env.contains(&json!({"name": "X", "value": "1"}))
        );
        assert!(env.contains(&json!({"name": "OPERATOR_CONDITION_NAME", "value": "a.v1"})));
        assert_eq!(template["spec"]["nodeSelector"], json!({"disk": "fast"}));
        assert_eq!(template["spec"]["containers"][0]["resources"], json!({"limits": {"cpu": "1"}}));
        assert_eq!(template["metadata"]["annotations"]["olm.operatorNamespace"], "home");
        let plain = objects(&csv, &place, None);
        let label = |made: &[Value]| made[0]["metadata"]["labels"][SPEC_HASH_LABEL].clone();
        assert_ne!(label(&made), label(&plain), "the label tells them apart");
        assert_eq!(label(&plain), label(&objects(&csv, &place, None)));
    }
}
