//! The service accounts, roles and bindings that a ClusterServiceVersion asks for.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::object::{list, text};

const RBAC: &str = "rbac.authorization.k8s.io";
/// The account that every namespace has.
const DEFAULT_ACCOUNT: &str = "default";

/// Which namespaces an operator watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Watched {
    All,
    /// By name, at least one.
    Namespaces(Vec<String>),
}

impl Watched {
    /// As `olm.targetNamespaces` has it.
    pub fn annotation(&self) -> String {
        match self {
            Watched::All => String::new(),
            Watched::Namespaces(names) => names.join(","),
        }
    }

    /// As lists of namespaces have it: all is one that is empty.
    pub fn names(&self) -> Vec<String> {
        match self {
            Watched::All => vec![String::new()],
            Watched::Namespaces(names) => names.clone(),
        }
    }
}

/// The names of the service accounts of a ClusterServiceVersion.
pub(crate) fn accounts(csv: &Value) -> BTreeSet<&str> {
    let spec = "/spec/install/spec";
    let permissions = list(csv, &format!("{spec}/permissions")).iter();
    let permissions = permissions.chain(list(csv, &format!("{spec}/clusterPermissions")));
    let deployments = list(csv, &format!("{spec}/deployments")).iter();
    let of_deployments = deployments.map(|deployment| text(deployment, "/spec/template/spec/serviceAccountName"));
    let named = permissions.map(|permission| text(permission, "/serviceAccountName")).chain(of_deployments);
    named.filter(|name| !name.is_empty()).collect()
}

/// Everything that the permissions of a ClusterServiceVersion in a namespace are made of.
pub(crate) fn objects(csv: &Value, namespace: &str, watched: &Watched) -> Vec<Value> {
    let name = text(csv, "/metadata/name");
    let mut out = Vec::new();
    for account in accounts(csv).into_iter().filter(|account| *account != DEFAULT_ACCOUNT) {
        out.push(json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, "namespace": namespace},
        }));
    }
    for permission in list(csv, "/spec/install/spec/permissions") {
        let account = text(permission, "/serviceAccountName");
        let rules = &permission["rules"];
        let own = named(name, "role", account, rules);
        let elsewhere: Vec<&str> = match watched {
            Watched::All => {
                out.extend(cluster_role(&own, namespace, account, rules));
                Vec::new()
            }
            Watched::Namespaces(names) => names.iter().map(String::as_str).filter(|it| *it != namespace).collect(),
        };
        for place in std::iter::once(namespace).chain(elsewhere) {
            out.extend(role(&own, place, namespace, account, rules));
        }
    }
    for permission in list(csv, "/spec/install/spec/clusterPermissions") {
        let account = text(permission, "/serviceAccountName");
        let rules = &permission["rules"];
        out.extend(cluster_role(&named(name, "cluster", account, rules), namespace, account, rules));
    }
    out
}

/// The same for the same rules, another for others.
fn named(csv: &str, kind: &str, account: &str, rules: &Value) -> String {
    let digest = Sha256::digest(format!("{kind}/{account}/{rules}").as_bytes());
    let hash: String = digest.iter().take(5).map(|byte| format!("{byte:02x}")).collect();
    format!("{csv}-{hash}")
}

fn subject(account: &str, namespace: &str) -> Value {
    json!([{"kind": "ServiceAccount", "name": account, "namespace": namespace}])
}

fn role(name: &str, place: &str, namespace: &str, account: &str, rules: &Value) -> [Value; 2] {
    let metadata = json!({"name": name, "namespace": place});
    [
        json!({"apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": metadata, "rules": rules}),
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name}, "subjects": subject(account, namespace),
        }),
    ]
}

fn cluster_role(name: &str, namespace: &str, account: &str, rules: &Value) -> [Value; 2] {
    let metadata = json!({"name": name});
    [
        json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": metadata, "rules": rules}),
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
            "subjects": subject(account, namespace),
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csv() -> Value {
        json!({"metadata": {"name": "a.v1"}, "spec": {"install": {"spec": {
            "permissions": [{"serviceAccountName": "a", "rules": [{"verbs": ["get"]}]}],
            "clusterPermissions": [{"serviceAccountName": "default", "rules": [{"verbs": ["list"]}]}],
        }}}})
    }

    fn places(watched: &Watched) -> Vec<String> {
        let place = |object: &Value| format!("{} {}", text(object, "/kind"), text(object, "/metadata/namespace"));
        objects(&csv(), "home", watched).iter().map(place).collect()
    }

    #[test]
    fn roles_are_where_the_operator_watches() {
        let some = places(&Watched::Namespaces(vec!["home".into(), "away".into()]));
        assert_eq!(
            some,
            [
                "ServiceAccount home",
                "Role home",
                "RoleBinding home",
                "Role away",
                "RoleBinding away",
                "ClusterRole ",
                "ClusterRoleBinding "
            ]
        );
        let all = places(&Watched::All);
        assert_eq!(all.iter().filter(|it| it.starts_with("ClusterRole ")).count(), 2);
        assert_eq!(all.iter().filter(|it| it.starts_with("Role ")).count(), 1);
    }
}
