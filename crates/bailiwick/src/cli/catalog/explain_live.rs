//! `explain subscription/<name>` and `explain clusterextension/<name>`: why one's own is not where it should be, asked of a
//! control plane.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use bailiwick_olm::explain::{self, Standing};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};

use super::print;

/// What on a control plane is asked about.
#[derive(Debug, PartialEq, Eq)]
pub enum Subject {
    Subscription(String),
    Extension(String),
}

impl Subject {
    /// `subscription/<name>` or `clusterextension/<name>`, unless there is a directory of this name.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, name) = text.split_once('/')?;
        if name.is_empty() || name.contains('/') || Path::new(text).exists() {
            return None;
        }
        match kind {
            "subscription" | "subscriptions" => Some(Subject::Subscription(name.to_owned())),
            "clusterextension" | "clusterextensions" => Some(Subject::Extension(name.to_owned())),
            _ => None,
        }
    }
}

#[derive(clap::Args)]
pub struct Server {
    /// For subscription/<name> and clusterextension/<name>: the server and the credentials to use [default: $KUBECONFIG,
    /// then ~/.kube/config].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The namespace of the Subscription [default: the kubeconfig's].
    #[arg(long, short)]
    namespace: Option<String>,
}

/// Prints the answer; one that says that somebody has to do something is a failure.
pub fn run(subject: &Subject, server: &Server) -> anyhow::Result<()> {
    // kube's TLS stack takes the process-wide provider; a second call finds it already set.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    let explanation = runtime.block_on(async {
        let config = server.config().await?;
        let namespace = server.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let client = Client::try_from(config)?;
        let explanation = match subject {
            Subject::Subscription(name) => explain::subscription(&client, &namespace, name).await,
            Subject::Extension(name) => explain::extension(&client, name).await,
        };
        anyhow::Ok(explanation?)
    })?;
    match explanation.standing {
        Standing::Done | Standing::UnderWay => print(&explanation.to_string()),
        Standing::Stuck => bail!("{}", explanation.to_string().trim_end()),
    }
}

impl Server {
    async fn config(&self) -> anyhow::Result<kube::Config> {
        let kubeconfig = match &self.kubeconfig {
            Some(path) => Kubeconfig::read_from(path).with_context(|| path.display().to_string())?,
            None => Kubeconfig::read().context("no kubeconfig: say --kubeconfig <file> or set KUBECONFIG")?,
        };
        Ok(kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_from_images() {
        assert_eq!(Subject::parse("subscription/a"), Some(Subject::Subscription("a".to_owned())));
        assert_eq!(Subject::parse("clusterextension/a"), Some(Subject::Extension("a".to_owned())));
        for other in ["quay.io/a/b", "subscription/", "subscription/a/b", "catalog", "/subscription/a"] {
            assert_eq!(Subject::parse(other), None, "{other}");
        }
    }
}
