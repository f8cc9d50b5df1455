//! Operators from catalogs, on a control plane: OLM's CatalogSources, Subscriptions, InstallPlans,
//! ClusterServiceVersions and OperatorGroups, PackageManifests, and OLM v1's ClusterCatalogs and ClusterExtensions.
//!
//! [`run`] is the entry point: it installs the definitions of these kinds and works until it is told to end. Everything is
//! done through the API, as any other client would; the same code serves the control plane it runs in and one far away.
//! Catalogs are pulled and indexed here, without pods; resolution is that of `bailiwick_catalog::resolve`.

mod api_services;
mod before;
mod bundles;
mod catalog_source;
mod catalogs;
mod cluster_catalog;
mod cluster_extension;
mod config_map_catalog;
mod context;
mod copied_csv;
mod crd_safety;
mod crds;
mod csv;
mod error;
mod events;
pub mod explain;
mod install_plan;
mod installing;
mod kinds;
mod namespace;
mod object;
mod old_plans;
mod operator_group;
mod operator_service;
mod package_manifest;
mod package_server;
mod permissions;
mod provided_apis;
mod pull;
mod remote_catalog;
mod resolving;
mod served_catalog;
mod subscription;
mod target;
mod watching;
mod webhooks;

use std::path::PathBuf;

use bailiwick_controllers::LeaderElection;
use kube::Client;

pub use crate::error::Error;
pub use crate::package_server::{Announcement, PackageServer, SERVICE as PACKAGE_SERVICE};
pub use crate::pull::PullOptions;
pub use bailiwick_catalog::oci::Guard;

/// Where CatalogSources are everybody's, unless it is said otherwise.
pub const GLOBAL_NAMESPACE: &str = "olm";
/// The Lease by which one of several servers is chosen to do the work.
pub const LEASE: &str = "bailiwick-olm";

/// What [`run`] needs to know.
#[derive(Debug)]
pub struct Options {
    /// Where images and indexes are kept.
    pub directory: PathBuf,
    /// The namespace whose CatalogSources all namespaces may draw from.
    pub global_namespace: String,
    pub pull: PullOptions,
    /// Where PackageManifests are served; without it there are none.
    pub package_server: Option<PackageServer>,
    /// With others that do the same work one does it and the rest wait, serving PackageManifests only.
    pub election: Option<LeaderElection>,
}

impl Options {
    /// The usual, with files below a directory, no PackageManifests and nobody else; the guard judges what may be called.
    pub fn new(directory: impl Into<PathBuf>, guard: Guard) -> Self {
        Self {
            directory: directory.into(),
            global_namespace: GLOBAL_NAMESPACE.to_owned(),
            pull: PullOptions::new(guard),
            package_server: None,
            election: None,
        }
    }
}

/// Works until `shutdown` is over. Everything that was started has ended when this returns.
pub async fn run(client: Client, options: Options, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
    watching::run(client, options, shutdown).await
}
