//! The whole path through the controller of the real program, for as long as the watch of the engine ran: Domain objects come in
//! batches, each is read, looked at, written and told about, and goes again. A first look writes a status and asks the registry,
//! which the hourly one does not, so the figure is the lower bound of what the health loop does in an hour. Then, how many
//! looks for proofs it makes a second.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::json;

use super::{Api, DOMAINS, row};

/// Objects of one batch: their proofs are looked for every four seconds meanwhile, as for any domain that was just added.
pub(super) const BATCH: usize = 2_000;
/// How many create them.
const CREATORS: usize = 8;
/// How long one batch may take.
const DEADLINE: Duration = Duration::from_secs(300);
/// For how long looks for proofs are counted.
const COUNTED: Duration = Duration::from_secs(20);
/// Between two readings of the metrics, which are cheap: no object is read for them.
const POLL: Duration = Duration::from_millis(50);

/// Looks for proofs, however they ended.
const VERDICTS: &str = "bailiwick_domains_verdicts_total{";
const KNOWN: &str = "bailiwick_domains_known ";
/// Those that nobody has looked at yet are counted here, until their status is written.
const OVERDUE: &str = "bailiwick_domains_overdue ";

/// Adds the domains, batch after batch, and measures.
pub(super) fn measure(api: &Api, names: &[String], seconds: u64) -> Result<()> {
    ensure!(!names.is_empty(), "the crowd is empty");
    // As the server counts it: by its number it cannot be found from inside the namespace.
    let cpu = || metric(api, "process_cpu_seconds_total ");
    let (begin, before) = (Instant::now(), cpu()?);
    let (mut looked, mut peak) = (0_usize, 0.0_f64);
    let mut batches = names.chunks(BATCH).cycle();
    let last = loop {
        let Some(batch) = batches.next() else { break &names[..0] };
        add(api, batch)?;
        until(api, &format!("{} domains were not looked at", batch.len()), |known, overdue| {
            known == batch.len() as f64 && overdue == 0.0
        })?;
        looked += batch.len();
        peak = peak.max(metric(api, "process_resident_memory_bytes ")?);
        if begin.elapsed().as_secs() >= seconds {
            break batch;
        }
        remove(api)?;
    };
    let (elapsed, used) = (begin.elapsed().as_secs_f64(), cpu()? - before);
    let count = looked as f64;
    let what = format!("{looked} Domain objects in {elapsed:.0} s, {BATCH} at a time");
    row(
        &what,
        "domains per hour, created, looked at, written and deleted",
        format!("{:.0}", count / elapsed * 3600.0),
        "1000000",
    );
    row(&what, "domains per hour of CPU time, API server included", format!("{:.0}", count / used * 3600.0), "1000000");
    row(&what, "CPU ms per domain, API server included", format!("{:.2}", used / count * 1e3), "3.6");
    row(&what, "peak MiB, API server included", format!("{:.0}", peak / 1_048_576.0), "1024");
    let what = format!("{} domains whose proofs are awaited", last.len());
    let (begin, before, verdicts) = (Instant::now(), cpu()?, metric(api, VERDICTS)?);
    std::thread::sleep(COUNTED);
    let made = metric(api, VERDICTS)? - verdicts;
    let (elapsed, used) = (begin.elapsed().as_secs_f64(), cpu()? - before);
    row(&what, "looks for proofs/s", format!("{:.0}", made / elapsed), "");
    row(&what, "cores used by that", format!("{:.2}", used / elapsed), "");
    Ok(())
}

fn add(api: &Api, names: &[String]) -> Result<()> {
    std::thread::scope(|scope| {
        let share = names.len().div_ceil(CREATORS).max(1);
        let creators: Vec<_> = names.chunks(share).map(|names| scope.spawn(move || create(api, names))).collect();
        creators.into_iter().try_for_each(|creator| creator.join().unwrap_or_else(|_| anyhow::bail!("a panic")))
    })
}

fn create(api: &Api, names: &[String]) -> Result<()> {
    for name in names {
        let object = json!({
            "apiVersion": "datumapis.com/v1alpha", "kind": "Domain", "metadata": {"name": name}, "spec": {"name": name},
        });
        let request = api.client.post(format!("{}{DOMAINS}", api.base)).header("content-type", "application/json");
        let made = api.call(request.body(object.to_string()))?;
        ensure!(made["kind"] == "Domain", "{made}");
    }
    Ok(())
}

/// Deletes all and waits until the service has forgotten them.
fn remove(api: &Api) -> Result<()> {
    let answer = api.call(api.client.delete(format!("{}{DOMAINS}", api.base)))?;
    ensure!(answer["kind"] != "Status" || answer["status"] == "Success", "{answer}");
    until(api, "deleted domains are not forgotten", |known, _| known == 0.0)
}

/// Waits until the numbers of domains that are known and that are overdue are as wished.
fn until(api: &Api, otherwise: &str, is: impl Fn(f64, f64) -> bool) -> Result<()> {
    let begin = Instant::now();
    loop {
        let (known, overdue) = (metric(api, KNOWN)?, metric(api, OVERDUE)?);
        if is(known, overdue) {
            return Ok(());
        }
        ensure!(begin.elapsed() < DEADLINE, "{otherwise}: {known} are known, {overdue} overdue");
        std::thread::sleep(POLL);
    }
}

/// The sum of what a metric counts under all its labels.
fn metric(api: &Api, name: &str) -> Result<f64> {
    let request = api.client.get(format!("{}/metrics", api.base)).header("Authorization", "Bearer admin-token");
    let text = request.send()?.text()?;
    let lines = text.lines().filter(|line| line.starts_with(name));
    Ok(lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum())
}
