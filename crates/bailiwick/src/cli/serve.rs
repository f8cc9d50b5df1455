//! `bailiwick serve`: the API server until it is told to stop.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use bailiwick::{AuthorizationMode, ControlPlane, Controller, StoreOptions};
use bailiwick_auth::authn::Anonymous;
use bailiwick_server::http::Limits;
use bailiwick_store::{embedded, etcd};

/// Run the API server. The first start makes a CA, certificates and <data-dir>/admin.kubeconfig.
#[derive(clap::Args)]
#[command(after_help = "Flags are named as kube-apiserver's where the meaning is the same.\n\nTry:\n  \
    bailiwick serve &\n  kubectl --kubeconfig ./bailiwick-data/admin.kubeconfig get namespaces")]
pub struct Args {
    /// Where the store, certificates and the admin kubeconfig are kept.
    #[arg(long, default_value = "./bailiwick-data")]
    data_dir: PathBuf,
    /// The address to serve HTTPS on; port 0 picks a free port, and admin.kubeconfig says which.
    #[arg(long, default_value = "127.0.0.1:6443")]
    listen: SocketAddr,
    /// Keep objects in this etcd cluster instead of the data directory (comma-separated URLs).
    #[arg(long, value_delimiter = ',')]
    etcd_servers: Vec<String>,
    /// Put before every key in etcd.
    #[arg(long, default_value = "/bailiwick/")]
    etcd_prefix: String,
    /// PEM bundle of the authorities that vouch for etcd.
    #[arg(long)]
    etcd_cafile: Option<PathBuf>,
    /// Client certificate to show to etcd.
    #[arg(long, requires = "etcd_keyfile")]
    etcd_certfile: Option<PathBuf>,
    /// Key of the client certificate to show to etcd.
    #[arg(long, requires = "etcd_certfile")]
    etcd_keyfile: Option<PathBuf>,
    /// CSV file of static bearer tokens: token,user,uid,"group1,group2".
    #[arg(long)]
    token_auth_file: Option<PathBuf>,
    /// PEM bundle of further authorities for client certificates: CN is the user, O the groups.
    #[arg(long)]
    client_ca_file: Option<PathBuf>,
    /// Serving certificate, instead of one from our own CA.
    #[arg(long, requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,
    /// Key of the serving certificate.
    #[arg(long, requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,
    /// The issuer named in service-account tokens; by default the URL we serve at.
    #[arg(long)]
    service_account_issuer: Option<String>,
    /// Who may do what: RBAC (system:masters and stored roles and bindings) or AlwaysAllow.
    #[arg(long, value_enum, default_value = "RBAC")]
    authorization_mode: Mode,
    /// Whether requests without credentials are served as system:anonymous (health and version only).
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    anonymous_auth: bool,
    /// Seconds a request other than a watch may take.
    #[arg(long, default_value_t = 60)]
    request_timeout_seconds: u64,
    /// Connections served at once.
    #[arg(long, default_value_t = Limits::default().connections_max)]
    max_connections: usize,
    /// HTTP/2 streams per connection.
    #[arg(long, default_value_t = Limits::default().streams_per_connection_max)]
    http2_max_streams_per_connection: u32,
    /// Serve the API only; run the controllers elsewhere with `bailiwick controllers`.
    #[arg(long)]
    no_controllers: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Mode {
    #[value(name = "RBAC")]
    Rbac,
    #[value(name = "AlwaysAllow")]
    AlwaysAllow,
}

pub fn run(args: Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start threads")?;
    runtime.block_on(serve(args))
}

async fn serve(args: Args) -> anyhow::Result<()> {
    let limits = Limits {
        connections_max: args.max_connections,
        streams_per_connection_max: args.http2_max_streams_per_connection,
        ..Limits::default()
    };
    let running = ControlPlane::builder(&args.data_dir)
        .listen(args.listen)
        .store(store_options(&args)?)
        .token_auth_file(args.token_auth_file.clone())
        .client_ca_file(args.client_ca_file.clone())
        .serving_certificate(args.tls_cert_file.clone().zip(args.tls_private_key_file.clone()))
        .service_account_issuer(args.service_account_issuer.clone())
        .authorization(match args.authorization_mode {
            Mode::Rbac => AuthorizationMode::Rbac,
            Mode::AlwaysAllow => AuthorizationMode::AlwaysAllow,
        })
        .anonymous(if args.anonymous_auth { Anonymous::Allowed } else { Anonymous::Refused })
        .request_timeout(Duration::from_secs(args.request_timeout_seconds))
        .limits(limits)
        .controllers(if args.no_controllers { &[] } else { &Controller::ALL })
        .start()
        .await?;
    println!(
        "bailiwick is ready at {}; try: kubectl --kubeconfig {} get namespaces",
        running.url,
        running.kubeconfig.display()
    );
    tokio::select! {
        signal = stop_signal() => tracing::info!(signal = signal?, "stopping"),
        reason = running.failed() => anyhow::bail!("the store failed and the process ends so that it can recover: {reason}"),
    }
    running.stop().await;
    Ok(())
}

pub(super) async fn stop_signal() -> anyhow::Result<&'static str> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    })
}

fn store_options(args: &Args) -> anyhow::Result<StoreOptions> {
    if args.etcd_servers.is_empty() {
        return Ok(StoreOptions::Embedded(embedded::Options::default()));
    }
    let read = |path: &Option<PathBuf>| {
        path.as_ref().map(|path| std::fs::read(path).with_context(|| format!("{}", path.display()))).transpose()
    };
    let mut options = etcd::Options::new(args.etcd_servers.iter().cloned());
    options.prefix = args.etcd_prefix.clone();
    if args.etcd_cafile.is_some() || args.etcd_certfile.is_some() {
        options.tls = Some(etcd::Tls {
            ca: read(&args.etcd_cafile)?,
            identity: read(&args.etcd_certfile)?
                .zip(read(&args.etcd_keyfile)?)
                .map(|(certificate, key)| etcd::Identity { certificate, key }),
        });
    }
    Ok(StoreOptions::Etcd(options))
}
