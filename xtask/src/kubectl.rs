//! The command-line suite: scripts of real kubectl commands (three minors) run against our server, their output compared with
//! what the same kubectl printed against kube-apiserver. Recordings are under `conformance/kubectl`, beside the scripts.

mod script;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};

use crate::conformance::case::Controllers;
use crate::conformance::servers::{self, Running};
use crate::conformance::{Outcome, report, start_peer};
use crate::tools::{repository_root, require};
use script::{Output, Script};

/// The current minor and the two before it, as their programs are named in the tools directory.
const VERSIONS: [&str; 3] = ["kubectl-1.36", "kubectl-1.35", "kubectl-1.34"];
/// kubectl is a large program; more at once only fight for the processor.
const CONCURRENCY: usize = 4;

/// How to run the suite.
#[derive(clap::Args, Default)]
pub struct Args {
    /// Start kube-apiserver and record what kubectl prints against it.
    #[arg(long)]
    pub record: bool,
    /// Run only the scripts whose `version: name` contains this text.
    #[arg(long, default_value = "")]
    pub filter: String,
    /// Use this bailiwick program instead of building it.
    #[arg(long)]
    pub bailiwick: Option<PathBuf>,
}

type Recording = BTreeMap<String, Vec<Output>>;

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<()> {
    if args.record {
        return record(args);
    }
    let outcomes = compare(args)?;
    let failed = report(&outcomes);
    if failed > 0 {
        bail!("{failed} of {} scripts differ", outcomes.len());
    }
    Ok(())
}

/// Starts our server, runs the scripts with every kubectl and compares with the recordings.
pub fn compare(args: &Args) -> Result<Vec<Outcome>> {
    let binary = match &args.bailiwick {
        Some(path) => path.clone(),
        None => servers::build_bailiwick()?,
    };
    let mut recordings = BTreeMap::new();
    for version in VERSIONS {
        recordings.insert(version, read_recording(version)?);
    }
    let scripts = script::load(&directory().join("scripts.yaml"))?;
    let start = |controllers| match controllers {
        Controllers::Off => servers::start_bailiwick(&binary),
        Controllers::Run => servers::start_control_plane(&binary, &[]),
    };
    let outcomes = run_all(start, &scripts, &args.filter)?.into_iter().map(|(version, script, outputs)| {
        let recorded = recordings.get(version).and_then(|recording| recording.get(&script.name));
        Outcome { name: format!("{version}: {}", script.name), problems: judge(script, recorded, outputs) }
    });
    Ok(outcomes.collect())
}

/// The scripts that are marked as differing, with their reasons.
pub(crate) fn differing() -> Result<Vec<(String, String)>> {
    let scripts = script::load(&directory().join("scripts.yaml"))?;
    Ok(scripts.into_iter().filter_map(|script| Some((script.name, script.differs?))).collect())
}

fn judge(script: &Script, recorded: Option<&Vec<Output>>, outputs: Result<Vec<Output>>) -> Vec<String> {
    let (Some(recorded), outputs) = (recorded, outputs) else {
        return vec!["no recorded output: run `cargo xtask kubectl --record`".to_owned()];
    };
    let outputs = match outputs {
        Ok(outputs) => outputs,
        Err(error) => return vec![format!("{error:#}")],
    };
    let mut problems = Vec::new();
    if recorded.len() != outputs.len() {
        problems.push("the script has changed: record again".to_owned());
    }
    for (expected, got) in recorded.iter().zip(&outputs).filter(|(expected, got)| expected != got) {
        problems.push(format!("$ {}", got.command));
        problems.extend(expected.differences(got));
    }
    match (&script.differs, problems.is_empty()) {
        (Some(_), true) => vec!["is marked as differing, and does not differ any more: remove `differs`".to_owned()],
        (Some(_), false) => vec![],
        (None, _) => problems,
    }
}

type Ran<'a> = (&'static str, &'a Script, Result<Vec<Output>>);

/// Every script with every version, in order of version and script, those that need controllers last. A server is started
/// for each kind that there are scripts for.
fn run_all<'a>(
    start: impl Fn(Controllers) -> Result<Running>,
    scripts: &'a [Script],
    filter: &str,
) -> Result<Vec<Ran<'a>>> {
    let mut ran = Vec::new();
    for controllers in [Controllers::Off, Controllers::Run] {
        let mut work = Vec::new();
        for version in VERSIONS {
            let program = require(version)?;
            let selected = |script: &&Script| {
                script.controllers == controllers && format!("{version}: {}", script.name).contains(filter)
            };
            work.extend(scripts.iter().filter(selected).map(|script| (version, program.clone(), script)));
        }
        if !work.is_empty() {
            ran.extend(run_on(&start(controllers)?, &work));
        }
    }
    Ok(ran)
}

fn run_on<'a>(server: &Running, work: &[(&'static str, PathBuf, &'a Script)]) -> Vec<Ran<'a>> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(work.len()));
    std::thread::scope(|scope| {
        for _ in 0..CONCURRENCY {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some((version, program, script)) = work.get(index) else { break };
                    let outputs = script.run(version, program, server.server.base());
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((index, (*version, *script, outputs)));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, ran)| ran).collect()
}

fn directory() -> PathBuf {
    repository_root().join("conformance/kubectl")
}

fn read_recording(version: &str) -> Result<Recording> {
    let path = directory().join(format!("{version}.json"));
    if !path.exists() {
        return Ok(Recording::new());
    }
    serde_json::from_str(&std::fs::read_to_string(&path)?).with_context(|| format!("reading {}", path.display()))
}

fn record(args: &Args) -> Result<()> {
    let scripts = script::load(&directory().join("scripts.yaml"))?;
    // With a filter, what it leaves out keeps its recording.
    let mut recordings: BTreeMap<&str, Recording> = BTreeMap::new();
    for version in VERSIONS {
        let mut recording = read_recording(version)?;
        recording.retain(|name, _| scripts.iter().any(|script| script.name == *name));
        recordings.insert(version, recording);
    }
    for (version, script, outputs) in run_all(start_peer, &scripts, &args.filter)? {
        let outputs = outputs.with_context(|| format!("{version}: {}", script.name))?;
        recordings.entry(version).or_default().insert(script.name.clone(), outputs);
    }
    for (version, recording) in recordings {
        let mut text = serde_json::to_string_pretty(&recording)?;
        text.push('\n');
        std::fs::write(directory().join(format!("{version}.json")), text)?;
        println!("recorded {} scripts with {version}", recording.len());
    }
    Ok(())
}
