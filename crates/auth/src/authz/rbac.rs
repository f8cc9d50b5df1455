//! Role-based access control from stored roles and bindings.
//!
//! An index by subject, kept up to date object by object: a decision looks only at bindings that name the user or one
//! of the groups, however many others exist. The server calls [`Rbac::apply`] as it commits a change, so a binding
//! holds on the next request. A ClusterRole's `rules` are taken as stored; aggregation fills them elsewhere.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

use bailiwick_machinery::UserInfo;
use bailiwick_machinery::object::{at, name as object_name, namespace as object_namespace, str_at};
use serde_json::Value;

use super::{Attributes, Authorizer, Decision, PolicyRule, Reason, Rules, Target};
use crate::go_format::aggregate;
use crate::service_account;

/// The four kinds that make up RBAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RbacKind {
    Role,
    ClusterRole,
    RoleBinding,
    ClusterRoleBinding,
}

impl RbacKind {
    /// The kind stored under a resource of `rbac.authorization.k8s.io`.
    pub fn from_plural(plural: &str) -> Option<Self> {
        match plural {
            "roles" => Some(Self::Role),
            "clusterroles" => Some(Self::ClusterRole),
            "rolebindings" => Some(Self::RoleBinding),
            "clusterrolebindings" => Some(Self::ClusterRoleBinding),
            _ => None,
        }
    }
}

/// A change to one stored object.
#[derive(Clone, Copy, Debug)]
pub enum Change<'a> {
    /// Created or updated to this.
    Stored(&'a Value),
    Deleted {
        namespace: &'a str,
        name: &'a str,
    },
}

/// The authorizer and its index. Cloning shares the index.
#[derive(Clone, Default)]
pub struct Rbac {
    index: Arc<RwLock<Index>>,
}

impl Rbac {
    /// Takes over one change.
    pub fn apply(&self, kind: RbacKind, change: Change<'_>) {
        let (namespace, name) = match change {
            Change::Stored(object) => (object_namespace(object), object_name(object)),
            Change::Deleted { namespace, name } => (namespace, name),
        };
        // Changes are applied by plain inserts and removes, so a poisoned index is still whole.
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        match (kind, change) {
            (RbacKind::Role | RbacKind::ClusterRole, Change::Stored(object)) => {
                index.roles.entry(namespace.to_owned()).or_default().insert(name.to_owned(), rules_of(object));
            }
            (RbacKind::Role | RbacKind::ClusterRole, Change::Deleted { .. }) => {
                if let Some(roles) = index.roles.get_mut(namespace) {
                    roles.remove(name);
                    if roles.is_empty() {
                        index.roles.remove(namespace);
                    }
                }
            }
            (RbacKind::RoleBinding | RbacKind::ClusterRoleBinding, change) => {
                let bindings = index.bindings.entry(namespace.to_owned()).or_default();
                bindings.remove(name);
                if let Change::Stored(object) = change {
                    bindings.insert(namespace, name, object);
                }
                if bindings.subjects_of.is_empty() {
                    index.bindings.remove(namespace);
                }
            }
        }
    }
}

type RoleRules = Arc<[Arc<PolicyRule>]>;

/// Both maps are keyed by namespace, which is empty for cluster-wide objects.
#[derive(Default)]
struct Index {
    roles: HashMap<String, HashMap<String, RoleRules>>,
    bindings: HashMap<String, Bindings>,
}

/// The bindings of one namespace, by whom they name.
#[derive(Default)]
struct Bindings {
    users: HashMap<String, BTreeMap<Arc<str>, Grant>>,
    groups: HashMap<String, BTreeMap<Arc<str>, Grant>>,
    /// Where a binding stands in the two above.
    subjects_of: HashMap<Arc<str>, Vec<Subject>>,
}

/// A role given to one subject by one binding.
struct Grant {
    role_kind: String,
    role_name: String,
    /// Ready to be given as a reason.
    reason: Arc<str>,
}

#[derive(Clone, PartialEq, Eq)]
enum Subject {
    User(String),
    Group(String),
}

impl Bindings {
    fn remove(&mut self, binding: &str) {
        for subject in self.subjects_of.remove(binding).unwrap_or_default() {
            let (map, key) = match &subject {
                Subject::User(user) => (&mut self.users, user),
                Subject::Group(group) => (&mut self.groups, group),
            };
            if let Some(grants) = map.get_mut(key) {
                grants.remove(binding);
                if grants.is_empty() {
                    map.remove(key);
                }
            }
        }
    }

    fn insert(&mut self, namespace: &str, binding: &str, object: &Value) {
        let binding: Arc<str> = binding.into();
        let (role_kind, role_name) = (str_at(object, &["roleRef", "kind"]), str_at(object, &["roleRef", "name"]));
        let source = if namespace.is_empty() {
            format!("ClusterRoleBinding {binding:?}")
        } else {
            format!("RoleBinding {:?}", format!("{binding}/{namespace}"))
        };
        let mut subjects = Vec::new();
        let list = object.get("subjects").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        for entry in list {
            let Some((subject, description)) = subject(entry, namespace) else { continue };
            if subjects.contains(&subject) {
                continue;
            }
            let (map, key) = match &subject {
                Subject::User(user) => (&mut self.users, user),
                Subject::Group(group) => (&mut self.groups, group),
            };
            let reason = format!("RBAC: allowed by {source} of {role_kind} {role_name:?} to {description}");
            let grant =
                Grant { role_kind: role_kind.to_owned(), role_name: role_name.to_owned(), reason: reason.into() };
            map.entry(key.clone()).or_default().insert(binding.clone(), grant);
            subjects.push(subject);
        }
        self.subjects_of.insert(binding, subjects);
    }

    /// The grants that name the user or one of the user's groups.
    fn grants<'a>(&'a self, user: &'a UserInfo) -> impl Iterator<Item = &'a Grant> {
        let by_name = self.users.get(&user.name);
        let by_group = user.groups.iter().filter_map(|group| self.groups.get(group));
        by_name.into_iter().chain(by_group).flat_map(BTreeMap::values)
    }
}

/// A subject as users are known, and as messages describe it. A service account is a user of a certain name.
fn subject(entry: &Value, binding_namespace: &str) -> Option<(Subject, String)> {
    let (kind, name) = (str_at(entry, &["kind"]), str_at(entry, &["name"]));
    match kind {
        "User" => Some((Subject::User(name.to_owned()), format!("User {name:?}"))),
        "Group" => Some((Subject::Group(name.to_owned()), format!("Group {name:?}"))),
        "ServiceAccount" => {
            let namespace = Some(str_at(entry, &["namespace"])).filter(|n| !n.is_empty()).unwrap_or(binding_namespace);
            let description = format!("ServiceAccount {:?}", format!("{name}/{namespace}"));
            (!namespace.is_empty()).then(|| (Subject::User(service_account::username(namespace, name)), description))
        }
        _ => None,
    }
}

fn rules_of(role: &Value) -> RoleRules {
    let rules = at(role, &["rules"]).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    // Stored roles were validated; a rule that still does not read grants nothing.
    rules.iter().filter_map(|rule| serde_json::from_value(rule.clone()).ok()).map(Arc::new).collect()
}

impl Index {
    /// Visits what is granted to the user, cluster-wide first, until `visit` breaks off. Grants whose role is missing
    /// are errors in upstream's words.
    fn visit<'a>(
        &'a self,
        user: &'a UserInfo,
        namespace: &str,
        mut visit: impl FnMut(&'a Grant, Result<&'a RoleRules, String>) -> std::ops::ControlFlow<()>,
    ) {
        let scopes = ["", namespace];
        let scopes = if namespace.is_empty() { &scopes[..1] } else { &scopes[..] };
        for scope in scopes {
            let Some(bindings) = self.bindings.get(*scope) else { continue };
            for grant in bindings.grants(user) {
                if visit(grant, self.role(grant, scope)).is_break() {
                    return;
                }
            }
        }
    }

    fn role(&self, grant: &Grant, binding_namespace: &str) -> Result<&RoleRules, String> {
        let (namespace, singular) = match grant.role_kind.as_str() {
            "Role" => (binding_namespace, "role"),
            "ClusterRole" => ("", "clusterrole"),
            other => return Err(format!("unsupported role reference kind: {other:?}")),
        };
        self.roles
            .get(namespace)
            .and_then(|roles| roles.get(&grant.role_name))
            .ok_or_else(|| format!("{singular}.rbac.authorization.k8s.io {:?} not found", grant.role_name))
    }
}

impl Authorizer for Rbac {
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        let namespace = match &attributes.target {
            Target::Resource(target) => target.namespace,
            Target::Path(_) => "",
        };
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        let mut allowed = None;
        let mut errors = Vec::new();
        index.visit(attributes.user, namespace, |grant, role| {
            match role {
                Ok(rules) if rules.iter().any(|rule| rule.allows(attributes)) => {
                    allowed = Some(grant.reason.clone());
                    return std::ops::ControlFlow::Break(());
                }
                Ok(_) => {}
                Err(error) => errors.push(error),
            }
            std::ops::ControlFlow::Continue(())
        });
        match allowed {
            Some(reason) => Decision::Allow(Reason::Shared(reason)),
            None if errors.is_empty() => Decision::NoOpinion(Reason::None),
            None => Decision::NoOpinion(Reason::Owned(format!("RBAC: {}", aggregate(&errors)))),
        }
    }

    fn rules_for(&self, user: &UserInfo, namespace: &str, rules: &mut Rules) {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        index.visit(user, namespace, |_, role| {
            match role {
                Ok(found) => rules.rules.extend(found.iter().cloned()),
                Err(error) => rules.errors.push(error),
            }
            std::ops::ControlFlow::Continue(())
        });
    }
}

#[cfg(test)]
mod tests;
