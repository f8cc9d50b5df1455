//! The kinds this crate works with, by their places in the API.

use kube::api::{Api, ApiResource, DynamicObject};
use kube::{Client, ResourceExt};

/// A kind of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Kind {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
}

const fn v0(version: &'static str, kind: &'static str, plural: &'static str) -> Kind {
    Kind { group: "operators.coreos.com", version, kind, plural }
}

const fn v1(kind: &'static str, plural: &'static str) -> Kind {
    Kind { group: "olm.operatorframework.io", version: "v1", kind, plural }
}

const fn core(kind: &'static str, plural: &'static str) -> Kind {
    Kind { group: "", version: "v1", kind, plural }
}

pub(crate) const CATALOG_SOURCE: Kind = v0("v1alpha1", "CatalogSource", "catalogsources");
pub(crate) const SUBSCRIPTION: Kind = v0("v1alpha1", "Subscription", "subscriptions");
pub(crate) const INSTALL_PLAN: Kind = v0("v1alpha1", "InstallPlan", "installplans");
pub(crate) const CSV: Kind = v0("v1alpha1", "ClusterServiceVersion", "clusterserviceversions");
pub(crate) const OPERATOR_GROUP: Kind = v0("v1", "OperatorGroup", "operatorgroups");
pub(crate) const OPERATOR_CONDITION: Kind = v0("v2", "OperatorCondition", "operatorconditions");
pub(crate) const CLUSTER_CATALOG: Kind = v1("ClusterCatalog", "clustercatalogs");
pub(crate) const CLUSTER_EXTENSION: Kind = v1("ClusterExtension", "clusterextensions");
pub(crate) const NAMESPACE: Kind = core("Namespace", "namespaces");
pub(crate) const SECRET: Kind = core("Secret", "secrets");
pub(crate) const CONFIG_MAP: Kind = core("ConfigMap", "configmaps");
pub(crate) const CRD: Kind = Kind {
    group: "apiextensions.k8s.io",
    version: "v1",
    kind: "CustomResourceDefinition",
    plural: "customresourcedefinitions",
};
pub(crate) const CLUSTER_ROLE: Kind =
    Kind { group: "rbac.authorization.k8s.io", version: "v1", kind: "ClusterRole", plural: "clusterroles" };
pub(crate) const API_SERVICE: Kind =
    Kind { group: "apiregistration.k8s.io", version: "v1", kind: "APIService", plural: "apiservices" };

impl Kind {
    pub fn resource(&self) -> ApiResource {
        ApiResource {
            group: self.group.to_owned(),
            version: self.version.to_owned(),
            api_version: self.api_version(),
            kind: self.kind.to_owned(),
            plural: self.plural.to_owned(),
        }
    }

    pub fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// In a namespace.
    pub fn within(&self, client: &Client, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(client.clone(), namespace, &self.resource())
    }

    /// In all namespaces, or in none.
    pub fn all(&self, client: &Client) -> Api<DynamicObject> {
        Api::all_with(client.clone(), &self.resource())
    }

    /// `metadata.ownerReferences` entry for an object of this kind.
    pub fn owner(&self, object: &DynamicObject) -> serde_json::Value {
        serde_json::json!({
            "apiVersion": self.api_version(), "kind": self.kind, "name": object.name_any(),
            "uid": object.uid().unwrap_or_default(), "blockOwnerDeletion": false, "controller": false,
        })
    }
}
