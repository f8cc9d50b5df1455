//! `cargo xtask conformance --cmd`: the functions of Kubernetes' own kubectl shell suites, each against a fresh server of ours.
//! The scripts are read where Go's module cache has them; `conformance/test-cmd.txt` says of each function what is
//! expected and why.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::conformance::servers;
use crate::expectations::{self, Expectation, Expected};
use crate::go_module;
use crate::setup;
use crate::test_run::target_dir;
use crate::tools::{self, KUBERNETES_1_36, repository_root, tools_dir};

/// Functions at once: they are shells that wait for kubectl.
const CONCURRENCY: usize = 3;
/// A function that takes longer counts as failed. The slowest that passes takes half a minute.
const TIMEOUT_SECONDS: &str = "180";
/// What the suites find under these names in the root of Kubernetes' repository.
const LINKED: [&str; 7] = ["hack", "third_party", "cluster", "staging", "api", "test/cmd", "test/e2e"];
/// Has programs in it, which are not executable in a module.
const COPIED: &str = "test/fixtures";
/// Lines shown of what a function printed before it failed.
const OUTPUT_LINES: usize = 15;

/// How to run it.
#[derive(Default)]
pub struct Args {
    /// Run only the functions whose name contains this text.
    pub filter: String,
    /// Also run the functions that are expected to fail.
    pub all: bool,
    /// Use this bailiwick program instead of building it.
    pub bailiwick: Option<PathBuf>,
}

/// What became of a function.
struct Ran {
    passed: bool,
    seconds: f64,
    log: PathBuf,
}

/// Runs the functions and prints what became of them; an error when that is not what was expected.
pub fn run(args: &Args) -> Result<()> {
    setup::install(tools::TEST_TOOLS, &tools_dir()?)?;
    let sources = go_module::directory("k8s.io/kubernetes", KUBERNETES_1_36)?;
    let expectations = expectations::read(&repository_root().join("conformance/test-cmd.txt"))?;
    check_complete(&sources, &expectations)?;
    let chosen: Vec<&Expectation> = expectations
        .iter()
        .filter(|function| function.name.contains(&args.filter))
        .filter(|function| function.expected == Expected::Pass || (args.all && function.expected == Expected::Fail))
        .collect();
    if chosen.is_empty() {
        bail!("no function in conformance/test-cmd.txt contains {:?} (those expected to fail need --all)", args.filter);
    }
    let binary = match &args.bailiwick {
        Some(path) => path.clone(),
        None => servers::build_bailiwick()?,
    };
    let directory = target_dir().join("test-cmd");
    std::fs::create_dir_all(&directory)?;
    let started = Instant::now();
    let ran = run_all(&chosen, |function| run_one(function, &sources, &binary, &directory))?;
    report(&chosen, &ran, started.elapsed().as_secs())
}

/// Every function of the scripts must be in the list, or a new one would never be tried.
fn check_complete(sources: &Path, expectations: &[Expectation]) -> Result<()> {
    let mut missing = BTreeSet::new();
    for entry in std::fs::read_dir(sources.join("test/cmd"))? {
        let text = std::fs::read_to_string(entry?.path())?;
        for line in text.lines() {
            let line = line.strip_prefix("function ").unwrap_or(line);
            let Some((name, _)) = line.split_once("()") else { continue };
            if name.starts_with("run_") && !expectations.iter().any(|function| function.name == name) {
                missing.insert(name.to_owned());
            }
        }
    }
    if !missing.is_empty() {
        bail!("conformance/test-cmd.txt does not have {missing:?}");
    }
    Ok(())
}

fn run_all(chosen: &[&Expectation], run: impl Fn(&str) -> Result<Ran> + Sync) -> Result<Vec<Ran>> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(chosen.len()));
    std::thread::scope(|scope| {
        for _ in 0..CONCURRENCY {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(function) = chosen.get(index) else { break };
                    let ran = run(&function.name);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((index, ran));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, ran)| ran).collect()
}

fn run_one(function: &str, sources: &Path, binary: &Path, directory: &Path) -> Result<Ran> {
    let server = servers::start_control_plane(binary, &server_arguments(sources))?;
    let port = server.server.base().rsplit(':').next().context("the server's URL has no port")?.to_owned();
    let root = tempfile::tempdir()?;
    std::fs::create_dir_all(root.path().join("test"))?;
    for name in LINKED {
        std::os::unix::fs::symlink(sources.join(name), root.path().join(name))?;
    }
    copy_programs(&sources.join(COPIED), &root.path().join(COPIED))?;
    let programs = root.path().join("_output/bin");
    std::fs::create_dir_all(&programs)?;
    std::os::unix::fs::symlink(tools::require("kubectl-1.36")?, programs.join("kubectl"))?;
    let temporary = root.path().join("tmp");
    std::fs::create_dir_all(&temporary)?;
    // kube-apiserver leaves its serving certificate there, and some functions use it.
    std::fs::copy(server.data_dir().join("pki/apiserver.crt"), temporary.join("apiserver.crt"))?;
    let driver = root.path().join("driver.sh");
    std::fs::write(&driver, include_str!("test_cmd/driver.sh"))?;
    let log = directory.join(format!("{function}.log"));
    let output = std::fs::File::create(&log)?;
    let started = Instant::now();
    let status = Command::new("timeout")
        .args(["--kill-after=5", TIMEOUT_SECONDS, "bash"])
        .arg(&driver)
        .args([function, &port])
        .current_dir(root.path())
        .env("TERM", "xterm")
        .env("TMPDIR", &temporary)
        .env("KUBE_JUNIT_REPORT_DIR", root.path().join("reports"))
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .status()
        .context("running bash")?;
    Ok(Ran { passed: status.success(), seconds: started.elapsed().as_secs_f64(), log })
}

/// Copies a directory and makes scripts in it executable.
fn copy_programs(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let (source, target) = {
            let entry = entry?;
            (entry.path(), to.join(entry.file_name()))
        };
        if source.is_dir() {
            copy_programs(&source, &target)?;
            continue;
        }
        let content = std::fs::read(&source)?;
        std::fs::write(&target, &content)?;
        if content.starts_with(b"#!") {
            std::fs::set_permissions(&target, std::fs::Permissions::from_mode(0o755))?;
        }
    }
    Ok(())
}

/// As upstream starts kube-apiserver and kube-controller-manager for these suites. The admin token is the same as in our token file.
fn server_arguments(sources: &Path) -> Vec<String> {
    let ca = sources.join("hack/testdata/ca/ca.crt");
    ["--authorization-mode", "RBAC,AlwaysAllow", "--client-ca-file", &ca.display().to_string()]
        .map(str::to_owned)
        .to_vec()
}

fn report(chosen: &[&Expectation], ran: &[Ran], seconds: u64) -> Result<()> {
    println!("\n| result | expected | reference | s | function |\n|---|---|---|---:|---|");
    let mut wrong = Vec::new();
    for (function, ran) in chosen.iter().zip(ran) {
        let result = if ran.passed { "passed" } else { "failed" };
        println!(
            "| {result} | {} | {} | {:.1} | {} |",
            function.expected, function.reference, ran.seconds, function.name
        );
        if ran.passed != (function.expected == Expected::Pass) {
            wrong.push((function, ran, result));
        }
    }
    for (function, ran, result) in &wrong {
        println!("\n--- {} ({result}, expected: {}): {}", function.name, function.expected, ran.log.display());
        let text = std::fs::read_to_string(&ran.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(OUTPUT_LINES)..].iter().for_each(|line| println!("    {line}"));
    }
    let passed = ran.iter().filter(|ran| ran.passed).count();
    let reference = chosen.iter().filter(|function| function.reference == "passed").count();
    println!(
        "\n{passed} of {} functions passed in {seconds} s; the reference passed {reference} of them",
        chosen.len()
    );
    if !wrong.is_empty() {
        bail!("{} functions did not do as conformance/test-cmd.txt expects", wrong.len());
    }
    Ok(())
}
