//! The aggregator: takes changes of APIServices, answers where requests go, owns the tasks that look after remote ones.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use arc_swap::{ArcSwap, ArcSwapOption, Guard};
use bailiwick_webhook::Identity;
use bailiwick_webhook::services::ServiceResolver;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::api_service::ApiService;
use crate::keeper::{Keeper, StatusWriter};
use crate::metrics::{self, Interruptions};
use crate::route::{Route, Surroundings};
use crate::table::Table;

/// A change of a stored APIService.
#[derive(Clone, Copy, Debug)]
pub enum Change<'a> {
    /// The stored JSON.
    Stored(&'a [u8]),
    Deleted {
        name: &'a str,
    },
}

/// Knows who serves what. See the crate.
pub struct Aggregator {
    table: ArcSwap<Table>,
    surroundings: Arc<Surroundings>,
    /// The tasks that look after remote APIServices, by name. The lock also puts changes in order.
    keepers: Mutex<HashMap<String, Keeper>>,
    running: OnceLock<Running>,
    closing: watch::Sender<bool>,
}

struct Running {
    handle: Handle,
    writer: Arc<dyn StatusWriter>,
}

impl Aggregator {
    /// An aggregator without APIServices. `identity` is the certificate it proves itself with.
    pub fn new(services: Arc<dyn ServiceResolver>, identity: Option<Identity>) -> Arc<Self> {
        let identity = ArcSwapOption::from_pointee(identity);
        Arc::new(Self {
            table: ArcSwap::default(),
            surroundings: Arc::new(Surroundings { services, identity, interruptions: Interruptions::default() }),
            keepers: Mutex::default(),
            running: OnceLock::new(),
            closing: watch::Sender::new(false),
        })
    }

    /// Looks after remote APIServices from now on, within the runtime this is called in; conditions go to `writer`.
    pub fn start(self: &Arc<Self>, writer: Arc<dyn StatusWriter>) {
        let mut keepers = self.keepers.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = self.running.set(Running { handle: Handle::current(), writer });
        for route in self.table.load().routes() {
            self.keep(&mut keepers, route);
        }
    }

    /// Takes a change. What cannot be read changes nothing, and its reason is logged.
    pub fn apply(self: &Arc<Self>, change: Change<'_>) {
        let mut keepers = self.keepers.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.table.load_full();
        match change {
            Change::Deleted { name } => {
                self.table.store(Arc::new(before.without(name)));
                keepers.remove(name);
                self.surroundings.interruptions.forget(name);
            }
            Change::Stored(json) => {
                let service = match ApiService::parse(json) {
                    Ok(service) => Arc::new(service),
                    Err(error) => return tracing::error!(%error, "a stored APIService cannot be read"),
                };
                let known = before.get(&service.name).and_then(|known| before.route(&known.group, &known.version));
                let route = service.remote.clone().map(|remote| {
                    Arc::new(Route::new(service.clone(), remote, known.map(Arc::as_ref), &self.surroundings))
                });
                let same_server =
                    matches!((&route, known), (Some(route), Some(known)) if route.shares_connections(known));
                self.table.store(Arc::new(before.with(service.clone(), route.clone())));
                match route {
                    None => drop(keepers.remove(&service.name)),
                    Some(route) => match keepers.get(&service.name) {
                        None => self.keep(&mut keepers, &route),
                        // Somebody took back what we had found out.
                        Some(keeper) if !same_server || service.available.is_none() => keeper.look_again(),
                        Some(_) => {}
                    },
                }
            }
        }
    }

    fn keep(self: &Arc<Self>, keepers: &mut HashMap<String, Keeper>, route: &Route) {
        let Some(running) = self.running.get() else { return };
        let name = &route.service().name;
        if !keepers.contains_key(name) {
            let aggregator: Weak<Self> = Arc::downgrade(self);
            let keeper = Keeper::spawn(&running.handle, name.clone(), aggregator, running.writer.clone());
            keepers.insert(name.clone(), keeper);
        }
    }

    /// Ends when every remote APIService there is now has been looked at once, so that clients are told what it serves.
    pub async fn looked(&self) {
        let looks: Vec<_> = {
            let keepers = self.keepers.lock().unwrap_or_else(PoisonError::into_inner);
            keepers.values().map(Keeper::looked).collect()
        };
        for look in looks {
            look.await;
        }
    }

    /// Looks at all remote APIServices again, because something that they depend on has changed.
    pub fn look_again(&self) {
        let keepers = self.keepers.lock().unwrap_or_else(PoisonError::into_inner);
        keepers.values().for_each(Keeper::look_again);
    }

    /// Proves ourselves with another certificate from now on.
    pub fn set_identity(&self, identity: Identity) {
        self.surroundings.identity.store(Some(Arc::new(identity)));
    }

    /// Appends metrics, in upstream's names.
    pub fn write_metrics(&self, out: &mut String) {
        metrics::write(out, &self.table.load(), &self.surroundings.interruptions);
    }

    /// Who serves what now.
    pub fn table(&self) -> Guard<Arc<Table>> {
        self.table.load()
    }

    /// Who serves what now, for those who look at it for longer.
    pub fn current_table(&self) -> Arc<Table> {
        self.table.load_full()
    }

    /// The way to a remote APIService by its name.
    pub(crate) fn route_of(&self, name: &str) -> Option<Arc<Route>> {
        let table = self.table.load();
        let service = table.get(name)?;
        table.route(&service.group, &service.version).cloned()
    }

    /// The server is about to end: streams that would not end by themselves do.
    pub fn close(&self) {
        self.closing.send_replace(true);
    }

    /// Ends once [`Aggregator::close`] was called.
    pub fn closed(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut closing = self.closing.subscribe();
        async move {
            // An error says that the aggregator is gone, which is the same.
            let _ = closing.wait_for(|closing| *closing).await;
        }
    }
}
