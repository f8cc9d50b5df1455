//! A binding, and how its grants are described.

use std::fmt;
use std::sync::Arc;

use bailiwick_machinery::UserInfo;
use bailiwick_machinery::object::{name as object_name, namespace as object_namespace, str_at};
use serde_json::Value;

use crate::service_account;

/// Bindings name their subjects in an order, and the first that applies is the one a decision names. In bindings of more
/// subjects than this the one that was found is named instead; both are true.
const ORDERED_SUBJECTS_MAX: usize = 32;

/// The role a binding refers to, seen from the binding's namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum RoleKey {
    Role(Arc<str>),
    ClusterRole(Arc<str>),
    /// A kind that no role has.
    Unsupported(Arc<str>),
}

impl RoleKey {
    pub fn new(kind: &str, name: &str) -> Self {
        match kind {
            "Role" => Self::Role(name.into()),
            "ClusterRole" => Self::ClusterRole(name.into()),
            other => Self::Unsupported(other.into()),
        }
    }

    pub fn kind(&self) -> &str {
        match self {
            Self::Role(_) => "Role",
            Self::ClusterRole(_) => "ClusterRole",
            Self::Unsupported(kind) => kind,
        }
    }

    pub fn name(&self) -> &str {
        match self {
            Self::Role(name) | Self::ClusterRole(name) => name,
            Self::Unsupported(_) => "",
        }
    }
}

/// Whom a binding names. A service account is known by its user name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    User(Arc<str>),
    Group(Arc<str>),
    ServiceAccount(Arc<str>),
}

impl Subject {
    fn of(entry: &Value, binding_namespace: &str) -> Option<Self> {
        let (kind, name) = (str_at(entry, &["kind"]), str_at(entry, &["name"]));
        match kind {
            "User" => Some(Self::User(name.into())),
            "Group" => Some(Self::Group(name.into())),
            "ServiceAccount" => {
                let namespace =
                    Some(str_at(entry, &["namespace"])).filter(|n| !n.is_empty()).unwrap_or(binding_namespace);
                (!namespace.is_empty()).then(|| Self::ServiceAccount(service_account::username(namespace, name).into()))
            }
            _ => None,
        }
    }

    fn applies_to(&self, user: &UserInfo) -> bool {
        match self {
            Self::User(name) | Self::ServiceAccount(name) => **name == *user.name,
            Self::Group(group) => user.in_group(group),
        }
    }
}

/// As decisions write it: a service account by name and namespace.
impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(name) => write!(f, "User {name:?}"),
            Self::Group(name) => write!(f, "Group {name:?}"),
            Self::ServiceAccount(user) => {
                let (namespace, name) = service_account::split_username(user).unwrap_or_default();
                write!(f, "ServiceAccount {:?}", format!("{name}/{namespace}"))
            }
        }
    }
}

/// By which part of the user's identity a binding was found.
#[derive(Clone, Copy, Debug)]
pub(super) enum Found<'a> {
    User(&'a str),
    Group(&'a str),
}

/// A RoleBinding, or with an empty namespace a ClusterRoleBinding.
#[derive(Debug)]
pub struct Binding {
    pub(super) namespace: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) role: RoleKey,
    pub(super) subjects: Vec<Subject>,
}

impl Binding {
    pub(super) fn of(object: &Value) -> Self {
        let namespace = object_namespace(object);
        let subjects = object.get("subjects").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        Self {
            namespace: namespace.into(),
            name: object_name(object).into(),
            role: RoleKey::new(str_at(object, &["roleRef", "kind"]), str_at(object, &["roleRef", "name"])),
            subjects: subjects.iter().filter_map(|entry| Subject::of(entry, namespace)).collect(),
        }
    }

    pub(super) fn kind(&self) -> &'static str {
        if self.namespace.is_empty() { "ClusterRoleBinding" } else { "RoleBinding" }
    }

    /// Whether the binding applies to the user.
    pub(super) fn names(&self, user: &UserInfo) -> bool {
        self.subjects.iter().any(|subject| subject.applies_to(user))
    }

    /// The subject by which the binding applies to the user; `found` is one that does.
    pub(super) fn applying(&self, user: &UserInfo, found: Found<'_>) -> Subject {
        let in_order = self.subjects.iter().take(ORDERED_SUBJECTS_MAX).find(|subject| subject.applies_to(user));
        in_order.cloned().unwrap_or_else(|| match found {
            Found::Group(group) => Subject::Group(group.into()),
            Found::User(name) if service_account::split_username(name).is_some() => {
                Subject::ServiceAccount(name.into())
            }
            Found::User(name) => Subject::User(name.into()),
        })
    }

    /// The reason of a decision that this binding allows.
    pub(super) fn reason(&self, subject: &Subject) -> String {
        let name = match &*self.namespace {
            "" => format!("{:?}", self.name),
            namespace => format!("{:?}", format!("{}/{namespace}", self.name)),
        };
        let (role, kind) = (&self.role, self.kind());
        format!("RBAC: allowed by {kind} {name} of {} {:?} to {subject}", role.kind(), role.name())
    }
}
