//! What the server does for admission: it knows the versions of resources, decodes what plugins made of an object and
//! decides about access.

use std::sync::Arc;

use async_trait::async_trait;
use bailiwick_auth::authz;
use bailiwick_cel::library::Authorizer;
use bailiwick_machinery::resource::{GroupVersion, GroupVersionKind};
use bailiwick_machinery::selector::LabelSelector;
use bailiwick_machinery::{ApiError, UserInfo};
use serde_json::Value;

use crate::attributes::{Attributes, KindRef, ResourceRef};
use crate::matching::Matched;
use crate::policy::{ParamKind, ParamScope};

/// Another name under which the objects of a resource are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Equivalent {
    pub group: String,
    pub version: String,
    pub resource: String,
    /// The kind of its objects, or of the request's subresource there.
    pub kind: GroupVersionKind,
}

impl Equivalent {
    pub fn resource_ref(&self) -> ResourceRef<'_> {
        ResourceRef { group: &self.group, version: &self.version, resource: &self.resource }
    }

    pub fn kind_ref(&self) -> KindRef<'_> {
        KindRef { group: &self.kind.group, version: &self.kind.version, kind: &self.kind.kind }
    }
}

/// A resource that serves a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    pub resource: String,
    pub namespaced: bool,
}

/// The server, as one request's admission sees it.
#[async_trait]
pub trait Host: Send + Sync {
    /// The other versions and groups in which the request's resource (with its subresource) is served, preferred ones
    /// first.
    fn equivalents(&self) -> Vec<Equivalent>;

    /// An object of the request's resource, in whatever version it is, as this kind.
    async fn convert(&self, object: &Value, to: KindRef<'_>) -> Result<Value, String>;

    /// Decodes what a plugin made of an object of this kind, as if a client had sent it: unknown fields go, defaults are
    /// filled in. Managers that can no longer be read are as they were `before`.
    fn settle(&self, mutated: Value, before: &Value, kind: KindRef<'_>) -> Result<Value, String>;

    /// The resources that serve a kind.
    fn resources_of(&self, group_version: &GroupVersion, kind: &str) -> Vec<Mapping>;

    /// What strict decoding says of an object of this kind: fields it does not have.
    fn unknown_fields(&self, _object: &Value, _kind: KindRef<'_>) -> Vec<String> {
        Vec::new()
    }

    /// An object of this kind with everything the configuration says, merged as server-side apply merges. Errors are
    /// upstream's texts.
    fn merge(&self, object: &Value, configuration: &Value, kind: KindRef<'_>) -> Result<Value, String>;

    /// Where objects of a kind are; none if the kind is not served.
    fn parameter_scope(&self, kind: &ParamKind) -> Option<ParamScope>;

    /// The plural of a kind; none if the kind is not served.
    fn parameter_resource(&self, kind: &ParamKind) -> Option<String>;

    /// An object of a kind; the namespace is empty for cluster-scoped ones.
    async fn parameter(&self, kind: &ParamKind, namespace: &str, name: &str) -> Result<Option<Value>, String>;

    /// The objects of a kind in a namespace, or all cluster-scoped ones, with these labels.
    async fn parameters(
        &self,
        kind: &ParamKind,
        namespace: &str,
        selector: &LabelSelector,
    ) -> Result<Vec<Value>, String>;

    /// Decides about access of any user.
    async fn authorize(&self, attributes: &authz::Attributes<'_>) -> authz::Decision;

    /// Decides what expressions ask on behalf of `user`.
    fn authorizer(&self, user: &UserInfo) -> Arc<dyn Authorizer>;
}

/// The objects of a request in the version a rule matched.
#[derive(Debug)]
pub struct Versioned<'a> {
    pub object: Option<std::borrow::Cow<'a, Value>>,
    pub old_object: Option<std::borrow::Cow<'a, Value>>,
}

impl<'a> Versioned<'a> {
    /// Converts the objects of a request where the match is in another version.
    pub async fn of(attributes: &'a Attributes<'_>, matched: Matched<'_>) -> Result<Self, ApiError> {
        use std::borrow::Cow;
        let (object, old_object) = (attributes.object.as_deref(), attributes.old_object);
        if matched.kind == attributes.kind {
            return Ok(Self { object: object.map(Cow::Borrowed), old_object: old_object.map(Cow::Borrowed) });
        }
        let mut versioned = Self { object: None, old_object: None };
        for (from, to) in [(old_object, &mut versioned.old_object), (object, &mut versioned.object)] {
            if let Some(object) = from {
                let converted = attributes.host.convert(object, matched.kind).await;
                *to = Some(Cow::Owned(converted.map_err(ApiError::internal)?));
            }
        }
        Ok(versioned)
    }
}
