//! Three etcd members and three servers on loopback. The servers share one directory of keys and one encryption
//! configuration, and nothing else.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use base64::Engine;

use super::client::Client;
use super::machine::{Kind, Machine};
use super::report::Findings;
use crate::tools;

/// Members, and servers.
pub const SIZE: usize = 3;
/// The administrator's bearer token.
pub const ADMIN_TOKEN: &str = "chaos-admin";
const TOKENS: &str = "chaos-admin,admin,admin,system:masters\n";
/// See the module.
pub struct Cluster {
    pub etcd: Vec<Arc<Machine>>,
    pub servers: Vec<Arc<Machine>>,
    pub directory: PathBuf,
    findings: Arc<Findings>,
}

impl Cluster {
    /// Starts everything, with history kept for `history`, and waits until it is healthy. The servers start at once, on an empty store and an empty directory of
    /// keys.
    pub async fn start(binary: &Path, directory: PathBuf, history: &str, findings: Arc<Findings>) -> Result<Self> {
        let ports = free_ports(3 * SIZE)?;
        let url = |scheme: &str, index: usize| format!("{scheme}://127.0.0.1:{}", ports[index]);
        let clients: Vec<String> = (0..SIZE).map(|i| url("http", i)).collect();
        let peers: Vec<String> = (0..SIZE).map(|i| url("http", SIZE + i)).collect();
        let servers: Vec<String> = (0..SIZE).map(|i| url("https", 2 * SIZE + i)).collect();
        let etcd_program = tools::require("etcd")?;
        let members: Vec<String> = peers.iter().enumerate().map(|(i, url)| format!("m{i}={url}")).collect();
        let etcd = (0..SIZE).map(|i| {
            let arguments = vec![
                format!("--name=m{i}"),
                format!("--data-dir={}", directory.join(format!("etcd-{i}")).display()),
                format!("--listen-client-urls={}", clients[i]),
                format!("--advertise-client-urls={}", clients[i]),
                format!("--listen-peer-urls={}", peers[i]),
                format!("--initial-advertise-peer-urls={}", peers[i]),
                format!("--initial-cluster={}", members.join(",")),
                "--log-level=warn".to_owned(),
            ];
            Arc::new(Machine::new(Kind::Etcd, i, clients[i].clone(), &etcd_program, arguments, &directory))
        });
        let etcd: Vec<_> = etcd.collect();
        write_shared_files(&directory)?;
        let servers = (0..SIZE).map(|i| {
            let path = |name: &str| directory.join(name).display().to_string();
            let arguments = vec![
                "serve".to_owned(),
                format!("--listen={}", servers[i].trim_start_matches("https://")),
                format!("--data-dir={}", path(&format!("server-{i}"))),
                format!("--pki-dir={}", path("pki")),
                format!("--token-auth-file={}", path("tokens.csv")),
                format!("--encryption-provider-config={}", path("encryption.yaml")),
                format!("--etcd-servers={}", clients.join(",")),
                format!("--etcd-compaction-interval={history}"),
            ];
            Arc::new(Machine::new(Kind::Server, i, servers[i].clone(), binary, arguments, &directory))
        });
        let servers: Vec<_> = servers.collect();
        for machines in [&etcd, &servers] {
            let starting = machines.iter().map(|machine| machine.start());
            for started in futures::future::join_all(starting).await {
                findings.started(&started?);
            }
        }
        Ok(Self { etcd, servers, directory, findings })
    }

    /// A client that knows all servers and begins with a different one than others do.
    pub fn client(&self, seed: u64) -> Result<Client> {
        let ca = std::fs::read(self.directory.join("pki/ca.crt")).context("reading the shared CA")?;
        let urls = self.servers.iter().map(|server| server.url.clone()).collect();
        Client::new(urls, &ca, seed, self.findings.clone())
    }

    pub async fn stop(&self) {
        for machine in self.servers.iter().chain(&self.etcd) {
            machine.kill().await;
        }
    }
}

fn write_shared_files(directory: &Path) -> Result<()> {
    std::fs::write(directory.join("tokens.csv"), TOKENS)?;
    // A key of no worth: what it protects is made up and thrown away.
    let key = base64::engine::general_purpose::STANDARD.encode([7u8; 32]);
    let encryption = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  \
         providers:\n  - secretbox: {{keys: [{{name: k1, secret: {key}}}]}}\n  - identity: {{}}\n"
    );
    Ok(std::fs::write(directory.join("encryption.yaml"), encryption)?)
}

fn free_ports(count: usize) -> Result<Vec<u16>> {
    // All at once, so that no two are the same.
    let listeners: Vec<_> = (0..count).map(|_| TcpListener::bind(("127.0.0.1", 0))).collect::<Result<_, _>>()?;
    listeners.iter().map(|listener| Ok(listener.local_addr()?.port())).collect()
}
