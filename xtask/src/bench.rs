//! `cargo xtask bench`: the same load on us and on kube-apiserver + etcd, in one run on one machine, with durable writes on
//! both. CPU per operation is the figure to trust on a shared machine; throughput includes the load generator.
//!
//! Machines have slow minutes. So both servers run and take turns scenario by scenario, all of it several times, and each
//! figure is the best of its server's rounds.

mod audit;
mod catalog;
mod domains;
mod flood;
mod fresh_definitions;
mod garbage;
mod policies;
mod projects;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::conformance::servers::{self, Running};
use crate::setup;
use crate::tools::{self, repository_root, tools_dir};

/// What to measure and with what.
#[derive(clap::Args)]
pub struct Args {
    /// Source directory of the load generator.
    #[arg(long, default_value = "../shared/tools/loadgen")]
    pub loadgen: PathBuf,
    /// A bailiwick program to measure instead of a fresh release build.
    #[arg(long)]
    pub bailiwick: Option<PathBuf>,
    /// Measure us alone.
    #[arg(long)]
    pub without_peer: bool,
    /// Operations per scenario.
    #[arg(long, default_value_t = 10_000)]
    pub operations: u32,
    /// How often everything is measured; the best counts. Definitions and policies are measured once.
    #[arg(long, default_value_t = 3)]
    pub rounds: u32,
    /// Measure custom resources instead: writes with a schema of 30 properties, with CEL rules, server-side apply, and
    /// this many definitions.
    #[arg(long)]
    pub definitions: Option<u32>,
    /// Measure servers that are given this many definitions and nothing else: time, memory for each, `kubectl explain` and
    /// restart.
    #[arg(long)]
    pub fresh_definitions: Option<u32>,
    /// With --fresh-definitions: a server that takes more memory than this is ended.
    #[arg(long, default_value_t = 12_000)]
    pub memory_mib: u32,
    /// Measure writes with this many ValidatingAdmissionPolicies instead, half of them matching.
    #[arg(long)]
    pub policies: Option<u32>,
    /// Load this many objects of 1 KiB into us and report memory, restart and list rate; nothing else is measured.
    #[arg(long)]
    pub objects: Option<u32>,
    /// Measure what the audit log costs us at each level; nothing else is measured.
    #[arg(long)]
    pub audit: bool,
    /// Measure what a client notices of another that floods the server with a hundred connections; nothing else.
    #[arg(long)]
    pub flood: bool,
    /// Be the flooding client (what `--flood` starts).
    #[arg(long, hide = true)]
    pub flood_from_here: Option<String>,
    /// Be the client that asks now and then (what `--flood` starts).
    #[arg(long, hide = true)]
    pub quiet_from_here: Option<String>,
    /// Measure this many project control planes, each with a namespace and ten objects; nothing else.
    #[arg(long)]
    pub projects: Option<u32>,
    /// Measure the collection of this many objects that lose their owner; nothing else is measured.
    #[arg(long)]
    pub garbage: Option<usize>,
    /// Measure a catalog of eight thousand bundles beside opm; nothing else is measured.
    #[arg(long)]
    pub catalog: bool,
    /// Measure the DNS engine on the fake internet; nothing else is measured.
    #[arg(long)]
    pub domains: bool,
    /// How long the watch over domains runs, and after it the whole path through objects; the documentation's figures are of
    /// ten minutes each.
    #[arg(long, default_value_t = 20)]
    pub domains_seconds: u64,
    /// With --domains: what of it
    #[arg(long, value_enum, default_value_t, requires = "domains")]
    pub domains_part: domains::Part,
}

/// One thing measured on both servers.
struct Scenario {
    name: &'static str,
    arguments: Vec<String>,
    /// Members of the load generator's answer to show, with what each is.
    shown: &'static [(&'static str, &'static str, Better)],
}

#[derive(Clone, Copy, PartialEq)]
enum Better {
    More,
    Less,
}

const RATE: (&str, &str, Better) = ("ops_per_s", "ops/s", Better::More);
const CPU: (&str, &str, Better) = ("cpu_s_per_1000", "CPU s per 1000", Better::Less);
const P99: (&str, &str, Better) = ("p99_ms", "p99 ms", Better::Less);

/// The scenarios of a round, in namespaces of its own.
fn scenarios(operations: u32, round: u32) -> Vec<Scenario> {
    let of = |name: &'static str, shown, arguments: &str| Scenario {
        name,
        shown,
        arguments: arguments.split_whitespace().map(str::to_owned).collect(),
    };
    let (n, reads, many, few) = (operations, operations * 2, format!("b{round}"), format!("one{round}"));
    vec![
        of("create, 64 at once", &[RATE, CPU, P99], &format!("create --ns {many} --c 64 --n {n}")),
        of("get, 64 at once", &[RATE, CPU, P99], &format!("get --ns {many} --c 64 --n {reads} --objects {n}")),
        of("update, 64 at once", &[RATE, CPU, P99], &format!("update --ns {many} --c 64 --n {n}")),
        of("merge patch, 64 at once", &[RATE, CPU, P99], &format!("patch --ns {many} --c 64 --n {n}")),
        of("list of all, one at a time", &[CPU, P99], &format!("list --ns {many} --c 1 --n 10")),
        of(
            "list of all, 4 at once",
            &[CPU, P99, ("rss_mib", "RSS MiB after", Better::Less)],
            &format!("list --ns {many} --c 4 --n 12"),
        ),
        of("delete, 64 at once", &[RATE, CPU, P99], &format!("delete --ns {many} --c 64 --n {n}")),
        of("create, one at a time", &[RATE, CPU, P99], &format!("create --ns {few} --c 1 --n 1000")),
        of(
            "1000 watchers, 100 writes/s",
            &[
                ("achieved_writes_per_s", "writes/s", Better::More),
                ("cpu_us_per_event", "CPU us per event", Better::Less),
                ("after_send_p99_ms", "event after send, p99 ms", Better::Less),
            ],
            "watch --watchers 1000 --rate 100 --secs 10",
        ),
    ]
}

/// Writes of custom resources with a schema of 30 properties and, for gadgets, three CEL rules; then many definitions.
fn custom_scenarios(operations: u32, definitions: u32) -> Vec<Scenario> {
    const WIDGETS: &str = "--res load.example.com/v1/widgets/Widget";
    const GADGETS: &str = "--res load.example.com/v1/gadgets/Gadget";
    let of = |name: &'static str, shown, arguments: String| Scenario {
        name,
        shown,
        arguments: arguments.split_whitespace().map(str::to_owned).collect(),
    };
    let n = operations / 2;
    vec![
        of("", &[], "make-crd --plural widgets --kind Widget".to_owned()),
        of("", &[], "make-crd --plural gadgets --kind Gadget --cel".to_owned()),
        of("create with a schema, 16 at once", &[RATE, CPU, P99], format!("create --ns w1 --c 16 --n {n} {WIDGETS}")),
        of("get, 16 at once", &[RATE, CPU, P99], format!("get --ns w1 --c 16 --n {n} --objects {n} {WIDGETS}")),
        of("update with a schema, 16 at once", &[RATE, CPU, P99], format!("update --ns w1 --c 16 --n {n} {WIDGETS}")),
        of("server-side apply, 16 at once", &[RATE, CPU, P99], format!("apply --ns w2 --c 16 --n {n} {WIDGETS}")),
        of("create with CEL rules, 16 at once", &[RATE, CPU, P99], format!("create --ns g1 --c 16 --n {n} {GADGETS}")),
        of("update with CEL rules, 16 at once", &[RATE, CPU, P99], format!("update --ns g1 --c 16 --n {n} {GADGETS}")),
        of("apply with CEL rules, 16 at once", &[RATE, CPU, P99], format!("apply --ns g2 --c 16 --n {n} {GADGETS}")),
        of("list of all with a schema", &[CPU, P99], format!("list --ns w1 --c 1 --n 5 {WIDGETS}")),
        of(
            "definitions until all are established and served",
            &[
                ("last_served_secs", "s", Better::Less),
                ("cpu_s_total", "CPU s until quiet", Better::Less),
                ("rss_mib", "RSS MiB", Better::Less),
            ],
            format!("crds --from 0 --to {definitions} --c 8 --settle 120"),
        ),
        of(
            "first OpenAPI v2 with all definitions",
            &[("p50_ms", "ms", Better::Less)],
            "raw --path /openapi/v2 --n 1 --c 1".to_owned(),
        ),
        of("OpenAPI v2 again", &[("p50_ms", "ms", Better::Less)], "raw --path /openapi/v2 --n 1 --c 1".to_owned()),
        of(
            "one more definition",
            &[("cpu_s_total", "CPU s", Better::Less)],
            format!("crds --from {definitions} --to {} --c 1 --settle 15", definitions + 1),
        ),
    ]
}

/// Measures and prints a table of ratios.
pub fn run(args: &Args) -> Result<()> {
    if let Some(target) = &args.flood_from_here {
        return flood::flood_from_here(target);
    }
    if let Some(base) = &args.quiet_from_here {
        return flood::quiet_from_here(base);
    }
    let binary = match &args.bailiwick {
        Some(binary) => binary.clone(),
        None => build_release()?,
    };
    if args.domains {
        return domains::run(&binary, args.domains_seconds, args.domains_part);
    }
    if args.catalog {
        return catalog::run(&binary, args.rounds, args.without_peer);
    }
    if let Some(projects) = args.projects {
        return projects::run(&binary, projects);
    }
    if args.flood {
        return floods(&binary, args);
    }
    if let Some(dependents) = args.garbage {
        return collections(&binary, args, dependents);
    }
    let loadgen = build_loadgen(&args.loadgen)?;
    if let Some(objects) = args.objects {
        return many_objects(&binary, &loadgen, objects);
    }
    if let Some(definitions) = args.fresh_definitions {
        return only_definitions(&binary, &loadgen, args, definitions);
    }
    if args.audit {
        return audit::run(&binary, &loadgen, args.operations);
    }
    let mut contenders = vec![Contender::start("bailiwick", || servers::start_bailiwick(&binary))?];
    if !args.without_peer {
        setup::install(tools::PEER_TOOLS, &tools_dir()?)?;
        contenders.push(Contender::start("kube-apiserver + etcd", servers::start_kube_apiserver)?);
    }
    let rounds = if args.definitions.is_some() || args.policies.is_some() { 1 } else { args.rounds };
    for round in 0..rounds {
        let scenarios = match (args.definitions, args.policies) {
            (Some(definitions), _) => custom_scenarios(args.operations, definitions),
            (None, Some(_)) => policies::scenarios(args.operations),
            (None, None) => scenarios(args.operations, round),
        };
        for scenario in scenarios {
            for contender in &mut contenders {
                contender.measure(&scenario, args, &loadgen)?;
            }
        }
    }
    println!("\n| scenario | figure | bailiwick | kube-apiserver + etcd | ratio |\n|---|---|---:|---:|---:|");
    let (ours, peers) = contenders.split_first().context("invariant: we take part")?;
    for (index, row) in ours.rows.iter().enumerate() {
        let peer = peers.first().and_then(|peer| peer.rows.get(index)).map(|row| row.value);
        println!("{}", row.markdown(peer));
    }
    Ok(())
}

fn floods(binary: &Path, args: &Args) -> Result<()> {
    flood::measure("bailiwick", &servers::start_bailiwick(binary)?)?;
    if !args.without_peer {
        setup::install(tools::PEER_TOOLS, &tools_dir()?)?;
        flood::measure("kube-apiserver + etcd", &servers::start_kube_apiserver()?)?;
    }
    Ok(())
}

fn only_definitions(binary: &Path, loadgen: &Path, args: &Args, wanted: u32) -> Result<()> {
    let memory = f64::from(args.memory_mib);
    let restart = |running: Running| running.restart_control_plane(binary);
    let running = servers::start_control_plane(binary, &[])?;
    let mut all = vec![fresh_definitions::measure("bailiwick", running, &restart, loadgen, wanted, memory)?];
    if !args.without_peer {
        setup::install(tools::PEER_TOOLS, &tools_dir()?)?;
        let (running, restart) = (servers::start_kube_apiserver()?, Running::restart_upstream);
        all.push(fresh_definitions::measure("kube-apiserver", running, &restart, loadgen, wanted, memory)?);
    }
    println!("\n| fresh definitions | bailiwick | kube-apiserver + etcd | ratio |\n|---|---:|---:|---:|");
    let figures = |found: &fresh_definitions::Figures| {
        [
            ("served, of those wanted", f64::from(found.served)),
            ("s until all are served", found.seconds),
            ("CPU s", found.cpu_seconds),
            ("RSS MiB", found.rss_mib),
            ("RSS KiB for each", found.kib_each),
            ("kubectl explain from a cold cache, s", found.explain_seconds),
            ("restart after kill -9, s until ready", found.restart_seconds),
        ]
    };
    let mut columns = all.iter().map(figures);
    let (ours, theirs) = (columns.next().context("invariant: we take part")?, columns.next());
    for (index, (figure, value)) in ours.into_iter().enumerate() {
        let peer = theirs.and_then(|theirs| Some(theirs.get(index)?.1)).filter(|peer| *peer > 0.0);
        let shown = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.2}"));
        let ratio = peer.map_or("-".to_owned(), |peer| format!("{:.1}x", peer / value));
        println!("| {figure} | {} | {} | {ratio} |", shown(Some(value)), shown(peer));
    }
    Ok(())
}

fn collections(binary: &Path, args: &Args, dependents: usize) -> Result<()> {
    let ours = garbage::measure("bailiwick", &servers::start_control_plane(binary, &[])?, dependents)?;
    let mut theirs = Vec::new();
    if !args.without_peer {
        setup::install(tools::PEER_TOOLS, &tools_dir()?)?;
        setup::install(tools::CONTROLLER_TOOLS, &tools_dir()?)?;
        let peer = servers::start_kubernetes(servers::Pace::Unlimited)?;
        theirs = garbage::measure("kube-apiserver + etcd + kube-controller-manager", &peer, dependents)?;
    }
    println!("\n| scenario | figure | bailiwick | Kubernetes | ratio |\n|---|---|---:|---:|---:|");
    for (index, found) in ours.iter().enumerate() {
        let figures = |found: &garbage::Figures| [found.seconds, found.cpu_seconds, found.rss_mib];
        let peer = theirs.get(index).map(figures);
        for (at, (figure, value)) in
            ["s until all are gone", "CPU s", "RSS MiB after"].into_iter().zip(figures(found)).enumerate()
        {
            let scenario = format!("{dependents} {}", found.scenario);
            let row = Row { scenario, figure, value, better: Better::Less };
            println!("{}", row.markdown(peer.and_then(|peer| peer.get(at).copied())));
        }
    }
    Ok(())
}

struct Row {
    scenario: String,
    figure: &'static str,
    value: f64,
    better: Better,
}

impl Row {
    fn markdown(&self, peer: Option<f64>) -> String {
        let ratio = peer.map(|peer| if self.better == Better::More { self.value / peer } else { peer / self.value });
        let shown = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.3}"));
        let ratio = ratio.filter(|ratio| ratio.is_finite()).map_or("-".to_owned(), |ratio| format!("{ratio:.1}x"));
        format!("| {} | {} | {:.3} | {} | {ratio} |", self.scenario, self.figure, self.value, shown(peer))
    }
}

/// A server being measured, with its figures so far.
struct Contender {
    name: &'static str,
    running: Running,
    rows: Vec<Row>,
}

impl Contender {
    /// Starts it and measures how long that takes and what it costs to do nothing.
    fn start(name: &'static str, start: impl Fn() -> Result<Running>) -> Result<Self> {
        let before = Instant::now();
        let running = start()?;
        let started = before.elapsed().as_secs_f64() * 1000.0;
        std::thread::sleep(Duration::from_secs(5));
        let pids = running.pids();
        let memory = |of: &str| pids.iter().map(|pid| memory_mib(*pid, of)).sum();
        let (resident, own) = (memory("VmRSS:"), memory("RssAnon:"));
        let cpu = || pids.iter().map(|pid| cpu_seconds(*pid)).sum::<f64>();
        let idle = cpu();
        std::thread::sleep(Duration::from_secs(10));
        let percent = (cpu() - idle) * 10.0;
        let row =
            |scenario: &str, figure, value| Row { scenario: scenario.into(), figure, value, better: Better::Less };
        let rows = vec![
            row("cold start to ready", "ms", started),
            row("idle", "RSS MiB", resident),
            // Without the program's own pages, which the kernel takes back when it needs them.
            row("idle", "of it own memory, MiB", own),
            row("idle", "CPU % of a core", percent),
        ];
        Ok(Self { name, running, rows })
    }

    fn measure(&mut self, scenario: &Scenario, args: &Args, loadgen: &Path) -> Result<()> {
        if let (true, Some(policies)) = (scenario.arguments.is_empty(), args.policies) {
            return policies::install(&self.running, policies);
        }
        if scenario.shown.is_empty() {
            return prepare(loadgen, &self.running, &scenario.arguments);
        }
        let answer = drive(loadgen, &self.running, &scenario.arguments)?;
        println!("{}, {}: {answer}", self.name, scenario.name);
        for (member, figure, better) in scenario.shown {
            self.keep_best(Row {
                scenario: scenario.name.into(),
                figure,
                value: sum_of(&answer, member),
                better: *better,
            });
        }
        Ok(())
    }

    fn keep_best(&mut self, row: Row) {
        let known = self.rows.iter_mut().find(|known| known.scenario == row.scenario && known.figure == row.figure);
        match known {
            Some(known) if row.better == Better::More => known.value = known.value.max(row.value),
            Some(known) => known.value = known.value.min(row.value),
            None => self.rows.push(row),
        }
    }
}

/// A figure, added up over the processes where it is one per process.
fn sum_of(answer: &Value, member: &str) -> f64 {
    if let Some(value) = answer.get(member).and_then(Value::as_f64) {
        return value;
    }
    let per_process = ["p0", "p1"].iter().filter_map(|process| answer.get(format!("{member}_{process}"))?.as_f64());
    per_process.sum()
}

/// Something the load generator makes and says nothing about.
fn prepare(loadgen: &Path, running: &Running, arguments: &[String]) -> Result<()> {
    let made = Command::new(loadgen)
        .args(["--url", running.server.base(), "--token", "admin-token"])
        .args(arguments)
        .output()
        .context("running the load generator")?;
    if !made.status.success() {
        bail!("{}: {}", arguments.join(" "), String::from_utf8_lossy(&made.stderr));
    }
    // The peer serves a definition some seconds after it exists.
    std::thread::sleep(Duration::from_secs(8));
    Ok(())
}

fn drive(loadgen: &Path, running: &Running, arguments: &[String]) -> Result<Value> {
    let pids: Vec<String> = running.pids().iter().enumerate().map(|(i, pid)| format!("p{i}={pid}")).collect();
    let output = Command::new(loadgen)
        .args(["--url", running.server.base(), "--token", "admin-token", "--pids", &pids.join(","), "--conns", "4"])
        .args(arguments)
        .output()
        .context("running the load generator")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().rev().find(|line| line.starts_with('{')).unwrap_or_default();
    let answer: Value = serde_json::from_str(line)
        .with_context(|| format!("the load generator said {text} {}", String::from_utf8_lossy(&output.stderr)))?;
    if let Some(errors) = answer.get("errors").or_else(|| answer.get("write_errors").filter(|e| *e != 0)) {
        bail!("{}: requests failed: {errors}", arguments.join(" "));
    }
    Ok(answer)
}

/// Loads many objects into us, restarts and lists them by pages.
fn many_objects(binary: &Path, loadgen: &Path, objects: u32) -> Result<()> {
    let running = servers::start_bailiwick(binary)?;
    let pid = running.pids()[0];
    let empty = rss_mib(pid);
    let load = drive(
        loadgen,
        &running,
        &["create", "--ns", "many", "--c", "256", "--n", &objects.to_string()].map(str::to_owned),
    )?;
    println!("load: {load}");
    println!("memory: {:.0} B per object", (rss_mib(pid) - empty) * 1024.0 * 1024.0 / f64::from(objects));
    let before = Instant::now();
    let running = running.restart_bailiwick(binary)?;
    println!("restart to ready: {:.2} s, RSS {:.0} MiB", before.elapsed().as_secs_f64(), rss_mib(running.pids()[0]));
    let before = Instant::now();
    let listed = running.server.count_by_pages("/api/v1/namespaces/many/configmaps", 500)?;
    let seconds = before.elapsed().as_secs_f64();
    println!("list by pages of 500: {listed} objects in {seconds:.1} s, {:.0} objects/s", listed as f64 / seconds);
    println!("RSS after the list: {:.0} MiB", rss_mib(running.pids()[0]));
    if listed != u64::from(objects) {
        bail!("{objects} were created and {listed} are listed after the restart");
    }
    Ok(())
}

fn rss_mib(pid: u32) -> f64 {
    memory_mib(pid, "VmRSS:")
}

/// The kind of memory that the kernel calls `of`.
fn memory_mib(pid: u32, of: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(of));
    line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok()).unwrap_or_default() / 1024.0
}

fn cpu_seconds(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit_once(") ").map(|(_, rest)| rest.split(' ').collect()).unwrap_or_default();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or_default();
    (ticks(11) + ticks(12)) / 100.0
}

fn build_loadgen(source: &Path) -> Result<PathBuf> {
    let source = repository_root().join(source);
    if !source.join("Cargo.toml").exists() {
        bail!("no load generator in {}: name its source with --loadgen", source.display());
    }
    let target = repository_root().join("target/loadgen");
    let manifest = source.join("Cargo.toml");
    let status = Command::new(cargo())
        .args(["build", "--release", "--quiet", "--manifest-path"])
        .arg(&manifest)
        .arg("--target-dir")
        .arg(&target)
        .status()?;
    if !status.success() {
        bail!("the load generator does not build");
    }
    Ok(target.join("release/loadgen"))
}

fn build_release() -> Result<PathBuf> {
    let root = repository_root();
    let built = Command::new(cargo())
        .current_dir(&root)
        .args(["build", "--release", "--locked", "-p", "bailiwick"])
        .status()?;
    if !built.success() {
        bail!("bailiwick does not build");
    }
    let target = crate::test_run::target_dir();
    Ok(target.join("release/bailiwick"))
}

fn cargo() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}
