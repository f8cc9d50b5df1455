//! `cargo xtask bench --domains`: the DNS engine on the fake internet with real packets and real name servers: how many domains
//! an hour it watches on one core, how long an analysis from ten places takes, how soon a proof is noticed, and what a
//! question costs beside dnsperf.

mod objects;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bailiwick_fakenet::{Bed, Crowd, Programs, namespace};
use clap::ValueEnum;
use serde_json::{Value, json};

use crate::conformance::servers;
use crate::test_run::target_dir;
use crate::tools::repository_root;

/// Looks that are on their way at once: each waits for servers most of the time.
const AT_ONCE: usize = 400;
/// One domain in so many is signed, as below `com`.
const SIGNED_ONE_IN: usize = 20;
/// Domains for each second of the measurement, so that a short one does not spend its time on setting up.
const DOMAINS_PER_SECOND: usize = 40;
const DOMAINS_MAX: usize = 20_000;
const DOMAINS_MIN: usize = objects::BATCH;
/// The names that are analysed: healthy ones, and the faults that people meet.
const ANALYSED: &[&str] = &[
    "www.good.com",
    "good.com",
    "shop.good.com",
    "x.apps.good.com",
    "a.legacy.good.com",
    "status.good.com",
    "q7.io",
    "www.plain.com",
    "geo.com",
    "www.stale.com",
    "lame.com",
    "silent.com",
    "closed.com",
    "upward.com",
    "noedns.com",
    "formerr.com",
    "slow.com",
    "expired.com",
    "mismatch.com",
    "down.com",
];
/// The server that both senders ask, and for what.
const ASKED_SERVER: &str = "205.251.192.1";
const ASKED: &[&str] = &["good.com", "shop.good.com", "mail.good.com", "plain.com", "www.plain.com", "q7.io"];
const ASKED_AT_ONCE: usize = 100;
/// How often a proof is created and awaited.
const PROOFS: usize = 5;
const PROOF_DEADLINE: Duration = Duration::from_secs(60);
/// The zone in which proofs are created, with the line of its file that makes room for them.
const PROVED: (&str, &str) = ("claims.com", "@ IN TXT \"bailiwick-verification=abc\"");

/// What is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    #[default]
    All,
    /// The engine by itself.
    Engine,
    /// The real program with its controller: proofs, and the whole path through objects.
    Objects,
}

/// Builds what is needed, and measures inside the namespace.
pub fn run(binary: &Path, seconds: u64, part: Part) -> Result<()> {
    if namespace::is_inside() {
        return inside(binary, seconds, part);
    }
    if let Some(reason) = bailiwick_fakenet::missing() {
        bail!("the fake internet cannot be brought up: {reason}");
    }
    if part != Part::Objects {
        let built = Command::new(super::cargo())
            .current_dir(repository_root())
            .args(["build", "--release", "--locked", "-p", "bailiwick-domains", "--example", "load"])
            .status()?;
        ensure!(built.success(), "the load does not build");
    }
    let mut command = namespace::command(std::env::current_exe()?);
    let part = part.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
    command.args(["bench", "--domains", "--domains-part", &part, "--domains-seconds", &seconds.to_string()]);
    command.arg("--bailiwick").arg(binary);
    // Only returns when it fails.
    Err(command.exec()).context("running unshare")
}

struct Scene {
    bed: Bed,
    load: PathBuf,
    work: tempfile::TempDir,
}

impl Scene {
    /// Runs the load on one core and reads its figures.
    fn load(&self, arguments: &[&str]) -> Result<Value> {
        let core = last_core();
        let output = Command::new("taskset")
            .args(["-c", &core])
            .arg(&self.load)
            .args(arguments)
            .stderr(Stdio::inherit())
            .output()
            .context("running taskset")?;
        ensure!(output.status.success(), "the load failed: {arguments:?}");
        let text = String::from_utf8_lossy(&output.stdout);
        serde_json::from_str(text.trim()).with_context(|| format!("the load said {text:?}"))
    }

    fn file(&self, name: &str, lines: impl IntoIterator<Item = String>) -> Result<String> {
        let path = self.work.path().join(name);
        std::fs::write(&path, lines.into_iter().map(|line| line + "\n").collect::<String>())?;
        Ok(path.display().to_string())
    }
}

/// The load gets a core of its own as far as there is one.
fn last_core() -> String {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    (cores - 1).to_string()
}

fn inside(binary: &Path, seconds: u64, part: Part) -> Result<()> {
    let wanted = usize::try_from(seconds).unwrap_or(usize::MAX).saturating_mul(DOMAINS_PER_SECOND);
    let domains = wanted.clamp(DOMAINS_MIN, DOMAINS_MAX);
    let crowd = Crowd { domains, signed: domains / SIGNED_ONE_IN };
    let begin = Instant::now();
    let scene = Scene {
        bed: Bed::with_crowd(crowd)?,
        load: target_dir().join("release/examples/load"),
        work: tempfile::tempdir()?,
    };
    println!("{domains} domains, {} of them signed, are up after {:.1} s", crowd.signed, begin.elapsed().as_secs_f64());
    let roots = scene.bed.roots_file().display().to_string();
    println!("\n| what | figure | measured | wanted |\n|---|---|---:|---:|");
    if part != Part::Objects {
        watch(&scene, crowd, &roots, seconds)?;
        let short = seconds.clamp(2, 10);
        analyses(&scene, &roots, short)?;
        questions(&scene, &roots, short)?;
    }
    if part != Part::Engine {
        through_the_controller(&scene, crowd, binary, seconds)?;
    }
    Ok(())
}

fn row(what: &str, figure: &str, value: impl std::fmt::Display, wanted: &str) {
    println!("| {what} | {figure} | {value} | {wanted} |");
}

fn number(figures: &Value, name: &str) -> f64 {
    figures[name].as_f64().unwrap_or_default()
}

fn watch(scene: &Scene, crowd: Crowd, roots: &str, seconds: u64) -> Result<()> {
    let names = scene.file("crowd", crowd.names())?;
    let figures = scene.load(&["watch", roots, &names, &seconds.to_string(), &AT_ONCE.to_string()])?;
    let checked = number(&figures, "checked");
    ensure!(checked > 0.0, "nothing was checked: {figures}");
    let what = format!("watch for {:.0} s", number(&figures, "seconds"));
    let (elapsed, cpu) = (number(&figures, "seconds"), number(&figures, "cpuSeconds"));
    row(&what, "domains per hour", format!("{:.0}", checked / elapsed * 3600.0), "1000000");
    row(&what, "domains per hour of CPU time", format!("{:.0}", checked / cpu * 3600.0), "1000000");
    row(&what, "CPU µs per domain", format!("{:.0}", cpu / checked * 1e6), "3600");
    row(&what, "questions per domain", format!("{:.1}", number(&figures, "questions") / checked), "");
    row(&what, "median s of a look", format!("{:.3}", number(&figures, "medianSeconds")), "");
    row(&what, "peak MiB", format!("{:.0}", number(&figures, "peakMib")), "1024");
    row(&what, "found", &figures["found"], "");
    Ok(())
}

fn analyses(scene: &Scene, roots: &str, rounds: u64) -> Result<()> {
    let names = scene.file("analysed", ANALYSED.iter().map(|name| (*name).to_owned()))?;
    let figures = scene.load(&["fqdn", roots, &names, &rounds.to_string()])?;
    let what = format!("{} analyses of a name from {} places", figures["analyses"], figures["places"]);
    for (figure, wanted) in [("p50", ""), ("p95", "2"), ("max", "5")] {
        row(&what, &format!("{figure} s"), format!("{:.3}", number(&figures, figure)), wanted);
    }
    row(&what, "slowest", &figures["slowest"], "");
    Ok(())
}

fn questions(scene: &Scene, roots: &str, seconds: u64) -> Result<()> {
    let names = scene.file("asked", ASKED.iter().map(|name| (*name).to_owned()))?;
    let (time, at_once) = (seconds.to_string(), ASKED_AT_ONCE.to_string());
    let ours = scene.load(&["ask", roots, ASKED_SERVER, &names, &time, &at_once])?;
    let answered = number(&ours, "answered");
    ensure!(answered > 0.0, "no answers: {ours}");
    row("questions, we", "CPU µs per question", format!("{:.1}", number(&ours, "cpuSeconds") / answered * 1e6), "");
    row("questions, we", "answers/s", format!("{:.0}", answered / number(&ours, "seconds")), "");
    row("questions, we", "lost", &ours["lost"], "0");
    let (cpu, peer) = dnsperf(scene, seconds)?;
    row("questions, dnsperf", "CPU µs per question", format!("{:.1}", cpu / peer * 1e6), "");
    row("questions, dnsperf", "answers/s", format!("{:.0}", peer / seconds as f64), "");
    Ok(())
}

/// The CPU time of dnsperf and the answers it got for it.
fn dnsperf(scene: &Scene, seconds: u64) -> Result<(f64, f64)> {
    let queries = scene.file("queries", ASKED.iter().map(|name| format!("{name} A")))?;
    let report = scene.work.path().join("dnsperf.txt");
    let programs = Programs::find()?;
    let mut command = Command::new("taskset");
    let dnsperf = programs.command("usr/bin/dnsperf");
    command.args(["-c", &last_core()]).arg(dnsperf.get_program());
    for (name, value) in dnsperf.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    let before = children_cpu_seconds();
    let status = command
        .args(["-s", ASKED_SERVER, "-d", &queries, "-l", &seconds.to_string(), "-e", "-D", "-T", "1"])
        .args(["-q", &ASKED_AT_ONCE.to_string(), "-c", "16"])
        .stdout(std::fs::File::create(&report)?)
        .stderr(Stdio::null())
        .status()
        .context("running dnsperf")?;
    ensure!(status.success(), "dnsperf failed");
    let cpu = children_cpu_seconds() - before;
    let text = std::fs::read_to_string(&report)?;
    let completed = text.lines().find_map(|line| line.trim().strip_prefix("Queries completed:"));
    let completed = completed.and_then(|line| line.split_whitespace().next()?.parse().ok());
    Ok((cpu, completed.with_context(|| format!("dnsperf said {text}"))?))
}

/// What the programs that ended have used of the processor. Not by their numbers: those are of another namespace than `/proc`.
fn children_cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit_once(") ").map(|(_, rest)| rest.split(' ').collect()).unwrap_or_default();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or_default();
    (ticks(13) + ticks(14)) / 100.0
}

/// Starts the real program with its controller, and measures how long after a record goes live its domain is verified, and what
/// very many domains at once cost.
fn through_the_controller(scene: &Scene, crowd: Crowd, binary: &Path, seconds: u64) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let wrapper = scene.work.path().join("bailiwick");
    let roots = from_one_place(scene)?;
    let script = format!("#!/bin/sh\nBAILIWICK_DNS_ROOTS={} exec {} \"$@\"\n", roots.display(), binary.display());
    std::fs::write(&wrapper, script)?;
    std::fs::set_permissions(&wrapper, std::fs::Permissions::from_mode(0o755))?;
    let arguments = ["--with", "domains", "--domains-per-tenant", "1000000"].map(str::to_owned);
    let running = servers::start_control_plane(&wrapper, &arguments)?;
    let client = Api {
        client: reqwest::blocking::Client::builder().danger_accept_invalid_certs(true).build()?,
        base: running.server.base().to_owned(),
    };
    let mut took = Vec::new();
    for round in 0..PROOFS {
        took.push(one_proof(scene, &client, round)?.as_secs_f64());
    }
    took.sort_by(f64::total_cmp);
    let what = format!("{PROOFS} proofs through the controller");
    row(&what, "median s until verified", format!("{:.2}", took.get(took.len() / 2).copied().unwrap_or_default()), "");
    row(&what, "slowest s until verified", format!("{:.2}", took.last().copied().unwrap_or_default()), "5");
    objects::measure(&client, &crowd.names().collect::<Vec<_>>(), seconds)
}

/// A server has one place of its own, as installed: the fake internet's ten would each be asked from.
fn from_one_place(scene: &Scene) -> Result<PathBuf> {
    let mut roots: Value = serde_json::from_slice(&std::fs::read(scene.bed.roots_file())?)?;
    let first = roots["vantagePoints"].get(0).cloned().context("no places")?;
    roots["vantagePoints"] = json!([first]);
    let file = scene.work.path().join("roots.json");
    std::fs::write(&file, roots.to_string())?;
    Ok(file)
}

struct Api {
    client: reqwest::blocking::Client,
    base: String,
}

impl Api {
    fn call(&self, request: reqwest::blocking::RequestBuilder) -> Result<Value> {
        let answer = request.header("Authorization", "Bearer admin-token").send()?.text()?;
        // A path that is not served yet has a line of text.
        Ok(serde_json::from_str(&answer).unwrap_or(Value::String(answer)))
    }

    fn domain(&self, name: &str) -> Result<Value> {
        self.call(self.client.get(format!("{}{DOMAINS}/{name}", self.base)))
    }
}

const DOMAINS: &str = "/apis/datumapis.com/v1alpha/namespaces/default/domains";

/// Adds a domain, reads its token, creates the record and waits; then takes both away.
fn one_proof(scene: &Scene, api: &Api, round: usize) -> Result<Duration> {
    let (zone, line) = PROVED;
    let name = format!("proof-{round}");
    let object = json!({
        "apiVersion": "datumapis.com/v1alpha", "kind": "Domain", "metadata": {"name": name}, "spec": {"name": zone},
    });
    let deadline = Instant::now() + PROOF_DEADLINE;
    let token = loop {
        // The definition may not be served yet.
        let found = api.domain(&name)?;
        let token = found.pointer("/status/verification/record/content").and_then(Value::as_str).map(str::to_owned);
        if let Some(token) = token {
            break token;
        }
        if found["kind"] != "Domain" {
            let request = api.client.post(format!("{}{DOMAINS}", api.base)).header("content-type", "application/json");
            api.call(request.body(object.to_string())).ok();
        }
        ensure!(Instant::now() < deadline, "no token for {zone}: {found}");
        std::thread::sleep(Duration::from_millis(50));
    };
    let proof = format!("_bailiwick-challenge IN TXT \"{token}\"");
    scene.bed.edit_zone(zone, line, &proof)?;
    let live = Instant::now();
    let verified = loop {
        let found = api.domain(&name)?;
        let conditions = found.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
        if conditions.iter().any(|condition| condition["type"] == "Verified" && condition["status"] == "True") {
            break Ok(live.elapsed());
        }
        if live.elapsed() > PROOF_DEADLINE {
            break Err(anyhow::anyhow!("{zone} is not verified: {}", found["status"]));
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    scene.bed.edit_zone(zone, &proof, line)?;
    api.call(api.client.delete(format!("{}{DOMAINS}/{name}", api.base)))?;
    verified
}
