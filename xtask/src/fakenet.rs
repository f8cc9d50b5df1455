//! `cargo xtask fakenet`: runs a command on the fake internet, so that anyone can try the DNS tools without a network and see
//! every fault that they explain.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use bailiwick_fakenet::{Bed, namespace};

use crate::test_run::target_dir;
use crate::tools::repository_root;

/// Where the roots file is, for the command.
const ROOTS_ENV: &str = "BAILIWICK_DNS_ROOTS";

/// What to run.
#[derive(clap::Args)]
pub struct Args {
    /// Use the release build of bailiwick.
    #[arg(long)]
    release: bool,
    /// The command, such as `bailiwick dns trace good.com`; a shell when absent.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// Builds bailiwick, enters the namespace, brings the fake internet up and runs the command.
pub fn run(args: &Args) -> Result<()> {
    if namespace::is_inside() {
        return inside(args);
    }
    if let Some(reason) = bailiwick_fakenet::missing() {
        bail!("the fake internet cannot be brought up: {reason}");
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.current_dir(repository_root()).args(["build", "--quiet", "--package", "bailiwick"]);
    if args.release {
        build.arg("--release");
    }
    ensure!(build.status().context("running cargo")?.success(), "bailiwick does not build");
    let mut command = namespace::command(std::env::current_exe()?);
    command.arg("fakenet");
    if args.release {
        command.arg("--release");
    }
    // Only returns when it fails.
    Err(command.arg("--").args(&args.command).exec()).context("running unshare")
}

fn inside(args: &Args) -> Result<()> {
    let bed = Bed::up()?;
    let shell = std::env::var("SHELL").unwrap_or_else(|_| "sh".to_owned());
    let (program, arguments) = match args.command.split_first() {
        Some((program, arguments)) => (program.clone(), arguments.to_vec()),
        None => {
            println!("You are on the fake internet. Try: bailiwick dns trace good.com");
            (shell, Vec::new())
        }
    };
    let binaries = target_dir().join(if args.release { "release" } else { "debug" });
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(binaries).chain(std::env::split_paths(&path)))?;
    let status = Command::new(resolve(&program, &path))
        .args(arguments)
        .env("PATH", &path)
        .env(ROOTS_ENV, bed.roots_file())
        .status()
        .with_context(|| format!("running {program}"))?;
    drop(bed);
    std::process::exit(status.code().unwrap_or(1));
}

/// The first program of that name in our own path; the lookup of `Command` would use the parent's.
fn resolve(program: &str, path: &std::ffi::OsStr) -> PathBuf {
    let candidates = std::env::split_paths(path).map(|directory| directory.join(program));
    candidates.into_iter().find(|candidate| candidate.is_file()).unwrap_or_else(|| PathBuf::from(program))
}
