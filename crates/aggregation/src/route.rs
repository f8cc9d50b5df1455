//! The way to one remote APIService: its server, found by mapping or annotation, and the connections to it.

use std::sync::Arc;

use arc_swap::{ArcSwapOption, Guard};
use bailiwick_webhook::dial::Origin;
use bailiwick_webhook::services::{Location, ServiceError, ServiceResolver};
use bailiwick_webhook::{Backend, Credentials, Endpoint, Identity, Transport};

use crate::api_service::{ApiService, Remote};
use crate::documents::Documents;

/// Why a server cannot be reached at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreachable {
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// What was configured makes no connection, such as a CA bundle without certificates.
    #[error("{0}")]
    Transport(String),
}

/// What all routes share.
pub(crate) struct Surroundings {
    pub services: Arc<dyn ServiceResolver>,
    /// The front proxy's certificate; replaced when it is renewed.
    pub identity: ArcSwapOption<Identity>,
}

/// A remote APIService.
pub struct Route {
    service: Arc<ApiService>,
    remote: Arc<Connections>,
    documents: Arc<Documents>,
}

/// The connections of an APIService, which outlive changes of its status.
struct Connections {
    remote: Remote,
    surroundings: Arc<Surroundings>,
    /// The server as it was last found.
    built: ArcSwapOption<Built>,
}

struct Built {
    location: Location,
    identity: Option<Arc<Identity>>,
    backend: Arc<Backend>,
}

/// Where a request is to be sent, or why it cannot be.
pub enum Target {
    Server(Arc<Backend>),
    /// Nobody is to be asked at the moment.
    Unavailable,
    /// Nobody can be asked, for this reason.
    Broken(String),
}

impl Route {
    /// The way to a remote APIService; `before` is how it was, whose connections and documents stay if it is the same.
    pub(crate) fn new(
        service: Arc<ApiService>,
        remote: Remote,
        before: Option<&Self>,
        surroundings: &Arc<Surroundings>,
    ) -> Self {
        let same = before.filter(|before| before.remote.remote == remote);
        let connections = same.map(|before| before.remote.clone()).unwrap_or_else(|| {
            Arc::new(Connections { remote, surroundings: surroundings.clone(), built: ArcSwapOption::empty() })
        });
        let documents = same.map(|before| before.documents.clone()).unwrap_or_default();
        Self { service, remote: connections, documents }
    }

    pub fn service(&self) -> &Arc<ApiService> {
        &self.service
    }

    pub fn remote(&self) -> &Remote {
        &self.remote.remote
    }

    /// What its server says about itself.
    pub fn documents(&self) -> &Arc<Documents> {
        &self.documents
    }

    /// Whether both lead to the same server for the same reasons.
    pub(crate) fn shares_connections(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.remote, &other.remote)
    }

    /// Where a request is to be sent.
    pub async fn target(&self) -> Target {
        if !self.service.is_available() {
            return Target::Unavailable;
        }
        match self.backend().await {
            Ok(backend) => Target::Server(backend),
            Err(Unreachable::Transport(reason)) => Target::Broken(reason),
            Err(Unreachable::Service(error)) => {
                tracing::debug!(%error, api_service = self.service.name, "the service cannot be resolved");
                Target::Unavailable
            }
        }
    }

    /// The server, whether it is available or not.
    pub(crate) async fn backend(&self) -> Result<Arc<Backend>, Unreachable> {
        self.remote.backend().await
    }
}

impl Connections {
    async fn backend(&self) -> Result<Arc<Backend>, Unreachable> {
        let location = match &self.remote.url {
            Some(url) => Location::parse(url, Origin::Tenant).map_err(ServiceError::Unusable)?,
            None => self.surroundings.services.resolve(&self.remote.service).await?,
        };
        let identity = self.surroundings.identity.load_full();
        let built: Guard<Option<Arc<Built>>> = self.built.load();
        if let Some(built) = &*built
            && built.location == location
            && built.identity == identity
        {
            return Ok(built.backend.clone());
        }
        let endpoint = Endpoint {
            url: format!("https://{}", location.authority()),
            trust: self.remote.trust.clone(),
            identity: identity.as_deref().cloned(),
            credentials: Credentials::None,
            server_name: Some(self.remote.service.server_name()),
            transport: Transport::HttpsOnly,
            origin: location.origin,
            location: Some(location.clone()),
        };
        let backend = Backend::new(endpoint).map_err(|error| Unreachable::Transport(error.to_string()))?;
        let backend = Arc::new(backend);
        self.built.store(Some(Arc::new(Built { location, identity, backend: backend.clone() })));
        Ok(backend)
    }
}
