//! The controller: domains and checks of all control planes, one object at a time, looking when it is time to look and
//! writing when there is something to write.
//!
//! DNS is looked at every hour, each domain at a second of its own; registries are asked once a day, and every hour when
//! something is the matter or DNS has changed. A claim without proof is looked for every few seconds at first and rarely
//! later. When to look next is kept in memory: after a restart the hour begins again.

mod check;
mod claims;
mod domain;
mod gateways;
pub(crate) mod timing;

use std::collections::HashSet;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bailiwick_controllers::plane::{Plane, PlaneClient};
use bailiwick_controllers::work_queue::{Outcome, WorkQueue};
use bailiwick_controllers::{LeaderElection, lead};
use bailiwick_domains::name::DomainName;
use bailiwick_domains::seams::{Clock, Net, Roots};
use bailiwick_domains::toolbox::Toolbox;
use bailiwick_domains::verification::Challenge;
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ApiResource, DynamicObject};
use kube::core::{GroupVersionKind, PartialObjectMeta};
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};

use crate::Error;
use crate::access::{install, install_in_project};
use crate::agents::Agents;
use crate::definition::{checks, domains, gateways, routes};
use crate::follow::{self, Followed, Observer, Presence};
use crate::index::{Index, Key, Lane, Version};
use crate::metrics::{Levels, Metrics};
use crate::opt_out::OptOut;
use crate::quota::Rates;
use crate::seal::Sealer;

/// The Lease by which one of several servers is chosen to do the work.
pub const LEASE: &str = "bailiwick-domains";
/// Set to another value to have a domain looked at now.
pub const RESCAN_ANNOTATION: &str = "datumapis.com/rescan";
/// A Project with this label, `enabled`, has Domains and DomainChecks.
pub const PROJECT_LABEL: &str = "datumapis.com/domains";

/// Domains that are looked at at once. A million an hour are 278 a second; a look waits for servers far away, for silent ones
/// and for its turn at a busy one, a second and more all in all, and needs little memory meanwhile. How often one server is
/// asked is limited elsewhere, however many looks there are.
const CONCURRENT_LOOKS: usize = 512;
/// Domains whose proof is awaited and that are looked at at once, beside those: a thousand people at it make 250 looks a second.
const CONCURRENT_PROOFS: usize = 256;
/// Before a domain is tried again that is being looked at in the other lane.
const LANE_BUSY: Duration = Duration::from_millis(200);
/// Checks that run at once, for all tenants together.
const CONCURRENT_CHECKS: usize = 16;
/// Gateways that are read at once.
const CONCURRENT_GATEWAYS: usize = 4;
/// Before a server that cannot be prepared is tried again.
const INSTALL_RETRY: Duration = Duration::from_secs(2);

/// How often a project is tried that cannot be prepared, until something about it changes.
const PROJECT_ATTEMPTS: u32 = 5;
const PROJECT_RETRY: Duration = Duration::from_millis(200);

/// What the controller works with.
#[derive(Clone)]
pub struct Options {
    /// The network.
    pub net: Net,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where the DNS begins.
    pub roots: Arc<Roots>,
    /// Our name in `_<brand>-challenge`.
    pub brand: String,
    /// The zone that challenges may be delegated to.
    pub delegation_zone: Option<DomainName>,
    /// The zone that has a nameserver for each token, to which domains may be delegated.
    pub nameserver_zone: Option<DomainName>,
    /// Domains of one tenant that are looked at; further ones wait. A tenant is a namespace of the root, or a project.
    pub domains_per_tenant_max: usize,
    /// Checks of one tenant that are kept; further ones are refused.
    pub checks_per_tenant_max: usize,
    /// Checks that one tenant may have run in a minute; further ones wait.
    pub checks_per_minute: u32,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// With others that do the same work one does it and the rest wait.
    pub election: Option<LeaderElection>,
}

impl Options {
    /// With the seams of the real world, or of the roots that the environment names.
    pub fn new(clock: Arc<dyn Clock>, roots: Arc<Roots>) -> Self {
        Self {
            net: Net::default(),
            clock,
            roots,
            brand: "bailiwick".to_owned(),
            delegation_zone: None,
            nameserver_zone: None,
            domains_per_tenant_max: 1_000,
            checks_per_tenant_max: 1_000,
            checks_per_minute: 60,
            metrics: Arc::default(),
            election: None,
        }
    }

    /// A challenge with the zones that are run for proofs.
    pub(crate) fn with_zones(&self, challenge: Challenge) -> Challenge {
        let (delegation_zone, nameserver_zone) = (self.delegation_zone.clone(), self.nameserver_zone.clone());
        Challenge { delegation_zone, nameserver_zone, ..challenge }
    }
}

pub(crate) struct Context {
    root: Client,
    toolbox: Arc<Toolbox>,
    sealer: Sealer,
    options: Options,
    index: Mutex<Index>,
    domains: WorkQueue<Key>,
    proofs: WorkQueue<Key>,
    /// Domains that are being looked at, in whichever lane.
    looked_at: Mutex<HashSet<Key>>,
    checks: WorkQueue<Key>,
    /// Gateways whose plans may have to be watched.
    gateways: WorkQueue<Key>,
    rates: Mutex<Rates>,
    opt_out: OptOut,
    agents: Agents,
}

/// Installs the definitions and watches over all domains until `shutdown` is ready; of several with an election only the one
/// that leads.
pub async fn run(
    client: Client,
    options: Options,
    shutdown: impl Future<Output = ()> + Send + Sync + 'static,
) -> Result<(), Error> {
    let toolbox = Arc::new(Toolbox::new(&options.net, options.clock.clone(), &options.roots)?);
    let Some(election) = options.election.clone() else {
        watch_over(client, toolbox, options, shutdown).await;
        return Ok(());
    };
    let work = |stopped| watch_over(client.clone(), toolbox.clone(), options.clone(), stopped);
    lead(client.clone(), election, work, shutdown).await;
    Ok(())
}

async fn watch_over(client: Client, toolbox: Arc<Toolbox>, options: Options, shutdown: impl Future<Output = ()>) {
    let working = async {
        let sealer = prepare(&client).await;
        let context = Arc::new(Context {
            agents: Agents::new(client.clone(), options.metrics.clone()),
            rates: Mutex::new(Rates::new(options.checks_per_minute)),
            root: client.clone(),
            toolbox,
            sealer,
            options,
            index: Mutex::default(),
            domains: WorkQueue::new(),
            proofs: WorkQueue::new(),
            looked_at: Mutex::default(),
            checks: WorkQueue::new(),
            gateways: WorkQueue::new(),
            opt_out: OptOut::default(),
        });
        context.work().await;
    };
    tokio::select! {
        () = working => {}
        () = shutdown => {}
    }
}

/// Installs what is needed, again and again until the server takes it, and takes the key of seals.
async fn prepare(client: &Client) -> Sealer {
    loop {
        let prepared = async {
            install(client).await?;
            Sealer::of_service(client).await
        };
        match prepared.await {
            Ok(sealer) => return sealer,
            Err(error) => tracing::warn!(%error, "what domains need cannot be installed"),
        }
        tokio::time::sleep(INSTALL_RETRY).await;
    }
}

impl Context {
    /// Follows and works for ever.
    async fn work(self: &Arc<Self>) {
        let weak = Arc::downgrade(self);
        self.options.metrics.set_levels(move || weak.upgrade().map(|context| context.levels()).unwrap_or_default());
        let (domain_type, check_type, gateway_type, route_type) = (domains(), checks(), gateways(), routes());
        let looking =
            self.domains.work("domains", CONCURRENT_LOOKS, |key| async move { self.look_in(Lane::Watched, key).await });
        let proving = self
            .proofs
            .work("domain-proofs", CONCURRENT_PROOFS, |key| async move { self.look_in(Lane::Awaited, key).await });
        let checking =
            self.checks.work("domain-checks", CONCURRENT_CHECKS, |key| async move { self.check(&key).await });
        let planning = self
            .gateways
            .work("domain-gateways", CONCURRENT_GATEWAYS, |key| async move { self.look_at_gateway(&key).await });
        let working = async {
            // Nobody is looked at before it is known who asked not to be, and nothing decided before it is known who has a say.
            tokio::join!(self.opt_out.synced(), self.agents.synced());
            tokio::join!(looking, proving, checking, planning)
        };
        tokio::join!(
            follow::root(&self.root, &domain_type, Followed::Domain, &**self),
            follow::root(&self.root, &check_type, Followed::Check, &**self),
            follow::while_defined(&self.root, &gateway_type, Followed::Gateway, &**self),
            follow::while_defined(&self.root, &route_type, Followed::Route, &**self),
            follow::projects(&self.root, &**self),
            self.prepare_projects(),
            self.opt_out.follow(self.root.clone()),
            self.agents.follow(),
            working,
        );
    }

    /// Gives projects that have the label their definitions.
    async fn prepare_projects(&self) {
        let kind = GroupVersionKind::gvk("resourcemanager.miloapis.com", "v1alpha1", "Project");
        let projects: Api<PartialObjectMeta<DynamicObject>> =
            Api::all_with(self.root.clone(), &ApiResource::from_gvk_with_plural(&kind, "projects"));
        let labelled = watcher::Config::default().labels(&format!("{PROJECT_LABEL}=enabled"));
        let mut events = watcher(projects, labelled).default_backoff().boxed();
        while let Some(event) = events.next().await {
            let project = match event {
                Ok(Event::Apply(project) | Event::InitApply(project)) => project.metadata,
                // A server without projects has none to prepare.
                Ok(_) | Err(_) => continue,
            };
            if project.deletion_timestamp.is_some() {
                continue;
            }
            let plane = Plane::project(&project.name.unwrap_or_default());
            // A project that is being made takes a moment to let anybody in.
            for attempt in 1..=PROJECT_ATTEMPTS {
                match install_in_project(&self.client(&plane)).await {
                    Ok(()) => break,
                    Err(error) if attempt == PROJECT_ATTEMPTS => {
                        tracing::warn!(%error, project = ?plane, "the definitions of domains cannot be installed");
                    }
                    Err(_) => tokio::time::sleep(PROJECT_RETRY).await,
                }
            }
        }
    }

    fn client(&self, plane: &Plane) -> Client {
        PlaneClient::of(&self.root, plane).get()
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Timestamp {
        self.options.clock.now()
    }

    /// Reads an object; none when it, or its project, is gone.
    async fn read(&self, resource: &ApiResource, key: &Key) -> Result<Option<DynamicObject>, Error> {
        let api: Api<DynamicObject> = Api::namespaced_with(self.client(&key.plane), &key.namespace, resource);
        match api.get_opt(&key.name).await {
            Err(kube::Error::Api(status)) if status.is_forbidden() && key.plane.project_name().is_some() => Ok(None),
            other => Ok(other?),
        }
    }

    fn levels(&self) -> Levels {
        let (alive, absent) = self.agents.roll();
        let now = self.now();
        let (domains, overdue, waiting, oldest) = {
            let index = self.index();
            (index.len(), index.overdue(now), index.checks.len(), index.oldest(now))
        };
        let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        Levels {
            domains: number(domains),
            overdue: number(overdue),
            checks: number(waiting),
            agents_alive: number(alive.len()),
            agents_absent: number(absent.len()),
            questions: self.toolbox.surveyor().questions_asked(),
            oldest,
            registries: self.toolbox.registrations().tally(),
        }
    }
}

/// A domain that is being looked at, until it is dropped.
struct Looking<'a> {
    context: &'a Context,
    key: &'a Key,
}

impl Drop for Looking<'_> {
    fn drop(&mut self) {
        self.context.looked_at.lock().unwrap_or_else(PoisonError::into_inner).remove(self.key);
    }
}

impl Context {
    fn queue(&self, lane: Lane) -> &WorkQueue<Key> {
        match lane {
            Lane::Watched => &self.domains,
            Lane::Awaited => &self.proofs,
        }
    }

    /// Has a domain looked after soon, in its lane.
    fn enqueue(&self, key: Key) {
        let lane = self.index().lane(&key);
        self.queue(lane).add(key);
    }

    /// Looks after a domain that came up in a lane; it comes up again where it belongs by then.
    async fn look_in(&self, lane: Lane, key: Key) -> Result<Outcome, Error> {
        let is_free = self.looked_at.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone());
        if !is_free {
            return Ok(Outcome::After(LANE_BUSY));
        }
        let looking = Looking { context: self, key: &key };
        let outcome = self.look_after(&key).await?;
        drop(looking);
        let next = self.index().lane(&key);
        match outcome {
            Outcome::After(wait) if next != lane => {
                self.queue(next).add_after(key, wait);
                Ok(Outcome::Done)
            }
            outcome => Ok(outcome),
        }
    }
}

impl Observer for Context {
    fn saw(&self, what: Followed, plane: &Plane, meta: &ObjectMeta, presence: Presence) {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let key = Key { plane: plane.clone(), namespace: text(&meta.namespace), name: text(&meta.name) };
        let created = meta.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
        match (what, presence) {
            (Followed::Domain, Presence::Present) => {
                let rescan = meta.annotations.as_ref().and_then(|all| all.get(RESCAN_ANNOTATION)).cloned();
                let version = Version {
                    uid: text(&meta.uid),
                    generation: meta.generation,
                    rescan,
                    deleting: meta.deletion_timestamp.is_some(),
                };
                let is_new = self.index().saw(&key, version, created);
                if is_new {
                    self.enqueue(key);
                }
            }
            (Followed::Domain, Presence::Gone) => self.forget(&key),
            (Followed::Check, Presence::Present) => {
                self.index().checks.add(&key, created);
                self.checks.add(key);
            }
            (Followed::Check, Presence::Gone) => {
                self.index().checks.remove(&key);
                // One that a Gateway should have is made anew.
                let gateway = gateways::gateway_of(&key).filter(|gateway| self.index().gateways.contains(gateway));
                gateway.into_iter().for_each(|gateway| self.gateways.add(gateway));
            }
            (Followed::Gateway, Presence::Present) => {
                self.index().gateways.insert(key.clone());
                self.gateways.add(key);
            }
            (Followed::Gateway, Presence::Gone) => {
                self.index().gateways.remove(&key);
                self.gateways.add(key);
            }
            (Followed::Route, _) => self.look_at_gateways_beside(&key),
        }
    }
}

impl Context {
    /// A domain is gone; whoever else claims its name is looked at, as it may be theirs now.
    fn forget(&self, key: &Key) {
        let others = {
            let mut index = self.index();
            let known = index.get(key).filter(|known| known.holds).and_then(|known| known.claims.clone());
            let others = known.map(|name| index.other_claimants(&name, key)).unwrap_or_default();
            index.forget(key);
            for other in &others {
                index.look_now(other);
            }
            others
        };
        others.into_iter().for_each(|other| self.enqueue(other));
        self.look_at_gateways_beside(key);
    }
}
