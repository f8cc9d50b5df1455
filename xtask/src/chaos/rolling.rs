//! A rolling restart: one server after another is told to end and started again, while clients that repeat only what
//! certainly was not carried out must not notice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use reqwest::Method;
use serde_json::json;

use super::client::{Attempt, Client, Request};
use super::cluster::Cluster;
use super::report::Findings;

const CLIENTS: usize = 6;
/// A request that finds no server for this long has failed.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between attempts.
const PAUSE: Duration = Duration::from_millis(20);
/// Requests go on for so long before and after each restart.
const BETWEEN: Duration = Duration::from_secs(1);

/// Restarts all servers in turn and counts what clients notice.
pub async fn restart(cluster: &Arc<Cluster>, findings: &Arc<Findings>) -> Result<()> {
    println!("a rolling restart …");
    let (stop, requests) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let client = cluster.client(500 + number as u64)?;
        clients.push(tokio::spawn(ask(number, client, findings.clone(), stop.clone(), requests.clone())));
    }
    let begun = Instant::now();
    for server in &cluster.servers {
        tokio::time::sleep(BETWEEN).await;
        let (status, took) = server.terminate().await?;
        findings.drained(took);
        if !status.success() {
            findings.violation(format!("{} ended with {status} in a rolling restart", server.name));
        }
        findings.started(&server.start().await?);
    }
    tokio::time::sleep(BETWEEN).await;
    let took = begun.elapsed();
    stop.store(true, Ordering::Relaxed);
    let mut failed = 0;
    for client in clients {
        failed += client.await?;
    }
    findings.note(format!("rolling restart of three servers | {:.1} s", took.as_secs_f64()));
    findings.note(format!("requests during it, failed | {}, {failed}", requests.load(Ordering::Relaxed)));
    Ok(())
}

/// Creates, reads and deletes; the number of requests that failed.
async fn ask(
    number: usize,
    client: Client,
    findings: Arc<Findings>,
    stop: Arc<AtomicBool>,
    requests: Arc<AtomicU64>,
) -> u64 {
    let collection = "/api/v1/namespaces/chaos/configmaps";
    let mut failed = 0;
    for round in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let name = format!("rolling-{number}-{round}");
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        let path = format!("{collection}/{name}");
        for (request, expected) in [
            (Request::with_body(Method::POST, collection, object), 201),
            (Request::get(path.clone()), 200),
            (Request::with_body(Method::DELETE, path.clone(), json!({})), 200),
        ] {
            requests.fetch_add(1, Ordering::Relaxed);
            if let Err(why) = carefully(&client, &request, expected).await {
                failed += 1;
                findings.violation(format!("{} {} failed in a rolling restart: {why}", request.method, request.path));
            }
        }
    }
    failed
}

/// Repeats only what certainly was not carried out.
async fn carefully(client: &Client, request: &Request, expected: u16) -> Result<(), String> {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        match client.attempt(&client.server(), request).await {
            Attempt::Answered(status, _) if status == expected => return Ok(()),
            Attempt::Answered(429 | 503, _) | Attempt::NotSent => client.leave(),
            Attempt::Answered(status, body) => return Err(format!("{status} {body}")),
            Attempt::Unknown(why) => return Err(why),
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(format!("no server for {PATIENCE:?}"))
}
