//! An etcd of a test's own, in a directory of its own, gone when dropped.

use std::process::{Child, Command, Stdio};

use anyhow::Result;
use tempfile::TempDir;

use crate::{skip, tools};

/// A running etcd of one member.
pub struct Etcd {
    process: Child,
    url: String,
    peers: String,
    directory: TempDir,
}

impl Etcd {
    /// Starts one; `None`, with the test skipped by name, where etcd is not installed.
    pub fn start() -> Result<Option<Self>> {
        if tools::find("etcd").is_err() {
            skip("etcd is not installed: cargo xtask setup");
            return Ok(None);
        }
        let directory = tempfile::tempdir()?;
        let port = || Ok::<_, std::io::Error>(std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port());
        let (url, peers) = (format!("http://127.0.0.1:{}", port()?), format!("http://127.0.0.1:{}", port()?));
        let process = launch(&url, &peers, &directory)?;
        Ok(Some(Self { process, url, peers, directory }))
    }

    /// Where clients reach it, for `--etcd-servers`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Ends it as `kill -9` does, keeping its data.
    pub fn kill(&mut self) {
        // Nothing to be done about a process that is already gone.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Starts it again after [`Etcd::kill`], at the same addresses and with the same data.
    pub fn restart(&mut self) -> Result<()> {
        self.kill();
        self.process = launch(&self.url, &self.peers, &self.directory)?;
        Ok(())
    }
}

fn launch(url: &str, peers: &str, directory: &TempDir) -> Result<Child> {
    let process = Command::new(tools::find("etcd")?)
        .args(["--listen-client-urls", url, "--advertise-client-urls", url])
        .args(["--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers])
        .args(["--initial-cluster", &format!("default={peers}"), "--log-level=error", "--unsafe-no-fsync"])
        .arg("--data-dir")
        .arg(directory.path())
        .stdin(Stdio::null())
        .spawn()?;
    Ok(process)
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.kill();
    }
}
