//! `cargo xtask bench --garbage N`: N dependents lose their owner, once all of one owner and once a hundred each of N/100
//! owners; then a namespace with N objects is deleted. Time and CPU from the deletion until the last one is gone, for us and for kube-apiserver + etcd +
//! kube-controller-manager, whose request limits are lifted: at its defaults they alone would take minutes per 1000.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use reqwest::{Client, Method};
use serde_json::{Value, json};

use super::{cpu_seconds, rss_mib};
use crate::conformance::servers::Running;

/// Creates under way at once.
const WRITERS: usize = 32;
/// Dependents of each owner in the second scenario.
const PER_OWNER: usize = 100;
/// How often the count of those left is asked for.
const POLL: Duration = Duration::from_millis(250);
/// A server that has not done it by then is stuck.
const DEADLINE: Duration = Duration::from_secs(3600);

/// What one scenario took.
pub struct Figures {
    pub scenario: &'static str,
    pub seconds: f64,
    pub cpu_seconds: f64,
    pub rss_mib: f64,
}

/// What goes, and with it everything else.
#[derive(Clone, Copy)]
enum Deleted {
    Owners(usize),
    Namespace,
}

/// Runs the scenarios on a server that has its controllers.
pub fn measure(name: &str, running: &Running, dependents: usize) -> Result<Vec<Figures>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let client = Client::builder().danger_accept_invalid_certs(true).no_proxy().build()?;
    let api = Api { client, base: running.server.base().to_owned() };
    let mut figures = Vec::new();
    for (scenario, namespace, deleted) in [
        ("dependents of one owner", "one", Deleted::Owners(1)),
        ("100 dependents of each owner", "many", Deleted::Owners(dependents.div_ceil(PER_OWNER))),
        ("objects of a namespace", "whole", Deleted::Namespace),
    ] {
        runtime.block_on(prepare(&api, namespace, deleted, dependents))?;
        let usage = || running.pids().iter().map(|pid| cpu_seconds(*pid)).sum::<f64>();
        settle(&usage);
        let (before, started) = (usage(), Instant::now());
        runtime.block_on(collect(&api, namespace, deleted))?;
        let seconds = started.elapsed().as_secs_f64();
        settle(&usage);
        let result = Figures {
            scenario,
            seconds,
            cpu_seconds: usage() - before,
            rss_mib: running.pids().iter().map(|pid| rss_mib(*pid)).sum(),
        };
        println!("{name}: {dependents} {scenario}: {seconds:.1} s, {:.1} CPU s", result.cpu_seconds);
        figures.push(result);
    }
    Ok(figures)
}

/// Waits until the server is at rest, so that neither the creates are counted nor the rest of the work left out.
fn settle(usage: &impl Fn() -> f64) {
    let mut last = usage();
    for _ in 0..60 {
        std::thread::sleep(Duration::from_secs(1));
        let now = usage();
        if now - last < 0.15 {
            return;
        }
        last = now;
    }
}

#[derive(Clone)]
struct Api {
    client: Client,
    base: String,
}

impl Api {
    async fn send(&self, method: Method, path: &str, body: &Value) -> Result<Value> {
        let request = self.client.request(method, format!("{}{path}", self.base)).bearer_auth("admin-token");
        let request = if body.is_null() { request } else { request.json(body) };
        let response = request.send().await?;
        let status = response.status();
        let text = response.text().await?;
        ensure!(status.is_success(), "{path}: {status}: {text}");
        Ok(serde_json::from_str(&text)?)
    }

    async fn left(&self, namespace: &str) -> Result<u64> {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps?labelSelector=role%3Ddependent&limit=1");
        let page = self.send(Method::GET, &path, &Value::Null).await?;
        Ok(page.pointer("/items").and_then(Value::as_array).context("not a list")?.len() as u64)
    }
}

async fn prepare(api: &Api, namespace: &str, deleted: Deleted, dependents: usize) -> Result<()> {
    let owners = match deleted {
        Deleted::Owners(owners) => owners,
        Deleted::Namespace => 0,
    };
    api.send(Method::POST, "/api/v1/namespaces", &json!({"metadata": {"name": namespace}})).await?;
    let maps: Arc<str> = format!("/api/v1/namespaces/{namespace}/configmaps").into();
    let mut references = Vec::with_capacity(owners);
    for number in 0..owners {
        let name = format!("owner-{number}");
        let owner = json!({"metadata": {"name": name, "labels": {"role": "owner"}}});
        let made = api.send(Method::POST, &maps, &owner).await?;
        let uid = made.pointer("/metadata/uid").cloned().context("an object without uid")?;
        references.push(json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid}]));
    }
    let (references, next) = (Arc::new(references), Arc::new(AtomicUsize::new(0)));
    let mut writers = tokio::task::JoinSet::new();
    for _ in 0..WRITERS {
        let (api, maps, references, next) = (api.clone(), maps.clone(), references.clone(), next.clone());
        writers.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= dependents {
                    return anyhow::Ok(());
                }
                let reference = references.get(number % references.len().max(1));
                let metadata = json!({
                    "name": format!("d-{number}"), "labels": {"role": "dependent"}, "ownerReferences": reference,
                });
                api.send(Method::POST, &maps, &json!({"metadata": metadata})).await?;
            }
        });
    }
    while let Some(written) = writers.join_next().await {
        written??;
    }
    Ok(())
}

async fn collect(api: &Api, namespace: &str, deleted: Deleted) -> Result<()> {
    let path = match deleted {
        Deleted::Owners(_) => format!("/api/v1/namespaces/{namespace}/configmaps?labelSelector=role%3Downer"),
        Deleted::Namespace => format!("/api/v1/namespaces/{namespace}"),
    };
    api.send(Method::DELETE, &path, &json!({"propagationPolicy": "Background"})).await?;
    let deadline = Instant::now() + DEADLINE;
    while api.left(namespace).await? > 0 {
        ensure!(Instant::now() < deadline, "dependents are left after {DEADLINE:?}");
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}
