//! What must answer: the port, the store, and the server behind a kubeconfig.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bailiwick::StoreOptions;
use bailiwick_store::{Store, embedded, etcd::EtcdStore};

use super::{Finding, Verdict};
use crate::cli::kubeconfig;

/// How long an answer may take before there is none.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Whether the address is free, or in use by the server that answered.
pub fn port(listen: SocketAddr, server: &Finding) -> Finding {
    let found = |verdict, detail: String| Finding::new("port", verdict, detail);
    match TcpListener::bind(listen) {
        Ok(_) => found(Verdict::Ok, format!("{listen} is free")),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && server.verdict == Verdict::Ok => {
            found(Verdict::Ok, format!("{listen} is in use, and a server answers"))
        }
        Err(error) => found(Verdict::Failed, format!("{listen}: {error}")),
    }
}

/// Whether the server of a kubeconfig answers. One that nobody has started is no failure.
pub async fn kubeconfig(given: Option<&Path>, data_dir: &Path) -> Finding {
    let path: PathBuf = given.map_or_else(|| data_dir.join("admin.kubeconfig"), Path::to_owned);
    let found = |verdict, detail: String| Finding::new("kubeconfig", verdict, detail);
    if !path.exists() && given.is_none() {
        return found(Verdict::Skipped, format!("{} is made by the first start", path.display()));
    }
    let client = async {
        let config = kubeconfig::config(&path).await?;
        let url = config.cluster_url.to_string();
        anyhow::Ok((kube::Client::try_from(config)?, url))
    };
    let (client, url) = match client.await {
        Ok(client) => client,
        Err(error) => return found(Verdict::Failed, format!("{error:#}")),
    };
    match tokio::time::timeout(ANSWER_TIMEOUT, client.apiserver_version()).await {
        Ok(Ok(version)) => found(Verdict::Ok, format!("{url} answers: {}", version.git_version)),
        Ok(Err(kube::Error::Api(status))) => found(Verdict::Failed, format!("{url} refuses: {}", status.message)),
        Ok(Err(error)) if given.is_some() => found(Verdict::Failed, format!("{url}: {error}")),
        Ok(Err(_)) => found(Verdict::Skipped, format!("no server answers at {url}")),
        Err(_) => found(Verdict::Failed, format!("{url} does not answer")),
    }
}

/// Whether the store is whole, or etcd answers.
pub async fn store(options: &StoreOptions, data_dir: &Path) -> Finding {
    let found = |verdict, detail: String| Finding::new("store", verdict, detail);
    match options {
        StoreOptions::Embedded(_) => {
            let dir = data_dir.join("store");
            if !dir.is_dir() {
                return found(Verdict::Skipped, "made by the first start".to_owned());
            }
            match embedded::verify(&dir) {
                Ok(status) => {
                    let torn = match status.torn_tail {
                        Some(_) => "; an unfinished commit will be removed at the next start",
                        None => "",
                    };
                    let (revision, keys) = (status.revision, status.key_count);
                    found(Verdict::Ok, format!("whole: revision {revision}, {keys} keys{torn}"))
                }
                Err(error) => found(Verdict::Failed, error.to_string()),
            }
        }
        StoreOptions::Etcd(options) => {
            let endpoints = options.endpoints.join(", ");
            let ask = async { EtcdStore::connect(options.clone()).await?.revision().await };
            match tokio::time::timeout(ANSWER_TIMEOUT, ask).await {
                Ok(Ok(revision)) => found(Verdict::Ok, format!("etcd answers at {endpoints}: revision {revision}")),
                Ok(Err(error)) => found(Verdict::Failed, format!("etcd at {endpoints}: {error}")),
                Err(_) => found(Verdict::Failed, format!("etcd at {endpoints} does not answer")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_is_a_failure_unless_a_server_answers() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let server = |verdict| Finding::new("kubeconfig", verdict, "");
        assert_eq!(port(address, &server(Verdict::Skipped)).verdict, Verdict::Failed);
        assert_eq!(port(address, &server(Verdict::Ok)).verdict, Verdict::Ok);
        drop(taken);
        assert_eq!(port(address, &server(Verdict::Skipped)).verdict, Verdict::Ok);
    }

    #[tokio::test]
    async fn a_damaged_store_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let options = StoreOptions::Embedded(embedded::Options::default());
        assert_eq!(store(&options, dir.path()).await.verdict, Verdict::Skipped);
        drop(embedded::EmbeddedStore::open(dir.path().join("store"), embedded::Options::default()).unwrap());
        assert_eq!(store(&options, dir.path()).await.verdict, Verdict::Ok);
        let other = dir.path().join("other");
        std::fs::create_dir_all(other.join("store")).unwrap();
        for entry in std::fs::read_dir(dir.path().join("store")).unwrap().flatten() {
            std::fs::write(other.join("store").join(entry.file_name()), "damage").unwrap();
        }
        assert_eq!(store(&options, &other).await.verdict, Verdict::Failed);
    }
}
