//! The dependency policy of `deny.toml` (licences, bans, sources) and the advisories of RustSec, checked against
//! `Cargo.lock` without other programs: cargo-deny and cargo-audit take longer to build than everything else together.
//! Where they are installed, `cargo xtask test` runs them as well.

mod advisories;
mod licences;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::tools::{repository_root, tools_dir};

pub use advisories::{Advisory, Severity};

/// Names a copy of <https://github.com/rustsec/advisory-db> to check against.
pub const ADVISORY_DB_ENV: &str = "BAILIWICK_ADVISORY_DB";

/// The registry that everything must come from.
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

/// A crate of the build.
#[derive(Clone, Debug, Deserialize)]
pub struct Package {
    pub name: String,
    pub version: String,
    pub license: Option<String>,
    /// None for the workspace's own.
    pub source: Option<String>,
}

/// Crates that must not be in the build: one TLS stack, rustls with ring. As in `deny.toml`.
const BANNED: &[&str] = &["openssl", "openssl-sys", "native-tls", "aws-lc-rs"];

/// What the database says of crates in `Cargo.lock` as of a day, for machines that cannot fetch it.
const SNAPSHOT: &str = include_str!("dependencies/advisories.tsv");

/// What was found out about advisories.
pub struct Advisories {
    pub found: Vec<Advisory>,
    /// Which database was asked.
    pub database: String,
}

/// What to do.
#[derive(clap::Args, Default)]
pub struct Args {
    /// Write the snapshot of the advisories that is used where their database cannot be had.
    #[arg(long)]
    snapshot: bool,
}

/// Checks everything and says what was found; an error if anything breaks the policy.
pub fn run(args: &Args) -> Result<()> {
    if args.snapshot {
        return write_snapshot();
    }
    let mut failed = violations()?;
    let advisories = advisories()?;
    println!("advisories: {}", advisories.database);
    for advisory in advisories.found {
        match &advisory.severity {
            Severity::Vulnerability => failed.push(format!("{}: {}", advisory.package, advisory.id)),
            Severity::Notice(kind) => println!("{}: {} ({kind})", advisory.package, advisory.id),
        }
    }
    if failed.is_empty() {
        println!("dependencies: all is well");
        return Ok(());
    }
    bail!("{}", failed.join("\n"))
}

fn write_snapshot() -> Result<()> {
    let database = database()?;
    let date = Command::new("git").arg("-C").arg(&database).args(["log", "-1", "--format=%cs"]).output()?;
    let date = String::from_utf8(date.stdout)?.trim().to_owned();
    if date.is_empty() {
        bail!("{} is no clone of the database: its date is not known", database.display());
    }
    let packages = packages()?;
    let mut records = advisories::read(&database)?;
    records.retain(|record| packages.iter().any(|package| package.name == record.package));
    let snapshot = advisories::Snapshot { date, records };
    std::fs::write(repository_root().join("xtask/src/dependencies/advisories.tsv"), snapshot.to_text())?;
    println!("{} records as of {}", snapshot.records.len(), snapshot.date);
    Ok(())
}

/// What breaks the policy; nothing if all is well.
pub fn violations() -> Result<Vec<String>> {
    let allowed = licences::allowed(&std::fs::read_to_string(repository_root().join("deny.toml"))?)?;
    let mut found = Vec::new();
    for package in packages()? {
        let shown = format!("{} {}", package.name, package.version);
        match &package.source {
            None => continue,
            Some(source) if source != CRATES_IO => found.push(format!("{shown} comes from {source}")),
            Some(_) => {}
        }
        if BANNED.contains(&package.name.as_str()) {
            found.push(format!("{shown} is banned"));
        }
        match &package.license {
            None => found.push(format!("{shown} names no licence")),
            Some(licence) if !licences::satisfied(licence, &allowed) => {
                found.push(format!("{shown} is under {licence}"))
            }
            Some(_) => {}
        }
    }
    Ok(found)
}

/// The advisories about crates in `Cargo.lock`, from a database that is there or can be fetched, else from the snapshot.
pub fn advisories() -> Result<Advisories> {
    let packages = packages()?;
    match database() {
        Ok(database) => {
            let found = advisories::about(&packages, &advisories::read(&database)?)?;
            Ok(Advisories { found, database: database.display().to_string() })
        }
        Err(error) => {
            let snapshot = advisories::Snapshot::parse(SNAPSHOT)?;
            let found = advisories::about(&packages, &snapshot.records)?;
            Ok(Advisories { found, database: format!("our snapshot of {} ({error:#})", snapshot.date) })
        }
    }
}

fn packages() -> Result<Vec<Package>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(repository_root())
        .args(["metadata", "--format-version", "1", "--locked"])
        .output()
        .context("running cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(serde_json::from_slice::<Metadata>(&output.stdout)?.packages)
}

/// Where the advisories are: named by the environment, else fetched into the tools directory and brought up to date.
fn database() -> Result<PathBuf> {
    if let Some(given) = std::env::var_os(ADVISORY_DB_ENV).filter(|dir| !dir.is_empty()) {
        return Ok(PathBuf::from(given));
    }
    let dir = tools_dir()?.join("advisory-db");
    let git = |args: &[&str]| -> Result<()> {
        // A machine without a way to GitHub should notice soon.
        let slow = ["-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=10"];
        let output = Command::new("git").args(slow).args(args).env("GIT_TERMINAL_PROMPT", "0").output()?;
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr).trim().lines().last().unwrap_or_default().to_owned());
        }
        Ok(())
    };
    let at = dir.to_string_lossy().into_owned();
    if dir.join("crates").is_dir() {
        // An older copy is better than none.
        let _ = git(&["-C", &at, "pull", "--quiet", "--ff-only"]);
        return Ok(dir);
    }
    git(&["clone", "--quiet", "--depth", "1", "https://github.com/rustsec/advisory-db", &at])
        .context("the database of RustSec cannot be fetched")?;
    Ok(dir)
}
