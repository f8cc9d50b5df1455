//! `serve`.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use bailiwick_catalog::serve::{CatalogServer, WhenStale, index_path, open_reference, serve as serve_catalog};
use tokio::net::TcpListener;

use super::images::ImageArgs;

#[derive(clap::Args)]
pub struct Args {
    /// Catalog directories and images (`quay.io/me/catalog:main`, `oci:<dir>[:<tag>]`); the first is served on the port,
    /// each further one on the next port.
    #[arg(required = true)]
    catalogs: Vec<String>,
    /// The first port; 0 picks free ones.
    #[arg(long, short, default_value_t = 50051)]
    port: u16,
    /// The address to listen on.
    #[arg(long, default_value = "0.0.0.0")]
    address: String,
    /// Keep the index here, for a fast start.
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
    /// Make the index and exit.
    #[arg(long)]
    cache_only: bool,
    /// Refuse to start when the index is missing or belongs to another state of the catalog.
    /// Default: with --cache-dir, unless --cache-only.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    cache_enforce_integrity: Option<bool>,
    /// Say what is served, and by which index.
    #[arg(long)]
    debug: bool,
    /// Write the reason of a failure into this file too [default: /dev/termination-log, where there is one].
    #[arg(long, short, value_name = "FILE")]
    termination_log: Option<PathBuf>,
    /// Not supported: there is no Go runtime to profile.
    #[arg(long, value_name = "ADDRESS")]
    pprof_addr: Option<String>,
    /// Not supported: there is no Go runtime to profile.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pprof_capture_profiles: Option<bool>,
    #[command(flatten)]
    images: ImageArgs,
}

/// Where Kubernetes looks for a container's last words.
const TERMINATION_LOG: &str = "/dev/termination-log";

pub fn run(args: Args) -> anyhow::Result<()> {
    let log = match &args.termination_log {
        Some(path) => Some(path.clone()),
        None => Some(PathBuf::from(TERMINATION_LOG)).filter(|path| path.exists()),
    };
    let outcome = run_until_stopped(args);
    if let (Err(error), Some(log)) = (&outcome, log)
        && let Err(reason) = std::fs::write(&log, format!("{error:#}\n"))
    {
        eprintln!("warning: unable to set termination log path: {}: {reason}", log.display());
    }
    outcome
}

fn run_until_stopped(args: Args) -> anyhow::Result<()> {
    if args.pprof_addr.as_ref().is_some_and(|it| !it.is_empty()) || args.pprof_capture_profiles == Some(true) {
        eprintln!(
            "warning: --pprof-addr and --pprof-capture-profiles are not supported: there is no Go runtime to profile"
        );
    }
    let temporary;
    let cache: &Path = match &args.cache_dir {
        Some(directory) => directory,
        None => {
            temporary = std::env::temp_dir().join(format!("bailiwick-catalog-{}", std::process::id()));
            &temporary
        }
    };
    let enforce = args.cache_enforce_integrity.unwrap_or(args.cache_dir.is_some() && !args.cache_only);
    if enforce && args.cache_dir.is_none() {
        bail!("--cache-dir must be specified with --cache-enforce-integrity");
    }
    let mut images = args.images.images()?;
    let stale = if enforce { WhenStale::Refuse } else { WhenStale::Rebuild };
    let mut servers = Vec::new();
    for reference in &args.catalogs {
        let path = index_path(cache, reference);
        if args.cache_only && !enforce {
            // What is asked for is a new index, whatever is there.
            let _ = std::fs::remove_file(&path);
        }
        let index = open_reference(reference, &path, stale, &mut images).with_context(|| {
            let hint = "make the index with --cache-only, or let it be made with --cache-enforce-integrity=false";
            if enforce { format!("{reference}: integrity check failed ({hint})") } else { reference.clone() }
        })?;
        if args.debug {
            eprintln!("{reference}: the index is {}", path.display());
        }
        if args.cache_dir.is_none() {
            // Open files stay readable.
            let _ = std::fs::remove_file(&path);
            let _ = std::fs::remove_dir(cache);
        }
        servers.push((reference, index));
    }
    if args.cache_only {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let mut running = Vec::new();
        for (i, (reference, index)) in servers.into_iter().enumerate() {
            let port = if args.port == 0 {
                0
            } else {
                args.port.checked_add(u16::try_from(i)?).ok_or_else(|| anyhow!("no port is left"))?
            };
            let listener = TcpListener::bind((args.address.as_str(), port))
                .await
                .with_context(|| format!("failed to listen: {}:{port}", args.address))?;
            let (packages, bundles) = (index.packages().count(), index.bundle_count());
            println!("serving {reference} ({packages} packages, {bundles} bundles) on {}", listener.local_addr()?);
            running.push(tokio::spawn(serve_catalog(CatalogServer::new(index), listener, stopped())));
        }
        for server in running {
            server.await??;
        }
        Ok(())
    })
}

async fn stopped() {
    let mut terminate = match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
        Ok(terminate) => terminate,
        Err(_) => return std::future::pending().await,
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}
