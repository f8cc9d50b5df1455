//! Where an operator says of itself whether it may be upgraded: its OperatorCondition, which it finds by the environment
//! variable `OPERATOR_CONDITION_NAME`, and the right to write it.
//!
//! There is one where the kind is: on this control plane. An operator on another cluster has none and is not told of one.

use std::collections::BTreeSet;

use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::deployments;
use crate::error::Error;
use crate::install_plan;
use crate::installing::apply_in_own_name;
use crate::kinds::{CSV, OPERATOR_CONDITION};
use crate::object::{list, text};
use crate::target::Target;

const RBAC: &str = "rbac.authorization.k8s.io";

/// What the operator of a version is told that its condition is called; `None` where it has none.
pub(super) fn name_of(csv: &DynamicObject, target: &Target) -> Option<String> {
    target.secret.is_none().then(|| csv.name_any())
}

/// Makes the condition of a version with its permissions. In our own name: they are no part of the bundle.
pub(super) async fn ensure(target: &Target, csv: &DynamicObject, namespace: &str) -> Result<(), Error> {
    let Some(name) = name_of(csv, target) else { return Ok(()) };
    let owner = CSV.owner(csv);
    for mut object in objects(&csv.data, &name, namespace) {
        install_plan::own(&mut object, &name, namespace, &owner, target);
        apply_in_own_name(target, &object, namespace).await?;
    }
    Ok(())
}

fn objects(csv: &Value, name: &str, namespace: &str) -> [Value; 3] {
    let accounts: BTreeSet<&str> = list(csv, "/spec/install/spec/deployments")
        .iter()
        .map(|it| match text(it, "/spec/template/spec/serviceAccountName") {
            "" => "default",
            named => named,
        })
        .collect();
    let subject = |account: &&str| json!({"kind": "ServiceAccount", "name": account, "namespace": namespace});
    let subjects: Vec<Value> = accounts.iter().map(subject).collect();
    let metadata = json!({"name": name, "namespace": namespace});
    [
        json!({
            "apiVersion": OPERATOR_CONDITION.api_version(), "kind": OPERATOR_CONDITION.kind, "metadata": metadata,
            "spec": {"serviceAccounts": accounts, "deployments": deployments::names(csv)},
        }),
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": metadata,
            "rules": [{
                "apiGroups": [OPERATOR_CONDITION.group], "resources": [OPERATOR_CONDITION.plural],
                "resourceNames": [name], "verbs": ["get", "update", "patch"],
            }],
        }),
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name}, "subjects": subjects,
        }),
    ]
}
