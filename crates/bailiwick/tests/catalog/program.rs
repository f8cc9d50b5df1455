//! Runs the program and keeps what it said.

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// What a run came to.
pub struct Run {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    /// What it printed; panics when it failed.
    #[track_caller]
    pub fn printed(self) -> String {
        assert_eq!(self.code, 0, "{}", self.stderr);
        self.stdout
    }

    /// Why it failed, in one line or more; panics when it did not, when it printed something anyway, or when it crashed.
    #[track_caller]
    pub fn refused(self) -> String {
        assert!(self.code == 1 || self.code == 2, "exit code {}: {}{}", self.code, self.stdout, self.stderr);
        assert_eq!(self.stdout, "", "it printed something although it failed: {}", self.stderr);
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        self.stderr
    }
}

/// `bailiwick catalog …` in a directory, with nothing of the user's around it.
pub fn catalog(directory: &Path, arguments: &[&str]) -> Run {
    let Output { status, stdout, stderr } = command(directory, arguments).output().unwrap();
    Run {
        code: status.code().unwrap_or(-1),
        stdout: String::from_utf8(stdout).unwrap(),
        stderr: String::from_utf8(stderr).unwrap(),
    }
}

/// The same, not started yet.
pub fn command(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bailiwick"));
    command.arg("catalog").args(arguments).current_dir(directory).stdin(Stdio::null());
    command.env("HOME", directory).env_remove("XDG_CACHE_HOME").env_remove("DOCKER_CONFIG");
    // Nothing here may go out.
    command.env("https_proxy", "http://127.0.0.1:9").env("http_proxy", "").env("no_proxy", "127.0.0.1");
    command
}

/// All paths below a directory, sorted.
pub fn files(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                open.push(entry.path());
            } else {
                found.push(entry.path().strip_prefix(root).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

/// A catalog that is valid.
pub const VALID: &str = "---
schema: olm.package
name: foo
defaultChannel: stable
---
schema: olm.channel
package: foo
name: stable
entries:
- name: foo.v1.0.0
- name: foo.v1.1.0
  replaces: foo.v1.0.0
---
schema: olm.bundle
package: foo
name: foo.v1.0.0
image: quay.io/test/foo:v1.0.0
properties:
- type: olm.package
  value: {packageName: foo, version: 1.0.0}
---
schema: olm.bundle
package: foo
name: foo.v1.1.0
image: quay.io/test/foo:v1.1.0
properties:
- type: olm.package
  value: {packageName: foo, version: 1.1.0}
";
