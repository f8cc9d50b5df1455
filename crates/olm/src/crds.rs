//! The definitions of OLM's kinds, installed when the service starts, and the namespaces OLM's users expect.

use std::time::Duration;

use kube::Client;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::error::{Error, is_already_there};
use crate::kinds::{CLUSTER_ROLE, CRD, NAMESPACE, OPERATOR_GROUP};
use crate::object::list;

/// The name our writes go by in managedFields.
pub(crate) const MANAGER: &str = "bailiwick-olm";
/// Where operators for all namespaces are installed by custom.
const OPERATORS_NAMESPACE: &str = "operators";
/// How long definitions may take to be served, and how often to look.
const ESTABLISH_TIMEOUT: Duration = Duration::from_secs(30);
const ESTABLISH_INTERVAL: Duration = Duration::from_millis(20);

const DEFINITIONS: [&str; 8] = [
    include_str!("crds/catalogsources.yaml"),
    include_str!("crds/subscriptions.yaml"),
    include_str!("crds/installplans.yaml"),
    include_str!("crds/clusterserviceversions.yaml"),
    include_str!("crds/operatorgroups.yaml"),
    include_str!("crds/operatorconditions.yaml"),
    include_str!("crds/clustercatalogs.yaml"),
    include_str!("crds/clusterextensions.yaml"),
];

/// The definitions, as objects.
pub(crate) fn definitions() -> Result<Vec<Value>, Error> {
    let decode = |text: &&str| match bailiwick_machinery::yaml::decode(text) {
        Ok(decoded) => Ok(decoded.value),
        Err(error) => Err(Error::Other(format!("a definition of ours: {error}"))),
    };
    DEFINITIONS.iter().map(decode).collect()
}

/// Installs the definitions and waits until they are served.
pub(crate) async fn install(client: &Client) -> Result<(), Error> {
    let api = CRD.all(client);
    let parameters = PatchParams::apply(MANAGER).force();
    let mut names = Vec::new();
    for definition in definitions()? {
        let name = crate::object::text(&definition, "/metadata/name").to_owned();
        api.patch(&name, &parameters, &Patch::Apply(&definition)).await?;
        names.push(name);
    }
    let deadline = tokio::time::Instant::now() + ESTABLISH_TIMEOUT;
    for name in names {
        loop {
            let definition = api.get(&name).await?;
            if is_established(&definition) {
                break;
            }
            if tokio::time::Instant::now() > deadline {
                return Err(Error::Other(format!("{name} is not established after {ESTABLISH_TIMEOUT:?}")));
            }
            tokio::time::sleep(ESTABLISH_INTERVAL).await;
        }
    }
    Ok(())
}

/// Whether a definition is served.
pub(crate) fn is_established(definition: &DynamicObject) -> bool {
    let established = |condition: &Value| condition["type"] == "Established" && condition["status"] == "True";
    list(&definition.data, "/status/conditions").iter().any(established)
}

/// Makes the namespaces of OLM's own installation, with their OperatorGroups, once.
pub(crate) async fn ensure_namespaces(client: &Client, global: &str) -> Result<(), Error> {
    for (namespace, group, spec) in [
        (global, "olm-operators", json!({"targetNamespaces": [global]})),
        (OPERATORS_NAMESPACE, "global-operators", json!({})),
    ] {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        let created = NAMESPACE.all(client).create(&PostParams::default(), &dynamic(object)?).await;
        match created {
            // What somebody removed later stays removed.
            Err(error) if is_already_there(&error) => continue,
            other => other?,
        };
        let object = json!({
            "apiVersion": OPERATOR_GROUP.api_version(), "kind": OPERATOR_GROUP.kind,
            "metadata": {"name": group, "namespace": namespace}, "spec": spec,
        });
        let created = OPERATOR_GROUP.within(client, namespace).create(&PostParams::default(), &dynamic(object)?).await;
        if let Err(error) = created
            && !is_already_there(&error)
        {
            return Err(error.into());
        }
    }
    Ok(())
}

/// Lets those who may see or edit namespaces see and edit what is OLM's in them, as OLM does.
pub(crate) async fn ensure_roles(client: &Client) -> Result<(), Error> {
    let here = crate::target::Target::here(client);
    if !here.serves(CLUSTER_ROLE.group, CLUSTER_ROLE.version, CLUSTER_ROLE.kind).await? {
        return Ok(());
    }
    let group = "operators.coreos.com";
    let kinds = ["clusterserviceversions", "catalogsources", "installplans", "subscriptions"];
    let shown = [kinds.as_slice(), &["operatorgroups"]].concat();
    let view = json!([
        {"apiGroups": [group], "resources": shown, "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["packages.operators.coreos.com"], "resources": ["packagemanifests", "packagemanifests/icon"],
            "verbs": ["get", "list", "watch"]},
    ]);
    let edit = json!([
        {"apiGroups": [group], "resources": ["subscriptions"], "verbs": ["create", "update", "patch", "delete"]},
        {"apiGroups": [group], "resources": kinds, "verbs": ["delete"]},
    ]);
    for (name, levels, rules) in [
        ("aggregate-olm-view", ["admin", "edit", "view"].as_slice(), view),
        ("aggregate-olm-edit", ["admin", "edit"].as_slice(), edit),
    ] {
        let labels: serde_json::Map<String, Value> = levels
            .iter()
            .map(|level| (format!("rbac.authorization.k8s.io/aggregate-to-{level}"), "true".into()))
            .collect();
        let role = json!({
            "apiVersion": CLUSTER_ROLE.api_version(), "kind": CLUSTER_ROLE.kind, "metadata": {"name": name, "labels": labels},
            "rules": rules,
        });
        crate::installing::apply_in_own_name(&here, &role, "").await?;
    }
    Ok(())
}

/// A tree as an object.
pub(crate) fn dynamic(object: Value) -> Result<DynamicObject, Error> {
    serde_json::from_value(object).map_err(|error| Error::Other(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_readable_and_named_after_their_kinds() {
        for definition in definitions().unwrap() {
            let (plural, group) = (definition["spec"]["names"]["plural"].clone(), definition["spec"]["group"].clone());
            let name = format!("{}.{}", plural.as_str().unwrap(), group.as_str().unwrap());
            assert_eq!(definition["metadata"]["name"], name);
        }
    }
}
