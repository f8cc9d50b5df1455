//! How commands that are clients of a server read its kubeconfig.

use std::path::Path;

use anyhow::Context;
use kube::config::{KubeConfigOptions, Kubeconfig};

/// The server and the credentials of a kubeconfig's current context.
pub async fn config(path: &Path) -> anyhow::Result<kube::Config> {
    let named = || path.display().to_string();
    let kubeconfig = Kubeconfig::read_from(path).with_context(named)?;
    kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.with_context(named)
}

/// A client with them.
pub async fn client(path: &Path) -> anyhow::Result<kube::Client> {
    Ok(kube::Client::try_from(config(path).await?)?)
}
