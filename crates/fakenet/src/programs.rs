//! The real name servers, unpacked into the tools directory by `cargo xtask setup` and run from there.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// Names the tools directory; `cargo xtask` reads the same variable.
const TOOLS_ENV: &str = "BAILIWICK_TOOLS";

/// Where the programs and their libraries are.
#[derive(Clone, Debug)]
pub struct Programs {
    root: PathBuf,
}

/// Why the fake internet cannot be brought up here, if it cannot.
pub fn missing() -> Option<String> {
    Programs::find().err().map(|error| format!("{error:#}")).or_else(crate::namespace::unavailable)
}

impl Programs {
    /// Those of the tools directory.
    pub fn find() -> Result<Self> {
        let tools = match std::env::var_os(TOOLS_ENV).filter(|directory| !directory.is_empty()) {
            Some(directory) => PathBuf::from(directory),
            None => std::env::var_os("XDG_CACHE_HOME")
                .filter(|directory| !directory.is_empty())
                .map(PathBuf::from)
                .or_else(|| std::env::home_dir().map(|home| home.join(".cache")))
                .with_context(|| format!("no home directory to look for tools in; set {TOOLS_ENV}"))?
                .join("bailiwick-tools"),
        };
        let root = tools.join("dns");
        for program in
            ["usr/sbin/nsd", "usr/sbin/knotd", "usr/sbin/named", "usr/sbin/unbound", "usr/bin/dnssec-signzone"]
        {
            if !root.join(program).is_file() {
                bail!("{} is missing: run `cargo xtask setup`", root.join(program).display());
            }
        }
        Ok(Self { root })
    }

    /// A command for one of the programs.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.root.join(program));
        let machine = format!("{}-linux-gnu", std::env::consts::ARCH);
        let libraries: Vec<String> = ["usr/lib", "lib"]
            .iter()
            .map(|directory| self.root.join(directory).join(&machine).display().to_string())
            .collect();
        command.env("LD_LIBRARY_PATH", libraries.join(":"));
        command
    }

    /// What a program prints.
    pub fn output(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let output = self.command(program).args(arguments).output().with_context(|| format!("running {program}"))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(output.status.success(), "{program}: {text}{}", String::from_utf8_lossy(&output.stderr));
        Ok(text)
    }

    /// Starts a server whose log goes to `<directory>/<name>.log`.
    pub(crate) fn start(&self, directory: &Path, name: &str, program: &str, arguments: &[&str]) -> Result<Running> {
        let log = File::create(directory.join(format!("{name}.log")))?;
        let child = self
            .command(program)
            .args(arguments)
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("starting {program}"))?;
        Ok(Running { child })
    }
}

/// A server that ends with this value.
pub(crate) struct Running {
    child: Child,
}

impl Running {
    /// Tells the server to read its zones again.
    pub(crate) fn reload(&self) -> Result<()> {
        let status = Command::new("kill").args(["-HUP", &self.child.id().to_string()]).status()?;
        ensure!(status.success(), "the server is gone");
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
