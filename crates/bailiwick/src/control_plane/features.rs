//! Parts of a control plane that can be left out. What is left out is not in discovery or OpenAPI, is not served, and
//! nothing runs for it.

use bailiwick_machinery::resource::Resource;

/// A part that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Feature {
    /// CustomResourceDefinitions, and with them types that are defined at run time.
    CustomResourceDefinitions,
    /// Roles and bindings. Unless something else is said about authorization, whoever has credentials may then do
    /// everything.
    Rbac,
    /// APIServices, and with them other servers behind this one.
    Aggregation,
    /// Organizations and projects, and with them control planes beside the root one.
    Projects,
    /// Events, in both groups.
    Events,
    /// Leases, by which clients elect leaders.
    Leases,
    /// CertificateSigningRequests.
    Certificates,
    /// ResourceQuotas and their enforcement.
    Quotas,
    /// Service accounts and their tokens.
    ServiceAccounts,
    /// Webhooks of admission.
    Webhooks,
    /// Validating and mutating admission policies.
    Policies,
    /// FlowSchemas and PriorityLevelConfigurations; requests beyond the limits are then turned away.
    FlowControl,
    ConfigMaps,
    Secrets,
}

/// A name that no feature has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no {given:?} to leave out; there are {}", names())]
pub struct UnknownFeature {
    given: String,
}

fn names() -> String {
    Feature::ALL.map(Feature::name).join(", ")
}

impl Feature {
    pub const ALL: [Self; 14] = [
        Self::CustomResourceDefinitions,
        Self::Rbac,
        Self::Aggregation,
        Self::Projects,
        Self::Events,
        Self::Leases,
        Self::Certificates,
        Self::Quotas,
        Self::ServiceAccounts,
        Self::Webhooks,
        Self::Policies,
        Self::FlowControl,
        Self::ConfigMaps,
        Self::Secrets,
    ];

    /// As the command line calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CustomResourceDefinitions => "crds",
            Self::Rbac => "rbac",
            Self::Aggregation => "aggregation",
            Self::Projects => "projects",
            Self::Events => "events",
            Self::Leases => "leases",
            Self::Certificates => "certificates",
            Self::Quotas => "quotas",
            Self::ServiceAccounts => "service-accounts",
            Self::Webhooks => "webhooks",
            Self::Policies => "policies",
            Self::FlowControl => "flow-control",
            Self::ConfigMaps => "configmaps",
            Self::Secrets => "secrets",
        }
    }

    /// Whether a native resource is part of it.
    pub(super) fn covers(self, resource: &Resource) -> bool {
        let (group, plural) = (resource.group.as_str(), resource.plural.as_str());
        match self {
            Self::CustomResourceDefinitions => group == "apiextensions.k8s.io",
            Self::Rbac => group == "rbac.authorization.k8s.io",
            Self::Aggregation => group == "apiregistration.k8s.io",
            Self::Projects => group == "resourcemanager.miloapis.com",
            Self::Events => plural == "events" && matches!(group, "" | "events.k8s.io"),
            Self::Leases => group == "coordination.k8s.io",
            Self::Certificates => group == "certificates.k8s.io",
            Self::Quotas => group.is_empty() && plural == "resourcequotas",
            Self::ServiceAccounts => group.is_empty() && plural == "serviceaccounts",
            Self::Webhooks => group == "admissionregistration.k8s.io" && plural.ends_with("webhookconfigurations"),
            Self::Policies => group == "admissionregistration.k8s.io" && plural.contains("admissionpolic"),
            Self::FlowControl => group == "flowcontrol.apiserver.k8s.io",
            Self::ConfigMaps => group.is_empty() && plural == "configmaps",
            Self::Secrets => group.is_empty() && plural == "secrets",
        }
    }
}

impl std::str::FromStr for Feature {
    type Err = UnknownFeature;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|feature| feature.name() == text);
        found.ok_or_else(|| UnknownFeature { given: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_but_that_of_projects_is_some_native_resource() {
        let resources = bailiwick_api::native_resources();
        for feature in Feature::ALL.into_iter().filter(|feature| *feature != Feature::Projects) {
            assert!(resources.iter().any(|resource| feature.covers(resource)), "{feature:?}");
        }
    }

    #[test]
    fn names_lead_back_to_features() {
        for feature in Feature::ALL {
            assert_eq!(feature.name().parse(), Ok(feature));
        }
        let error = "pods".parse::<Feature>().unwrap_err().to_string();
        assert!(error.starts_with("there is no \"pods\" to leave out; there are crds, rbac,"), "{error}");
    }
}
