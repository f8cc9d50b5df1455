//! `bailiwick serve`: the API server until it is told to stop. The flags of each field are in a file of their own.

mod admission;
mod aggregation;
mod audit;
mod authentication;
mod authorization;
mod composition;
mod domains;
mod encryption;
mod flow_control;
pub(in crate::cli) mod olm;
pub mod store;
mod tls;
mod webhooks;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use bailiwick::{ControlPlane, Controller, TracingOptions};

use self::composition::Addition;
use crate::cli::duration;

/// Run the API server. The first start makes a CA, certificates and <data-dir>/admin.kubeconfig.
#[derive(clap::Args)]
#[command(after_help = "Flags are named as kube-apiserver's where the meaning is the same.\n\nTry:\n  \
    bailiwick serve &\n  kubectl --kubeconfig ./bailiwick-data/admin.kubeconfig get namespaces")]
pub struct Args {
    /// Where the store, certificates and the admin kubeconfig are kept.
    #[arg(long, default_value = "./bailiwick-data")]
    data_dir: PathBuf,
    /// Where the CA, certificates and the service-account key are kept, instead of <data-dir>/pki. Servers on one etcd share
    /// it, or copies of its ca.*, front-proxy-ca.* and service-account.key.
    #[arg(long)]
    pki_dir: Option<PathBuf>,
    /// The address to serve HTTPS on; port 0 picks a free port, and admin.kubeconfig says which.
    #[arg(long, default_value = "127.0.0.1:6443")]
    listen: SocketAddr,
    /// YAML file of flags by name; those of the command line win.
    #[arg(long)]
    config: Option<PathBuf>,
    /// How long a request other than a watch may take.
    #[arg(long, default_value = "1m0s", value_parser = duration::parse)]
    request_timeout: Duration,
    /// How long to go on serving when told to end, with /readyz failing, so that load balancers take notice.
    #[arg(long, default_value = "0s", value_parser = duration::parse)]
    shutdown_delay_duration: Duration,
    /// File with a TracingConfiguration: where spans of requests are sent by OTLP, and of how many.
    #[arg(long)]
    tracing_config_file: Option<PathBuf>,
    /// Serve the API only; run the controllers elsewhere with `bailiwick controllers`.
    #[arg(long)]
    no_controllers: bool,
    #[command(flatten)]
    composition: composition::Flags,
    #[command(flatten)]
    store: store::Flags,
    #[command(flatten)]
    authentication: authentication::Flags,
    #[command(flatten)]
    authorization: authorization::Flags,
    #[command(flatten)]
    admission: admission::Flags,
    #[command(flatten)]
    tls: tls::Flags,
    #[command(flatten)]
    audit: audit::Flags,
    #[command(flatten)]
    encryption: encryption::Flags,
    #[command(flatten)]
    flow_control: flow_control::Flags,
    #[command(flatten)]
    webhooks: webhooks::Flags,
    #[command(flatten)]
    aggregation: aggregation::Flags,
    #[command(flatten)]
    domains: domains::Flags,
    #[command(flatten)]
    olm: olm::Flags,
}

pub fn run(args: Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start threads")?;
    runtime.block_on(serve(args))
}

async fn serve(args: Args) -> anyhow::Result<()> {
    let mut authentication = args.authentication.options()?;
    args.authorization.restrict(&mut authentication);
    let store = args.store.options()?;
    let mut builder = args
        .composition
        .apply(ControlPlane::builder(&args.data_dir))
        .listen(args.listen)
        .store(store.clone())
        .authentication(authentication)
        .admission(args.admission.options())
        .tls(args.tls.options()?)
        .webhook_dialing(args.webhooks.options())
        .aggregation(args.aggregation.aggregation()?)
        .service_endpoints(args.aggregation.service_endpoints())
        .flow_control(args.flow_control.options())
        .encryption(args.encryption.options())
        .audit(args.audit.options(&args.data_dir)?)
        .request_timeout(args.request_timeout)
        .limits(args.tls.limits())
        .controllers(if args.no_controllers { &[] } else { &Controller::ALL })
        .shutdown_delay(args.shutdown_delay_duration)
        .tracing(args.tracing_config_file.map_or(TracingOptions::Off, TracingOptions::ConfigFile));
    if let Some(directory) = args.pki_dir {
        builder = builder.pki_dir(directory);
    }
    if let Some(authorization) = args.authorization.options()? {
        builder = builder.authorization(authorization);
    }
    if args.composition.adds(Addition::Domains) {
        builder = args.domains.add(builder, &store)?;
    }
    if args.composition.adds(Addition::Olm) {
        builder = args.olm.add(builder);
    }
    let running = builder.start().await?;
    println!(
        "bailiwick is ready at {}; try: kubectl --kubeconfig {} get namespaces",
        running.url,
        running.kubeconfig.display()
    );
    let release = tokio::spawn(release_what_the_start_needed());
    let ended = running.until_signal().await;
    release.abort();
    ended.map_err(|reason| anyhow::anyhow!("the store failed and the process ends so that it can recover: {reason}"))
}

/// Controllers have settled by then, and a test that starts and stops a server does not wait for it.
const START_IS_OVER: Duration = Duration::from_secs(2);

/// Most of the program is resident after a start and not used again.
async fn release_what_the_start_needed() {
    tokio::time::sleep(START_IS_OVER).await;
    match bailiwick_residency::release_program() {
        Ok(bytes) => tracing::debug!(bytes, "pages of the program given back"),
        Err(error) => tracing::debug!(%error, "pages of the program stay resident"),
    }
}
