//! `cargo xtask test`: every check of the repository in one command, for people and for CI. It ends with one plain line of
//! totals, and what is skipped is skipped by name.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::conformance::servers::BINARY_ENV;
use crate::dependencies::{self, Advisories, Severity};
use crate::setup;
use crate::tools::{TEST_TOOLS, TOOLS_ENV, repository_root, tools_dir};

/// What to leave out.
#[derive(clap::Args, Default)]
pub struct Args {
    /// Only install what the tests need and run the tests; no formatting, clippy or dependency checks.
    #[arg(long)]
    pub tests_only: bool,
    /// Fail when cargo-deny is not installed, instead of skipping it by name.
    #[arg(long)]
    pub deny: bool,
}

/// Sums over all checks and tests, and what failed with the beginning of what it said: a reader of a long log finds it
/// repeated at the end.
#[derive(Debug, Default, PartialEq, Eq)]
struct Totals {
    passed: u64,
    failed: u64,
    skipped: u64,
    failures: Vec<String>,
    /// Lines of the failure being read that are still kept.
    keep: usize,
}

/// Lines kept of what one failed test printed.
const KEPT_LINES: usize = 25;

/// Runs everything; an error when anything failed.
pub fn run(args: &Args) -> Result<()> {
    let tools = tools_dir()?;
    setup::install(TEST_TOOLS, &tools)?;
    setup::install_name_servers(&tools);
    let mut totals = Totals::default();
    if !args.tests_only {
        check(&mut totals, "formatting", cargo(&["fmt", "--all", "--check"]));
        let clippy = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
        check(&mut totals, "clippy", cargo(&clippy));
        check_dependencies(&mut totals, args)?;
    }
    run_tests(&mut totals, &tools)?;
    if !totals.failures.is_empty() {
        println!("== what failed\n{}\n", totals.failures.join("\n"));
    }
    println!("{} passed, {} failed, {} skipped", totals.passed, totals.failed, totals.skipped);
    if totals.failed > 0 {
        std::process::exit(1);
    }
    Ok(())
}

fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(repository_root()).args(arguments);
    command
}

/// Where cargo puts what it builds.
pub fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository_root().join("target"), PathBuf::from)
}

fn check(totals: &mut Totals, name: &str, mut command: Command) {
    println!("== {name}");
    if command.status().is_ok_and(|status| status.success()) {
        totals.passed += 1;
    } else {
        println!("FAILED: {name}");
        totals.failed += 1;
        totals.failures.push(format!("FAILED: {name}"));
    }
}

/// Our own check always; cargo-deny and cargo-audit take longer to build than the rest of the set-up together, so they
/// are used when they are there.
fn check_dependencies(totals: &mut Totals, args: &Args) -> Result<()> {
    println!("== dependencies");
    match dependencies::violations() {
        Ok(found) if found.is_empty() => totals.passed += 1,
        Ok(found) => {
            println!("FAILED: dependency policy\n{}", found.join("\n"));
            totals.failed += 1;
        }
        Err(error) => {
            println!("FAILED: dependency policy: {error:#}");
            totals.failed += 1;
        }
    }
    check_advisories(totals)?;
    let installed = Command::new("cargo-deny")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if installed {
        // Advisories need the network and change without us; they are not part of this run.
        check(totals, "cargo-deny", cargo(&["deny", "check", "bans", "licenses", "sources"]));
    } else if args.deny {
        bail!("cargo-deny is not installed: `cargo install --locked cargo-deny`");
    } else {
        println!("SKIPPED: cargo-deny (not installed; the same policy was checked above)");
        totals.skipped += 1;
    }
    Ok(())
}

fn check_advisories(totals: &mut Totals) -> Result<()> {
    match dependencies::advisories()? {
        Advisories::Skipped(why) => {
            println!("SKIPPED: advisories ({why})");
            totals.skipped += 1;
        }
        Advisories::Checked(found) => {
            let (bad, notices): (Vec<_>, Vec<_>) =
                found.into_iter().partition(|advisory| advisory.severity == Severity::Vulnerability);
            notices.iter().for_each(|notice| println!("notice: {} {}", notice.package, notice.id));
            bad.iter().for_each(|advisory| println!("FAILED: {} {}", advisory.package, advisory.id));
            if bad.is_empty() { totals.passed += 1 } else { totals.failed += 1 }
        }
    }
    Ok(())
}

fn run_tests(totals: &mut Totals, tools: &std::path::Path) -> Result<()> {
    println!("== tests");
    let mut child = cargo(&["test", "--workspace", "--locked", "--no-fail-fast"])
        .env(TOOLS_ENV, tools)
        .env(BINARY_ENV, target_dir().join("debug/bailiwick"))
        .stdout(Stdio::piped())
        .spawn()
        .context("running cargo test")?;
    let stdout = child.stdout.take().context("invariant: stdout is piped")?;
    let failed_before = totals.failed;
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        totals.add_line(&line);
    }
    // A test program that did not compile or died has no result line of its own.
    if !child.wait()?.success() && totals.failed == failed_before {
        println!("FAILED: cargo test");
        totals.failed += 1;
    }
    Ok(())
}

impl Totals {
    /// Counts `test result: ok. 3 passed; 0 failed; 1 ignored; …`, and `SKIPPED: name` of tests whose data is absent.
    fn add_line(&mut self, line: &str) {
        if line.trim_start().starts_with("SKIPPED: ") {
            self.skipped += 1;
        }
        self.keep_failure(line);
        let Some(result) = line.strip_prefix("test result: ") else { return };
        let count = |unit: &str| {
            result
                .split([';', '.'])
                .find_map(|part| part.trim().strip_suffix(unit)?.trim().parse::<u64>().ok())
                .unwrap_or(0)
        };
        self.passed += count("passed");
        self.failed += count("failed");
        self.skipped += count("ignored");
    }

    /// Keeps `test name ... FAILED`, `---- name stdout ----` and the lines after the latter.
    fn keep_failure(&mut self, line: &str) {
        if line.starts_with("---- ") {
            self.keep = KEPT_LINES;
        } else if line == "failures:" || line.starts_with("test result: ") {
            self.keep = 0;
        }
        if self.keep > 0 || (line.starts_with("test ") && line.ends_with(" FAILED")) {
            self.keep = self.keep.saturating_sub(1);
            self.failures.push(line.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_lines_and_named_skips_are_summed() {
        let mut totals = Totals::default();
        for line in [
            "running 3 tests",
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s",
            "SKIPPED: reads_the_shared_data (/work/shared is absent)",
            "test result: FAILED. 2 passed; 4 failed; 0 ignored; 0 measured; 0 filtered out",
        ] {
            totals.add_line(line);
        }
        assert_eq!(totals, Totals { passed: 5, failed: 4, skipped: 2, ..Totals::default() });
    }

    #[test]
    fn what_a_failed_test_said_is_kept_for_the_end() {
        let mut totals = Totals::default();
        let lines = ["test a ... ok", "test b ... FAILED", "", "---- b stdout ----", "left: 1", "failures:", "    b"];
        lines.iter().for_each(|line| totals.add_line(line));
        assert_eq!(totals.failures, ["test b ... FAILED", "---- b stdout ----", "left: 1"]);
    }
}
