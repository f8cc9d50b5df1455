//! What all parts of the service share: the API, the catalogs, the queue of what is to be looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bailiwick_controllers::work_queue::WorkQueue;
use kube::Client;
use kube::api::{Api, DynamicObject};
use serde_json::Value;
use tokio::time::Instant;

use crate::bundles::Bundles;
use crate::catalogs::Catalogs;
use crate::error::Error;
use crate::events::Events;
use crate::object::write_status;
use crate::pull::Puller;
use crate::served_catalog::ServedCatalogs;
use crate::target::Targets;

/// How long what was tried and put back rests before it is tried again.
const REST: Duration = Duration::from_secs(10);

/// What there is to look at.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Key {
    CatalogSource {
        namespace: String,
        name: String,
    },
    /// The OperatorGroup, Subscriptions, InstallPlans and ClusterServiceVersions of a namespace: one depends on the other.
    Namespace(String),
    ClusterCatalog(String),
    ClusterExtension(String),
}

/// Whether we do the work, or somebody else does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Leader,
    /// Catalogs are read, and nothing is written.
    Follower,
}

/// See the module.
pub(crate) struct Context {
    pub role: Role,
    pub client: Client,
    pub global_namespace: String,
    pub catalogs: Arc<Catalogs>,
    pub served: ServedCatalogs,
    pub puller: Arc<Puller>,
    pub bundles: Bundles,
    pub targets: Targets,
    pub events: Events,
    pub queue: Arc<WorkQueue<Key>>,
    /// What has been looked at so far, to be looked at again when a catalog changes.
    known: Mutex<BTreeSet<Key>>,
    /// What was put back lately, with what was said of it.
    resting: Mutex<BTreeMap<String, (Instant, String)>>,
}

impl Context {
    pub fn new(
        client: Client,
        global_namespace: String,
        puller: Arc<Puller>,
        catalogs: Arc<Catalogs>,
        role: Role,
    ) -> Self {
        Self {
            role,
            global_namespace,
            catalogs,
            served: ServedCatalogs::default(),
            bundles: Bundles::new(puller.clone()),
            puller,
            targets: Targets::new(client.clone()),
            events: Events::new(client.clone(), role),
            queue: Arc::new(WorkQueue::new()),
            known: Mutex::default(),
            resting: Mutex::default(),
            client,
        }
    }

    /// Writes a status if it is another than the object has, and if that is for us to do.
    pub async fn write_status(
        &self,
        api: &Api<DynamicObject>,
        object: &mut DynamicObject,
        status: Value,
    ) -> Result<(), Error> {
        match self.role {
            Role::Leader => write_status(api, object, status).await,
            Role::Follower => Ok(()),
        }
    }

    /// Notes that something is there.
    pub fn note(&self, key: &Key) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone());
    }

    pub fn forget(&self, key: &Key) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    /// Something was tried, and put back with a message. Both change definitions, and every change of those leads to
    /// another look: without a rest the same would be done over and over.
    pub fn lay_to_rest(&self, what: String, message: &str) {
        let mut resting = self.resting.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        resting.retain(|_, (until, _)| *until > now);
        resting.insert(what, (now + REST, message.to_owned()));
    }

    /// How long something is not to be tried again, and what was said of it.
    pub fn rest_of(&self, what: &str) -> Option<(Duration, String)> {
        let resting = self.resting.lock().unwrap_or_else(PoisonError::into_inner);
        let (until, message) = resting.get(what)?;
        let left = until.saturating_duration_since(Instant::now());
        (!left.is_zero()).then(|| (left, message.clone()))
    }

    /// A namespace is new, has other labels or goes away: groups may select it, and what is in it may wait to go.
    pub fn namespace_changed(&self, name: &str) {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for key in known.iter().filter(|key| matches!(key, Key::Namespace(_))) {
            self.queue.add(key.clone());
        }
        self.queue.add(Key::Namespace(name.to_owned()));
    }

    /// Everything that draws from catalogs is looked at again.
    pub fn catalogs_changed(&self) {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for key in known.iter().filter(|key| matches!(key, Key::Namespace(_) | Key::ClusterExtension(_))) {
            self.queue.add(key.clone());
        }
    }
}
