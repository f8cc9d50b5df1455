//! Everybody who uses the cluster while it is troubled, and the few objects they need.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::client::{Client, Request};
use super::cluster::Cluster;
use super::families::{Expected, Families};
use super::informer::{FENCE, Informer, Seen};
use super::report::Findings;
use super::writer::{Sort, Writer, Written};

const WRITERS: usize = 6;
const INFORMERS: usize = 6;
/// Writers that increase one counter together.
const COUNTERS: usize = 2;
const COUNTER: &str = "/api/v1/namespaces/chaos-families/configmaps/counter";
/// How long informers may take to see the end, once everything is up.
const CATCH_UP: Duration = Duration::from_secs(90);

/// See the module.
pub struct Workload {
    stop: Arc<AtomicBool>,
    writers: Vec<JoinHandle<Written>>,
    informers: Vec<JoinHandle<Seen>>,
    families: JoinHandle<Expected>,
    counters: Vec<JoinHandle<Counted>>,
}

/// What all of them have done and seen.
pub struct All {
    pub written: Vec<Written>,
    pub seen: Vec<Seen>,
    pub expected: Expected,
    pub counted: Counted,
}

/// Increments of the shared counter.
#[derive(Clone, Copy, Default)]
pub struct Counted {
    pub acknowledged: u64,
    /// Of unknown fate.
    pub uncertain: u64,
}

impl Workload {
    /// Makes what is needed and starts everybody.
    pub async fn start(cluster: &Arc<Cluster>, findings: &Arc<Findings>, seed: u64) -> Result<Self> {
        let client = cluster.client(seed)?;
        prepare(&client).await?;
        let stop = Arc::new(AtomicBool::new(false));
        let client = |number: usize| cluster.client(seed.wrapping_mul(31).wrapping_add(number as u64));
        let mut workload = Self {
            informers: Vec::new(),
            writers: Vec::new(),
            counters: Vec::new(),
            families: tokio::spawn(Families::new(client(1000)?, findings.clone()).run(stop.clone())),
            stop: stop.clone(),
        };
        for number in 0..INFORMERS {
            workload.informers.push(tokio::spawn(Informer::new(number, client(100 + number)?, findings.clone()).run()));
        }
        for number in 0..WRITERS {
            let writer = Writer::new(number, client(number)?, findings.clone());
            workload.writers.push(tokio::spawn(writer.run(stop.clone())));
        }
        for number in 0..COUNTERS {
            workload.counters.push(tokio::spawn(count(client(200 + number)?, findings.clone(), stop.clone())));
        }
        Ok(workload)
    }

    /// Lets everybody finish and gathers what they know.
    pub async fn finish(self, cluster: &Arc<Cluster>, findings: &Arc<Findings>) -> Result<All> {
        self.stop.store(true, Ordering::Relaxed);
        let mut written = Vec::new();
        for writer in self.writers {
            written.push(writer.await.context("a writer panicked")?);
        }
        let mut counted = Counted::default();
        for counter in self.counters {
            let one = counter.await.context("a counter panicked")?;
            counted.acknowledged += one.acknowledged;
            counted.uncertain += one.uncertain;
        }
        let expected = self.families.await.context("the families panicked")?;
        let client = cluster.client(7)?;
        for sort in Sort::ALL {
            create(&client, sort.collection(), fence(sort)).await?;
        }
        let mut seen = Vec::new();
        for informer in self.informers {
            match tokio::time::timeout(CATCH_UP, informer).await {
                Ok(informer) => seen.push(informer.context("an informer panicked")?),
                Err(_) => findings.violation(format!("an informer has not seen the end within {CATCH_UP:?}")),
            }
        }
        Ok(All { written, seen, expected, counted })
    }
}

async fn prepare(client: &Client) -> Result<()> {
    for name in ["chaos", "chaos-families"] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        create(client, "/api/v1/namespaces", namespace).await?;
    }
    let schema = json!({"type": "object", "properties": {
        "data": {"type": "object", "properties": {"token": {"type": "string"}}},
    }});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.chaos.example.com"},
        "spec": {
            "group": "chaos.example.com", "scope": "Namespaced", "versions": [version],
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
        },
    });
    create(client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await?;
    let counter = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "counter"}, "data": {"count": "0"},
    });
    create(client, "/api/v1/namespaces/chaos-families/configmaps", counter).await?;
    // Each server takes up a definition when it hears of it.
    for _ in 0..100 {
        let mut served = 0;
        for _ in 0..client.servers() {
            client.leave();
            let answer = client.attempt(&client.server(), &Request::get(Sort::Widget.collection())).await;
            served += usize::from(matches!(answer, super::client::Attempt::Answered(200, _)));
        }
        if served == client.servers() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    bail!("the definition of widgets is not served by all servers")
}

pub async fn create(client: &Client, collection: &str, object: Value) -> Result<Value> {
    let request = Request::with_body(Method::POST, collection, object);
    let answer = client.send(&request).await.with_context(|| format!("{collection}: no answer"))?;
    anyhow::ensure!(answer.status == 201, "creating in {collection}: {} {}", answer.status, answer.body);
    Ok(answer.body)
}

fn fence(sort: Sort) -> Value {
    match sort {
        Sort::ConfigMap => json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": FENCE}}),
        Sort::Widget => json!({"apiVersion": "chaos.example.com/v1", "kind": "Widget", "metadata": {"name": FENCE}}),
    }
}

/// Increases the counter that others increase too, as careful clients do: read, add one, replace if unchanged.
async fn count(client: Client, findings: Arc<Findings>, stop: Arc<AtomicBool>) -> Counted {
    let mut counted = Counted::default();
    while !stop.load(Ordering::Relaxed) {
        let Some(mut found) = client.send(&Request::get(COUNTER)).await else { continue };
        if found.status != 200 {
            findings.violation(format!("the counter: {} {}", found.status, found.body));
            break;
        }
        found.body["data"]["count"] = (count_of(&found.body) + 1).to_string().into();
        let Some(answer) = client.send(&Request::with_body(Method::PUT, COUNTER, found.body)).await else {
            counted.uncertain += 1;
            continue;
        };
        match answer.status {
            200 => {
                findings.wrote(answer.took);
                counted.acknowledged += 1;
            }
            // Somebody was faster, or it was ourselves.
            409 => counted.uncertain += u64::from(answer.uncertain),
            status => findings.violation(format!("replacing the counter: {status} {}", answer.body)),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    counted
}

/// The number in the counter.
pub fn count_of(counter: &Value) -> u64 {
    counter.pointer("/data/count").and_then(Value::as_str).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The counter as it is.
pub async fn read_counter(client: &Client) -> Result<u64> {
    let answer = client.send(&Request::get(COUNTER)).await.context("the counter: no answer")?;
    Ok(count_of(&answer.body))
}
