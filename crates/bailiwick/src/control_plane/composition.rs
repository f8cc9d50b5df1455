//! Choosing the parts: what the builder lets out, adds and runs besides the server itself.

use std::sync::Arc;
use std::time::Duration;

use bailiwick_auth::authn::{Authenticator, RemoteAuthenticator};
use bailiwick_auth::authz::Authorizer;
use bailiwick_controllers::{Controller, Metrics};
use bailiwick_machinery::resource::Resource;
use bailiwick_server::MetricsSource;

use super::{
    Aggregation, AuthorizationMode, AuthorizationOptions, Builder, Definitions, Error, Fairness, Feature, OlmOptions,
    StoreOptions,
};
use crate::native_type::{DeclaredType, Hookable, NativeType, NativeTypeError};
use crate::projects::{self, Projects};
use crate::services::Service;

/// What a control plane is made of besides its options.
#[derive(Default)]
pub(super) struct Parts {
    pub left_out: Vec<Feature>,
    pub native_types: Vec<Box<dyn DeclaredType>>,
    pub authenticators: Vec<Box<dyn Authenticator>>,
    pub remote_authenticators: Vec<Arc<dyn RemoteAuthenticator>>,
    pub authorizers: Vec<Arc<dyn Authorizer>>,
    pub services: Vec<Service>,
    pub olm: Option<OlmOptions>,
    /// Of what runs in this process.
    pub controller_metrics: Metrics,
}

impl Parts {
    /// What is shown besides the server's own metrics.
    pub fn metrics_sources(&self) -> Vec<MetricsSource> {
        let controllers = self.controller_metrics.clone();
        let own: MetricsSource = Arc::new(move |text| controllers.append(text));
        self.services.iter().filter_map(Service::metrics_source).chain([own]).collect()
    }
}

impl Builder {
    /// Leaves parts out. What is left out is not in discovery or OpenAPI, is not served, and nothing runs for it.
    #[must_use]
    pub fn without(mut self, features: impl IntoIterator<Item = Feature>) -> Self {
        self.parts.left_out.extend(features);
        self
    }

    /// Serves only those native resources that `keep` says yes to. Organizations and Projects are among them: there are
    /// project control planes only where both are kept.
    #[must_use]
    pub fn keep_resources(mut self, mut keep: impl FnMut(&Resource) -> bool) -> Self {
        self.resources.retain(|resource| keep(resource));
        if !projects::resources().iter().all(keep) {
            self.projects = Projects::Off;
        }
        self
    }

    /// Does not serve the native resource `plural` of `group`, which is empty for the core group, in any version.
    #[must_use]
    pub fn without_resource(self, group: &str, plural: &str) -> Self {
        self.keep_resources(|resource| (resource.group.as_str(), resource.plural.as_str()) != (group, plural))
    }

    /// How long events are kept; an hour if nothing is said.
    #[must_use]
    pub fn event_ttl(mut self, ttl: Duration) -> Self {
        for event in bailiwick_api::event::resources_that_last(ttl.as_secs().max(1)) {
            let same = |resource: &&mut Resource| (&resource.group, &resource.plural) == (&event.group, &event.plural);
            if let Some(resource) = self.resources.iter_mut().find(same) {
                resource.strategy = event.strategy;
            }
        }
        self
    }

    /// Serves a type of the caller's own.
    #[must_use]
    pub fn native_type<T: Hookable>(mut self, declared: NativeType<T>) -> Self {
        self.parts.native_types.push(Box::new(declared));
        self
    }

    /// Asks `authenticator` who a request is from, after those of the options.
    #[must_use]
    pub fn authenticator(mut self, authenticator: impl Authenticator + 'static) -> Self {
        self.parts.authenticators.push(Box::new(authenticator));
        self
    }

    /// As [`Builder::authenticator`], for one that must ask somebody else. It is asked after all others, and only about
    /// bearer tokens.
    #[must_use]
    pub fn remote_authenticator(mut self, authenticator: impl RemoteAuthenticator + 'static) -> Self {
        self.parts.remote_authenticators.push(Arc::new(authenticator));
        self
    }

    /// Asks `authorizer` whether a request is allowed, before those of the options.
    #[must_use]
    pub fn authorizer(mut self, authorizer: impl Authorizer + 'static) -> Self {
        self.parts.authorizers.push(Arc::new(authorizer));
        self
    }

    /// Runs a service in this process for as long as the control plane runs.
    #[must_use]
    pub fn service(mut self, service: Service) -> Self {
        self.parts.services.push(service);
        self
    }

    /// Whether a part is left out.
    pub(super) fn lacks(&self, feature: Feature) -> bool {
        self.parts.left_out.contains(&feature)
    }

    /// Lets leaving out have its consequences, before anything is opened.
    pub(super) fn settle(&mut self) {
        let left_out = &self.parts.left_out;
        self.resources.retain(|resource| !left_out.iter().any(|feature| feature.covers(resource)));
        if self.lacks(Feature::Projects) {
            self.projects = Projects::Off;
        }
        if self.lacks(Feature::FlowControl) {
            self.flow_control.fairness = Fairness::Off;
        }
        if !self.serves("apiregistration.k8s.io", "apiservices") {
            self.aggregation = Aggregation::Off;
        }
        if !self.serves("apiextensions.k8s.io", "customresourcedefinitions") {
            self.definitions = Definitions::Ignored;
        }
    }

    fn serves(&self, group: &str, plural: &str) -> bool {
        self.resources.iter().any(|resource| resource.group == group && resource.plural == plural)
    }

    /// Who decides over requests: what was asked for, or else what the served resources make possible.
    pub(super) fn authorization_options(&self) -> AuthorizationOptions {
        match &self.authorization {
            Some(options) => options.clone(),
            None if self.lacks(Feature::Rbac) => AuthorizationOptions::modes([AuthorizationMode::Authenticated]),
            None => AuthorizationOptions::default(),
        }
    }

    /// The controllers that have something to do here.
    pub(super) fn useful_controllers(&self) -> Vec<Controller> {
        let mut wanted = self.controllers.clone();
        if self.definitions == Definitions::Served && !wanted.contains(&Controller::CustomResourceDefinition) {
            wanted.push(Controller::CustomResourceDefinition);
        }
        if self.definitions == Definitions::Ignored {
            wanted.retain(|controller| *controller != Controller::CustomResourceDefinition);
        }
        wanted.retain(|controller| {
            let served = controller.needs().iter().all(|(group, plural)| self.serves(group, plural));
            if !served {
                tracing::debug!(?controller, "has nothing to do without what it looks after");
            }
            served
        });
        wanted
    }

    /// Refuses what could never work: to take turns without what turns are taken by.
    pub(super) fn check_turns(&self, wanted: &[Controller]) -> Result<(), Error> {
        let takes_turns = self.parts.olm.is_some() || wanted.iter().any(|controller| controller.takes_turns());
        let shared = matches!(self.store, StoreOptions::Etcd(_));
        if shared && takes_turns && !self.serves("coordination.k8s.io", "leases") {
            return Err(Error::NoLeases);
        }
        Ok(())
    }

    /// The descriptors of the caller's own types. `since` is the store's revision: what was stored before may have been
    /// written by another version of the program, with another schema.
    pub(super) fn own_resources(&mut self, since: u64) -> Result<Vec<Resource>, NativeTypeError> {
        let mut resources = Vec::new();
        for declared in &mut self.parts.native_types {
            resources.extend(declared.resources(since)?);
        }
        Ok(resources)
    }
}

#[cfg(test)]
mod tests {
    use bailiwick_store::etcd;

    use super::*;
    use crate::ControlPlane;

    fn without_leases() -> Builder {
        let mut builder = ControlPlane::builder("unused").without([Feature::Leases]);
        builder.settle();
        builder
    }

    fn on_etcd(builder: Builder) -> Builder {
        builder.store(StoreOptions::Etcd(etcd::Options::new(["http://127.0.0.1:2379"])))
    }

    #[test]
    fn controllers_that_could_never_be_elected_are_refused() {
        let checked = |builder: Builder| builder.check_turns(&builder.useful_controllers());
        assert!(matches!(checked(on_etcd(without_leases())), Err(Error::NoLeases)));
        assert!(matches!(checked(on_etcd(ControlPlane::builder("unused"))), Ok(())));
        assert!(matches!(checked(without_leases()), Ok(())), "one server needs no turns");
        let server_alone = on_etcd(without_leases()).controllers(&[]);
        assert!(matches!(checked(server_alone), Ok(())), "what belongs to the server runs in each");
        let with_operators = on_etcd(without_leases()).controllers(&[]).olm(OlmOptions::default());
        assert!(matches!(checked(with_operators), Err(Error::NoLeases)));
    }
}
