//! What goes through the controller of the real program when very many Domain objects come at once: how fast all have been looked
//! at, what that costs with the API server's share in it, and how many looks for proofs it makes a second afterwards.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{Api, DOMAINS, row};

/// Objects that are added, as far as the crowd has names.
const OBJECTS_MAX: usize = 2_000;
/// How many create them.
const CREATORS: usize = 8;
const DEADLINE: Duration = Duration::from_secs(300);
/// For how long looks for proofs are counted.
const COUNTED: Duration = Duration::from_secs(20);

/// Looks for proofs, however they ended.
const VERDICTS: &str = "bailiwick_domains_verdicts_total{";

/// Adds the domains and measures.
pub(super) fn measure(api: &Api, names: &[String]) -> Result<()> {
    let names: Vec<&String> = names.iter().take(OBJECTS_MAX).collect();
    // As the server counts it: by its number it cannot be found from inside the namespace.
    let cpu = || metric(api, "process_cpu_seconds_total ");
    let (begin, before) = (Instant::now(), cpu()?);
    std::thread::scope(|scope| {
        let share = names.len().div_ceil(CREATORS).max(1);
        let creators: Vec<_> = names.chunks(share).map(|names| scope.spawn(move || create(api, names))).collect();
        creators.into_iter().try_for_each(|creator| creator.join().unwrap_or_else(|_| anyhow::bail!("a panic")))
    })?;
    let created = begin.elapsed();
    while looked_at(api)? < names.len() {
        ensure!(begin.elapsed() < DEADLINE, "{} of {} domains were looked at", looked_at(api)?, names.len());
        std::thread::sleep(Duration::from_millis(100));
    }
    let (elapsed, used) = (begin.elapsed().as_secs_f64(), cpu()? - before);
    let count = names.len() as f64;
    let what = format!("{} Domain objects at once", names.len());
    row(&what, "s until all were created", format!("{:.1}", created.as_secs_f64()), "");
    row(&what, "domains/s until all were looked at", format!("{:.0}", count / elapsed), "278");
    row(&what, "CPU ms per domain, API server included", format!("{:.2}", used / count * 1e3), "3.6");
    let (begin, before, verdicts) = (Instant::now(), cpu()?, metric(api, VERDICTS)?);
    std::thread::sleep(COUNTED);
    let made = metric(api, VERDICTS)? - verdicts;
    let (elapsed, used) = (begin.elapsed().as_secs_f64(), cpu()? - before);
    row(&what, "looks for proofs/s afterwards", format!("{:.0}", made / elapsed), "");
    row(&what, "cores used by that", format!("{:.2}", used / elapsed), "");
    Ok(())
}

fn create(api: &Api, names: &[&String]) -> Result<()> {
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

fn looked_at(api: &Api) -> Result<usize> {
    let list = api.call(api.client.get(format!("{}{DOMAINS}", api.base)))?;
    let items = list["items"].as_array().context("a list")?;
    Ok(items.iter().filter(|item| item.pointer("/status/lastScan").is_some_and(Value::is_string)).count())
}

/// The sum of what a metric counts under all its labels.
fn metric(api: &Api, name: &str) -> Result<f64> {
    let request = api.client.get(format!("{}/metrics", api.base)).header("Authorization", "Bearer admin-token");
    let text = request.send()?.text()?;
    let lines = text.lines().filter(|line| line.starts_with(name));
    Ok(lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum())
}
