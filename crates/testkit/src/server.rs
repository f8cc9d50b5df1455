//! A running `bailiwick serve`. Every server has its own temporary data directory and a port the system picked, is ready
//! when [`Server::start`] returns, and is gone, with its data, when the value is dropped.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};
use kube::config::{KubeConfigOptions, Kubeconfig};
use tempfile::TempDir;

/// A bearer token of the group `system:masters`.
pub const ADMIN_TOKEN: &str = "admin-token";
/// A bearer token of the user `nobody`, who has no rights.
pub const NOBODY_TOKEN: &str = "nobody-token";
const TOKENS: &str = "admin-token,admin,admin-uid,system:masters\nnobody-token,nobody,nobody-uid,strangers\n";

/// A server that is ready, until dropped.
pub struct Server {
    binary: PathBuf,
    arguments: Vec<String>,
    url: String,
    process: Option<Child>,
    directory: TempDir,
}

impl Server {
    /// Starts the program, given as `env!("CARGO_BIN_EXE_bailiwick")`, and waits until it says that it is ready.
    pub fn start(binary: impl AsRef<Path>) -> Result<Self> {
        Self::start_with(binary, &[])
    }

    /// As [`Server::start`], with further arguments of `serve`.
    pub fn start_with(binary: impl AsRef<Path>, arguments: &[&str]) -> Result<Self> {
        let directory = tempfile::tempdir().context("making a data directory")?;
        fs::write(directory.path().join("tokens.csv"), TOKENS)?;
        let mut server = Self {
            binary: binary.as_ref().to_owned(),
            arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
            url: String::new(),
            process: None,
            directory,
        };
        server.launch("127.0.0.1:0")?;
        Ok(server)
    }

    /// Where it serves, such as `https://127.0.0.1:40000`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The kubeconfig of the administrator that the server made (client certificate).
    pub fn kubeconfig(&self) -> PathBuf {
        self.data_dir().join("admin.kubeconfig")
    }

    /// The server's data directory.
    pub fn data_dir(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// What the server wrote to standard error, for messages of failing tests.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// The most memory that the running process has had resident, as Linux counts it.
    pub fn peak_memory_bytes(&self) -> Result<u64> {
        let process = self.process.as_ref().context("the server does not run")?;
        let status = fs::read_to_string(format!("/proc/{}/status", process.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
        let kib: u64 = line.trim().trim_end_matches(" kB").parse().with_context(|| format!("VmHWM:{line}"))?;
        Ok(kib * 1024)
    }

    /// A client with the administrator's certificate.
    pub async fn client(&self) -> Result<kube::Client> {
        Ok(kube::Client::try_from(self.client_config().await?)?)
    }

    /// The configuration behind [`Server::client`].
    pub async fn client_config(&self) -> Result<kube::Config> {
        // kube's TLS stack takes the process-wide provider; a second call finds it already set.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig())?;
        Ok(kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
    }

    /// Ends the server as `kill -9` does, keeping its data.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            // Nothing to be done about a process that is already gone.
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Ends the server as an operator does, by SIGTERM, keeping its data, and gives how it ended.
    pub fn terminate(&mut self) -> Result<ExitStatus> {
        let mut process = self.process.take().context("the server does not run")?;
        crate::Program::new("kill").args(["-TERM", &process.id().to_string()]).run()?;
        Ok(process.wait()?)
    }

    /// Starts the server again after [`Server::kill`], at the same address and with the same data.
    pub fn restart(&mut self) -> Result<()> {
        self.kill();
        let address = self.url.trim_start_matches("https://").to_owned();
        self.launch(&address)
    }

    fn log_path(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    fn launch(&mut self, address: &str) -> Result<()> {
        let mut process = Command::new(&self.binary)
            .args(["serve", "--listen", address, "--data-dir"])
            .arg(self.data_dir())
            .arg("--token-auth-file")
            .arg(self.directory.path().join("tokens.csv"))
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::options().create(true).append(true).open(self.log_path())?)
            .spawn()
            .with_context(|| format!("starting {}", self.binary.display()))?;
        let stdout = process.stdout.take().context("invariant: stdout is piped")?;
        self.process = Some(process);
        let mut lines = BufReader::new(stdout);
        let mut ready = String::new();
        if lines.read_line(&mut ready)? == 0 {
            bail!("{} ended before it was ready:\n{}", self.binary.display(), self.log());
        }
        // The pipe must stay drained, or a chatty server would block on it.
        std::thread::spawn(move || lines.lines().for_each(drop));
        let url = ready.split([' ', ';']).find(|word| word.starts_with("https://"));
        self.url = url.with_context(|| format!("the ready line names no URL: {ready}"))?.to_owned();
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
