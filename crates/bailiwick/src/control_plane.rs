//! Building and running a control plane.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bailiwick_admission::Chain;
use bailiwick_apiextensions::conversion::WebhookConverters;
use bailiwick_auth::authn::service_account::ServiceAccountTokens;
use bailiwick_auth::authn::token_file::{TokenFile, TokenFileError};
use bailiwick_auth::authn::x509::{ClientCertificates, RootsError};
use bailiwick_auth::authn::{Anonymous, Authenticator, RequestAuthenticator};
use bailiwick_auth::authz::rbac::Rbac;
use bailiwick_auth::authz::{AlwaysAllow, Authorizer, Authorizers, BasicAccess, SystemMasters};
use bailiwick_auth::keys::{KeyError, SigningKey, VerifyingKey};
use bailiwick_auth::pki::{Pki, PkiError, ServingNames};
use bailiwick_auth::service_account::TokenIssuer;
use bailiwick_auth::tls::{self, TlsError};
use bailiwick_controllers::Controller;
use bailiwick_machinery::resource::Resource;
use bailiwick_machinery::user::UserInfo;
use bailiwick_server::cache::{Caches, Feed};
use bailiwick_server::http::{Limits, Listener};
use bailiwick_server::{ApiServer, Config, LocalService, Registry, StoredObjects, TenantId};
use bailiwick_store::Store;
use bailiwick_store::embedded::{self, EmbeddedStore};
use bailiwick_store::etcd::{self, EtcdStore};
use jiff::Timestamp;
use rustls::RootCertStore;

use crate::{bootstrap, controllers, definitions, rbac_feed};

/// Why a control plane could not start. The text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the store cannot be opened: {0}")]
    Store(#[from] bailiwick_store::Error),
    #[error("certificates and keys: {0}")]
    Pki(#[from] PkiError),
    #[error("TLS: {0}")]
    Tls(#[from] TlsError),
    #[error("client certificates: {0}")]
    Roots(#[from] RootsError),
    #[error("service-account key: {0}")]
    Key(#[from] KeyError),
    #[error("--token-auth-file: {0}")]
    TokenFile(#[from] TokenFileError),
    #[error("{path}: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("cannot listen on {address}: {source}")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error("first-start objects: {0}")]
    Bootstrap(String),
}

/// Where objects are kept.
#[derive(Clone, Debug)]
pub enum StoreOptions {
    /// In the data directory, by this process alone.
    Embedded(embedded::Options),
    /// In an etcd cluster, shared with other servers.
    Etcd(etcd::Options),
}

/// Who may do what, besides members of `system:masters`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthorizationMode {
    /// What stored roles and bindings grant.
    Rbac,
    /// Everybody who is authenticated may do everything.
    AlwaysAllow,
}

/// A control plane to be; see [`ControlPlane::builder`].
pub struct Builder {
    data_dir: PathBuf,
    listen: SocketAddr,
    store: StoreOptions,
    resources: Vec<Resource>,
    token_auth_file: Option<PathBuf>,
    client_ca_file: Option<PathBuf>,
    serving: Option<(PathBuf, PathBuf)>,
    service_account_issuer: Option<String>,
    authorization: AuthorizationMode,
    anonymous: Anonymous,
    request_timeout: Duration,
    limits: Limits,
    controllers: Vec<Controller>,
    definitions: Definitions,
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
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            store: StoreOptions::Embedded(embedded::Options::default()),
            resources: bailiwick_api::native_resources(),
            token_auth_file: None,
            client_ca_file: None,
            serving: None,
            service_account_issuer: None,
            authorization: AuthorizationMode::Rbac,
            anonymous: Anonymous::Allowed,
            request_timeout: Duration::from_secs(60),
            limits: Limits::default(),
            controllers: Controller::ALL.to_vec(),
            definitions: Definitions::Served,
        }
    }
}

impl Builder {
    /// The address to serve on; port 0 picks a free one.
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = address;
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

    /// A CSV file of static tokens.
    pub fn token_auth_file(mut self, path: Option<PathBuf>) -> Self {
        self.token_auth_file = path;
        self
    }

    /// A PEM bundle of authorities for client certificates, besides our own.
    pub fn client_ca_file(mut self, path: Option<PathBuf>) -> Self {
        self.client_ca_file = path;
        self
    }

    /// Certificate and key to serve with, instead of our own.
    pub fn serving_certificate(mut self, files: Option<(PathBuf, PathBuf)>) -> Self {
        self.serving = files;
        self
    }

    /// The `iss` of tokens we issue; our own URL if not set.
    pub fn service_account_issuer(mut self, issuer: Option<String>) -> Self {
        self.service_account_issuer = issuer;
        self
    }

    pub fn authorization(mut self, mode: AuthorizationMode) -> Self {
        self.authorization = mode;
        self
    }

    pub fn anonymous(mut self, anonymous: Anonymous) -> Self {
        self.anonymous = anonymous;
        self
    }

    /// How long a request other than a watch may take.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
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

    /// Opens the store, makes what a first start needs and serves.
    pub async fn start(self) -> Result<Running, Error> {
        let now = Timestamp::now();
        let names = ServingNames::default().with(&self.listen.ip().to_string()).with_own_hostname();
        let pki = Pki::ensure(&self.data_dir.join("pki"), &names, now)?;
        let Opened { store, embedded } = open_store(&self.store, &self.data_dir).await?;
        let (caches, feed) = Caches::start(store.clone()).await?;
        let registry = Registry::new(&TenantId::root(), self.resources.clone());
        let lookup = Arc::new(StoredObjects::load(&registry, &caches).await?);
        let mut roots = RootCertStore::empty();
        tls::add_roots(&mut roots, "own CA", &pki.ca_pem)?;
        if let Some(path) = &self.client_ca_file {
            tls::add_roots(&mut roots, "--client-ca-file", &read(path)?)?;
        }
        let serving = match &self.serving {
            Some((certificate, key)) => (read(certificate)?, read(key)?),
            None => (pki.serving.certificate_pem.clone(), pki.serving.key_pem.clone()),
        };
        let tls_config = Arc::new(tls::server_config(&serving.0, &serving.1, &roots)?);
        let listener = Listener::bind(self.listen, tls_config, self.limits.clone())
            .await
            .map_err(|source| Error::Listen { address: self.listen, source })?;
        let address = listener.local_addr().map_err(|source| Error::Listen { address: self.listen, source })?;
        let url = format!("https://{}", reachable(address));
        let rbac = Rbac::default();
        rbac_feed::connect(&rbac, &registry, &caches).await?;
        let config = self.server_config(&pki, &lookup, Arc::new(roots), rbac, address, &url)?;
        let server = ApiServer::new(registry, caches, lookup, config);
        let mut wanted = self.controllers.clone();
        if self.definitions == Definitions::Served {
            definitions::connect(&server, Arc::new(WebhookConverters)).await?;
            if !wanted.contains(&Controller::CustomResourceDefinition) {
                wanted.push(Controller::CustomResourceDefinition);
            }
        }
        bootstrap::ensure_objects(&server).await.map_err(Error::Bootstrap)?;
        let kubeconfig = self.data_dir.join("admin.kubeconfig");
        pki.write_admin_kubeconfig(&kubeconfig, &url)?;
        let listening =
            listener.serve(server.clone()).map_err(|source| Error::Listen { address: self.listen, source })?;
        let servers = match &self.store {
            StoreOptions::Embedded(_) => controllers::Servers::One,
            StoreOptions::Etcd(_) => controllers::Servers::Several,
        };
        let controllers = controllers::start(&server, wanted, pki.ca_pem, servers);
        Ok(Running { address, url, kubeconfig, server, store, embedded, listening, controllers, _feed: feed })
    }

    fn server_config(
        &self,
        pki: &Pki,
        lookup: &Arc<StoredObjects>,
        roots: Arc<RootCertStore>,
        rbac: Rbac,
        address: SocketAddr,
        url: &str,
    ) -> Result<Config, Error> {
        let issuer = self.service_account_issuer.clone().unwrap_or_else(|| url.to_owned());
        let audiences: Arc<[String]> = Arc::from(vec![issuer.clone()]);
        let signing = SigningKey::from_pem(&pki.service_account_key.0)?;
        let token_keys: Vec<VerifyingKey> = vec![signing.verifying_key()];
        let mut authenticators: Vec<Box<dyn Authenticator>> = vec![Box::new(ClientCertificates::new(roots)?)];
        if let Some(path) = &self.token_auth_file {
            authenticators.push(Box::new(TokenFile::load(path, audiences.to_vec())?));
        }
        authenticators.push(Box::new(ServiceAccountTokens::new(
            [issuer.clone()],
            token_keys.clone(),
            audiences.clone(),
            lookup.clone(),
        )));
        let authorizers: Vec<Box<dyn Authorizer>> = match self.authorization {
            AuthorizationMode::AlwaysAllow => vec![Box::new(AlwaysAllow)],
            AuthorizationMode::Rbac => vec![Box::new(SystemMasters), Box::new(BasicAccess), Box::new(rbac)],
        };
        Ok(Config {
            authenticator: RequestAuthenticator::new(authenticators, self.anonymous),
            authorizers: Authorizers::new(authorizers),
            admission: Chain::default(),
            issuer: Arc::new(TokenIssuer::new(signing, issuer, audiences, None)),
            token_keys,
            request_timeout: self.request_timeout,
            watch_queue_len_max: self.limits.watch_queue_len_max,
            address: reachable(address).to_string(),
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

    /// Returns once the store has become unusable, with the reason; the process should then end.
    pub async fn failed(&self) -> bailiwick_store::Error {
        match &self.embedded {
            Some(store) => store.failed().await,
            // etcd comes back; requests fail until it does.
            None => std::future::pending().await,
        }
    }

    /// Finishes requests in flight and stops.
    pub async fn stop(self) {
        self.controllers.stop().await;
        self.listening.stop().await;
    }
}

/// An opened store, and the embedded engine's own handle where it is one.
struct Opened {
    store: Arc<dyn Store>,
    embedded: Option<Arc<EmbeddedStore>>,
}

async fn open_store(options: &StoreOptions, data_dir: &Path) -> Result<Opened, Error> {
    match options {
        StoreOptions::Embedded(options) => {
            let (dir, options) = (data_dir.join("store"), options.clone());
            let opened = tokio::task::spawn_blocking(move || EmbeddedStore::open(dir, options)).await;
            let store = opened.map_err(|error| bailiwick_store::Error::Unavailable(error.to_string()))??;
            Ok(Opened { store: store.clone(), embedded: Some(store) })
        }
        StoreOptions::Etcd(options) => {
            Ok(Opened { store: Arc::new(EtcdStore::connect(options.clone()).await?), embedded: None })
        }
    }
}

fn read(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })
}

/// The address a client on this machine can use: an unspecified one means loopback.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => SocketAddr::from(([127, 0, 0, 1], v4.port())),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, v6.port())),
        specific => specific,
    }
}
