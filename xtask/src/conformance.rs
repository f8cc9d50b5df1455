//! The differential suite: the same requests to kube-apiserver and to us, the answers compared after masking what must
//! differ. By default upstream's answers are the recorded ones, so that running it needs no kube-apiserver.

pub(crate) mod case;
mod compatibility;
mod conversions;
mod definition;
pub(crate) mod diff;
pub(crate) mod exchange;
pub(crate) mod generated;
mod golden;
mod hook_server;
pub(crate) mod mask;
mod select;
pub(crate) mod servers;
pub(crate) mod template;
mod webhooks;
mod wire;

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};

use crate::tools::repository_root;
use crate::{e2e, test_cmd};
use case::{Case, Controllers, Suite};
use exchange::{Answer, Server};

/// Cases under way at once. Each has its own namespace; most of the time is spent in bounded watches.
const CONCURRENCY: usize = 8;

/// How to run the suite.
#[derive(clap::Args, Default)]
pub struct Args {
    /// Start kube-apiserver and record its answers under conformance/golden.
    #[arg(long, conflicts_with = "live")]
    pub record: bool,
    /// Start kube-apiserver as well and compare with its answers instead of the recorded ones.
    #[arg(long)]
    pub live: bool,
    /// Run only the cases whose `subject: name` contains this text.
    #[arg(long, default_value = "")]
    pub filter: String,
    /// Use this bailiwick program instead of building it.
    #[arg(long)]
    pub bailiwick: Option<PathBuf>,
    /// Write docs/COMPATIBILITY.md from the cases that are marked as differing, and stop.
    #[arg(long)]
    pub docs: bool,
    /// Start kube-apiserver and send this many random scripts of applies and updates to both servers; with --record, record
    /// digests of its answers to as many scripts, which then are part of every run.
    #[arg(long, value_name = "SCRIPTS")]
    pub generated: Option<usize>,
    /// What the random scripts are made from.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Run the specs of Kubernetes' own end-to-end suite that need no nodes, and compare with conformance/e2e.txt.
    #[arg(long, conflicts_with_all = ["record", "live", "docs", "generated"])]
    pub e2e: bool,
    /// Run the functions of Kubernetes' own kubectl shell suites (test/cmd), and compare with conformance/test-cmd.txt.
    #[arg(long, conflicts_with_all = ["record", "live", "docs", "generated", "e2e"])]
    pub cmd: bool,
    /// With --e2e or --cmd: also run what is expected to fail.
    #[arg(long)]
    pub all: bool,
    /// With --e2e: judge upstream's sample of a control plane without workloads, with kube-controller-manager, instead of ours.
    #[arg(long, requires = "e2e")]
    pub reference: bool,
}

/// One case's outcome.
pub struct Outcome {
    /// `subject: name`.
    pub name: String,
    /// What is wrong; empty when the case passed.
    pub problems: Vec<String>,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<()> {
    if args.e2e {
        return e2e::run(&e2e::Args {
            filter: args.filter.clone(),
            all: args.all,
            bailiwick: args.bailiwick.clone(),
            reference: args.reference,
        });
    }
    if args.cmd {
        return test_cmd::run(&test_cmd::Args {
            filter: args.filter.clone(),
            all: args.all,
            bailiwick: args.bailiwick.clone(),
        });
    }
    let suites = load()?;
    if args.docs {
        return compatibility::write(&suites);
    }
    if let Some(count) = args.generated {
        return if args.record { generated::record(count) } else { generated::run(count, args) };
    }
    if args.record {
        return record(&suites, &args.filter);
    }
    let outcomes = compare(args)?;
    let failed = report(&outcomes);
    if failed > 0 {
        bail!("{failed} of {} cases differ", outcomes.len());
    }
    Ok(())
}

/// Starts upstream's server, with kube-controller-manager where controllers run.
pub(crate) fn start_peer(controllers: Controllers) -> Result<servers::Running> {
    match controllers {
        Controllers::Off => servers::start_kube_apiserver(),
        Controllers::Run => servers::start_kubernetes(servers::Pace::Default),
    }
}

/// Starts our server, runs the cases and compares. The order of outcomes is that of the files, those that need controllers
/// last.
pub fn compare(args: &Args) -> Result<Vec<Outcome>> {
    let suites = load()?;
    let binary = match &args.bailiwick {
        Some(path) => path.clone(),
        None => servers::build_bailiwick()?,
    };
    let mut outcomes = Vec::new();
    for controllers in [Controllers::Off, Controllers::Run] {
        let selected: Vec<(&Suite, &Case)> = select_cases(&suites, &args.filter)
            .into_iter()
            .filter(|(suite, _)| suite.controllers == controllers)
            .collect();
        if selected.is_empty() {
            continue;
        }
        let ours = match controllers {
            Controllers::Off => servers::start_bailiwick(&binary)?,
            Controllers::Run => servers::start_control_plane(&binary, &[])?,
        };
        let theirs = if args.live { Some(start_peer(controllers)?) } else { None };
        let got = answers(&ours.server, &selected);
        let expected = match &theirs {
            Some(peer) => answers(&peer.server, &selected),
            None => recorded(&suites, &selected)?,
        };
        let judged = selected.iter().zip(got).zip(expected);
        outcomes.extend(judged.map(|(((suite, case), got), expected)| Outcome {
            name: format!("{}: {}", suite.subject, case.name),
            problems: judge(case, expected, got),
        }));
    }
    outcomes.extend(generated::replay(&binary, &args.filter)?);
    if args.filter.is_empty() {
        outcomes.push(compatibility::is_current(&suites));
    }
    Ok(outcomes)
}

/// Prints every difference and the totals; returns how many cases failed.
pub fn report(outcomes: &[Outcome]) -> usize {
    for outcome in outcomes.iter().filter(|outcome| !outcome.problems.is_empty()) {
        println!("--- {}", outcome.name);
        outcome.problems.iter().for_each(|problem| println!("    {problem}"));
    }
    let failed = outcomes.iter().filter(|outcome| !outcome.problems.is_empty()).count();
    println!("compared: {} equal, {failed} different", outcomes.len() - failed);
    failed
}

/// Behaves as a test program for `cargo test`: takes a filter, names each case, ends with the usual result line.
pub fn report_as_tests(run: impl FnOnce(String) -> Result<Vec<Outcome>>) -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        return Ok(());
    }
    let filter = arguments.iter().find(|argument| !argument.starts_with('-')).cloned().unwrap_or_default();
    let outcomes = run(filter)?;
    println!("\nrunning {} tests", outcomes.len());
    for outcome in &outcomes {
        let verdict = if outcome.problems.is_empty() { "ok" } else { "FAILED" };
        println!("test {} ... {verdict}", outcome.name);
    }
    let failed = report(&outcomes);
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    let passed = outcomes.len() - failed;
    println!("\ntest result: {verdict}. {passed} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out\n");
    std::process::exit(i32::from(failed > 0));
}

fn cases_dir() -> PathBuf {
    repository_root().join("conformance/cases")
}

fn golden_dir() -> PathBuf {
    repository_root().join("conformance/golden")
}

fn load() -> Result<Vec<Suite>> {
    case::load(&cases_dir())
}

fn select_cases<'a>(suites: &'a [Suite], filter: &str) -> Vec<(&'a Suite, &'a Case)> {
    suites
        .iter()
        .flat_map(|suite| suite.cases.iter().map(move |case| (suite, case)))
        .filter(|(suite, case)| format!("{}: {}", suite.subject, case.name).contains(filter))
        .collect()
}

/// Runs the cases on one server, several at a time; the answers are in the order of the cases.
fn answers(server: &Server, cases: &[(&Suite, &Case)]) -> Vec<Result<Vec<Answer>>> {
    let next = AtomicUsize::new(0);
    let collected = Mutex::new(Vec::with_capacity(cases.len()));
    std::thread::scope(|scope| {
        for _ in 0..CONCURRENCY {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some((suite, case)) = cases.get(index) else { break };
                    let answers = server.run(&suite.subject, case);
                    collected.lock().unwrap_or_else(PoisonError::into_inner).push((index, answers));
                }
            });
        }
    });
    let mut collected = collected.into_inner().unwrap_or_else(PoisonError::into_inner);
    collected.sort_by_key(|(index, _)| *index);
    collected.into_iter().map(|(_, answers)| answers).collect()
}

fn recorded(suites: &[Suite], cases: &[(&Suite, &Case)]) -> Result<Vec<Result<Vec<Answer>>>> {
    let mut by_subject = std::collections::BTreeMap::new();
    for suite in suites {
        by_subject.insert(suite.subject.as_str(), golden::read(&golden_dir(), &suite.subject)?);
    }
    Ok(cases
        .iter()
        .map(|(suite, case)| {
            let recording = by_subject.get(suite.subject.as_str()).and_then(|golden| golden.get(&case.name));
            recording.cloned().context("no recorded answer: run `cargo xtask conformance --record`")
        })
        .collect())
}

fn judge(case: &Case, expected: Result<Vec<Answer>>, got: Result<Vec<Answer>>) -> Vec<String> {
    let (expected, got) = match (expected, got) {
        (Ok(expected), Ok(got)) => (expected, got),
        (Err(error), _) => return vec![format!("upstream: {error:#}")],
        // A script that breaks off is a difference as well: a later request needed an earlier answer.
        (_, Err(_)) if case.differs.is_some() => return vec![],
        (_, Err(error)) => return vec![format!("{error:#}")],
    };
    let mut problems = Vec::new();
    if expected.len() != got.len() {
        problems.push(format!("{} recorded answers for {} requests: record again", expected.len(), got.len()));
    }
    for (step, (expected, got)) in expected.iter().zip(&got).enumerate() {
        let request = case.steps.get(step).and_then(|step| step.get("request")).and_then(|text| text.as_str());
        let lines = diff::differences(expected, got);
        if !lines.is_empty() {
            problems.push(format!("[{}] {}", step + 1, request.unwrap_or_default()));
            problems.extend(lines.into_iter().map(|line| format!("    {line}")));
        }
    }
    match (&case.differs, problems.is_empty()) {
        (Some(_), true) => vec!["is marked as differing, and does not differ any more: remove `differs`".to_owned()],
        (Some(_), false) => vec![],
        (None, _) => problems,
    }
}

fn record(suites: &[Suite], filter: &str) -> Result<()> {
    // Each is started when the first file needs it.
    let (mut plain, mut with_controllers) = (None, None);
    let mut requests = 0;
    let mut broken = Vec::new();
    for suite in suites {
        let cases: Vec<(&Suite, &Case)> = suite.cases.iter().map(|case| (suite, case)).collect();
        if select_cases(std::slice::from_ref(suite), filter).is_empty() {
            continue;
        }
        let slot = match suite.controllers {
            Controllers::Off => &mut plain,
            Controllers::Run => &mut with_controllers,
        };
        let peer = match slot {
            Some(peer) => peer,
            None => slot.insert(start_peer(suite.controllers)?),
        };
        let mut answered = Vec::with_capacity(cases.len());
        for ((_, case), answers) in cases.iter().zip(answers(&peer.server, &cases)) {
            match answers {
                Ok(answers) => {
                    requests += answers.len();
                    answered.push((case.name.as_str(), answers));
                }
                Err(error) => broken.push(format!("{}: {}: {error:#}", suite.subject, case.name)),
            }
        }
        golden::write(&golden_dir(), &suite.subject, answered.iter().map(|(name, answers)| (*name, &answers[..])))?;
    }
    println!("recorded {requests} answers");
    if !broken.is_empty() {
        bail!("these cases do not work as written:\n{}", broken.join("\n"));
    }
    Ok(())
}
