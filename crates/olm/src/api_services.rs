//! The APIs that an operator serves itself, the owned APIServices of its ClusterServiceVersion: registered where their
//! server can be found. One that belongs to somebody else is never taken over.

use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::error::Error;
use crate::kinds::API_SERVICE;
use crate::object::{list, text};
use crate::operator_service::{OperatorService, OperatorServices, service_of};
use crate::target::Target;

/// Where an API stands among others, as upstream.
const GROUP_PRIORITY: u64 = 2000;
const VERSION_PRIORITY: u64 = 20;
const RBAC: &str = "rbac.authorization.k8s.io";

fn owned(csv: &DynamicObject) -> &[Value] {
    list(&csv.data, "/spec/apiservicedefinitions/owned")
}

/// The name of the APIService of a description.
pub(crate) fn name_of(described: &Value) -> String {
    format!("{}.{}", text(described, "/version"), text(described, "/group"))
}

/// What is made for the APIs of a version. The error is for its author.
pub(crate) async fn objects(services: &mut OperatorServices<'_>) -> Result<Result<Vec<Value>, String>, Error> {
    let csv = services.csv();
    let mut out: Vec<Value> = Vec::new();
    for described in owned(csv) {
        let name = name_of(described);
        // Several kinds of one group and version are one APIService.
        if out.iter().any(|object| text(object, "/metadata/name") == name) {
            continue;
        }
        let Some(service) = services.of(described).await? else { continue };
        if let Some(present) = API_SERVICE.all(&services.target.own).get_opt(&name).await?
            && !services.made(&present)
        {
            return Ok(Err(format!("APIService {name} is there already and does not belong to this operator")));
        }
        out.push(json!({
            "apiVersion": API_SERVICE.api_version(), "kind": API_SERVICE.kind, "metadata": {"name": name},
            "spec": {
                "group": text(described, "/group"), "version": text(described, "/version"),
                "groupPriorityMinimum": GROUP_PRIORITY, "versionPriority": VERSION_PRIORITY,
                "service": service.reference(described), "caBundle": service.ca_bundle(),
            },
        }));
        out.extend(delegation(csv, described, &service));
    }
    Ok(Ok(out))
}

/// What lets a server of an API ask the control plane who somebody is and what they may do.
fn delegation(csv: &DynamicObject, described: &Value, service: &OperatorService) -> [Value; 2] {
    let deployments = list(&csv.data, "/spec/install/spec/deployments").iter();
    let account = deployments
        .filter(|deployment| text(deployment, "/name") == text(described, "/deploymentName"))
        .map(|deployment| text(deployment, "/spec/template/spec/serviceAccountName"))
        .find(|account| !account.is_empty())
        .unwrap_or("default");
    let subjects = json!([{"kind": "ServiceAccount", "name": account, "namespace": service.namespace}]);
    let role = |kind: &str, name: &str| json!({"apiGroup": RBAC, "kind": kind, "name": name});
    let base = format!("{}.{}", service_of(described), service.namespace);
    [
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding",
            "metadata": {"name": format!("{base}-system:auth-delegator")},
            "roleRef": role("ClusterRole", "system:auth-delegator"), "subjects": subjects,
        }),
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding",
            "metadata": {"name": format!("{base}-auth-reader"), "namespace": "kube-system"},
            "roleRef": role("Role", "extension-apiserver-authentication-reader"), "subjects": subjects,
        }),
    ]
}

/// Why an API of a version is not available; `None` when all that are registered are.
pub(crate) async fn unavailable(target: &Target, csv: &DynamicObject) -> Result<Option<String>, Error> {
    for described in owned(csv) {
        let name = name_of(described);
        let Some(service) = API_SERVICE.all(&target.own).get_opt(&name).await? else {
            return Ok(Some(format!("apiService {name} not found")));
        };
        if !is_available(&service) {
            return Ok(Some(format!("apiService {name} is not available")));
        }
    }
    Ok(None)
}

/// Whether an APIService can be asked.
pub(crate) fn is_available(service: &DynamicObject) -> bool {
    let available = |condition: &Value| condition["type"] == "Available" && condition["status"] == "True";
    list(&service.data, "/status/conditions").iter().any(available)
}
