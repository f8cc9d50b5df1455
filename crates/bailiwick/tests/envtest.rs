//! Called by the name `kube-apiserver`, the program is an API server that controller-runtime's envtest can use, with the
//! real etcd and kubectl beside it.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use bailiwick_testkit::{Program, tools};
use tempfile::TempDir;

/// Starting, reconciling and stopping; only a bug takes as long.
const TIMEOUT: Duration = Duration::from_secs(180);

/// What envtest calls its assets: a directory with the three programs it starts.
fn assets() -> Result<TempDir> {
    let directory = tempfile::tempdir()?;
    symlink(env!("CARGO_BIN_EXE_bailiwick"), directory.path().join("kube-apiserver"))?;
    symlink(tools::find("etcd")?, directory.path().join("etcd"))?;
    symlink(tools::find("kubectl-1.36")?, directory.path().join("kubectl"))?;
    Ok(directory)
}

fn clients() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients")
}

#[test]
fn envtest_starts_us_installs_definitions_runs_a_manager_and_stops_us() -> Result<()> {
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join("envtest");
    std::fs::create_dir_all(&output)?;
    let program = tools::build_go(&clients().join("go-envtest"), &output)?;
    let assets = assets()?;
    let printed = Program::new(program).arg("--assets").arg(assets.path()).timeout(TIMEOUT).run()?;
    println!("{printed}");
    assert!(printed.contains("10 lamps lit"), "{printed}");
    Ok(())
}

#[test]
fn flags_that_upstream_does_not_have_are_refused_in_its_words() -> Result<()> {
    let assets = assets()?;
    let refused = Program::new(assets.path().join("kube-apiserver")).arg("--colour=red").run();
    let text = refused.err().context("it was accepted")?.to_string();
    assert!(text.contains("exit status: 1") && text.ends_with("Error: unknown flag: --colour\n"), "{text}");
    Ok(())
}
