//! The way to one remote APIService: its server, found by mapping or annotation, and the connections to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arc_swap::{ArcSwapOption, Guard};
use bailiwick_webhook::dial::Origin;
use bailiwick_webhook::services::{Location, Locations, ServiceError, ServiceResolver};
use bailiwick_webhook::{Backend, Credentials, Endpoint, Identity, Transport};

use crate::api_service::{ApiService, Remote};
use crate::documents::Documents;
use crate::metrics::Interruptions;

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
    pub interruptions: Interruptions,
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
    /// Counts requests, so that each goes to another of its addresses.
    asked: AtomicUsize,
}

struct Built {
    locations: Locations,
    identity: Option<Arc<Identity>>,
    /// One for each address, which turns to the others if its own cannot be reached.
    backends: Vec<Arc<Backend>>,
}

impl Built {
    fn in_turn(&self, asked: &AtomicUsize) -> Result<Arc<Backend>, Unreachable> {
        let turn = match self.backends.len() {
            0 | 1 => 0,
            several => asked.fetch_add(1, Ordering::Relaxed) % several,
        };
        let backend = self.backends.get(turn).cloned();
        backend.ok_or_else(|| Unreachable::Transport("the service has no address".to_owned()))
    }
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
            let (surroundings, built) = (surroundings.clone(), ArcSwapOption::empty());
            Arc::new(Connections { remote, surroundings, built, asked: AtomicUsize::new(0) })
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

    /// Counts how often services become unavailable.
    pub(crate) fn interruptions(&self) -> &Interruptions {
        &self.remote.surroundings.interruptions
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
        let locations = match &self.remote.url {
            Some(url) => Location::parse(url, Origin::Tenant).map_err(ServiceError::Unusable)?.into(),
            None => self.surroundings.services.resolve(&self.remote.service).await?,
        };
        let identity = self.surroundings.identity.load_full();
        let built: Guard<Option<Arc<Built>>> = self.built.load();
        if let Some(built) = &*built
            && built.locations == locations
            && built.identity == identity
        {
            return built.in_turn(&self.asked);
        }
        let backends = locations.each_first().map(|(first, order)| self.connect(first, order, identity.as_deref()));
        let backends = backends.collect::<Result<_, _>>()?;
        let built = Arc::new(Built { locations, identity, backends });
        self.built.store(Some(built.clone()));
        built.in_turn(&self.asked)
    }

    fn connect(
        &self,
        first: &Location,
        order: Locations,
        identity: Option<&Identity>,
    ) -> Result<Arc<Backend>, Unreachable> {
        let endpoint = Endpoint {
            url: format!("https://{}", first.authority()),
            trust: self.remote.trust.clone(),
            identity: identity.cloned(),
            credentials: Credentials::None,
            server_name: Some(self.remote.service.server_name()),
            transport: Transport::HttpsOnly,
            origin: first.origin,
            locations: Some(order),
        };
        let backend = Backend::new(endpoint).map_err(|error| Unreachable::Transport(error.to_string()))?;
        Ok(Arc::new(backend))
    }
}
