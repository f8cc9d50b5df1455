//! `cargo xtask beside-opm`: thousands of mutated catalogs and templates, given to us and to the real opm, in one run that
//! ends with how many agree.

use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::tools;

#[derive(clap::Args)]
pub struct Args {
    /// How many catalogs for each of validate, list and render, and how many templates of each of the three kinds.
    #[arg(long, default_value_t = 3000)]
    cases: u64,
    /// Which ones: the same seed makes the same cases.
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// Only the comparisons whose names contain this, such as `validate`, `lists`, `semver`.
    #[arg(long)]
    only: Option<String>,
}

pub fn run(args: &Args) -> Result<()> {
    tools::require("opm")?;
    let filter = args.only.as_deref().unwrap_or("differential");
    // The cases are made and judged by the tests of the catalog; by the workspace, so that nothing is built twice.
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["test", "--workspace", "--locked", "--test", "it", "--", filter, "--nocapture", "--test-threads=1"])
        .env("CATALOG_CASES", args.cases.to_string())
        .env("CATALOG_SEED", args.seed.to_string())
        .status()
        .context("cargo")?;
    if !status.success() {
        bail!("we and opm differ; each difference is shown above, with the command that repeats it");
    }
    Ok(())
}
