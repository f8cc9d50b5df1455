//! A request as admission sees it.

use std::sync::OnceLock;
use std::time::Instant;

use bailiwick_machinery::object::{meta_str, name as object_name};
use bailiwick_machinery::{ApiError, Resource, UserInfo};
use serde_json::Value;

use crate::host::{Equivalent, Host};
use crate::notes::Notes;
use crate::options::OperationOptions;
use crate::reinvocation::Reinvocation;

/// What is being done to the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

impl Operation {
    /// As rules and reviews name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// Whether anything will be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DryRun {
    No,
    /// Everything is checked and nothing kept: plugins must have no side effects.
    Yes,
}

/// A kind in a version, borrowed from whoever serves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindRef<'a> {
    pub group: &'a str,
    pub version: &'a str,
    pub kind: &'a str,
}

impl KindRef<'_> {
    /// The `apiVersion` of objects of this kind.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }
}

/// A resource in a version, borrowed from whoever serves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceRef<'a> {
    pub group: &'a str,
    pub version: &'a str,
    pub resource: &'a str,
}

/// One write. What only some plugins need is worked out when they ask.
pub struct Attributes<'a> {
    pub operation: Operation,
    /// The resource in the version the client speaks.
    pub resource: &'a Resource,
    /// Empty for the resource itself.
    pub subresource: &'a str,
    /// The kind of the object: the resource's own, or that of the subresource (Scale, TokenRequest).
    pub kind: KindRef<'a>,
    /// Empty on a create by `generateName` whose name is not made yet, and when a collection is deleted.
    pub name: &'a str,
    /// Empty for cluster-scoped resources, but a Namespace is in itself.
    pub namespace: &'a str,
    /// The new object; none on delete.
    pub object: Option<&'a mut Value>,
    /// The stored object in the version the client speaks; none on create.
    pub old_object: Option<&'a Value>,
    pub user: &'a UserInfo,
    pub dry_run: DryRun,
    /// CreateOptions, UpdateOptions or DeleteOptions.
    pub options: OperationOptions<'a>,
    /// Where advice to the client and annotations of the audit event go.
    pub notes: &'a Notes,
    /// What the server does for admission.
    pub host: &'a dyn Host,
    /// When the client has its answer at the latest.
    pub deadline: Instant,
    /// How far the first round has come.
    pub reinvocation: Reinvocation,
    /// See [`Attributes::equivalents`]; starts out empty.
    pub equivalents: EquivalentsCell,
}

/// The other versions of a resource, once somebody has asked for them.
#[derive(Debug, Default)]
pub struct EquivalentsCell(OnceLock<Vec<Equivalent>>);

impl Attributes<'_> {
    /// Whether this is about the kind `group/kind`, whatever the version.
    pub fn is_kind(&self, group: &str, kind: &str) -> bool {
        self.kind.group == group && self.kind.kind == kind
    }

    /// The resource in the version the client speaks.
    pub fn resource_ref(&self) -> ResourceRef<'_> {
        let resource = self.resource;
        ResourceRef { group: &resource.group, version: &resource.version, resource: &resource.plural }
    }

    /// The same objects under other versions or groups, asked of the host once.
    pub fn equivalents(&self) -> &[Equivalent] {
        self.equivalents.0.get_or_init(|| self.host.equivalents())
    }

    /// The name by which messages call the object.
    pub fn display_name(&self) -> &str {
        if !self.name.is_empty() {
            return self.name;
        }
        let Some(object) = self.object.as_deref() else { return "Unknown" };
        [object_name(object), meta_str(object, "generateName")].into_iter().find(|n| !n.is_empty()).unwrap_or("Unknown")
    }
}

/// The 403 of a plugin that refuses.
pub fn forbidden(attributes: &Attributes<'_>, detail: &str) -> ApiError {
    ApiError::forbidden(&attributes.resource.group_resource(), attributes.display_name(), detail)
}
