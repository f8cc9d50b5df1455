//! A request as admission sees it.

use bailiwick_machinery::object::{meta_str, name as object_name};
use bailiwick_machinery::{ApiError, Resource, UserInfo};
use serde_json::Value;

/// What is being done to the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

/// Whether anything will be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DryRun {
    No,
    /// Everything is checked and nothing kept: plugins must have no side effects.
    Yes,
}

/// One write.
#[derive(Debug)]
pub struct Attributes<'a> {
    pub operation: Operation,
    pub resource: &'a Resource,
    /// Empty for the resource itself.
    pub subresource: &'a str,
    /// Empty on a create by `generateName` whose name is not made yet.
    pub name: &'a str,
    /// Empty for cluster-scoped resources.
    pub namespace: &'a str,
    /// The new object; none on delete.
    pub object: Option<&'a mut Value>,
    /// The stored object; none on create.
    pub old_object: Option<&'a Value>,
    pub user: &'a UserInfo,
    pub dry_run: DryRun,
    /// CreateOptions, UpdateOptions, PatchOptions or DeleteOptions; null where there are none.
    pub options: &'a Value,
}

impl Attributes<'_> {
    /// Whether this is about the kind `group/kind`, whatever the version.
    pub fn is_kind(&self, group: &str, kind: &str) -> bool {
        self.resource.group == group && self.resource.kind == kind
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
