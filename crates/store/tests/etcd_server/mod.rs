//! Real etcd processes for tests: on free loopback ports, in a directory that goes away, killed when dropped.

#![allow(dead_code)] // each test binary uses its own part

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bailiwick_store::etcd::{Compaction, EtcdStore, Options, Tls};
use tempfile::TempDir;

/// Another process may take a port between our finding it free and etcd's binding it.
const START_ATTEMPTS: usize = 5;
/// etcd on a machine busy with a whole test suite; also the longest it may take a cluster to find a leader.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// How careful the members are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// No fsync and quick elections: for a single member that is never killed.
    Fast,
    /// Defaults, so that a busy machine does not lose its leader for nothing.
    Normal,
}

/// Certificates that members show and ask for, as files.
pub struct Certificates {
    pub ca: PathBuf,
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// One or more members of one cluster.
pub struct Cluster {
    pub members: Vec<Member>,
    directory: TempDir,
}

pub struct Member {
    pub client_url: String,
    name: String,
    arguments: Vec<String>,
    process: Option<Child>,
}

impl Cluster {
    /// One member, as fast as can be.
    pub async fn single() -> Self {
        Self::start(1, Pace::Fast, &[], None).await
    }

    /// One member with further command-line arguments.
    pub async fn single_with(arguments: &[&str]) -> Self {
        Self::start(1, Pace::Fast, arguments, None).await
    }

    /// One member that speaks only TLS, and only to clients with a certificate.
    pub async fn single_tls(certificates: &Certificates) -> Self {
        Self::start(1, Pace::Fast, &[], Some(certificates)).await
    }

    /// Three members that survive the loss of one.
    pub async fn three() -> Self {
        Self::start(3, Pace::Normal, &[], None).await
    }

    /// How to reach all members. No automatic compaction, so that revisions are the test's own.
    pub fn options(&self) -> Options {
        let mut options = Options::new(self.members.iter().map(|member| member.client_url.clone()));
        options.compaction = Compaction::Off;
        options.connect_timeout = START_TIMEOUT;
        options
    }

    /// The index of the member that leads.
    pub fn leader(&self) -> usize {
        let status = |member: &Member| member.ask("/v3/maintenance/status");
        let leader = status(&self.members[0])["leader"].clone();
        let leads = |member: &Member| status(member)["header"]["member_id"] == leader;
        self.members.iter().position(leads).expect("one of the members leads")
    }

    async fn start(size: usize, pace: Pace, extra: &[&str], tls: Option<&Certificates>) -> Self {
        let binary = etcd_binary();
        let mut last = String::new();
        for _ in 0..START_ATTEMPTS {
            let mut cluster = Self::prepare(size, pace, extra, tls);
            for member in &mut cluster.members {
                member.start(&binary);
            }
            let mut options = cluster.options();
            if let Some(files) = tls {
                options.tls =
                    Some(Tls::read(Some(&files.ca), Some(&files.certificate), Some(&files.key)).expect("PEM"));
            }
            tokio::select! {
                connected = EtcdStore::connect(options) => match connected {
                    Ok(_) => return cluster,
                    Err(error) => last = error.to_string(),
                },
                exited = cluster.member_exit() => last = exited,
            }
        }
        panic!("etcd does not start: {last}");
    }

    fn prepare(size: usize, pace: Pace, extra: &[&str], tls: Option<&Certificates>) -> Self {
        let directory = tempfile::tempdir().expect("temporary directory");
        let ports = free_ports(2 * size);
        let scheme = if tls.is_some() { "https" } else { "http" };
        let peers: Vec<String> = ports[size..].iter().map(|port| format!("http://127.0.0.1:{port}")).collect();
        let initial: Vec<String> = peers.iter().enumerate().map(|(i, url)| format!("m{i}={url}")).collect();
        let members = (0..size)
            .map(|i| {
                let client_url = format!("{scheme}://127.0.0.1:{}", ports[i]);
                let mut arguments = vec![
                    format!("--name=m{i}"),
                    format!("--data-dir={}", directory.path().join(format!("m{i}")).display()),
                    format!("--listen-client-urls={client_url}"),
                    format!("--advertise-client-urls={client_url}"),
                    format!("--listen-peer-urls={}", peers[i]),
                    format!("--initial-advertise-peer-urls={}", peers[i]),
                    format!("--initial-cluster={}", initial.join(",")),
                    "--log-level=error".into(),
                ];
                if pace == Pace::Fast {
                    arguments.extend(
                        ["--unsafe-no-fsync", "--heartbeat-interval=20", "--election-timeout=200"].map(Into::into),
                    );
                }
                if let Some(files) = tls {
                    arguments.extend([
                        format!("--cert-file={}", files.certificate.display()),
                        format!("--key-file={}", files.key.display()),
                        format!("--trusted-ca-file={}", files.ca.display()),
                        "--client-cert-auth".into(),
                    ]);
                }
                arguments.extend(extra.iter().map(|&argument| argument.into()));
                Member { client_url, name: format!("m{i}"), arguments, process: None }
            })
            .collect();
        Self { members, directory }
    }

    /// Returns when a member gives up, with what it said.
    async fn member_exit(&mut self) -> String {
        let mut interval = tokio::time::interval(Duration::from_millis(50));
        loop {
            interval.tick().await;
            for member in &mut self.members {
                if let Some(Ok(Some(status))) = member.process.as_mut().map(Child::try_wait) {
                    return format!("{} exited with {status}", member.name);
                }
            }
        }
    }
}

impl Member {
    pub fn start(&mut self, binary: &Path) {
        let child = Command::new(binary)
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot run {}: {error}", binary.display()));
        self.process = Some(child);
    }

    pub fn restart(&mut self) {
        self.start(&etcd_binary());
    }

    /// An empty request to etcd's JSON gateway, for what our own client has no business knowing.
    pub fn ask(&self, path: &str) -> serde_json::Value {
        use std::io::{Read, Write};
        let address = self.client_url.trim_start_matches("http://");
        let mut stream = std::net::TcpStream::connect(address).expect("connect");
        let request = format!("POST {path} HTTP/1.0\r\nHost: {address}\r\nContent-Length: 2\r\n\r\n{{}}");
        stream.write_all(request.as_bytes()).expect("ask");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answer");
        let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error} in {answer}"))
    }

    /// As a power failure does it.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().expect("kill etcd");
            process.wait().expect("reap etcd");
        }
    }

    /// Sends a signal by name: STOP freezes a member with its connections open, CONT thaws it.
    pub fn signal(&self, name: &str) {
        let id = self.process.as_ref().expect("a running member").id().to_string();
        let status = Command::new("kill").args([&format!("-{name}"), &id]).status().expect("run kill");
        assert!(status.success());
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn free_ports(count: usize) -> Vec<u16> {
    // All at once, so that no two are the same.
    let listeners: Vec<_> = (0..count).map(|_| TcpListener::bind(("127.0.0.1", 0)).expect("a free port")).collect();
    listeners.iter().map(|listener| listener.local_addr().expect("address").port()).collect()
}

/// The etcd to test with: from `BAILIWICK_TOOLS`, the `PATH`, or where the set-up puts it.
pub fn etcd_binary() -> PathBuf {
    let mut directories: Vec<PathBuf> = Vec::new();
    directories.extend(std::env::var_os("BAILIWICK_TOOLS").map(PathBuf::from));
    directories.extend(std::env::var_os("PATH").iter().flat_map(std::env::split_paths));
    directories.extend(std::env::var_os("XDG_CACHE_HOME").map(|cache| Path::new(&cache).join("bailiwick-tools")));
    directories.extend(std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache/bailiwick-tools")));
    let found = directories.into_iter().map(|directory| directory.join("etcd")).find(|path| path.is_file());
    found.expect("no etcd binary found: run cargo xtask setup")
}
