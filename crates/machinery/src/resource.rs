//! Resource descriptors: all the generic handler knows about a type. Native types and custom resources are the same to it.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use bailiwick_schema::types::Type;
use serde_json::Value;

use crate::custom::CustomType;
use crate::strategy::Strategy;
use crate::table::TableConvertor;

/// An API group and one of its versions; the core group is the empty string.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersion {
    pub group: String,
    pub version: String,
}

impl GroupVersion {
    pub fn new(group: impl Into<String>, version: impl Into<String>) -> Self {
        Self { group: group.into(), version: version.into() }
    }

    /// Parses an `apiVersion`; `None` when it has more than one slash.
    pub fn parse(api_version: &str) -> Option<Self> {
        match api_version.split_once('/') {
            None => Some(Self::new("", api_version)),
            Some((_, version)) if version.contains('/') => None,
            Some((group, version)) => Some(Self::new(group, version)),
        }
    }
}

/// As `apiVersion` fields write it.
impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() { f.write_str(&self.version) } else { write!(f, "{}/{}", self.group, self.version) }
    }
}

/// A kind in a version of a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersionKind {
    pub group: String,
    pub version: String,
    pub kind: String,
}

/// A kind regardless of version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKind {
    pub group: String,
    pub kind: String,
}

/// Written `Kind.group`, as error messages do.
impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() { f.write_str(&self.kind) } else { write!(f, "{}.{}", self.kind, self.group) }
    }
}

/// A resource (plural, lower case) regardless of version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupResource {
    pub group: String,
    pub resource: String,
}

/// Written `resources.group`, as error messages do.
impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() { f.write_str(&self.resource) } else { write!(f, "{}.{}", self.resource, self.group) }
    }
}

/// Whether objects live in namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Namespaced,
    Cluster,
}

/// A field that field selectors may name besides `metadata.name` and `metadata.namespace`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectableField {
    /// As selectors write it: `involvedObject.kind`.
    pub name: String,
    /// Where the value is found in the stored object. Absent is the empty string; booleans and numbers print as JSON.
    pub path: Vec<String>,
    /// Where it is looked for next when `path` leads to the empty string; empty for nowhere.
    pub fallback: Vec<String>,
}

impl SelectableField {
    /// A field whose selector name is its path.
    pub fn at(name: &str) -> Self {
        Self::stored_at(name, name)
    }

    /// A field that selectors name one way and the stored object another.
    pub fn stored_at(name: &str, path: &str) -> Self {
        Self { name: name.to_owned(), path: path.split('.').map(str::to_owned).collect(), fallback: Vec::new() }
    }

    /// With a second place to look when the first is empty.
    pub fn or_at(mut self, path: &str) -> Self {
        self.fallback = path.split('.').map(str::to_owned).collect();
        self
    }

    /// The value selectors compare with.
    pub fn value<'a>(&self, object: &'a Value) -> Cow<'a, str> {
        match text_at(object, &self.path) {
            empty if empty.is_empty() && !self.fallback.is_empty() => text_at(object, &self.fallback),
            found => found,
        }
    }
}

fn text_at<'a>(object: &'a Value, path: &[String]) -> Cow<'a, str> {
    match path.iter().try_fold(object, |value, key| value.get(key)) {
        None | Some(Value::Null) => Cow::Borrowed(""),
        Some(Value::String(text)) => Cow::Borrowed(text),
        Some(other) => Cow::Owned(other.to_string()),
    }
}

/// A view on an object with rules of its own: `status`, `scale`, `approval`, `finalize`, `token`.
#[derive(Clone)]
pub struct Subresource {
    pub name: String,
    /// The kind it speaks, when that is not the resource's own (`Scale`, `TokenRequest`).
    pub kind: Option<GroupVersionKind>,
    pub verbs: Vec<&'static str>,
    /// The rules of updates through it. Ignored where a special handler serves the subresource (`token`).
    pub strategy: Arc<dyn Strategy>,
}

/// How objects of a resource are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Storage {
    /// In the store, under this group and resource. Two resources may share storage (core and events.k8s.io Events):
    /// then all but one convert through [`Strategy::to_storage`] and [`Strategy::from_storage`].
    Stored(GroupResource),
    /// Not at all: a request answered when posted (reviews).
    Virtual,
}

/// Everything the generic handler needs to serve one resource in one version.
#[derive(Clone)]
pub struct Resource {
    pub group: String,
    pub version: String,
    pub kind: String,
    /// Almost always `kind` + `List`.
    pub list_kind: String,
    /// Lower-case plural: the path segment.
    pub plural: String,
    pub singular: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub scope: Scope,
    pub verbs: Vec<&'static str>,
    pub storage: Storage,
    /// The native type; `None` for custom resources, which carry a structural schema instead.
    pub native: Option<&'static Type>,
    /// What a custom resource has instead of a native type.
    pub custom: Option<Arc<CustomType>>,
    pub strategy: Arc<dyn Strategy>,
    pub table: Arc<dyn TableConvertor>,
    pub selectable_fields: Vec<SelectableField>,
    pub subresources: Vec<Subresource>,
}

/// The verbs of an ordinary stored resource.
pub const ALL_VERBS: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

impl Resource {
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(&self.group, &self.version)
    }

    pub fn group_resource(&self) -> GroupResource {
        GroupResource { group: self.group.clone(), resource: self.plural.clone() }
    }

    pub fn group_kind(&self) -> GroupKind {
        GroupKind { group: self.group.clone(), kind: self.kind.clone() }
    }

    /// The kind as validation errors name it: two resources over one storage share the storage's group.
    pub fn validated_kind(&self) -> GroupKind {
        match &self.storage {
            Storage::Stored(stored) => GroupKind { group: stored.group.clone(), kind: self.kind.clone() },
            Storage::Virtual => self.group_kind(),
        }
    }

    /// The kind as upstream's internal types are called: `core.ConfigMap`, `rbac.Role`.
    pub fn go_name(&self) -> String {
        go_name(&self.validated_kind().group, &self.kind)
    }

    /// The `apiVersion` of its objects.
    pub fn api_version(&self) -> String {
        self.group_version().to_string()
    }

    pub fn namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }
}

/// A kind as upstream's internal types are called, which some error messages show.
pub fn go_name(group: &str, kind: &str) -> String {
    let package = match group {
        "" | "events.k8s.io" => "core",
        named => named.split('.').next().unwrap_or_default(),
    };
    format!("{package}.{kind}")
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Resource({}/{}, {})", self.group, self.version, self.plural)
    }
}
