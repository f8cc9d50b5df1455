//! The walk-through of docs/CATALOG.md, from an empty folder to an upgraded platform, run as it is written: every command
//! of the section, in one shell. Skipped by name where the bundles or docker-registry are not there.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use bailiwick_testkit::{Program, tools};

const SECTION: &str = "## From an empty folder to an installed platform";
/// Debug builds on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(900);

/// The commands of a section, in the order of the page.
fn commands(page: &str) -> Result<String> {
    let section = page.split(SECTION).nth(1).context("the section is gone")?;
    let section = section.split("\n## ").next().unwrap_or_default();
    let mut script = String::new();
    for block in section.split("```console\n").skip(1) {
        let block = block.split("\n```").next().unwrap_or_default();
        let mut in_document = false;
        for line in block.lines() {
            let command = line.strip_prefix("$ ").or_else(|| line.strip_prefix("> "));
            // The lines of a here-document stand as they are; all others are what commands print.
            match (command, in_document) {
                (_, true) => script.push_str(line),
                (Some(command), false) => script.push_str(command),
                (None, false) => continue,
            }
            script.push('\n');
            in_document = match in_document {
                true => line != "END",
                false => line.ends_with("<<END"),
            };
        }
    }
    Ok(script)
}

fn bundles() -> Option<PathBuf> {
    let beside = std::env::var_os("BAILIWICK_SHARED").map(PathBuf::from);
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|directory| directory.join("shared"));
    let found = above.chain(beside).map(|it| it.join("data/olm/bundles")).find(|it| it.is_dir());
    if found.is_none() {
        bailiwick_testkit::skip("shared/data/olm is not here");
    }
    found
}

struct Registry(Child);

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn registry(directory: &Path, port: u16) -> Result<Option<Registry>> {
    let Ok(program) = tools::find("docker-registry") else {
        bailiwick_testkit::skip("docker-registry is not installed: cargo xtask setup");
        return Ok(None);
    };
    let config = directory.join("registry.yml");
    let root = directory.join("registry");
    std::fs::write(
        &config,
        format!(
            "version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: 127.0.0.1:{port}\n",
            root.display()
        ),
    )?;
    let child = Command::new(program).arg("serve").arg(config).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    Ok(Some(Registry(child)))
}

#[test]
fn the_walk_through_of_the_catalog_page_works_as_written() -> Result<()> {
    let Some(bundles) = bundles() else { return Ok(()) };
    let directory = tempfile::tempdir()?;
    let port = std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
    let Some(_registry) = registry(directory.path(), port)? else { return Ok(()) };
    let place = directory.path().join("empty");
    std::fs::create_dir(&place)?;
    std::os::unix::fs::symlink(bundles, place.join("bundles"))?;
    let programs = directory.path().join("bin");
    std::fs::create_dir(&programs)?;
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_bailiwick"), programs.join("bailiwick"))?;
    std::os::unix::fs::symlink(tools::find("kubectl-1.36")?, programs.join("kubectl"))?;

    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/CATALOG.md");
    // Ports of the machine that tests run on are not ours to choose.
    let script = commands(&std::fs::read_to_string(page)?)?
        .replace("localhost:5000", &format!("localhost:{port}"))
        .replace("bailiwick serve --with olm", "bailiwick serve --listen 127.0.0.1:0 --with olm");
    assert!(script.contains("catalog init") && script.contains("--previous"), "{script}");
    let script = format!("set -ex\ntrap 'kill $(jobs -p) 2> /dev/null' EXIT\n{script}");
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    let printed = Program::new("bash")
        .arg("-c")
        .arg(script)
        .current_dir(&place)
        .env("PATH", path)
        .env("HOME", directory.path())
        .timeout(TIMEOUT)
        .run()?;
    for expected in [
        "catalog/percona-server-mongodb-operator/catalog.yaml is rendered",
        "platform dbaas:",
        "percona-server-mongodb-operator.v1.12.0 condition met",
    ] {
        assert!(printed.contains(expected), "{expected}\n{printed}");
    }
    Ok(())
}
