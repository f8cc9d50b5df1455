//! Role-based access control from stored roles and bindings.
//!
//! An [index] by subject, kept up to date object by object: a decision looks only at bindings that name the user or one of
//! the groups, however many others exist, and at no lock. The server calls [`Rbac::apply`] as it commits a change, so a
//! binding holds on the next request. A ClusterRole's `rules` are taken as stored; aggregation fills them elsewhere.

mod binding;
mod explain;
mod index;
mod lookup;
mod role;

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arc_swap::ArcSwap;
use bailiwick_machinery::UserInfo;
use bailiwick_machinery::object::{name as object_name, namespace as object_namespace};
use serde_json::Value;

use self::binding::{Binding, RoleKey, Subject};
use self::index::{Index, Searched, namespace_of};
use self::role::Role;
use super::explain::Step;
use super::{Attributes, Authorizer, Decision, PolicyRule, Reason, Rules};
use crate::go_format::aggregate;

/// The four kinds that make up RBAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RbacKind {
    Role,
    ClusterRole,
    RoleBinding,
    ClusterRoleBinding,
}

impl RbacKind {
    /// The API group of all four.
    pub const GROUP: &'static str = "rbac.authorization.k8s.io";

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

    /// The resource it is stored under.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Role => "roles",
            Self::ClusterRole => "clusterroles",
            Self::RoleBinding => "rolebindings",
            Self::ClusterRoleBinding => "clusterrolebindings",
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
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    index: ArcSwap<Index>,
    /// Held while the next index is made.
    writing: Mutex<()>,
}

/// Names the binding that allowed a request, in words once somebody asks for them.
#[derive(Clone, Debug)]
pub struct GrantReason {
    binding: Arc<Binding>,
    subject: Subject,
    text: OnceLock<Box<str>>,
}

impl GrantReason {
    /// The words.
    pub fn as_str(&self) -> &str {
        self.text.get_or_init(|| self.binding.reason(&self.subject).into())
    }
}

/// What a user holds.
#[derive(Clone, Debug, Default)]
pub struct Held {
    pub rules: Vec<Arc<PolicyRule>>,
    /// Roles the user is bound to that do not exist.
    pub unresolved: Vec<Unresolved>,
}

/// A role that a binding refers to cannot be resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unresolved {
    /// There is no such role; where it was looked for and its name.
    NotFound { kind: RbacKind, name: String },
    /// A kind that no role has.
    UnsupportedKind(String),
}

impl Rbac {
    /// Takes over one change.
    pub fn apply(&self, kind: RbacKind, change: Change<'_>) {
        let _writing = self.shared.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut index = Index::clone(&self.shared.index.load());
        match (kind, change) {
            (RbacKind::Role | RbacKind::ClusterRole, Change::Stored(object)) => {
                index.put_role(object_namespace(object), object_name(object), Role::of(object));
            }
            (RbacKind::Role | RbacKind::ClusterRole, Change::Deleted { namespace, name }) => {
                index.remove_role(namespace, name);
            }
            (RbacKind::RoleBinding | RbacKind::ClusterRoleBinding, Change::Stored(object)) => {
                index.put_binding(Binding::of(object));
            }
            (RbacKind::RoleBinding | RbacKind::ClusterRoleBinding, Change::Deleted { namespace, name }) => {
                index.remove_binding(namespace, name);
            }
        }
        self.shared.index.store(Arc::new(index));
    }

    /// A copy that goes its own way from here on. What neither changes is shared.
    pub fn fork(&self) -> Self {
        let index = ArcSwap::new(self.shared.index.load_full());
        Self { shared: Arc::new(Shared { index, writing: Mutex::default() }) }
    }

    /// Whether any binding, of the cluster or of a namespace, names the user or a group of theirs that not everybody is in.
    pub fn names(&self, user: &UserInfo) -> bool {
        self.shared.index.load().names(user)
    }

    /// The rules of the role that a binding in `namespace` (empty for the cluster) refers to.
    pub fn role_rules(&self, kind: &str, name: &str, namespace: &str) -> Result<Vec<Arc<PolicyRule>>, Unresolved> {
        let key = RoleKey::new(kind, name);
        match self.shared.index.load().role(&key, namespace) {
            Some(role) => Ok(role.rules.clone()),
            None => Err(Unresolved::from(&key)),
        }
    }

    /// Everything the user holds in `namespace`, or cluster-wide if it is empty.
    pub fn held_by(&self, user: &UserInfo, namespace: &str) -> Held {
        Held::of(&self.shared.index.load(), user, namespace)
    }
}

impl Held {
    fn of(index: &Index, user: &UserInfo, namespace: &str) -> Self {
        let mut held = Held::default();
        for (binding, _) in index.applying(user, namespace) {
            match index.role(&binding.role, &binding.namespace) {
                Some(role) => held.rules.extend(role.rules.iter().cloned()),
                None => held.unresolved.push(Unresolved::from(&binding.role)),
            }
        }
        held
    }
}

impl From<&RoleKey> for Unresolved {
    fn from(key: &RoleKey) -> Self {
        match key {
            RoleKey::Role(name) => Self::NotFound { kind: RbacKind::Role, name: name.as_ref().to_owned() },
            RoleKey::ClusterRole(name) => {
                Self::NotFound { kind: RbacKind::ClusterRole, name: name.as_ref().to_owned() }
            }
            RoleKey::Unsupported(kind) => Self::UnsupportedKind(kind.as_ref().to_owned()),
        }
    }
}

/// As decisions word it.
impl fmt::Display for Unresolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { kind: RbacKind::Role, name } => {
                write!(f, "role.rbac.authorization.k8s.io {name:?} not found")
            }
            Self::NotFound { name, .. } => write!(f, "clusterrole.rbac.authorization.k8s.io {name:?} not found"),
            Self::UnsupportedKind(kind) => write!(f, "unsupported role reference kind: {kind:?}"),
        }
    }
}

impl Authorizer for Rbac {
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        let index = self.shared.index.load();
        match index.search(attributes) {
            Searched::Allowed(allowed) => Decision::Allow(Reason::Granted(Box::new(GrantReason {
                binding: allowed.binding.clone(),
                subject: allowed.binding.applying(attributes.user, allowed.found),
                text: OnceLock::new(),
            }))),
            Searched::Nothing => Decision::NoOpinion(Reason::None),
            Searched::Incomplete => {
                let held = Held::of(&index, attributes.user, namespace_of(attributes));
                let errors: Vec<String> = held.unresolved.iter().map(Unresolved::to_string).collect();
                Decision::NoOpinion(Reason::Owned(format!("RBAC: {}", aggregate(&errors))))
            }
        }
    }

    fn rules_for(&self, user: &UserInfo, namespace: &str, rules: &mut Rules) {
        let held = self.held_by(user, namespace);
        rules.rules.extend(held.rules);
        rules.errors.extend(held.unresolved.iter().map(Unresolved::to_string));
    }

    fn explain(&self, attributes: &Attributes<'_>) -> Step {
        explain::explain(&self.shared.index.load(), attributes)
    }
}

#[cfg(test)]
mod tests;
