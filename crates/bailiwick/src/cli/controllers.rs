//! `bailiwick controllers`: the generic controllers as a program of their own.

use std::path::{Path, PathBuf};

use anyhow::Context;
use bailiwick::CustomSigner;
use bailiwick_auth::pki::CertificateAuthority;
use bailiwick_controllers::{Controller, LeaderElection, Metrics, Options, SEVERAL_SERVERS_GRACE, Signing};

use crate::cli::kubeconfig;
use crate::cli::outside::{self, told_to_end};

/// Run the generic controllers against the server of a kubeconfig (one that runs with --no-controllers).
#[derive(clap::Args)]
pub struct Args {
    /// The server and the credentials to use; they need to be those of an administrator.
    #[arg(long)]
    kubeconfig: PathBuf,
    /// Of several such programs one works and the others wait, by the Lease bailiwick-controllers in kube-system.
    #[arg(long, default_value_t = true, num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set)]
    leader_elect: bool,
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
    #[command(flatten)]
    diagnostics: outside::Flags,
}

pub fn run(args: Args) -> anyhow::Result<()> {
    // Controllers wait for the server most of the time: one thread is plenty.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    runtime.block_on(controllers(args))
}

async fn controllers(args: Args) -> anyhow::Result<()> {
    let metrics = Metrics::default();
    let _diagnostics = args.diagnostics.serve(metrics.clone()).await?;
    let config = kubeconfig::config(&args.kubeconfig).await?;
    let root_ca = match &args.root_ca_file {
        Some(path) => Some(std::fs::read_to_string(path).with_context(|| path.display().to_string())?),
        None => config.root_cert.as_ref().map(|certificates| bundle(certificates)),
    };
    let client = kube::Client::try_from(config)?;
    let version = client.apiserver_version().await.context("the server does not answer")?;
    tracing::info!(server = version.git_version, "connected");
    let controllers = useful(&client).await?;
    let options = Options { metrics: metrics.clone(), ..options(&args, controllers, root_ca)? };
    if args.leader_elect {
        let election = LeaderElection { metrics, ..LeaderElection::of_controllers() };
        bailiwick_controllers::run_elected(client, options, election, told_to_end()).await;
    } else {
        // Whoever started us without others beside us starts us again.
        bailiwick_controllers::run(client, options, told_to_end()).await?;
    }
    Ok(())
}

/// The server may be one of several: who asks from outside cannot tell.
fn options(args: &Args, controllers: Vec<Controller>, root_ca: Option<String>) -> anyhow::Result<Options> {
    let namespace_deletion_grace = SEVERAL_SERVERS_GRACE;
    Ok(Options { controllers, root_ca, signing: signing(args)?, namespace_deletion_grace, ..Options::default() })
}

/// The controllers that have something to do at this server. Definitions are looked after by the server itself.
async fn useful(client: &kube::Client) -> anyhow::Result<Vec<Controller>> {
    let mut useful = Vec::new();
    for controller in Controller::ALL.into_iter().filter(|c| *c != Controller::CustomResourceDefinition) {
        let mut served = true;
        for (group, plural) in controller.needs() {
            served &= is_served(client, group, plural).await.context("the server does not say what it serves")?;
        }
        if served {
            useful.push(controller);
        } else {
            tracing::info!(?controller, "has nothing to do at this server");
        }
    }
    Ok(useful)
}

/// Whether the server has the resource in version v1, in which it would have everything that controllers need.
async fn is_served(client: &kube::Client, group: &str, plural: &str) -> kube::Result<bool> {
    let listed = match group {
        "" => client.list_core_api_resources("v1").await,
        group => client.list_api_group_resources(&format!("{group}/v1")).await,
    };
    match listed {
        Ok(list) => Ok(list.resources.iter().any(|resource| resource.name == plural)),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn a_namespace_is_left_alone_until_every_server_knows_of_its_deletion() {
        let Program { args } = Program::parse_from(["controllers", "--kubeconfig", "any"]);
        let options = options(&args, Vec::new(), None).unwrap();
        assert_eq!(options.namespace_deletion_grace, SEVERAL_SERVERS_GRACE);
    }
}
