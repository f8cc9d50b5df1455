//! The objects that every project has from the start: namespaces, default roles and bindings, service accounts, the CA.
//!
//! None of them is stored until somebody changes it, see `bailiwick_server::cache::BaseObjects`. Their uids come from the
//! project's, so that every server, at any time, shows the same.

use std::collections::HashMap;
use std::sync::Arc;

use bailiwick_auth::authz::defaults::{self, DefaultObject};
use bailiwick_auth::authz::rbac::{Change, Rbac, RbacKind};
use bailiwick_machinery::object;
use bailiwick_machinery::resource::GroupResource;
use bailiwick_server::cache::{BaseObjects, encode_for_storage};
use bailiwick_server::{PROJECT_ADMINS, Project};
use bytes::Bytes;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::bootstrap::SYSTEM_NAMESPACES;

/// How often roles that gather others are gathered: `admin` gathers `edit`, which gathers `view`.
const GATHERING_ROUNDS: usize = 3;

/// An object as all projects have it, but for uid and time.
struct Template {
    namespace: String,
    name: String,
    object: Value,
}

/// See the module.
pub(super) struct Defaults {
    by_resource: HashMap<GroupResource, Arc<Vec<Template>>>,
    /// The default roles and bindings, indexed.
    pub roles: Rbac,
}

impl Defaults {
    /// `root_ca` vouches for the server; it is published in every namespace.
    pub fn new(root_ca: &str) -> Self {
        let mut by_resource: HashMap<GroupResource, Vec<Template>> = HashMap::new();
        let mut add = |group: &str, plural: &str, object: Value| {
            let resource = GroupResource { group: group.to_owned(), resource: plural.to_owned() };
            let (namespace, name) = (object::namespace(&object).to_owned(), object::name(&object).to_owned());
            by_resource.entry(resource).or_default().push(Template { namespace, name, object });
        };
        for name in SYSTEM_NAMESPACES {
            add("", "namespaces", namespace(name));
            add("", "serviceaccounts", account(name));
            add("", "configmaps", ca_bundle(name, root_ca));
        }
        let roles = Rbac::default();
        for DefaultObject { kind, object, .. } in roles_and_bindings() {
            roles.apply(kind, Change::Stored(&object));
            add(RbacKind::GROUP, kind.plural(), object);
        }
        Self { by_resource: by_resource.into_iter().map(|(key, all)| (key, Arc::new(all))).collect(), roles }
    }

    /// What a project has of a resource from the start, under the keys that begin with `prefix`.
    pub fn of(&self, resource: &GroupResource, prefix: Bytes, project: &Project) -> Option<Arc<BaseObjects>> {
        let templates = self.by_resource.get(resource)?.clone();
        let (uid, created) = (project.uid.clone(), project.created.clone());
        let resource = resource.to_string();
        let make = move || {
            let entry = |template: &Template| {
                let place = match template.namespace.as_str() {
                    "" => template.name.clone(),
                    namespace => format!("{namespace}/{}", template.name),
                };
                let mut object = template.object.clone();
                if let Some(metadata) = object::metadata_mut(&mut object) {
                    metadata.insert("uid".into(), derived_uid(&uid, &resource, &place).into());
                    metadata.insert("creationTimestamp".into(), created.as_str().into());
                }
                let key: Bytes = [&prefix, place.as_bytes()].concat().into();
                (key, encode_for_storage(&object).into())
            };
            templates.iter().map(entry).collect()
        };
        Some(Arc::new(BaseObjects::new(project.revision, make)))
    }
}

/// The uid of an object that nobody created.
fn derived_uid(project: &str, resource: &str, place: &str) -> String {
    let digest: [u8; 32] = Sha256::digest(format!("{project}/{resource}/{place}")).into();
    let [bytes @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] = digest;
    uuid::Builder::from_sha1_bytes(bytes).into_uuid().to_string()
}

fn namespace(name: &str) -> Value {
    json!({
        "kind": "Namespace", "apiVersion": "v1",
        "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
        "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"},
    })
}

fn account(namespace: &str) -> Value {
    json!({"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": "default", "namespace": namespace}})
}

fn ca_bundle(namespace: &str, bundle: &str) -> Value {
    let description = "The CA that vouches for the certificate of this API server.";
    json!({
        "kind": "ConfigMap", "apiVersion": "v1",
        "metadata": {
            "name": "kube-root-ca.crt", "namespace": namespace,
            "annotations": {"kubernetes.io/description": description},
        },
        "data": {"ca.crt": bundle},
    })
}

/// Upstream's default roles and bindings with their gathered rules, and the binding of those whom the root makes
/// administrators.
fn roles_and_bindings() -> Vec<DefaultObject> {
    let mut all = defaults::objects();
    for _ in 0..GATHERING_ROUNDS {
        gather(&mut all);
    }
    let mut trusted = json!({
        "kind": "ClusterRoleBinding", "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": {"name": PROJECT_ADMINS},
        "roleRef": {"apiGroup": RbacKind::GROUP, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": RbacKind::GROUP, "kind": "Group", "name": PROJECT_ADMINS}],
    });
    trusted["metadata"]["annotations"] = json!({"kubernetes.io/description": "Whom the root control plane grants \
        `admin` on this project. Delete it to keep them out."});
    all.push(DefaultObject {
        kind: RbacKind::ClusterRoleBinding,
        namespace: String::new(),
        name: PROJECT_ADMINS.to_owned(),
        object: trusted,
    });
    all
}

/// Gives roles that gather others what they gather, in the controller's order: it must find nothing to do.
fn gather(all: &mut [DefaultObject]) {
    let mut sources: Vec<(String, Value, Value)> = all
        .iter()
        .filter(|object| object.kind == RbacKind::ClusterRole)
        .map(|object| {
            let labels = object.object["metadata"]["labels"].clone();
            (object.name.clone(), labels, object.object["rules"].clone())
        })
        .collect();
    sources.sort_by(|a, b| a.0.cmp(&b.0));
    for object in all.iter_mut() {
        let Some(selectors) = object.object["aggregationRule"]["clusterRoleSelectors"].as_array() else { continue };
        let mut rules: Vec<Value> = Vec::new();
        for selector in selectors {
            let wanted = selector["matchLabels"].as_object();
            let chosen =
                |labels: &Value| wanted.is_some_and(|all| all.iter().all(|(key, value)| labels[key] == *value));
            for (_, _, source) in sources.iter().filter(|(name, labels, _)| *name != object.name && chosen(labels)) {
                for rule in source.as_array().into_iter().flatten() {
                    if !rules.contains(rule) {
                        rules.push(rule.clone());
                    }
                }
            }
        }
        object.object["rules"] = rules.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bailiwick_store::Revision;

    fn project(uid: &str) -> Project {
        let created = "2026-01-02T03:04:05Z".to_owned();
        Project { name: "p".to_owned(), uid: uid.to_owned(), created, revision: Revision(7) }
    }

    #[test]
    fn gathering_roles_have_the_rules_of_those_they_gather() {
        let all = roles_and_bindings();
        let rules = |name: &str| {
            let found = all.iter().find(|object| object.name == name && object.kind == RbacKind::ClusterRole);
            found.and_then(|object| object.object["rules"].as_array()).map_or(0, Vec::len)
        };
        assert!(rules("view") > 0 && rules("edit") > rules("view") && rules("admin") > rules("edit"));
    }

    #[test]
    fn uids_are_the_same_every_time_and_differ_between_projects() {
        let defaults = Defaults::new("PEM");
        let resource = GroupResource { group: String::new(), resource: "namespaces".to_owned() };
        let of = |uid: &str| {
            let base = defaults.of(&resource, Bytes::from_static(b"p/core/namespaces/"), &project(uid)).expect("some");
            assert!(base.contains(b"p/core/namespaces/default"));
            derived_uid(uid, "namespaces", "default")
        };
        assert_eq!(of("a"), of("a"));
        assert_ne!(of("a"), of("b"));
    }
}
