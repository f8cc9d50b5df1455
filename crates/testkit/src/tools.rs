//! Finds the programs that tests run. `cargo xtask setup` puts kubectl, etcd and npm packages into the tools directory; Go
//! and Python come from the system, and what is built or installed with them is kept in the tools directory too.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::Program;

/// Names the tools directory; `cargo xtask` reads the same variable.
const TOOLS_ENV: &str = "BAILIWICK_TOOLS";
/// Compiling client-go on a busy machine with a cold cache takes minutes.
pub const BUILD_TIMEOUT: Duration = Duration::from_secs(1800);

/// `$BAILIWICK_TOOLS`, or `bailiwick-tools` in the user's cache directory.
pub fn directory() -> Result<PathBuf> {
    if let Some(directory) = std::env::var_os(TOOLS_ENV).filter(|directory| !directory.is_empty()) {
        return Ok(PathBuf::from(directory));
    }
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .filter(|directory| !directory.is_empty())
        .map(PathBuf::from)
        .or_else(|| std::env::home_dir().map(|home| home.join(".cache")))
        .with_context(|| format!("no home directory to look for tools in; set {TOOLS_ENV}"))?;
    Ok(cache.join("bailiwick-tools"))
}

/// An installed program such as `kubectl-1.36`.
pub fn find(name: &str) -> Result<PathBuf> {
    let path = directory()?.join(name);
    if !path.is_file() {
        bail!("{} is missing: run `cargo xtask setup`", path.display());
    }
    Ok(path)
}

/// Builds the Go program in `source` into `directory`; Go's own cache makes the second time fast.
pub fn build_go(source: &Path, directory: &Path) -> Result<PathBuf> {
    let name = source.file_name().with_context(|| format!("{} names no program", source.display()))?;
    let program = directory.join(name);
    // The same settings as the builds of `cargo xtask setup`, so that they share the cache.
    Program::new("go")
        .args(["build", "-trimpath", "-buildvcs=false", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(source)
        .env("CGO_ENABLED", "0")
        .env("GOWORK", "off")
        .timeout(BUILD_TIMEOUT)
        .run()
        .context("building a test program needs Go 1.26 or newer on PATH (https://go.dev/dl)")?;
    Ok(program)
}

/// The Python of a virtual environment with what `requirements` names, made in the tools directory when it is not there.
pub fn python(requirements: &Path) -> Result<PathBuf> {
    let wanted = std::fs::read_to_string(requirements).with_context(|| format!("{}", requirements.display()))?;
    // Tests run at the same time and want the same environment.
    static MAKING: Mutex<()> = Mutex::new(());
    let _alone = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    let environment = directory()?.join("python");
    let (python, installed) = (environment.join("bin/python"), environment.join("requirements.txt"));
    if std::fs::read_to_string(&installed).is_ok_and(|text| text == wanted) {
        return Ok(python);
    }
    let missing = "the Python tests need python3 with its venv module (Debian: python3-venv)";
    Program::new("python3")
        .args(["-m", "venv", "--clear"])
        .arg(&environment)
        .timeout(BUILD_TIMEOUT)
        .run()
        .context(missing)?;
    Program::new(&python)
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"])
        .arg(requirements)
        .timeout(BUILD_TIMEOUT)
        .run()
        .context("installing from PyPI")?;
    // Written last: an interrupted installation is begun again.
    std::fs::write(installed, wanted)?;
    Ok(python)
}

/// A directory with the npm packages that the program in `source` depends on, in `node_modules`.
pub fn npm(source: &Path) -> Result<PathBuf> {
    let name = source.file_name().with_context(|| format!("{} names no program", source.display()))?;
    let directory = directory()?.join("npm").join(name);
    let text = |directory: &Path| std::fs::read_to_string(directory.join("package.json")).ok();
    if !directory.join("node_modules").is_dir() || text(&directory) != text(source) {
        bail!("the npm packages of {} are missing: run `cargo xtask setup`", name.display());
    }
    Ok(directory)
}
