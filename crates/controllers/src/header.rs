//! What controllers read of an object they only need to know about: identity, owners, finalizers, deletion mark.
//!
//! Asking the API for a [`Header`] makes a metadata-only request, and what we do not use of the answer (managed fields
//! above all, usually the larger part) is skipped while parsing instead of being built and thrown away.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use kube::Resource;
use kube::core::{ApiResource, DynamicResourceScope};
use serde::Deserialize;

/// The part of an object's metadata that controllers use; labels, annotations and managed fields are always empty.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Wire")]
pub(crate) struct Header {
    pub metadata: ObjectMeta,
}

#[derive(Deserialize)]
struct Wire {
    metadata: WireMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireMeta {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    deletion_timestamp: Option<Time>,
    finalizers: Option<Vec<String>>,
    owner_references: Option<Vec<OwnerReference>>,
}

impl From<Wire> for Header {
    fn from(Wire { metadata: wire }: Wire) -> Self {
        let metadata = ObjectMeta {
            name: wire.name,
            namespace: wire.namespace,
            uid: wire.uid,
            resource_version: wire.resource_version,
            deletion_timestamp: wire.deletion_timestamp,
            finalizers: wire.finalizers,
            owner_references: wire.owner_references,
            ..ObjectMeta::default()
        };
        Header { metadata }
    }
}

impl Resource for Header {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn metadata_api() -> bool {
        true
    }

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&resource.kind)
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&resource.group)
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&resource.version)
    }

    fn api_version(resource: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&resource.api_version)
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&resource.plural)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_identity_and_owners_and_skips_the_rest() {
        let header: Header = serde_json::from_str(
            r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a","namespace":"n",
            "uid":"u","resourceVersion":"7","labels":{"x":"y"},"managedFields":[{"manager":"m","fieldsV1":{"f:data":{}}}],
            "finalizers":["orphan"],"deletionTimestamp":"2026-01-02T03:04:05Z",
            "ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"o","uid":"ou","blockOwnerDeletion":true}]}}"#,
        )
        .unwrap();
        let meta = header.metadata;
        assert_eq!((meta.name.as_deref(), meta.namespace.as_deref()), (Some("a"), Some("n")));
        assert_eq!((meta.uid.as_deref(), meta.resource_version.as_deref()), (Some("u"), Some("7")));
        assert_eq!(meta.finalizers.unwrap(), ["orphan"]);
        assert!(meta.deletion_timestamp.is_some());
        assert_eq!(meta.owner_references.unwrap()[0].uid, "ou");
        assert!(meta.managed_fields.is_none() && meta.labels.is_none());
    }
}
