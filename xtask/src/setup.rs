//! `cargo xtask setup`: makes sure that every outside program the tests use is in the tools directory, building the
//! missing ones from their published Go modules.

use std::path::Path;

use anyhow::{Context, Result};

use crate::go_module;
use crate::tools::{
    CATALOG_TOOLS, CONTROLLER_TOOLS, E2E_TOOLS, PEER_TOOLS, TEST_TOOLS, Tool, repository_root, tools_dir,
};

/// The module that carries the conformance tests of CEL.
const CEL_SPEC: (&str, &str) = ("cel.dev/expr", "0.25.1");

/// Programs under `clients/` that need npm packages.
const NPM_PROGRAMS: &[&str] = &["oidc-provider"];

/// What to install.
#[derive(clap::Args, Default)]
pub struct Args {
    /// Also build kube-apiserver, the peer of the differential suite and the benchmarks (some minutes).
    #[arg(long)]
    pub peers: bool,
    /// Also build kube-controller-manager.
    #[arg(long)]
    pub controllers: bool,
    /// Also build the specs of Kubernetes' end-to-end suite that need no nodes (many minutes, some GB of Go build cache).
    #[arg(long)]
    pub e2e: bool,
    /// Does nothing any more: opm is always built, since the catalog's tests compare with it.
    #[arg(long, hide = true)]
    pub opm: bool,
}

/// Installs what is missing and prints where everything is.
pub fn run(args: &Args) -> Result<()> {
    let dir = tools_dir()?;
    let mut wanted = Vec::new();
    if args.peers {
        wanted.extend_from_slice(PEER_TOOLS);
    }
    if args.controllers {
        wanted.extend_from_slice(CONTROLLER_TOOLS);
    }
    if args.e2e {
        wanted.extend_from_slice(E2E_TOOLS);
    }
    install(&wanted, &dir)?;
    install_for_tests(&dir)?;
    println!("tools are in {}", dir.display());
    Ok(())
}

/// Installs all that `cargo xtask test` uses and `dir` lacks. Only kubectl, etcd and what else nearly every test stands on must be
/// had; without another the tests that need it are skipped by name, and here it says why.
pub fn install_for_tests(dir: &Path) -> Result<()> {
    install(TEST_TOOLS, dir)?;
    std::fs::create_dir_all(dir).with_context(|| format!("creating {}", dir.display()))?;
    let debian = |package: &str, file: &str, name: &str| out_of_debian(dir, package, file, name);
    let (module, version) = CEL_SPEC;
    /// Brings something, unless it is there.
    type Bring<'a> = &'a dyn Fn() -> Result<()>;
    let wanted: [(&str, &str, Bring<'_>); 7] = [
        ("opm", "the tests that compare catalogs with it", &|| install(CATALOG_TOOLS, dir)),
        ("docker-registry", "the tests with a real registry", &|| {
            debian("docker-registry", "usr/bin/docker-registry", "docker-registry")
        }),
        (module, "CEL's conformance tests", &|| go_module::directory(module, version).map(drop)),
        ("npm packages", "the tests with a real OpenID provider", &|| {
            NPM_PROGRAMS.iter().try_for_each(|program| npm(program, dir))
        }),
        ("promtool", "the tests of metrics and alerts", &|| debian("prometheus", "usr/bin/promtool", "promtool")),
        ("libfaketime", "the tests with a jumping clock", &|| {
            debian("libfaketime", "usr/lib/*/faketime/libfaketime.so.1", "libfaketime.so.1")
        }),
        ("name servers", "the tests in the fake internet", &|| name_servers(dir)),
    ];
    for (what, tests, bring) in wanted {
        if let Err(error) = bring() {
            println!("{what} could not be had, {tests} will be skipped: {error:#}");
        }
    }
    Ok(())
}

/// Builds those of `wanted` that `dir` lacks. Does not need Go when nothing is missing.
pub fn install(wanted: &[Tool], dir: &Path) -> Result<()> {
    let missing: Vec<&Tool> = wanted.iter().filter(|tool| !tool.is_installed(dir)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = missing.iter().map(|tool| tool.versioned_file()).collect();
    let go = go_module::go_version().with_context(|| format!("missing programs: {}", names.join(", ")))?;
    std::fs::create_dir_all(dir).with_context(|| format!("creating {}", dir.display()))?;
    for tool in missing {
        println!("building {} with {go} …", tool.versioned_file());
        if !dir.join(tool.versioned_file()).is_file() {
            go_module::build(tool, dir)?;
        }
        link(tool, dir)?;
    }
    Ok(())
}

fn link(tool: &Tool, dir: &Path) -> Result<()> {
    let name = dir.join(tool.name);
    if name.symlink_metadata().is_ok() {
        std::fs::remove_file(&name)?;
    }
    std::os::unix::fs::symlink(tool.versioned_file(), &name).with_context(|| format!("linking {}", name.display()))
}

/// Installs the packages that a program under `clients/` depends on, unless they are there.
fn npm(program: &str, tools: &Path) -> Result<()> {
    let wanted = std::fs::read_to_string(repository_root().join("clients").join(program).join("package.json"))?;
    let dir = tools.join("npm").join(program);
    let package = dir.join("package.json");
    if dir.join("node_modules").is_dir() && std::fs::read_to_string(&package).is_ok_and(|text| text == wanted) {
        return Ok(());
    }
    std::fs::create_dir_all(&dir)?;
    // Written last under its own name: an interrupted installation is begun again.
    let beside = dir.join("package.json.new");
    std::fs::write(&beside, &wanted)?;
    println!("installing npm packages of {program} …");
    let names: serde_json::Value = serde_json::from_str(&wanted)?;
    let packages = names["dependencies"].as_object().into_iter().flatten();
    let packages = packages.map(|(name, version)| format!("{name}@{}", version.as_str().unwrap_or("latest")));
    let status = std::process::Command::new("npm")
        .args(["install", "--no-audit", "--no-fund", "--silent", "--no-save", "--prefix"])
        .arg(&dir)
        .args(packages)
        .status()
        .context("npm (Node 20 or newer) is not on PATH")?;
    anyhow::ensure!(status.success(), "npm install failed ({status})");
    Ok(std::fs::rename(beside, package)?)
}

/// Brings the lists of packages where a fresh machine has none, which takes root; what it lacks then is told by what comes after.
fn package_lists(package: &str) -> String {
    format!("apt-cache show {package} >/dev/null 2>&1 || apt-get update -qq || true")
}

/// Takes `file` out of a Debian package and calls it `name`, unless it is there. Installs nothing in the system.
fn out_of_debian(tools: &Path, package: &str, file: &str, name: &str) -> Result<()> {
    if tools.join(name).is_file() {
        return Ok(());
    }
    println!("fetching {name} …");
    let scratch = tools.join(format!("{name}.new"));
    // What an interrupted fetch left would be a second package of the same name.
    if scratch.exists() {
        std::fs::remove_dir_all(&scratch)?;
    }
    std::fs::create_dir_all(&scratch)?;
    let lists = package_lists(package);
    let script = format!("{lists}; apt-get download {package} && dpkg -x {package}_*.deb . && mv {file} ../{name}");
    let status = std::process::Command::new("sh").args(["-c", &script]).current_dir(&scratch).status();
    std::fs::remove_dir_all(&scratch)?;
    anyhow::ensure!(status.context("running apt-get")?.success(), "no package {package} (Debian and its kin have one)");
    Ok(())
}

/// Unpacks Debian's name servers and the libraries they need, unless they are there. Installs nothing in the system.
fn name_servers(tools: &Path) -> Result<()> {
    let wanted = tools.join("dns");
    if wanted.join("usr/sbin/unbound").is_file() {
        return Ok(());
    }
    println!("fetching nsd, knot, bind9 and unbound …");
    let scratch = tools.join("dns.new");
    if scratch.exists() {
        std::fs::remove_dir_all(&scratch)?;
    }
    std::fs::create_dir_all(&scratch)?;
    // The libraries that programs link to; those of every system, of interpreters and of installers are left out.
    let script = r"set -e
@lists@
wanted='nsd knot bind9 bind9-libs bind9-utils bind9-dnsutils unbound dnsperf'
libraries=$(apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances $wanted |
  grep -E '^lib' | grep -vE '^(libc6|libperl|libpython.*-(stdlib|minimal)|lib.*-perl|libpam|libelogind|libdebian|libsemanage|libnewt|libncurses|libreadline|libgdbm)' | sort -u)
apt-get download -qq $wanted $libraries
for package in *.deb; do dpkg -x $package .; done
rm -rf *.deb usr/share/doc usr/share/man usr/share/locale etc var lib/systemd";
    let script = script.replace("@lists@", &package_lists("unbound"));
    let status = std::process::Command::new("sh").args(["-c", &script]).current_dir(&scratch).status();
    anyhow::ensure!(
        status.context("running apt-get")?.success(),
        "apt-get or dpkg failed (Debian and its kin have them)"
    );
    Ok(std::fs::rename(scratch, wanted)?)
}
