//! Which outside programs the tests use, in which versions, and where they are kept. The tools directory is a
//! per-user cache, so that a second clone of the repository finds them already built.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Names the tools directory, for the tests as well as for people who want it elsewhere.
pub const TOOLS_ENV: &str = "BAILIWICK_TOOLS";

/// The Kubernetes release we are compatible with, and the two minors before it that clients may still run.
/// Patch releases are the newest whose sums the Go checksum database vouches for.
pub const KUBERNETES_1_36: &str = "1.36.4";
const KUBERNETES_1_35: &str = "1.35.8";
const KUBERNETES_1_34: &str = "1.34.10";
const ETCD: &str = "3.6.16";
/// The twin of [`KUBERNETES_1_36`]: the extension API server that is aggregated in tests.
const SAMPLE_APISERVER: &str = "0.36.4";
/// What the goldens of the catalog were made with.
const OPM: &str = "1.73.0";

/// Where a program's source comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// `k8s.io/kubernetes/<package>`, with every staging module replaced by its published twin.
    Kubernetes { package: &'static str },
    /// Our own main program in `clients/<directory>`, with packages of `k8s.io/kubernetes`.
    KubernetesClient { directory: &'static str },
    /// `go.etcd.io/etcd/server/v3`, whose module root is the etcd program.
    Etcd,
    /// `github.com/operator-framework/operator-registry/cmd/opm`.
    Opm,
    /// `k8s.io/sample-apiserver`, whose module root is the program.
    SampleApiserver,
}

/// One program in one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tool {
    /// The name it has in the tools directory, e.g. `kubectl-1.36`.
    pub name: &'static str,
    /// Its exact version, without the leading `v`.
    pub version: &'static str,
    /// Where it is built from.
    pub source: Source,
}

impl Tool {
    /// The file that holds this exact version; `name` is a link to it.
    pub fn versioned_file(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }

    /// Whether this exact version is in `dir`.
    pub fn is_installed(&self, dir: &Path) -> bool {
        dir.join(self.versioned_file()).is_file() && dir.join(self.name).exists()
    }
}

/// What `cargo xtask test` needs.
pub const TEST_TOOLS: &[Tool] = &[
    Tool { name: "etcd", version: ETCD, source: Source::Etcd },
    kubectl("kubectl-1.36", KUBERNETES_1_36),
    kubectl("kubectl-1.35", KUBERNETES_1_35),
    kubectl("kubectl-1.34", KUBERNETES_1_34),
    Tool { name: "sample-apiserver", version: SAMPLE_APISERVER, source: Source::SampleApiserver },
];

/// What recording the differential suite and benchmarking against upstream need in addition.
pub const PEER_TOOLS: &[Tool] = &[Tool {
    name: "kube-apiserver",
    version: KUBERNETES_1_36,
    source: Source::Kubernetes { package: "cmd/kube-apiserver" },
}];

/// Upstream's controllers, for tests that run them against our server.
pub const CONTROLLER_TOOLS: &[Tool] = &[Tool {
    name: "kube-controller-manager",
    version: KUBERNETES_1_36,
    source: Source::Kubernetes { package: "cmd/kube-controller-manager" },
}];

/// Upstream's sample of a control plane without workloads, to compare with.
pub const REFERENCE_TOOLS: &[Tool] = &[Tool {
    name: "generic-controlplane",
    version: KUBERNETES_1_36,
    source: Source::Kubernetes { package: "pkg/controlplane/apiserver/samples/generic" },
}];

/// Kubernetes' own end-to-end specs that need no nodes.
pub const E2E_TOOLS: &[Tool] =
    &[Tool { name: "e2e", version: KUBERNETES_1_36, source: Source::KubernetesClient { directory: "e2e" } }];

/// The peer of `bailiwick catalog`, for tests and benchmarks that compare with it.
pub const CATALOG_TOOLS: &[Tool] = &[Tool { name: "opm", version: OPM, source: Source::Opm }];

const fn kubectl(name: &'static str, version: &'static str) -> Tool {
    Tool { name, version, source: Source::Kubernetes { package: "cmd/kubectl" } }
}

/// The tools directory: `$BAILIWICK_TOOLS`, or `bailiwick-tools` in the user's cache directory.
pub fn tools_dir() -> Result<PathBuf> {
    if let Some(dir) = std::env::var_os(TOOLS_ENV).filter(|dir| !dir.is_empty()) {
        return Ok(PathBuf::from(dir));
    }
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .filter(|dir| !dir.is_empty())
        .map(PathBuf::from)
        .or_else(|| std::env::home_dir().map(|home| home.join(".cache")))
        .with_context(|| format!("no home directory to keep tools in; set {TOOLS_ENV}"))?;
    Ok(cache.join("bailiwick-tools"))
}

/// The path of an installed program, or an error that says how to install it.
pub fn require(name: &str) -> Result<PathBuf> {
    let path = tools_dir()?.join(name);
    if !path.is_file() {
        bail!("{} is missing: run `cargo xtask setup --peers`", path.display());
    }
    Ok(path)
}

/// The root of the repository: of the one cargo was called in, else of the one this xtask was built from.
pub fn repository_root() -> PathBuf {
    let xtask = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).filter(|dir| dir.ends_with("xtask"));
    let xtask = xtask.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    xtask.parent().map(Path::to_path_buf).unwrap_or_default()
}
