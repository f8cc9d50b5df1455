//! `cargo xtask test`: every check of the repository in one command, for people and for CI. It ends with one plain line of
//! totals, and what is skipped is skipped by name.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use bailiwick_skip::Skipped;

use crate::conformance::servers::BINARY_ENV;
use crate::dependencies::{self, Advisories, Severity};
use crate::setup;
use crate::tools::{TOOLS_ENV, repository_root, tools_dir};

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
    /// What did not run, by name and with the reason.
    skipped: Vec<String>,
    failures: Vec<String>,
    /// Names of tests that their harness calls passed; those that skipped themselves are among them.
    passed_names: BTreeSet<String>,
    /// Lines of the failure being read that are still kept.
    keep: usize,
}

/// Lines kept of what one failed test printed.
const KEPT_LINES: usize = 25;

/// Runs everything; an error when anything failed.
pub fn run(args: &Args) -> Result<()> {
    let tools = tools_dir()?;
    setup::install_for_tests(&tools)?;
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
    if !totals.skipped.is_empty() {
        println!("== what was skipped\n{}\n", totals.skipped.join("\n"));
    }
    println!("{} passed, {} failed, {} skipped", totals.passed, totals.failed, totals.skipped.len());
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
        totals.skip("cargo-deny (not installed; the same policy was checked above)".to_owned());
    }
    Ok(())
}

fn check_advisories(totals: &mut Totals) -> Result<()> {
    let Advisories { found, database } = dependencies::advisories()?;
    println!("advisories: {database}");
    let (bad, notices): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|advisory| advisory.severity == Severity::Vulnerability);
    notices.iter().for_each(|notice| println!("notice: {} {}", notice.package, notice.id));
    bad.iter().for_each(|advisory| println!("FAILED: {} {}", advisory.package, advisory.id));
    if bad.is_empty() {
        totals.passed += 1
    } else {
        totals.failed += 1
    }
    Ok(())
}

fn run_tests(totals: &mut Totals, tools: &std::path::Path) -> Result<()> {
    println!("== tests");
    let directory = tempfile::tempdir()?;
    let skipped = directory.path().join("skipped");
    let mut child = cargo(&["test", "--workspace", "--locked", "--no-fail-fast"])
        .env(TOOLS_ENV, tools)
        .env(BINARY_ENV, target_dir().join("debug/bailiwick"))
        .env(bailiwick_skip::FILE_ENV, &skipped)
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
    bailiwick_skip::read(&skipped)?.iter().for_each(|skipped| totals.add_skipped(skipped));
    Ok(())
}

impl Totals {
    fn skip(&mut self, what: String) {
        println!("SKIPPED: {what}");
        self.skipped.push(what);
    }

    /// A test that left without running has passed for its harness, but not for us.
    fn add_skipped(&mut self, skipped: &Skipped) {
        if self.passed_names.remove(&skipped.test) {
            self.passed -= 1;
        }
        self.skipped.push(skipped.to_string());
    }

    /// Counts `test result: ok. 3 passed; 0 failed; 1 ignored; …`, and remembers who passed and who is ignored.
    fn add_line(&mut self, line: &str) {
        self.keep_failure(line);
        if let Some((name, verdict)) = line.strip_prefix("test ").and_then(|test| test.split_once(" ... ")) {
            match verdict.split(',').next() {
                Some("ok") => drop(self.passed_names.insert(name.to_owned())),
                Some("ignored") => self.skipped.push(format!("{name} ({verdict})")),
                _ => {}
            }
        }
        let Some(result) = line.strip_prefix("test result: ") else { return };
        let count = |unit: &str| {
            result
                .split([';', '.'])
                .find_map(|part| part.trim().strip_suffix(unit)?.trim().parse::<u64>().ok())
                .unwrap_or(0)
        };
        self.passed += count("passed");
        self.failed += count("failed");
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

    fn skipped(test: &str, why: &str) -> Skipped {
        Skipped { program: "it".to_owned(), test: test.to_owned(), why: why.to_owned() }
    }

    #[test]
    fn result_lines_are_summed_and_what_did_not_run_is_listed_by_name() {
        let mut totals = Totals::default();
        for line in [
            "running 3 tests",
            "test a::reads_the_shared_data ... ok",
            "test a::slow ... ignored, takes an hour",
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s",
            "test result: FAILED. 2 passed; 4 failed; 0 ignored; 0 measured; 0 filtered out",
        ] {
            totals.add_line(line);
        }
        // The first is among those that passed; of the others no harness has heard.
        totals.add_skipped(&skipped("a::reads_the_shared_data", "/work/shared is absent"));
        totals.add_skipped(&skipped("", "no right to mount"));
        assert_eq!((totals.passed, totals.failed), (4, 4));
        let expected = [
            "a::slow (ignored, takes an hour)",
            "it: a::reads_the_shared_data (/work/shared is absent)",
            "it (no right to mount)",
        ];
        assert_eq!(totals.skipped, expected);
    }

    /// The way from a test of another process to the summary: this test program runs itself with a test that skips.
    #[test]
    fn a_test_that_skips_itself_reaches_the_summary_past_cargos_capture() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("skipped");
        let name = "test_run::tests::skips_itself_when_asked_to";
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name])
            .env(bailiwick_skip::FILE_ENV, &file)
            .env("SKIP_YOURSELF", "1")
            .output()
            .unwrap();
        let mut totals = Totals::default();
        String::from_utf8(output.stdout).unwrap().lines().for_each(|line| totals.add_line(line));
        assert_eq!(totals.passed, 1, "the harness calls it passed");
        bailiwick_skip::read(&file).unwrap().iter().for_each(|skipped| totals.add_skipped(skipped));
        assert_eq!((totals.passed, totals.skipped), (0, vec![format!("xtask: {name} (asked to)")]));
    }

    #[test]
    fn skips_itself_when_asked_to() {
        if std::env::var_os("SKIP_YOURSELF").is_some() {
            bailiwick_skip::skip("asked to");
        }
    }

    #[test]
    fn what_a_failed_test_said_is_kept_for_the_end() {
        let mut totals = Totals::default();
        let lines = ["test a ... ok", "test b ... FAILED", "", "---- b stdout ----", "left: 1", "failures:", "    b"];
        lines.iter().for_each(|line| totals.add_line(line));
        assert_eq!(totals.failures, ["test b ... FAILED", "---- b stdout ----", "left: 1"]);
    }
}
