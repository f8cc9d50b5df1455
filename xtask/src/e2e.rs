//! `cargo xtask conformance --e2e`: the specs of Kubernetes' own end-to-end suite that need no nodes, run against our server
//! through a kubeconfig. `conformance/e2e.txt` says of each spec what is expected and why; a spec that does worse than
//! that fails the run, and so does one that does better, until the file says so.

mod suite;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Result, bail};

use crate::conformance::servers::{self, Running};
use crate::expectations::{self, Expectation, Expected};
use crate::setup;
use crate::tools::{self, repository_root, tools_dir};
use suite::{Ran, Suite};

/// Programs of the suite at once. Specs wait most of the time, for polls of seconds.
const PROCESSES: usize = 4;
/// Specs that must have the server to themselves say so in their name.
const SERIAL: &str = "[Serial]";

/// How to run it.
#[derive(Default)]
pub struct Args {
    /// Run only the specs whose name contains this text.
    pub filter: String,
    /// Also run the specs that are expected to fail.
    pub all: bool,
    /// Use this bailiwick program instead of building it.
    pub bailiwick: Option<PathBuf>,
    /// Judge upstream's sample of a control plane without workloads instead of ours.
    pub reference: bool,
}

/// Runs the specs and prints what became of them; an error when that is not what was expected.
pub fn run(args: &Args) -> Result<()> {
    let directory = tools_dir()?;
    setup::install(tools::TEST_TOOLS, &directory)?;
    setup::install(tools::E2E_TOOLS, &directory)?;
    let expectations = expectations::read(&repository_root().join("conformance/e2e.txt"))?;
    let chosen: Vec<&Expectation> = expectations
        .iter()
        .filter(|spec| spec.name.contains(&args.filter))
        .filter(|spec| match spec.expected {
            Expected::Pass => true,
            Expected::Fail => args.all,
            Expected::Unrunnable => false,
        })
        .collect();
    if chosen.is_empty() {
        bail!("no spec in conformance/e2e.txt contains {:?} (those expected to fail need --all)", args.filter);
    }
    let started = Instant::now();
    let ran = run_on(&start(args, &directory)?, &chosen, &directory)?;
    report(&chosen, &ran, started.elapsed().as_secs())
}

fn run_on(running: &Running, specs: &[&Expectation], tools: &Path) -> Result<Vec<Ran>> {
    let suite = Suite::new(tools.join("e2e"), tools.join("kubectl-1.36"), running.kubeconfig())?;
    let (serial, parallel): (Vec<&str>, Vec<&str>) =
        specs.iter().map(|spec| spec.name.as_str()).partition(|name| name.contains(SERIAL));
    let mut ran = suite.run_in_parallel(&parallel, PROCESSES)?;
    if !serial.is_empty() {
        ran.extend(suite.run(&serial, "serial")?);
    }
    Ok(ran)
}

fn start(args: &Args, tools: &Path) -> Result<Running> {
    if args.reference {
        for wanted in [tools::CONTROLLER_TOOLS, tools::REFERENCE_TOOLS] {
            setup::install(wanted, tools)?;
        }
        return servers::start_reference();
    }
    let binary = match &args.bailiwick {
        Some(path) => path.clone(),
        None => servers::build_bailiwick()?,
    };
    servers::start_control_plane(&binary, &[])
}

fn report(chosen: &[&Expectation], ran: &[Ran], seconds: u64) -> Result<()> {
    println!("\n| result | expected | reference | s | spec |\n|---|---|---|---:|---|");
    let (mut passed, mut wrong) = (0, Vec::new());
    for spec in chosen {
        let result = ran.iter().find(|ran| ran.name == spec.name);
        let (state, time) = result.map_or(("not run", 0.0), |ran| (ran.state.as_str(), ran.seconds));
        println!("| {state} | {} | {} | {time:.1} | {} |", spec.expected, spec.reference, spec.name);
        let ok = state == "passed";
        passed += usize::from(ok);
        if ok != (spec.expected == Expected::Pass) {
            wrong.push((spec, state, result.map(|ran| ran.message.as_str()).unwrap_or_default()));
        }
    }
    for (spec, state, message) in &wrong {
        println!("\n--- {} ({state}, expected: {})\n{message}", spec.name, spec.expected);
    }
    let beside = |reference: &str| chosen.iter().filter(|spec| spec.reference == reference).count();
    println!(
        "\n{passed} of {} specs passed in {seconds} s; of the same specs the reference passed {} and failed {}, the others were not tried on it",
        chosen.len(),
        beside("passed"),
        beside("failed"),
    );
    if !wrong.is_empty() {
        bail!("{} specs did not do as conformance/e2e.txt expects", wrong.len());
    }
    Ok(())
}
