//! `bailiwick olm`: operators from catalogs on any API server, by a program of its own.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;

use anyhow::Context;
use bailiwick_controllers::{LeaderElection, Metrics};
use bailiwick_olm::{Announcement, LEASE, PackageServer};
use bailiwick_webhook::dial::Cidr;

use crate::cli::kubeconfig;
use crate::cli::outside::{self, told_to_end};
use crate::cli::serve::olm::Flags;

/// Serve OLM's kinds on the server of a kubeconfig and install operators from catalogs there (a server that does not run
/// with `--with olm` itself).
#[derive(clap::Args)]
pub struct Args {
    /// The server and the credentials to use; they need to be those of an administrator.
    #[arg(long)]
    kubeconfig: PathBuf,
    /// Where images and indexes are kept.
    #[arg(long, default_value = "bailiwick-olm")]
    data_dir: PathBuf,
    /// Of several such programs one works and the others wait, by the Lease bailiwick-olm in kube-system.
    #[arg(long, default_value_t = true, num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set)]
    leader_elect: bool,
    /// Serve PackageManifests here. Needs a server that is a bailiwick.
    #[arg(long, value_name = "ADDRESS")]
    package_server_listen: Option<SocketAddr>,
    /// Where the server reaches that, if not at the same address.
    #[arg(long, value_name = "URL", requires = "package_server_listen")]
    package_server_url: Option<String>,
    /// Addresses that are not called, whatever else is said.
    #[arg(long, value_delimiter = ',')]
    deny_cidrs: Vec<Cidr>,
    #[command(flatten)]
    olm: Flags,
    #[command(flatten)]
    diagnostics: outside::Flags,
}

pub fn run(args: Args) -> anyhow::Result<()> {
    // kube's TLS stack takes the process-wide provider; a second call finds it already set.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start")?;
    runtime.block_on(install(args))
}

async fn install(args: Args) -> anyhow::Result<()> {
    let metrics = Metrics::default();
    let _diagnostics = args.diagnostics.serve(metrics.clone()).await?;
    let client = kubeconfig::client(&args.kubeconfig).await?;
    let version = client.apiserver_version().await.context("the server does not answer")?;
    tracing::info!(server = version.git_version, "connected");
    let mut options = args.olm.options().service(&args.data_dir, &args.deny_cidrs)?;
    if args.leader_elect {
        options.election = Some(LeaderElection { metrics: metrics.clone(), ..LeaderElection::named(LEASE) });
    }
    if let Some(address) = args.package_server_listen {
        let listener = TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?;
        let announcement = args.package_server_url.map_or(Announcement::Annotated, Announcement::At);
        options.package_server = Some(PackageServer { listener, announcement });
    }
    metrics.scope(bailiwick_olm::run(client, options, told_to_end())).await?;
    Ok(())
}
