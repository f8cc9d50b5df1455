//! Starts the servers that the suite talks to: our own, and kube-apiserver with its etcd. Each run has its own fresh
//! data directory and ports, and everything ends with the value that owns it.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use super::exchange::{Server, TOKEN_FILE};
use crate::tools;

/// kube-apiserver needs seconds to become ready, more on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// Both servers name it in tokens and token reviews.
const SERVICE_ACCOUNT_ISSUER: &str = "https://kubernetes.default.svc";
/// How often readiness is asked for while a server starts.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Names a bailiwick program that is built already.
pub const BINARY_ENV: &str = "BAILIWICK_BINARY";

/// A started server and the processes behind it.
pub struct Running {
    /// How to talk to it.
    pub server: Server,
    // Ended in this order: kube-apiserver hangs on shutdown when its etcd went first.
    processes: Vec<Process>,
    data: TempDir,
    /// How upstream's API server was started.
    upstream: Option<Upstream>,
}

struct Upstream {
    program: PathBuf,
    arguments: Vec<String>,
}

impl Running {
    /// The processes, the one that serves the API first.
    pub fn pids(&self) -> Vec<u32> {
        self.processes.iter().map(|process| process.0.id()).collect()
    }

    /// The administrator's kubeconfig. Our own server writes one; upstream's have one with their controllers.
    pub fn kubeconfig(&self) -> PathBuf {
        self.data_dir().join("admin.kubeconfig")
    }

    /// Where our own server keeps its things.
    pub fn data_dir(&self) -> PathBuf {
        self.data.path().join("data")
    }

    /// Kills our own server without warning and starts it again on the same data.
    pub fn restart_bailiwick(self, binary: &Path) -> Result<Self> {
        self.restart_with(binary, &["--no-controllers".to_owned()])
    }

    /// The same for one that has its controllers.
    pub fn restart_control_plane(self, binary: &Path) -> Result<Self> {
        self.restart_with(binary, &[])
    }

    fn restart_with(self, binary: &Path, arguments: &[String]) -> Result<Self> {
        let Self { processes, data, .. } = self;
        drop(processes);
        start_bailiwick_on(binary, data, arguments)
    }

    /// Kills upstream's API server, and starts it again on the same etcd.
    pub fn restart_upstream(mut self) -> Result<Self> {
        let upstream = self.upstream.as_ref().context("this is not upstream's server")?;
        let place = self.processes.first_mut().context("invariant: it has a process")?;
        place.0.kill()?;
        place.0.wait()?;
        *place = upstream.start(self.data.path())?;
        wait_until_ready(self.server.base(), place, &self.data.path().join("apiserver.log"))?;
        Ok(self)
    }
}

impl Upstream {
    fn start(&self, dir: &Path) -> Result<Process> {
        let child = Command::new(&self.program)
            .current_dir(dir)
            .args(&self.arguments)
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(dir.join("apiserver.log"))?)
            .spawn()?;
        Ok(Process(child))
    }
}

struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // Nothing to be done about a process that is already gone.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts our own binary.
pub fn start_bailiwick(binary: &Path) -> Result<Running> {
    start_bailiwick_with(binary, &[])
}

/// Starts our own binary with further arguments of `serve`.
pub fn start_bailiwick_with(binary: &Path, arguments: &[String]) -> Result<Running> {
    // The peer has no controller manager beside it either.
    let arguments: Vec<String> = arguments.iter().cloned().chain(["--no-controllers".to_owned()]).collect();
    start_bailiwick_on(binary, tempfile::tempdir()?, &arguments)
}

/// Starts our own binary with its controllers.
pub fn start_control_plane(binary: &Path, arguments: &[String]) -> Result<Running> {
    start_bailiwick_on(binary, tempfile::tempdir()?, arguments)
}

fn start_bailiwick_on(binary: &Path, data: TempDir, arguments: &[String]) -> Result<Running> {
    let tokens = data.path().join("tokens.csv");
    std::fs::write(&tokens, TOKEN_FILE)?;
    let data_dir = data.path().join("data");
    let mut command = Command::new(binary);
    command
        .arg("serve")
        .args(["--listen", "127.0.0.1:0", "--data-dir"])
        .arg(&data_dir)
        .arg("--token-auth-file")
        .arg(&tokens)
        .args(["--service-account-issuer", SERVICE_ACCOUNT_ISSUER])
        .args(arguments);
    spawn_bailiwick(command, data)
}

/// Waits for the line that says that the server is ready.
fn spawn_bailiwick(mut command: Command, data: TempDir) -> Result<Running> {
    let log = std::fs::File::create(data.path().join("log"))?;
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child =
        command.stdout(Stdio::piped()).stderr(log).spawn().with_context(|| format!("starting {program}"))?;
    let stdout = child.stdout.take().context("invariant: stdout is piped")?;
    let process = Process(child);
    let mut ready = String::new();
    let mut lines = BufReader::new(stdout);
    if lines.read_line(&mut ready)? == 0 {
        let log = std::fs::read_to_string(data.path().join("log")).unwrap_or_default();
        bail!("bailiwick ended before it was ready:\n{log}");
    }
    // The pipe must stay drained, or a chatty server would block on it.
    std::thread::spawn(move || for _ in lines.lines() {});
    let base = server_of_kubeconfig(&data.path().join("data/admin.kubeconfig"))?;
    Ok(Running { server: Server::new(&base)?, processes: vec![process], data, upstream: None })
}

fn server_of_kubeconfig(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let config: serde_json::Value = serde_saphyr::from_str(&text)?;
    let server = config.pointer("/clusters/0/cluster/server").and_then(|server| server.as_str());
    Ok(server.with_context(|| format!("{} names no server", path.display()))?.to_owned())
}

/// Starts etcd and kube-apiserver with default settings, RBAC and our token file. No controller manager.
pub fn start_kube_apiserver() -> Result<Running> {
    // The address is only written into an Endpoints object that nobody asks for.
    let own = ["--advertise-address", "192.0.2.1", "--endpoint-reconciler-type", "none"];
    start_upstream("kube-apiserver", &[&own[..], &["--service-cluster-ip-range", "10.0.0.0/24"]].concat())
}

/// Starts one of upstream's API servers with its etcd.
fn start_upstream(program: &str, own: &[&str]) -> Result<Running> {
    let (etcd, apiserver) = (tools::require("etcd")?, tools::require(program)?);
    let data = tempfile::tempdir()?;
    let dir = data.path();
    let [client_port, peer_port, secure_port] = free_ports()?;
    let (client_url, peer_url) = (format!("http://127.0.0.1:{client_port}"), format!("http://127.0.0.1:{peer_port}"));
    let etcd = Command::new(etcd)
        .arg("--data-dir")
        .arg(dir.join("etcd"))
        .args(["--listen-client-urls", &client_url, "--advertise-client-urls", &client_url])
        .args(["--listen-peer-urls", &peer_url, "--initial-advertise-peer-urls", &peer_url])
        .args(["--initial-cluster", &format!("default={peer_url}"), "--log-level", "error"])
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(dir.join("etcd.log"))?)
        .spawn()?;
    let etcd = Process(etcd);

    std::fs::write(dir.join("tokens.csv"), TOKEN_FILE)?;
    let service_account_key = rcgen::KeyPair::generate()?;
    std::fs::write(dir.join("sa.key"), service_account_key.serialize_pem())?;
    std::fs::write(dir.join("sa.pub"), service_account_key.public_key_pem())?;
    let port = secure_port.to_string();
    let arguments = [
        &["--etcd-servers", &client_url, "--bind-address", "127.0.0.1", "--secure-port", &port, "--cert-dir", "certs"],
        own,
        &["--authorization-mode", "RBAC", "--token-auth-file", "tokens.csv"],
        &["--service-account-issuer", SERVICE_ACCOUNT_ISSUER, "--service-account-key-file", "sa.pub"],
        &["--service-account-signing-key-file", "sa.key"],
    ];
    let arguments = arguments.concat().into_iter().map(str::to_owned).collect();
    let upstream = Upstream { program: apiserver, arguments };
    let mut apiserver = upstream.start(dir)?;
    let base = format!("https://127.0.0.1:{secure_port}");
    wait_until_ready(&base, &mut apiserver, &dir.join("apiserver.log"))?;
    Ok(Running { server: Server::new(&base)?, processes: vec![apiserver, etcd], data, upstream: Some(upstream) })
}

/// How fast kube-controller-manager may work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// As it comes: some tens of requests a second.
    Default,
    /// As fast as it can; its own limit would be all that is measured otherwise.
    Unlimited,
}

/// The counterparts of the controllers that we have.
const UPSTREAM_CONTROLLERS: [&str; 12] = [
    "namespace-controller",
    "garbage-collector-controller",
    "serviceaccount-controller",
    "root-ca-certificate-publisher-controller",
    "resourcequota-controller",
    "clusterrole-aggregation-controller",
    "certificatesigningrequest-signing-controller",
    "certificatesigningrequest-approving-controller",
    "certificatesigningrequest-cleaner-controller",
    "validatingadmissionpolicy-status-controller",
    "serviceaccount-token-controller",
    "legacy-serviceaccount-token-cleaner-controller",
];

/// As [`start_kube_apiserver`], with kube-controller-manager beside it.
pub fn start_kubernetes(pace: Pace) -> Result<Running> {
    with_controller_manager(start_kube_apiserver()?, pace)
}

/// Upstream's sample of a control plane without workloads, with kube-controller-manager beside it.
pub fn start_reference() -> Result<Running> {
    with_controller_manager(start_upstream("generic-controlplane", &[])?, Pace::Unlimited)
}

fn with_controller_manager(mut running: Running, pace: Pace) -> Result<Running> {
    let manager = tools::require("kube-controller-manager")?;
    let dir = running.data.path();
    let kubeconfig = running.kubeconfig();
    if let Some(parent) = kubeconfig.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let cluster = serde_json::json!({"server": running.server.base(), "insecure-skip-tls-verify": true});
    let config = serde_json::json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "peer",
        "clusters": [{"name": "peer", "cluster": cluster}],
        "users": [{"name": "admin", "user": {"token": "admin-token"}}],
        "contexts": [{"name": "peer", "context": {"cluster": "peer", "user": "admin"}}],
    });
    std::fs::write(&kubeconfig, config.to_string())?;
    let mut command = Command::new(manager);
    command
        .arg("--kubeconfig")
        .arg(&kubeconfig)
        .args(["--leader-elect=false", "--secure-port=0", "--root-ca-file", "certs/apiserver.crt"])
        .args(["--service-account-private-key-file", "sa.key"])
        .arg(format!("--controllers={}", UPSTREAM_CONTROLLERS.join(",")));
    if pace == Pace::Unlimited {
        command.args(["--kube-api-qps=100000", "--kube-api-burst=100000"]);
    }
    let child = command
        .current_dir(dir)
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(dir.join("controllers.log"))?)
        .spawn()?;
    running.processes.insert(0, Process(child));
    wait_for_controllers(&running)?;
    Ok(running)
}

/// The default service account of a namespace is a sign that the controllers work.
fn wait_for_controllers(running: &Running) -> Result<()> {
    let client = reqwest::blocking::Client::builder().danger_accept_invalid_certs(true).build()?;
    let url = format!("{}/api/v1/namespaces/default/serviceaccounts/default", running.server.base());
    let deadline = Instant::now() + START_TIMEOUT;
    while Instant::now() < deadline {
        let answer = client.get(&url).header("Authorization", "Bearer admin-token").send();
        if answer.is_ok_and(|answer| answer.status().is_success()) {
            return Ok(());
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    let log = std::fs::read_to_string(running.data.path().join("controllers.log")).unwrap_or_default();
    bail!("kube-controller-manager did not become ready:\n{log}");
}

fn wait_until_ready(base: &str, process: &mut Process, log: &Path) -> Result<()> {
    let client = reqwest::blocking::Client::builder().danger_accept_invalid_certs(true).build()?;
    let deadline = Instant::now() + START_TIMEOUT;
    loop {
        let answer = client.get(format!("{base}/readyz")).header("Authorization", "Bearer admin-token").send();
        if answer.is_ok_and(|answer| answer.status().is_success()) {
            return Ok(());
        }
        if process.0.try_wait()?.is_some() || Instant::now() > deadline {
            bail!("kube-apiserver did not become ready:\n{}", std::fs::read_to_string(log).unwrap_or_default());
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Three ports that were free a moment ago.
fn free_ports() -> Result<[u16; 3]> {
    let listeners = [bind_free()?, bind_free()?, bind_free()?];
    let [a, b, c] = &listeners;
    Ok([a.local_addr()?.port(), b.local_addr()?.port(), c.local_addr()?.port()])
}

fn bind_free() -> Result<TcpListener> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?)
}

/// Builds the bailiwick binary with cargo (nothing happens when it is fresh) and returns its path.
pub fn build_bailiwick() -> Result<PathBuf> {
    // `cargo xtask test` has built it along with the tests; building it alone would choose other features and start over.
    match std::env::var_os(BINARY_ENV) {
        Some(binary) => Ok(binary.into()),
        None => build(),
    }
}

fn build() -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(tools::repository_root())
        .args(["build", "--package", "bailiwick", "--bin", "bailiwick", "--message-format", "json-render-diagnostics"])
        .stderr(Stdio::inherit())
        .output()
        .context("running cargo")?;
    if !output.status.success() {
        bail!("cargo build --package bailiwick failed: {}", output.status);
    }
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter_map(|message| message.get("executable").and_then(|path| path.as_str()).map(PathBuf::from))
        .next_back()
        .context("cargo built no executable")
}
