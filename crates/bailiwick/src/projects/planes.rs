//! Puts the control plane of a project together: descriptors, default roles, documents, keys and plugins are shared; the
//! registry with its definitions, the roles, webhooks and policies are the project's own.

use std::sync::Arc;

use bailiwick_apiextensions::conversion::WebhookConverters;
use bailiwick_auth::authn::service_account::ServiceAccountTokens;
use bailiwick_auth::authn::{Anonymous, RequestAuthenticator};
use bailiwick_auth::keys::TokenKeys;
use bailiwick_auth::service_account::TokenIssuer;
use bailiwick_machinery::resource::Resource;
use bailiwick_server::cache::Caches;
use bailiwick_server::{
    Project, Registry, SharedOpenApi, StoredObjects, Tenant, TenantId, TenantParts, TenantSource, project_issuer,
};
use bailiwick_store as store;
use bailiwick_webhook::services::{MappedServices, ServiceResolver};
use futures::future::BoxFuture;

use super::defaults::Defaults;
use crate::control_plane::{AdmissionPlan, AuthorizationOptions, Definitions};
use crate::service_endpoints::StoredEndpointMaps;
use crate::{definitions, rbac_feed};

/// Groups that act on the server as a whole, and are the root's alone: routes to other servers, certificates that the
/// server's own CA signs, the shares of its capacity.
const ROOT_ONLY: &[&str] =
    &["apiregistration.k8s.io", "certificates.k8s.io", "flowcontrol.apiserver.k8s.io", super::GROUP];

/// What the control planes of projects are made of.
pub(crate) struct PlanesParts {
    pub caches: Arc<Caches>,
    pub authorization: AuthorizationOptions,
    pub admission: AdmissionPlan,
    /// The root's issuer.
    pub issuer: Arc<TokenIssuer>,
    pub token_keys: Arc<TokenKeys>,
    pub definitions: Definitions,
}

/// See the module.
pub(crate) struct Planes {
    parts: PlanesParts,
    /// What every project serves, not yet anybody's.
    registry: Registry,
    openapi: SharedOpenApi,
    defaults: Defaults,
}

impl Planes {
    /// `resources` are those of the root, `root_ca` vouches for the server.
    pub(crate) fn new(parts: PlanesParts, resources: &[Resource], root_ca: &str) -> Self {
        let everywhere = resources.iter().filter(|resource| !ROOT_ONLY.contains(&resource.group.as_str()));
        let registry = Registry::new(&TenantId::project(""), everywhere.cloned().collect());
        Self { parts, openapi: SharedOpenApi::new(registry.clone()), registry, defaults: Defaults::new(root_ca) }
    }

    async fn open(&self, project: Project) -> store::Result<Arc<Tenant>> {
        let id = project.tenant();
        let caches = &self.parts.caches;
        let registry =
            self.registry.for_tenant(&id, |resource, prefix| self.defaults.of(resource, prefix.clone(), &project));
        let lookup = Arc::new(StoredObjects::load(&registry, caches).await?);
        let rbac = self.defaults.roles.fork();
        rbac_feed::connect(&rbac, &registry, caches, Some(project.revision)).await?;
        let name = project_issuer(self.parts.issuer.issuer(), &project.name);
        let audiences: Arc<[String]> = Arc::new([name.clone()]);
        let accounts =
            ServiceAccountTokens::new([name.clone()], self.parts.token_keys.clone(), audiences.clone(), lookup.clone());
        // What the operator mapped is for the root; a project says itself where its services are.
        let endpoint_maps = Arc::new(StoredEndpointMaps::new(&registry, caches));
        let services: Arc<dyn ServiceResolver> = Arc::new(MappedServices::new(Vec::new(), Some(endpoint_maps)));
        let admission = self.parts.admission.chain(&registry, caches, &services, Vec::new()).await?;
        let parts = TenantParts {
            id,
            project: Some(project),
            authorizers: self.parts.authorization.for_project(rbac),
            admission,
            aggregation: None,
            issuer: Arc::new(self.parts.issuer.renamed(name, audiences)),
            accounts: Some(RequestAuthenticator::new(vec![Box::new(accounts)], Anonymous::Refused)),
            shared_openapi: Some(self.openapi.clone()),
            registry,
            lookup,
        };
        let tenant = Tenant::new(caches, parts);
        if self.parts.definitions == Definitions::Served {
            definitions::connect(&tenant, Arc::new(WebhookConverters::new(services))).await?;
        }
        Ok(tenant)
    }
}

impl TenantSource for Planes {
    fn open<'a>(&'a self, project: Project) -> BoxFuture<'a, store::Result<Arc<Tenant>>> {
        Box::pin(self.open(project))
    }
}
