//! Real CustomResourceDefinitions of other projects and their sample objects, sent to our server, the answers compared with
//! kube-apiserver's. The recording keeps digests only; `--live` runs both servers and says what differs.

pub(crate) mod digest;
mod session;
mod sources;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, bail};

use crate::conformance::diff::differences;
use crate::conformance::{Outcome, report, servers};
use crate::tools::repository_root;
use digest::Digests;
use session::{Exchange, Session};
use sources::{Collection, Revision};

/// Definitions under way at once: enough to hide the waiting for new types, few enough for two processors.
const CONCURRENCY: usize = 6;

/// How to run the suite.
#[derive(clap::Args, Default)]
pub struct Args {
    /// Start kube-apiserver and record digests of its answers under conformance/golden.
    #[arg(long, conflicts_with = "live")]
    pub record: bool,
    /// Start kube-apiserver as well and print where the answers differ.
    #[arg(long)]
    pub live: bool,
    /// Take only the definitions whose `project: name (file)` contains this text.
    #[arg(long, default_value = "")]
    pub filter: String,
    /// Use this bailiwick program instead of building it.
    #[arg(long)]
    pub bailiwick: Option<PathBuf>,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<()> {
    if args.record {
        return record(args);
    }
    let outcomes = compare(args)?;
    let failed = report(&outcomes);
    if failed > 0 {
        bail!("{failed} of {} definitions differ", outcomes.len());
    }
    Ok(())
}

/// Starts our server, sends everything and compares.
pub fn compare(args: &Args) -> Result<Vec<Outcome>> {
    let collection = collect(args)?;
    let binary = match &args.bailiwick {
        Some(path) => path.clone(),
        None => servers::build_bailiwick()?,
    };
    let ours = servers::start_bailiwick(&binary)?;
    let our_session = Session::new(&ours.server)?;
    if !args.live {
        let recording = digest::read(&golden())?;
        let answered = ask(&our_session, &collection, |_, exchanges| exchanges.map(|all| digests(&all)));
        return Ok(answered
            .into_iter()
            .map(|(title, answers)| {
                let problems = match answers {
                    Ok(answers) => judge(recording.get(&title), &answers),
                    Err(error) => vec![format!("{error:#}")],
                };
                Outcome { problems, name: title }
            })
            .collect());
    }
    let theirs = servers::start_kube_apiserver()?;
    let their_session = Session::new(&theirs.server)?;
    let mut theirs = BTreeMap::new();
    theirs.extend(ask(&their_session, &collection, |_, exchanges| exchanges));
    let theirs = Mutex::new(theirs);
    let judged = ask(&our_session, &collection, |revision, ours| {
        let theirs = theirs.lock().unwrap_or_else(PoisonError::into_inner).remove(&revision.title);
        match (theirs, ours) {
            (Some(Ok(theirs)), Ok(ours)) => live_differences(&theirs, &ours),
            (Some(Err(error)), _) => vec![format!("upstream: {error:#}")],
            (_, Err(error)) => vec![format!("{error:#}")],
            (None, Ok(_)) => vec!["upstream was not asked".to_owned()],
        }
    });
    let outcome = |(name, problems)| Outcome { problems, name };
    Ok(judged.into_iter().map(outcome).collect())
}

fn record(args: &Args) -> Result<()> {
    let collection = collect(args)?;
    let peer = servers::start_kube_apiserver()?;
    let session = Session::new(&peer.server)?;
    // What is not at hand, or left out by the filter, keeps its recording.
    let mut recording = digest::read(&golden())?;
    let mut broken = Vec::new();
    for (title, digests) in ask(&session, &collection, |_, exchanges| exchanges.map(|all| digests(&all))) {
        match digests {
            Ok(digests) => drop(recording.insert(title, digests)),
            Err(error) => broken.push(format!("{title}: {error:#}")),
        }
    }
    digest::write(&golden(), &recording)?;
    println!("recorded {} answers", recording.values().map(Vec::len).sum::<usize>());
    if !broken.is_empty() {
        bail!("no answers about:\n{}", broken.join("\n"));
    }
    Ok(())
}

fn golden() -> PathBuf {
    repository_root().join("conformance/golden/real-crds.jsonl")
}

/// What is at hand. What is not is said by name, and counted by `cargo xtask test`.
fn collect(args: &Args) -> Result<Collection> {
    let collection = sources::collect(&args.filter)?;
    for (name, why) in &collection.skipped {
        bailiwick_skip::skip_named(&format!("real-crds {name}"), why);
    }
    let mut totals: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for revision in collection.by_name.values().flatten() {
        let project = revision.title.split([':', '/']).next().unwrap_or_default();
        let total = totals.entry(project).or_default();
        *total = (total.0 + 1, total.1 + revision.samples.len());
    }
    for (project, (definitions, samples)) in totals {
        println!("{project}: {definitions} definitions, {samples} objects");
    }
    Ok(collection)
}

/// Asks a server about everything, several definitions at a time, and hands each one's answers to `then`. Sorted by title.
fn ask<T: Send>(
    session: &Session<'_>,
    collection: &Collection,
    then: impl Fn(&Revision, Result<Vec<Exchange>>) -> T + Sync,
) -> Vec<(String, T)> {
    let work: Vec<&Vec<Revision>> = collection.by_name.values().collect();
    let next = AtomicUsize::new(0);
    let collected = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..CONCURRENCY {
            scope.spawn(|| {
                while let Some(revisions) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                    for (index, revision) in revisions.iter().enumerate() {
                        let exchanges = session.run(revision).and_then(|exchanges| {
                            if index + 1 < revisions.len() {
                                session.remove(revision)?;
                            }
                            Ok(exchanges)
                        });
                        let result = then(revision, exchanges);
                        let mut collected = collected.lock().unwrap_or_else(PoisonError::into_inner);
                        collected.push((revision.title.clone(), result));
                    }
                }
            });
        }
    });
    let mut collected = collected.into_inner().unwrap_or_else(PoisonError::into_inner);
    collected.sort_by(|(left, _), (right, _)| left.cmp(right));
    collected
}

fn digests(exchanges: &[Exchange]) -> Digests {
    exchanges.iter().map(digest::digest).collect()
}

fn judge(recorded: Option<&Digests>, got: &Digests) -> Vec<String> {
    let Some(recorded) = recorded else {
        return vec!["no recorded answers: run `cargo xtask real-crds --record`".to_owned()];
    };
    let mut problems = Vec::new();
    if recorded.len() != got.len() {
        problems.push(format!("{} recorded answers, {} answers", recorded.len(), got.len()));
    }
    for (expected, got) in recorded.iter().zip(got).filter(|(expected, got)| expected != got) {
        let (was, is) = (expected.status, got.status);
        problems.push(format!("{}: expected status {was}, got {is}; see `cargo xtask real-crds --live`", got.request));
    }
    problems
}

fn live_differences(theirs: &[Exchange], ours: &[Exchange]) -> Vec<String> {
    let mut problems = Vec::new();
    if theirs.len() != ours.len() {
        problems.push(format!("upstream gave {} answers, we {}", theirs.len(), ours.len()));
    }
    for ((request, expected), (_, got)) in theirs.iter().zip(ours) {
        let lines = differences(expected, got);
        if !lines.is_empty() {
            problems.push(request.clone());
            problems.extend(lines.into_iter().map(|line| format!("    {line}")));
        }
    }
    problems
}
