//! The load of `cargo xtask bench --domains`: the engine in a process of its own on one thread, so that its CPU time and memory
//! can be told from those of the servers. Prints one line of JSON.
//!
//! `load watch ROOTS NAMES SECONDS AT_ONCE` looks at domains as the hourly watch does, `load fqdn ROOTS NAMES ROUNDS` analyses
//! names from every place, `load ask ROOTS SERVER NAMES SECONDS AT_ONCE` sends questions to one server.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bailiwick_domains::authority::{Authorities, Security, Surveyor};
use bailiwick_domains::engine::{DNS_PORT, Engine};
use bailiwick_domains::name::Subject;
use bailiwick_domains::report::fqdn::{Endpoints, FqdnReport};
use bailiwick_domains::seams::{Clock, Net, Roots, SystemClock, VantagePoint};
use bailiwick_domains::wire::{Ask, Question, RecordType, parse_name};
use futures::StreamExt;
use serde_json::{Value, json};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let figures = runtime.block_on(async {
        match arguments.as_slice() {
            ["watch", roots, names, seconds, at_once] => {
                watch(&read_roots(roots)?, &lines(names)?, seconds.parse()?, at_once.parse()?).await
            }
            ["fqdn", roots, names, rounds] => fqdn(&read_roots(roots)?, &lines(names)?, rounds.parse()?).await,
            ["ask", roots, server, names, seconds, at_once] => {
                ask(&read_roots(roots)?, server.parse()?, &lines(names)?, seconds.parse()?, at_once.parse()?).await
            }
            _ => bail!("see the first lines of examples/load.rs"),
        }
    })?;
    println!("{figures}");
    Ok(())
}

fn read_roots(path: &str) -> Result<Arc<Roots>> {
    Ok(Arc::new(Roots::from_file(Path::new(path))?))
}

fn lines(path: &str) -> Result<Vec<String>> {
    Ok(std::fs::read_to_string(path).with_context(|| path.to_owned())?.lines().map(str::to_owned).collect())
}

/// Looks at all domains again and again until the time is over.
async fn watch(roots: &Arc<Roots>, names: &[String], seconds: u64, at_once: usize) -> Result<Value> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let surveyor = Surveyor::new(&Net::default(), &clock, roots);
    let here = roots.vantage_points().into_iter().next().unwrap_or_else(VantagePoint::here);
    let subjects: Vec<Subject> = names.iter().map(|name| Ok(Subject::parse(name)?)).collect::<Result<_>>()?;
    let (begin, cpu) = (Instant::now(), cpu_seconds());
    let end = begin + Duration::from_secs(seconds);
    let looks = subjects.iter().cycle().take_while(|_| Instant::now() < end);
    let mut looks = futures::stream::iter(looks)
        .map(|subject| {
            let (surveyor, here) = (&surveyor, &here);
            async move {
                let begin = Instant::now();
                (surveyor.watch(here, &subject.registered).await, begin.elapsed().as_secs_f64())
            }
        })
        .buffer_unordered(at_once);
    let mut found: BTreeMap<&str, u64> = BTreeMap::new();
    let mut took = Vec::new();
    while let Some((survey, seconds)) = looks.next().await {
        took.push(seconds);
        let kind = match &survey {
            Err(_) => "failed",
            Ok(survey) if survey.answered().count() < survey.answers.len() => "a server with a problem",
            Ok(survey) if survey.security == Security::Secure => "secure",
            Ok(survey) if survey.security == Security::Insecure => "insecure",
            Ok(_) => "otherwise",
        };
        *found.entry(kind).or_default() += 1;
    }
    let checked: u64 = found.values().sum();
    took.sort_by(f64::total_cmp);
    let middle = took.get(took.len() / 2).copied().unwrap_or_default();
    let questions = surveyor.engine(&here.name).map_or(0, |engine| engine.transport().asked());
    Ok(json!({
        "checked": checked, "seconds": begin.elapsed().as_secs_f64(), "cpuSeconds": cpu_seconds() - cpu,
        "peakMib": peak_mib(), "questions": questions, "found": found, "medianSeconds": middle,
    }))
}

/// How long whole analyses take, from every place, with the services behind the addresses.
async fn fqdn(roots: &Arc<Roots>, names: &[String], rounds: usize) -> Result<Value> {
    let places: Vec<Engine> = roots.vantage_points().into_iter().map(|from| Engine::at(from, roots.clone())).collect();
    let mut took: Vec<(f64, &str)> = Vec::new();
    for _ in 0..rounds {
        for name in names {
            let question = Question::new(parse_name(name)?, RecordType::A);
            let begin = Instant::now();
            FqdnReport::make(&places, &question, Endpoints::Look).await.context("no places")?;
            took.push((begin.elapsed().as_secs_f64(), name));
        }
    }
    took.sort_by(|a, b| a.0.total_cmp(&b.0));
    let at = |share: f64| took.get(((took.len() as f64 - 1.0) * share) as usize).map_or(0.0, |(seconds, _)| *seconds);
    let slowest = took.last().map_or("", |(_, name)| name);
    Ok(json!({
        "analyses": took.len(), "places": places.len(), "p50": at(0.5), "p95": at(0.95), "max": at(1.0), "slowest": slowest,
    }))
}

/// Sends questions to one server for the time given.
async fn ask(roots: &Arc<Roots>, server: IpAddr, names: &[String], seconds: u64, at_once: usize) -> Result<Value> {
    let here = roots.vantage_points().into_iter().next().unwrap_or_else(VantagePoint::here);
    let engine = Engine::at(here, roots.clone());
    let asks: Vec<Ask> = names
        .iter()
        .map(|name| Ok(Ask::authoritative(Question::new(parse_name(name)?, RecordType::A))))
        .collect::<Result<_>>()?;
    let server = SocketAddr::new(server, DNS_PORT);
    let (begin, cpu) = (Instant::now(), cpu_seconds());
    let end = begin + Duration::from_secs(seconds);
    let questions = asks.iter().cycle().take_while(|_| Instant::now() < end);
    let mut exchanges =
        futures::stream::iter(questions).map(|ask| engine.transport().ask(server, ask)).buffer_unordered(at_once);
    let (mut answered, mut lost) = (0_u64, 0_u64);
    while let Some(exchange) = exchanges.next().await {
        match exchange.answer() {
            Some(_) => answered += 1,
            None => lost += 1,
        }
    }
    Ok(json!({
        "answered": answered, "lost": lost, "seconds": begin.elapsed().as_secs_f64(), "cpuSeconds": cpu_seconds() - cpu,
    }))
}

/// What this process has used of the processor.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit_once(") ").map(|(_, rest)| rest.split(' ').collect()).unwrap_or_default();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or_default();
    (ticks(11) + ticks(12)) / 100.0
}

fn peak_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok()).unwrap_or_default() / 1024.0
}
