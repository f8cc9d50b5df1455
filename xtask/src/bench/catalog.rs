//! `cargo xtask bench --catalog`: a catalog of the size of OperatorHub, generated from the shared data, validated, served
//! and listed by us and by opm; and fifty subscriptions resolved over it.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::{Better, Row, cpu_seconds, memory_mib, rss_mib};
use crate::setup;
use crate::tools::{self, repository_root, tools_dir};

/// How often the data is copied under other names: 53 bundles each time.
const COPIES: usize = 155;
/// Every so many copies one has catalogs with whole manifests, as old catalogs do.
const WITH_MANIFESTS: usize = 3;
/// How often a running program is looked at; its figures are of the last look.
const LOOK: Duration = Duration::from_millis(2);
const DEADLINE: Duration = Duration::from_secs(600);
const WANTED_SUBSCRIPTIONS: usize = 50;
/// The first requires a package that the data has no catalog of; the second is required by another one, and so has to be
/// found.
const NOT_WANTED: [&str; 2] = ["lms-moodle-operator", "rabbitmq-cluster-operator"];

/// What a program took.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    seconds: f64,
    cpu_seconds: f64,
    peak_mib: f64,
}

/// Measures and prints the table.
pub fn run(binary: &Path, rounds: u32, without_peer: bool) -> Result<()> {
    let data = repository_root().join("../shared/data/olm");
    ensure!(data.is_dir(), "{} is not here", data.display());
    let opm = if without_peer {
        None
    } else {
        setup::install(tools::CATALOG_TOOLS, &tools_dir()?)?;
        Some(tools::require("opm")?)
    };
    let work = tempfile::Builder::new().prefix("bailiwick-bench-catalog-").tempdir()?;
    let catalog = work.path().join("catalog");
    let (packages, bundles, bytes) = generate(&data, &catalog)?;
    println!("{packages} packages, {bundles} bundles, {:.0} MB", bytes as f64 / 1e6);

    let programs: Vec<(&str, &Path)> =
        std::iter::once(("bailiwick", binary)).chain(opm.as_deref().map(|opm| ("opm", opm))).collect();
    let mut tables: Vec<Vec<Row>> = Vec::new();
    for (name, program) in &programs {
        let mut rows = Vec::new();
        for round in 0..rounds {
            let cache = work.path().join(format!("cache-{name}-{round}"));
            for row in measure(name, program, &catalog, &cache)? {
                keep_best(&mut rows, row);
            }
        }
        tables.push(rows);
    }
    println!("\n| scenario | figure | bailiwick | opm | ratio |\n|---|---|---:|---:|---:|");
    let (ours, peers) = tables.split_first().context("invariant: we take part")?;
    for (index, row) in ours.iter().enumerate() {
        let peer = peers.first().and_then(|peer| peer.get(index)).map(|row| row.value);
        println!("{}", row.markdown(peer));
    }
    resolution(binary, &catalog, &work.path().join("cache-bailiwick-0"))
}

fn keep_best(rows: &mut Vec<Row>, row: Row) {
    match rows.iter_mut().find(|known| known.scenario == row.scenario && known.figure == row.figure) {
        Some(known) => known.value = known.value.min(row.value),
        None => rows.push(row),
    }
}

/// Copies the catalogs of the data under other names of packages and groups, one folder for each.
fn generate(data: &Path, catalog: &Path) -> Result<(usize, usize, u64)> {
    let mut sources: Vec<(PathBuf, bool)> = Vec::new();
    for entry in std::fs::read_dir(data.join("golden/semver-real"))? {
        let path = entry?.path();
        if path.to_string_lossy().ends_with(".catalog.yaml") {
            sources.push((path, false));
        }
    }
    sources.push((data.join("dbaas-catalog/catalog/everest-operator/catalog.yaml"), false));
    sources.push((data.join("dbaas-catalog/catalog/percona-xtradb-cluster-operator/catalog.yaml"), true));
    sources.sort();
    let (mut packages, mut bundles, mut bytes) = (0, 0, 0);
    for (path, with_manifests) in sources {
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        for copy in (0..COPIES).filter(|copy| !with_manifests || copy % WITH_MANIFESTS == 0) {
            // The same package is in the data twice, with and without manifests.
            let suffix = if with_manifests { format!("-m{copy}") } else { format!("-c{copy}") };
            let (name, renamed) = rename(&text, &suffix)?;
            let folder = catalog.join(name);
            std::fs::create_dir_all(&folder)?;
            let mut file = std::fs::File::create(folder.join("catalog.yaml"))?;
            file.write_all(renamed.as_bytes())?;
            packages += 1;
            bundles += renamed.matches("\nschema: olm.bundle\n").count();
            bytes += renamed.len() as u64;
        }
    }
    Ok((packages, bundles, bytes))
}

fn rename(text: &str, suffix: &str) -> Result<(String, String)> {
    let mut package = String::new();
    let mut out = String::with_capacity(text.len() + text.len() / 50);
    for document in text.split("---\n") {
        let is_package = document.lines().any(|line| line == "schema: olm.package");
        if document.trim().is_empty() {
            continue;
        }
        out.push_str("---\n");
        for line in document.lines() {
            let trimmed = line.trim_start();
            let is_name = is_package && line.starts_with("name: ");
            if is_name {
                package = format!("{}{suffix}", line.trim_start_matches("name: "));
            }
            let group = trimmed.strip_prefix("group: ").filter(|_| line.starts_with("    group: "));
            if let Some(group) = group {
                out.push_str(&format!("    group: {}.{group}", suffix.trim_start_matches('-')));
            } else {
                out.push_str(line);
                if is_name || line.starts_with("package: ") || trimmed.starts_with("packageName: ") {
                    out.push_str(suffix);
                }
            }
            out.push('\n');
        }
    }
    ensure!(!package.is_empty(), "a catalog of the data has no package");
    Ok((package, out))
}

fn measure(name: &str, program: &Path, catalog: &Path, cache: &Path) -> Result<Vec<Row>> {
    let row = |scenario: &str, figure, value| Row { scenario: scenario.into(), figure, value, better: Better::Less };
    let command = |arguments: &[&str]| {
        let mut command = Command::new(program);
        if name == "bailiwick" {
            command.arg("catalog");
        }
        command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let mut rows = Vec::new();
    let validate = finish(command(&["validate"]).arg(catalog))?;
    rows.push(row("validate", "CPU s", validate.cpu_seconds));
    rows.push(row("validate", "peak MiB", validate.peak_mib));
    rows.push(row("validate", "s", validate.seconds));
    for scenario in ["first serve", "warm serve"] {
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let mut serve = command(&["serve"]);
        serve.arg(catalog).arg("--cache-dir").arg(cache).arg("--port").arg(port.to_string());
        // opm refuses to build a cache in a directory that it was given, unless told so.
        serve.arg("--cache-enforce-integrity=false");
        let listening = until_it_listens(&mut serve, port)?;
        rows.push(row(scenario, "s until it listens", listening.seconds));
        rows.push(row(scenario, "RSS MiB", listening.rss_mib));
        rows.push(row(scenario, "of that its own (RssAnon) MiB", listening.anonymous_mib));
    }
    let mut list =
        if name == "bailiwick" { command(&["list", "packages"]) } else { command(&["alpha", "list", "packages"]) };
    list.arg(catalog);
    if name == "bailiwick" {
        list.arg("--cache-dir").arg(cache);
    }
    let list = finish(&mut list)?;
    rows.push(row("list packages", "s", list.seconds));
    rows.push(row("list packages", "CPU s", list.cpu_seconds));
    println!("{name}: {validate:?}");
    Ok(rows)
}

/// Runs a program to its end. What it used is what the last look at it saw.
fn finish(command: &mut Command) -> Result<Figures> {
    let started = Instant::now();
    let mut child = command.spawn().with_context(|| format!("{command:?}"))?;
    let mut figures = Figures::default();
    loop {
        let peak = memory_mib(child.id(), "VmHWM:");
        if peak > 0.0 {
            figures.peak_mib = peak;
            figures.cpu_seconds = cpu_seconds(child.id());
        }
        if let Some(status) = child.try_wait()? {
            ensure!(status.success(), "{command:?} failed: {status}");
            figures.seconds = started.elapsed().as_secs_f64();
            return Ok(figures);
        }
        std::thread::sleep(LOOK);
    }
}

struct Stopped(Child);

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How long a server takes until it can be reached, and its memory a second later.
struct Listening {
    seconds: f64,
    rss_mib: f64,
    /// Without the pages of programs and mapped files.
    anonymous_mib: f64,
}

fn until_it_listens(command: &mut Command, port: u16) -> Result<Listening> {
    let started = Instant::now();
    let mut child = Stopped(command.spawn().with_context(|| format!("{command:?}"))?);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if let Some(status) = child.0.try_wait()? {
            bail!("{command:?} ended: {status}");
        }
        ensure!(started.elapsed() < DEADLINE, "{command:?} does not listen");
        std::thread::sleep(LOOK);
    }
    let seconds = started.elapsed().as_secs_f64();
    std::thread::sleep(Duration::from_secs(1));
    let pid = child.0.id();
    Ok(Listening { seconds, rss_mib: rss_mib(pid), anonymous_mib: memory_mib(pid, "RssAnon:") })
}

/// The package of a folder and the number of its copy.
fn copy_of(folder: &str) -> Option<(&str, usize)> {
    let (package, copy) = folder.rsplit_once("-c")?;
    Some((package, copy.parse().ok()?))
}

/// Fifty subscriptions, with what they require, over the whole catalog.
fn resolution(binary: &Path, catalog: &Path, cache: &Path) -> Result<()> {
    let mut wanted: Vec<(usize, String)> = Vec::new();
    for entry in std::fs::read_dir(catalog)? {
        let folder = entry?.file_name().to_string_lossy().into_owned();
        match copy_of(&folder) {
            Some((package, copy)) if !NOT_WANTED.contains(&package) => wanted.push((copy, folder)),
            _ => {}
        }
    }
    // Every package before a second copy of any.
    wanted.sort();
    let mut command = Command::new(binary);
    command.args(["catalog", "resolve"]).arg(catalog).arg("--cache-dir").arg(cache).args(["--timing", "-o", "json"]);
    for (_, package) in wanted.iter().take(WANTED_SUBSCRIPTIONS) {
        command.arg("--want").arg(package);
    }
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{text}");
    println!("\nresolution: {}", text.trim());
    Ok(())
}
