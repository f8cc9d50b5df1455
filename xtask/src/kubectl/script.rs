//! One script: shell lines that call kubectl, in a directory, namespace and kubeconfig of their own. What a line prints is
//! masked so that two servers, and two runs, can be compared.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use anyhow::{Context, Result, bail};
use regex::Regex;
use serde::{Deserialize, Serialize};

use crate::conformance::case::{Controllers, identity};
use crate::conformance::mask::Masker;

static AGE: LazyLock<Regex> = LazyLock::new(|| pattern(r"(^|[ (])(\d+[dhms]){1,2}( ago)?($|[ )])"));
static TOKEN: LazyLock<Regex> = LazyLock::new(|| pattern(r"eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+"));
static LOG_TIME: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^([EWI])\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ ([a-z_]+\.go):\d+"));
static LONG_DATE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}"));
static GAP: LazyLock<Regex> = LazyLock::new(|| pattern("(  +|\t+)"));

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("invariant: the pattern is a literal")
}

/// A list of shell lines, each of which is compared.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// Unique; also gives the script's namespace its name.
    pub name: String,
    /// Why our output differs, when that is intended.
    #[serde(default)]
    pub differs: Option<String>,
    /// Whether the servers run their controllers.
    #[serde(default)]
    pub controllers: Controllers,
    /// Files in the script's directory.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// The lines. `$NS` is the namespace, which is also the kubeconfig's.
    pub lines: Vec<String>,
}

/// What one line printed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Output {
    /// The line.
    pub command: String,
    /// Its exit code.
    pub exit: i32,
    /// Standard output, masked, by line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub out: Vec<String>,
    /// Standard error, masked, by line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub err: Vec<String>,
}

impl Output {
    /// The lines that only one of the two has.
    pub fn differences(&self, got: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.exit != got.exit {
            lines.push(format!("    exit: expected {}, got {}", self.exit, got.exit));
        }
        for (stream, expected, got) in [("out", &self.out, &got.out), ("err", &self.err, &got.err)] {
            lines.extend(
                expected.iter().filter(|line| !got.contains(line)).map(|line| format!("    {stream} - {line}")),
            );
            lines.extend(
                got.iter().filter(|line| !expected.contains(line)).map(|line| format!("    {stream} + {line}")),
            );
            if lines.is_empty() && expected != got {
                lines.push(format!("    {stream}: the same lines in another order or number"));
            }
        }
        lines
    }
}

/// Reads the scripts.
pub fn load(path: &Path) -> Result<Vec<Script>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let options = serde_saphyr::options! { strict_booleans: true };
    let scripts: Vec<Script> = serde_saphyr::from_str_with_options(&text, options)?;
    for (index, script) in scripts.iter().enumerate() {
        if scripts.iter().skip(index + 1).any(|other| other.name == script.name) {
            bail!("two scripts are named {:?}", script.name);
        }
    }
    Ok(scripts)
}

impl Script {
    /// Runs every line against the server at `base` with the kubectl at `program`.
    pub fn run(&self, version: &str, program: &Path, base: &str) -> Result<Vec<Output>> {
        let directory = tempfile::tempdir()?;
        let namespace = identity(version, &self.name);
        for (name, text) in &self.files {
            std::fs::write(directory.path().join(name), text.replace("$NS", &namespace))?;
        }
        std::fs::write(directory.path().join("kubeconfig"), kubeconfig(base, &namespace))?;
        let programs = directory.path().join("bin");
        std::fs::create_dir(&programs)?;
        std::os::unix::fs::symlink(program, programs.join("kubectl"))?;
        let shell = Shell { directory: directory.path(), namespace: &namespace };
        let made = shell.run("kubectl create namespace $NS")?;
        if !made.status.success() {
            bail!("no namespace: {}", String::from_utf8_lossy(&made.stderr));
        }
        let sent = self.lines.join("\n");
        let authority = base.split("//").last().unwrap_or_default();
        let mask = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes).replace(authority, "<server>").replace(&namespace, "$NS");
            let said = text.lines().filter(|line| !line.contains(SHORT_WATCH));
            said.map(|line| mask_line(line, &Masker::new(&sent, &[]))).collect()
        };
        self.lines
            .iter()
            .map(|line| {
                let output = shell.run(line)?;
                Ok(Output {
                    command: line.clone(),
                    exit: output.status.code().unwrap_or(-1),
                    out: mask(&output.stdout),
                    err: mask(&output.stderr),
                })
            })
            .collect()
    }
}

/// kubectl logs this about itself when its own timeout of a second ends a watch a moment too early; a matter of luck.
const SHORT_WATCH: &str = "Unexpected watch close - watch lasted less than a second";

struct Shell<'a> {
    directory: &'a Path,
    namespace: &'a str,
}

impl Shell<'_> {
    fn run(&self, line: &str) -> Result<std::process::Output> {
        let path = std::env::var("PATH").unwrap_or_default();
        Command::new("bash")
            .args(["-o", "pipefail", "-c", line])
            .current_dir(self.directory)
            .env("PATH", format!("{}:{path}", self.directory.join("bin").display()))
            .env("HOME", self.directory)
            .env("KUBECONFIG", self.directory.join("kubeconfig"))
            .env("NS", self.namespace)
            .env("TZ", "UTC")
            .env("LC_ALL", "C")
            .stdin(std::process::Stdio::null())
            .output()
            .context("running bash")
    }
}

fn kubeconfig(base: &str, namespace: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         clusters: [{{name: c, cluster: {{server: '{base}', insecure-skip-tls-verify: true}}}}]\n\
         users: [{{name: u, user: {{token: admin-token}}}}]\n\
         contexts: [{{name: c, context: {{cluster: c, user: u, namespace: {namespace}}}}}]\n"
    )
}

fn mask_line(line: &str, masker: &Masker<'_>) -> String {
    let line = masker.text(line);
    let line = TOKEN.replace_all(&line, "<token>");
    let line = LOG_TIME.replace(&line, "$1<log> $2");
    let line = LONG_DATE.replace_all(&line, "<date>");
    // Columns are as wide as their widest value, ages included.
    let content = line.trim_start();
    let indent = &line[..line.len() - content.len()];
    let content = GAP.replace_all(content, "  ");
    format!("{indent}{}", AGE.replace_all(&content, "$1<age>$3$4").trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_tokens_and_column_widths_are_masked() {
        let masker = Masker::new("", &[]);
        assert_eq!(mask_line("NAME   DATA   AGE", &masker), "NAME  DATA  AGE");
        assert_eq!(mask_line("a      1      12s", &masker), "a  1  <age>");
        assert_eq!(mask_line("    key: v", &masker), "    key: v");
        assert_eq!(mask_line("token: eyJhbGciOi.eyJhdWQi.c2ln", &masker), "token: <token>");
        assert_eq!(mask_line("  resourceVersion: \"123\"", &masker), "  resourceVersion: \"<rv>\"");
    }
}
