//! `bailiwick controllers`: the generic controllers as a program of their own.

use std::path::{Path, PathBuf};

use anyhow::Context;
use bailiwick::CustomSigner;
use bailiwick_auth::pki::CertificateAuthority;
use bailiwick_controllers::{Options, Signing};
use kube::config::{KubeConfigOptions, Kubeconfig};

/// Run the generic controllers against the server of a kubeconfig (one that runs with --no-controllers).
#[derive(clap::Args)]
pub struct Args {
    /// The server and the credentials to use; they need to be those of an administrator.
    #[arg(long)]
    kubeconfig: PathBuf,
    /// PEM bundle to publish as kube-root-ca.crt in every namespace, instead of the kubeconfig's.
    #[arg(long)]
    root_ca_file: Option<PathBuf>,
    /// PEM certificate of the authority that signs approved certificate signing requests.
    #[arg(long, requires = "cluster_signing_key_file")]
    cluster_signing_cert_file: Option<PathBuf>,
    /// Key of that authority.
    #[arg(long, requires = "cluster_signing_cert_file")]
    cluster_signing_key_file: Option<PathBuf>,
    /// A custom signer with an authority of its own: NAME=CERTFILE,KEYFILE. May be repeated.
    #[arg(long, requires = "cluster_signing_cert_file")]
    custom_signer: Vec<CustomSigner>,
}

pub fn run(args: Args) -> anyhow::Result<()> {
    // Controllers wait for the server most of the time: one thread is plenty.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    runtime.block_on(controllers(args))
}

async fn controllers(args: Args) -> anyhow::Result<()> {
    let path = &args.kubeconfig;
    let kubeconfig = Kubeconfig::read_from(path).with_context(|| path.display().to_string())?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .with_context(|| path.display().to_string())?;
    let root_ca = match &args.root_ca_file {
        Some(path) => Some(std::fs::read_to_string(path).with_context(|| path.display().to_string())?),
        None => config.root_cert.as_ref().map(|certificates| bundle(certificates)),
    };
    let client = kube::Client::try_from(config)?;
    let version = client.apiserver_version().await.context("the server does not answer")?;
    tracing::info!(server = version.git_version, "connected");
    let options = Options { root_ca, signing: signing(&args)?, ..Options::default() };
    bailiwick_controllers::run(client, options, async {
        match super::serve::stop_signal().await {
            Ok(signal) => tracing::info!(signal, "stopping"),
            Err(error) => tracing::error!(%error, "cannot wait for signals"),
        }
    })
    .await;
    Ok(())
}

/// The authorities that the flags name.
fn signing(args: &Args) -> anyhow::Result<Option<Signing>> {
    let load = |certificate: &Path, key: &Path| {
        let read = |path: &Path| std::fs::read_to_string(path).with_context(|| path.display().to_string());
        anyhow::Ok(CertificateAuthority::from_pem(&read(certificate)?, &read(key)?)?)
    };
    let (Some(certificate), Some(key)) = (&args.cluster_signing_cert_file, &args.cluster_signing_key_file) else {
        return Ok(None);
    };
    let custom: Result<_, _> = args.custom_signer.iter().map(CustomSigner::load).collect();
    Ok(Some(Signing { authority: load(certificate, key)?, custom: custom? }))
}

/// DER certificates as one PEM text.
fn bundle(certificates: &[Vec<u8>]) -> String {
    use base64::Engine;
    let mut text = String::new();
    for certificate in certificates {
        let encoded = base64::engine::general_purpose::STANDARD.encode(certificate);
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        for line in encoded.as_bytes().chunks(64) {
            text.push_str(&String::from_utf8_lossy(line));
            text.push('\n');
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    text
}
