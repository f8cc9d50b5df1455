//! What the service puts on a server before it works: definitions, its own namespace, roles for users and agents, and the rule
//! that an agent answers for itself alone.

use std::time::Duration;

use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::Error;
use crate::definition::{GROUP, VERSION, check_definition, domain_definition, probe_definition};

/// Where agents have their leases and their work, and where the opt-out list is.
pub const SERVICE_NAMESPACE: &str = "bailiwick-domains";
/// What an agent may do: bind it in [`SERVICE_NAMESPACE`].
pub const AGENT_ROLE: &str = "bailiwick:dns-agent";

const MANAGER: &str = "bailiwick-domains";
/// How long a definition may take to be served.
const ESTABLISH_TIMEOUT: Duration = Duration::from_secs(30);
const ESTABLISH_POLL: Duration = Duration::from_millis(50);

/// Everything that the root control plane has.
pub(crate) async fn install(client: &Client) -> Result<(), Error> {
    apply(client, "", "v1", "Namespace", "namespaces", &namespace()).await?;
    for definition in [domain_definition(), check_definition(), probe_definition()] {
        define(client, &definition).await?;
    }
    for role in [agent_role(), tenant_role("edit"), tenant_role("view")] {
        apply(client, "rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", &role).await?;
    }
    for (kind, plural, object) in [
        ("ValidatingAdmissionPolicy", "validatingadmissionpolicies", policy()),
        ("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", policy_binding()),
    ] {
        let applied = apply(client, "admissionregistration.k8s.io", "v1", kind, plural, &object).await;
        // A server without policies still works; agents must then be trusted not to answer for each other.
        if let Err(error) = applied {
            tracing::warn!(%error, "the rule that agents answer for themselves alone cannot be installed");
        }
    }
    Ok(())
}

/// What a project has: the types that its people use.
pub(crate) async fn install_in_project(client: &Client) -> Result<(), Error> {
    for definition in [domain_definition(), check_definition()] {
        define(client, &definition).await?;
    }
    for role in [tenant_role("edit"), tenant_role("view")] {
        apply(client, "rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", &role).await?;
    }
    Ok(())
}

fn api(client: &Client, group: &str, version: &str, kind: &str, plural: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk(group, version, kind);
    Api::all_with(client.clone(), &ApiResource::from_gvk_with_plural(&kind, plural))
}

fn name_of(object: &Value) -> String {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned()
}

async fn apply(
    client: &Client,
    group: &str,
    version: &str,
    kind: &str,
    plural: &str,
    object: &Value,
) -> Result<(), Error> {
    let parameters = PatchParams::apply(MANAGER).force();
    api(client, group, version, kind, plural).patch(&name_of(object), &parameters, &Patch::Apply(object)).await?;
    Ok(())
}

/// Applies a definition and waits until it is served.
async fn define(client: &Client, definition: &Value) -> Result<(), Error> {
    const GROUP: &str = "apiextensions.k8s.io";
    let definitions = api(client, GROUP, "v1", "CustomResourceDefinition", "customresourcedefinitions");
    let name = name_of(definition);
    definitions.patch(&name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(definition)).await?;
    let established = async {
        loop {
            let found = definitions.get(&name).await?;
            let conditions = found.data.pointer("/status/conditions").and_then(Value::as_array);
            let is = |condition: &Value| condition["type"] == "Established" && condition["status"] == "True";
            if conditions.is_some_and(|conditions| conditions.iter().any(is)) {
                return Ok(());
            }
            tokio::time::sleep(ESTABLISH_POLL).await;
        }
    };
    // A server that takes longer serves it later; the watch waits.
    tokio::time::timeout(ESTABLISH_TIMEOUT, established).await.unwrap_or(Ok(()))
}

fn namespace() -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SERVICE_NAMESPACE}})
}

/// An agent renews its lease, reads its work and answers it, in the service's namespace and nowhere else.
fn agent_role() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": AGENT_ROLE},
        "rules": [
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]},
            {"apiGroups": [GROUP], "resources": ["domainprobes"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": [GROUP], "resources": ["domainprobes/status"], "verbs": ["patch"]},
        ],
    })
}

/// Whoever may edit or view a namespace may do so with its domains.
fn tenant_role(to: &str) -> Value {
    let verbs = match to {
        "view" => json!(["get", "list", "watch"]),
        _ => json!(["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]),
    };
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {
            "name": format!("bailiwick:domains-{to}"),
            "labels": {format!("rbac.authorization.k8s.io/aggregate-to-{to}"): "true"},
        },
        "rules": [{"apiGroups": [GROUP], "resources": ["domains", "domainchecks"], "verbs": verbs}],
    })
}

/// Evidence counts by how many places agree, so no agent may speak for another: who answers, or renews a lease, must be the
/// user whose name ends in the agent's.
fn policy() -> Value {
    let agent = "request.resource.resource == 'leases' ? object.metadata.name : object.spec.agent";
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "bailiwick-dns-agents"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": SERVICE_NAMESPACE}},
                "resourceRules": [
                    {"apiGroups": [GROUP], "apiVersions": [VERSION], "operations": ["UPDATE"], "resources": ["domainprobes/status"]},
                    {"apiGroups": ["coordination.k8s.io"], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"], "resources": ["leases"]},
                ],
            },
            "matchConditions": [{"name": "administrators-may", "expression": "!('system:masters' in request.userInfo.groups)"}],
            "validations": [{
                "expression": format!("request.userInfo.username.endsWith(':' + ({agent}))"),
                "message": "an agent answers for itself alone: the name of its user must end in ':' and the name of the agent",
                "reason": "Forbidden",
            }],
        },
    })
}

fn policy_binding() -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "bailiwick-dns-agents"},
        "spec": {"policyName": "bailiwick-dns-agents", "validationActions": ["Deny"]},
    })
}
