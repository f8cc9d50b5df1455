//! `cargo xtask bench --flood`: what one client notices of another that floods the server with a hundred connections.
//! Both have the same rights and belong to the same priority level; the quiet one asks for one object at a time.
//!
//! Both stand for other machines, and what is measured is how the server shares itself, not how this machine's cores are
//! shared between three programs. So the noisy client gets the time that nobody else wants, and gives it up at once
//! (SCHED_IDLE; a process that is only nice may finish its turn of up to 4 ms first), and the quiet one does not wait for a
//! core (SCHED_FIFO, where that is allowed; it says so where it is not).

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use reqwest::{Client, Method};
use serde_json::{Value, json};

use crate::conformance::servers::Running;

/// Connections of the noisy client.
const CONNECTIONS: usize = 100;
/// How often the quiet client asks, and how many times per phase.
const QUIET_PERIOD: Duration = Duration::from_millis(5);
const QUIET_REQUESTS: usize = 1000;
/// Phases without and with the flood take turns, this often each: a shared machine has bad moments.
const ROUNDS: usize = 3;
/// Objects that the noisy client lists.
const OBJECTS: usize = 500;

const MAPS: &str = "/api/v1/namespaces/flood/configmaps";

/// A client of the given user: the administrator impersonates, so that both servers need no other set-up.
#[derive(Clone)]
struct User {
    client: Client,
    base: String,
    name: &'static str,
}

impl User {
    fn new(base: &str, name: &'static str) -> Result<Self> {
        let client = Client::builder().danger_accept_invalid_certs(true).http1_only().no_proxy();
        Ok(Self { client: client.pool_max_idle_per_host(1).build()?, base: base.to_owned(), name })
    }

    async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<u16> {
        let mut request = self.client.request(method, format!("{}{path}", self.base)).bearer_auth("admin-token");
        if self.name != "admin" {
            request = request.header("Impersonate-User", self.name);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await?;
        let status = response.status().as_u16();
        response.bytes().await?;
        Ok(status)
    }
}

/// Latencies in milliseconds.
#[derive(Default)]
struct Latencies(Vec<f64>);

impl Latencies {
    fn extend(&mut self, more: Vec<f64>) {
        self.0.extend(more);
        self.0.sort_by(f64::total_cmp);
    }

    fn at(&self, part: f64) -> f64 {
        let index = ((self.0.len() as f64 * part) as usize).min(self.0.len().saturating_sub(1));
        self.0.get(index).copied().unwrap_or_default()
    }
}

/// Measures and prints one server's row for each kind of flood.
pub fn measure(name: &str, running: &Running) -> Result<()> {
    let base = running.server.base().to_owned();
    runtime()?.block_on(prepare(&base))?;
    let floods = [("gets of one object", format!("{MAPS}/m0")), ("lists of 500 objects", MAPS.to_owned())];
    for (what, path) in floods {
        let (mut idle, mut flooded) = (Latencies::default(), Latencies::default());
        let (mut rate, mut turned_away) = (0.0, 0);
        for _ in 0..ROUNDS {
            idle.extend(quiet(&base)?);
            let noise = Noise::start(&base, &path)?;
            flooded.extend(quiet(&base)?);
            let (in_round, away) = noise.stop()?;
            rate += in_round / ROUNDS as f64;
            turned_away += away;
        }
        println!(
            "| {name}, {what} at {rate:.0}/s | p50 {:.2} → {:.2} ms | p99 {:.2} → {:.2} ms | {:.1}x | {turned_away} turned away |",
            idle.at(0.5),
            flooded.at(0.5),
            idle.at(0.99),
            flooded.at(0.99),
            flooded.at(0.99) / idle.at(0.99),
        );
    }
    Ok(())
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// What the quiet client sees of one phase.
fn quiet(base: &str) -> Result<Vec<f64>> {
    let waits_for_no_core =
        Command::new("chrt").args(["--fifo", "1", "true"]).status().is_ok_and(|done| done.success());
    let mut command = match waits_for_no_core {
        true => Command::new("chrt"),
        false => Command::new("env"),
    };
    if waits_for_no_core {
        command.args(["--fifo", "1"]);
    } else {
        println!("the quiet client waits for a core as others do: no right to SCHED_FIFO");
    }
    let output = command
        .arg(std::env::current_exe()?)
        .args(["bench", "--quiet-from-here", base])
        .stderr(Stdio::inherit())
        .output()
        .context("starting the quiet client")?;
    ensure!(output.status.success(), "the quiet client failed");
    let text = String::from_utf8(output.stdout)?;
    text.lines().map(|line| line.parse().context("a latency of the quiet client")).collect()
}

/// The quiet client's own process: prints each latency.
pub fn quiet_from_here(base: &str) -> Result<()> {
    for latency in runtime()?.block_on(ask(base))? {
        println!("{:.4}", latency.as_secs_f64() * 1000.0);
    }
    Ok(())
}

/// The namespace, its objects, and the rights of both clients.
async fn prepare(base: &str) -> Result<()> {
    let admin = User::new(base, "admin")?;
    let role = json!({
        "metadata": {"name": "flood"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}],
    });
    let user = |name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name});
    let binding = json!({
        "metadata": {"name": "flood"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "flood"},
        "subjects": [user("noisy"), user("quiet")],
    });
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let mut objects = vec![
        ("/api/v1/namespaces".to_owned(), json!({"metadata": {"name": "flood"}})),
        (format!("{rbac}/clusterroles"), role),
        (format!("{rbac}/clusterrolebindings"), binding),
    ];
    for number in 0..OBJECTS {
        let data = json!({"filler": "x".repeat(1000)});
        objects.push((MAPS.to_owned(), json!({"metadata": {"name": format!("m{number}")}, "data": data})));
    }
    for (path, object) in objects {
        let status = admin.send(Method::POST, &path, Some(&object)).await?;
        ensure!(matches!(status, 201 | 409), "{path}: {status}");
    }
    // The peer sees new bindings a moment later.
    tokio::time::sleep(Duration::from_secs(2)).await;
    Ok(())
}

/// Asks for one object, again and again, with pauses.
async fn ask(base: &str) -> Result<Vec<Duration>> {
    let quiet = User::new(base, "quiet")?;
    let path = format!("{MAPS}/m1");
    let mut latencies = Vec::with_capacity(QUIET_REQUESTS);
    for number in 0..QUIET_REQUESTS + 100 {
        let before = Instant::now();
        let status = quiet.send(Method::GET, &path, None).await?;
        ensure!(status == 200, "the quiet client was answered {status}");
        // The first ones pay for the connection.
        if number >= 100 {
            latencies.push(before.elapsed());
        }
        tokio::time::sleep(QUIET_PERIOD).await;
    }
    Ok(latencies)
}

/// The noisy client, running.
struct Noise(Child);

impl Noise {
    /// Returns once every connection has had an answer, or after ten seconds.
    fn start(base: &str, path: &str) -> Result<Self> {
        let mut child = Command::new("chrt")
            .args(["--idle", "0"])
            .arg(std::env::current_exe()?)
            .args(["bench", "--flood-from-here", &format!("{base} {path}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting the noisy client")?;
        let mut begun = [0];
        child.stdout.as_mut().context("invariant: stdout is piped")?.read_exact(&mut begun)?;
        Ok(Self(child))
    }

    /// How many requests per second were answered, and how many were turned away in all.
    fn stop(mut self) -> Result<(f64, u64)> {
        drop(self.0.stdin.take());
        let output = self.0.wait_with_output()?;
        let text = String::from_utf8(output.stdout)?;
        let (rate, turned_away) = text.trim().split_once(' ').context("the noisy client says what it did")?;
        Ok((rate.parse()?, turned_away.parse()?))
    }
}

/// The noisy client's own process: floods `target`, a base URL and a path, until its input ends.
pub fn flood_from_here(target: &str) -> Result<()> {
    let (base, path) = target.split_once(' ').context("a base URL and a path")?;
    let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    {
        let (stop, sent) = (stop.clone(), sent.clone());
        std::thread::spawn(move || {
            let began = Instant::now();
            while sent.load(Ordering::Relaxed) < CONNECTIONS as u64 && began.elapsed() < Duration::from_secs(10) {
                std::thread::sleep(Duration::from_millis(10));
            }
            // Whoever started us is gone when this cannot be written, and then the input has ended too.
            let _ = std::io::stdout().write_all(b"\n").and_then(|()| std::io::stdout().flush());
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            stop.store(true, Ordering::Relaxed);
        });
    }
    let began = Instant::now();
    let turned_away = runtime()?.block_on(flood(base, path, &stop, &sent))?;
    println!("{:.0} {turned_away}", sent.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64());
    Ok(())
}

/// Sends as fast as answers come, on all connections, until told to stop; how many were turned away.
async fn flood(base: &str, path: &str, stop: &Arc<AtomicBool>, sent: &Arc<AtomicU64>) -> Result<u64> {
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        let noisy = User::new(base, "noisy")?;
        let (path, stop, sent) = (path.to_owned(), stop.clone(), sent.clone());
        connections.push(tokio::spawn(async move {
            let mut turned_away = 0;
            while !stop.load(Ordering::Relaxed) {
                if let Ok(429) = noisy.send(Method::GET, &path, None).await {
                    turned_away += 1;
                }
                sent.fetch_add(1, Ordering::Relaxed);
            }
            turned_away
        }));
    }
    let mut turned_away = 0;
    for connection in connections {
        turned_away += connection.await.context("a connection of the flood")?;
    }
    Ok(turned_away)
}
