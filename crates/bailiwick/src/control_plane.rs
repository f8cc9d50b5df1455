//! Building and running a control plane. Each field has its options, and what they make, in a file of its own.

mod admission;
mod aggregation;
pub mod audit;
mod authentication;
mod authorization;
mod composition;
mod encryption;
mod features;
mod flow_control;
mod olm;
mod store;
mod tls;
mod traces;
mod webhooks;

pub(crate) use admission::AdmissionPlan;
pub use admission::{AdmissionError, AdmissionOptions};
pub use aggregation::{Aggregation, AggregationOptions};
use audit::AuditOptions;
pub use authentication::{
    AuthenticationOptions, BootstrapTokenAuth, CustomSigner, FrontProxyOptions, OidcOptions, ServiceAccountOptions,
    TokenWebhookOptions,
};
pub use authorization::{
    AuthorizationError, AuthorizationMode, AuthorizationOptions, AuthorizerOptions, WebhookOptions,
};
pub use encryption::{EncryptionOptions, Reload};
pub use features::{Feature, UnknownFeature};
pub use flow_control::{Fairness, FlowControlOptions};
pub use olm::OlmOptions;
pub use store::StoreOptions;
use tls::Certificates;
pub use tls::TlsOptions;
pub use traces::{TracingError, TracingOptions};
pub use webhooks::DialOptions;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bailiwick_admission::Plugin;
use bailiwick_apiextensions::conversion::WebhookConverters;
use bailiwick_apiextensions::definition::Converters;
use bailiwick_auth::authn::token_file::TokenFileError;
use bailiwick_auth::authn::x509::RootsError;
use bailiwick_auth::authz::rbac::Rbac;
use bailiwick_auth::keys::KeyError;
use bailiwick_auth::pki::{Pki, PkiError};
use bailiwick_auth::tls::TlsError;
use bailiwick_controllers::Controller;
use bailiwick_machinery::resource::Resource;
use bailiwick_machinery::user::UserInfo;
use bailiwick_server::cache::QueueLimits;
use bailiwick_server::cache::{Caches, Feed};
use bailiwick_server::http::{Limits, Listener};
use bailiwick_server::{
    ApiServer, Config, LocalService, Registry, StorageEncryption, StoredObjects, Tenant, TenantId, TenantParts, Tenants,
};
use bailiwick_store::Store;
use bailiwick_store::embedded::{self, EmbeddedStore};
use bailiwick_traces::Exporting;
use bailiwick_webhook::services::{MappedServices, ServiceEndpoint, ServiceResolver};
use jiff::Timestamp;

use crate::background::Background;
use crate::native_type::{CompiledTypes, NativeTypeError};
use crate::projects::{self, Projects};
use crate::service_endpoints::StoredEndpointMaps;
use crate::{authentication_trust, bootstrap, controllers, definitions, rbac_feed, services};

/// Why a control plane could not start. The text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the store cannot be opened: {0}{advice}", advice = store::advice(.0))]
    Store(#[from] bailiwick_store::Error),
    #[error("certificates and keys: {0}")]
    Pki(#[from] PkiError),
    #[error("TLS: {0}")]
    Tls(#[from] TlsError),
    #[error("client certificates: {0}")]
    Roots(#[from] RootsError),
    #[error("service-account key: {0}")]
    Key(#[from] KeyError),
    #[error("{path}: {source}")]
    KeyFile { path: PathBuf, source: KeyError },
    #[error("{0}")]
    Authentication(String),
    #[error("--token-auth-file: {0}")]
    TokenFile(#[from] TokenFileError),
    #[error("{path}: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("cannot listen on {address}: {source}")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error("admission: {0}")]
    Admission(#[from] AdmissionError),
    #[error(transparent)]
    Authorization(#[from] AuthorizationError),
    #[error(transparent)]
    Audit(#[from] audit::AuditError),
    #[error("encryption at rest: {0}")]
    Encryption(#[from] bailiwick_encryption::ConfigError),
    #[error(
        "encryption at rest: the store holds encrypted values, such as {sealed}, but {path} with their keys is not there\n\
         Nothing was changed. If the store was restored from a backup, bring encryption.yaml and pki along from the data \
         directory that the backup is of (docs/ENCRYPTION.md); if its keys are in a file of your own, name it with \
         --encryption-provider-config."
    )]
    KeyMissing { path: PathBuf, sealed: String },
    #[error("--strict-transport-security-directives: {0:?} is none")]
    StrictTransportSecurity(String),
    #[error("first-start objects: {0}")]
    Bootstrap(String),
    #[error(
        "with etcd the controllers of several servers take turns by Leases, which are left out: serve leases, or run \
         the controllers elsewhere (--no-controllers) and no operators"
    )]
    NoLeases,
    #[error(transparent)]
    NativeType(#[from] NativeTypeError),
    #[error(transparent)]
    Tracing(#[from] TracingError),
}

/// A control plane to be; see [`ControlPlane::builder`].
pub struct Builder {
    data_dir: PathBuf,
    /// `pki` in the data directory, if nothing is said.
    pki_dir: Option<PathBuf>,
    listen: SocketAddr,
    store: StoreOptions,
    resources: Vec<Resource>,
    authentication: AuthenticationOptions,
    /// What follows from the other choices, if nothing is said.
    authorization: Option<AuthorizationOptions>,
    admission: AdmissionOptions,
    tls: TlsOptions,
    audit: AuditOptions,
    encryption: EncryptionOptions,
    flow_control: FlowControlOptions,
    webhooks: DialOptions,
    service_endpoints: Vec<ServiceEndpoint>,
    aggregation: Aggregation,
    request_timeout: Duration,
    shutdown_delay: Duration,
    tracing: TracingOptions,
    limits: Limits,
    controllers: Vec<Controller>,
    definitions: Definitions,
    parts: composition::Parts,
    projects: Projects,
}

/// Whether CustomResourceDefinitions, where they are among the resources, are put to work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Definitions {
    /// What they define is served.
    Served,
    /// They are stored and nothing else.
    Ignored,
}

/// The entry point of the library.
pub struct ControlPlane;

impl ControlPlane {
    /// A control plane with every native resource, the embedded store in `data_dir`, on a free port of the loopback
    /// interface.
    pub fn builder(data_dir: impl Into<PathBuf>) -> Builder {
        Builder {
            data_dir: data_dir.into(),
            pki_dir: None,
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            store: StoreOptions::Embedded(embedded::Options::default()),
            resources: bailiwick_api::native_resources(),
            authentication: AuthenticationOptions::default(),
            authorization: None,
            admission: AdmissionOptions::default(),
            tls: TlsOptions::default(),
            audit: AuditOptions::default(),
            encryption: EncryptionOptions::default(),
            flow_control: FlowControlOptions::default(),
            webhooks: DialOptions::default(),
            service_endpoints: Vec::new(),
            aggregation: Aggregation::default(),
            request_timeout: Duration::from_secs(60),
            shutdown_delay: Duration::ZERO,
            tracing: TracingOptions::Off,
            limits: Limits::default(),
            controllers: Controller::ALL.to_vec(),
            definitions: Definitions::Served,
            parts: composition::Parts::default(),
            projects: Projects::default(),
        }
    }
}

impl Builder {
    /// The address to serve on; port 0 picks a free one.
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = address;
        self
    }

    /// Where the CA, certificates and the service-account key are kept, instead of `pki` in the data directory. Servers on
    /// one etcd must have the same, by sharing the directory or by copies.
    pub fn pki_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.pki_dir = Some(directory.into());
        self
    }

    pub fn store(mut self, store: StoreOptions) -> Self {
        self.store = store;
        self
    }

    /// The resources to serve, instead of all native ones.
    pub fn resources(mut self, resources: Vec<Resource>) -> Self {
        self.resources = resources;
        self
    }

    /// Who gets in.
    pub fn authentication(mut self, options: AuthenticationOptions) -> Self {
        self.authentication = options;
        self
    }

    /// Who may do what.
    pub fn authorization(mut self, options: AuthorizationOptions) -> Self {
        self.authorization = Some(options);
        self
    }

    /// What writes must pass.
    pub fn admission(mut self, options: AdmissionOptions) -> Self {
        self.admission = options;
        self
    }

    /// A rule of your own that writes must pass, besides those in the options. Runs after the server's own rules and
    /// before webhooks.
    pub fn admission_plugin(mut self, plugin: Box<dyn Plugin>) -> Self {
        self.admission.plugins.push(plugin);
        self
    }

    /// What is served with.
    pub fn tls(mut self, options: TlsOptions) -> Self {
        self.tls = options;
        self
    }

    /// What is recorded of requests.
    pub fn audit(mut self, options: AuditOptions) -> Self {
        self.audit = options;
        self
    }

    /// What is encrypted at rest.
    pub fn encryption(mut self, options: EncryptionOptions) -> Self {
        self.encryption = options;
        self
    }

    /// How many requests run at once.
    pub fn flow_control(mut self, options: FlowControlOptions) -> Self {
        self.flow_control = options;
        self
    }

    /// Where webhooks that are configured through the API may lead.
    pub fn webhook_dialing(mut self, options: DialOptions) -> Self {
        self.webhooks = options;
        self
    }

    /// Where services are that webhooks and APIServices name, as there are no Services here. Namespaces may say more in
    /// ConfigMaps.
    pub fn service_endpoints(mut self, endpoints: Vec<ServiceEndpoint>) -> Self {
        self.service_endpoints = endpoints;
        self
    }

    /// Whether other servers may serve parts of the API.
    pub fn aggregation(mut self, aggregation: Aggregation) -> Self {
        self.aggregation = aggregation;
        self
    }

    /// How long a request other than a watch may take.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// How long to go on serving when told to end, while `/readyz` says so, so that load balancers take notice.
    pub fn shutdown_delay(mut self, delay: Duration) -> Self {
        self.shutdown_delay = delay;
        self
    }

    /// Whether requests are traced.
    pub fn tracing(mut self, options: TracingOptions) -> Self {
        self.tracing = options;
        self
    }

    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The generic controllers to run in this process, instead of all; none if they run elsewhere.
    pub fn controllers(mut self, controllers: &[Controller]) -> Self {
        self.controllers = controllers.to_vec();
        self
    }

    /// Whether definitions of custom resources are put to work.
    pub fn definitions(mut self, definitions: Definitions) -> Self {
        self.definitions = definitions;
        self
    }

    /// Whether there are project control planes.
    pub fn projects(mut self, projects: Projects) -> Self {
        self.projects = projects;
        self
    }

    /// Opens the store, makes what a first start needs and serves.
    pub async fn start(mut self) -> Result<Running, Error> {
        self.settle();
        let wanted = self.useful_controllers();
        self.check_turns(&wanted)?;
        self.mount_olm()?;
        let now = Timestamp::now();
        let names = self.tls.serving_names(self.listen.ip());
        let pki_dir = self.pki_dir.clone().unwrap_or_else(|| self.data_dir.join("pki"));
        // First the store: where it is refused, no fresh certificates stand in the way of those that belong to it.
        let store::Opened { store, embedded } = self.store.open(&self.data_dir).await?;
        let encrypted = self.encryption.wrap(store, &self.store, &self.data_dir).await?;
        let pki = Pki::ensure(&pki_dir, &names, now)?;
        let store = encrypted.store;
        let (caches, feed) = Caches::start(store.clone()).await?;
        let own = self.own_resources(store.revision().await?.0)?;
        self.resources.extend(own);
        let mut resources = self.resources.clone();
        if self.projects == Projects::Served {
            resources.extend(projects::resources());
        }
        self.admission.plugins.push(Box::new(CompiledTypes::of(&resources)));
        let registry = Registry::new(&TenantId::root(), resources.clone());
        let lookup = Arc::new(StoredObjects::load(&registry, &caches).await?);
        let roots = self.authentication.client_roots(&pki)?;
        let tls_config = Arc::new(ArcSwap::from_pointee(self.tls.build(&pki, &roots)?));
        let listener = Listener::bind(self.listen, tls_config.clone(), self.limits.clone())
            .await
            .map_err(|source| Error::Listen { address: self.listen, source })?;
        let address = listener.local_addr().map_err(|source| Error::Listen { address: self.listen, source })?;
        let url = format!("https://{}", reachable(address));
        let rbac = Rbac::default();
        let stored_roles = rbac_feed::connect(&rbac, &registry, &caches, None).await?;
        let authorizers = std::mem::take(&mut self.parts.authorizers);
        let authorization = self.authorization_options().build(rbac, stored_roles, authorizers)?;
        let signing = self.authentication.signing(&pki)?;
        self.authentication.service_accounts.settle_issuers(&self.store, &url);
        let authentication = self.authentication.build(&pki, &lookup, roots, &url, &mut self.parts)?;
        let project_authorization = self.authorization_options();
        let endpoint_maps = Arc::new(StoredEndpointMaps::new(&registry, &caches));
        let resolver: Arc<dyn ServiceResolver> =
            Arc::new(MappedServices::new(self.service_endpoints.clone(), Some(endpoint_maps.clone())));
        let aggregation = self.aggregation.build(&pki_dir, resolver.clone(), now)?;
        let audit = self.audit.build()?;
        let (tracer, exporting) = self.tracing.build()?.unzip();
        let (flow_limits, start_flow_control) = self.flow_control.build(&registry, &caches).await?.into_parts();
        let admission = self.admission.plan()?;
        let mut further: Vec<Box<dyn Plugin>> = Vec::new();
        if self.projects == Projects::Served {
            further.push(Box::new(projects::ProjectOwner));
        }
        let root = Tenant::new(
            &caches,
            TenantParts {
                id: TenantId::root(),
                project: None,
                authorizers: authorization.authorizers,
                admission: admission.chain(&registry, &caches, &resolver, further).await?,
                aggregation: aggregation.as_ref().map(|aggregation| aggregation.aggregator.clone()),
                issuer: authentication.issuer.clone(),
                accounts: None,
                shared_openapi: None,
                registry,
                lookup,
            },
        );
        let converters: Arc<dyn Converters> = Arc::new(WebhookConverters::new(resolver));
        let tenants = (self.projects == Projects::Served).then(|| {
            let parts = projects::PlanesParts {
                caches: caches.clone(),
                authorization: project_authorization,
                admission,
                issuer: authentication.issuer,
                token_keys: authentication.token_keys.clone(),
                definitions: self.definitions,
            };
            Tenants::new(Box::new(projects::Planes::new(parts, &resources, &pki.ca_pem)))
        });
        let config = Config {
            authenticator: authentication.authenticator,
            auditor: audit.auditor.clone(),
            encryption: encrypted.control.map(|control| -> Arc<dyn StorageEncryption> { control }),
            flow_limits,
            token_keys: authentication.token_keys,
            jwks_uri: self.authentication.service_accounts.jwks_uri.clone(),
            request_timeout: self.request_timeout,
            watch_queue: QueueLimits {
                len_max: self.limits.watch_queue_len_max,
                bytes_max: self.limits.watch_queue_bytes_max,
            },
            address: self.tls.advertised(address).to_string(),
            strict_transport_security: self.tls.strict_transport_security()?,
            tracer,
            service_metrics: self.parts.metrics_sources(),
        };
        bailiwick_webhook::dial::set_tenants_policy(self.webhooks.policy(&self.store).await);
        let server = ApiServer::new(root, tenants, caches, config);
        let flow_control = start_flow_control(&server);
        if self.definitions == Definitions::Served {
            definitions::connect(server.root(), converters).await?;
        }
        bootstrap::ensure_objects(&server).await.map_err(Error::Bootstrap)?;
        let lifecycle = match self.projects {
            Projects::Served => Some(projects::start(&server, self.store.settle_time()).await?),
            Projects::Off => None,
        };
        let mut background = authentication.background;
        let mut trust = authentication.trust;
        if let Some(aggregation) = aggregation {
            aggregation.add_trust(&mut trust);
            background.extend(aggregation.start(&server, &endpoint_maps).await?);
        }
        background.extend(authorization.background);
        background.push(authentication_trust::publish(&server, trust).await.map_err(Error::Bootstrap)?);
        let kubeconfig = self.data_dir.join("admin.kubeconfig");
        pki.write_admin_kubeconfig(&kubeconfig, &url)?;
        let places = tls::Places { pki_dir, kubeconfig: &kubeconfig, url: &url };
        let certificates = Certificates::new(
            &self.tls,
            &self.authentication,
            places,
            names,
            &pki,
            tls_config,
            authentication.client_roots,
        )
        .keep_current();
        let listening =
            listener.serve(server.clone()).map_err(|source| Error::Listen { address: self.listen, source })?;
        let servers = match &self.store {
            StoreOptions::Embedded(_) => controllers::Servers::One,
            StoreOptions::Etcd(_) => controllers::Servers::Several,
        };
        let metrics = self.parts.controller_metrics;
        let controllers = controllers::start(&server, wanted, pki.ca_pem, signing, servers, metrics);
        let services = services::start(&server, self.parts.services);
        Ok(Running {
            address,
            url,
            kubeconfig,
            server,
            store,
            embedded,
            listening,
            controllers,
            services,
            exporting,
            shutdown_delay: self.shutdown_delay,
            _background: background,
            _projects: lifecycle,
            audit,
            _reloading: encrypted.reloading,
            flow_control,
            certificates,
            _feed: feed,
        })
    }
}

/// A control plane that serves. Dropping it stops it without draining; [`Running::stop`] is the polite way.
pub struct Running {
    pub address: SocketAddr,
    /// Where clients reach it.
    pub url: String,
    /// A kubeconfig with the administrator's certificate.
    pub kubeconfig: PathBuf,
    pub server: Arc<ApiServer>,
    store: Arc<dyn Store>,
    embedded: Option<Arc<EmbeddedStore>>,
    listening: bailiwick_server::http::Running,
    controllers: controllers::Started,
    services: services::Started,
    exporting: Option<Exporting>,
    shutdown_delay: Duration,
    /// Watches files and the like; ends with us.
    _background: Vec<Background>,
    _projects: Option<projects::Lifecycle>,
    audit: audit::Audit,
    _reloading: Option<encryption::Reloading>,
    flow_control: flow_control::Started,
    certificates: tls::Kept,
    _feed: Feed,
}

impl Running {
    /// The API without a socket, as `user`.
    pub fn local_service(&self, user: UserInfo) -> LocalService {
        LocalService::new(self.server.clone(), user)
    }

    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The events recorded, for those who read them at their own pace; `None` where no stream is kept.
    pub fn audit_stream(&self) -> Option<&bailiwick_audit::stream::Stream> {
        self.audit.stream.as_ref()
    }

    /// Returns once the store has become unusable, with the reason; the process should then end.
    pub async fn failed(&self) -> bailiwick_store::Error {
        match &self.embedded {
            Some(store) => store.failed().await,
            // etcd comes back; requests fail until it does.
            None => std::future::pending().await,
        }
    }

    /// Serves until the process is told to end (SIGTERM or SIGINT), then stops. An error says that the store failed; the
    /// process should end so that it can recover.
    pub async fn until_signal(self) -> Result<(), bailiwick_store::Error> {
        tokio::select! {
            signal = stop_signal() => match signal {
                Ok(signal) => tracing::info!(signal, "stopping"),
                Err(error) => tracing::error!(%error, "cannot wait for signals"),
            },
            reason = self.failed() => return Err(reason),
        }
        self.stop().await;
        Ok(())
    }

    /// Finishes requests in flight and stops. The data directory is free when this returns.
    pub async fn stop(self) {
        if !self.shutdown_delay.is_zero() {
            self.server.announce_shutdown();
            tokio::time::sleep(self.shutdown_delay).await;
        }
        self.services.stop().await;
        self.controllers.stop().await;
        self.flow_control.stop().await;
        self.certificates.stop().await;
        self.listening.stop().await;
        if let Some(auditor) = self.audit.auditor {
            let _ = tokio::task::spawn_blocking(move || auditor.stop()).await;
        }
        if let Some(exporting) = self.exporting {
            exporting.finish().await;
        }
        if let Some(embedded) = self.embedded {
            // Tasks that have not quite ended may still hold it: whoever opens the directory next must not find it taken.
            let _ = tokio::task::spawn_blocking(move || embedded.close()).await;
        }
    }
}

fn read(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })
}

/// Returns the name of the first signal that asks this process to end.
pub async fn stop_signal() -> std::io::Result<&'static str> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    })
}

/// The address a client on this machine can use: an unspecified one means loopback.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => SocketAddr::from(([127, 0, 0, 1], v4.port())),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, v6.port())),
        specific => specific,
    }
}
