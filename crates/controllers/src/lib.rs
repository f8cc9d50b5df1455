//! The generic controllers: what makes an API server into a control plane that cleans up after itself.
//!
//! They are ordinary clients of the API, in the server's process or far away, and know nothing of its internals.
//! [`run`] is the entry point; each controller has a module of its own. All share one metadata watch per resource type
//! (`monitor`), all projects share one stream and one queue (`projects`), and hold in memory only what they need to know of objects: the garbage collector those that own or are
//! owned, the others a few words per namespace. Nothing is polled; between changes nothing runs.

mod bootstrap_tokens;
mod certificates;
mod cluster_role_aggregation;
mod definitions;
mod discovery;
mod error;
mod expired_leases;
mod garbage_collector;
mod header;
mod leader_election;
mod metrics;
mod monitor;
mod namespace;
mod per_namespace;
pub mod plane;
mod policy_status;
mod projects;
mod requests;
mod resource_quota;
mod restart;
mod root_ca;
mod service_account;
pub mod work_queue;

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::watch;

use crate::bootstrap_tokens::BootstrapTokens;
use crate::certificates::Certificates;
pub use crate::certificates::Signing;
use crate::cluster_role_aggregation::ClusterRoleAggregation;
use crate::definitions::Definitions;
use crate::discovery::Discovery;
use crate::expired_leases::ExpiredLeases;
use crate::garbage_collector::GarbageCollector;
pub use crate::leader_election::{LeaderElection, lead, run_elected};
pub use crate::metrics::{Metrics, Standing};
use crate::monitor::Observer;
use crate::namespace::Namespaces;
use crate::policy_status::PolicyStatus;
use crate::projects::ProjectControllers;
use crate::resource_quota::ResourceQuotas;
use crate::restart::Tasks;
pub use crate::restart::{Failed, run_restarting};
use crate::root_ca::RootCa;
use crate::service_account::ServiceAccounts;

/// A controller that can be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Controller {
    /// Establishes CustomResourceDefinitions and empties them before they go. Belongs to the server itself: without it
    /// no definition is served.
    CustomResourceDefinition,
    /// Empties namespaces that are being deleted.
    Namespace,
    /// Deletes what has lost its owners.
    GarbageCollector,
    /// Makes the `default` service account of every namespace.
    ServiceAccount,
    /// Publishes the server's CA bundle in every namespace; needs [`Options::root_ca`].
    RootCa,
    /// Counts what resource quotas limit.
    ResourceQuota,
    /// Signs approved certificate signing requests, with [`Options::signing`], and removes old ones.
    Certificates,
    /// Gives aggregated cluster roles the rules they gather.
    ClusterRoleAggregation,
    /// Checks the expressions of ValidatingAdmissionPolicies against the types they match.
    PolicyStatus,
    /// Removes the leases of servers that are no more.
    ExpiredLeases,
    /// Removes bootstrap tokens that have expired.
    BootstrapTokens,
}

impl Controller {
    /// All there are.
    pub const ALL: [Controller; 11] = [
        Controller::CustomResourceDefinition,
        Controller::Namespace,
        Controller::GarbageCollector,
        Controller::ServiceAccount,
        Controller::RootCa,
        Controller::ResourceQuota,
        Controller::Certificates,
        Controller::ClusterRoleAggregation,
        Controller::PolicyStatus,
        Controller::ExpiredLeases,
        Controller::BootstrapTokens,
    ];

    /// Whether one server of several runs it. What belongs to the server itself runs in each of them.
    pub fn takes_turns(self) -> bool {
        self != Controller::CustomResourceDefinition
    }

    /// The resources it looks after or writes, by group and plural: where one of them is not served there is nothing
    /// for it to do.
    pub fn needs(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Controller::CustomResourceDefinition => &[("apiextensions.k8s.io", "customresourcedefinitions")],
            Controller::Namespace => &[("", "namespaces")],
            Controller::GarbageCollector => &[],
            Controller::ServiceAccount => &[("", "namespaces"), ("", "serviceaccounts")],
            Controller::RootCa => &[("", "namespaces"), ("", "configmaps")],
            Controller::ResourceQuota => &[("", "resourcequotas")],
            Controller::Certificates => &[("certificates.k8s.io", "certificatesigningrequests")],
            Controller::ClusterRoleAggregation => &[("rbac.authorization.k8s.io", "clusterroles")],
            Controller::PolicyStatus => &[("admissionregistration.k8s.io", "validatingadmissionpolicies")],
            Controller::ExpiredLeases => &[("coordination.k8s.io", "leases")],
            Controller::BootstrapTokens => &[("", "secrets")],
        }
    }
}

/// What to run, and how.
#[derive(Clone, Debug)]
pub struct Options {
    pub controllers: Vec<Controller>,
    /// The PEM bundle that vouches for the server; without it [`Controller::RootCa`] does not run.
    pub root_ca: Option<String>,
    /// The authorities that sign certificates; without them requests wait for somebody else to sign them.
    pub signing: Option<Signing>,
    /// How long a namespace is left alone after its deletion began, so that requests that were let in just before are
    /// done. With several servers, allow for the time until all of them know of the deletion:
    /// [`SEVERAL_SERVERS_GRACE`].
    pub namespace_deletion_grace: Duration,
    /// Where their queues are shown.
    pub metrics: Metrics,
}

/// How long a namespace under deletion is left alone when other servers may still let requests into it; upstream's
/// figure.
pub const SEVERAL_SERVERS_GRACE: Duration = Duration::from_secs(5);

impl Default for Options {
    fn default() -> Self {
        Options {
            controllers: Controller::ALL.to_vec(),
            root_ca: None,
            signing: None,
            namespace_deletion_grace: Duration::from_millis(100),
            metrics: Metrics::default(),
        }
    }
}

/// Runs the chosen controllers until `shutdown` is over, or until one of them fails. Everything they started has ended
/// when this returns.
pub async fn run(client: Client, options: Options, shutdown: impl Future<Output = ()>) -> Result<(), Failed> {
    let discovery = Arc::new(Discovery::new(client.clone()));
    let (all_listed_sender, all_listed) = watch::channel(false);
    let mut observers: Vec<Arc<dyn Observer>> = Vec::new();
    let mut tasks = Tasks::new(options.metrics.clone());
    for controller in &options.controllers {
        let (client, discovery) = (client.clone(), discovery.clone());
        match controller {
            Controller::CustomResourceDefinition => {
                let running = Definitions::new(client);
                tasks.spawn(async move { running.run().await });
            }
            Controller::Namespace => {
                let running = Arc::new(Namespaces::new(client, discovery, options.namespace_deletion_grace));
                observers.push(running.clone());
                tasks.spawn(async move { running.run().await });
            }
            Controller::GarbageCollector => {
                let running = Arc::new(GarbageCollector::new(client, discovery));
                observers.push(running.clone());
                let all_listed = all_listed.clone();
                tasks.spawn(async move { running.run(all_listed).await });
            }
            Controller::ServiceAccount => {
                let running = Arc::new(ServiceAccounts::new(client));
                observers.push(running.clone());
                tasks.spawn(async move { running.run().await });
            }
            Controller::RootCa => {
                let Some(bundle) = options.root_ca.clone() else {
                    tracing::info!("no CA bundle to publish");
                    continue;
                };
                let running = Arc::new(RootCa::new(client, bundle));
                observers.push(running.clone());
                tasks.spawn(async move { running.run().await });
            }
            Controller::Certificates => {
                let running = Certificates::new(client, options.signing.clone());
                tasks.spawn(async move { running.run().await });
            }
            Controller::ClusterRoleAggregation => {
                let running = ClusterRoleAggregation::new(client);
                tasks.spawn(async move { running.run().await });
            }
            Controller::PolicyStatus => {
                let running = PolicyStatus::new(client);
                tasks.spawn(async move { running.run().await });
            }
            Controller::ExpiredLeases => {
                let running = ExpiredLeases::new(client);
                tasks.spawn(async move { running.run().await });
            }
            Controller::BootstrapTokens => {
                let running = BootstrapTokens::new(client);
                tasks.spawn(async move { running.run().await });
            }
            Controller::ResourceQuota => {
                let running = Arc::new(ResourceQuotas::new(client, discovery));
                observers.push(running.clone());
                tasks.spawn(async move { running.run().await });
            }
        }
    }
    let projects = ProjectControllers::new(client.clone(), &options);
    tasks.spawn(async move { projects.run().await });
    if !observers.is_empty() {
        tasks.spawn(monitor::run(client, discovery, observers.into(), all_listed_sender));
    }
    tracing::info!(controllers = ?options.controllers, "controllers started");
    let result = tasks.supervise(shutdown).await;
    tracing::info!("controllers stopped");
    result
}
