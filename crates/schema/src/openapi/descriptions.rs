//! The texts of types and fields, word for word as upstream publishes them, so that `kubectl explain` reads the same.
//!
//! They come from the `k8s-openapi` crate, which builds them when asked; a [`Descriptions`] lives as long as one
//! document is being written. List kinds and operations are not described there: those texts are our own.

use k8s_openapi::api::{
    admissionregistration, authentication, authorization, autoscaling, certificates, coordination, core, events,
    flowcontrol, rbac,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions;
use k8s_openapi::apimachinery::pkg::apis::meta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use k8s_openapi::apimachinery::pkg::version;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value};

/// Descriptions of a set of definitions and of everything they refer to.
pub struct Descriptions {
    schemas: Map<String, Value>,
}

/// What every definition with `apiVersion` and `kind` says about them, and every list about its metadata.
const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";

const WATCH_EVENT: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent";

impl Descriptions {
    /// Descriptions of the definitions of these names. Names that are not described are ignored.
    pub fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut generator = SchemaGenerator::default();
        describe::<meta::v1::Status>(&mut generator);
        for name in names {
            if let Some((_, describe)) = DESCRIBED.iter().find(|(described, _)| *described == name) {
                describe(&mut generator);
            }
        }
        let mut schemas = generator.take_definitions(true);
        split_watch_event(&mut schemas);
        Self { schemas }
    }

    /// The description of a type.
    pub fn ty(&self, name: &str) -> Option<&str> {
        self.schemas.get(name)?.get("description")?.as_str()
    }

    /// The description of a field of a type.
    pub fn field(&self, ty: &str, field: &str) -> Option<&str> {
        let own = self.property(ty, field);
        match field {
            "apiVersion" | "kind" => own.or_else(|| self.property(STATUS, field)),
            _ => own,
        }
    }

    /// What lists say about their metadata.
    pub fn list_metadata(&self) -> Option<&str> {
        self.property(STATUS, "metadata")
    }

    fn property(&self, ty: &str, field: &str) -> Option<&str> {
        self.schemas.get(ty)?.get("properties")?.get(field)?.get("description")?.as_str()
    }

    /// The whole schema of a type that no table describes.
    pub(super) fn schema(&self, name: &str) -> Option<&Value> {
        self.schemas.get(name)
    }
}

/// The crate has the text of the event's `object` at the end of the event's own.
fn split_watch_event(schemas: &mut Map<String, Value>) {
    let Some(event) = schemas.get_mut(WATCH_EVENT) else { return };
    let text = event.get("description").and_then(Value::as_str).unwrap_or_default();
    if let Some((own, object)) = text.split_once("\n\n") {
        let (own, object) = (own.to_owned(), object.trim_end().to_owned());
        event["properties"]["object"]["description"] = object.into();
        event["description"] = own.into();
    }
}

fn describe<T: JsonSchema>(generator: &mut SchemaGenerator) {
    generator.subschema_for::<T>();
}

type Describe = fn(&mut SchemaGenerator);

/// The definitions that others do not contain; describing one describes all it refers to.
const DESCRIBED: &[(&str, Describe)] = &[
    ("io.k8s.api.core.v1.ConfigMap", describe::<core::v1::ConfigMap>),
    ("io.k8s.api.core.v1.Event", describe::<core::v1::Event>),
    ("io.k8s.api.core.v1.Namespace", describe::<core::v1::Namespace>),
    ("io.k8s.api.core.v1.ResourceQuota", describe::<core::v1::ResourceQuota>),
    ("io.k8s.api.core.v1.Secret", describe::<core::v1::Secret>),
    ("io.k8s.api.core.v1.ServiceAccount", describe::<core::v1::ServiceAccount>),
    ("io.k8s.api.events.v1.Event", describe::<events::v1::Event>),
    ("io.k8s.api.authentication.v1.SelfSubjectReview", describe::<authentication::v1::SelfSubjectReview>),
    ("io.k8s.api.authentication.v1.TokenRequest", describe::<authentication::v1::TokenRequest>),
    ("io.k8s.api.authentication.v1.TokenReview", describe::<authentication::v1::TokenReview>),
    ("io.k8s.api.authorization.v1.LocalSubjectAccessReview", describe::<authorization::v1::LocalSubjectAccessReview>),
    ("io.k8s.api.authorization.v1.SelfSubjectAccessReview", describe::<authorization::v1::SelfSubjectAccessReview>),
    ("io.k8s.api.authorization.v1.SelfSubjectRulesReview", describe::<authorization::v1::SelfSubjectRulesReview>),
    ("io.k8s.api.authorization.v1.SubjectAccessReview", describe::<authorization::v1::SubjectAccessReview>),
    ("io.k8s.api.autoscaling.v1.Scale", describe::<autoscaling::v1::Scale>),
    ("io.k8s.api.certificates.v1.CertificateSigningRequest", describe::<certificates::v1::CertificateSigningRequest>),
    ("io.k8s.api.coordination.v1.Lease", describe::<coordination::v1::Lease>),
    ("io.k8s.api.flowcontrol.v1.FlowSchema", describe::<flowcontrol::v1::FlowSchema>),
    ("io.k8s.api.flowcontrol.v1.PriorityLevelConfiguration", describe::<flowcontrol::v1::PriorityLevelConfiguration>),
    ("io.k8s.api.rbac.v1.ClusterRole", describe::<rbac::v1::ClusterRole>),
    ("io.k8s.api.rbac.v1.ClusterRoleBinding", describe::<rbac::v1::ClusterRoleBinding>),
    ("io.k8s.api.rbac.v1.Role", describe::<rbac::v1::Role>),
    ("io.k8s.api.rbac.v1.RoleBinding", describe::<rbac::v1::RoleBinding>),
    (
        "io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicy",
        describe::<admissionregistration::v1::MutatingAdmissionPolicy>,
    ),
    (
        "io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicyBinding",
        describe::<admissionregistration::v1::MutatingAdmissionPolicyBinding>,
    ),
    (
        "io.k8s.api.admissionregistration.v1.MutatingWebhookConfiguration",
        describe::<admissionregistration::v1::MutatingWebhookConfiguration>,
    ),
    (
        "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicy",
        describe::<admissionregistration::v1::ValidatingAdmissionPolicy>,
    ),
    (
        "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyBinding",
        describe::<admissionregistration::v1::ValidatingAdmissionPolicyBinding>,
    ),
    (
        "io.k8s.api.admissionregistration.v1.ValidatingWebhookConfiguration",
        describe::<admissionregistration::v1::ValidatingWebhookConfiguration>,
    ),
    (
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
        describe::<apiextensions::v1::CustomResourceDefinition>,
    ),
    ("io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService", describe::<apiregistration::v1::APIService>),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.APIGroup", describe::<meta::v1::APIGroup>),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.APIGroupList", describe::<meta::v1::APIGroupList>),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.APIResourceList", describe::<meta::v1::APIResourceList>),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.APIVersions", describe::<meta::v1::APIVersions>),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions", describe::<meta::v1::DeleteOptions>),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", describe::<meta::v1::ObjectMeta>),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.Patch", describe::<meta::v1::Patch>),
    (WATCH_EVENT, describe::<meta::v1::WatchEvent<RawExtension>>),
    ("io.k8s.apimachinery.pkg.version.Info", describe::<version::Info>),
];
